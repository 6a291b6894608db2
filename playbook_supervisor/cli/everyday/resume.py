"""`resume`: continue a session."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.drive import drive_and_show
from playbook_supervisor.commands.driving import driving, resume_token

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
