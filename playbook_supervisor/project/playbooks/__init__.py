"""Playbook files: reading, validating and finding them, with the child playbooks."""
