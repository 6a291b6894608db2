"""Which steps may have a `cache`: those that do nothing but print, and whose input can be compared.

The data may violate the schema elsewhere, so that all problems are reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from playbook_supervisor.formats.located import Document, Path
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.tools import changing
from playbook_supervisor.kernel.vocabulary import Condition
from playbook_supervisor.project.format_version import text_of, things
from playbook_supervisor.project.globs import flaw
from playbook_supervisor.project.references import names
from playbook_supervisor.project.requirement import SINCE_LAUNCH
from playbook_supervisor.project.schema_problems import RULE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Thing = Mapping[str, Any]

_NAMESPACES = ("cli", "http", "prompt")
_READING = ("GET", "HEAD")
_NEED_A_RUN = SINCE_LAUNCH | {
    Condition.VERDICT_PASS,
    Condition.AGREEMENT_PASS,
    Condition.QA_VERDICT_PASS,
}
"""The conditions that a run alone can fulfil: a verdict counts only if it was written by it."""
_REMOVE = "Remove `cache` from the step."


def violations(data: Thing, document: Document) -> Iterator[Problem]:
    """Every `cache` at a step whose recorded output could not stand in for a run."""
    secret = {text_of(arg, "name") for _, arg in things(data, "args") if arg.get("secret") is True}
    for index, step in things(data, "steps"):
        if "cache" not in step:
            continue
        path: Path = ("steps", index, "cache")
        if why := _refused(step, secret):
            yield problem_at(document, path, RULE, f"`cache`: {why}", _REMOVE, key=True)
        cache = step["cache"]
        files = cache.get("files") if isinstance(cache, dict) else None
        for number, each in enumerate(files if isinstance(files, list) else ()):
            why = flaw(each) if isinstance(each, str) else ""
            if isinstance(each, str) and names(each):
                why = "names an arg, and only the words of a step can"
            if why:
                place = (*path, "files", number)
                message = f"`cache`: {first_line(each, 60)!r} {why}"
                yield problem_at(document, place, RULE, message, "Correct it.")


def _refused(step: Thing, secret: set[str]) -> str:
    """Why the step cannot have one; empty if it can."""
    namespace, *words = text_of(step, "command").split() or [""]
    if namespace not in _NAMESPACES:
        return f"only `{'`, `'.join(_NAMESPACES)}` steps can have one"
    if namespace == "http" and words[:1] and words[0] not in _READING:
        return f"a {first_line(words[0], 20)} request does more than read"
    if "outputs" in step:
        return "the step makes `outputs`, which are not recorded"
    if "for_each" in step or "until" in step:
        return "a step that is repeated runs each time"
    tools = step.get("tools")
    rules = [each for each in tools if isinstance(each, str)] if isinstance(tools, list) else []
    if more := changing(rules):
        return f"the agent may do more than read: {first_line(', '.join(more), 60)}"
    stated = step.get("postconditions")
    for each in stated if isinstance(stated, list) else ():
        word = next(iter(each), "") if isinstance(each, dict) else each
        if word in _NEED_A_RUN:
            return f"`{word}` needs a run"
    text = json.dumps([step.get("command"), step.get("with")], default=str)
    if any(name in secret or name.startswith("secret:") for name in names(text)):
        return "the step is given a secret"
    return ""
