"""The log of an attempt, with all that its agent said: `logs/plan#1.log` beside the runtime state.

The journal keeps only the agent's last words. A log is never committed and may be lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path

from playbook_supervisor.formats.sanitize import last_words, printable
from playbook_supervisor.kernel.directives import Outcome, possible_usage
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.project.settings import checks
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.log_file import LogFile, last_part
from playbook_supervisor.system.process.capture import redact

_FAILED_CHECK = r"\bcheck (.+?): (?:exit [1-9]|it did not end)"
_MOST_LINES = 200
_FOLDER, _ENDING = "logs", ".log"
_LONGEST_ERROR = 2_000  # characters of an error's text that are journaled
_PART = 16 * 1024  # bytes that are searched for the last lines
_CONFIDENTIAL = (
    r"(?i)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|(?:API|ACCESS|PRIVATE)_?KEY)\Z"
)
_SHORTEST_SECRET = 8  # characters: shorter values would hide common words


def log_path(private: Path, attempt_id: str) -> Path:
    """The log of an attempt of the session whose local folder is `private`."""
    return private / _FOLDER / f"{attempt_id}{_ENDING}"


def logged_attempts(private: Path) -> tuple[str, ...]:
    """The ids of the attempts that have a log, the one that was begun first coming first."""
    try:
        logs = [path for path in (private / _FOLDER).iterdir() if path.suffix == _ENDING]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(path.stem for path in sorted(logs, key=lambda path: path.stat().st_ctime_ns))


def new_log(private: Path, attempt_id: str) -> LogFile:
    """An empty log, for what the attempt's agent says."""
    return LogFile(log_path(private, attempt_id))


def keep_words(private: Path, attempt_id: str, text: str, secrets: Iterable[str] = ()) -> None:
    """Log what a client's agent told us, which is its last message, unless it said nothing."""
    if not text.strip():
        return
    log = new_log(private, attempt_id)
    log.add(redact(printable(text, keep_newlines=True), secrets))
    log.close()


def last_lines(private: Path, attempt_id: str, count: int) -> tuple[str, ...]:
    """The last lines with visible text of an attempt's log; empty if there is none."""
    text = last_part(log_path(private, attempt_id), _PART)
    lines = (printable(line).rstrip() for line in text.split("\n"))
    return tuple([line for line in lines if line][-count:])


def begins_check(line: str) -> bool:
    """True if the line only says that the output of a check follows."""
    return re.fullmatch(r"check \S.*:", line) is not None


def faults(private: Path, entry: Entry, most: int) -> tuple[str, ...]:
    """The last lines of the log about each check that the error of a failed attempt names."""
    if not (failed := re.findall(_FAILED_CHECK, entry.error)):
        return ()
    logged, found = last_lines(private, entry.id, _MOST_LINES), list[str]()
    for name in dict.fromkeys(failed):
        begins = [at for at, line in enumerate(logged) if line == f"check {name}:"]
        if not begins:  # it was proved before, for another attempt
            continue
        printed = takewhile(lambda line: not begins_check(line), logged[begins[-1] + 1 :])
        lines = [line for line in checks.faults(printed, most + 1) if line not in entry.error]
        if lines:
            found += [f"check {name} printed:", *(f"  {line}" for line in lines[:most])]
    return tuple(found)


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables whose names say that they are secret."""
    named = (value for name, value in environment.items() if re.search(_CONFIDENTIAL, name))
    return tuple(value for value in named if len(value) >= _SHORTEST_SECRET)


def for_journal(outcome: Outcome) -> Outcome:
    """The outcome as the journal keeps it: the last words, and an error of bounded length."""
    usage, error = possible_usage(outcome.agent), outcome.error
    outcome = replace(outcome, output=last_words(outcome.output), agent=usage)
    if error is None:
        return outcome
    message, guidance, cause = (
        text if len(text) <= _LONGEST_ERROR else f"{text[: _LONGEST_ERROR - 1]}…"
        for text in (error.message, error.guidance, error.cause)
    )
    return replace(outcome, error=replace(error, message=message, guidance=guidance, cause=cause))
