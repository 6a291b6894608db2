"""Conditions and triggers, their probes of the project, verdicts, tasks and features."""
