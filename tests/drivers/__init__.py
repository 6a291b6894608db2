"""Tests of drivers."""
