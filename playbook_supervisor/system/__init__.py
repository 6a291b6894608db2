"""Files, locks, processes, git and GitHub, and the only package that starts a program, without
knowledge of sessions and playbooks."""
