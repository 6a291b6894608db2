"""A deterministic supervisor for Claude Code slash commands.

From Python: `list_playbooks`, `load_playbook`, `check`, `run`, `resume`, `envelope`. They are
imported at their first use, so that `import playbook_supervisor` stays cheap.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.commands.api.python import (
        check,
        envelope,
        list_playbooks,
        load_playbook,
        resume,
        run,
    )

__all__ = [
    "__version__",
    "check",
    "envelope",
    "list_playbooks",
    "load_playbook",
    "resume",
    "run",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from playbook_supervisor.commands.api import python  # importing the package stays cheap

    return getattr(python, name)
