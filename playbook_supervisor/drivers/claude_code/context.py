"""The context of a hook: the payload, the binding, the session; and its reply."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from playbook_supervisor.drivers.claude_code import binding, request_limit
from playbook_supervisor.drivers.claude_code.binding import Binding
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.model import SLASH
from playbook_supervisor.kernel.state import Event
from playbook_supervisor.records import Record, field
from playbook_supervisor.sessions.engine.session_engine import EngineOptions
from playbook_supervisor.sessions.files.serialize import WorkItem
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot, for_agents
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.disk.files import (
    content,
    ensure_folder,
    locked,
    write_atomically,
)
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.process import ancestry

if TYPE_CHECKING:
    from playbook_supervisor.sessions.gate.gate_context import GateContext

_GOES_ON = (2, 1, 329)  # the first version of the client of which that is known
_SHELLS = frozenset({"bash", "dash", "sh", "zsh"})


class HookReply(Record):
    """The reply of a hook. `snapshot` is what the model is to know, `note` a plain sentence.

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
        """True if a subagent triggered the hook."""
        return bool(self.payload.get("agent_id"))

    @property
    def owned(self) -> bool:
        """True if the hook comes from the conversation and the process that drive the session."""
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
    options = EngineOptions(
        exports=False,
        runs_programs=False,
        runs_checks=False,
        copies=True,
        isolation=ancestry.isolation(),
    )
    return SessionTree(store, session_id, options)


def process(environment: Mapping[str, str]) -> int:
    """The client's process: as the environment says, else the one above the shells above us."""
    pid = environment.get("CLAUDE_PID", "")
    if pid.isdecimal():
        return int(pid)
    above = (each.pid for each in ancestry.ancestors() if each.name not in _SHELLS)
    return next(above, os.getppid())


def goes_on(environment: Mapping[str, str]) -> bool:
    """True if the client continues a turn if a Stop hook adds context: older ones end it."""
    version = re.search(r"_(\d+)-(\d+)-(\d+)_", environment.get("AI_AGENT", ""))
    return version is not None and tuple(map(int, version.groups())) >= _GOES_ON


def interactive(environment: Mapping[str, str]) -> bool:
    """True if a person types here, and not a worker through its own `claude -p`."""
    return environment.get("CLAUDE_CODE_ENTRYPOINT") == "cli"


# ── what is shown with a directive ────────────────────────────────────────────────────────────────

_MARK = "mark"
_LENGTH = 12  # digits of a mark


class DirectiveDetails(Record):
    """The details that a client needs beside the directive.

    `work_items` says for each attempt that an agent is to run what it gets, by the attempt's id.
    `context` helps to answer the open gate. `given` are the attempts that agents of a
    living client work on; None where no hook knows. `mark` is that of the session's directives.
    """

    work_items: Mapping[str, WorkItem]
    context: GateContext | None
    given: frozenset[str] | None
    mark: str


def mark_of(private: Path) -> str:
    """The mark of the session's directives: 12 random hexadecimal digits, kept in that folder."""
    if mark := _kept_mark(private):
        return mark
    ensure_folder(private)
    with locked(private / f"{_MARK}.lock"):
        if not (mark := _kept_mark(private)):
            mark = os.urandom(_LENGTH // 2).hex()
            write_atomically(private / _MARK, mark.encode(), durable=False)
    return mark


def _kept_mark(private: Path) -> str:
    mark = content(private / _MARK).decode("ascii", "replace")
    return mark if len(mark) == _LENGTH and mark.isalnum() else ""


def prepared(tree: SessionTree, snapshot: Snapshot) -> Snapshot:
    """The snapshot once each prompt that cannot be made has failed its attempt."""
    prompts = [attempt for attempt in for_agents(snapshot) if attempt.step.namespace != SLASH]
    for attempt in prompts:
        try:
            tree.work(snapshot, attempt)
        except PlaybookError as error:
            from playbook_supervisor.drivers.jobs import without_prompt

            outcome = without_prompt(error, "claude-code")
            return prepared(tree, tree.report(attempt.id, outcome).after(snapshot))
    return snapshot


def directive_details(
    tree: SessionTree, snapshot: Snapshot, given: frozenset[str] | None
) -> DirectiveDetails:
    """The details of the directive; also points the project's own tools at the feature."""
    mark = mark_of(tree.private)
    if isinstance(snapshot.directive, Ask):
        from playbook_supervisor.sessions.gate.gate_context import gate_context

        return DirectiveDetails({}, gate_context(snapshot), given, mark)
    work_items = {}
    for attempt in for_agents(snapshot):
        work = tree.work(snapshot, attempt)
        tree.environment(snapshot, work)
        work_items[attempt.id] = WorkItem(work.command, work.args, work.prompt)
    return DirectiveDetails(work_items, None, given, mark)
