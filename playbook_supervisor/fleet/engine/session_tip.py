"""The newest commit of a session's chain: what its trailers say, read as hostile data.

Everybody who may push to the repository can write such a commit, so each value is checked before
anything becomes a path, a reference or an argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.sessions.files.manifest import REF_FOLDERS, SESSION_ID

Kind = Literal["claim", "snapshot"]


HEADS = "refs/heads/"

_TRAILER = r"Playbook-([A-Z][A-Za-z]*): (.+)"
_COMMIT = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_EPOCH = r"0|[1-9][0-9]{0,8}"
_VERSION = r"[0-9A-Za-z][0-9A-Za-z.+-]{0,39}"
_NO_BRANCH = r"\A[-/]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|(?:\A|/)\.|\.lock(?:/|\Z)|[./]\Z"
_LONGEST_BRANCH, _LONGEST_WORKER = 200, 200


@dataclass(frozen=True, slots=True)
class Tip:
    """The newest commit of a session's chain.

    `ref` is the reference at the remote, `branch` the session's branch without `refs/heads/`,
    `head` the commit that HEAD of the work tree was at, empty before the first one. `epoch` and
    `worker` are of the claim that it follows, 0 and empty before the first claim. `version` is of
    the program that made the last snapshot; a claim repeats it.
    """

    ref: str
    commit: str
    kind: Kind
    session: str
    epoch: int
    worker: str
    branch: str
    head: str
    version: str

    def message(self, submission: str = "") -> str:
        """The message of such a commit; `submission` makes a first one differ from any other."""
        values = {
            "Session": self.session,
            "Kind": self.kind,
            "Epoch": str(self.epoch),
            "Worker": self.worker,
            "Branch": self.branch,
            "Head": self.head,
            "Version": self.version,
            "Submission": submission,
        }
        lines = (f"Playbook-{name}: {value}\n" for name, value in values.items() if value)
        return f"{self.kind.capitalize()} of session {self.session}\n\n{''.join(lines)}"


Unpushed = tuple[Tip, str, tuple[str, str] | None]
"""What `Mirror.move` is given: a tip, the commit that it follows, and the branch."""


def read(ref: str, commit: str, message: str) -> Tip:
    """The tip that a commit with this message is. StateError PB-STATE-CORRUPT if it is none."""
    session = session_of(ref)
    try:
        values = _trailers(message)
        return Tip(
            ref=ref,
            commit=commit,
            kind="claim" if _valid(values, "Kind", "claim|snapshot") == "claim" else "snapshot",
            session=_valid(values, "Session", re.escape(session)),
            epoch=int(_valid(values, "Epoch", _EPOCH)),
            worker=_named("Worker", values.get("Worker", ""), is_worker),
            branch=_named("Branch", values["Branch"], is_branch),
            head=_valid({"Head": "", **values}, "Head", f"({_COMMIT})?"),
            version=_valid(values, "Version", _VERSION),
        )
    except (KeyError, ValueError) as error:
        raise damaged(ref, f"the trailer Playbook-{error.args[0]}") from None


def session_of(ref: str) -> str:
    """The session that a reference belongs to. StateError PB-STATE-CORRUPT if to none."""
    for folder in REF_FOLDERS:
        session = ref.removeprefix(folder)
        if session != ref and SESSION_ID.match(session):
            return session
    raise damaged(ref, "its name")


def is_branch(name: str) -> bool:
    """True if git allows a branch of that name, and it is not taken for an option."""
    return (
        0 < len(name.encode(errors="replace")) <= _LONGEST_BRANCH
        and not re.search(_NO_BRANCH, name)
        and printable(name) == name
        and name not in ("@", "HEAD")
        and not f"{HEADS}{name}/".startswith(REF_FOLDERS[1])
    )


def is_worker(name: str) -> bool:
    """True if that may be the name of a worker, or is empty."""
    return len(name) <= _LONGEST_WORKER and printable(name) == name and not re.search(r"\s", name)


def damaged(ref: str, what: str) -> StateError:
    """The error of a session's reference that holds what we did not write."""
    return StateError(
        "PB-STATE-CORRUPT",
        f"{first_line(ref, 120)} at the remote is damaged: {what} is missing or not valid",
        guidance="Look at who pushed it; delete the reference if the session does not matter.",
    )


def _trailers(message: str) -> Mapping[str, str]:
    """Name → value of the last paragraph. ValueError if a line is none, or one is there twice."""
    lines = message.rstrip("\n").rpartition("\n\n")[2].split("\n")
    values: dict[str, str] = {}
    for line in lines:
        found = re.fullmatch(_TRAILER, line)
        if not found or found[1] in values:
            raise ValueError(found[1] if found else "Session")
        values[found[1]] = found[2]
    return values


def _valid(values: Mapping[str, str], name: str, expression: str) -> str:
    if not re.fullmatch(expression, values[name]):
        raise ValueError(name)
    return values[name]


def _named(name: str, value: str, valid: Callable[[str], bool]) -> str:
    if not valid(value):
        raise ValueError(name)
    return value
