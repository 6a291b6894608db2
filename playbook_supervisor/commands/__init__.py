"""One function for each subcommand, called by the command line and from Python: data in, data out,
no text for a screen and no exit codes."""
