"""The values in a playbook: references, arguments, requirements, patterns, loop items."""
