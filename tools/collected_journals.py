"""The collection of tests/journals: whole sessions, and what makes one of them break a rule.

The tests of the audit hold the rules to it, and docs/audit.md says what is found in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from playbook_supervisor.audit.examination import AuditReport, examine
from playbook_supervisor.audit.session_record import SessionFile, SessionFiles, SessionRecord, read
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.timestamps import from_time
from playbook_supervisor.records import Record

JOURNALS = Path(__file__).resolve().parent.parent / "tests" / "journals"
FILES = ("journal.yaml", "session.yaml", "playbook.yaml")
NOW = from_time("2026-03-01T00:00:00Z") or 0
LATER = from_time("2027-01-01T00:00:00Z") or 0
COMMITTED = from_time("2026-02-20T18:00:00Z") or 0

WHOLE = {
    "ours": "Ours, completed: retried, accepted, skipped, with a group and a gate.",
    "ours-open": "Ours, waiting at a gate.",
    "ours-asking": "Ours, whose agents ask during their steps.",
    "ours-loop": "Ours, with a loop and a step that ran for three rounds.",
    "ours-back": "Ours, in which a step and a person sent back to an earlier step.",
    "ours-tree": "Ours, with a child session.",
    "ours-tree/child": "That child session.",
    "kai": "Another tool's, completed.",
    "kai-open": "Another tool's, interrupted.",
    "kai-resumed": "Another tool's, continued by this program.",
    "original/in-order": "A model's, without contradictions.",
    "original/durations": "A model's, with guessed durations.",
    "original/escalation": "A model's, without a trigger that it needs.",
    "original/never-ended": "A model's, without an end.",
    "original/invented": "A model's, invented afterwards.",
}
"""Each complete session, and what it is."""


class Broken(Record):
    """A session edited to break `rule`; `at` is in the line of the finding."""

    name: str
    why: str
    at: str
    contents: Mapping[str, str]
    session: SessionFiles
    record: SessionRecord

    @property
    def rule(self) -> str:
        return self.name.partition(".")[0]


def files(name: str) -> dict[str, str]:
    """The files of a whole session by name, those of its child session as `child/NAME`."""
    folder = JOURNALS / name
    return {
        str(file.relative_to(folder)): file.read_text("utf-8")
        for file in (*folder.glob("*.yaml"), *folder.glob("child/*.yaml"))
    }


def session(contents: Mapping[str, str], **more: Any) -> SessionFiles:
    """A session of these files; what kai's tools wrote keeps no playbook, it is the project's."""
    told = yaml.safe_load(contents["session.yaml"].partition("\n---")[0])
    more.setdefault("pinned", "schema" in told)
    journal, standing, playbook = (SessionFile(name, contents[name].encode()) for name in FILES)
    name = "20260219-a7k" if told["session_id"] == "20260219-zzz" else told["session_id"]
    if "policy.yaml" in contents:
        more["policy"] = SessionFile("policy.yaml", contents["policy.yaml"].encode())
    return SessionFiles(name, journal, standing, playbook, **more)


def whole(name: str) -> AuditReport:
    """What is found in a session that stands there as a whole."""
    contents = files(name)
    more: dict[str, Any] = {}
    if name.startswith("original/"):
        more["committed"] = [COMMITTED] * contents["journal.yaml"].count("\n")
        merged = 'status: "in_progress"' in contents["session.yaml"]
        more["merged"] = "main" if merged else ""
    resumed = name == "kai-resumed"
    if resumed:
        more["pinned"] = True  # it was kept from then on
    record = read(session(contents, **more), beside(contents, name))
    return examine(record, LATER if resumed else NOW)


def beside(contents: Mapping[str, str], name: str) -> Callable[[str], SessionFiles | None]:
    """Finds the child session among these contents, or the parent of a child by name."""
    child = {file.removeprefix("child/"): text for file, text in contents.items() if "/" in file}
    parent = files(name.removesuffix("/child")) if name.endswith("/child") else {}
    known = [session(each) for each in (child, parent) if each]
    return lambda session_id: next((each for each in known if each.name == session_id), None)


def broken() -> Iterator[Broken]:
    """Every RULE.yaml and RULE.what.yaml, by name. ValueError where one changes nothing."""
    for file in sorted((JOURNALS / "broken").glob("*.yaml"), key=lambda file: file.stem):
        case = yaml.safe_load(file.read_text("utf-8"))
        contents = files(case["twin"])
        for edit in case.get("edits", ()):
            name, old = edit["file"], edit["old"]
            old = contents[name] if old == "*" else old
            if old not in contents[name]:
                raise ValueError(f"{file.name}: {old!r} is not in {name}")
            contents[name] = contents[name].replace(old, edit["new"], 1)
        more: dict[str, Any] = {key: case.get(key, "") for key in ("merged", "unproved")}
        if "committed" in case:
            lines = contents["journal.yaml"].count("\n")
            more["committed"] = [from_time(case["committed"])] * lines
        spoilt = session(contents, **more)
        record = read(spoilt, beside(contents, case["twin"]))
        yield Broken(file.stem, case["why"], case["at"], contents, spoilt, record)


def problems(audited: AuditReport) -> Sequence[tuple[str, Problem]]:
    """What is found, each with its file."""
    return [(file.file, problem) for file in audited.files for problem in file.problems]
