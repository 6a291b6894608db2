"""The functions for programs: for Python, and for `playbook rpc`."""
