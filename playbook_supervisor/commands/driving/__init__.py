"""What moves a session: run, resume, answer, pause, abort, and the client protocol."""
