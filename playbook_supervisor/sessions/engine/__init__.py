"""One session: asks the kernel what is next, carries out checks, records what comes back."""
