"""What `init` and `update` write into a project, and how they recognise it later."""
