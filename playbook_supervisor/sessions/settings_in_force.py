"""The settings of a session and those of the project: what differs, and taking the latter over."""

from __future__ import annotations

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project import config, session_settings
from playbook_supervisor.sessions import pinned_inputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.sessions.principal import Principal
    from playbook_supervisor.sessions.session_store import SessionStore

_SHOWN = 160  # characters of a value in a sentence


def difference(store: SessionStore, session_id: str) -> str:
    """How the project's settings differ from the session's, in one sentence; empty if they do not.

    Settings that cannot be read differ, too. The session's own settings apply in any case.
    """
    with store.open(session_id) as opened:
        kept = opened.config
    try:
        found = session_settings.changes(kept, config.load(store.checkout.root))
    except PlaybookError as error:
        return f"the project's settings cannot be read: {error.message} ({error.where})"
    changed = [f"{key} was {_short(old)} and is {_short(new)}" for key, old, new in found]
    if not changed:
        return ""
    return f"the settings changed since the session began: {'; '.join(changed)}"


def kept(told: str, session_id: str, *, typed: bool = False) -> str:
    """The notice about a difference that is not accepted; `typed`: to a person in Claude Code."""
    command = "/playbook.resume" if typed else f"playbook resume {session_id}"
    return f"{told}; the session keeps its own. `{command} --accept-config` takes the new ones"


def pin_missing(store: SessionStore, session_id: str) -> str:
    """Pin the present settings of a session that an earlier version began; a notice if it did."""
    with store.open(session_id) as opened:
        if pinned_inputs.has_settings(opened.runtime):
            return ""
        opened.pin_settings()
    return f"session {session_id} keeps the settings of today from now on"


def accept(store: SessionStore, session_id: str, by: Principal) -> None:
    """Run under the project's present settings. session.yaml records who accepted what."""
    with store.open(session_id) as opened:
        former = opened.config
        opened.pin_settings()
        if changed := list(session_settings.changes(former, opened.config)):
            what = f"changed settings: {', '.join(key for key, *_ in changed)}"
            opened.confirm(what, by.name, store.clock())
            opened.write()
        opened.copy()


def _short(value: str) -> str:
    return first_line(value, _SHOWN)
