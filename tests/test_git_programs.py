"""Each command where a repository names programs: what runs is what docs/git.md says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from support.scratch_project import FEATURE, Project

from playbook_supervisor.cli.app import program

GUIDE = Path(__file__).parent.parent / "docs/git.md"
OF_A_COMMIT = {"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"}
HOOKS = (*OF_A_COMMIT, "post-index-change", "post-checkout", "pre-push", "reference-transaction")
ALLOWED = {
    "nothing": set[str](),
    "a commit's hooks": {*OF_A_COMMIT, "reference-transaction"},
    "signing": {"gpg"},
    "filters": {"filter"},
    "ssh and helpers for passwords": {"ssh", "credential"},
    "`reference-transaction`": {"reference-transaction"},
    "all that your own `git worktree add` runs": set(HOOKS) | {"filter", "fsmonitor"},
}
PLAYBOOK = {
    "name": "p",
    "description": "d",
    "version": "1.1",
    "args": [],
    "defaults": {"autonomy": "auto", "error_policy": "stop"},
    "steps": [
        {
            "id": "first",
            "command": "cli tee new.dat",
            "with": {"stdin": "x"},
            "postconditions": [{"changes_within": ["**"]}],
        },
        {"id": "second", "command": "cli true", "autonomy": "gate_always"},
    ],
}


def commands() -> Iterator[str]:
    """The names of all commands, `fleet doctor` among them."""

    def below(command: click.Command, names: tuple[str, ...]) -> Iterator[str]:
        if not isinstance(command, click.Group):
            yield " ".join(names)
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from below(inner, (*names, name))

    return below(program, ())


def documented() -> dict[str, set[str]]:
    """Command → what it may run, by the table of the guide."""
    rows = re.findall(r"(?m)^\| (`.*`) \| (.*) \|$", GUIDE.read_text("utf-8"))
    return {
        name: set().union(*(ALLOWED[each] for each in runs.split(", ")))
        for names, runs in rows
        for name in re.findall(r"`([^`]+)`", names)
    }


class Hostile:
    """A project whose own settings name programs, each of which logs its kind."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._folder = project.root.parent / "hostile"
        self._log = self._folder / "log"
        self._folder.mkdir()
        project.write(".playbooks/playbooks/p.yaml", yaml.safe_dump(PLAYBOOK))
        project.write(".playbooks/config.yaml", "checks: {test: {run: ['true']}}\n")
        project.write("old.dat", "old\n")
        project.write("later.dat", "old\n")
        project.write(".gitattributes", "*.dat filter=z diff=z merge=z\n")
        project.commit("Begin")
        for name in HOOKS:
            hook = project.write(f".git/hooks/{name}", f"#!/bin/sh\necho {name} >>{self._log}\n")
            hook.chmod(0o755)
        signs = (
            "cat >/dev/null; echo -----BEGIN PGP SIGNATURE-----; "
            r"printf '\n[GNUPG:] SIG_CREATED x\n' >&2"
        )
        for key, kind, does in (
            ("core.fsmonitor", "fsmonitor", "exit 1"),
            ("core.pager", "pager", "cat"),
            ("core.editor", "editor", ":"),
            ("core.sshCommand", "ssh", "exit 1"),
            ("core.askPass", "askpass", ":"),
            ("credential.helper", "credential", ":"),
            ("diff.external", "extdiff", ":"),
            ("diff.z.command", "extdiff", ":"),
            ("diff.z.textconv", "textconv", 'cat "$1"'),
            ("filter.z.clean", "filter", "cat"),
            ("filter.z.smudge", "filter", "cat"),
            ("gpg.program", "gpg", signs),
            ("merge.z.driver", "merge", "exit 0"),
        ):
            file = self._folder / key
            file.write_text(f"#!/bin/sh\necho {kind} >>{self._log}\n{does}\n")
            file.chmod(0o755)
            project.git("config", key, str(file))
        for command in ("status", "log", "diff", "commit", "add", "branch"):
            project.git("config", f"alias.{command}", f"!echo alias >>{self._log}")
        project.git("config", "commit.gpgSign", "true")
        project.git("config", "log.showSignature", "true")
        project.git("remote", "add", "origin", "ssh://git@forge.invalid/x")
        project.write("old.dat", "changed\n")
        self.ran()

    def ran(self) -> set[str]:
        """What has run since the last time that this was asked."""
        kinds = set(self._log.read_text().split()) if self._log.exists() else set[str]()
        self._log.unlink(missing_ok=True)
        return kinds


@pytest.fixture
def hostile(project: Project) -> Hostile:
    project.gh("none")
    return Hostile(project)


CALLS: dict[str, tuple[str, ...]] = {
    "run": ("p",),
    "status": (),
    "show": (),
    "list": (),
    "logs": (),
    "audit": (),
    "metrics": (),
    "graph": ("p",),
    "check": (),
    "claude": ("--version",),
    "probe": ("git_clean",),
    "prove": (),
    "doctor": (),
    "schema": (),
    "completion": ("bash",),
    "help": ("--all",),
    "index": (),
    "import": ("README.md",),
    "next": (),
    "report": ("second#1",),
    "hook": (),
    "rpc": (),
    "repair": (),
    "pause": (),
    "answer": ("continue",),
    "resume": (),
    "abort": (),
    "begin": ("p",),
    "start": ("p", "--branch", "014-x"),
    "finish": (),
    "demo": (),
    "init": (),
    "update": (),
    "inbox list": (),
    "inbox add": (".",),
    "inbox remove": (".",),
    "inbox invite": ("somebody",),
    "inbox revoke": ("somebody",),
    "fleet doctor": (),
    "fleet limits": (),
    "fleet migrate": (),
    "fleet prune": (),
    "fleet rebuild": (),
    "fleet retry": (),
    "fleet status": (),
    "fleet submit": ("p",),
    "fleet worker": ("--drain",),
    "fleet up": (),
}
"""The arguments of each command, in an order in which a session waits for most of them."""
ASKS: dict[str, dict[str, object]] = {
    "hook": {"hook_event_name": "UserPromptSubmit", "prompt": "hello"},
    "rpc": {"id": 1, "action": "status"},
}


@pytest.mark.long
def test_every_command_runs_what_the_guide_says(hostile: Hostile) -> None:
    """A new command fails this until the guide lists it."""
    allowed, project = documented(), hostile.project
    assert sorted(allowed) == sorted(commands()) == sorted(CALLS)
    seen: dict[str, set[str]] = {}
    for name, arguments in CALLS.items():
        folder = project.root
        if name == "abort":
            project.playbook("run", "p")
        elif name == "start":
            project.playbook("abort")
            project.commit("What start wants to see committed")
        elif name == "finish":
            folder = Path(project.git("worktree", "list").splitlines()[-1].split()[0])
            project.playbook("abort", cwd=folder)
            project.git("-C", str(folder), "status")
        hostile.ran()
        given = json.dumps({**ASKS[name], "cwd": str(folder)}) if name in ASKS else ""
        called = project.process if name == "claude" else project.playbook  # it becomes the client
        called(*name.split(), *arguments, input=given, cwd=folder)
        seen[name] = hostile.ran()
    beyond = {name: kinds - allowed[name] for name, kinds in seen.items() if kinds - allowed[name]}
    assert beyond == {}
    assert {"filter", "post-checkout"} <= seen["start"]
    assert {*OF_A_COMMIT, "gpg"} <= seen["resume"]


@pytest.mark.parametrize(
    "setting",
    [
        "publish",
        "step",
    ],
)
def test_a_dry_run_and_a_run_without_commits_run_nothing(hostile: Hostile, setting: str) -> None:
    project = hostile.project
    project.write(".playbooks/config.yaml", f"commit_sessions: {setting}\n")
    assert project.playbook("run", "p", "--dry-run").code == 0
    assert hostile.ran() == set()
    assert project.playbook("run", "p").code == 4
    assert bool(hostile.ran()) == (setting == "step")


def test_a_filter_of_the_repository_that_applies_to_a_session_keeps_it_out_of_git(
    hostile: Hostile,
) -> None:
    """Neither does it run, nor is the journal committed without it."""
    project = hostile.project
    project.write(".git/info/attributes", "* filter=z\n")
    project.playbook("run", "p")
    project.playbook("answer", "continue")
    done = project.playbook("resume")
    assert "the filter z of the repository's own settings would run [PB-GIT-COMMIT]" in done.err
    assert hostile.ran() == set()
    project.write(".git/info/attributes", "* filter=z\n.playbooks/sessions/** -filter\n")
    assert "the session is committed" in project.playbook("resume").err
    assert {*OF_A_COMMIT, "gpg"} <= hostile.ran()


def test_hooks_run_in_their_own_folder_beside_one_that_does_not(hostile: Hostile) -> None:
    """A hook finds what lies beside it, and the folder that stands in for it is removed."""
    project = hostile.project
    project.write(".git/hooks/words", "hello")
    hook = '#!/bin/sh\ncat "$(dirname "$0")/words" >"$(git rev-parse --git-dir)/said"\n'
    project.write(".git/hooks/commit-msg", hook)
    project.playbook("run", "p")
    project.playbook("answer", "continue")
    assert project.playbook("resume").code == 0
    assert project.read(".git/said") == "hello"
    assert "post-index-change" not in hostile.ran()
    assert not (project.root / ".git/playbook/hooks").exists()


def test_a_commit_step_runs_what_a_persons_commit_runs(hostile: Hostile) -> None:
    """Without the filter, what somebody encrypts would be committed as it is."""
    project = hostile.project
    options = {"message": "Change", "paths": ["*.dat"], "push": False, "pull": False}
    steps = [{"id": "c", "command": "commit", "with": options, "also": "uncommitted"}]
    playbook = {**PLAYBOOK, "version": "1.2", "steps": steps}
    project.write(".playbooks/playbooks/p.yaml", yaml.safe_dump(playbook))
    project.write(".playbooks/config.yaml", "commit_sessions: never\n")
    assert project.playbook("run", "p").code == 0
    assert {"filter", "gpg", "post-index-change", *OF_A_COMMIT} <= hostile.ran()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GIT_LITERAL_PATHSPECS", "1"),
        ("GIT_OBJECT_DIRECTORY", "/nowhere"),
        ("GIT_INDEX_FILE", "/nowhere"),
        ("GIT_CONFIG_PARAMETERS", "'core.bare'='true'"),
    ],
)
def test_a_variable_that_changes_what_git_reads_changes_nothing(
    project: Project, name: str, value: str
) -> None:
    """Neither for what only looks, nor for what commits."""
    project.write(".playbooks/playbooks/p.yaml", yaml.safe_dump(PLAYBOOK))
    project.commit("Begin")
    surrounding = {
        name: value,
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "core.worktree",
        "GIT_CONFIG_VALUE_0": "/nowhere",
        "GIT_CONFIG_KEY_1": "user.name",
        "GIT_CONFIG_VALUE_1": "Somebody Else",
    }
    assert project.playbook("run", "p", env=surrounding).code == 4
    assert project.playbook("answer", "continue", env=surrounding).code == 0
    assert project.playbook("resume", env=surrounding).code == 0
    assert "Record session" in project.git("log", "-1", "--format=%s")
    assert project.git("log", "-1", "--format=%cn") == "Somebody Else"
    assert project.git("symbolic-ref", "--short", "HEAD") == FEATURE
