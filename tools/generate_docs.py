"""Makes the parts of the documents that can be generated: tables of words, keys, codes, choices.

Each stands between `<!-- generated: NAME -->` and `<!-- end -->`, and comes from the program's own
tables, so that a document cannot say anything else. A word without an explanation here is an error.

    python tools/generate_docs.py            # writes them
    python tools/generate_docs.py --check    # names those that are out of date, and exits with 1
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from playbook_supervisor import errors
from playbook_supervisor.answers import SYNONYMS
from playbook_supervisor.conditions import World, artifacts
from playbook_supervisor.config import Config
from playbook_supervisor.errors import CODES, PlaybookError
from playbook_supervisor.kernel.gates import CHOICES
from playbook_supervisor.lint import lint
from playbook_supervisor.schema import Problem, examine, schema_text
from playbook_supervisor.vocabulary import (
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

if TYPE_CHECKING:
    from playbook_supervisor.lint import Command

REPOSITORY: Final = Path(__file__).resolve().parent.parent
DOCUMENTS: Final = (
    REPOSITORY / "README.md",
    *(REPOSITORY / "docs" / f"{name}.md" for name in ("concepts", "conditions", "errors")),
    *(REPOSITORY / "docs" / f"{name}.md" for name in ("format", "gates")),
)
_PART: Final = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a bar within a cell is escaped."""
    head = tuple(head)
    lines = [head, ("---",) * len(head), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines
    )


def code(words: Iterable[str]) -> str:
    """Words as code, in a row."""
    return ", ".join(f"`{word}`" for word in words)


# ── the vocabulary ──────────────────────────────────────────────────────────────────────────

EXPLAINED: Final[Mapping[type[StrEnum], Mapping[str, str]]] = {
    Autonomy: {
        "auto": "nobody: it runs as soon as it is due",
        "gate_on_breaking": "nobody, unless a report of this session says breaking; then you",
        "gate_always": "you, every time",
        "skip": "the playbook: it is passed over, and the journal says so",
    },
    ErrorPolicy: {
        "stop": "the session ends as failed; `playbook resume --retry` takes it up again",
        "retry_once": "the step runs once more; if it fails again, as `stop`",
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
    world = World(Path(), "FEATURE", "", Config())
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


# ── commands ────────────────────────────────────────────────────────────────────────────────

_SECTION: Final = re.compile(r"([A-Z][^:\n]*):")
_COMMAND: Final = re.compile(r"  ([a-z]+) {2,}(\S.*)")


def commands() -> str:
    """Every subcommand by group, with its line of `playbook --help`."""
    from click import Context

    from playbook_supervisor.cli.app import program

    rows: list[list[str]] = []
    group = ""
    for line in program.get_help(Context(program, info_name="playbook")).splitlines():
        if section := _SECTION.fullmatch(line):
            group = section[1]
        elif group not in ("", "Options") and (found := _COMMAND.fullmatch(line)):
            rows.append([group, f"`playbook {found[1]}`", found[2]])
        elif rows and line.startswith("   ") and group != "Options":
            rows[-1][2] += f" {line.strip()}"
    return table(("", "command", "does"), _named_once(rows))


def _named_once(rows: list[list[str]]) -> Iterator[tuple[str, str, str]]:
    """The group stands only in its first row."""
    former = ""
    for group, command, does in rows:
        yield "" if group == former else f"**{group}**", command, does
        former = group


# ── errors ──────────────────────────────────────────────────────────────────────────────────

FAMILIES: Final[Mapping[str, tuple[str, type[PlaybookError]]]] = {
    "CHECK": ("What a person wrote", errors.CheckError),
    "ARG": ("What was asked for", errors.ArgumentError),
    "STATE": ("The state of a session", errors.StateError),
    "COND": ("Conditions", errors.ConditionError),
    "AGENT": ("Agents", errors.AgentError),
    "STEP": ("Steps of our own", errors.StepError),
    "IO": ("Files and programs", errors.StorageError),
    "GIT": ("Git", errors.GitError),
    "POLICY": ("The project's rules", errors.PolicyError),
    "BUG": ("A fault of this program", PlaybookError),
}


def family(name: str) -> str:
    return name.split("-")[1]


def codes() -> str:
    """Every code by family, with its cure."""
    unknown = {family(name) for name in CODES} - set(FAMILIES)
    if unknown:
        raise SystemExit(f"FAMILIES lacks {', '.join(sorted(unknown))}")
    parts = []
    for key, (title, kind) in FAMILIES.items():
        rows = [(f"`{name}`", cure) for name, cure in CODES.items() if family(name) == key]
        exits = f"Exit code {kind.exit_code}."
        parts.append(f"### {title}\n\n{exits}\n\n{table(('code', 'how to mend it'), rows)}")
    return "\n".join(parts)


# ── warnings ────────────────────────────────────────────────────────────────────────────────

_TOP: Final = "name: sample\ndescription: A sample\nversion: '1.0'\nargs: {args}\nsteps:\n{steps}"
_ARG: Final = "[{name: feature, description: The feature, required: true}]"
_STEP: Final = (
    "  - {{id: {id}, command: {command}, autonomy: {autonomy}, error_policy: {policy}, {more}}}\n"
)
_PLAN: Final = "postconditions: [plan_exists]"


def step(
    id: str = "plan",  # noqa: A002 - as the format calls it
    more: str = _PLAN,
    *,
    command: str = "/speckit.plan",
    autonomy: str = "auto",
    policy: str = "stop",
) -> str:
    return _STEP.format(id=id, command=command, autonomy=autonomy, policy=policy, more=more)


class _Installed:
    """A command as the warnings see it."""

    def __init__(self, name: str, *, closed: bool = False, builtin: bool = False) -> None:
        self.name, self.closed, self.builtin = name, closed, builtin


def _command(name: str) -> Command | None:
    known = {
        "/deploy": _Installed("/deploy", closed=True),
        "/review": _Installed("/review", builtin=True),
        "/speckit.plann": None,
    }
    return known.get(name, _Installed(name))


SAMPLES: Final = (
    step("implement", "postconditions: []", command="/speckit.implement"),
    step(more="escalation_triggers: [postcondition_fail]"),
    step(
        policy="retry_once",
        more=f"{_PLAN}, escalation_triggers: [subagent_error, postcondition_fail]",
    ),
    step("tasks", "preconditions: [plan_exists], postconditions: [tasks_exists]") + step(),
    step("pr", "postconditions: [pr_created]", command="/feature.pr")
    + step(autonomy="gate_always"),
    step(command="/speckit.clarify"),
    step(command="/speckit.plann"),
    step(command="/deploy"),
    step(command="/review"),
)
"""Steps that earn at least one warning each."""


def warnings() -> str:
    """Every warning, as `check` gives it for a small sample."""
    found: dict[str, Problem] = {}
    for steps in SAMPLES:
        _collect(found, steps, args=_ARG)
    _collect(found, step(), args="[]")
    _collect(found, step(), args=_ARG, stem="other")
    rows = ((f"`{each.code}`", f"{each.message}. {each.guidance}") for each in found.values())
    return table(("code", "for example"), sorted(rows))


def _collect(found: dict[str, Problem], steps: str, *, args: str, stem: str = "sample") -> None:
    text = _TOP.format(args=args, steps=steps)
    playbook, problems, document = examine(text.encode(), "sample")
    if playbook is None or document is None:
        raise SystemExit(f"a sample is no playbook: {problems}")
    for problem in lint(playbook, document, command=_command, stem=stem):
        kind = problem.message.split("`")[-1] if problem.code.endswith("-COMMAND") else ""
        found.setdefault(problem.code + kind, problem)


# ── files ───────────────────────────────────────────────────────────────────────────────────


def keys(schema: str, *path: str) -> Callable[[], str]:
    """The table of a mapping's keys, from the JSON Schema that ships."""

    def made() -> str:
        whole: Mapping[str, Any] = json.loads(schema_text(schema))
        mapping = whole
        for part in path:
            mapping = mapping[part]
        rows = _rows(schema, whole, mapping)
        return table(("key", "needed", "form", "what it is"), rows)

    return made


def _rows(
    schema: str, whole: Mapping[str, Any], mapping: Mapping[str, Any]
) -> Iterator[tuple[str, ...]]:
    needed = mapping.get("required", ())
    for key, value in mapping["properties"].items():
        told = value.get("description") or BESIDE_SCHEMA.get((schema, key))
        told = told or _resolved(whole, value)["description"]
        default = f" Default: `{_shown(value['default'])}`." if "default" in value else ""
        yield f"`{key}`", "yes" if key in needed else "", _form(whole, value), told + default


def _resolved(whole: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in value:
        return value
    definition: Mapping[str, Any] = whole["definitions"][value["$ref"].split("/")[-1]]
    return definition


def _form(whole: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    name = value.get("$ref", "").split("/")[-1]
    if name in _NAMED_FORMS:
        return _NAMED_FORMS[name]
    resolved = _resolved(whole, value)
    if "enum" in resolved:
        return code(resolved["enum"])
    if "const" in resolved:
        return f"`{_shown(resolved['const'])}`"
    if "anyOf" in resolved:
        return _form(whole, next(each for each in resolved["anyOf"] if each != {"const": ""}))
    if resolved.get("type") == "array":
        items = _resolved(whole, resolved["items"])
        return "list of texts" if items.get("type") == "string" and "enum" not in items else "list"
    kind = resolved.get("type", "")
    return _FORMS[kind if isinstance(kind, str) else kind[0]]


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


BESIDE_SCHEMA: Final[Mapping[tuple[str, str], str]] = {
    ("session", "started_at"): "When the session was created.",
    ("journal", "status"): "Where the attempt stands.",
    ("journal", "started_at"): "When its turn began: it was launched, or its gate opened.",
    ("journal", "completed_at"): "When it was settled.",
    ("journal", "launched_at"): "When the agent was set to work, where that is not the start.",
    ("journal", "returned_at"): "When the agent came back, where that is not the end.",
    ("journal", "resolution"): "What the answer was taken for.",
    ("journal", "error"): "What went wrong, in a sentence.",
    ("journal", "error_code"): "Its code, as in [errors.md](errors.md).",
    ("journal", "error_guidance"): "How to mend it.",
    ("journal", "error_cause"): "What lay beneath, such as an agent's last lines.",
    ("journal", "gates"): "The gates of this attempt, in order.",
    ("journal", "reason"): "Why it opened.",
    ("journal", "opened_at"): "When it opened.",
    ("journal", "answered_at"): "When it was answered; while that is missing, it waits.",
    ("journal", "name"): "The agent.",
    ("journal", "id"): "Its own name for the piece of work.",
    ("journal", "model"): "The model that really worked.",
    ("journal", "cost_usd"): "What it cost, where the agent says so.",
    ("journal", "input_tokens"): "Tokens read.",
    ("journal", "output_tokens"): "Tokens written.",
    ("journal", "turns"): "Turns taken.",
    ("journal", "retries"): "Transient errors that were tried again within the attempt.",
    ("config", "specs"): "Specifications, plans and tasks.",
    ("config", "agreements"): "Agreements and their reports.",
    ("config", "qa"): "Test plans and verdicts.",
}
"""What keys mean that the schema leaves to their names."""

_FORMS: Final = {
    "string": "text",
    "number": "number",
    "integer": "number",
    "boolean": "`true`, `false`",
    "object": "mapping",
}
_NAMED_FORMS: Final = {
    "slug": "text `[a-z0-9][a-z0-9-]*`",
    "time": "time",
    "time_or_empty": "time",
    "texts": "list of texts",
    "argv": "list: program, arguments",
    "globs": "list of patterns",
}


# ── putting them in ─────────────────────────────────────────────────────────────────────────

PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "vocabulary": vocabulary,
    "journal-words": journal_words,
    "conditions": condition_table,
    "triggers": trigger_table,
    "choices": choices,
    "resolutions": resolutions,
    "codes": codes,
    "commands": commands,
    "warnings": warnings,
    "playbook-keys": keys("playbook"),
    "arg-keys": keys("playbook", "definitions", "arg"),
    "step-keys": keys("playbook", "definitions", "step"),
    "session-keys": keys("session"),
    "entry-keys": keys("journal", "definitions", "entry"),
    "gate-keys": keys("journal", "definitions", "gate"),
    "agent-keys": keys("journal", "definitions", "agent"),
    "config-keys": keys("config"),
    "claude-keys": keys("config", "properties", "agents", "properties", "claude"),
    "artifacts-keys": keys("config", "properties", "artifacts"),
}


def regenerated(text: str) -> str:
    """The document with its generated parts made anew."""

    def made(part: re.Match[str]) -> str:
        return f"{part[1]}\n{PARTS[part[2]]()}\n{part[3]}"

    return _PART.sub(made, text)


def main(arguments: list[str]) -> int:
    """Exit 1 if `--check` finds a document out of date."""
    stale = []
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        made = regenerated(text)
        if made != text:
            stale.append(str(document.relative_to(REPOSITORY)))
            if "--check" not in arguments:
                document.write_text(made, "utf-8")
    if "--check" in arguments and stale:
        print(f"out of date: {', '.join(stale)}; run python tools/generate_docs.py")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
