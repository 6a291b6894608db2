"""Which Claude Code conversation drives a session, and the state of its turn and its subagents.

The state is one small JSON file in the session's private folder; a marker file in the git directory
tells the hooks' script in a millisecond whether a session is bound here. Both may be lost: the
client is then still registered outside of the repository, and `record_gone` says what follows.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from playbook_supervisor.drivers.claude_code import client_register, hook_script
from playbook_supervisor.drivers.claude_code.client_register import Registration
from playbook_supervisor.drivers.claude_code.marker import MARKER, marked
from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.records import Record, as_mapping, field
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.system.disk.files import (
    content,
    digest,
    ensure_folder,
    locked,
    read_bytes,
    remove,
    write_atomically,
)
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.process import ancestry

_FILE = "claude.json"
_SEAL = "digest"
_MAX_DISMISSED = 100  # agents that are remembered after their attempt was settled
_MAX_DIALOGS = 20  # dialogs that are remembered although they may have been closed
_LOCK = "claude.lock"
_DIALOG = "dialog"


class Subagent(Record):
    """A subagent whose launch was allowed; its id and model once the client has reported them.

    `skill` is the command that it has to run, empty if it got a prompt; `tools` are the only ones
    that it may use, None for no restriction.
    """

    skill: str
    args: str
    tool_use: str
    agent: str = ""
    model: str = ""
    tools: list[str] | None = None


class Binding(Record, frozen=False):
    """The conversation that drives a session: `client` is its id, `pid` its process.

    `born` distinguishes that process from a later one with the same number. `hooked` is false if
    the client runs no hooks of ours; then the model itself calls `next` and `report`.

    `turn` is the kind of the running turn, `at_work` whether one is running. `workers` are the
    launched attempts that have not returned. By agent id, `receipts` are the commands that a
    subagent has run, `said` its last message, and `stops` how often it stopped, less the
    notifications that it was only waiting: 0 means that it waits or has resumed. `dismissed` are
    agents that may still work although their attempt is settled. `dialogs` are the gates that a
    dialog asked and their questions, by the id of its call. `blocks` and `refusals` are counted
    until a launch or an answer is accepted. `heard` is the last end of a turn that was read from
    the transcript. `unseen` are attempts that `playbook next --wait` carries out or checks. `ended`
    is the gate that was open when the session was aborted: its id, its question and its choices;
    `told`: a person has spoken since then, and the model has been told. `script` is the file
    that the hooks run, and its digest; empty if it is not known.
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
    dialogs: dict[str, tuple[str, str]] = field(default_factory=dict)
    heard: str = ""
    blocks: int = 0
    refusals: int = 0
    stalled: bool = False
    crons: list[str] = field(default_factory=list)
    born: str = ""
    hooked: bool = True
    unseen: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    told: bool = False
    script: list[str] = field(default_factory=list)

    def progress(self) -> None:
        """A launch or an answer was accepted: the model makes progress."""
        self.blocks = self.refusals = 0
        self.stalled = False

    def asked(self, tool_use: str, gate: str, question: str) -> None:
        """A gate is put in a dialog. Esc closes one without a hook, so the oldest are dropped."""
        self.dialogs[tool_use] = (gate, question)
        while len(self.dialogs) > _MAX_DIALOGS:
            del self.dialogs[next(iter(self.dialogs))]

    def dismiss(self) -> None:
        """Stop waiting for the workers: what they report from now on is ignored."""
        agents = (worker.agent for worker in self.workers.values() if worker.agent)
        self.dismissed = [*self.dismissed, *agents][-_MAX_DISMISSED:]
        self.workers.clear()
        self.receipts.clear()

    def stopped(self, agent: str, message: str) -> None:
        """A subagent stopped with this message: it has ended, or it waits."""
        self.said[agent] = message or self.said.get(agent, "")
        self.stops[agent] = self.stops.get(agent, 0) + 1

    def waited(self, agent: str) -> None:
        """Its stop was only a wait; it may have resumed and stopped again meanwhile."""
        self.stops[agent] = max(0, self.stops.get(agent, 0) - 1)
        if not self.stops[agent]:
            self.said.pop(agent, None)

    def forget(self, agent: str) -> None:
        """Forget a subagent whose attempt is settled."""
        for by_agent in (self.receipts, self.said, self.stops):
            by_agent.pop(agent, None)

    def worker_of(self, tool_use: str = "", agent: str = "") -> str:
        """The attempt of that subagent; empty if it is not one of ours."""
        for attempt, worker in self.workers.items():
            if (tool_use and worker.tool_use == tool_use) or (agent and worker.agent == agent):
                return attempt
        return ""


def bound(here: Checkout) -> str:
    """The id of the session bound in this worktree; empty if there is none."""
    session, _ = marked(str(here.git_dir))
    return session if SESSION_ID.match(session) else ""


@contextmanager
def exclusive(private: Path) -> Iterator[None]:
    """Hold the lock of the binding."""
    ensure_folder(private)
    with locked(private / _LOCK):
        yield


def ever_bound(private: Path) -> bool:
    """True if a conversation on this machine has ever driven the session."""
    return (private / _LOCK).exists()


def load(private: Path) -> Binding | None:
    """The binding of a session; None if there is none, or if its file is not ours (`broken`)."""
    try:
        data = json.loads(read_bytes(private / _FILE))
        if data.pop(_SEAL) != _seal(data):
            return None
        workers = {name: Subagent(**worker) for name, worker in data.pop("workers").items()}
        return Binding(**data, workers=workers)
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return None


def broken(private: Path) -> bool:
    """True if the binding's file was written by something else, or cannot be read."""
    return (private / _FILE).exists() and load(private) is None


def living(private: Path) -> Binding | None:
    """The binding of a session whose client is running."""
    found = load(private)
    return found if found is not None and lives(found) else None


def launched_attempts(private: Path) -> frozenset[str] | None:
    """The attempts of a running client's subagents; None without hooks: then its reports count."""
    found = living(private)
    return frozenset(found.workers) if found is not None and found.hooked else None


def lives(bound: Binding) -> bool:
    """True if the client is running."""
    return ancestry.lives(bound.pid, bound.born)


def require_driver(private: Path) -> None:
    """StateError PB-STATE-INTERRUPTED if the client that drives the session has ended."""
    bound = load(private)
    if bound is not None and not lives(bound):
        raise StateError(
            "PB-STATE-INTERRUPTED",
            f"the Claude Code that drove session {bound.session} has ended",
            guidance=f"`playbook resume {bound.session}` continues, or /playbook.resume there.",
        )


def driven(bound: Binding) -> StateError:
    """The refusal that names the client."""
    return StateError(
        "PB-STATE-DRIVEN",
        f"session {bound.session} is being driven by Claude Code (process {bound.pid})",
        guidance=f"Continue there, or run `playbook pause {bound.session}` in your own terminal.",
    )


def save(private: Path, binding: Binding) -> None:
    """Write the binding, which need not survive a power failure: the journal does."""
    data = as_mapping(binding)
    data["workers"] = {name: as_mapping(worker) for name, worker in binding.workers.items()}
    data[_SEAL] = _seal(data)
    write_atomically(private / _FILE, json.dumps(data).encode(), durable=False)


def _seal(data: Mapping[str, object]) -> str:
    return digest(json.dumps(data, sort_keys=True).encode())


def bind(here: Checkout, private: Path, binding: Binding) -> None:
    """Let that conversation drive the session, supervised by the hooks if it has any."""
    client = ancestry.process(binding.pid)
    binding.born = client.born if client else ""
    client_register.forget(binding.session, here.root)  # the client that drove it before
    save(private, binding)
    if not binding.hooked:
        remove(here.git_dir / MARKER)
        return
    mark(here.git_dir, binding)
    register(here, binding)


def mark(git_dir: Path, binding: Binding) -> None:
    """Write the marker by which the hooks' script knows that a session is bound."""
    ensure_folder((git_dir / MARKER).parent)
    marker = f"{executable()}\n{binding.session}\n{binding.client}\n"
    write_atomically(git_dir / MARKER, marker.encode(), durable=False)


def register(here: Checkout, binding: Binding) -> None:
    """Remember the client outside of the repository, if the user's state can be written."""
    known = (executable(), binding.session, binding.client, binding.born, str(here.root))
    with suppress(StorageError):
        script = hook_script.content(binding.script)
        client_register.register(binding.pid, Registration(*known), script)


def unbind(here: Checkout, private: Path) -> None:
    """Let no conversation drive the session; nothing else changes."""
    client_register.forget(private.name, here.root)  # first: what is left is whole after a kill
    if bound(here) in ("", private.name):
        remove(here.git_dir / MARKER)
    remove(private / _FILE)
    remove(private / _DIALOG)


def hooks_reach(here: Checkout, bound_to: Binding) -> bool:
    """True if the client's hooks still find the session: another may have taken the marker."""
    return bound(here) == bound_to.session


# ── a permission dialog ─────────────────────────────────────────────────────────────────────


def dialog_opened(private: Path, agent: str, tool: str) -> None:
    """A permission dialog is open, for a tool of that subagent or (empty) of the main thread."""
    write_atomically(private / _DIALOG, f"{agent}\n{tool}".encode(), durable=False)


def dialog(private: Path) -> str:
    """The tool of the open permission dialog; empty if there is none."""
    return _dialog(private)[1]


def dialog_over(private: Path, agent: str) -> None:
    """That subagent (empty: the main thread) has continued, so its dialog, if any, is closed."""
    owner, tool = _dialog(private)
    if tool and owner == agent:
        remove(private / _DIALOG)


def _dialog(private: Path) -> tuple[str, str]:
    agent, _, tool = content(private / _DIALOG).decode("utf-8", "replace").partition("\n")
    return agent, tool


def executable() -> str:
    """The program that hooks start: the one that is running now."""
    beside = Path(sys.executable).with_name("playbook")
    if os.access(beside, os.X_OK):
        return str(beside)
    from shutil import which

    return which("playbook") or "playbook"
