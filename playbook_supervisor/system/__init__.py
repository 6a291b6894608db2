"""Files, locks, processes, git and the forge. The only package that starts a program.

Nothing here knows what a session or a playbook is.
"""
