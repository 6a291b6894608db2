"""Tests against the real clients of other agents, each pinned, with a scripted model."""
