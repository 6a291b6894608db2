"""The inbox is opened, and answers, for a person: for no process that an agent has started."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.drivers import own_agents
from playbook_supervisor.drivers.claude_code import authorization
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.inbox.commands.repository import Row
from playbook_supervisor.system.process.ancestry import Process
from playbook_supervisor.system.process.peer_process import Peer

_WHAT = "answer in the inbox"


@dataclass(frozen=True, slots=True)
class Answerer:
    """A person. `name` is empty for the user of this machine, whom each repository's git names.

    `peer` is the other end; None if the system does not tell. `proxied`: it is a proxy.
    """

    name: str
    peer: Peer | None = None
    proxied: bool = False


def require_owner(roots: Collection[Path], what: str) -> None:
    """StateError PB-STATE-HUMAN-ONLY unless the user of this machine may have started this process.

    It is not below an agent of one of these repositories, nor in a shell of Claude Code.
    """
    if locate.in_claude_code():
        raise StateError("PB-STATE-HUMAN-ONLY", f"only a human may {what}, not Claude Code")
    for root in roots:
        with suppress(PlaybookError):  # it is gone, and so are its agents
            store = locate.store(root)
            if reason := own_agents.above(store.checkout):
                break
    else:
        return
    raise StateError("PB-STATE-HUMAN-ONLY", f"only a human may {what}, but {reason}")


def require_person(row: Row, who: Answerer) -> None:
    """StateError PB-STATE-HUMAN-ONLY unless a person may be at the other end.

    Neither this process nor the one at the other end may have been started by an agent. A process
    that cannot be seen is refused, unless it is a proxy of another user.
    """
    store = row.seen.store
    own_agents.require_none_above(store.checkout, "inbox")
    private = store.runtime(locate.driven_as(store, row.session_id))
    _require_at_other_end(who, partial(authorization.require_person_at, store.checkout, private))


def require_person_anywhere(who: Answerer) -> None:
    """As `require_person`, for a session elsewhere: an agent of any repository is refused."""
    own_agents.require_none_anywhere("inbox")
    if locate.in_claude_code():
        raise StateError("PB-STATE-HUMAN-ONLY", f"only a human may {_WHAT}, not Claude Code")
    _require_at_other_end(who, authorization.require_person_anywhere_at)


def _require_at_other_end(who: Answerer, require_at: Callable[[Process, str], None]) -> None:
    """The superuser sees processes of all users, and answers for none of them but his own."""
    if who.peer is None or not who.peer.local:
        return
    for process in who.peer.processes:
        require_at(process, _WHAT)
    other = who.peer.user not in (-1, *_own_users())
    if other and who.proxied:
        return
    if other or not who.peer.processes:
        what = "belongs to another user" if other else "is unknown"
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            f"only a human may {_WHAT}, but the process that asks for it {what}",
            guidance="Use a browser of your own account; for a proxy, start with --behind-proxy.",
        )


def _own_users() -> tuple[int, ...]:
    """Ours, and that of the person whom `sudo` has made the superuser."""
    behind = os.environ.get("SUDO_UID", "") if os.getuid() == 0 else ""
    return (os.getuid(), *((int(behind),) if behind.isdecimal() else ()))
