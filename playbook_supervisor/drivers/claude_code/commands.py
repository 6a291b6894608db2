"""The commands that a person types: `/playbook.run`, `.resume`, `.pause`, `.abort`, `.goal`.

The client's hook brings the arguments as JSON, so no shell is involved. The session begins, or is
released, before the model is asked.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playbook_supervisor.drivers import driver_lock, gate_answer
from playbook_supervisor.drivers.claude_code import (
    authorization,
    binding,
    gates,
    hook_script,
    permissions,
    request_limit,
)
from playbook_supervisor.drivers.claude_code.binding import Binding
from playbook_supervisor.drivers.claude_code.context import (
    HookReply,
    client_tree,
    directive_details,
    interactive,
    prepared,
    process,
)
from playbook_supervisor.drivers.run_agents import admit_beside_client
from playbook_supervisor.drivers.step_kinds import require_executable
from playbook_supervisor.errors import ArgumentError, StateError
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.project.slash_commands import SUPERVISING, CommandIndex, is_ours
from playbook_supervisor.sessions.files import principal
from playbook_supervisor.sessions.store import creation, selection, settings_in_force
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot, at_work, for_us, running
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.disk.files import read_bytes, remove, write_atomically
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.process.process_groups import worker_alive

_ACCEPT = "--accept-config"
_HERE = "--on-this-branch"
_LEFT = "left.json"
_EVENT = "UserPromptExpansion"
_FOREIGN = (
    "This project's /{name} is another program's: playbook does not supervise what it does. "
    "`playbook init --replace` installs ours."
)


def command(
    here: Checkout, payload: Mapping[str, Any], environment: Mapping[str, str]
) -> HookReply | None:
    """Carry out a typed command of ours; None for those that only the model answers."""
    name = str(payload.get("command_name", ""))
    carry_out = _COMMANDS.get(name)
    if carry_out is None:
        return None
    if name in SUPERVISING and _is_foreign(here.root, name):
        return HookReply(_EVENT, shown=_FOREIGN.format(name=name))
    script = hook_script.required(here.root, environment) if name in SUPERVISING else []
    words = _words(str(payload.get("command_args", "") or ""))
    client = str(payload.get("session_id", ""))
    store, pid = DiskStore(here), process(environment)
    return carry_out(TypedCommand(store, words, client, pid, interactive(environment), script))


def _is_foreign(root: Path, name: str) -> bool:
    installed = CommandIndex(root, home=None).resolve(f"/{name}")
    file = installed.file if installed else None
    return file is not None and not is_ours(read_bytes(file))


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A command, the conversation in which it was typed, and the script that its hooks run."""

    store: DiskStore
    words: list[str]
    client: str
    pid: int
    interactive: bool
    script: list[str]

    def bind(self, snapshot: Snapshot, former: Binding | None = None) -> None:
        """Let the conversation drive the session, and keep the work of `former`."""
        self._leave_other(snapshot.session_id)
        bound = former or Binding(snapshot.session_id, self.client, self.pid)
        bound.client, bound.pid = self.client, self.pid
        bound.script = self.script
        bound.turn, bound.at_work = "supervised", True
        bound.dismissed = [*bound.dismissed, *self._left()]
        bound.progress()
        bound.unseen = [attempt.id for attempt in for_us(snapshot)] or bound.unseen
        private = self.store.runtime(snapshot.session_id)
        request_limit.reset(str(private))
        binding.bind(self.store.checkout, private, bound)

    def _leave_other(self, session_id: str) -> None:
        other = binding.bound(self.store.checkout)
        if other in ("", session_id):
            return
        private = self.store.runtime(other)
        former = binding.load(private)
        if former is not None and former.pid == self.pid:
            self.leave(former)
            binding.unbind(self.store.checkout, private)

    def former(self, private: Path) -> Binding | None:
        """The current binding. Only a person who types may take it from a running client."""
        living = binding.living(private)
        if living is not None and living.pid != self.pid:
            if not self.interactive:
                raise binding.driven(living)
            authorization.require_another_client(living, self.pid)
        return binding.load(private)

    def leave(self, former: Binding) -> None:
        """Record its agents, which may keep working: the next binding refuses their calls."""
        former.dismiss()
        left = json.dumps(former.dismissed).encode()
        write_atomically(self.store.checkout.runtime / _LEFT, left, durable=False)

    def _left(self) -> list[str]:
        file = self.store.checkout.runtime / _LEFT
        try:
            left = json.loads(read_bytes(file))
        except (FileNotFoundError, ValueError):
            return []
        remove(file)
        return [str(agent) for agent in left] if isinstance(left, list) else []


def _run(typed: TypedCommand) -> HookReply:
    words = list(typed.words)
    start = _option(words, "--from")
    if not words:
        raise ArgumentError(
            "PB-ARG-USAGE",
            "no playbook was named",
            guidance="Type /playbook.run PLAYBOOK [ARG…], as in /playbook.run auto-feature 013.",
        )
    request = creation.prepare(typed.store, words[0], words[1:], start=start)
    request.require_commands(typed.store.checkout.root, inside=True)
    authorization.require_isolation(request.config)
    root = typed.store.checkout.root
    require_executable(request, root, start=start, machine=root)
    admit_beside_client(request, root)
    permissions.require_allowed(request.all_playbooks, root, conversation=True)
    session_id = creation.begin(typed.store, request, start=start, exports=False)
    tree = client_tree(typed.store, session_id)
    snapshot = tree.begin(start)
    typed.bind(snapshot)
    remarks = (*request.warnings, *filter(None, _settings(typed, tree, accepts=False)))
    return _begun(tree, snapshot, remarks)


def _resume(typed: TypedCommand) -> HookReply:
    retry, accepts, moves = (each in typed.words for each in ("--retry", _ACCEPT, _HERE))
    words = [word for word in typed.words if word not in ("--retry", _ACCEPT, _HERE)]
    if len(words) > 1 or any(word.startswith("-") for word in words):
        raise ArgumentError(
            "PB-ARG-USAGE",
            f"/playbook.resume does not know {' '.join(words)!r}",
            guidance="Its arguments are --retry, which resumes a failed session, "
            f"{_ACCEPT} and {_HERE}.",
        )
    chosen = selection.choose(typed.store, words[0] if words else "")
    tree = client_tree(typed.store, chosen.session_id)
    driver_lock.require_no_runner(tree.private)
    with binding.exclusive(tree.private):
        former = typed.former(tree.private)
        snapshot = tree.look()
        failed = snapshot.manifest.status is SessionStatus.FAILED
        if not (failed and retry):
            gate_answer.require_open(snapshot)
        if moves and typed.interactive:
            tree.move_here(principal.local(tree.root))
        tree.require_branch()
        authorization.require_isolation(tree.config)
        if not (failed or snapshot.pending):
            _recover(tree, snapshot, former, typed)
        settings = _settings(typed, tree, accepts=accepts)
        snapshot = tree.go_on(retry=retry)
        typed.bind(snapshot, former)
    others = f"also open: {', '.join(chosen.others)}" if chosen.others else ""
    remarks = (others, *settings)
    at_work = frozenset() if former is None else frozenset(former.workers)
    return _begun(tree, snapshot, list(filter(None, remarks)), at_work)


def _settings(typed: TypedCommand, tree: SessionTree, *, accepts: bool) -> Iterable[str]:
    """Remarks about settings that changed since the session began; only a person accepts them."""
    store, session_id = typed.store, tree.id
    pinned, missed = settings_in_force.pin_missing(store, session_id)
    told, shown = settings_in_force.difference(tree.root, pinned)
    if told and accepts and typed.interactive:
        by = principal.local(tree.root)
        settings_in_force.accept(store, session_id, by, shown)
        told = f"{told}; accepted"
    elif told:
        told = settings_in_force.kept(told, session_id, typed=typed.interactive)
    return missed, told


def _recover(
    tree: SessionTree, snapshot: Snapshot, former: Binding | None, typed: TypedCommand
) -> None:
    """Judge by evidence the attempts that an earlier driver launched and that have no report.

    An agent that was allowed but never launched becomes due again. Agents of this same client are
    waited for, unless the session has stalled.
    """
    waits = former is not None and former.pid == typed.pid and not former.stalled
    given = set() if former is None else set(former.workers)
    run = at_work(snapshot.directive)
    detached = driver_lock.detached_works(tree.private)
    for member in running(snapshot):
        continued = run is not None and member.id in run.continues
        begun = tree.worker_file(member).exists() and not continued
        if not member.step.by_client and (detached or not begun):
            continue  # `playbook next --wait` waits for it, begins it or goes on with it
        if worker_alive(tree.worker_file(member)):
            raise StateError(
                "PB-STATE-DRIVEN",
                f"the worker of {member.id} is still running",
                guidance=f"Wait for it, or `playbook resume {tree.id} --kill` in a terminal.",
            )
        if former is None or (member.id in given and not waits):
            tree.lose(member)
    if former is not None and not waits:
        former.dismiss()


def _goal(typed: TypedCommand) -> HookReply:
    from playbook_supervisor.drivers.claude_code import goals  # few conversations have one

    return goals.typed(typed.store.checkout, typed.words, typed.pid, interactive=typed.interactive)


def _pause(typed: TypedCommand) -> HookReply:
    tree = _open_session(typed, typed.words[0] if typed.words else "")
    with binding.exclusive(tree.private):
        former = typed.former(tree.private)
        binding.unbind(typed.store.checkout, tree.private)
        at_work = [] if former is None else list(former.workers)
        if former is not None:
            typed.leave(former)
    message = f"Session {tree.id} is paused; /playbook.resume continues it."
    if at_work:
        message += f"\nStill running, but no longer supervised: {', '.join(at_work)}."
    return HookReply(_EVENT, note=message, shown=message)


def _abort(typed: TypedCommand) -> HookReply:
    tree = _open_session(typed, "", or_failed=True)
    with binding.exclusive(tree.private):
        former = typed.former(tree.private)
        by = principal.local(tree.root)
        asked = gates.asked_in(tree.look())
        snapshot = gate_answer.abort(tree, " ".join(typed.words), by)
        ours = former is not None and former.pid == typed.pid
        if former is not None and ours and (former.workers or asked):
            typed.leave(former)
            former.turn, former.ended = "human", asked
            binding.save(tree.private, former)
        else:
            binding.unbind(typed.store.checkout, tree.private)
    lines = [f"Session {tree.id} is {snapshot.manifest.status}.", *snapshot.notices]
    return HookReply(_EVENT, note="\n".join(lines), shown="\n".join(lines))


_COMMANDS = {
    "playbook.run": _run,
    "playbook.resume": _resume,
    "playbook.pause": _pause,
    "playbook.abort": _abort,
    "playbook.goal": _goal,
}


def _open_session(typed: TypedCommand, named: str, *, or_failed: bool = False) -> SessionTree:
    tree = client_tree(typed.store, selection.choose(typed.store, named).session_id)
    gate_answer.require_open(tree.look(), or_failed=or_failed)
    driver_lock.require_no_runner(tree.private)
    return tree


def _begun(
    tree: SessionTree,
    snapshot: Snapshot,
    remarks: Sequence[str],
    at_work: frozenset[str] = frozenset(),
) -> HookReply:
    snapshot = prepared(tree, snapshot)
    details = directive_details(tree, snapshot, at_work)
    return HookReply(_EVENT, snapshot=snapshot, details=details, shown=_headline(snapshot, remarks))


def _headline(snapshot: Snapshot, remarks: Sequence[str]) -> str:
    manifest = snapshot.manifest
    steps = f"{snapshot.progress} done" if snapshot.done else counted(snapshot.total, "step")
    parts = (manifest.session_id, manifest.playbook, first_line(manifest.subject), steps)
    return "\n".join([f"Session {' · '.join(filter(None, parts))}", *remarks])


def _words(text: str) -> list[str]:
    """The arguments as typed; an unbalanced quote is an ordinary character."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _option(words: list[str], name: str) -> str:
    """Take `NAME VALUE` out of the words; the value, or nothing."""
    if name not in words:
        return ""
    index = words.index(name)
    value = words[index + 1] if index + 1 < len(words) else ""
    if not value:
        raise ArgumentError("PB-ARG-USAGE", f"{name} names no step")
    del words[index : index + 2]
    return value
