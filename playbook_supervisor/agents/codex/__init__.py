"""Codex as an agent, by its app-server."""
