"""What a hook works with: the payload, the binding, the session; and its reply."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.drivers.claude_code import binding, request_limit
from playbook_supervisor.drivers.claude_code.binding import Binding
from playbook_supervisor.drivers.claude_code.details import DirectiveDetails
from playbook_supervisor.kernel.state import Event
from playbook_supervisor.records import Record, field
from playbook_supervisor.sessions.engine.session_engine import EngineOptions
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.process import ancestry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from playbook_supervisor.sessions.store.disk_store import DiskStore

_GOES_ON = (2, 1, 329)  # the first version of the client of which that is known
_SHELLS = frozenset({"bash", "dash", "sh", "zsh"})


class HookReply(Record):
    """What a hook replies. `snapshot` is what the model is to know, `note` a plain sentence.

    `go on` continues a turn that would end, as `block` does, but the client reports no problem.

    `details` accompany it. `given` replaces a tool's input. `end` ends the run at once, with
    this sentence. `ring` calls the person; `shown` is what they see, beside the steps that were
    settled; `closed` are steps that were settled while no hook was called.
    """

    event: str
    decision: Literal["", "allow", "deny", "ask", "block", "go on"] = ""
    reason: str = ""
    snapshot: Snapshot | None = None
    details: DirectiveDetails | None = None
    note: str = ""
    given: Mapping[str, Any] | None = None
    end: str = ""
    ring: str = ""
    shown: str = ""
    closed: tuple[Event, ...] = ()


class HookContext(Record, frozen=False):
    """One hook of the conversation that a session is bound to, under the binding's lock."""

    here: Checkout
    store: DiskStore
    private: Path
    bound: Binding
    payload: dict[str, Any]
    environment: dict[str, str]
    released: bool = False
    _tree: SessionTree | None = field(default=None, init=False)

    @property
    def tree(self) -> SessionTree:
        """Made when it is first needed: most hooks do not open the session."""
        if self._tree is None:
            self._tree = client_tree(self.store, self.bound.session)
        return self._tree

    @property
    def worker(self) -> bool:
        """Whether a subagent triggered the hook."""
        return bool(self.payload.get("agent_id"))

    @property
    def owned(self) -> bool:
        """Whether the hook comes from the conversation and the process that drive the session."""
        return self.text("session_id") == self.bound.client and self.same_process

    @property
    def same_process(self) -> bool:
        return process(self.environment) == self.bound.pid

    @property
    def interactive(self) -> bool:
        return interactive(self.environment)

    def text(self, key: str) -> str:
        """A text of the payload; empty if there is none."""
        value = self.payload.get(key)
        return value if isinstance(value, str) else ""

    def mapping(self, key: str) -> Mapping[str, Any]:
        """A mapping of the payload; empty if there is none."""
        value = self.payload.get(key)
        return value if isinstance(value, dict) else {}

    def progress(self) -> None:
        """A launch or an answer was accepted: reset the counts."""
        self.bound.progress()
        request_limit.reset(str(self.private))

    def release(self) -> None:
        """Unbind the conversation."""
        binding.unbind(self.here, self.private)
        self.released = True


def client_tree(store: DiskStore, session_id: str) -> SessionTree:
    """A supervisor that leaves a check that starts a program to `playbook next --wait`."""
    options = EngineOptions(exports=False, runs_programs=False, runs_checks=False, copies=True)
    return SessionTree(store, session_id, options)


def process(environment: Mapping[str, str]) -> int:
    """The client's process: as the environment says, else the one above the shells above us."""
    pid = environment.get("CLAUDE_PID", "")
    if pid.isdecimal():
        return int(pid)
    above = (each.pid for each in ancestry.ancestors() if each.name not in _SHELLS)
    return next(above, os.getppid())


def goes_on(environment: Mapping[str, str]) -> bool:
    """Whether the client continues a turn if a Stop hook adds context: older ones end it."""
    version = re.search(r"_(\d+)-(\d+)-(\d+)_", environment.get("AI_AGENT", ""))
    return version is not None and tuple(map(int, version.groups())) >= _GOES_ON


def interactive(environment: Mapping[str, str]) -> bool:
    """Whether a person types here, and not a worker through its own `claude -p`."""
    return environment.get("CLAUDE_CODE_ENTRYPOINT") == "cli"
