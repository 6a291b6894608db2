"""`check`: what it takes, and warnings that a comment allows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.scratch_project import Project

from playbook_supervisor.commands.install.shipped import PLAYBOOKS
from playbook_supervisor.system.disk import templates

UNSEEN = "PB-CHECK-LINT-UNSEEN"
PLAYBOOK = """\
name: quick
description: One step that only its agent sees
version: "1.0"
args: []
steps:
  {above}
  - id: plan{beside}
    command: /speckit.plan
    autonomy: auto
    error_policy: stop
"""


def written(project: Project, *, above: str = "# one step", beside: str = "") -> Project:
    project.write(".playbooks/playbooks/quick.yaml", PLAYBOOK.format(above=above, beside=beside))
    return project


def problems(project: Project, *args: str) -> list[str]:
    checked = project.playbook("check", "quick", "--format", "json", *args).json
    return [each["message"] for file in checked["files"] for each in file["problems"]]


def files(project: Project, *args: str, cwd: Path | None = None) -> list[str]:
    checked = project.playbook("check", *args, "--format", "json", cwd=cwd).json
    return [each["file"] for each in checked["files"]]


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_the_playbooks_that_ship_pass_the_strict_check(project: Project, name: str) -> None:
    text = (templates.folder() / f"playbooks/{name}.yaml").read_text()
    project.write(f".playbooks/playbooks/{name}.yaml", text)
    project.write(".claude/commands/speckit.analyze.md", "Analyze.\n")
    project.write(".playbooks/config.yaml", "checks: {test: {run: [make, test]}}\n")
    checked = project.playbook("check", "--strict", name)
    assert checked.code == 0, checked.out


# ── what it takes ───────────────────────────────────────────────────────────────────────────


def test_without_arguments_it_checks_the_whole_project(project: Project) -> None:
    project.playbook("index")
    project.write(".playbooks/config.yaml", "agent: {name: nobody}\n")
    project.write(".playbooks/policies/team.yaml", "rules: nonsense\n")
    project.write(".playbooks/templates/own.tpl.yaml", PLAYBOOK.format(above="#", beside=""))
    done = project.playbook("check")
    assert done.code == 1
    assert {line.split(":")[0] for line in done.out.splitlines() if ": error: " in line} == {
        ".playbooks/config.yaml",
        ".playbooks/policies/team.yaml",
    }
    found = files(project)
    assert ".playbooks/playbooks/auto-feature.yaml" in found
    assert ".playbooks/templates/own.tpl.yaml" in found
    assert ".playbooks/_index.yaml" in found
    below = files(project, cwd=project.root / "specs")
    assert below == [f"../{file}" for file in found]


@pytest.mark.parametrize("name", [".", ".playbooks"])
def test_it_takes_the_folder_of_a_project(project: Project, name: str) -> None:
    project.playbook("index")
    assert sorted(files(project, name)) == sorted(files(project))


def test_it_takes_names_folders_and_files_together(project: Project) -> None:
    folder = ".playbooks/playbooks"
    written(project)
    assert files(project, "quick") == [f"{folder}/quick.yaml"]
    assert len(files(project, folder)) == len(list((project.root / folder).iterdir()))
    assert files(project, "quick", f"{folder}/auto-feature.yaml")[1].endswith("auto-feature.yaml")


def test_what_it_cannot_check_is_named(project: Project, tmp_path: Path) -> None:
    assert "Did you mean `auto-feature`?" in project.playbook("check", "auto-featur").err
    empty = project.playbook("check", "specs")
    assert (empty.code, "there is nothing to check in the folder specs" in empty.err) == (1, True)
    outside = project.playbook("check", cwd=tmp_path)
    assert (outside.code, "[PB-STATE-NO-REPOSITORY]" in outside.err) == (3, True)


def test_a_project_whose_sessions_git_ignores_is_warned_of(project: Project) -> None:
    project.write(".gitignore", ".playbooks/sessions/\n")
    warned = project.playbook("check")
    said = ".playbooks/sessions:1:1: warning: git ignores .playbooks/sessions/, so no session will"
    assert (warned.code, said in warned.out) == (0, True), warned.out
    assert project.playbook("check", "--strict").code == 1
    project.write(".playbooks/config.yaml", "commit_sessions: never\n")
    assert said not in project.playbook("check").out


def test_a_project_without_playbooks_is_not_fine(project: Project) -> None:
    shutil.rmtree(project.root / ".playbooks/playbooks")
    project.write(".playbooks/config.yaml", "checks: {test: {run: [make, test]}}\n")
    (project.root / ".playbooks/_index.yaml").unlink(missing_ok=True)
    done = project.playbook("check")
    assert done.out.startswith(".playbooks/playbooks:1:1: warning: there is no playbook.")
    assert "fine" not in done.out + done.err
    assert project.playbook("check", "--strict").code == 1
    (project.root / ".playbooks/config.yaml").unlink()
    done = project.playbook("check")
    assert (done.code, "fine" in done.out + done.err) == (1, False)
    assert "there is nothing to check in the folder" in done.err


# ── warnings that a comment allows ──────────────────────────────────────────────────────────

REASON = f"# playbook: allow {UNSEEN} because its tests say so"


@pytest.mark.parametrize(
    "comment",
    [
        {"above": REASON},
        {"beside": f"  {REASON}"},
        {"above": f"# playbook: allow PB-CHECK-COMMAND, {UNSEEN} because of that"},
    ],
    ids=["above", "beside", "with another code"],
)
def test_a_comment_silences_a_warning_with_its_reason(
    project: Project, comment: dict[str, str]
) -> None:
    written(project)
    assert "`plan` has no postconditions" in problems(project)[0]
    assert project.playbook("check", "quick", "--strict").code == 1
    written(project, **comment)
    left = [each for each in problems(project) if "silences nothing" not in each]
    assert left == []
    if "PB-CHECK-COMMAND" in comment.get("above", ""):
        return
    for form in ("text", "json", "github"):
        done = project.playbook("check", "quick", "--strict", "--format", form)
        assert (done.code, UNSEEN in done.out) == (0, False)


def test_an_allowance_without_its_reason_is_a_finding_and_allows_nothing(project: Project) -> None:
    for comment in (f"{UNSEEN}", f"{UNSEEN} because", "because I say so"):
        found = problems(written(project, above=f"# playbook: allow {comment}"))
        assert "this allowance has no code or no reason" in found
        assert any("has no postconditions" in each for each in found)


@pytest.mark.parametrize("code", ["PB-CHECK-LINT-ORDER", "PB-NO-SUCH"])
def test_an_allowance_that_silences_nothing_is_a_finding(project: Project, code: str) -> None:
    written(project, above=REASON, beside=f" # playbook: allow {code} because of old times")
    found = problems(project)
    assert found == [f"this allowance silences nothing: there is no {code} here"]
    assert "[PB-CHECK-ALLOW]" in project.playbook("check", "quick").out


def test_an_allowance_in_the_wrong_line_says_where_the_warning_is(project: Project) -> None:
    found = problems(written(project, above=f"{REASON}\n\n  # one step"))
    assert f"this allowance silences nothing: there is no {UNSEEN} here, but in line 9" in found


def test_an_error_cannot_be_allowed(project: Project) -> None:
    written(project, beside=" # playbook: allow PB-CHECK-RULE because of haste")
    text = project.read(".playbooks/playbooks/quick.yaml")
    again = text[text.index("  - id") :]
    project.write(".playbooks/playbooks/quick.yaml", text + again)
    done = project.playbook("check", "quick")
    assert (done.code, ": error: " in done.out) == (1, True)


def test_an_unused_rule_of_a_policy_can_be_allowed(project: Project) -> None:
    rule = "# playbook: allow PB-CHECK-POLICY-UNUSED because steps to come need it\n"
    rest = '- match: {step: "nothing-*"}\n  autonomy: gate_always\n'
    file = ".playbooks/policies/team.yaml"
    project.write(file, rule.replace("# playbook", "# nothing") + rest)
    before = project.playbook("check", file, "--strict")
    project.write(file, rule + rest)
    assert (before.code, project.playbook("check", file, "--strict").code) == (1, 0), before.out
