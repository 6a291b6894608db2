"""Every rule of the audit, and that nothing else is found.

`journals/` holds whole sessions, `journals/broken/` what makes one that is in order break exactly
one rule: RULE.yaml, or RULE.what.yaml. tools/collected_journals.py reads them.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from collected_journals import JOURNALS, NOW, WHOLE, Broken, broken, files, problems, session, whole
from hypothesis import given
from kernel.test_properties import CHOICES, history, playbooks

from playbook_supervisor.audit.evidence import split
from playbook_supervisor.audit.examination import AuditReport
from playbook_supervisor.audit.examination import examine as examine_record
from playbook_supervisor.audit.rules import RULES
from playbook_supervisor.audit.session_record import SessionFile, SessionFiles, read
from playbook_supervisor.formats.problems import MAX_PROBLEMS
from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import State
from playbook_supervisor.kernel.vocabulary import Condition, SessionStatus
from playbook_supervisor.project.conditions.conditions import Workspace, artifacts, probe, record
from playbook_supervisor.project.conditions.probes import LARGEST
from playbook_supervisor.project.expressions.requirement import PLAIN
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import serialize
from playbook_supervisor.sessions.files.journal import EMPTY, HEADER, emit_entry
from playbook_supervisor.sessions.files.manifest import Manifest, emit_manifest
from playbook_supervisor.sessions.files.projection import project

BROKEN = tuple(broken())
IN_ORDER = (
    *("ours", "ours-open", "ours-asking", "ours-loop", "ours-back", "ours-tree", "ours-tree/child"),
    *("kai", "kai-open"),
)


def examine(files: SessionFiles, now: int) -> AuditReport:
    return examine_record(read(files), now)


def codes(audited: AuditReport) -> set[str]:
    return {problem.code for _, problem in problems(audited)}


def of_journal(text: str | bytes) -> AuditReport:
    data = text.encode() if isinstance(text, str) else text
    return examine(SessionFiles("", SessionFile("journal.yaml", data)), NOW)


# ── every rule ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [*IN_ORDER, "kai-resumed"])
def test_in_a_session_that_is_in_order_nothing_is_found(name: str) -> None:
    """Also if others began it without a word on decisions, and we went on with it."""
    audited = whole(name)
    assert not problems(audited)
    assert audited.ok
    assert not audited.notes


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name)
def test_what_breaks_one_rule_is_found_by_that_rule_at_its_place(case: Broken) -> None:
    audited = examine_record(case.record, NOW)
    assert codes(audited) == {case.rule}
    assert not audited.ok
    for name, problem in problems(audited):
        line = case.contents[name].splitlines()[problem.line - 1]
        if case.at in line:
            break
    else:
        pytest.fail(f"{problems(audited)} are elsewhere")
    assert problem.guidance == RULES[problem.code].guidance


def test_every_session_of_the_collection_is_described() -> None:
    standing = {folder.parent for folder in JOURNALS.rglob("session.yaml")}
    assert {JOURNALS / name for name in WHOLE} == standing


def test_every_rule_has_a_session_that_breaks_it() -> None:
    assert {case.rule for case in BROKEN} == set(RULES)


# ── evidence in the words of the conditions ─────────────────────────────────────────────────


FEATURE, KAIS_FEATURE = "013-playbook-create", "012-playbook-supervisor"
REPORT = f".agreements/{FEATURE}/check-report.md"


OF_TASKS = Condition.TASKS_DONE  # it holds by something else than a verdict or a file
WITH_FILES = [
    name
    for name in PLAIN
    if artifacts(name, Workspace(Path(), "x", "", Config())) and name is not OF_TASKS
]


def with_evidence(probed: Probed) -> AuditReport:
    """Ours, where the first step rests on this beside its plan."""
    contents = files("ours")
    plan = '["plan_exists: specs'
    assert plan in contents["journal.yaml"]
    line = json.dumps(f"{probed.name}: {probed.evidence}")
    journal = contents["journal.yaml"].replace(plan, f'[{line}, "plan_exists: specs', 1)
    return examine(session(contents | {"journal.yaml": journal}), NOW)


@pytest.mark.parametrize("name", WITH_FILES)
@pytest.mark.parametrize(
    ("content", "launched", "held"),
    [
        ("Verdict: PASS\n", False, True),
        ("Verdict: PASS\n", True, None),  # whether an old file will do is the condition's business
        ("Verdict: FAIL\n", False, None),
        ("---\nverdict: [\n---\n", False, None),
        (None, False, False),
    ],
    ids=["pass", "stale", "fail", "broken", "missing"],
)
def test_evidence_counts_only_if_its_condition_held(
    name: Condition, content: str | None, launched: bool, held: bool | None, tmp_path: Path
) -> None:
    """In the very words in which the program tells what it has looked at."""
    world = Workspace(tmp_path, FEATURE, FEATURE, Config())
    (path, *_) = artifacts(name, world)
    if content is not None:
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(content)
    since = record([name], world) if launched else None
    probed = probe(name, world, since=since)
    assert held in (None, probed.held)
    assert codes(with_evidence(probed)) == (set() if probed.held else {"AUD-REFUTED"})


@pytest.mark.parametrize(
    ("name", "evidence", "held"),
    [
        ("tasks_done", "specs/a/tasks.md: 3 tasks done", True),
        ("tasks_done", "specs/a/tasks.md: 1 of 3 tasks not done: T002 (line 3)", False),
        ("verdict_pass=a.md", "a.md says PASS and `2 tests failed` in line 1", False),
        ("verdict_pass=a.md", "the code fence in line 3 has no end in a.md", False),
        ("commits_made", "1 commit since the launch: 1234567 No tests", True),
        ("commits_made", "no commit since the launch", False),
        ("git_clean", "2 files not committed: a, b", False),
        ("changes_made=src/**", "nothing in src/** has changed since the launch", False),
        ("changes_within=src/**", "2 files changed outside src/**: a, b", False),
        ("branch_exists=x", "there is no branch x", False),
        ("file_contains=a.md x", 'a.md lacks "x"', False),
        (
            "command_succeeds=test",
            "could not be checked: the config defines no check 'test'",
            False,
        ),
        ("command_fails=test", 'check test: exit 1 in 3 s, "1 failed", tree 9f31c2a', True),
    ],
)
def test_evidence_of_version_1_1_counts_only_if_its_condition_held(
    name: str, evidence: str, *, held: bool
) -> None:
    probed = Probed(name, Answer.HELD, evidence)
    found = codes(with_evidence(probed)) - {"AUD-FEATURE"}
    assert found == (set() if held else {"AUD-REFUTED"})


PROVED = (
    "3 tests passed in 0.7 s, tree 9f31c2a in a clean room; a test that must fail did; "
    "3 tests of the beginning agree (2 of them failed then); "
    "2 new or changed tests: 2 failed with the code of the beginning, 1 for want of a name"
)
BY_STATUS = (
    'exit 0 in 3 s, "OK", tree 9f31c2a in a clean room; only the exit status is known; '
    "no test that must fail could be added; the tests of the beginning agree"
)
HERE = "3 tests passed in 1 s, tree 9f31c2a; in the checkout, without the tests of the beginning"
RED = PROVED.replace("3 tests passed in 0.7 s", "0 tests passed in 1 s").replace(
    "room;", "room, 3 failed as at the beginning;", 1
)


@pytest.mark.parametrize(
    ("name", "evidence", "why"),
    [
        ("proved=test", PROVED, ""),
        ("proved=test", PROVED.replace("3 ", "1 ").replace("2 ", "1 "), ""),
        ("proved=test", BY_STATUS, ""),
        ("proved=test red=allowed", RED, ""),
        ("proved=test without=alarm,runner", f"{HERE}; without alarm, runner", ""),
        ("proved=test", PROVED.replace("3 tests passed", "0 tests passed"), "no test passed"),
        ("proved=test", "it works; 3 tests of the beginning agree", "no test passed"),
        ("proved=test", "3 tests passed in 1 s", "says nothing of the earlier tests"),
        ("proved=test", PROVED.replace("3 tests of", "0 tests of"), "more tests failed than there"),
        ("proved=test", PROVED.replace(": 2 f", ": 9 f"), "more tests failed than there are"),
        ("proved=test", f"{PROVED}; without alarm", "do not leave out the same"),
        ("proved=test without=alarm", PROVED, "do not leave out the same"),
        (
            "proved=test",
            PROVED.replace(" a test that must fail did;", ""),
            "no test of ours has failed",
        ),
    ],
)
def test_evidence_of_a_proof_that_cannot_be_true_is_found(
    name: str, evidence: str, why: str
) -> None:
    report = with_evidence(Probed(name, Answer.HELD, evidence))
    assert codes(report) == ({"AUD-EVIDENCE"} if why else set())
    assert all(why in problem.message for _, problem in problems(report))


def test_the_lines_of_a_check_are_about_one_tree() -> None:
    said = 'check test: exit 0 in 3 s, ", tree 1234567", tree {} in a clean room'
    for tree, expected in (("9f31c2a", set()), ("0000000", {"AUD-EVIDENCE"})):
        contents = files("ours")
        lines = json.dumps([f"proved=test new_tests=required: {PROVED}"])
        lines = lines[:-1] + ", " + json.dumps(f"command_succeeds=test: {said.format(tree)}") + ", "
        journal = contents["journal.yaml"].replace(
            '["plan_exists: specs', f'{lines}"plan_exists: specs', 1
        )
        assert codes(examine(session(contents | {"journal.yaml": journal}), NOW)) == expected


def test_a_proof_that_a_person_is_said_to_have_accepted_needs_an_answer() -> None:
    evidence = f"1 of 3 tests of the beginning disagree: t: changed; {PROVED}, accepted by a person"
    assert codes(with_evidence(Probed("proved=test", Answer.HELD, evidence))) == {"AUD-WAIVED"}


@pytest.mark.parametrize(
    "unit",
    [" says x", " says x in line 1 ", " cannot be read (", " cannot be read ()x", "; ", "1 "],
)
def test_a_hostile_line_of_evidence_is_read_in_no_time(unit: str) -> None:
    line = Probed("proved=test", Answer.HELD, unit * (100_000 // len(unit)))
    began = time.process_time()
    with_evidence(line)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "line", ["file_exists=dist: dist, a folder", "file_exists: dist, a folder"]
)
def test_evidence_names_its_condition_with_or_without_the_value_that_it_begins_with(
    line: str,
) -> None:
    known = ("file_exists=di", "file_exists=dist", "file_exists=dist/x", "git_clean")
    assert split(line, known) == ("file_exists=dist", "dist, a folder")


@pytest.mark.parametrize("flaw", ["template", "huge", "reports", "none"])
def test_evidence_of_a_flawed_artifact_does_not_count(flaw: str, tmp_path: Path) -> None:
    world = Workspace(tmp_path, FEATURE, FEATURE, Config())
    report, template = tmp_path / REPORT, tmp_path / ".specify/templates/check-report-template.md"
    for file in (report, template):
        file.parent.mkdir(parents=True)
    name = Condition.AGREEMENT_PASS
    match flaw:
        case "none":
            world = replace(world, feature="")
        case "template":
            report.write_text("Verdict: PASS\n")
            template.write_text("Verdict: PASS\n")
        case "huge":
            report.write_bytes(b"x" * (LARGEST + 1))
        case _:
            name = Condition.QA_VERDICT_PASS
            folder = tmp_path / ".qa" / FEATURE
            folder.mkdir(parents=True)
            (folder / "verdict.md").write_text("Verdict: PASS\n")
            (folder / "verdict.yaml").write_text("verdict: FAIL\n")
    probed = probe(name, world)
    assert not probed.held
    assert codes(with_evidence(probed)) == {"AUD-REFUTED"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("pull request #7 is merged: https://forge.example/pull/7", set()),
        ("pull request #7 is closed: https://forge.example/pull/7", {"AUD-REFUTED"}),
        ("no pull request of branch 013-playbook-create", {"AUD-REFUTED"}),
        ("FAILED: 3 checks", {"AUD-REFUTED"}),
        ("no", {"AUD-REFUTED"}),
        ("nothing failed, 0 failed", set()),
    ],
)
def test_evidence_of_a_pull_request_and_in_free_words(said: str, expected: set[str]) -> None:
    probed = Probed(Condition.PR_CREATED, Answer.HELD, said)
    assert codes(with_evidence(probed)) == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("012", set()),
        ("specs/012-playbook-supervisor/", set()),
        ("[012]", set()),
        ("", set()),
        ("01", {"AUD-FEATURE"}),
        ("specs/013-playbook-create", {"AUD-FEATURE"}),
    ],
)
def test_other_tools_keep_a_feature_as_it_was_typed(typed: str, expected: set[str]) -> None:
    contents = files("kai")
    before = 'args:\n  feature: "012-playbook-supervisor"\n'
    assert before in contents["session.yaml"]
    after = f"args:\n  feature: {typed}\n"
    contents["session.yaml"] = contents["session.yaml"].replace(before, after)
    assert codes(examine(session(contents), NOW)) == expected


def test_an_answer_without_a_name_is_noted_and_not_a_finding() -> None:
    """Git may know no name; that a policy lets only some answer is another matter."""
    contents = files("ours")
    contents["journal.yaml"] = contents["journal.yaml"].replace(
        " by: Ana, text: retry,", " text: retry,"
    )
    audited = examine(session(contents), NOW)
    assert audited.ok
    assert audited.notes == ("the journal does not say who answered implement#1?1",)


@pytest.mark.parametrize("key", ["by: Ana", "text: retry"])
def test_an_answer_that_cannot_be_understood_is_neither_missing_nor_another_one(key: str) -> None:
    contents = files("ours")
    name = key.partition(":")[0]
    assert f"{key}, " in contents["journal.yaml"]
    contents["journal.yaml"] = contents["journal.yaml"].replace(f"{key}, ", f"{name}: [x], ", 1)
    audited = examine(session(contents), NOW)
    assert codes(audited) == {"AUD-FORM"}
    assert not audited.notes


# ── what the program itself writes ──────────────────────────────────────────────────────────


def as_written(playbook: Playbook, state: State, journal: Any) -> SessionFiles:
    """The files that the program leaves behind when a session stands here."""
    text = HEADER + b"".join(map(emit_entry, journal)) if journal else EMPTY
    begun = Manifest("20260219-a7k", playbook.name, "013-x", {}, SessionStatus.PENDING, -10)
    return SessionFiles(
        "20260219-a7k",
        SessionFile("journal.yaml", text),
        SessionFile("session.yaml", emit_manifest(project(begun, state))),
        SessionFile("playbook.yaml", json.dumps(serialize.playbook_to_json(playbook)).encode()),
        pinned=True,
    )


@given(playbooks(), CHOICES)
def test_our_own_journals_have_no_findings(playbook: Playbook, choices: list[int]) -> None:
    """Every rule holds for any session, at any point."""
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
    assert codes(whole(f"original/{name}")) == expected


def test_what_cannot_be_understood_is_reported_and_the_rest_is_checked() -> None:
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
    assert (1, "a journal needs `entries:` at its top level") in said
    assert (1, "step_id: is missing") in said
    assert (5, "a mapping of keys to values is expected") in said
    assert (11, "duration_seconds: must be a number, not '12m'") in said
    assert any(line == 12 and "'test_fail' is not one of" in message for line, message in said)
    assert (2, "entry 1 is settled, but has no end") in said
    assert audited.notes == (
        "its playbook is not known, so its steps' requirements are not checked",
    )


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
        ("entries: {a: b}\n", "must be a list"),
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


def test_a_line_of_ten_megabytes_is_checked_and_not_repeated() -> None:
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
        "plan#1 is escalated, but names no trigger"
    ]


def test_only_the_first_of_very_many_findings_are_reported() -> None:
    entry = "  - {step_id: plan, status: done, decision: escalated}\n"
    audited = of_journal("entries:\n" + entry * (MAX_PROBLEMS + 5))
    assert len(problems(audited)) == MAX_PROBLEMS
    assert (
        audited.notes[-1]
        == f"journal.yaml has more than {MAX_PROBLEMS} findings; the rest is not shown"
    )


def test_a_missing_file_is_reported_and_the_rest_is_checked() -> None:
    whole = session(files("ours"))
    gone = SessionFile("journal.yaml", None, "there is no such file")
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


def test_an_entry_without_a_name_or_times_is_checked_as_far_as_possible() -> None:
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


def test_a_step_with_very_many_attempts_is_not_replayed() -> None:
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


def test_a_playbook_whose_steps_changed_since_is_not_used() -> None:
    """What kai's tools wrote is judged by the project's playbook only if it fits."""
    contents = files("kai")
    contents["playbook.yaml"] = contents["playbook.yaml"].replace("id: qa", "id: validate")
    audited = examine(session(contents), NOW)
    assert audited.ok
    assert audited.notes == (
        "its playbook is not known, so its steps' requirements are not checked",
    )


@pytest.mark.parametrize("policy", ["continue", "ignore"])
def test_a_policy_that_continues_exempts_its_failures(policy: str) -> None:
    contents = files("kai")
    journal = contents["journal.yaml"]
    contents["journal.yaml"] = journal.replace('status: "done"', 'status: "failed"', 1)
    failed = examine(session(contents), NOW)
    assert codes(failed) == {"AUD-COMPLETED", "AUD-PHASE"}
    text = contents["playbook.yaml"].replace("error_policy: stop", f"error_policy: {policy}", 1)
    assert examine(session(contents | {"playbook.yaml": text}), NOW).ok


REFUTING = (f'evidence: ["agreement_pass: {REPORT} says FAIL"]', "failing: [agreement_pass]")


@pytest.mark.parametrize("said", REFUTING)
@pytest.mark.parametrize(
    ("waived", "expected"),
    [
        ("waived: [agreement_pass]", set()),
        ("waived: [plan_exists]", {"AUD-REFUTED"}),
        ("waived: everything", {"AUD-FORM"}),
    ],
)
def test_what_a_person_has_waived_may_say_that_it_failed(
    said: str, waived: str, expected: set[str]
) -> None:
    contents = files("ours")
    journal = contents["journal.yaml"].replace(
        "waived: [agreement_pass]", f"{waived}\n    {said}", 1
    )
    found = codes(examine(session(contents | {"journal.yaml": journal}), NOW))
    assert found - {"AUD-EVIDENCE"} == expected


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
    assert problem.message == "plan#1 is done without evidence of file_exists"
