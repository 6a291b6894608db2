"""What carries directives out: the headless runner here, Claude Code with its hooks beside it."""
