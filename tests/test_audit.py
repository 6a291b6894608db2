"""What cannot be true of a session, rule by rule, and that nothing else is found.

`journals/` holds whole sessions that are in order, `journals/broken/` what makes one of them break
exactly one rule: RULE.yaml, or RULE.what.yaml.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from kernel.test_properties import CHOICES, history, playbooks

from playbook_supervisor import wire
from playbook_supervisor.audit import MOST, Audited, Exhibit, Session, examine
from playbook_supervisor.audit.rules import OURS, RULES
from playbook_supervisor.journal import EMPTY, HEADER, emit_entry
from playbook_supervisor.kernel.state import State
from playbook_supervisor.manifest import Manifest, emit_manifest
from playbook_supervisor.model import Playbook
from playbook_supervisor.records import replace
from playbook_supervisor.schema import Problem
from playbook_supervisor.session import project
from playbook_supervisor.times import from_time
from playbook_supervisor.vocabulary import SessionStatus

JOURNALS = Path(__file__).parent / "journals"
BROKEN = sorted((JOURNALS / "broken").glob("*.yaml"))
TWINS = ("ours", "ours-open", "kai", "kai-open")
NOW = from_time("2026-03-01T00:00:00Z") or 0
FILES = ("journal.yaml", "session.yaml", "playbook.yaml")


def files(twin: str) -> dict[str, str]:
    return {file.name: file.read_text("utf-8") for file in (JOURNALS / twin).iterdir()}


def session(contents: dict[str, str], **more: Any) -> Session:
    """A session of these files; what kai's tools wrote keeps no playbook, it is the project's."""
    told = yaml.safe_load(contents["session.yaml"].partition("\n---")[0])
    more.setdefault("pinned", "schema" in told)
    journal, standing, playbook = (Exhibit(name, contents[name].encode()) for name in FILES)
    name = "20260219-a7k" if told["session_id"] == "20260219-zzz" else told["session_id"]
    if "policy.yaml" in contents:
        more["policy"] = Exhibit("policy.yaml", contents["policy.yaml"].encode())
    return Session(name, journal, standing, playbook, **more)


def problems(audited: Audited) -> list[tuple[str, Problem]]:
    return [(file.file, problem) for file in audited.files for problem in file.problems]


def codes(audited: Audited) -> set[str]:
    return {problem.code for _, problem in problems(audited)}


def of_journal(text: str | bytes) -> Audited:
    """A journal that stands alone."""
    data = text.encode() if isinstance(text, str) else text
    return examine(Session("", Exhibit("journal.yaml", data)), NOW)


# ── every rule ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("twin", TWINS)
def test_in_a_session_that_is_in_order_nothing_is_found(twin: str) -> None:
    audited = examine(session(files(twin)), NOW)
    assert not problems(audited)
    assert audited.ok
    assert not audited.notes


def test_in_a_session_that_others_began_and_we_went_on_with_nothing_is_found() -> None:
    """It was broken off without a decision, its playbook was kept from then on, and it ended."""
    contents = files("kai-resumed")
    later = from_time("2027-01-01T00:00:00Z") or 0
    assert not problems(examine(session(contents, pinned=True), later))


@pytest.mark.parametrize("file", BROKEN, ids=lambda file: file.stem)
def test_what_breaks_one_rule_is_found_by_that_rule_at_its_place(file: Path) -> None:
    case = yaml.safe_load(file.read_text("utf-8"))
    contents = files(case["twin"])
    for edit in case.get("edits", ()):
        name, old = edit["file"], edit["old"]
        assert old == "*" or old in contents[name], f"{old!r} is not in {name}"
        old = contents[name] if old == "*" else old
        contents[name] = contents[name].replace(old, edit["new"], 1)
    more: dict[str, Any] = {"merged": case.get("merged", "")}
    if "committed" in case:
        lines = contents["journal.yaml"].count("\n")
        more["committed"] = [from_time(case["committed"])] * lines
    audited = examine(session(contents, **more), NOW)
    assert codes(audited) == {file.stem.partition(".")[0]}
    assert not audited.ok
    for name, problem in problems(audited):
        line = contents[name].splitlines()[problem.line - 1]
        if case["at"] in line:
            break
    else:
        pytest.fail(f"{problems(audited)} are elsewhere")
    assert problem.guidance == RULES[problem.code].guidance


def test_every_rule_has_a_session_that_breaks_it() -> None:
    assert {file.stem.partition(".")[0] for file in BROKEN} == set(RULES)
    assert set(RULES) >= OURS


# ── what the program itself writes ──────────────────────────────────────────────────────────


def as_written(playbook: Playbook, state: State, journal: Any) -> Session:
    """The files that the program leaves behind when a session stands here."""
    text = HEADER + b"".join(map(emit_entry, journal)) if journal else EMPTY
    begun = Manifest("20260219-a7k", playbook.name, "013-x", {}, SessionStatus.PENDING, -10)
    return Session(
        "20260219-a7k",
        Exhibit("journal.yaml", text),
        Exhibit("session.yaml", emit_manifest(project(begun, state))),
        Exhibit("playbook.yaml", json.dumps(wire.playbook_to_json(playbook)).encode()),
        pinned=True,
    )


@given(playbooks(), CHOICES)
@settings(max_examples=150)
def test_in_a_journal_of_our_own_nothing_is_ever_found(
    playbook: Playbook, choices: list[int]
) -> None:
    """Whatever happens in a session, and wherever it stands: every rule holds."""
    moments = list(history(playbook, choices))
    for now in moments[len(moments) // 2 :: 5] + moments[-1:]:
        audited = examine(as_written(playbook, now.after, now.written), NOW)
        assert not problems(audited)
        assert not audited.notes


# ── what other tools and models write ───────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("durations", {"AUD-DURATION"}),
        ("escalation", {"AUD-ESCALATION"}),
        ("never-ended", {"AUD-MERGED"}),
        ("invented", {"AUD-EARLY", "AUD-OVERLAP", "AUD-COMMITTED", "AUD-SKIP"}),
        ("in-order", set()),
    ],
)
def test_the_original_wrote_journals_of_these_shapes(name: str, expected: set[str]) -> None:
    """Its clerk was a model: durations guessed, a trigger forgotten, an end that never came."""
    contents = files(f"original/{name}")
    merged = "main" if 'status: "in_progress"' in contents["session.yaml"] else ""
    committed = [from_time("2026-02-20T18:00:00Z") or 0] * 500
    audited = examine(session(contents, committed=committed, merged=merged), NOW)
    assert codes(audited) == expected


def test_what_cannot_be_understood_is_said_and_the_rest_is_judged_all_the_same() -> None:
    """A list instead of a journal, entries that are none, numbers with units, unknown words."""
    audited = of_journal(
        "- step: speckit.plan\n"
        "  status: done\n"
        "  decision: auto\n"
        "  duration: 45s\n"
        "- just a line\n"
        "- step_id: implement\n"
        "  status: done\n"
        "  decision: escalated\n"
        '  started_at: "2026-02-19T10:20:00Z"\n'
        '  completed_at: "2026-02-19T10:10:00Z"\n'
        "  duration_seconds: 12m\n"
        "  trigger: test_fail\n"
        "  gates: [x]\n"
    )
    assert codes(audited) == {"AUD-FORM", "AUD-BACKWARDS", "AUD-COMPLETION"}
    said = {(problem.line, problem.message) for _, problem in problems(audited)}
    assert (1, "a journal has `entries:` at its top level") in said
    assert (1, "step_id: is missing") in said
    assert (5, "keys with their values are wanted here") in said
    assert (11, "duration_seconds: wants a number, not '12m'") in said
    assert any(line == 12 and "'test_fail' is none of" in message for line, message in said)
    assert (2, "entry 1 is settled without end") in said
    assert audited.notes == ("its playbook is not known: what its steps ask for is not judged",)


@pytest.mark.parametrize(
    "text",
    ["", "entries:\n", "entries: []\n", "schema: 1\nentries: []\n"],
    ids=["nothing", "no entries", "kai's", "ours"],
)
def test_an_empty_journal_tells_nothing_wrong(text: str) -> None:
    assert codes(of_journal(text)) == (set() if text else {"AUD-FORM"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema: 99\nentries: []\n", "newer"),
        ("schema: one\nentries: []\n", "schema"),
        ("entries: {a: b}\n", "wants a list"),
    ],
)
def test_a_journal_of_another_kind_is_said_to_be_one(text: str, said: str) -> None:
    (problem,) = [problem for _, problem in problems(of_journal(text))]
    assert problem.code == "AUD-FORM"
    assert said in problem.message


@pytest.mark.parametrize(
    "data",
    [
        b"a: &a [x, x]\nb: &b [*a, *a]\nentries: []\n",
        b"entries: [" + b"[" * 100_000,
        b"entries:\n  - step_id: \x1b[31mred\n",
        b"\xff\xfe",
        b"x" * (17 * 1024 * 1024),
    ],
    ids=["bomb", "depth", "control characters", "no text", "size"],
)
def test_a_hostile_file_is_one_finding(data: bytes) -> None:
    assert [problem.code for _, problem in problems(of_journal(data))] == ["AUD-READ"]


def test_a_line_of_ten_megabytes_is_judged_and_not_repeated() -> None:
    word = "x" * 10_000_000
    audited = of_journal(
        f"entries:\n  - step_id: {word}\n    status: {word}\n    decision: {word}\n"
        f'    started_at: {word}\n    human_response: "{word}"\n'[:16_000_000]
    )
    assert codes(audited) <= {"AUD-FORM", "AUD-READ"}
    assert all(len(problem.message) < 500 for _, problem in problems(audited))


def test_names_are_shown_without_what_a_terminal_would_obey() -> None:
    audited = of_journal(
        'entries:\n  - step_id: "\\e]0;title\\a\\u202Eplan"\n    status: done\n'
        '    decision: escalated\n    started_at: "2026-02-19T10:00:00Z"\n'
        '    completed_at: "2026-02-19T10:00:00Z"\n    human_response: ok\n'
    )
    assert [problem.message for _, problem in problems(audited)] == [
        "plan#1 is escalated, and names no trigger"
    ]


def test_of_very_many_findings_the_first_are_given() -> None:
    entry = "  - {step_id: plan, status: done, decision: escalated}\n"
    audited = of_journal("entries:\n" + entry * (MOST + 5))
    assert len(problems(audited)) == MOST
    assert audited.notes[-1] == f"journal.yaml has more findings than these {MOST}"


def test_what_is_missing_is_said_and_the_rest_is_judged() -> None:
    whole = session(files("ours"))
    gone = Exhibit("journal.yaml", None, "there is no such file")
    without = replace(whole, journal=gone)
    ((file, problem),) = problems(examine(without, NOW))
    assert (file, problem.code, problem.message) == (
        "journal.yaml",
        "AUD-READ",
        "there is no such file",
    )
    contents = files("ours")
    contents["journal.yaml"] = contents["journal.yaml"].replace("59.5", "1", 1)
    alone = replace(session(contents), session=replace(gone, file="session.yaml"), playbook=None)
    assert codes(examine(alone, NOW)) == {"AUD-READ", "AUD-DURATION"}
    unbound = replace(whole, policy=replace(gone, file="policy.yaml"))
    ((file, problem),) = problems(examine(unbound, NOW))
    assert (file, problem.code) == ("policy.yaml", "AUD-READ")


def test_what_has_no_name_or_time_is_judged_as_far_as_it_goes() -> None:
    contents = files("ours")
    journal = contents["journal.yaml"].replace("step_id: docs", "step: docs")
    journal = journal.replace('    started_at: "2026-02-19T10:10:00.000Z"\n', "", 1)
    journal = journal.replace("gates:\n", "gates: [x]\n#", 1)
    for reason in ("reason: postcondition_fail", "reason: gate_always"):
        before, _, after = journal.rpartition(reason)
        journal = f"{before}reason: because{after}"
    contents["journal.yaml"] = journal
    contents["session.yaml"] = contents["session.yaml"].replace("completed", "finished", 1)
    assert codes(examine(session(contents), NOW)) == {"AUD-FORM", "AUD-PHASE"}


def test_a_step_that_was_tried_without_end_does_not_keep_anybody_waiting() -> None:
    contents = files("ours-open")
    attempt = """  - step_id: tasks
    status: failed
    decision: auto
    started_at: "2026-02-20T10:02:00.000Z"
    completed_at: "2026-02-20T10:02:00.000Z"
    duration_seconds: 0.0
    attempt: {}
    error: "interrupted before it returned"
    error_code: PB-STATE-INTERRUPTED
"""
    again = "  - step_id: tasks\n    status: done\n"
    assert again in contents["journal.yaml"]
    attempts = "".join(attempt.format(number) for number in range(2, 1_002))
    journal = contents["journal.yaml"].replace(again, attempts + again)
    contents["journal.yaml"] = journal.replace("attempt: 2\n    evi", "attempt: 1002\n    evi")
    assert examine(session(contents), NOW).ok


def test_a_playbook_that_has_changed_its_steps_since_judges_nothing() -> None:
    """What kai's tools wrote is judged by the project's playbook only if it fits."""
    contents = files("kai")
    contents["playbook.yaml"] = contents["playbook.yaml"].replace("id: qa", "id: validate")
    audited = examine(session(contents), NOW)
    assert audited.ok
    assert audited.notes == ("its playbook is not known: what its steps ask for is not judged",)


@pytest.mark.parametrize("text", ["", "- a\n", "steps: none\n", "steps: [x, {id: ''}]\n", "\t"])
def test_a_file_that_is_no_playbook_is_none(text: str) -> None:
    contents = files("ours") | {"playbook.yaml": text}
    assert examine(session(contents), NOW).notes


@pytest.mark.parametrize("policy", ["continue", "ignore"])
def test_a_policy_that_goes_on_exempts_what_fails_under_it(policy: str) -> None:
    contents = files("kai")
    journal = contents["journal.yaml"]
    contents["journal.yaml"] = journal.replace('status: "done"', 'status: "failed"', 1)
    failed = examine(session(contents), NOW)
    assert codes(failed) == {"AUD-COMPLETED", "AUD-PHASE"}
    text = contents["playbook.yaml"].replace("error_policy: stop", f"error_policy: {policy}", 1)
    assert examine(session(contents | {"playbook.yaml": text}), NOW).ok


def test_a_failure_that_a_person_has_waived_is_exempt() -> None:
    contents = files("kai")
    journal = contents["journal.yaml"].replace('status: "done"', 'status: "failed"', 1)
    contents["journal.yaml"] = journal.replace(
        'decision: "auto"', 'decision: "auto"\n    waived: [plan_exists]', 1
    )
    assert examine(session(contents), NOW).ok


def test_later_versions_skip_by_when_retry_by_number_and_name_conditions_with_values() -> None:
    contents = files("ours")
    playbook = contents["playbook.yaml"].replace("autonomy: skip", "autonomy: auto")
    playbook = playbook.replace("    command: /qa.old\n", "    command: cli x\n    when: $lint.x\n")
    playbook = playbook.replace("retry_once", "'retry:1'", 1)
    playbook = playbook.replace("[plan_exists]", "[file_exists: plan.md, plan_exists]")
    contents["playbook.yaml"] = playbook
    audited = examine(session(contents), NOW)
    assert codes(audited) == {"AUD-EVIDENCE"}
    ((_, problem),) = problems(audited)
    assert problem.message == "plan#1 is done, and there is no evidence of file_exists"
