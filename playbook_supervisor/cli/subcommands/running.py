"""`run`, `resume` and `answer`: drive a session to its end or to a gate."""

from __future__ import annotations

import sys

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.drive import drive_and_show
from playbook_supervisor.cli.render import log, plan, text
from playbook_supervisor.commands import locate, places
from playbook_supervisor.commands.driving import driving, resume_token
from playbook_supervisor.commands.driving.driving import answer as record
from playbook_supervisor.commands.driving.dry_run import plan as plan_run
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.claude_code import binding
from playbook_supervisor.drivers.observers import DriveResult, Observer, Prompter
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Finish
from playbook_supervisor.sessions.store.snapshot import Snapshot


@options.command
@options.playbook
@options.driving
@options.start
@click.option("--dry-run", is_flag=True, help="Show the plan and run nothing.")
@options.json
def run(
    playbook: str,
    args: tuple[str, ...],
    *,
    start: str,
    dry_run: bool,
    json: bool,
    **values: object,
) -> int:
    """Run a playbook to its end or to a gate.

    Each step runs in a fresh agent. At a terminal you are asked at gates. Otherwise the command
    prints the question and how to answer it, and exits with 4. Write ARGs in the order in which
    the playbook declares them, or as name=value.

    \b
    Examples:
      playbook run auto-feature 013
      playbook run auto-change "add --json to list"
      playbook run auto-feature 013 --dry-run
      playbook run auto-feature feature=013 --from implement
      playbook run auto-validate 013 --mode autonomous --json
      playbook run auto-feature 013 --agent exec:./my-agent
    """
    drive = options.drive_options(values)
    if not dry_run:
        return drive_and_show(
            lambda observer, prompter: driving.run(
                playbook, args, start=start, drive=drive, observer=observer, prompter=prompter
            ),
            options.level(),
            json=json,
        )
    planned = plan_run(playbook, args, start=start, drive=drive)
    if json:
        output.write_json(plan.as_json(planned))
        return planned.exit_code
    colour, width = output.wants_colour(), output.terminal_width()
    output.write(*plan.lines(planned, colour=colour, width=width), width=width)
    output.inform(plan.verdict(planned))
    return planned.exit_code


_SETTINGS = "y takes the project's settings, n keeps those with which the session began."


@options.command
@options.session_argument
@click.option("--retry", is_flag=True, help="Run the failed steps of a failed session again.")
@click.option("--kill", is_flag=True, help="End orphaned workers instead of waiting for them.")
@click.option(
    "--accept-config",
    is_flag=True,
    help="Use the project's present settings. Without it, the session keeps those with which it"
    " began.",
)
@click.option(
    "--on-this-branch",
    is_flag=True,
    help="Let the session belong to the branch that is checked out, and go on there.",
)
@click.option("--token", metavar="T", default="", help="The token of an earlier answer in JSON.")
@click.option("--approve", is_flag=True, help="With --token: answer continue at its gate, resume.")
@click.option("--deny", is_flag=True, help="With --token: abort its session.")
@options.driving
@options.json
def resume(
    named: str,
    *,
    session: str,
    retry: bool,
    accept_config: bool,
    on_this_branch: bool,
    token: str,
    approve: bool,
    deny: bool,
    json: bool,
    **values: object,
) -> int:
    """Continue a session.

    Needs no arguments: it continues the session of this worktree, with the agent and the mode
    that the session began with. Completed steps do not run again.

    \b
    Examples:
      playbook resume
      playbook resume 20260219-a7k
      playbook resume --retry
      playbook resume --kill --agent exec:./my-agent
      playbook resume --token TOKEN --approve --json
    """
    chosen, drive = options.chosen_session(named, session), options.drive_options(values)
    if token or approve or deny:
        if not token or approve is deny:
            raise click.UsageError("--token needs --approve or --deny, and these need --token")
        if chosen or retry or accept_config or on_this_branch:
            raise click.UsageError("--token names its session and takes no other decision")
        return drive_and_show(
            lambda observer, _: resume_token.resume(
                token, approve=approve, drive=drive, observer=observer
            ),
            options.level(),
            json=json,
            asks=False,
        )
    return drive_and_show(
        lambda observer, prompter: driving.resume(
            chosen,
            retry=retry,
            accept_config=accept_config,
            on_this_branch=on_this_branch,
            drive=drive,
            observer=observer,
            prompter=prompter,
            confirm=lambda question: (
                output.is_interactive() and output.confirmed(question, _SETTINGS, default=False)
            ),
        ),
        options.level(),
        json=json,
    )


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
        output.write(f"{text.stamp(log.now())} {decided.what}", f"next: {decided.next}")
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
