"""The Python API: six functions on top of what the command line calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from playbook_supervisor.commands.api import envelope as envelopes
from playbook_supervisor.commands.checking import checking
from playbook_supervisor.commands.driving import driving, resume_token
from playbook_supervisor.commands.driving.driving import DriveLimits, drive_options
from playbook_supervisor.commands.views import queries
from playbook_supervisor.drivers.observers import DriveResult, Observer
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.problems import FileReport
from playbook_supervisor.formats.versions import PROTOCOL
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Event
from playbook_supervisor.kernel.vocabulary import Mode
from playbook_supervisor.project.expressions.arguments import as_text, by_name
from playbook_supervisor.project.playbooks.playbook_file import PlaybookFile
from playbook_supervisor.sessions.store.snapshot import Snapshot


def list_playbooks(root: Path | str | None = None) -> tuple[PlaybookFile, ...]:
    """The playbooks of the project that contains `root`; those that cannot run say why."""
    return queries.playbooks(cwd=_folder(root))


def load_playbook(reference: str, *, cwd: Path | str | None = None) -> Playbook:
    """The playbook of that name or path. CheckError if it is not valid."""
    return queries.load_playbook(reference, cwd=_folder(cwd))


def check(path: Path | str) -> FileReport:
    """Check one file: every problem with its place, and `ok` if it can run."""
    (checked,) = checking.check_files([str(path)])
    return checked


def run(
    reference: str,
    args: Mapping[str, object] | Sequence[object] = (),
    *,
    mode: Mode | str = Mode.MANUAL,
    start: str = "",
    cwd: Path | str | None = None,
    agent: str = "",
    on_event: Callable[[Event], None] | None = None,
    **limits: Unpack[DriveLimits],
) -> DriveResult:
    """Begin a playbook and drive it to its end or to a gate, where it is left to wait.

    A value of `args` that is not text is what JSON writes for it; None gives none. `start` is the
    first step, `agent` what `--agent` takes, and `limits` are those of the options. `on_event` is
    called with each event once it is journaled. The ending's `why` is `completed`, `failed`,
    `aborted`, `waiting`, `paused` or `interrupted`; its `steps` are the last attempts by step, and
    its `entries` the whole journal.
    Raises PlaybookErrors before anything is begun.
    """
    drive = drive_options(agent, mode, **limits)
    observer = _EventObserver(on_event)
    if isinstance(args, Mapping):
        given = by_name(args)
    else:
        given = ["" if each is None else as_text(each) for each in args]
    return driving.run(
        reference, given, cwd=_folder(cwd), start=start, drive=drive, observer=observer
    )


def resume(
    session: str = "",
    *,
    answer: str = "",
    token: str = "",
    approve: bool = True,
    cwd: Path | str | None = None,
    agent: str = "",
    retry: bool = False,
    on_event: Callable[[Event], None] | None = None,
    **limits: Unpack[DriveLimits],
) -> DriveResult:
    """Continue a session, after answering its open gate if an answer is given.

    `limits` as for `run`; the session keeps those that are left out.
    A `token` of an `envelope` names the session itself: `approve` goes on, else it is aborted.
    ArgumentError PB-ARG-ANSWER if the answer is not one of the gate's choices; StateError
    PB-STATE-TOKEN-… if the token does not decide. Nothing is recorded then.
    """
    folder, observer = _folder(cwd), _EventObserver(on_event)
    drive = drive_options(agent, **limits)
    if token:
        if session or answer or retry:
            raise ArgumentError("PB-ARG-TOKEN", "a token takes no session and no other decision")
        return resume_token.resume(
            token, approve=approve, cwd=folder, drive=drive, observer=observer
        )
    if answer:
        snapshot = driving.answer([answer], session=session, cwd=folder)
        for event in snapshot.events:
            observer.on_event(event, snapshot)
    return driving.resume(session, cwd=folder, retry=retry, drive=drive, observer=observer)


def envelope(result: DriveResult) -> dict[str, Any]:
    """The end of a drive as `run --json` says it to programs: docs/rpc.md describes the keys.

    It has a token that resumes the session, unless that is over.
    """
    session = {"protocol": PROTOCOL, "session": result.snapshot.session_id}
    return session | envelopes.envelope(result)


class _EventObserver(Observer):
    def __init__(self, callback: Callable[[Event], None] | None) -> None:
        self._callback = callback

    def on_event(self, event: Event, snapshot: Snapshot) -> None:
        del snapshot
        if self._callback:
            self._callback(event)


def _folder(path: Path | str | None) -> Path | None:
    return None if path is None else Path(path)
