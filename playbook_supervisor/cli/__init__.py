"""The command line: one plain function per subcommand, data in, exit code out.

The subcommands have never heard of click; `everyday`, `mending` and `protocol` declare them to it.
"""
