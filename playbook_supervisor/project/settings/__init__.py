"""The settings of a project, for all sessions and for one."""
