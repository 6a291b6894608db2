"""The commands of every day, a file each: a declaration, and what it prints."""
