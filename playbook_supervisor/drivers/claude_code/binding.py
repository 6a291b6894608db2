"""Which Claude Code conversation drives a session, and what it has in hand.

One small JSON file beside the runtime state, and a marker by which the hooks' shell lines see in a
millisecond that a session is bound here at all. Both may be lost: `/playbook.resume` binds anew.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from playbook_supervisor.checkout import Checkout
from playbook_supervisor.drivers.claude_code.settings import MARKER
from playbook_supervisor.files import ensure_folder, read_bytes, remove, write_atomically
from playbook_supervisor.manifest import SESSION_ID
from playbook_supervisor.records import Record, as_mapping, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal

_FILE: Final = "claude.json"


class Worker(Record):
    """A subagent that was let through. `agent` is its id, once the client has said it."""

    skill: str
    args: str
    tool_use: str
    agent: str = ""


class Binding(Record, frozen=False):
    """The conversation that drives a session. `client` is its id, `pid` its process.

    `turn` says whose the running turn is; `at_work` that one runs. `workers` are the attempts
    that were launched and have not returned; `receipts` the commands that a subagent has run, by
    agent id; `said` its last words. `question` is the gate that a dialog shows. `blocks` and
    `refusals` are counted in a row, until a launch or an answer is accepted.
    """

    session: str
    client: str
    pid: int
    turn: Literal["supervised", "human"] = "supervised"
    at_work: bool = True
    workers: dict[str, Worker] = field(default_factory=dict)
    receipts: dict[str, list[list[str]]] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    question: str = ""
    blocks: int = 0
    refusals: int = 0
    stalled: bool = False
    dialog: str = ""
    crons: list[str] = field(default_factory=list)

    def progress(self) -> None:
        """Something was accepted: the model is not going round in circles."""
        self.blocks = self.refusals = 0
        self.stalled = False

    def worker_of(self, tool_use: str = "", agent: str = "") -> str:
        """The attempt whose subagent that is; empty if it is none of ours."""
        for attempt, worker in self.workers.items():
            if (tool_use and worker.tool_use == tool_use) or (agent and worker.agent == agent):
                return attempt
        return ""


def bound(here: Checkout) -> str:
    """The id of the session that is bound in this worktree; empty where none is."""
    try:
        lines = read_bytes(_marker(here), limit=10_000).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return ""
    return lines[1] if len(lines) > 1 and SESSION_ID.match(lines[1]) else ""


def load(private: Path) -> Binding | None:
    """The binding of a session, or None where no conversation drives it."""
    try:
        data = json.loads(read_bytes(private / _FILE))
        workers = {name: Worker(**worker) for name, worker in data.pop("workers").items()}
        return Binding(**data, workers=workers)
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return None


def save(private: Path, binding: Binding) -> None:
    """Write the binding; it need not survive a power cut, for the journal does."""
    data = as_mapping(binding)
    data["workers"] = {name: as_mapping(worker) for name, worker in binding.workers.items()}
    write_atomically(private / _FILE, json.dumps(data).encode(), durable=False)


def bind(here: Checkout, private: Path, binding: Binding) -> None:
    """From now on that conversation drives the session, and the hooks hold it to that."""
    save(private, binding)
    ensure_folder(here.runtime)
    marker = f"{executable()}\n{binding.session}\n{binding.client}\n"
    write_atomically(_marker(here), marker.encode(), durable=False)


def unbind(here: Checkout, private: Path) -> None:
    """Nobody drives the session; it stays as it is."""
    remove(_marker(here))
    remove(private / _FILE)


def executable() -> str:
    """The program that hooks are to start: the one that runs now."""
    beside = Path(sys.executable).with_name("playbook")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("playbook") or "playbook"


def _marker(here: Checkout) -> Path:
    return here.git_dir / MARKER
