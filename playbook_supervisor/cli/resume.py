"""`resume`: continue a session."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options, output


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
@options.driving
@options.json
def resume(
    named: str, *, session: str, retry: bool, accept_config: bool, json: bool, **values: object
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
    """
    from playbook_supervisor.cli.drive import drive_and_show  # help and completion need neither
    from playbook_supervisor.commands import driving

    def confirmed(question: str) -> bool:
        return output.is_interactive() and output.confirmed(question, default=False)

    chosen, drive = options.chosen_session(named, session), options.drive_options(values)
    return drive_and_show(
        lambda observer, prompter: driving.resume(
            chosen,
            retry=retry,
            accept_config=accept_config,
            drive=drive,
            observer=observer,
            prompter=prompter,
            confirm=confirmed,
        ),
        options.level(),
        json=json,
    )
