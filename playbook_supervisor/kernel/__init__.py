"""Decides what must happen next from the playbook, the journal and an observation, as a pure
function: no files, clocks, processes or random numbers."""
