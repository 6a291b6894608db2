"""What cannot work is found by `check`, `doctor` and at the beginning, before anything is spent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.hook_calls import Hooked
from support.scratch_project import Project, remote

from playbook_supervisor.errors import PlaybookError

HEAD = 'name: {name}\ndescription: A trial\nversion: "1.1"\nargs: []\n{top}steps:\n'
STEP = "  - {{id: {id}, command: {command}, autonomy: {autonomy}, error_policy: stop{extra}}}\n"
FIRST = STEP.format(id="build", command="/qa.plan", autonomy="auto", extra="")
SETTINGS = ".playbooks/config.yaml"


def written(
    project: Project,
    command: str,
    *,
    settings: str = "",
    autonomy: str = "auto",
    extra: str = "",
    top: str = "",
) -> Project:
    """A playbook whose second step is the one that cannot work."""
    last = STEP.format(id="last", command=command, autonomy=autonomy, extra=extra)
    text = HEAD.format(name="trial", top=top) + FIRST + last
    project.write(".playbooks/playbooks/trial.yaml", text)
    if settings:
        project.write(SETTINGS, settings)
    return project


def refused_everywhere(project: Project, said: str, *, exit_code: int) -> None:
    """By check, doctor, run, its dry run, begin and the client, and nothing begins."""
    agent = project.script("default: {say: done}\n")
    checked = project.playbook("check", "trial")
    assert checked.code == 1
    assert said in checked.out
    assert said in project.playbook("doctor").out
    for command in (
        ("run", "trial", "--agent", agent),
        ("run", "trial", "--dry-run", "--agent", agent),
        ("begin", "trial"),
    ):
        done = project.playbook(*command)
        assert (done.code, said in done.out + done.err) == (exit_code, True), (command, done.err)
    with pytest.raises(PlaybookError, match=re.escape(said)):
        Hooked(project).types("/playbook.run trial")
    assert not project.sessions


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("checks: {test: {run: [make, test]}}\ndeny: {cli: [make]}\n", "`deny.cli` of"),
        ("checks: {test: {run: [sh, -c, make]}}\n", "it is a shell"),
    ],
)
def test_a_check_that_the_settings_refuse(project: Project, settings: str, why: str) -> None:
    extra = ", postconditions: [{command_succeeds: test}]"
    written(project, "/qa.plan", settings=settings, extra=extra)
    refused_everywhere(project, "the check test cannot run: a step may not run", exit_code=3)
    assert why in project.playbook("check", "trial").out


def test_a_check_is_looked_at_wherever_it_stands(project: Project) -> None:
    listed = '[{command_succeeds: "cli make test"}]'
    for place in ("preconditions: {}", "skip_if: {}", "until: {{max: 2, conditions: {}}}"):
        extra = f", {place.format(listed)}"
        written(project, "/qa.plan", settings="allow: {cli: [git]}\n", extra=extra)
        assert "the check cli make test cannot run" in project.playbook("check", "trial").out


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("cli make test", ""),
        ("commit", ', with: {message: "Build", paths: ["**"]}'),
    ],
)
def test_a_program_of_a_step_that_the_settings_refuse(
    project: Project, command: str, extra: str
) -> None:
    written(project, command, settings="allow: {cli: [ruff]}\n", extra=extra)
    refused_everywhere(project, "`allow.cli` of the project's config does not name it", exit_code=3)


def test_an_output_inside_a_word(project: Project) -> None:
    written(project, "'cli echo --data=$build.stdout'")
    checked = project.playbook("check", "trial")
    assert checked.code == 1
    assert "is not replaced in a command: it would be passed on as it is" in checked.out
    assert "`stdin: $build." in checked.out
    assert project.playbook("run", "trial").code == 1


def test_a_word_that_only_looks_like_an_output_is_one(project: Project) -> None:
    written(project, "cli echo $home.json $build.jsonl.txt")
    assert "is not replaced" not in project.playbook("check", "trial").out


LIMITS = "limits: {max_cost_usd: 1.0, max_tokens: 3000}\n"
UNKEPT = "cannot keep the playbook's max_cost_usd, max_tokens"


def test_a_limit_that_the_agent_of_the_settings_cannot_keep(project: Project) -> None:
    written(
        project, "/qa.plan", top=LIMITS, settings="agent: own\nagents: {own: {exec: ['true']}}\n"
    )
    assert f"warning: the agent own does not report its usage, so it {UNKEPT}" in (
        project.playbook("check", "trial").out
    )
    assert UNKEPT in project.playbook("doctor").out
    for options in ((), ("--dry-run",)):
        done = project.playbook("run", "trial", *options)
        assert (done.code, UNKEPT in done.out + done.err) == (1, True)
    assert not project.sessions


def test_a_limit_of_a_child_counts_too(project: Project) -> None:
    written(project, "playbook trial2")
    child = HEAD.format(name="trial2", top=LIMITS) + FIRST
    project.write(".playbooks/playbooks/trial2.yaml", child)
    done = project.playbook("run", "trial", "--agent", project.script("default: {say: done}\n"))
    assert (done.code, UNKEPT in done.err) == (1, True)


# ── what this machine lacks ─────────────────────────────────────────────────────────────────

TITLE = ', with: {title: "Build"}'
NO_REMOTE = "last needs a remote to push to, and the repository has none"
NO_GH = "last needs gh, which is not on PATH here"


def without(project: Project, program: str) -> None:
    """A PATH with links to all programs but this one."""
    folder = project.root.parent / "few"
    folder.mkdir()
    for path in _programs():
        if path.name != program and not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)
    project.env["PATH"] = str(folder)


def _programs() -> Iterable[Path]:
    for name in ("git", "sh", "env", "cat"):
        yield from (
            each for each in (Path("/usr/bin") / name, Path("/bin") / name) if each.exists()
        )


def test_a_pull_request_without_gh_or_a_remote(project: Project) -> None:
    without(project, "gh")
    written(project, "pr", extra=TITLE)
    agent = project.script("default: {say: done}\n")
    noted = project.playbook("check", "--strict", "trial").out
    assert f"warning: {NO_GH}. Install it, or put it on PATH. [PB-CHECK-MACHINE]" in noted
    assert f"warning: {NO_REMOTE}. Add one: `git remote add origin ADDRESS`." in noted
    shown = project.playbook("doctor").out
    assert f"WRONG  playbooks: trial, step last: {NO_GH}" in shown
    for options in ((), ("--dry-run",)):
        done = project.playbook("run", "trial", "--agent", agent, *options)
        assert (done.code, NO_GH in done.out + done.err) == (1, True), done.err
    assert project.playbook("begin", "trial").code == 1
    assert not project.sessions


@pytest.mark.parametrize(
    "declined",
    [
        {"autonomy": "gate_always"},
        {"extra": f"{TITLE}, when: '$build.skipped'"},
    ],
    ids=["a gate", "a condition"],
)
def test_a_step_that_may_be_left_out_is_only_told_of(
    project: Project, declined: dict[str, str]
) -> None:
    project.gh("open")
    written(project, "pr", **{"extra": TITLE} | declined)
    agent = project.script("default: {say: done}\n")
    assert f"note: {NO_REMOTE}" in project.playbook("check", "trial").out
    assert f"could be better  playbooks: trial, step last: {NO_REMOTE}" in (
        project.playbook("doctor").out
    )
    assert NO_REMOTE in project.playbook("run", "trial", "--dry-run", "--agent", agent).out
    assert f"note: {NO_REMOTE}" in project.playbook("run", "trial", "--agent", agent).err


def test_a_commit_that_pushes_needs_a_remote_too(project: Project) -> None:
    written(project, "commit", extra=', with: {message: "Build", paths: ["**"], push: true}')
    assert NO_REMOTE in project.playbook("check", "trial").out
    project.git("remote", "add", "origin", "https://forge.example/one.git")
    assert NO_REMOTE not in project.playbook("check", "trial").out


def test_what_an_earlier_step_may_provide_is_not_refused(project: Project) -> None:
    project.gh("open")
    written(project, "pr", extra=TITLE)
    path = ".playbooks/playbooks/trial.yaml"
    adds = "cli git remote add origin https://forge.example/one.git"
    project.write(path, project.read(path).replace("/qa.plan", f"'{adds}'"))
    assert f"note: {NO_REMOTE}" in project.playbook("check", "trial").out


def test_steps_before_the_first_are_not_looked_at(project: Project) -> None:
    project.gh("open")
    written(project, "/qa.plan")
    path = ".playbooks/playbooks/trial.yaml"
    pull = STEP.format(id="build", command="pr", autonomy="auto", extra=TITLE)
    project.write(path, project.read(path).replace(FIRST, pull))
    agent = project.script("default: {say: done}\n")
    assert project.playbook("run", "trial", "--agent", agent).code == 1
    assert project.playbook("run", "trial", "--agent", agent, "--from", "last").code == 0


# ── what only the remote and the forge can say ───────────────────────────────────────────────


def ready_to_push(project: Project) -> str:
    """A committed project with a remote, and a playbook that ends with a pull request."""
    assert project.playbook("init", "--yes", "--no-hooks").code == 0
    written(project, "pr", extra=f"{TITLE}, approval: required")
    project.commit("trial")
    remote(project)
    return project.script("default: {say: done}\n")


def said(project: Project, *commands: tuple[str, ...]) -> list[str]:
    return [done.out + done.err for done in (project.playbook(*each) for each in commands)]


def begins(agent: str) -> list[tuple[str, ...]]:
    return [("run", "trial", "--agent", agent), ("start", "trial", "--branch", "other")]


def looks(agent: str) -> list[tuple[str, ...]]:
    return [("run", "trial", "--dry-run", "--agent", agent), ("doctor",)]


def test_a_remote_that_refuses_is_told_before_anything_runs(project: Project) -> None:
    project.gh("open")
    agent = ready_to_push(project)
    project.git("remote", "set-url", "origin", "/nowhere/project.git")
    for shown in said(project, *begins(agent)):
        assert "last needs to push to origin, which refuses it: " in shown
        assert "Correct the remote's address or your rights to push." in shown


def test_what_only_looks_runs_no_program_of_the_repository(project: Project) -> None:
    """A push would: an agent can write the settings that name its transport."""
    project.gh("open")
    agent = ready_to_push(project)
    ran = project.root.with_name("ran")
    project.git("config", "remote.origin.receivepack", f"touch {ran};")
    said(project, *looks(agent))
    assert not ran.exists()
    said(project, *begins(agent))
    assert ran.exists()


def test_a_gh_that_is_logged_out_is_told_before_anything_runs(project: Project) -> None:
    project.gh("logged out")
    agent = ready_to_push(project)
    for shown in said(project, *looks(agent), *begins(agent)):
        assert "needs gh to be logged in: " in shown
        assert "Run `gh auth login`." in shown


def test_a_remote_that_takes_the_push_is_not_told_of_and_not_changed(project: Project) -> None:
    project.gh("open")
    agent = ready_to_push(project)
    before = project.git("ls-remote", "origin")
    assert "last needs to push" not in project.playbook("run", "trial", "--agent", agent).err
    assert project.git("ls-remote", "origin") == before


def test_a_playbook_that_pushes_nothing_asks_no_network(project: Project) -> None:
    written(project, "/qa.plan")
    project.git("remote", "add", "origin", "/nowhere/project.git")
    project.gh("logged out")
    agent = project.script("default: {say: done}\n")
    assert "needs" not in project.playbook("run", "trial", "--agent", agent).err


def test_the_program_of_a_check_that_is_not_here(project: Project) -> None:
    settings = "checks: {test: {run: [no-such-runner]}}\n"
    written(project, "/qa.plan", settings=settings, extra=", skip_if: [{command_succeeds: test}]")
    agent = project.script("default: {say: done}\n")
    for options in ((), ("--dry-run",)):
        done = project.playbook("run", "trial", "--agent", agent, *options)
        assert "last needs the check test, whose program no-such-runner is not here" in (
            done.out + done.err
        )


def test_init_says_what_its_playbooks_need(project: Project) -> None:
    without(project, "gh")
    project.write("Makefile", "test:\n\ttrue\n")
    done = project.playbook("init", "--yes", "--check", "git --version")
    assert (
        "auto-change: pr needs gh, which is not on PATH here. Install it, or put it on PATH.\n"
        "auto-change: pr needs a remote to push to, and the repository has none. "
        "Add one: `git remote add origin ADDRESS`.\n"
    ) in done.err
