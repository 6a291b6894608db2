"""Notifying people who are not at the terminal, by the project's own command.

Each gate and each end is notified once, however often it is asked about. Hooks import this module;
the observer of a headless run is in `notifier.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask, Finish
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.system.files import read_bytes, remove, write_atomically

DEADLINE = 10.0  # seconds that the command may take
_SENT = "called"
_FAILED = "call-failed"
_MAX_LENGTH = 400


class Notice(Record):
    """One line for a person. Two notices with the same `about` have the same subject."""

    session: str
    about: str
    text: str


def notice_for(snapshot: Snapshot) -> Notice | None:
    """The notice of an open gate or of the session's end, otherwise None."""
    manifest = snapshot.manifest
    subject = first_line(manifest.subject)
    name = f"{manifest.playbook} on {subject}" if subject else manifest.playbook
    match snapshot.directive:
        case Ask(id=gate):
            text = f"{name} waits for you at {gate}: {snapshot.question}"
            about = gate
        case Finish(status=status):
            text = f"{name}: {snapshot.manifest.ending}, {snapshot.progress}"
            journaled = snapshot.state.past.entries + len(snapshot.state.entries)
            about = f"{status} after {journaled}"  # a retried session may fail again
        case _:
            return None
    return Notice(manifest.session_id, about, first_line(text, _MAX_LENGTH))


def claim(notice: Notice, private: Path) -> bool:
    """Record that this notice is being sent; False if it has been sent before."""
    file = private / _SENT
    about = notice.about.encode()
    try:
        if read_bytes(file) == about:
            return False
    except FileNotFoundError:
        pass
    write_atomically(file, about, durable=False)
    return True


def send(argv: Sequence[str], notice: Notice, root: Path) -> str:
    """Run the command with the notice on its stdin; why that failed in a sentence, or empty."""
    from playbook_supervisor.system.processes import run

    stdin = f"{notice.text}\n".encode(errors="replace")
    program = first_line(argv[0])
    try:
        done = run(argv, cwd=root, stdin=stdin, timeout=DEADLINE, cap=10_000)
    except PlaybookError as error:
        return f"the notification failed: {first_line(error.message)}"
    if done.timed_out:
        return f"the notification failed: {program} took longer than {DEADLINE:.0f} s"
    if done.returncode:
        reason = first_line(done.stderr or done.stdout)
        status = f"{program} ended with exit status {done.returncode}"
        return f"the notification failed: {status}{f', {reason}' if reason else ''}"
    return ""


def send_detached(argv: Sequence[str], notice: Notice, root: Path, private: Path) -> None:
    """Send the notice without waiting; `last_failure` reports the result."""
    from playbook_supervisor.system.processes import run_detached

    run_detached(lambda: _record_failure(send(argv, notice, root), private))


def last_failure(private: Path) -> str:
    """Why the last detached notification failed; empty if it did not."""
    try:
        return first_line(read_bytes(private / _FAILED).decode("utf-8", "replace"))
    except (FileNotFoundError, PlaybookError):
        return ""


def _record_failure(problem: str, private: Path) -> None:
    if problem:
        write_atomically(private / _FAILED, problem.encode(), durable=False)
    else:
        remove(private / _FAILED)
