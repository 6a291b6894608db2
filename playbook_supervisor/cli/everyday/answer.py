"""`answer`: answer the open gate."""

from __future__ import annotations

import sys

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.drive import drive_and_show
from playbook_supervisor.cli.render import log, text, wording
from playbook_supervisor.commands import locate, places
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import answer as record
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.claude_code import binding
from playbook_supervisor.drivers.observers import DriveResult, Observer, Prompter
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Finish
from playbook_supervisor.sessions.store.snapshot import Snapshot


@options.command
@click.argument("words", metavar="[SESSION] TEXT...", nargs=-1, required=True)
@click.option(
    "--gate", metavar="ID", default="", help="Answer only this gate; exit with 3 if it is not open."
)
@click.option("--resume", is_flag=True, help="Then continue the session, as `playbook resume`.")
@options.session
def answer(words: tuple[str, ...], *, gate: str, resume: bool, session: str) -> int:
    """Answer the open gate, from any terminal.

    An answer begins or ends with one of the choices: continue, retry, accept, skip, abort. Your
    words are kept. A waiting runner continues by itself; otherwise run `playbook resume`, or
    answer with --resume, whose exit code is that of `playbook resume`. A session of the fleet is
    answered from any folder, and a worker continues it.

    \b
    Examples:
      playbook answer continue
      playbook answer "fixed the test, continue"
      playbook answer 20260219-a7k skip
      playbook answer continue --resume
      playbook answer --gate 'pr#1?1' continue
    """
    if decided := places.answer(words, session=session, gate=gate):
        output.write(f"{wording.stamp(log.now())} {decided.what}", f"next: {decided.next}")
        return 0
    snapshot = record(words, session=session, gate=gate)
    output.write(*(text.event_line(event, snapshot, log.now()) for event in snapshot.events))
    sys.stdout.flush()  # what was recorded is read before what follows from it
    output.show_notices(snapshot.notices)
    if binding.living(snapshot.private) is not None:
        output.write("next: Claude Code continues at your next message there")
        return 0
    driven = driver_lock.living(snapshot.private) is not None
    if resume and not driven:
        return _resume(snapshot)
    name = locate.required_id(snapshot)
    output.write(text.next_move(snapshot, name, driven=driven))
    if not driven and (where := locate.other_worktree(snapshot)):
        output.inform(printable(where))
    return 0


def _resume(snapshot: Snapshot) -> int:
    def drive(observer: Observer, prompter: Prompter | None) -> DriveResult:
        if isinstance(snapshot.directive, Finish):  # the answer has ended the session
            return DriveResult(snapshot, snapshot.manifest.status.value)
        return driving.resume(snapshot.session_id, observer=observer, prompter=prompter)

    return drive_and_show(drive, options.level(), json=False)
