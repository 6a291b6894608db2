"""Claude Code as an agent: headless, by its stream, its control protocol and its transcripts."""
