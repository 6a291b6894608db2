"""The state of a session after a take-up, and of the take-up after an error."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from playbook_supervisor.errors import AgentError, PlaybookError, StateError
from playbook_supervisor.fleet.storage.rows import State
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import EntryStatus, SessionStatus
from playbook_supervisor.sessions.store.snapshot import Snapshot

_UNREACHABLE = frozenset(
    {"PB-AGENT-API", "PB-AGENT-LIMIT", "PB-AGENT-LOGIN", "PB-AGENT-NONE", "PB-AGENT-RATE"}
)
_LASTING = (
    *("PB-ARG-", "PB-CHECK-", "PB-POLICY-", "PB-STATE-"),
    *("PB-FLEET-BRANCH", "PB-FLEET-DIED", "PB-IO-ESCAPE"),
)
UNCOMMITTED = "PB-GIT-COMMIT"
"""The error of a session that has ended, whose branch does not say so yet."""

_PASSING = frozenset({"PB-STATE-BUSY", "PB-STATE-DRIVEN", "PB-STATE-INTERRUPTED"})
ENDS = {
    SessionStatus.COMPLETED: State.COMPLETED,
    SessionStatus.FAILED: State.FAILED,
    SessionStatus.ABORTED: State.ABORTED,
}
_SENTENCES = {
    "PB-GIT-REMOTE": "the repository cannot be reached",
    "PB-GIT-FAILED": "git failed on the worker",
    UNCOMMITTED: "the session's branch does not have its end",
    "PB-FLEET-BRANCH": "someone pushed to the session's branch",
    "PB-IO-ESCAPE": "a file of the session leads out of its clone",
    "PB-STATE-NO-REPOSITORY": "the session's clone was removed or replaced on the worker",
    "PB-IO-WRITE": "the worker cannot write to its disk",
    "PB-BUG": "the worker has met a bug, and logged it",
}
"""The database's words for an error: never a program's or an agent's own."""
_REFUSED = frozenset({"PB-FLEET-REFUSED", "PB-FLEET-BRANCH-REFUSED"})
"""The remote's own words are shown: only they say what to mend."""


@dataclass(frozen=True, slots=True)
class NextState:
    """The state of a session now. QUEUED: it was cut short, and goes on; `said` and `code` say why.

    `choices` are the words that answer the open gate. With `retry`, nothing is to be pushed: an
    agent could not be reached, so the session goes on from where it was.
    """

    state: State
    gate: str = ""
    choices: tuple[str, ...] = ()
    code: str = ""
    said: str = ""
    retry: PlaybookError | None = None


def of_session(
    snapshot: Snapshot, entries: Sequence[Entry], ended: PlaybookError | None
) -> NextState:
    """The state that the session has now. `ended` is the error that ended its child."""
    asked, status = snapshot.directive, snapshot.manifest.status
    if (isinstance(asked, Ask) or status is SessionStatus.FAILED) and unreachable(entries):
        last = entries[-1]
        return NextState(
            State.QUEUED, retry=AgentError(last.error_code, "the agent is unreachable")
        )
    if status in ENDS:
        return NextState(ENDS[status])
    if isinstance(asked, Ask):
        return NextState(State.WAITING, asked.id, asked.words)
    if ended is None:
        return NextState(State.QUEUED, code="PB-STATE-INTERRUPTED", said="its run was interrupted")
    return NextState(State.QUEUED, retry=ended)


def unreachable(entries: Sequence[Entry]) -> bool:
    """True if the last attempt ended before its agent took a turn, and nothing else has settled
    since it was launched: so all that has settled is pushed."""
    if not entries or entries[-1].error_code not in _UNREACHABLE:
        return False
    *others, last = entries
    launched = last.launched_at or last.started_at
    return (
        last.status is EntryStatus.FAILED
        and not last.agent.get("turns")
        and all(each.completed_at and each.completed_at <= launched for each in others)
    )


def of_child(status: int, printed: str) -> PlaybookError | None:
    """The error that a child has printed as JSON; None if it was ended, or printed none."""
    if status < 0 or status > 128:
        return None
    try:
        error = json.loads(printed)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, TypeError, KeyError):
        return None
    return StateError(first_line(code, 60), message)


def reported(error: Exception) -> PlaybookError:
    """The error, or the report of a bug in the worker."""
    if isinstance(error, PlaybookError):
        return error
    bug = StateError("PB-BUG", f"{type(error).__name__}: {first_line(str(error))}")
    bug.cause = "".join(traceback.format_exception(error))
    return bug


def lasts(error: PlaybookError) -> bool:
    """True if another attempt, on any worker, would end like this one."""
    return error.code.startswith(_LASTING) and error.code not in _PASSING


def sentence(error: PlaybookError) -> str:
    """The sentence that the fleet is told of an error."""
    if known := _SENTENCES.get(error.code):
        return known
    if lasts(error) or error.code in _REFUSED:
        return first_line(error.message, 500)
    return "it failed on the worker"
