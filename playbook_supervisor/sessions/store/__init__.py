"""Sessions in a checkout: create, open, continue, find."""
