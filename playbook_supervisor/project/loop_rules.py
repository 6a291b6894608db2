"""The rules about loops: what they are about, and where they have a meaning.

The data may violate the schema elsewhere, so that all problems are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from playbook_supervisor.formats.located import Document, Path
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.formats.sanitize import did_you_mean, first_line
from playbook_supervisor.kernel.model import CHECKPOINT
from playbook_supervisor.project.format_version import text_of, things
from playbook_supervisor.project.loop_items import arg_of
from playbook_supervisor.project.schema_problems import RULE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Thing = Mapping[str, Any]


def loop_of(step: Thing) -> Thing:
    """The `for_each` of a step; empty if it has none."""
    loop = step.get("for_each")
    return loop if isinstance(loop, dict) else {}


def source_of(step: Thing) -> str:
    """The reference to an earlier step whose list the loop is about; empty for an arg."""
    source = text_of(loop_of(step), "in")
    return "" if arg_of(source) else source


def violations(data: Thing, document: Document) -> Iterator[Problem]:
    """Every loop that cannot be run."""
    args = {text_of(arg, "name"): arg.get("secret") is True for _, arg in things(data, "args")}
    for index, step in things(data, "steps"):
        path: Path = ("steps", index)
        if loop := loop_of(step):
            yield from _source(document, (*path, "for_each", "in"), text_of(loop, "in"), args)
            yield from _name(document, (*path, "for_each", "as"), text_of(loop, "as"), args)
        if loop and text_of(step, "parallel_group"):
            message = "a step of a parallel group cannot be a loop"
            guidance = "Remove `parallel_group`: `at_once` says how many items run together."
            yield problem_at(document, (*path, "for_each"), RULE, message, guidance, key=True)
        for key in ("for_each", "until"):
            if key in step and text_of(step, "command") == CHECKPOINT:
                message = f"`{key}` has no meaning for a `checkpoint` command"
                guidance = "Remove it: a checkpoint runs nothing."
                yield problem_at(document, (*path, key), RULE, message, guidance, key=True)


def _source(
    document: Document, path: Path, source: str, args: Mapping[str, bool]
) -> Iterator[Problem]:
    """An arg must be declared; the reference to a step is checked as every other."""
    arg = arg_of(source)
    if arg and arg not in args:
        guidance = did_you_mean(arg, args, "${}")
        guidance += "Declare it under `args`, or write `$STEP.json` for what a step printed."
        message = f"`{first_line(source, 60)}` is not a declared arg"
        yield problem_at(document, path, RULE, message, guidance)
    elif args.get(arg):
        message = f"`{first_line(source, 60)}` is secret, and items are journaled"
        yield problem_at(document, path, RULE, message, "Declare the arg without `secret`.")


def _name(document: Document, path: Path, name: str, args: Mapping[str, bool]) -> Iterator[Problem]:
    if name in args:
        message = f"the item has the name of the arg `{first_line(name, 60)}`"
        yield problem_at(document, path, RULE, message, "Give the item another name.")
