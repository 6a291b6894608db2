"""Driving a session from inside Claude Code: what is installed there, and what its hooks do."""
