"""Runs whose agents, programs and checks are isolated: what they can do, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.bubblewrap import needs_bubblewrap
from support.scratch_project import FEATURE, Project, remote, without_bubblewrap

from cli.scripts import WORKS

pytestmark = needs_bubblewrap

BOOK = """\
name: kept
description: Work, prove and commit
version: "1.2"
args: []
steps:
  - id: change
    command: prompt
    with: {text: Change it.}
    tools: [Write]
    postconditions: [{command_succeeds: test}]
  - id: say
    command: cli sh -c "cat .git/config"
  - id: commit
    command: commit
    with: {message: Done, paths: ["src/**"]}
"""
SETTINGS = """\
isolation: MODE
allow: {cli: [sh, git]}
checks:
  test: {run: [sh, test.sh], room: clean}
"""
DOES = "mkdir -p src; echo new >src/a.txt"


@pytest.fixture
def kept(project: Project) -> Project:
    remote(project)
    project.write(".playbooks/playbooks/kept.yaml", BOOK)
    project.write("test.sh", "pwd >&2; git cat-file -p HEAD^ >&2 && test -f src/a.txt\n")
    return project


def run(
    project: Project, shell: str = "", *options: str, mode: str = "required"
) -> tuple[int, str]:
    """Run the playbook with an agent that is a shell script; the exit code, and what was said."""
    project.write(".playbooks/config.yaml", SETTINGS.replace("MODE", mode))
    agent = project.write("agent.sh", f"#!/bin/sh\ncat >/dev/null\n{DOES}\n{shell}\n")
    agent.chmod(0o755)
    project.commit("Prepare")
    asked = ("--agent", "exec:./agent.sh", "--mode", "autonomous", *options)
    done = project.playbook("run", "kept", *asked)
    return done.code, done.out + done.err


def test_what_is_protected_can_be_read_and_not_written(kept: Project) -> None:
    """The work of the step is done, and the rest stays as it was."""
    protected = [".git/config", ".git/hooks", ".git/info", ".git/playbook", ".playbooks"]
    before = {path: files_below(kept.root / path) for path in protected[:3]}
    tries = "\n".join(
        f"mv {path} {path}.old; echo x >>{path}; echo x >{path}/x" for path in protected
    )
    code, said = run(kept, f"{tries}\nmv .git old; ls .playbooks/playbooks")
    assert code == 0, said
    assert {path: files_below(kept.root / path) for path in before} == before
    assert not list(kept.root.glob("**/*.old"))
    assert not (kept.root / ".playbooks" / "x").exists()


def files_below(path: Path) -> dict[str, bytes]:
    found = path.rglob("*") if path.is_dir() else [path]
    return {str(each): each.read_bytes() for each in found if each.is_file()}


def test_a_check_runs_isolated_at_the_place_of_the_checkout_and_the_journal_says_so(
    kept: Project,
) -> None:
    code, _ = run(kept)
    assert code == 0, kept.playbook("logs", "change#1").out
    assert [entry.get("isolation") for entry in kept.journal()] == ["bwrap"] * 3
    assert kept.manifest()["isolation"] == "bwrap"
    assert kept.playbook("show").out.count("isolated by bwrap") == 3
    log = kept.playbook("logs", "change#1").out
    assert str(kept.root) in log.splitlines()
    assert f"tree {kept.git('rev-parse', 'HEAD~2^{tree}').strip()}" in log.splitlines()


def test_what_cannot_be_protected_beforehand_is_moved_away_and_fails_the_step(
    kept: Project,
) -> None:
    """Git would read settings from another folder where a file `commondir` names one; so it is
    moved away while the agent is still at work."""
    code, said = run(kept, "echo ../elsewhere >.git/commondir; sleep 100")
    assert code == 4, said
    assert kept.journal()[0]["error_code"] == "PB-POLICY-ISOLATION"
    assert not (kept.root / ".git" / "commondir").exists()
    assert (kept.root / ".git" / "commondir.refused").read_text() == "../elsewhere\n"
    kept.git("status")


def test_no_program_of_an_agent_stands_for_one_that_we_start(kept: Project) -> None:
    """Where the environment of the project is active, its folder of programs is on PATH."""
    (kept.root / ".venv/bin").mkdir(parents=True)
    (kept.root / ".gitignore").write_text(".venv/\n")
    kept.env["PATH"] = f".venv/bin:{kept.environment['PATH']}"
    forged = "printf '#!/bin/sh\\n' >.venv/bin/git; cp .venv/bin/git .venv/bin/bwrap"
    code, said = run(kept, f"{forged}; mv .venv/bin old; mv .venv old; echo x >.venv/lib")
    assert code == 0, said
    assert not list((kept.root / ".venv/bin").iterdir())
    assert (kept.root / ".venv/lib").exists()


def test_a_failure_names_the_setting_that_would_allow_it(kept: Project) -> None:
    kept.home.joinpath(".profile").write_text("")
    code, said = run(kept, "echo x >~/.profile || exit 1")
    assert code == 4
    line = "add `isolation: {write: [~/.profile]}` to .playbooks/config.yaml."
    assert f"to fix it: To allow it, {line}" in said


def test_required_refuses_to_begin_where_nothing_isolates(kept: Project, tmp_path: Path) -> None:
    without_bubblewrap(kept, tmp_path)
    code, said = run(kept, "", "--isolation", "required", mode="auto")
    assert code == 3
    assert "isolation is required, but bubblewrap (bwrap) is not installed" in said
    assert "apt install bubblewrap" in said
    assert not kept.sessions


def test_auto_says_that_nothing_isolates_and_goes_on(kept: Project, tmp_path: Path) -> None:
    without_bubblewrap(kept, tmp_path)
    code, said = run(kept, mode="auto")
    assert code == 0, said
    assert "note: agents run without isolation: bubblewrap (bwrap) is not installed" in said
    assert {entry["isolation"] for entry in kept.journal()} == {"none"}
    assert "not isolated" in kept.playbook("show").out


def test_a_feature_goes_from_its_spec_to_a_pull_request(project: Project) -> None:
    """auto-feature, as it ships."""
    project.gh("open")
    project.write(".playbooks/config.yaml", "isolation: required\n")
    agent = project.script(WORKS)
    done = project.playbook("run", "auto-feature", FEATURE, "--agent", agent)
    while done.code == 4:
        assert project.playbook("answer", "continue").code == 0
        done = project.playbook("resume")
    assert done.code == 0, done.err
    assert {entry["isolation"] for entry in project.journal()} == {"bwrap"}


def test_an_option_cannot_ask_for_less_than_the_settings_require(kept: Project) -> None:
    code, said = run(kept, "", "--isolation", "none")
    assert code == 1
    assert "--isolation none: the settings require isolation" in said


def test_a_resumed_session_keeps_the_isolation_of_its_run(kept: Project) -> None:
    code, _ = run(kept, "test -f go", "--isolation", "auto", mode="none")
    assert code == 4
    assert kept.manifest()["driver"]["isolation"] == "auto"
    kept.write("go", "")
    assert kept.playbook("answer", "retry").code == 0
    assert kept.playbook("resume").code == 0
    assert {entry["isolation"] for entry in kept.journal()} == {"bwrap"}
