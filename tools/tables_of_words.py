"""The vocabulary and the gates as tables; a word without an explanation here is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from tables import code, table

from playbook_supervisor.kernel.answers import SYNONYMS
from playbook_supervisor.kernel.error_policy import WORDS
from playbook_supervisor.kernel.gates import CHOICES
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Condition,
    Decision,
    EntryStatus,
    GateReason,
    Resolution,
    SessionStatus,
    Trigger,
)
from playbook_supervisor.project.conditions.conditions import Workspace, artifacts
from playbook_supervisor.project.expressions.requirement import PARAMETERS
from playbook_supervisor.project.settings.config import Config

EXPLAINED: Mapping[type[StrEnum], Mapping[str, str]] = {
    Autonomy: {
        "auto": "no one: the step runs as soon as its turn comes",
        "gate_on_breaking": "no one, unless a report of this session says breaking; then you",
        "gate_always": "you, every time",
        "skip": "the playbook: the step is skipped, and the journal records that",
    },
    Trigger: {
        "subagent_error": "the agent reported an error, crashed or ran out of time",
        "agreement_breaking": "an agreement report written during this session says breaking",
        "verdict_fail": "the step produced a QA verdict other than PASS",
        "postcondition_fail": "a postcondition does not hold",
    },
    Condition: {
        "spec_exists": "exists",
        "plan_exists": "exists",
        "tasks_exists": "exists",
        "agreement_exists": "exists",
        "agreement_pass": "has the verdict PASS",
        "qa_plan_exists": "exists",
        "qa_verdict_pass": "has the verdict PASS",
        "pr_created": "the branch has an open or merged pull request; asks `gh`",
        "tasks_done": "has a task at least, and every one is ticked",
        "file_exists": "the file exists",
        "file_contains": "the file has this text in it, character by character",
        "git_clean": "nothing is left to commit but the folders of sessions",
        "branch_exists": "there is a local branch of that name",
        "tag_exists": "there is a tag of that name",
        "verdict_pass": "the report has the verdict PASS",
        "command_succeeds": "the check ends with exit status 0",
        "command_fails": "the check runs and ends with another exit status",
        "proved": "the check passes, and its tests from before agree with the code (1.2)",
        "changes_made": "a file that matches has changed since the launch",
        "changes_within": "no file that does not match has changed since the launch",
        "commits_made": "HEAD has moved forward since the launch; commits of sessions do not count",
    },
    SessionStatus: {
        "pending": "created, but no step has begun",
        "in_progress": "open: a step runs, a gate waits for you, or the session was interrupted",
        "completed": "every step is settled",
        "failed": "a step failed; `playbook resume --retry` continues the session",
        "aborted": "a human ended it",
    },
    EntryStatus: {
        "in_progress": "not settled: running, or waiting at a gate",
        "done": "settled: its conditions held, or a human accepted the result",
        "failed": "settled: it failed or was interrupted; another attempt may follow",
        "skipped": "settled: the step was not run",
    },
    Decision: {
        "auto": "no one: the step ran automatically",
        "gate": "a human, at a gate that the playbook asked for",
        "escalated": "a human, because a trigger fired; `trigger` names it",
        "skipped": "the playbook, or `--from`",
    },
    Resolution: {
        "continue": "run the step or, after a failure, check its conditions again",
        "retry": "run the step again",
        "accept": (
            "continue although a condition does not hold; the journal lists it as `waived`. About "
            "`witnesses`: accept the change of the tests, and check again"
        ),
        "skip": "do not run the step; continue with the next",
        "back": "`back to STEP`: run that earlier step again, with what was found and your words",
        "abort": "end the session",
        "allow": "let the agent do it this once",
        "always": "let the agent do it, and all that the shown rule allows, in this session",
        "deny": "do not let the agent do it; it reads your words and goes on without",
        "answer": "your words answer the agent's question",
    },
    GateReason: {
        "gate_always": "the step's autonomy requires it",
        "approval": "the step has `approval: required`; only a person can answer it",
        "tools": "the step's `tools` do more than read, and the session has not allowed them yet",
        "checkpoint": "the step is a `checkpoint`, or has `checkpoint: true`",
        "permission": "the agent wants to do what no rule allows",
        "question": "the agent asks a question",
        "precondition_fail": (
            "a precondition does not hold, and the error policy is `gate`, or it was waived for an "
            "earlier step"
        ),
        "subagent_error": "the agent failed",
        "agreement_breaking": "a breaking change was found",
        "verdict_fail": "the QA verdict is not PASS",
        "postcondition_fail": "a postcondition does not hold",
        "witnesses": "tests have changed, or what they rest on, and nothing else is in the way",
    },
}

_WRITTEN = {Condition.FILE_CONTAINS: "{path: PATH, text: TEXT}"}
"""The conditions whose parameters are no list."""

ERROR_POLICIES: Mapping[str, str] = {
    "stop": "the session ends as failed; `playbook resume --retry` continues it",
    "retry_once": "the step runs once more if that can help; after a second failure as `stop`",
    "gate": "you are asked",
    "fail": "as `stop` (1.1)",
    "continue": "the step has failed, and the run goes on; its end says `with 1 failure` (1.1)",
    "ignore": "the step is done, and `waived` names the error code (1.1)",
    "retry:N": "the step runs again up to N times, after 1, 2, 4 … seconds; then as `stop` (1.1)",
}


def explained(words: type[StrEnum]) -> Iterator[tuple[str, str]]:
    """Every word of an enumeration as code, and what it means; KeyError for a new one."""
    for word in words:
        yield f"`{word}`", EXPLAINED[words][word]


def error_policies() -> Iterator[tuple[str, str]]:
    """As `explained`, for the words of `error_policy`."""
    order = sorted(WORDS, key=list(ERROR_POLICIES).index)
    return ((f"`{word}`", ERROR_POLICIES[word]) for word in order)


def files_of(name: str) -> str:
    """The files that a condition or trigger reads, in the default folders."""
    world = Workspace(Path(), "FEATURE", "", Config())
    return " or ".join(f"`{path}`" for path in artifacts(name, world))


def condition_rows() -> Iterator[tuple[str, str]]:
    for condition in Condition:
        parameters = _WRITTEN.get(condition) or " ".join(PARAMETERS.get(condition, ()))
        word = f"`{condition}: {parameters}`" if parameters else f"`{condition}`"
        files = "" if parameters else files_of(condition)
        yield word, f"{files} {EXPLAINED[Condition][condition]}".strip()


def vocabulary() -> str:
    """The words of a playbook, on one page."""
    return "\n".join(
        [
            "**autonomy** – who decides that a step runs\n",
            table(("word", "who decides"), explained(Autonomy)),
            "**preconditions, postconditions** – what must hold before and after\n",
            table(("word", "holds when"), condition_rows()),
            "**escalation_triggers** – what opens a gate, beside autonomy and error policy\n",
            table(("word", "fires when"), explained(Trigger)),
            "**error_policy** – what happens after a failure that no trigger catches\n",
            table(("word", "what happens"), error_policies()),
        ]
    )


def journal_words() -> str:
    """The words in session.yaml and journal.yaml."""
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
        (word, meaning, files_of(word.strip("`")) or "–") for word, meaning in explained(Trigger)
    )
    return table(("trigger", "fires when", "reads"), rows)


# ── gates ───────────────────────────────────────────────────────────────────────────────────


def choices() -> str:
    rows = (
        (f"`{reason}`", f"{place} the step", EXPLAINED[GateReason][reason], code(offered))
        for (reason, place), offered in CHOICES.items()
    )
    return table(("gate", "opens", "because", "choices"), rows)


def resolutions() -> str:
    """The five answers with their synonyms, which count only as a whole message."""
    rows = (
        (word, meaning, code(word_ for word_, means in SYNONYMS.items() if f"`{means}`" == word))
        for word, meaning in explained(Resolution)
    )
    return table(("word", "meaning", "synonyms, as the whole message"), rows)
