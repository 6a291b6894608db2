"""The command line: declarations, the error handler and rendering. No logic."""
