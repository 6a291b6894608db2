"""Views of sessions: their state, progress, logs, files and differences."""
