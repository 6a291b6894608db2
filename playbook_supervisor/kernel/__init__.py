"""What must happen next: a pure function of the playbook, the journal and an observation.

No files, clocks, processes or random numbers.
"""
