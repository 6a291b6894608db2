"""Isolation: what a program may write, see and reach while a supervisor outside watches it."""
