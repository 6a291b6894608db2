"""Reads any journal, whatever tool wrote it, and judges what cannot be true of it.

Nothing here uses the engine that writes journals, and nothing here changes a file.
"""
