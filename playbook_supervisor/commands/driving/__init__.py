"""Commands that move a session: run, resume, answer, pause, abort, and the client protocol."""
