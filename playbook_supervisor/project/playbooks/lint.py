"""Warnings about a valid playbook that probably does not do what its author wants.

Reads no files: the caller passes a function that looks up commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from playbook_supervisor.errors import CODES, LASTING, CheckError
from playbook_supervisor.formats.located import Data, Document, Path
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.formats.sanitize import did_you_mean
from playbook_supervisor.kernel.error_policy import Reaction
from playbook_supervisor.kernel.model import AGENT_NAMESPACES, SLASH, Playbook, Step
from playbook_supervisor.kernel.state import POSTCONDITION, PRECONDITION
from playbook_supervisor.kernel.vocabulary import Autonomy, Trigger
from playbook_supervisor.project.conditions.conditions import (
    file_of,
    is_lasting,
    needs_feature,
    publishes,
)
from playbook_supervisor.project.expressions.namespaces import EXECUTORS
from playbook_supervisor.project.playbooks.step_needs import named_checks
from playbook_supervisor.project.settings.checks import find_check
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.project.slash_commands import InstalledCommand

Lookup = Callable[[str], InstalledCommand | None]
_Warning = tuple[Path, str, str, str]  # path, code, message, guidance

NAME, COMMAND = "PB-CHECK-LINT-NAME", "PB-CHECK-COMMAND"
"""The warnings that need the file's name, and the project's commands."""
_ONE_WAY = "PB-CHECK-ONE-WAY"
_WAYS = (
    (
        "closed",
        "runs headless (`playbook run`), not inside Claude Code",
        "disable-model-invocation",
    ),
    ("hidden", "runs inside Claude Code (`/playbook.run`), not headless", "user-invocable"),
)
"""The users that a command's front matter may exclude, by attribute of an `InstalledCommand`."""
INSTALL = "Install the command, or correct its name."
CHECK = "PB-CHECK-UNDEFINED"
"""The warning that needs the project's settings."""
ASKS_QUESTIONS = frozenset({"/speckit.clarify", "/speckit-clarify"})
"""Commands that ask the user questions, which a subagent cannot do."""

_REFUSED = r"(?i)(?:REPORT|SUMMARY|FINDINGS|ANALYSIS).*\.md"
"""Names of files that Claude Code (2.1.329) lets no subagent write."""


def lint(
    playbook: Playbook,
    document: Document,
    *,
    command: Lookup | None = None,
    looked: str = "in this project",
    config: Config | None = None,
    stem: str = "",
) -> tuple[Problem, ...]:
    """All warnings, by place.

    `command` looks up a step's command in this project, unless the step names its agent; `looked`
    says in which place. `config` is the settings (None: skip what needs them); `stem` is the file
    name without its extension ("": unknown).
    """
    warnings = [*_name(playbook, stem), *_feature(playbook)]
    warnings += _defaults(playbook, document)
    warnings += [*_too_early(playbook), *_gate_too_late(playbook)]
    lookup = command and cache(command)
    for index, step in enumerate(playbook.steps):
        path: Path = ("steps", index)
        if lookup and step.namespace == SLASH and not step.agent:
            warnings += _command(step, path, lookup(step.command), looked)
        if step.autonomy is not Autonomy.SKIP:
            warnings += _undefined(step, path, config) if config else ()
            warnings += [*_idle_trigger(step, path), *_idle_retry(step, path)]
            warnings += [*_unseen(step, path), *_asks(step, path), *_refused(step, path)]
            if "error_policy" in _data(document, path):
                warnings += _codes([step], path)
    if lookup:
        warnings += _one_way(playbook, lookup)
    problems = (
        problem_at(document, *each, severity="note" if each[1] == _ONE_WAY else "warning")
        for each in warnings
    )
    return tuple(sorted(problems, key=lambda each: each.position))


def _name(playbook: Playbook, stem: str) -> Iterator[_Warning]:
    if stem and stem != playbook.name:
        message = f"the file is named `{stem}`, but the playbook `{playbook.name}`"
        guidance = "Use one name for both; `playbook run` expects the name of the playbook."
        yield ("name",), NAME, message, guidance


def _feature(playbook: Playbook) -> Iterator[_Warning]:
    if any(arg.name == "feature" for arg in playbook.args):
        return
    for index, step in enumerate(playbook.steps):
        for key, word in _words(step):
            if needs_feature(word):
                message = f"`{word}` needs a feature, but the playbook has no arg `feature`"
                guidance = "Declare the arg; without it the name of the branch is used."
                yield ("steps", index, key), "PB-CHECK-LINT-FEATURE", message, guidance
                return


def _words(step: Step) -> Iterator[tuple[str, str]]:
    yield from (("preconditions", condition) for condition in step.preconditions)
    yield from (("postconditions", condition) for condition in step.postconditions)
    yield from (("escalation_triggers", trigger) for trigger in step.escalation_triggers)


def _too_early(playbook: Playbook) -> Iterator[_Warning]:
    """A precondition that only a later step, or one in the same group, provides."""
    phase_of = playbook.phase_of
    providers: dict[str, list[str]] = {}
    for step in _running(playbook):
        for condition in filter(is_lasting, step.postconditions):
            providers.setdefault(condition, []).append(step.id)
    for index, step in enumerate(playbook.steps):
        for number, condition in enumerate(step.preconditions):
            first, *others = providers.get(condition, [step.id])
            if phase_of[first] >= phase_of[step.id] and step.id not in (first, *others):
                at = ("steps", index, "preconditions", number)
                said = f"is provided by `{first}`, which does not finish before this"
                guidance = f"Move `{first}` before `{step.id}`, or remove the precondition."
                yield at, "PB-CHECK-LINT-ORDER", f"`{condition}` {said}", guidance


def _gate_too_late(playbook: Playbook) -> Iterator[_Warning]:
    """The pull request is made without a gate, and a gate comes only after it."""
    phase_of = playbook.phase_of
    gated = [step for step in _running(playbook) if step.autonomy is Autonomy.GATE_ALWAYS]
    published = next((step for step in _running(playbook) if _publishes(step)), None)
    if published and gated and phase_of[gated[0].id] > phase_of[published.id]:
        at = ("steps", playbook.steps.index(gated[0]), "autonomy")
        message = f"this gate comes after `{published.id}`, which cannot be undone"
        guidance = f"Give `{published.id}` the autonomy `gate_always`."
        yield at, "PB-CHECK-LINT-GATE", message, guidance


def _running(playbook: Playbook) -> Iterator[Step]:
    return (step for step in playbook.steps if step.autonomy is not Autonomy.SKIP)


def _publishes(step: Step) -> bool:
    """By its namespace or a postcondition; a slash command by the end of its name, too."""
    named = step.namespace == "pr" or re.fullmatch(r"/(?:.*[.:-])?pr", step.command)
    return bool(named) or publishes(step.postconditions)


def _command(
    step: Step, path: Path, found: InstalledCommand | None, looked: str
) -> Iterator[_Warning]:
    at = (*path, "command")
    if found is None:
        yield at, COMMAND, f"the command `{step.command}` was not found {looked}", INSTALL
    elif found.builtin:
        message = f"`{found.name}` is built into Claude Code; subagents may not be able to run it"
        yield at, COMMAND, message, "Use a command of the project."


def _one_way(playbook: Playbook, lookup: Lookup) -> Iterator[_Warning]:
    """Commands that run in one of two ways only: together they can exclude both."""
    steps = enumerate(playbook.steps)
    slash = [each for each in steps if each[1].namespace == SLASH and each[1].by_client]
    found = [(index, each) for index, step in slash if (each := lookup(step.command))]
    excluded = [
        (index, command.name, ways, key)
        for index, command in found
        for attribute, ways, key in _WAYS
        if getattr(command, attribute)
    ]
    code = COMMAND if len({key for *_, key in excluded}) == len(_WAYS) else _ONE_WAY
    for index, name, ways, key in excluded:
        guidance = f"To run it in both ways, remove `{key}` from its front matter."
        yield ("steps", index, "command"), code, f"`{name}` {ways}: `{key}`", guidance


def _undefined(step: Step, path: Path, config: Config) -> Iterator[_Warning]:
    for place, parameter in named_checks(step):
        try:
            find_check(parameter, config)
        except CheckError as error:
            yield (*path, *place), CHECK, error.message, error.guidance


def _idle_trigger(step: Step, path: Path) -> Iterator[_Warning]:
    trigger = Trigger.POSTCONDITION_FAIL
    if trigger in step.escalation_triggers and not step.postconditions:
        at = (*path, "escalation_triggers", step.escalation_triggers.index(trigger))
        message = f"`{trigger}` can never fire: the step has no postconditions"
        yield at, "PB-CHECK-LINT-TRIGGER", message, "Add postconditions, or remove the trigger."


def _idle_retry(step: Step, path: Path) -> Iterator[_Warning]:
    """Triggers come before the error policy: if they catch every failure, nothing is retried."""
    triggers = step.escalation_triggers
    caught = Trigger.SUBAGENT_ERROR in triggers and (
        Trigger.POSTCONDITION_FAIL in triggers or not step.postconditions
    )
    retries = (each for each in step.error_policy.handlings if each.reaction is Reaction.RETRY)
    if caught and (first := next(retries, None)):
        message = f"`{first.word}` has no effect: the triggers catch every failure"
        guidance = "Remove a trigger, or write `gate` or `stop`."
        yield (*path, "error_policy"), "PB-CHECK-LINT-RETRY", message, guidance


def _defaults(playbook: Playbook, document: Document) -> Iterator[_Warning]:
    path: Path = ("defaults",)
    if "error_policy" in _data(document, path):
        following = [
            step
            for index, step in enumerate(playbook.steps)
            if "error_policy" not in _data(document, ("steps", index))
        ]
        yield from _codes(following, path)


def _data(document: Document, path: Path) -> Mapping[str, Data]:
    data: Any = document.data
    for part in path:
        data = data.get(part, {}) if isinstance(data, dict) else data[part]
    return data if isinstance(data, dict) else {}


def _failures(step: Step) -> set[str]:
    families = ("PB-AGENT-",) if step.needs_agent else ("PB-STEP-", "PB-POLICY-DENIED")
    codes = {code for code in CODES if code.startswith(families)}
    return codes | {"PB-STEP-DATA", "PB-STEP-OUTPUT", PRECONDITION, POSTCONDITION}


def _codes(steps: Sequence[Step], path: Path) -> Iterator[_Warning]:
    """Codes that no failure of these steps has, and retries of what would fail again.

    They have one error policy, which stands at the path.
    """
    by_code = steps[0].error_policy.by_code if steps else ()
    if not by_code:
        return
    possible = {code for step in steps for code in _failures(step)}
    ours = all(step.needs_agent or step.namespace in EXECUTORS for step in steps)
    for code, handling in by_code:
        at = (*path, "error_policy", code)
        if code not in possible and (ours or code in CODES):
            guidance = did_you_mean(code, sorted(possible))
            guidance += "Codes of agents begin with PB-AGENT, those of other steps with PB-STEP."
            message = f"no failure here has the code `{code}`"
            yield at, "PB-CHECK-LINT-CODE", message, guidance
        elif code in LASTING and handling.reaction is Reaction.RETRY:
            message = f"`{handling.word}` has no effect: `{code}` would only come again"
            guidance = "Write `gate` or `stop`; a retry does not help."
            yield at, "PB-CHECK-LINT-RETRY", message, guidance


def _unseen(step: Step, path: Path) -> Iterator[_Warning]:
    """Only an agent's word can be wrong: what the others report is what they have done."""
    if step.namespace in AGENT_NAMESPACES and not (step.judging or step.outputs):
        message = f"`{step.id}` has no postconditions: only the agent says that it is done"
        guidance = "Add a condition that holds once the work is done, if there is one."
        yield (*path, "id"), "PB-CHECK-LINT-UNSEEN", message, guidance


def _refused(step: Step, path: Path) -> Iterator[_Warning]:
    files = [((*path, "outputs", number), file) for number, file in enumerate(step.outputs)]
    for number, condition in enumerate(step.postconditions):
        named = file_of(condition)
        files += [((*path, "postconditions", number), named)] if named else []
    for at, file in files if step.needs_agent else ():
        name = file.rpartition("/")[2]
        if re.fullmatch(_REFUSED, name):
            message = f"inside Claude Code, no subagent may write a file named `{name}`"
            guidance = f"Name it otherwise, as in `the-{name}`."
            yield at, "PB-CHECK-LINT-REFUSED", message, guidance
            return


def _asks(step: Step, path: Path) -> Iterator[_Warning]:
    if step.command in ASKS_QUESTIONS:
        message = f"`{step.command}` asks questions, which a subagent cannot do"
        guidance = "Run it yourself before you start the playbook."
        yield (*path, "command"), "PB-CHECK-LINT-ASKS", message, guidance
