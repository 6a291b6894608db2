"""What a person sees before a step runs: a checkpoint's message, and what the step is given.

The values of args are filled in; a secret is shown by the name that the playbook gives it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from playbook_supervisor.formats.sanitize import counted, one_line, printable
from playbook_supervisor.kernel.model import SLASH, Playbook, Step
from playbook_supervisor.kernel.vocabulary import GateReason, Place
from playbook_supervisor.project.references import fill, interpolate, secret_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.kernel.state import Gate

MOST_LINES = 12
_ENDS = tuple(".?!…:")


def template_of(step: Step) -> str:
    """The message of a checkpoint, as the playbook has it."""
    return str(json.loads(step.options or "{}").get("message", "")) or step.id


def message_of(step: Step, values: Mapping[str, str]) -> str:
    """The sentence with which a checkpoint asks."""
    text = one_line(interpolate(template_of(step), values), 500)
    return text if text.endswith(_ENDS) else f"{text}."


def shows_preview(gate: Gate) -> bool:
    """Whether the person is to judge what the step is given, and not what it has done."""
    asks = gate.reason in (GateReason.APPROVAL, GateReason.TOOLS, GateReason.CHECKPOINT)
    return asks and gate.place is Place.BEFORE


def preview(
    playbook: Playbook, step: Step, values: Mapping[str, str], stdin: str
) -> tuple[str, ...]:
    """What the step is given, at most `MOST_LINES` lines: its args, options and standard input."""
    lines = list(_lines(playbook, step, values, stdin))
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 1 :] = [f"  … {counted(len(lines) - MOST_LINES + 1, 'more line')}"]
    return tuple(lines)


def _lines(playbook: Playbook, step: Step, values: Mapping[str, str], stdin: str) -> Iterator[str]:
    if step.namespace == SLASH and step.args:
        yield from _labelled("args", interpolate(step.args, values))
    if step.tools:
        yield from _labelled("tools", ", ".join(step.tools))
    if not step.is_checkpoint:
        names = secret_names(step.options, playbook.args)
        options = json.loads(step.options or "{}")
        filled = fill(options, values, {name: f"{{{{{name}}}}}" for name in names})
        for key, value in filled.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield from _labelled(key, text)
    if stdin:
        yield from _labelled(step.stdin, stdin)


def _labelled(label: str, text: str) -> Iterator[str]:
    """`label: text`; a text of several lines stands below its label."""
    lines = printable(text, keep_newlines=True).strip("\n").split("\n")
    if len(lines) == 1:
        yield f"{label}: {lines[0]}"
    else:
        yield f"{label}:"
        yield from (f"  {line}" for line in lines)
