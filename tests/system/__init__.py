"""Files, processes, git and the system below them, as they really are."""
