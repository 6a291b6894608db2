"""Commits of a session: what they take, and on which branch they may be."""
