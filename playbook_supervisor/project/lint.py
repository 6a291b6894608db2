"""What a valid playbook probably does not mean: warnings, each with its place and its cure.

Knows no file system: whether a command exists is asked of `command`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from playbook_supervisor.formats.located import Document, Path
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy, Condition, ErrorPolicy, Trigger
from playbook_supervisor.project.conditions import needs_feature, publishes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Command(Protocol):
        """What is known of an installed command (`slash_commands.Found`)."""

        @property
        def name(self) -> str: ...
        @property
        def closed(self) -> bool: ...
        @property
        def builtin(self) -> bool: ...

    Lookup = Callable[[str], Command | None]
    _Warning = tuple[Path, str, str, str]  # path, code, message, guidance

ASKS_QUESTIONS = frozenset({"/speckit.clarify", "/speckit-clarify"})
"""Commands known to need a conversation, which a subagent cannot have."""


def lint(
    playbook: Playbook, document: Document, *, command: Lookup | None = None, stem: str = ""
) -> tuple[Problem, ...]:
    """All warnings, by place.

    `command` says what a step's command is in this project (None: do not ask); `stem` is the
    file's name without its ending ("": unknown).
    """
    warnings = [*_name(playbook, stem), *_feature(playbook)]
    warnings += [*_too_early(playbook), *_gate_too_late(playbook)]
    known: dict[str, Command | None] = {}
    for index, step in enumerate(playbook.steps):
        path: Path = ("steps", index)
        if command is not None:
            if step.command not in known:
                known[step.command] = command(step.command)
            warnings += _command(step, path, known[step.command])
        if step.autonomy is not Autonomy.SKIP:
            warnings += [*_idle_trigger(step, path), *_idle_retry(step, path)]
            warnings += [*_unseen(step, path), *_asks(step, path)]
    problems = (
        problem_at(document, path, code, message, guidance, severity="warning")
        for path, code, message, guidance in warnings
    )
    return tuple(sorted(problems, key=lambda each: each.position))


def _name(playbook: Playbook, stem: str) -> Iterator[_Warning]:
    if stem and stem != playbook.name:
        yield (
            ("name",),
            "PB-CHECK-LINT-NAME",
            f"the file is called `{stem}`, the playbook `{playbook.name}`",
            "Give both one name; `playbook run` goes by the playbook's.",
        )


def _feature(playbook: Playbook) -> Iterator[_Warning]:
    """Once for the playbook, at the first word that looks into a feature's folder."""
    if any(arg.name == "feature" for arg in playbook.args):
        return
    for index, step in enumerate(playbook.steps):
        for key, word in _words(step):
            if needs_feature(word):
                yield (
                    ("steps", index, key),
                    "PB-CHECK-LINT-FEATURE",
                    f"`{word}` asks about a feature, and the playbook has no arg `feature`",
                    "Declare the arg; without it the branch's name serves.",
                )
                return


def _words(step: Step) -> Iterator[tuple[str, Condition | Trigger]]:
    yield from (("preconditions", condition) for condition in step.preconditions)
    yield from (("postconditions", condition) for condition in step.postconditions)
    yield from (("escalation_triggers", trigger) for trigger in step.escalation_triggers)


def _too_early(playbook: Playbook) -> Iterator[_Warning]:
    """A precondition that only a later step, or a neighbour at the same time, provides."""
    phase_of = playbook.phase_of
    providers: dict[Condition, list[str]] = {}
    for step in _running(playbook):
        for condition in step.postconditions:
            providers.setdefault(condition, []).append(step.id)
    for index, step in enumerate(playbook.steps):
        for number, condition in enumerate(step.preconditions):
            first, *others = providers.get(condition, [step.id])
            if phase_of[first] >= phase_of[step.id] and step.id not in (first, *others):
                yield (
                    ("steps", index, "preconditions", number),
                    "PB-CHECK-LINT-ORDER",
                    f"`{condition}` is provided by `{first}`, which does not end before this",
                    f"Move `{first}` before `{step.id}`, or take the precondition out.",
                )


def _gate_too_late(playbook: Playbook) -> Iterator[_Warning]:
    """A pull request goes out ungated, and the gate that was to guard it comes afterwards."""
    phase_of = playbook.phase_of
    gated = [step for step in _running(playbook) if step.autonomy is Autonomy.GATE_ALWAYS]
    published = next((step for step in _running(playbook) if _publishes(step)), None)
    if published and gated and phase_of[gated[0].id] > phase_of[published.id]:
        yield (
            ("steps", playbook.steps.index(gated[0]), "autonomy"),
            "PB-CHECK-LINT-GATE",
            f"this gate comes after `{published.id}`, which cannot be taken back",
            f"Give `{published.id}` the autonomy `gate_always`.",
        )


def _running(playbook: Playbook) -> Iterator[Step]:
    return (step for step in playbook.steps if step.autonomy is not Autonomy.SKIP)


def _publishes(step: Step) -> bool:
    last_word = re.split("[.:/-]", step.command)[-1]
    return publishes(step.postconditions) or last_word == "pr"


def _command(step: Step, path: Path, found: Command | None) -> Iterator[_Warning]:
    at = (*path, "command")
    if found is None:
        message = f"the command `{step.command}` is not found in this project"
        yield at, "PB-CHECK-COMMAND", message, "Install the command, or correct its name."
    elif found.closed:
        message = f"`{found.name}` is closed to models (`disable-model-invocation: true`)"
        yield at, "PB-CHECK-COMMAND", message, "Take that line out of its front matter."
    elif found.builtin:
        message = f"`{found.name}` is built into Claude Code; a subagent may not have it"
        yield at, "PB-CHECK-COMMAND", message, "Name a command of the project."


def _idle_trigger(step: Step, path: Path) -> Iterator[_Warning]:
    trigger = Trigger.POSTCONDITION_FAIL
    if trigger in step.escalation_triggers and not step.postconditions:
        yield (
            (*path, "escalation_triggers", step.escalation_triggers.index(trigger)),
            "PB-CHECK-LINT-TRIGGER",
            f"`{trigger}` can never fire: the step has no postconditions",
            "Give it postconditions, or take the trigger out.",
        )


def _idle_retry(step: Step, path: Path) -> Iterator[_Warning]:
    """Triggers go before the error policy; what they all catch is never retried."""
    triggers = step.escalation_triggers
    caught = Trigger.SUBAGENT_ERROR in triggers and (
        Trigger.POSTCONDITION_FAIL in triggers or not step.postconditions
    )
    if step.error_policy is ErrorPolicy.RETRY_ONCE and caught:
        yield (
            (*path, "error_policy"),
            "PB-CHECK-LINT-RETRY",
            "`retry_once` can never act: the triggers catch every failure",
            "Take a trigger out, or write `gate` or `stop`.",
        )


def _unseen(step: Step, path: Path) -> Iterator[_Warning]:
    if not step.postconditions:
        yield (
            (*path, "id"),
            "PB-CHECK-LINT-UNSEEN",
            f'`{step.id}` has no postconditions: its "done" rests on the agent\'s word alone',
            "Name a condition that holds once the work is done, where there is one.",
        )


def _asks(step: Step, path: Path) -> Iterator[_Warning]:
    if step.command in ASKS_QUESTIONS:
        yield (
            (*path, "command"),
            "PB-CHECK-LINT-ASKS",
            f"`{step.command}` asks questions, and a subagent cannot hear the answers",
            "Run it yourself before the playbook.",
        )
