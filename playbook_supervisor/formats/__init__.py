"""Converts text to data and back: strict YAML and JSON, values with their positions, and edits that
keep the layout; pure, and without knowledge of what the data mean."""
