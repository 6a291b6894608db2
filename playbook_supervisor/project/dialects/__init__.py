"""Files of other systems, translated to playbooks of version 1.1 when they are read."""
