"""What a worker needs to do its part of a session."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.kernel.model import SLASH
from playbook_supervisor.project.references import interpolate
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.snapshot import Snapshot, arg_values


class Work(Record):
    """One launched attempt, ready for a worker: the installed command and its arguments.

    `feedback` is what a retry is told beside the command.
    """

    attempt: Attempt
    command: str
    args: str
    feedback: str = ""

    @property
    def typed(self) -> str:
        """What a person would type."""
        return f"{self.command} {self.args}".rstrip()

    @property
    def skill(self) -> str:
        """The command's name as the client's `Skill` tool wants it."""
        return self.command[1:]

    @property
    def prompt(self) -> str:
        """What a fresh subagent is told: the command as by hand (FR41), then the feedback."""
        args = f" with args `{self.args}`" if self.args else ""
        told = f"\n\n{self.feedback}" if self.feedback else ""
        return f"Run the Skill `{self.skill}`{args}, first, then follow it to its end.{told}"


def work_of(root: Path, snapshot: Snapshot, attempt: Attempt) -> Work:
    """The attempt's installed command and interpolated arguments (kai FR23)."""
    step, values = attempt.step, arg_values(snapshot)
    if step.namespace == SLASH:
        from playbook_supervisor.project.slash_commands import resolve

        found = resolve(root, step.command, home=Path.home())
        command = found.name if found else step.command
    else:
        command = interpolate(step.command, values)
    arguments = interpolate(step.args, values).strip()
    return Work(attempt, command, arguments, _feedback(snapshot, attempt))


def _feedback(snapshot: Snapshot, attempt: Attempt) -> str:
    if attempt.number == 1 or not (snapshot.config.feedback and attempt.step.feedback):
        return ""
    from playbook_supervisor.sessions.feedback import feedback

    return feedback(snapshot.state.attempts(attempt.step.id))
