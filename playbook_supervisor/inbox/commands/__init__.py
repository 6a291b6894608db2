"""Use cases of the inbox: what waits, who may answer, an answer, reminders."""
