"""Text to data and back: strict YAML and JSON, located values, edits that keep a layout.

Pure. What the data mean is decided elsewhere.
"""
