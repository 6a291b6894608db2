"""What people wrote in the repository: playbooks, settings, policies, features, commands, reports.

What happened in a session belongs to `sessions`.
"""
