"""Files and locks: atomic writes, logs, stamps, the state folder of the user."""
