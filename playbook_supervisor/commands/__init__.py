"""One function for each subcommand, for the command line and for Python alike.

Functions take and return data. No words on a screen, and no exit codes.
"""
