"""Sessions in worktrees of their own: started, and removed once their work is merged."""
