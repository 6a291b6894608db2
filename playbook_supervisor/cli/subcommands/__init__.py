"""The subcommands that click parses: declarations, and what they print."""
