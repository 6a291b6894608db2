"""Which Claude Code conversation drives a session, and what it has in hand.

One small JSON file beside the runtime state, and a marker by which the hooks' shell lines see in a
millisecond that a session is bound here at all. Both may be lost: `/playbook.resume` binds anew.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from playbook_supervisor.drivers.claude_code.marker import MARKER, marked
from playbook_supervisor.errors import StateError
from playbook_supervisor.records import Record, as_mapping, field
from playbook_supervisor.sessions.manifest import SESSION_ID
from playbook_supervisor.system.checkout import Checkout
from playbook_supervisor.system.files import (
    digest,
    ensure_folder,
    locked,
    read_bytes,
    remove,
    write_atomically,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

_FILE = "claude.json"
_SEAL = "digest"
_DISMISSED = 100  # agents that are remembered after their attempt was settled
_LOCK = "claude.lock"
_DIALOG = "dialog"


class Subagent(Record):
    """A subagent that was let through; its id and its model, once the client has said them."""

    skill: str
    args: str
    tool_use: str
    agent: str = ""
    model: str = ""


class Binding(Record, frozen=False):
    """The conversation that drives a session. `client` is its id, `pid` its process.

    `born` tells that process from a later one of its number. `hooked` is false where the client
    runs no hooks of ours: then the model itself asks and reports, and is taken at no word.

    `turn` says whose the running turn is; `at_work` that one runs. `workers` are the attempts
    that were launched and have not returned; `receipts` the commands that a subagent has run, by
    agent id; `said` its last words, `stops` how often it was heard to stop, less the notifications
    that it only waited: 0 is one that waits, or that has woken. `dismissed` are agents whose
    attempt is settled while they may still be at work. `question` is the gate that a dialog shows.
    `blocks` and `refusals` are counted in a row, until a launch or an answer is accepted. `heard`
    is the last end of a turn that only the transcript told of. `unseen` are attempts whose checks
    no hook makes.
    """

    session: str
    client: str
    pid: int
    turn: Literal["supervised", "human"] = "supervised"
    at_work: bool = True
    workers: dict[str, Subagent] = field(default_factory=dict)
    receipts: dict[str, list[list[str]]] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    stops: dict[str, int] = field(default_factory=dict)
    dismissed: list[str] = field(default_factory=list)
    question: str = ""
    heard: str = ""
    blocks: int = 0
    refusals: int = 0
    stalled: bool = False
    crons: list[str] = field(default_factory=list)
    born: str = ""
    hooked: bool = True
    unseen: list[str] = field(default_factory=list)

    def progress(self) -> None:
        """Something was accepted: the model is not going round in circles."""
        self.blocks = self.refusals = 0
        self.stalled = False

    def dismiss(self) -> None:
        """Nobody waits for the workers any more: what they report is not heard."""
        agents = (worker.agent for worker in self.workers.values() if worker.agent)
        self.dismissed = [*self.dismissed, *agents][-_DISMISSED:]
        self.workers.clear()
        self.receipts.clear()

    def stopped(self, agent: str, words: str) -> None:
        """A subagent was heard to stop, with these words: it has ended, or it waits."""
        self.said[agent] = words or self.said.get(agent, "")
        self.stops[agent] = self.stops.get(agent, 0) + 1

    def waited(self, agent: str) -> None:
        """It stopped only to wait; it may have woken, and stopped again, before that was told."""
        self.stops[agent] = max(0, self.stops.get(agent, 0) - 1)
        if not self.stops[agent]:
            self.said.pop(agent, None)

    def forget(self, agent: str) -> None:
        """What is known of a subagent whose attempt is settled."""
        for known in (self.receipts, self.said, self.stops):
            known.pop(agent, None)

    def worker_of(self, tool_use: str = "", agent: str = "") -> str:
        """The attempt whose subagent that is; empty if it is none of ours."""
        for attempt, worker in self.workers.items():
            if (tool_use and worker.tool_use == tool_use) or (agent and worker.agent == agent):
                return attempt
        return ""


def bound(here: Checkout) -> str:
    """The id of the session that is bound in this worktree; empty where none is."""
    session, _ = marked(str(here.git_dir))
    return session if SESSION_ID.match(session) else ""


@contextmanager
def alone(private: Path) -> Iterator[None]:
    """Nobody else reads or writes the binding meanwhile."""
    ensure_folder(private)
    with locked(private / _LOCK):
        yield


def ever(private: Path) -> bool:
    """Whether a conversation has ever driven the session from here."""
    return (private / _LOCK).exists()


def load(private: Path) -> Binding | None:
    """The binding of a session, or None where no conversation drives it.

    Also where something else has written it: `broken` tells the two apart.
    """
    try:
        data = json.loads(read_bytes(private / _FILE))
        if data.pop(_SEAL) != _seal(data):
            return None
        workers = {name: Subagent(**worker) for name, worker in data.pop("workers").items()}
        return Binding(**data, workers=workers)
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return None


def broken(private: Path) -> bool:
    """Whether there is a binding that we have not written, or cannot read."""
    return (private / _FILE).exists() and load(private) is None


def living(private: Path) -> Binding | None:
    """The binding of a session whose client's process lives."""
    found = load(private)
    return found if found is not None and lives(found) else None


def given(private: Path) -> frozenset[str] | None:
    """The attempts that agents of a living client have been given.

    None where no hooks see what happens in the session; where they do, no report is believed.
    """
    found = living(private)
    return frozenset(found.workers) if found is not None and found.hooked else None


def lives(bound: Binding) -> bool:
    """Whether the client's process does."""
    from playbook_supervisor.drivers.claude_code import ancestry

    return ancestry.lives(bound.pid, bound.born)


def driven(bound: Binding) -> StateError:
    """The refusal that names the client."""
    return StateError(
        "PB-STATE-DRIVEN",
        f"session {bound.session} is being driven by Claude Code (process {bound.pid})",
        guidance=f"Go on there, or `playbook pause {bound.session}` in a terminal of your own.",
    )


def save(private: Path, binding: Binding) -> None:
    """Write the binding; it need not survive a power cut, for the journal does."""
    data = as_mapping(binding)
    data["workers"] = {name: as_mapping(worker) for name, worker in binding.workers.items()}
    data[_SEAL] = _seal(data)
    write_atomically(private / _FILE, json.dumps(data).encode(), durable=False)


def _seal(data: Mapping[str, object]) -> str:
    return digest(json.dumps(data, sort_keys=True).encode())


def bind(here: Checkout, private: Path, binding: Binding) -> None:
    """From now on that conversation drives the session, and the hooks hold it to that."""
    from playbook_supervisor.drivers.claude_code import ancestry

    above = ancestry.process(binding.pid)
    binding.born = above.born if above else ""
    save(private, binding)
    if not binding.hooked:
        remove(_marker(here))
        return
    ensure_folder(here.runtime)
    marker = f"{executable()}\n{binding.session}\n{binding.client}\n"
    write_atomically(_marker(here), marker.encode(), durable=False)


def unbind(here: Checkout, private: Path) -> None:
    """Nobody drives the session; it stays as it is."""
    if bound(here) in ("", private.name):
        remove(_marker(here))
    remove(private / _FILE)
    remove(private / _DIALOG)


def hooks_reach(here: Checkout, bound_to: Binding) -> bool:
    """Whether the client's hooks still find the session; somebody may have taken the marker."""
    return bound(here) == bound_to.session


# ── a permission dialog ─────────────────────────────────────────────────────────────────────


def dialog_opened(private: Path, agent: str, tool: str) -> None:
    """A dialog waits for the person: a tool of that subagent, or of the main thread."""
    write_atomically(private / _DIALOG, f"{agent}\n{tool}".encode(), durable=False)


def dialog(private: Path) -> str:
    """The tool for which a permission dialog waits; empty where none does."""
    return _dialog(private)[1]


def dialog_over(private: Path, agent: str) -> None:
    """That subagent (empty: the main thread) has gone on: its dialog is answered, if it had one."""
    owner, tool = _dialog(private)
    if tool and owner == agent:
        remove(private / _DIALOG)


def _dialog(private: Path) -> tuple[str, str]:
    with suppress(FileNotFoundError):
        agent, _, tool = read_bytes(private / _DIALOG).decode("utf-8", "replace").partition("\n")
        return agent, tool
    return "", ""


def executable() -> str:
    """The program that hooks are to start: the one that runs now."""
    beside = Path(sys.executable).with_name("playbook")
    if os.access(beside, os.X_OK):
        return str(beside)
    from shutil import which

    return which("playbook") or "playbook"


def _marker(here: Checkout) -> Path:
    return here.git_dir / MARKER
