"""Secrets by handle (tyr 28): a playbook and a session name a secret and never contain it.

A handle is a name under `secrets` in the config, whose program prints the value, or else an
environment variable.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.project.config import Config


def known(handle: str, config: Config) -> bool:
    """Whether a handle names a secret here; its value is not looked at."""
    return handle in config.secrets or bool(os.environ.get(handle))
