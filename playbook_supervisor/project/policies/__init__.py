"""Policies: who may decide what, in one session and in a folder."""
