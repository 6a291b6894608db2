"""Many machines: a worker takes a session under a lease, and advances it until it waits or ends."""
