"""A session in a worktree of its own: `start` and `finish`."""
