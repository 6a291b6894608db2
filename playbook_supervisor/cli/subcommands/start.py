"""`start`: create a session in a worktree of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from playbook_supervisor.agents import registry
from playbook_supervisor.cli import options, output
from playbook_supervisor.commands.worktrees import start as starting
from playbook_supervisor.errors import ArgumentError, StorageError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.system.process import processes

_CLIENT = "claude"
_PLAYBOOK = (sys.executable, "-P", "-m", "playbook_supervisor")


@options.command
@options.playbook
@click.option("--base", metavar="REF", default="", help="Where a new branch starts. Default: HEAD.")
@click.option(
    "--branch", metavar="NAME", default="", help="The branch. Default: the feature's own."
)
@click.option(
    "--agent", metavar="AGENT", default="", help="The agent of the session; as for `playbook run`."
)
@options.isolation
@click.option(
    "--exec",
    "exec_",
    is_flag=True,
    help="Open Claude Code in the worktree, or run the other agent of --agent there.",
)
def start(
    playbook: str,
    args: tuple[str, ...],
    *,
    base: str,
    branch: str,
    agent: str,
    isolation: str | None,
    exec_: bool,
) -> int:
    """Create a session in a worktree of its own.

    Use it to work on a second feature beside the first. It refuses before it creates anything:
    if changes are not committed, or if the commit lacks the playbook, its commands or the spec.
    The session waits until you type what this command prints, or until `playbook run` in the
    worktree. `playbook finish` removes the worktree after the merge.

    \b
    Examples:
      playbook start auto-feature 014
      playbook start auto-feature 014 --base develop
      playbook start auto-validate 013 --branch review-013
      playbook start auto-feature 014 --exec
      playbook start auto-feature 014 --agent exec:./my-agent --exec
    """
    client = exec_ and registry.is_default(agent)
    if client:
        _require_client()
    started = starting.start(
        playbook,
        args,
        base=base,
        branch=branch,
        client=client,
        agent=agent,
        isolation=isolation or "",
    )
    output.show_notices(started.notices)
    folder = shlex.quote(os.path.relpath(started.root, Path.cwd()))
    lines = [f"✓ Session {started.session_id} created", f"✓ Worktree created at {folder}"]
    if not exec_:
        lines += _next_lines(started, folder)
    output.write(*map(printable, lines))
    output.inform(*map(printable, _notes(started, client=exec_)))
    if exec_:
        sys.stdout.flush()
        run = [*_PLAYBOOK, *shlex.split(started.headless)[1:]]
        program = [_CLIENT, started.typed] if client else run
        processes.replace_process(program, cwd=started.root)
    return 0


def _require_client() -> None:
    if not output.is_interactive():
        raise ArgumentError(
            "PB-ARG-USAGE",
            "--exec opens Claude Code at your terminal, but there is none",
            guidance="Leave out --exec and type what this command then prints.",
        )
    if shutil.which(_CLIENT) is None:
        raise StorageError(
            "PB-IO-PROGRAM",
            f"`{_CLIENT}` is not on PATH, so --exec cannot open it",
            guidance="Install Claude Code, or omit --exec.",
        )


def _next_lines(started: starting.StartResult, folder: str) -> list[str]:
    if started.own_agent or not started.typed:
        return [f"→ Run: cd {folder} && {started.headless}"]
    return [f"→ Run: cd {folder} && claude", f"→ Then type: {started.typed}"]


def _notes(started: starting.StartResult, *, client: bool) -> list[str]:
    branch = started.branch
    origin = f"new, from {started.base.name}" if branch.new else "an existing branch"
    where = f"Branch: {branch.name}, {origin}."
    if client or (started.typed and not started.own_agent):
        where += " Claude Code asks once whether you trust the new folder."
    if client or not started.typed:
        return [where]
    if started.own_agent:
        return [where, f"In Claude Code, type there: {started.typed}"]
    return [where, f"Without Claude Code, type there: {started.headless}"]
