"""`playbook fleet`: declarations of its subcommands, and what they print."""
