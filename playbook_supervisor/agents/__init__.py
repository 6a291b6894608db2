"""Coding agents that carry out one step and say how it ended: a protocol, a literal registry and
one module each, without knowledge of the journal."""
