"""What a person is told who is called, and the project's own command that calls them.

Once about each thing: a gate that is asked again calls nobody a second time.
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

DEADLINE = 10.0
"""Seconds that a command may take to call somebody."""

_CALLED = "called"
_FAILED = "call-failed"
_LINE = 400


class Notice(Record):
    """One line for a person; `about` is the same whenever it is about the same thing."""

    session: str
    about: str
    text: str


def of(outlook: Snapshot) -> Notice | None:
    """The notice of a gate that waits or of an end; None while the session goes on by itself."""
    manifest = outlook.manifest
    name = f"{manifest.playbook} on {manifest.feature}" if manifest.feature else manifest.playbook
    match outlook.directive:
        case Ask(id=gate):
            said = f"{name} waits for you at {gate}: {outlook.question}"
            about = gate
        case Finish(status=status):
            said = f"{name}: {status}, {outlook.done}/{outlook.total} steps"
            journaled = outlook.state.past.entries + len(outlook.state.entries)
            about = f"{status} after {journaled}"  # a failed session may fail once more
        case _:
            return None
    return Notice(manifest.session_id, about, first_line(said, _LINE))


def news(notice: Notice, private: Path) -> bool:
    """Whether nobody was called about this yet; from now on somebody was."""
    file = private / _CALLED
    about = notice.about.encode()
    try:
        if read_bytes(file) == about:
            return False
    except FileNotFoundError:
        pass
    write_atomically(file, about, durable=False)
    return True


def call(argv: Sequence[str], notice: Notice, root: Path) -> str:
    """Run the command with the notice on its stdin; why that failed in a sentence, or empty."""
    from playbook_supervisor.system.processes import run

    said = f"{notice.text}\n".encode(errors="replace")
    program = first_line(argv[0])
    try:
        done = run(argv, cwd=root, stdin=said, timeout=DEADLINE, cap=10_000)
    except PlaybookError as error:
        return f"nobody was called: {first_line(error.message)}"
    if done.timed_out:
        return f"nobody was called: {program} took longer than {DEADLINE:.0f} s"
    if done.returncode:
        why = first_line(done.stderr or done.stdout)
        status = f"{program} ended with exit status {done.returncode}"
        return f"nobody was called: {status}{f', {why}' if why else ''}"
    return ""


def call_apart(argv: Sequence[str], notice: Notice, root: Path, private: Path) -> None:
    """The same, with nobody waiting for it; `failure` tells what came of it."""
    from playbook_supervisor.system.processes import apart

    apart(lambda: _remember(call(argv, notice, root), private))


def failure(private: Path) -> str:
    """Why the last call that nobody waited for failed; empty where it did not."""
    try:
        return first_line(read_bytes(private / _FAILED).decode("utf-8", "replace"))
    except (FileNotFoundError, PlaybookError):
        return ""


def _remember(problem: str, private: Path) -> None:
    if problem:
        write_atomically(private / _FAILED, problem.encode(), durable=False)
    else:
        remove(private / _FAILED)
