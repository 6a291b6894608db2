"""What is kept with a session of the inputs that it runs with: its playbook, policies, settings."""

from __future__ import annotations

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.project.expressions.bound_conditions import bound
from playbook_supervisor.project.playbooks import schema
from playbook_supervisor.project.policies import session_policy
from playbook_supervisor.project.policies.session_policy import Policy
from playbook_supervisor.project.settings import config, session_settings
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.sessions.files.manifest import Manifest
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.disk.files import read_bytes


def pinned_playbook(
    store: DiskStore, session_id: str, manifest: Manifest | None
) -> Playbook | None:
    """The session's own playbook with its args; None if it is missing or unreadable."""
    try:
        data = read_bytes(store.reading(session_id) / "playbook.yaml")
        playbook = schema.read_playbook(data, "playbook.yaml")
        return bound(playbook, manifest.args) if manifest else playbook
    except (FileNotFoundError, PlaybookError):
        return None


def pinned_policy(store: DiskStore, session_id: str) -> Policy:
    """The session's policies; empty if they are missing or unreadable."""
    source = session_policy.FILE
    try:
        data = read_bytes(store.reading(session_id) / source)
        return session_policy.read_policy(data, source)
    except (FileNotFoundError, PlaybookError):
        return Policy()


def pinned_settings(store: DiskStore, session_id: str) -> Config:
    """The session's settings, else the project's. CheckError, StateError if they are unreadable."""
    source = session_settings.FILE
    try:
        data = read_bytes(store.reading(session_id) / source)
    except FileNotFoundError:
        return config.load(store.checkout.root)
    return session_settings.read_settings(data, source)


def settings_of(store: DiskStore, session_id: str) -> Config:
    """As `pinned_settings`; those of the project where no session is named."""
    return pinned_settings(store, session_id) if session_id else config.load(store.checkout.root)
