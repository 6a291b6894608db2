"""Every condition and trigger against real files, and `pr_created` against a stand-in gh."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture
from support.scratch_project import FEATURE, Gh, Project

from playbook_supervisor.errors import ConditionError
from playbook_supervisor.kernel.directives import Answer
from playbook_supervisor.kernel.vocabulary import Condition, Trigger
from playbook_supervisor.project.conditions.conditions import (
    Workspace,
    artifacts,
    finding,
    probe,
    record,
)
from playbook_supervisor.project.conditions.probes import LARGEST, Since
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.system.git import github

HELD, NOT_HELD, ERROR = Answer.HELD, Answer.NOT_HELD, Answer.ERROR
REPORT = f".agreements/{FEATURE}/check-report.md"
VERDICT = f".qa/{FEATURE}/verdict.md"
VERDICT_YAML = f".qa/{FEATURE}/verdict.yaml"
EXISTENCE = {
    Condition.SPEC_EXISTS: f"specs/{FEATURE}/spec.md",
    Condition.PLAN_EXISTS: f"specs/{FEATURE}/plan.md",
    Condition.TASKS_EXISTS: f"specs/{FEATURE}/tasks.md",
    Condition.AGREEMENT_EXISTS: f".agreements/{FEATURE}/agreement.yaml",
    Condition.QA_PLAN_EXISTS: f".qa/{FEATURE}/test-plan.md",
}
FILES = [
    *EXISTENCE.items(),
    (Condition.AGREEMENT_PASS, REPORT),
    (Condition.QA_VERDICT_PASS, VERDICT),
]
SOME = FILES[-3:]


@pytest.fixture
def bare(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, FEATURE, FEATURE, Config())


def put(world: Workspace, path: str, text: str | bytes = "Verdict: PASS\n") -> Path:
    file = world.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def said(name: Condition, world: Workspace, **launch: Any) -> tuple[Answer, str]:
    probed = probe(name, world, **launch)
    assert probed.name == name
    assert "\n" not in probed.evidence
    return probed.answer, probed.evidence


# ── what exists ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "path"), FILES)
def test_a_condition_holds_when_its_file_is_there(
    bare: Workspace, name: Condition, path: str
) -> None:
    """kai FR3, FR4, D-C1, D-C3."""
    put(bare, path)
    assert probe(name, bare).held


@pytest.mark.parametrize(("name", "path"), EXISTENCE.items())
def test_the_evidence_names_the_file_and_its_length(
    bare: Workspace, name: Condition, path: str
) -> None:
    put(bare, path, "one\ntwo\nthree")
    assert said(name, bare) == (HELD, f"{path}, 3 lines")
    put(bare, path, "one\n")
    assert said(name, bare) == (HELD, f"{path}, 1 line")


@pytest.mark.parametrize(("name", "path"), SOME)
def test_a_missing_file_does_not_hold(bare: Workspace, name: Condition, path: str) -> None:
    """kai D-C1."""
    answer, evidence = said(name, bare)
    assert answer is NOT_HELD
    assert f"{path} is missing" in evidence or f"neither {path} nor " in evidence
    put(bare, str(Path(path).parent), "a file where the folder should be")
    assert said(name, bare)[0] is NOT_HELD


@pytest.mark.parametrize(("name", "path"), SOME)
@pytest.mark.parametrize("content", [b"", b"\n\n  \t\n"])
def test_an_empty_file_does_not_hold(
    bare: Workspace, name: Condition, path: str, content: bytes
) -> None:
    put(bare, path, content)
    answer, evidence = said(name, bare)
    assert answer is NOT_HELD
    assert f"{path} is empty" in evidence


@pytest.mark.parametrize(("name", "path"), SOME)
def test_a_template_left_untouched_does_not_hold(
    bare: Workspace, name: Condition, path: str
) -> None:
    template = f".specify/templates/{Path(path).stem}-template.md"
    put(bare, template, "# Template\n\nVerdict: PASS\n")
    file = put(bare, path, "# Template\n\nVerdict: PASS\n")
    answer, evidence = said(name, bare)
    assert answer is NOT_HELD
    assert f"{path} is still {template}, word for word" in evidence
    file.write_text("# Template\n\nVerdict: PASS \n")
    assert probe(name, bare).held


@pytest.mark.parametrize(("name", "path"), SOME)
def test_a_folder_in_the_files_place_does_not_hold(
    bare: Workspace, name: Condition, path: str
) -> None:
    (bare.root / path).mkdir(parents=True)
    answer, evidence = said(name, bare)
    assert answer is NOT_HELD
    assert f"{path} is a folder" in evidence


@pytest.mark.parametrize(("name", "path"), SOME)
@pytest.mark.parametrize("linked", ["the file", "its folder"])
def test_a_file_reached_through_a_link_out_of_the_repository_does_not_hold(
    tmp_path: Path, name: Condition, path: str, linked: str
) -> None:
    outside = Workspace(tmp_path / "outside", FEATURE, FEATURE, Config())
    world = Workspace(tmp_path / "project", FEATURE, FEATURE, Config())
    target = put(outside, path)
    link = world.root / path
    if linked == "its folder":
        target, link = target.parent, link.parent
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    answer, evidence = said(name, world)
    assert answer is NOT_HELD
    assert f"{path} leads out of the repository" in evidence
    assert record([name], world)[path] is None


@pytest.mark.parametrize(("name", "path"), SOME)
def test_a_file_that_cannot_be_read_is_an_error(
    bare: Workspace, name: Condition, path: str, mocker: MockerFixture
) -> None:
    put(bare, path)
    mocker.patch("os.open", side_effect=PermissionError(13, "Permission denied"))
    answer, evidence = said(name, bare)
    assert answer is ERROR
    assert f"{path} cannot be read (Permission denied)" in evidence
    assert record([name], bare)[path] is None


def test_one_of_the_two_qa_plans_is_enough(bare: Workspace) -> None:
    """kai D-C3."""
    path = f".qa/{FEATURE}/_index.yaml"
    put(bare, path, "scripts: []\n")
    assert said(Condition.QA_PLAN_EXISTS, bare) == (HELD, f"{path}, 1 line")
    put(bare, EXISTENCE[Condition.QA_PLAN_EXISTS], "")
    assert probe(Condition.QA_PLAN_EXISTS, bare).held


def test_without_a_qa_plan_both_places_are_named(bare: Workspace) -> None:
    assert said(Condition.QA_PLAN_EXISTS, bare) == (
        NOT_HELD,
        f"neither .qa/{FEATURE}/test-plan.md nor .qa/{FEATURE}/_index.yaml is there",
    )


@pytest.mark.parametrize("feature", ["", "../other", "a/../../b", "\x1b[2J", "-x"])
def test_without_a_feature_nothing_can_be_checked(tmp_path: Path, feature: str) -> None:
    world = Workspace(tmp_path, feature, "", Config())
    put(world, "specs/plan.md")
    answer, evidence = said(Condition.PLAN_EXISTS, world)
    assert answer is ERROR
    assert "no feature" in evidence
    assert "\x1b" not in evidence


# ── verdicts ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "path"), [(Condition.AGREEMENT_PASS, REPORT), (Condition.QA_VERDICT_PASS, VERDICT)]
)
@pytest.mark.parametrize(
    ("text", "answer", "evidence"),
    [
        ("---\nverdict: PASS\n---\n", HELD, "{} says PASS"),
        ("Verdict: FAIL", NOT_HELD, "{} says FAIL"),
        ("All went well.", NOT_HELD, "no verdict in {}"),
        (
            "---\nverdict: PASS\n---\n## Verdict: FAIL",
            NOT_HELD,
            "{} says PASS in line 2 and FAIL in line 4",
        ),
        (
            "Verdict: PASS\n```\nVerdict: FAIL",
            NOT_HELD,
            "the code fence in line 2 has no end in {}",
        ),
    ],
)
def test_a_verdict_holds_when_it_is_pass(
    bare: Workspace, name: Condition, path: str, text: str, answer: Answer, evidence: str
) -> None:
    """kai D-C2."""
    put(bare, path, text)
    found, told = said(name, bare)
    assert (found, told.partition(" (")[0]) == (answer, evidence.format(path))
    assert ("`Verdict: PASS`" in told) is evidence.startswith("no verdict")


def test_a_yaml_verdict_is_read(bare: Workspace) -> None:
    """kai D-C2."""
    put(bare, VERDICT_YAML, 'verdict: "PASS"\n')
    assert said(Condition.QA_VERDICT_PASS, bare) == (HELD, f"{VERDICT_YAML} says PASS")


def test_two_verdicts_that_agree_are_both_named(bare: Workspace) -> None:
    put(bare, VERDICT)
    put(bare, VERDICT_YAML, "verdict: PASS\n")
    evidence = f"{VERDICT} says PASS; {VERDICT_YAML} says PASS"
    assert said(Condition.QA_VERDICT_PASS, bare) == (HELD, evidence)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("verdict: FAIL\n", f"{VERDICT_YAML} says FAIL"),
        ("result: PASS\n", f"no verdict in {VERDICT_YAML} (the key `verdict` is missing)"),
    ],
)
def test_two_verdicts_that_differ_do_not_hold(bare: Workspace, other: str, told: str) -> None:
    put(bare, VERDICT)
    put(bare, VERDICT_YAML, other)
    assert said(Condition.QA_VERDICT_PASS, bare) == (
        NOT_HELD,
        f"the two verdicts differ: {VERDICT} says PASS; {told}",
    )


# ── since the launch ────────────────────────────────────────────────────────────────────────

REPORTS = [(Condition.AGREEMENT_PASS, REPORT), (Condition.QA_VERDICT_PASS, VERDICT)]


@pytest.mark.parametrize(("name", "path"), REPORTS)
def test_an_old_verdict_does_not_hold_for_a_new_run(
    bare: Workspace, name: Condition, path: str
) -> None:
    """kai FR4."""
    put(bare, path)
    launch = record([name], bare)
    assert said(name, bare, since=launch) == (
        NOT_HELD,
        f"{path} says PASS; not written since the launch",
    )


@pytest.mark.parametrize("change", ["content", "time", "inode"])
def test_a_report_written_again_counts_even_with_the_same_words(
    bare: Workspace, change: str
) -> None:
    file = put(bare, REPORT)
    launch = record([Condition.AGREEMENT_PASS], bare)
    status = file.stat()
    if change == "content":
        file.write_text("Verdict: PASS!\n")
    elif change == "inode":
        copy = put(bare, "copy.md")
        copy.replace(file)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + (change == "time")))
    assert probe(Condition.AGREEMENT_PASS, bare, since=launch).held


def test_without_a_record_the_time_decides_and_the_evidence_says_so(bare: Workspace) -> None:
    file = put(bare, REPORT)
    changed = file.stat().st_mtime_ns // 1_000_000
    records: tuple[Since | None, ...] = (None, {})
    for since in records:
        assert said(Condition.AGREEMENT_PASS, bare, since=since, since_ms=changed) == (
            HELD,
            f"{REPORT} says PASS (by its time alone)",
        )
        assert said(Condition.AGREEMENT_PASS, bare, since=since, since_ms=changed + 1) == (
            NOT_HELD,
            f"{REPORT} says PASS; not written since the launch (by its time alone)",
        )


@pytest.mark.parametrize(("name", "path"), EXISTENCE.items())
def test_a_file_that_the_step_did_not_touch_holds_and_says_so(
    bare: Workspace, name: Condition, path: str
) -> None:
    file = put(bare, path)
    launch = record([name], bare)
    assert said(name, bare, since=launch) == (HELD, f"{path}, 1 line, unchanged by this step")
    later = file.stat().st_mtime_ns // 1_000_000 + 1
    assert said(name, bare, since_ms=later) == (
        HELD,
        f"{path}, 1 line, unchanged by this step (by its time alone)",
    )
    assert said(name, bare, since={}) == (HELD, f"{path}, 1 line")
    file.write_text("one\ntwo\n")
    assert said(name, bare, since=launch) == (HELD, f"{path}, 2 lines")


# ── findings ────────────────────────────────────────────────────────────────────────────────


def test_a_breaking_report_is_found_with_its_line_and_digest(bare: Workspace) -> None:
    """kai FR6."""
    put(bare, REPORT, "# Check\n\n- [BREAKING] `id` is gone\n\nVerdict: PASS\n")
    found = finding(Trigger.AGREEMENT_BREAKING, bare)
    assert found is not None
    assert found[0] == f"{REPORT}: - [BREAKING] id is gone"
    assert len(found[1]) == 64
    put(bare, REPORT, "# Check\n\n- [BREAKING] `id` is gone\n\nVerdict: PASS!\n")
    again = finding(Trigger.AGREEMENT_BREAKING, bare)
    assert again is not None
    assert again[1] != found[1]


@pytest.mark.parametrize("word", ["FAIL", "STALE"])
def test_a_qa_verdict_that_is_not_pass_is_found(bare: Workspace, word: str) -> None:
    """kai D-T."""
    put(bare, VERDICT)
    put(bare, VERDICT_YAML, f"verdict: {word}\n")
    found = finding(Trigger.VERDICT_FAIL, bare)
    assert found is not None
    assert found[0] == f"{VERDICT_YAML}: {word}"


def test_a_report_left_over_from_before_fires_nothing(bare: Workspace) -> None:
    """kai D-T."""
    put(bare, REPORT, "breaking_changes: 2\n")
    put(bare, VERDICT, "Verdict: FAIL\n")
    launch = record(["agreement_breaking", "verdict_fail"], bare)
    for trigger in (Trigger.AGREEMENT_BREAKING, Trigger.VERDICT_FAIL):
        assert finding(trigger, bare) is not None
        assert finding(trigger, bare, since=launch) is None
        assert finding(trigger, bare, since={}, since_ms=0) is not None
    put(bare, REPORT, "breaking_changes: 3\n")
    assert finding(Trigger.AGREEMENT_BREAKING, bare, since=launch) is not None


def test_without_reports_and_for_other_triggers_nothing_is_found(bare: Workspace) -> None:
    for trigger in Trigger:
        assert finding(trigger, bare) is None


# ── names and records ───────────────────────────────────────────────────────────────────────


def test_every_word_of_the_vocabulary_has_its_artifacts(bare: Workspace) -> None:
    for name in (*Condition, *Trigger):
        assert isinstance(artifacts(name, bare), tuple)
    assert artifacts("qa_verdict_pass", bare) == (VERDICT, VERDICT_YAML)
    assert artifacts("pr_created", bare) == ()


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("plan_exist", "no condition 'plan_exist'; did you mean plan_exists?"),
        ("\x1b[2Jzzz", "no condition 'zzz'"),
    ],
)
def test_an_unknown_word_is_refused(bare: Workspace, word: str, told: str) -> None:
    with pytest.raises(ConditionError) as caught:
        artifacts(word, bare)
    assert caught.value.code == "PB-COND-UNKNOWN"
    assert caught.value.message == told


@given(text=st.binary(max_size=300))
def test_any_report_gives_an_answer(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    world = Workspace(tmp_path_factory.getbasetemp() / "fuzzed", FEATURE, "", Config())
    put(world, REPORT, text)
    assert probe(Condition.AGREEMENT_PASS, world).answer in (HELD, NOT_HELD)
    found = finding(Trigger.AGREEMENT_BREAKING, world)
    assert found is None or found[0].startswith(f"{REPORT}: ")


# ── pull requests ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
def world(project: Project, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr(github, "DEADLINE", 60.0)
    return Workspace(project.root, FEATURE, FEATURE, Config())


def asked(
    project: Project, world: Workspace, mode: Gh, monkeypatch: pytest.MonkeyPatch
) -> tuple[Answer, str]:
    project.gh(mode)
    monkeypatch.setenv("PATH", project.env["PATH"])
    return said(Condition.PR_CREATED, world)


def gh_saying(
    script: str, project: Project, world: Workspace, monkeypatch: pytest.MonkeyPatch
) -> tuple[Answer, str]:
    project.gh("open")
    program = Path(project.env["PATH"].split(os.pathsep)[0]) / "gh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    monkeypatch.setenv("PATH", project.env["PATH"])
    return said(Condition.PR_CREATED, world)


@pytest.mark.parametrize(
    ("mode", "answer", "evidence"),
    [
        ("open", HELD, "pull request #7 is open: https://forge.example/pull/7"),
        ("merged", HELD, "pull request #7 is merged: https://forge.example/pull/7"),
        ("none", NOT_HELD, f"no pull request of branch {FEATURE}"),
        (
            "logged out",
            ERROR,
            "cannot ask for pull requests: gh failed (To get started with GitHub CLI, please run: "
            " gh auth login); run `gh auth login`",
        ),
        (
            "garbage",
            ERROR,
            "cannot ask for pull requests: gh answered with no list of pull requests; update gh",
        ),
    ],
)
def test_the_forge_decides_about_a_pull_request(
    project: Project,
    world: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    mode: Gh,
    answer: Answer,
    evidence: str,
) -> None:
    """kai D-C4."""
    assert asked(project, world, mode, monkeypatch) == (answer, evidence)


def test_without_gh_the_probe_is_an_error_that_says_what_to_install(
    project: Project, world: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, evidence = asked(project, world, "missing", monkeypatch)
    assert answer is ERROR
    assert evidence.endswith("install GitHub's gh and put it on PATH")


def test_a_gh_that_hangs_is_ended_at_its_deadline(
    project: Project, world: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(github, "DEADLINE", 0.3)
    assert asked(project, world, "hanging", monkeypatch) == (
        ERROR,
        "cannot ask for pull requests: gh did not answer within 0.3 s; look at the network",
    )


def test_gh_is_asked_for_exactly_this_branch_and_without_prompts(
    project: Project, world: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'printf "%s|" "$PWD" "$GH_PROMPT_DISABLED" "$@" > seen; echo "[]"'
    gh_saying(script, project, world, monkeypatch)
    assert project.read("seen").split("|") == [
        str(project.root),
        "1",
        *("pr", "list", "--head", FEATURE, "--state", "all", "--json", "number,url,state"),
        "",
    ]


@pytest.mark.parametrize(
    "branch", ["$(touch owned)", "a;b", "a b", "'x'", "`x`", "--", "-x", "é/ü"]
)
def test_a_hostile_branch_name_reaches_gh_as_one_word_or_not_at_all(
    project: Project, world: Workspace, monkeypatch: pytest.MonkeyPatch, branch: str
) -> None:
    hostile = Workspace(world.root, FEATURE, branch, Config())
    script = 'printf "%s" "$4" > seen; echo "[]"'
    answer, _ = gh_saying(script, project, hostile, monkeypatch)
    if branch.startswith("-"):
        assert answer is ERROR
        assert not (project.root / "seen").exists()
    else:
        assert project.read("seen") == branch
    assert not (project.root / "owned").exists()


@pytest.mark.parametrize(
    ("branch", "told"),
    [
        ("", "no branch is checked out"),
        ("--web", "'--web' is no branch"),
        ("a\x1b[2J\nb", "'a' is no branch"),
    ],
)
def test_without_a_proper_branch_nothing_is_asked(
    bare: Workspace, branch: str, told: str, mocker: MockerFixture
) -> None:
    run = mocker.patch("playbook_supervisor.system.process.processes.run")
    answer, evidence = said(Condition.PR_CREATED, Workspace(bare.root, FEATURE, branch, Config()))
    assert answer is ERROR
    assert told in evidence
    run.assert_not_called()


@pytest.mark.parametrize(
    "printed",
    [
        *('[{"state": "OPEN"}]', '[{"number": 1}]', '[{"number":1,"url":"x","state":"ODD"}]'),
        '[{"number":1,"url":"x","state":[]}]',
    ],
)
def test_unexpected_output_of_gh_is_an_error(
    project: Project, world: Workspace, monkeypatch: pytest.MonkeyPatch, printed: str
) -> None:
    answer, evidence = gh_saying(f"printf '%s' '{printed}'", project, world, monkeypatch)
    assert answer is ERROR
    assert "no list of pull requests" in evidence


def test_an_open_pull_request_counts_before_a_merged_one(
    project: Project, world: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = '{{"number":{},"url":"u{}","state":"{}"}}'
    closed, merged, opened = (
        one.format(1, 1, "CLOSED"),
        one.format(2, 2, "MERGED"),
        one.format(3, 3, "OPEN"),
    )
    for listed, evidence in (
        (f"[{closed},{merged},{opened}]", "pull request #3 is open: u3"),
        (f"[{merged},{closed}]", "pull request #2 is merged: u2"),
    ):
        assert gh_saying(f"echo '{listed}'", project, world, monkeypatch) == (HELD, evidence)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo 'error connecting to api.example' >&2; exit 1", "(error connecting to api.example)"),
        ("exit 1", "(it said nothing)"),
    ],
)
def test_a_gh_that_fails_says_why_and_what_to_do(
    project: Project, world: Workspace, monkeypatch: pytest.MonkeyPatch, script: str, told: str
) -> None:
    answer, evidence = gh_saying(script, project, world, monkeypatch)
    assert answer is ERROR
    assert told in evidence
    assert evidence.endswith("run `gh pr list` here to see why")


def test_a_hostile_address_is_shown_without_its_control_characters(
    project: Project, world: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = r'[{"number":1,"url":"x\u001b[2Jy\nz","state":"OPEN"}]'
    script = f"cat <<'END'\n{listed}\nEND"
    assert gh_saying(script, project, world, monkeypatch) == (HELD, "pull request #1 is open: xy")


@pytest.mark.parametrize(("name", "path"), FILES)
def test_a_pipe_in_the_files_place_does_not_hold_and_is_not_waited_for(
    bare: Workspace, name: Condition, path: str
) -> None:
    (bare.root / path).parent.mkdir(parents=True)
    os.mkfifo(bare.root / path)
    answer, evidence = said(name, bare)
    assert answer is NOT_HELD
    assert f"{path} is no regular file" in evidence


@pytest.mark.parametrize(("name", "path"), FILES)
def test_a_giant_file_is_an_error_and_is_not_read(
    bare: Workspace, name: Condition, path: str
) -> None:
    file = put(bare, path)
    os.truncate(file, LARGEST + 1)
    answer, evidence = said(name, bare)
    assert answer is ERROR
    assert f"{path} is larger than" in evidence


def test_without_a_record_or_a_time_a_verdict_does_not_hold(bare: Workspace) -> None:
    put(bare, REPORT)
    assert said(Condition.AGREEMENT_PASS, bare, since={}) == (
        NOT_HELD,
        f"{REPORT} says PASS; not written since the launch (no record of it)",
    )
