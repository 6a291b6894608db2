"""The executors: one file for each kind of step that needs no agent."""
