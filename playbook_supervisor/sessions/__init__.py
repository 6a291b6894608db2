"""One session: its files, its journal, its local state and the engine that asks the kernel, without
knowledge of who drives it."""
