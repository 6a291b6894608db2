"""The vocabulary and the gates as tables; a word without an explanation here is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from tables import code, table

from playbook_supervisor.kernel.answers import SYNONYMS
from playbook_supervisor.kernel.gates import CHOICES
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Condition,
    Decision,
    EntryStatus,
    ErrorPolicy,
    GateReason,
    Resolution,
    SessionStatus,
    Trigger,
)
from playbook_supervisor.project.conditions import Workspace, artifacts
from playbook_supervisor.project.config import Config

EXPLAINED: Mapping[type[StrEnum], Mapping[str, str]] = {
    Autonomy: {
        "auto": "nobody: it runs as soon as it is due",
        "gate_on_breaking": "nobody, unless a report of this session says breaking; then you",
        "gate_always": "you, every time",
        "skip": "the playbook: it is passed over, and the journal says so",
    },
    ErrorPolicy: {
        "stop": "the session ends as failed; `playbook resume --retry` takes it up again",
        "retry_once": "the step runs once more where that can help; if it fails again, as `stop`",
        "gate": "you are asked",
    },
    Trigger: {
        "subagent_error": "the agent reported an error, crashed or ran out of time",
        "agreement_breaking": "an agreement report written during this session says breaking",
        "verdict_fail": "QA gave a verdict in this step, and it is not PASS",
        "postcondition_fail": "a postcondition does not hold",
    },
    Condition: {
        "spec_exists": "is there",
        "plan_exists": "is there",
        "tasks_exists": "is there",
        "agreement_exists": "is there",
        "agreement_pass": "states the verdict PASS",
        "qa_plan_exists": "is there",
        "qa_verdict_pass": "states the verdict PASS",
        "pr_created": "the branch has an open or merged pull request; asks `gh`",
    },
    SessionStatus: {
        "pending": "created, nothing has begun",
        "in_progress": "begun and not ended: it works, waits for you, or was interrupted",
        "completed": "every step is settled",
        "failed": "a step failed for good; `playbook resume --retry` takes it up",
        "aborted": "a human ended it",
    },
    EntryStatus: {
        "in_progress": "begun, not settled: at work, or waiting at a gate",
        "done": "settled: its conditions held, or a human accepted that they do not",
        "failed": "settled: it failed, or was broken off; another entry may follow",
        "skipped": "settled: it was not run",
    },
    Decision: {
        "auto": "nobody had to",
        "gate": "a human, at a gate that the playbook asked for",
        "escalated": "a human, because a trigger fired; `trigger` names it",
        "skipped": "the playbook, or `--from`",
    },
    Resolution: {
        "continue": "go on: run it, or, after a failure, check again",
        "retry": "run the step again",
        "accept": "go on although something does not hold; the journal lists it as `waived`",
        "skip": "do not run the step; go on with the next",
        "abort": "end the session",
    },
    GateReason: {
        "gate_always": "the step's autonomy asks for it",
        "precondition_fail": "a precondition does not hold, and the error policy is `gate`",
        "subagent_error": "the agent failed",
        "agreement_breaking": "a breaking change was found",
        "verdict_fail": "the QA verdict is not PASS",
        "postcondition_fail": "a postcondition does not hold",
    },
}


def explained(words: type[StrEnum]) -> Iterator[tuple[str, str]]:
    """Every word of an enumeration as code, and what it means; KeyError for a new one."""
    for word in words:
        yield f"`{word}`", EXPLAINED[words][word]


def looked_at(name: str) -> str:
    """The files that a condition or trigger looks at, with the folders that hold by default."""
    world = Workspace(Path(), "FEATURE", "", Config())
    return " or ".join(f"`{path}`" for path in artifacts(name, world))


def condition_rows() -> Iterator[tuple[str, str]]:
    for word, meaning in explained(Condition):
        files = looked_at(word.strip("`"))
        yield word, f"{files} {meaning}".strip()


def vocabulary() -> str:
    """The words of a playbook, on one page."""
    return "\n".join(
        [
            "**autonomy** – who decides that a step runs\n",
            table(("word", "who decides"), explained(Autonomy)),
            "**preconditions, postconditions** – what must hold before and after\n",
            table(("word", "holds when"), condition_rows()),
            "**escalation_triggers** – what calls you, whatever autonomy and error policy say\n",
            table(("word", "fires when"), explained(Trigger)),
            "**error_policy** – what follows a failure that no trigger catches\n",
            table(("word", "what follows"), explained(ErrorPolicy)),
        ]
    )


def journal_words() -> str:
    """The words that stand in session.yaml and journal.yaml."""
    return "\n".join(
        [
            "**status** of a session\n",
            table(("word", "means"), explained(SessionStatus)),
            "**status** of an entry\n",
            table(("word", "means"), explained(EntryStatus)),
            "**decision** of an entry\n",
            table(("word", "who decided"), explained(Decision)),
        ]
    )


def condition_table() -> str:
    return table(("condition", "holds when"), condition_rows())


def trigger_table() -> str:
    rows = (
        (word, meaning, looked_at(word.strip("`")) or "–") for word, meaning in explained(Trigger)
    )
    return table(("trigger", "fires when", "looks at"), rows)


# ── gates ───────────────────────────────────────────────────────────────────────────────────


def choices() -> str:
    rows = (
        (f"`{reason}`", f"{place} the step", EXPLAINED[GateReason][reason], code(offered))
        for (reason, place), offered in CHOICES.items()
    )
    return table(("gate", "stands", "because", "choices"), rows)


def resolutions() -> str:
    """The five words; what only counts as a whole message beside the one that it means."""
    rows = (
        (word, meaning, code(said for said, means in SYNONYMS.items() if f"`{means}`" == word))
        for word, meaning in explained(Resolution)
    )
    return table(("word", "does", "said by itself, also"), rows)
