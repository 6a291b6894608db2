"""Coding agents behind the headless runner: a protocol, a literal registry, one module each.

Agents carry out one step and say how it ended. They know nothing of the journal.
"""
