"""The commands that inspect and repair, a file each: a declaration, and what it prints."""
