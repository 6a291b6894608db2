"""The command line: declarations, the error handler and rendering, but no logic."""
