"""The fleet: its database, its refs, its workers, and what survives when they are killed."""
