"""One session: its files, its journal, its engine, and the tree of its children."""
