"""The inbox: its pages in a real browser, its refusals, and the people who come in."""
