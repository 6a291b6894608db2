"""The conditions about git and about checks, in a real repository with real programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.git_repositories import git, put, with_a_commit

from playbook_supervisor.errors import CheckError
from playbook_supervisor.kernel.directives import Answer
from playbook_supervisor.project.conditions.conditions import (
    Workspace,
    checks,
    need_tree,
    probe,
    require_answerable,
)
from playbook_supervisor.project.expressions.requirement import requirement
from playbook_supervisor.project.settings.config import Bounds, CheckSpec, Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.git.tree import tree_id

HELD, NOT_HELD, ERROR = Answer.HELD, Answer.NOT_HELD, Answer.ERROR


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return with_a_commit(tmp_path / "project")


@pytest.fixture
def world(root: Path) -> Workspace:
    return Workspace(root, "", "main", Config())


def commit(root: Path, message: str) -> str:
    git(root, "add", "--all")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD")


def said(name: str, world: Workspace, **launch: Any) -> tuple[Answer, str]:
    probed = probe(name, world, **launch)
    assert (probed.name, "\n" in probed.evidence) == (requirement(name).name, False)
    return probed.answer, probed.evidence


# ── changes since the launch ────────────────────────────────────────────────────────────────


def test_changes_are_made_if_a_file_that_matches_differs(world: Workspace) -> None:
    tree = tree_id(world.root)
    nothing = "nothing in src/** has changed since the launch"
    assert said("changes_made=src/**", world, tree=tree) == (NOT_HELD, nothing)
    put(world.root, "docs/x.md")
    assert said("changes_made=src/**", world, tree=tree) == (NOT_HELD, nothing)
    put(world.root, "src/a.py", "1\n2\n")
    put(world.root, "src/b.py", "1\n")
    changed = "2 files, +3 −0: src/a.py, src/b.py"
    assert said("changes_made=src/**", world, tree=tree) == (HELD, changed)
    commit(world.root, "committed changes count, too")
    assert said("changes_made=src/**", world, tree=tree) == (HELD, changed)


def test_changes_outside_the_patterns_are_named(world: Workspace) -> None:
    tree = tree_id(world.root)
    within = "changes_within=src/** 'docs/a b/*'"
    assert said(within, world, tree=tree) == (HELD, "nothing has changed since the launch")
    put(world.root, "src/deep/a.py")
    put(world.root, "docs/a b/x.md")
    assert said(within, world, tree=tree) == (HELD, "2 files, +2 −0")
    (world.root / "a.txt").unlink()
    for number in range(4):
        put(world.root, f"etc/{number}")
    evidence = "5 files changed outside src/** docs/a b/*: a.txt, etc/0, etc/1 and 2 more"
    assert said(within, world, tree=tree) == (NOT_HELD, evidence)


def test_what_git_cannot_take_is_unknown_only_where_it_matters(world: Workspace) -> None:
    tree = tree_id(world.root)
    put(world.root, "src/.GIT/x")
    unknown = "could not be checked: src/.GIT/x cannot be read (git allows no such name)"
    for name in ("changes_made=src/**", "changes_within=docs/**", "git_clean"):
        answer, evidence = said(name, world, tree=tree)
        assert (answer, evidence.startswith(unknown)) == (ERROR, True), (name, evidence)
    assert said("changes_within=src/**", world, tree=tree)[0] is HELD
    assert said("changes_made=docs/**", world, tree=tree)[0] is NOT_HELD
    put(world.root, "src/a.py")
    assert said("changes_made=src/**", world, tree=tree)[0] is HELD


@pytest.mark.parametrize("name", ["changes_made=**", "changes_within=**"])
def test_without_the_tree_of_the_launch_changes_cannot_be_checked(
    world: Workspace, name: str
) -> None:
    unknown = "could not be checked: nothing is known of the tree at the launch"
    assert said(name, world) == (ERROR, unknown)
    answer, evidence = said(name, world, tree="a" * 40)
    assert (answer, "could not be checked: git diff-tree failed" in evidence) == (ERROR, True)


# ── commits ─────────────────────────────────────────────────────────────────────────────────


def test_commits_are_made_if_head_has_moved_forward(world: Workspace) -> None:
    head = git(world.root, "rev-parse", "HEAD")
    assert said("commits_made", world, head=head) == (NOT_HELD, "no commit since the launch")
    put(world.root, "b.txt")
    new = commit(world.root, "Add b")
    evidence = f"1 commit since the launch: {new[:7]} Add b"
    assert said("commits_made", world, head=head) == (HELD, evidence)


def test_a_commit_that_was_replaced_does_not_count(world: Workspace) -> None:
    put(world.root, "b.txt")
    head = commit(world.root, "second")
    git(world.root, "commit", "-q", "--amend", "-m", "instead")
    answer, evidence = said("commits_made", world, head=head)
    assert (answer, evidence.endswith(f"does not follow {head[:7]} of the launch")) == (
        NOT_HELD,
        True,
    )


# ── what is there ───────────────────────────────────────────────────────────────────────────


def test_a_clean_checkout_has_nothing_to_commit(world: Workspace) -> None:
    clean = (HELD, "everything is committed")
    assert said("git_clean", world) == clean
    put(world.root, ".playbooks/sessions/20260219-a7k/journal.yaml")
    assert said("git_clean", world) == clean
    put(world.root, "a.txt", "two\n")
    put(world.root, "new/b.txt")
    assert said("git_clean", world) == (NOT_HELD, "2 files not committed: a.txt, new/b.txt")


def test_branches_and_tags_exist_by_their_whole_name(world: Workspace) -> None:
    head = git(world.root, "rev-parse", "HEAD")[:7]
    git(world.root, "branch", "feature/x")
    git(world.root, "tag", "-a", "v1", "-m", "one")
    assert said("branch_exists=feature/x", world) == (HELD, f"branch feature/x is at {head}")
    assert said("branch_exists=feature", world) == (NOT_HELD, "there is no branch feature")
    assert said("tag_exists=v1", world) == (HELD, f"tag v1 is at {head}")
    assert said("tag_exists=main", world) == (NOT_HELD, "there is no tag main")


def test_a_name_that_git_does_not_allow_cannot_be_checked(world: Workspace) -> None:
    answer, evidence = said("branch_exists=--all", world)
    assert (answer, evidence) == (
        ERROR,
        "could not be checked: '--all' is not a name that git allows",
    )


# ── checks ──────────────────────────────────────────────────────────────────────────────────


def with_check(world: Workspace, code: str, **settings: Any) -> Workspace:
    argv = (sys.executable, "-I", "-S", "-c", code)
    return replace(world, config=Config(checks={"test": CheckSpec("test", argv)}, **settings))


@pytest.mark.parametrize(
    ("status", "succeeds", "fails"),
    [(0, HELD, NOT_HELD), (1, NOT_HELD, HELD), (2, NOT_HELD, HELD), (127, NOT_HELD, ERROR)],
)
def test_the_exit_status_decides(
    world: Workspace, status: int, succeeds: Answer, fails: Answer
) -> None:
    """127 is a shell's word for a program that it cannot start: that is not "fails"."""
    checked = with_check(world, f"print('3 passed'); raise SystemExit({status})")
    tree = tree_id(world.root)[:7]
    answer, evidence = said("command_succeeds=test", checked)
    assert answer is (ERROR if status == 127 else succeeds)
    assert evidence.removeprefix("could not be checked: ").startswith(
        f"check test: exit {status} in "
    )
    assert evidence.endswith(f', "3 passed", tree {tree}')
    assert said("command_fails=test", checked)[0] is fails


@pytest.mark.parametrize("name", ["command_succeeds", "command_fails"])
def test_a_check_that_cannot_run_is_an_error(world: Workspace, name: str) -> None:
    unknown = "could not be checked: the config defines no check 'tset'"
    assert said(f"{name}=tset", world)[0] is ERROR
    assert said(f"{name}=tset", world)[1].startswith(unknown)
    answer, evidence = said(f"{name}='cli ./no-such-program'", world)
    assert (answer, "cannot start" in evidence) == (ERROR, True)
    answer, evidence = said(f"{name}='cli sh -c true'", world)
    assert (answer, "it is a shell" in evidence) == (ERROR, True)
    denied = with_check(world, "pass", deny=Bounds(cli=("python*",)))
    answer, evidence = said(f"{name}=test", denied)
    assert (answer, "deny.cli" in evidence) == (ERROR, True)
    killed = with_check(world, "import os; os.kill(os.getpid(), 9)")
    answer, evidence = said(f"{name}=test", killed)
    assert (answer, "SIGKILL ended it" in evidence) == (ERROR, True)


def test_the_checks_of_conditions_are_known() -> None:
    names = ["plan_exists", "command_succeeds=test", "command_fails=test", "changes_made=a b"]
    assert checks(names) == ("test",)
    assert need_tree(names)
    assert not need_tree(names[:3])


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("command_fails=tset", "PB-CHECK-UNDEFINED"),
        ("file_exists=../x", "PB-CHECK-RULE"),
    ],
)
def test_conditions_that_could_never_be_checked_are_refused(name: str, code: str) -> None:
    config = Config(checks={"test": CheckSpec("test", ("make", "test"))})
    require_answerable(["plan_exists", "command_succeeds=test", "file_exists=a"], config)
    with pytest.raises(CheckError) as caught:
        require_answerable(["plan_exists", name], config)
    assert caught.value.code == code
