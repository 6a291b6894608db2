"""Sessions in worktrees of their own: how they start, and how they are removed after the merge."""
