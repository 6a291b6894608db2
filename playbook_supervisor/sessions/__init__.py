"""One session: its files, its journal, its local state, and the engine that asks the kernel.

Who drives the session is not known here.
"""
