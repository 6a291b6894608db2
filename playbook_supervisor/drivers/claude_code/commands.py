"""What a person types: `/playbook.run`, `/playbook.resume`, `/playbook.pause`, `/playbook.abort`.

The client's hook brings the arguments as JSON, so there is no shell and no quoting to get wrong;
the session begins, or is let go, before the model has said a word.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from playbook_supervisor import beginning, selection
from playbook_supervisor.checkout import Checkout
from playbook_supervisor.drivers import presence
from playbook_supervisor.drivers.claude_code import binding
from playbook_supervisor.drivers.claude_code.binding import Binding
from playbook_supervisor.drivers.claude_code.desk import Reply, process
from playbook_supervisor.errors import ArgumentError, StateError
from playbook_supervisor.kernel.directives import Run
from playbook_supervisor.process_groups import worker_alive
from playbook_supervisor.store import Store
from playbook_supervisor.supervisor import Outlook, Supervisor
from playbook_supervisor.vocabulary import SessionStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_EVENT = "UserPromptExpansion"


def command(
    here: Checkout, payload: Mapping[str, Any], environment: Mapping[str, str]
) -> Reply | None:
    """Carry out a typed command of ours; None for those that only the model answers."""
    store = Store(here)
    words = _words(str(payload.get("command_args", "") or ""))
    match str(payload.get("command_name", "")):
        case "playbook.run":
            return _run(store, words, payload, environment)
        case "playbook.resume":
            return _resume(store, words, payload, environment)
        case "playbook.pause":
            return _pause(store, words)
        case "playbook.abort":
            return _abort(store, words)
        case _:
            return None


def _run(
    store: Store, words: list[str], payload: Mapping[str, Any], environment: Mapping[str, str]
) -> Reply:
    start = _option(words, "--from")
    if not words:
        raise ArgumentError(
            "PB-ARG-USAGE",
            "no playbook was named",
            guidance="Type /playbook.run PLAYBOOK [ARG…], as in /playbook.run auto-feature 013.",
        )
    wanted = beginning.intend(store, words[0], words[1:], start=start)
    session_id = beginning.begin(store, wanted)
    supervisor = _supervisor(store, session_id)
    _bind(store, session_id, payload, environment)
    outlook = supervisor.begin(start)
    return Reply(_EVENT, tell=outlook, note=_headline(outlook, wanted.warnings))


def _resume(
    store: Store, words: list[str], payload: Mapping[str, Any], environment: Mapping[str, str]
) -> Reply:
    retry = "--retry" in words
    named = next((word for word in words if not word.startswith("-")), "")
    chosen = selection.choose(store, named)
    supervisor = _supervisor(store, chosen.session_id)
    if presence.living(supervisor.private) is not None:
        raise presence.driven(supervisor.private)
    outlook = supervisor.look()
    status = outlook.manifest.status
    if status is SessionStatus.FAILED and not retry:
        raise StateError(
            "PB-STATE-ENDED",
            f"session {chosen.session_id} has failed",
            guidance="/playbook.resume --retry takes it up; /playbook.status says why it failed.",
        )
    if status in (SessionStatus.COMPLETED, SessionStatus.ABORTED):
        raise StateError("PB-STATE-ENDED", f"session {chosen.session_id} is {status}")
    former = binding.load(supervisor.private)
    _bind(store, chosen.session_id, payload, environment)
    if outlook.pending:
        outlook = supervisor.begin()
    elif status is SessionStatus.FAILED:
        outlook = supervisor.take_up()
    else:
        outlook = _recover(supervisor, former)
    others = (f"also open: {', '.join(chosen.others)}",) if chosen.others else ()
    return Reply(_EVENT, tell=outlook, note=_headline(outlook, others))


def _recover(supervisor: Supervisor, former: Binding | None) -> Outlook:
    """What an earlier driver launched and nobody has reported: judged by its evidence."""
    outlook = supervisor.look()
    handed_out = set() if former is None else former.workers.keys()
    if isinstance(outlook.directive, Run):
        for member in outlook.directive.members:
            if worker_alive(supervisor.worker_file(member)):
                raise StateError(
                    "PB-STATE-DRIVEN",
                    f"the worker of {member.id} still runs",
                    guidance="Wait for it, or `playbook resume --kill` in a terminal.",
                )
            if former is None or member.id in handed_out:
                supervisor.lose(member)
    return supervisor.outlook()


def _pause(store: Store, words: list[str]) -> Reply:
    session_id = selection.choose(store, words[0] if words else "").session_id
    binding.unbind(store.checkout, store.runtime(session_id))
    said = f"Session {session_id} is paused; /playbook.resume goes on with it."
    return Reply(_EVENT, decision="block", reason=said)


def _abort(store: Store, words: list[str]) -> Reply:
    session_id = selection.choose(store).session_id
    supervisor = _supervisor(store, session_id)
    supervisor.end_workers()
    outlook = supervisor.abort(" ".join(words) or "abort", "")
    binding.unbind(store.checkout, supervisor.private)
    said = f"Session {session_id} is {outlook.manifest.status}."
    return Reply(_EVENT, decision="block", reason=said)


def _supervisor(store: Store, session_id: str) -> Supervisor:
    return Supervisor(store, session_id, exports=False, asks_the_world=False)


def _bind(
    store: Store, session_id: str, payload: Mapping[str, Any], environment: Mapping[str, str]
) -> None:
    client = str(payload.get("session_id", ""))
    bound = Binding(session_id, client, process(environment))
    binding.bind(store.checkout, store.runtime(session_id), bound)


def _headline(outlook: Outlook, remarks: Sequence[str]) -> str:
    manifest = outlook.manifest
    parts = (manifest.session_id, manifest.playbook, manifest.feature, f"{outlook.total} steps")
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
    del words[index : index + 2]
    return value
