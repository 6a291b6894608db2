"""What a person types: `/playbook.run`, `/playbook.resume`, `/playbook.pause`, `/playbook.abort`.

The client's hook brings the arguments as JSON, so there is no shell and no quoting to get wrong;
the session begins, or is let go, before the model has said a word.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.claude_code import binding, request_limit
from playbook_supervisor.drivers.claude_code.binding import Binding
from playbook_supervisor.drivers.claude_code.context import HookReply, interactive, process
from playbook_supervisor.errors import ArgumentError, StateError
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import creation, selection
from playbook_supervisor.sessions.snapshot import Snapshot, running
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.sessions.supervisor import Supervisor
from playbook_supervisor.system.checkout import Checkout
from playbook_supervisor.system.files import read_bytes, remove, write_atomically
from playbook_supervisor.system.process_groups import worker_alive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.sessions.session_store import SessionStore

_LEFT = "left.json"
_EVENT = "UserPromptExpansion"


def command(
    here: Checkout, payload: Mapping[str, Any], environment: Mapping[str, str]
) -> HookReply | None:
    """Carry out a typed command of ours; None for those that only the model answers."""
    carry_out = _COMMANDS.get(str(payload.get("command_name", "")))
    if carry_out is None:
        return None
    words = _words(str(payload.get("command_args", "") or ""))
    client = str(payload.get("session_id", ""))
    typed = TypedCommand(
        DiskStore(here), words, client, process(environment), interactive(environment)
    )
    return carry_out(typed)


class TypedCommand(Record):
    """A command, and the conversation in which it was typed."""

    store: SessionStore
    words: list[str]
    client: str
    pid: int
    interactive: bool

    def supervisor(self, session_id: str) -> Supervisor:
        return Supervisor(self.store, session_id, exports=False, asks_the_world=False)

    def bind(self, session_id: str, former: Binding | None = None) -> None:
        """The conversation drives from now on; what it had in hand before, it has still."""
        bound = former or Binding(session_id, self.client, self.pid)
        bound.client, bound.pid = self.client, self.pid
        bound.turn, bound.at_work = "supervised", True
        bound.dismissed = [*bound.dismissed, *self._left()]
        bound.progress()
        private = self.store.runtime(session_id)
        request_limit.reset(str(private))
        binding.bind(self.store.checkout, private, bound)

    def former(self, private: Path) -> Binding | None:
        """The binding as it was. Where no person types, nothing is taken from a living client."""
        living = binding.living(private)
        if living is not None and living.pid != self.pid and not self.interactive:
            raise binding.driven(living)
        return binding.load(private)

    def leave(self, former: Binding) -> None:
        """Its agents may run on for a while: whoever is bound here next refuses what they try."""
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
    wanted = creation.intend(typed.store, words[0], words[1:], start=start)
    session_id = creation.begin(typed.store, wanted, start=start, exports=False)
    outlook = typed.supervisor(session_id).begin(start)
    typed.bind(session_id)
    return _begun(outlook, wanted.warnings)


def _resume(typed: TypedCommand) -> HookReply:
    retry = "--retry" in typed.words
    words = [word for word in typed.words if word != "--retry"]
    if len(words) > 1 or any(word.startswith("-") for word in words):
        raise ArgumentError(
            "PB-ARG-USAGE",
            f"/playbook.resume does not know {' '.join(words)!r}",
            guidance="It takes nothing, or --retry to take up a failed session.",
        )
    chosen = selection.choose(typed.store, words[0] if words else "")
    supervisor = typed.supervisor(chosen.session_id)
    if driver_lock.living(supervisor.private) is not None:
        raise driver_lock.driven(supervisor.private)
    with binding.exclusive(supervisor.private):
        former = typed.former(supervisor.private)
        outlook = supervisor.look()
        status = outlook.manifest.status
        if status is SessionStatus.FAILED and not retry:
            raise StateError(
                "PB-STATE-ENDED",
                f"session {chosen.session_id} has failed",
                guidance="/playbook.resume --retry takes it up; "
                "/playbook.status says why it failed.",
            )
        if status in (SessionStatus.COMPLETED, SessionStatus.ABORTED):
            raise _ended(outlook)
        if outlook.pending:
            outlook = supervisor.begin()
        elif status is SessionStatus.FAILED:
            outlook = supervisor.take_up()
        else:
            outlook = _recover(supervisor, outlook, former, typed)
        typed.bind(chosen.session_id, former)
    others = f"also open: {', '.join(chosen.others)}" if chosen.others else ""
    remarks = (selection.strayed(typed.store, chosen.session_id), others)
    at_work = frozenset() if former is None else frozenset(former.workers)
    return _begun(outlook, [remark for remark in remarks if remark], at_work)


def _recover(
    supervisor: Supervisor, outlook: Snapshot, former: Binding | None, typed: TypedCommand
) -> Snapshot:
    """What an earlier driver launched and nobody has reported: judged by its evidence.

    What was handed out and never launched is handed out again; agents of this very client are
    waited for, unless waiting has led nowhere.
    """
    waits = former is not None and former.pid == typed.pid and not former.stalled
    handed_out = set() if former is None else set(former.workers)
    for member in running(outlook):
        if worker_alive(supervisor.worker_file(member)):
            raise StateError(
                "PB-STATE-DRIVEN",
                f"the worker of {member.id} still runs",
                guidance=f"Wait for it, or `playbook resume {supervisor.id} --kill` in a terminal.",
            )
        if former is None or (member.id in handed_out and not waits):
            supervisor.lose(member)
    if former is not None and not waits:
        former.dismiss()
    return supervisor.outlook()


def _pause(typed: TypedCommand) -> HookReply:
    supervisor = _open(typed, typed.words[0] if typed.words else "")
    with binding.exclusive(supervisor.private):
        former = typed.former(supervisor.private)
        binding.unbind(typed.store.checkout, supervisor.private)
        at_work = [] if former is None else list(former.workers)
        if former is not None:
            typed.leave(former)
    said = f"Session {supervisor.id} is paused; /playbook.resume goes on with it."
    if at_work:
        said += f"\nStill at work, and not supervised now: {', '.join(at_work)}."
    return HookReply(_EVENT, decision="block", reason=said)


def _abort(typed: TypedCommand) -> HookReply:
    """End the session. Agents of this client are refused every further call, until they end."""
    from playbook_supervisor.system.git_process import identity

    supervisor = _open(typed, "")
    with binding.exclusive(supervisor.private):
        former = typed.former(supervisor.private)
        supervisor.end_workers()
        by = identity(typed.store.checkout.root)
        outlook = supervisor.abort(" ".join(typed.words) or "abort", by)
        if former is not None and former.pid == typed.pid and former.workers:
            typed.leave(former)
            former.turn = "human"
            binding.save(supervisor.private, former)
        else:
            binding.unbind(typed.store.checkout, supervisor.private)
    said = [f"Session {supervisor.id} is {outlook.manifest.status}.", *outlook.notices]
    return HookReply(_EVENT, decision="block", reason="\n".join(said))


_COMMANDS = {
    "playbook.run": _run,
    "playbook.resume": _resume,
    "playbook.pause": _pause,
    "playbook.abort": _abort,
}


def _open(typed: TypedCommand, named: str) -> Supervisor:
    """The open session that is meant, and that no runner elsewhere drives."""
    supervisor = typed.supervisor(selection.choose(typed.store, named).session_id)
    outlook = supervisor.look()
    if outlook.manifest.status not in selection.OPEN:
        raise _ended(outlook)
    if driver_lock.living(supervisor.private) is not None:
        raise driver_lock.driven(supervisor.private)
    return supervisor


def _ended(outlook: Snapshot) -> StateError:
    known = outlook.manifest
    return StateError("PB-STATE-ENDED", f"session {known.session_id} is {known.status} already")


def _begun(
    outlook: Snapshot, remarks: Sequence[str], at_work: frozenset[str] = frozenset()
) -> HookReply:
    said = _headline(outlook, remarks)
    return HookReply(_EVENT, tell=outlook, given_out=at_work, shown=said)


def _headline(outlook: Snapshot, remarks: Sequence[str]) -> str:
    manifest = outlook.manifest
    steps = (
        f"{outlook.done}/{outlook.total} steps done" if outlook.done else f"{outlook.total} steps"
    )
    parts = (manifest.session_id, manifest.playbook, manifest.feature, steps)
    lines = [f"Session {' · '.join(part for part in parts if part)}", *remarks]
    return "\n".join(lines)


def _words(text: str) -> list[str]:
    """The arguments as typed; a stray quote is a character like any other."""
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
