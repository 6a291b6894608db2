"""Drivers carry directives out: the headless runner, and Claude Code's hooks.

A driver decides nothing. It asks the session's supervisor what is outstanding, has it done, and
reports what came back.
"""
