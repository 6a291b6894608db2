"""A deterministic supervisor for Claude Code slash commands."""

__version__ = "0.1.0"
