"""The files that `init` and `update` write into a project, and how they recognise them later."""
