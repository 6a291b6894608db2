"""Reads any journal, whichever tool wrote it, and reports what cannot be true of it, without using
the engine and without changing a file."""
