"""The files of a session: their formats, digests and places. They know no open session."""
