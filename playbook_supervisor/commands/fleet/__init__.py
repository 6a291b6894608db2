"""The commands of the fleet: submit, work, answer, cancel, and its care."""
