"""The server of the inbox: access, limits, pages, events."""
