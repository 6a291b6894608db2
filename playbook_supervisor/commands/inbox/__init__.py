"""The inbox: which repositories and people it knows, what waits in them, and how it answers."""
