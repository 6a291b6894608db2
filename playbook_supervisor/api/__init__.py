"""One function for each subcommand: what the command line calls, and all that it calls.

Data in, data out, errors raised; nothing is printed here. Rooms are imported inside the functions,
so that each command pays only for what it needs.
"""
