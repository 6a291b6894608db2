"""Notifying people who are not at the terminal, by a program or the URLs of the project.

Each gate and each end is notified once, however often it is asked about, and a gate again after
`remind_after`. Hooks import this module; the observer of a headless run is in `notifier.py`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask, Finish
from playbook_supervisor.kernel.vocabulary import GateReason
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.system.disk.files import content, locked, remove, write_atomically

DEADLINE = 10.0  # seconds that the program, or the services behind the URLs, may take
_SENT = "called"
_LOCK = "called.lock"
_FAILED = "call-failed"
_MAX_LENGTH = 400
_LONGEST_BODY = 1000


class Notice(Record):
    """A message for a person. Two notices with the same `about` have the same subject.

    `text` is one line, `title` and `body` say more where there is room. `link` is the page of the
    inbox, if it has an address. `waits`: a gate, of which people may be reminded.
    """

    session: str
    about: str
    text: str
    title: str = "playbook"
    body: str = ""
    link: str = ""
    waits: bool = False

    @property
    def line(self) -> str:
        """The text and the link on one line."""
        return f"{self.text} {self.link}".rstrip()

    @property
    def message(self) -> str:
        """The body, or else the text, and the link on a line of its own."""
        return f"{self.body or self.text}\n{self.link}".rstrip()


def page_path(key: str, session: str, gate: str = "") -> str:
    """The path of the session's or the gate's page in the inbox; `key` is that of the checkout."""
    if not gate:
        return f"/session/{key}/{quote(session, safe='')}"
    return f"/gate/{key}/{quote(session, safe='')}?id={quote(gate, safe='')}"


def notice_for(snapshot: Snapshot) -> Notice | None:
    """The notice of an open gate or of the session's end, otherwise None."""
    manifest = snapshot.manifest
    subject = first_line(manifest.subject)
    name = f"{manifest.playbook} on {subject}" if subject else manifest.playbook
    key, inbox = snapshot.store.checkout.key, snapshot.config.inbox.url
    match snapshot.directive:
        case Ask(id=gate) as asked:
            title = f"{name} waits for you at {gate}"
            text = f"{title}: {snapshot.question}"
            body = f"{first_line(snapshot.question, _LONGEST_BODY)}\nAnswer: {_choices(asked)}."
            about, path = gate, page_path(key, manifest.session_id, gate)
        case Finish(status=status):
            title = f"{name}: {manifest.ending}"
            text = f"{title}, {snapshot.progress}"
            body = f"{snapshot.progress}."
            journaled = snapshot.state.past.entries + len(snapshot.state.entries)
            about = f"{status} after {journaled}"  # a retried session may fail again
            path = page_path(key, manifest.session_id)
        case _:
            return None
    return Notice(
        manifest.session_id,
        about,
        first_line(text, _MAX_LENGTH),
        first_line(title),
        body,
        f"{inbox}{path}" if inbox else "",
        waits=isinstance(snapshot.directive, Ask),
    )


def _choices(asked: Ask) -> str:
    if asked.reason is GateReason.QUESTION:
        return "the number of an option, words of your own, or abort"
    *others, last = asked.words
    return f"{', '.join(others)} or {last}" if others else last


def claim(notice: Notice, private: Path, remind_after: float = 0.0) -> bool:
    """Record that this notice is being sent; False if it has been sent before.

    A gate's notice may be sent again when `remind_after` seconds have passed, unless that is 0. Of
    several processes that claim at once, one succeeds. StorageError, StateError PB-STATE-BUSY.
    """
    with locked(private / _LOCK):
        about, sent = _last_claim(private)
        now = time.time()
        due = True
        if about == notice.about:
            if not (notice.waits and remind_after):
                return False
            if 0 <= now - sent < remind_after:
                return False
            due = sent <= now  # else the clock was set back: count from now
        write_atomically(private / _SENT, f"{notice.about}\n{now:.3f}".encode(), durable=False)
        return due


def seconds_left(notice: Notice, private: Path, remind_after: float) -> float:
    """After how many seconds people are to be reminded; 0 if that is due. StorageError."""
    about, sent = _last_claim(private)
    passed = time.time() - sent
    if about != notice.about or passed < 0:
        return remind_after
    return max(remind_after - passed, 0.0)


def _last_claim(private: Path) -> tuple[str, float]:
    """The last notice and its time; an earlier version kept no time, which reads as never."""
    about, _, sent = content(private / _SENT).decode("utf-8", "replace").partition("\n")
    with suppress(ValueError):
        return about, float(sent)
    return about, 0.0


def deliver(config: Config, notice: Notice, root: Path) -> str:
    """Send the notice as `notify` says; why that failed in a sentence, or empty.

    No sentence contains a secret. Interrupted if this thread is to end its programs.
    """
    if config.notifies_by_url:
        from playbook_supervisor.drivers.url_notices import send_to_urls

        return send_to_urls(config, notice.title, notice.message, root, DEADLINE)
    if not config.notify:
        return ""
    from playbook_supervisor.system.process.processes import run

    stdin = f"{notice.line}\n".encode(errors="replace")
    program = first_line(config.notify[0])
    try:
        done = run(config.notify, cwd=root, stdin=stdin, timeout=DEADLINE, cap=10_000)
    except PlaybookError as error:
        return f"the notification failed: {first_line(error.message)}"
    if done.timed_out:
        return f"the notification failed: {program} took longer than {DEADLINE:.0f} s"
    if done.returncode:
        reason = first_line(done.stderr or done.stdout)
        status = f"{program} ended with exit status {done.returncode}"
        return f"the notification failed: {status}{f', {reason}' if reason else ''}"
    return ""


def send_detached(config: Config, notice: Notice, root: Path, private: Path) -> None:
    """Send the notice without waiting; `last_failure` reports the result."""
    from playbook_supervisor.system.process.processes import run_detached

    run_detached(lambda: _record_failure(deliver(config, notice, root), private))


def last_failure(private: Path) -> str:
    """Why the last detached notification failed; empty if it did not."""
    try:
        return first_line(content(private / _FAILED).decode("utf-8", "replace"))
    except PlaybookError:
        return ""


def _record_failure(problem: str, private: Path) -> None:
    if problem:
        write_atomically(private / _FAILED, problem.encode(), durable=False)
    else:
        remove(private / _FAILED)
