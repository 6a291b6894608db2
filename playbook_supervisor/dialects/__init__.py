"""A house: the playbook formats of other systems, translated into ours.

Each module knows one format by its shape. The core finds them through the entry points
`playbook_supervisor.dialects`, as it finds those of other packages (docs/dialects.md).
"""
