"""What a command does if the project's settings differ from those that its session keeps."""

from __future__ import annotations

from collections.abc import Callable

from playbook_supervisor.commands import locate
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.sessions import principal, settings_in_force
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.sessions.supervisor import Supervisor


def tell(
    supervisor: Supervisor,
    observer: Observer,
    confirm: Callable[[str], bool] | None = None,
    *,
    accept: bool = False,
) -> None:
    """Say how the project's settings differ from the session's; take them if a person confirms."""
    store, session_id = supervisor.store, supervisor.id
    driver_lock.require_no_runner(supervisor.private)
    if pinned := settings_in_force.pin_missing(store, session_id):
        observer.on_notice(pinned)
    told, shown = settings_in_force.difference(store, session_id)
    if told and not accept and confirm is not None:
        accept = confirm(f"{told}. Use them from now on?")
    if told and accept:
        locate.require_human(store, session_id, "resume --accept-config")
        by = principal.local(store.checkout.root, "a command")
        settings_in_force.accept(store, session_id, by, shown)
        observer.on_notice(f"{told}; accepted")
    elif told:
        observer.on_notice(settings_in_force.kept(told, session_id))


def notice(store: DiskStore, session_id: str) -> str:
    """What to know about the settings once an answer is recorded; no error can undo that."""
    try:
        told, _ = settings_in_force.difference(store, session_id)
    except PlaybookError as error:
        return f"recorded, but the settings are not compared: {error.message}"
    return settings_in_force.kept(told, session_id) if told else ""
