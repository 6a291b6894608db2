"""`issue`: open an issue on the forge through `gh`.

An open issue with this title that the user has opened before is reported, not opened twice.
"""

from __future__ import annotations

from playbook_supervisor.executors.forge import create, entries, gh, title_of, titled
from playbook_supervisor.executors.protocol import Context, Task, refuse_words
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Outcome

_OPEN = ("--state", "open", "--author", "@me", "--limit", "100", "--json", "number,title,url")


class IssueExecutor:
    """Its output is the address of the issue."""

    namespace = "issue"
    with_schema = titled(
        {
            "assignee": {
                "type": "string",
                "minLength": 1,
                "description": "The login of a person, or @me.",
            },
            "labels": {
                "type": "array",
                "items": {"type": "string", "minLength": 1},
                "description": "Labels that the repository has.",
            },
        }
    )

    check = staticmethod(refuse_words)

    def execute(self, task: Task, context: Context) -> Outcome:
        """Open the issue. StepError PB-STEP-FORGE if gh refuses."""
        title = title_of(task)
        for known in entries(gh(context, "issue", "list", *_OPEN)):
            number, address = known.get("number"), known.get("url")
            if known.get("title") == title and isinstance(number, int):
                return _reported(context, "is open already", number, first_line(str(address)))
        chosen = [f"--label={_value(label)}" for label in task.options.get("labels", ())]
        if assignee := task.options.get("assignee", ""):
            chosen.append(f"--assignee={_value(assignee)}")
        return _reported(context, "is opened", *create(context, "issue", task, *chosen))


def _reported(context: Context, state: str, number: int, address: str) -> Outcome:
    context.say(f"issue #{number} {state}: {address}")
    return Outcome(output=address, data={"number": number, "url": address})


def _value(text: str) -> str:
    """One value of an option that gh reads as a line of CSV."""
    quoted = text.replace('"', '""')
    return f'"{quoted}"'
