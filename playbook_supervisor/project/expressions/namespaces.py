"""The namespaces of commands: what the first word of a step's command may be.

An installed package can provide more of them, through the entry points of its executors.
"""

from __future__ import annotations

from playbook_supervisor import plugins
from playbook_supervisor.kernel.model import CHECKPOINT, PLAYBOOK

AGENTS = ("markdown", "prompt")
"""Prompts of the playbook, for a fresh agent."""
EXECUTORS = ("branch", "cli", "commit", "http", "issue", "mcp", "pr")
"""Kinds of steps that this program carries out itself."""
RESERVED = ("node", "web")
"""Names that only an installed package can give a meaning."""
KERNEL = (CHECKPOINT, PLAYBOOK)
"""Kinds of steps that neither an agent nor an executor carries out."""


def is_known(namespace: str) -> bool:
    """True if a step can have this namespace here."""
    if namespace in (*AGENTS, *EXECUTORS, *KERNEL):
        return True
    return namespace[:1].islower() and namespace in installed()


def has_meaning(namespace: str) -> bool:
    """True if version 1.1 gives it a meaning, here or elsewhere."""
    return namespace in RESERVED or is_known(namespace)


def installed() -> tuple[str, ...]:
    """The namespaces that installed packages provide."""
    return tuple(plugins.offered(plugins.EXECUTORS))
