"""`answer`: answer the open gate."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render import log, text
from playbook_supervisor.commands import driving, locate, protocol, view
from playbook_supervisor.formats.sanitize import printable


@options.command
@click.argument("words", metavar="[SESSION] TEXT...", nargs=-1, required=True)
@click.option(
    "--gate", metavar="ID", default="", help="Answer only this gate; exit with 3 if it is not open."
)
@options.session
def answer(words: tuple[str, ...], *, gate: str, session: str) -> int:
    """Answer the open gate, from any terminal.

    An answer begins or ends with one of the choices: continue, retry, accept, skip, abort. Your
    words are kept. The answer is only recorded: a waiting runner continues by itself; otherwise
    run `playbook resume`.

    \b
    Examples:
      playbook answer continue
      playbook answer "fixed the test, continue"
      playbook answer 20260219-a7k skip
      playbook answer --gate 'pr#1?1' continue
    """
    snapshot = driving.answer(words, session=session, gate=gate)
    output.show_notices(snapshot.notices)
    output.write(*(text.event_line(event, snapshot, log.now()) for event in snapshot.events))
    if protocol.in_a_client(snapshot):
        output.write("next: Claude Code continues at your next message there")
        return 0
    driven = view.driven(snapshot)
    name = locate.required_id(snapshot)
    output.write(text.next_move(snapshot, name, driven=driven))
    if not driven and (where := locate.other_worktree(snapshot)):
        output.inform(printable(where))
    return 0
