"""Reads what people wrote in the repository (playbooks, settings, policies, features, commands,
reports), but not what happened in a session."""
