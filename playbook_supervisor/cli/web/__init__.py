"""The inbox in a browser: who may come in, the pages, the live view. Decides nothing itself."""
