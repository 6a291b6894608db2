"""The commands of every day, as click is told of them."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options


@options.command()
@click.option("--yes", is_flag=True, help="Write without asking.")
@click.option(
    "--no-hooks/--hooks",
    default=None,
    help="Leave .claude/settings.json alone; said once, it is remembered.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing.")
@options.everywhere
def init(*, yes: bool, no_hooks: bool | None, dry_run: bool) -> int:
    """Put playbooks into this project.

    Shows for each file whether it is written, kept, merged or in conflict, and asks. Files that
    are not ours are never overwritten, in the client's settings nothing foreign is touched, and a
    second time writes nothing.

    \b
    Examples:
      playbook init
      playbook init --dry-run
      playbook init --yes
      playbook init --no-hooks
    """
    from playbook_supervisor.cli.init import init

    return init(yes=yes, no_hooks=no_hooks, dry_run=dry_run)


@options.command()
@click.option("--check", is_flag=True, help="Write nothing; 1 if something is out of date.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and write nothing.")
@options.json
@options.everywhere
def update(*, check: bool, dry_run: bool, json: bool) -> int:
    """Bring what `playbook init` installed to the version that runs.

    What nobody edited is replaced. What you edited stays, with the new version beside it as *.new;
    what you deleted stays deleted; playbooks and sessions of yours are not looked at.

    \b
    Examples:
      playbook update
      playbook update --dry-run
      playbook update --check
    """
    from playbook_supervisor.cli.update import update

    return update(check=check, dry_run=dry_run, json=json)


@options.command()
@options.playbook
@options.driving
@options.start
@click.option("--dry-run", is_flag=True, help="Show what it would do, and do none of it.")
@options.json
@options.everywhere
def run(
    playbook: str,
    args: tuple[str, ...],
    *,
    start: str,
    dry_run: bool,
    json: bool,
    **how: object,
) -> int:
    """Drive a playbook to its end, or to a gate.

    Each step runs in a fresh agent. At a terminal you are asked at gates; elsewhere it ends with
    exit code 4, the question, and how to answer. ARGs stand in the order in which the playbook
    declares them, or are written name=value.

    \b
    Examples:
      playbook run auto-feature 013
      playbook run auto-feature 013 --dry-run
      playbook run auto-feature feature=013 --from implement
      playbook run auto-validate 013 --mode autonomous --json
      playbook run auto-feature 013 --agent exec:./my-agent
    """
    from playbook_supervisor.cli.run import plan, run

    if dry_run:
        return plan(playbook, args, start=start, drive=options.drive(how), json=json)
    return run(
        playbook, args, start=start, drive=options.drive(how), json=json, level=options.level()
    )


@options.command()
@options.playbook
@options.branching
@click.option("--exec", "exec_", is_flag=True, help="Open Claude Code there at once.")
@options.everywhere
def start(playbook: str, args: tuple[str, ...], *, base: str, branch: str, exec_: bool) -> int:
    """Begin a playbook in a worktree of its own.

    For a second feature beside the first. What keeps it from beginning is said before anything is
    made: changes that are not committed, or what the commit lacks that the worktree would get (the
    playbook, the commands, the spec). The session waits there until you type what is printed, or
    until `playbook run` of the same; `playbook finish` takes the worktree away after the merge.

    \b
    Examples:
      playbook start auto-feature 014
      playbook start auto-feature 014 --base develop
      playbook start auto-validate 013 --branch review-013
      playbook start auto-feature 014 --exec
    """
    from playbook_supervisor.cli.start import start

    return start(playbook, args, base=base, branch=branch, exec=exec_)


@options.command()
@options.one_session
@click.option("--force", is_flag=True, help="Throw away what is in the way; asks first.")
@options.everywhere
def finish(named: str, *, session: str, force: bool) -> int:
    """Remove a session's worktree and branch after the merge.

    Only if everything is committed and merged: into the branch that it came from, the main one or
    their upstreams, also squashed or rebased, or by a pull request that `gh` says is merged. Else
    each thing that is in the way is named, and nothing is touched. The journal stays.

    \b
    Examples:
      playbook finish
      playbook finish 20260219-b3m
      playbook finish 20260219-b3m --force
    """
    from playbook_supervisor.cli.finish import finish

    return finish(options.meant(named, session), force=force)


@options.command()
@options.one_session
@click.option("--retry", is_flag=True, help="Take up a failed session: its failed steps run again.")
@click.option("--kill", is_flag=True, help="End workers that were left behind; else wait for them.")
@options.driving
@options.json
@options.everywhere
def resume(named: str, *, session: str, retry: bool, json: bool, **how: object) -> int:
    """Go on where a session stands.

    Needs no arguments: it takes the session of this worktree, with the agent and mode that it
    began with. Nothing that is settled runs again.

    \b
    Examples:
      playbook resume
      playbook resume 20260219-a7k
      playbook resume --retry
      playbook resume --kill --agent exec:./my-agent
    """
    from playbook_supervisor.cli.run import resume

    meant = options.meant(named, session)
    level = options.level()
    return resume(meant, retry=retry, drive=options.drive(how), json=json, level=level)


@options.command()
@click.argument("words", metavar="[SESSION] TEXT...", nargs=-1, required=True)
@click.option("--gate", metavar="ID", default="", help="Only this gate: 3 if another is open now.")
@options.session
@options.everywhere
def answer(words: tuple[str, ...], *, gate: str, session: str) -> int:
    """Answer the gate that waits, from any terminal.

    The answer begins or ends with one of the choices: continue, retry, accept, skip, abort. Your
    words are kept. It is only recorded; a runner that waits goes on, else `playbook resume` does.

    \b
    Examples:
      playbook answer continue
      playbook answer "fixed the test, continue"
      playbook answer 20260219-a7k skip
      playbook answer --gate 'pr#1?1' continue
    """
    from playbook_supervisor.cli.answer import answer

    return answer(words, session=session, gate=gate)


@options.command()
@options.one_session
@click.option("--all", is_flag=True, help="Ended sessions, too.")
@click.option("--watch", is_flag=True, help="Go on showing them; one that is named, to its end.")
@options.json
@options.everywhere
def status(named: str, *, session: str, all: bool, watch: bool, json: bool) -> int:
    """Show the sessions of all worktrees, those that wait for you first.

    With --watch also what runs, for how long, and what its agent said last; where stdout is no
    terminal, a line for each change.

    \b
    Examples:
      playbook status
      playbook status --all
      playbook status --watch
      playbook status 20260219-a7k --json
    """
    meant = options.meant(named, session)
    if watch:
        if json:
            raise click.UsageError("--json prints one object, and --watch goes on")
        from playbook_supervisor.cli.watch import watch as go_on

        return go_on(meant, all=all)
    from playbook_supervisor.cli.status import status

    return status(meant, all=all, json=json)


@options.command()
@options.one_session
@click.option(
    "--html",
    metavar="FILE",
    default="",
    type=click.Path(dir_okay=False),
    help="Write it as one page that needs nothing else; - is stdout.",
)
@options.json
@options.everywhere
def show(named: str, *, session: str, html: str, json: bool) -> int:
    """Show one session: every attempt, its conditions and evidence, and what humans said.

    \b
    Examples:
      playbook show
      playbook show 20260219-a7k
      playbook show --html session.html
    """
    from playbook_supervisor.cli.show import show

    if html and json:
        raise click.UsageError("--html and --json exclude each other")
    return show(options.meant(named, session), json=json, html=html)


@options.command("list")
@options.json
@options.everywhere
def list_(*, json: bool) -> int:
    """List the playbooks of this project.

    \b
    Examples:
      playbook list
      playbook list --json
    """
    from playbook_supervisor.cli.list import list as show_playbooks

    return show_playbooks(json=json)


@options.command()
@options.one_session
@options.everywhere
def pause(named: str, *, session: str) -> int:
    """Stop driving a session and leave it open.

    What runs may return; nothing else is launched. `playbook resume` goes on.

    \b
    Examples:
      playbook pause
      playbook pause 20260219-a7k
    """
    from playbook_supervisor.cli.pause import pause

    return pause(options.meant(named, session))


@options.command()
@options.one_session
@click.option("-m", "--message", metavar="TEXT", default="", help="Why, for the journal.")
@options.everywhere
def abort(named: str, *, session: str, message: str) -> int:
    """End a session for good, journaled.

    What runs is stopped first, also where another terminal drives it.

    \b
    Examples:
      playbook abort
      playbook abort 20260219-a7k -m "superseded by 014"
    """
    from playbook_supervisor.cli.abort import abort

    return abort(options.meant(named, session), message)


@options.command()
@options.everywhere
def demo() -> int:
    """Watch the main job in a scratch repository, with an agent that follows a script.

    Nothing of yours is touched or needed. Without a terminal it answers its own gate, and says so.

    \b
    Examples:
      playbook demo
    """
    from playbook_supervisor.cli.demo import demo

    return demo(level=options.level())


COMMANDS = (
    init,
    update,
    run,
    start,
    resume,
    answer,
    status,
    show,
    list_,
    pause,
    abort,
    finish,
    demo,
)
