"""Carries directives out, headless or through Claude Code's hooks, and reports what came back, but
decides nothing."""
