"""`start`: a session in a worktree of its own, or an error without side effects."""

from __future__ import annotations

import errno
import json
import os
import shlex
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture
from support.scratch_project import FEATURE, Project
from support.stand_in_forge import Forge

from playbook_supervisor.commands.worktrees import start as starting
from playbook_supervisor.commands.worktrees import worktree
from playbook_supervisor.commands.worktrees.start import StartResult
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.records import as_mapping
from playbook_supervisor.sessions.store import creation
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.disk.files import locked
from playbook_supervisor.system.git import checkout

NEW = "014-new-thing"


def start(project: Project, *words: str, base: str = "", branch: str = "") -> StartResult:
    playbook, *args = words or ("auto-feature", "014")
    return starting.start(playbook, args, cwd=project.root, base=base, branch=branch)


@pytest.fixture(autouse=True)
def _forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gh` is here and logged in."""
    Forge(tmp_path / "forge", monkeypatch)


def store(root: Path) -> DiskStore:
    return DiskStore(checkout.find(root))


def made(project: Project) -> list[Any]:
    """Everything that `start` creates, as far as it exists."""
    common = checkout.find(project.root).common_dir
    ids = common / "playbook/ids"
    records = common / "playbook/starting"
    return [
        project.git("worktree", "list"),
        project.git("for-each-ref"),
        sorted(ids.iterdir()) if ids.exists() else [],
        sorted(records.iterdir()) if records.exists() else [],
        project.git("status", "--porcelain"),
        sorted(path.name for path in project.root.parent.iterdir()),
    ]


def refused(project: Project, code: str, *words: str, **more: str) -> PlaybookError:
    """The error of a `start` that creates nothing."""
    before = made(project)
    with pytest.raises(PlaybookError) as caught:
        start(project, *words, **more)
    assert caught.value.code == code, caught.value.message
    assert made(project) == before
    assert "playbook-base-" not in str(vars(caught.value)), "it names a folder that is gone"
    return caught.value


# ── what is made ────────────────────────────────────────────────────────────────────────────


def test_a_session_waits_in_a_worktree_of_its_own(installed: Project) -> None:
    """kai FR33: pending, on the feature's branch; the main checkout is as it was."""
    head = installed.git("rev-parse", "HEAD")
    started = start(installed)
    root = installed.root.with_name(f"project-session-{started.session_id}")
    assert started.root == root
    assert started.typed == f"/playbook.run auto-feature {NEW}"
    assert (started.branch.name, started.branch.new, started.base.name) == (NEW, True, "main")
    there = store(root)
    known = there.manifest(started.session_id)
    assert (known.status, known.feature, known.branch) == ("pending", NEW, NEW)
    assert known.worktree == f"../{root.name}"
    assert there.drives(started.session_id)
    assert (there.checkout.head, there.checkout.ids) == (head, store(installed.root).checkout.ids)
    assert (there.checkout.ids / started.session_id).is_dir()
    assert (installed.git("status", "--porcelain"), installed.sessions) == ("", [])
    assert not list((installed.root / ".git/playbook/starting").iterdir())


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        (["014", "two words"], f"/playbook.run noted {NEW} 'two words'"),
        (["014", "note=it's"], f"""/playbook.run noted {NEW} 'note=it'"'"'s'"""),
        (["014", "area=feature=b"], f"/playbook.run noted {NEW} area=feature=b"),
    ],
)
def test_the_printed_command_adopts_exactly_that_session(
    installed: Project, given: list[str], typed: str
) -> None:
    """The arguments are quoted, and named where their place would not tell."""
    installed.write(
        ".playbooks/playbooks/noted.yaml",
        'name: noted\ndescription: d\nversion: "1.0"\nargs:\n'
        "  - {name: feature, description: d, required: true}\n"
        "  - {name: area, description: d, required: false}\n"
        "  - {name: note, description: d, required: false}\n"
        "steps: [{id: qa, command: /qa.run, autonomy: auto, error_policy: stop}]\n",
    )
    installed.commit("Note things")
    started = start(installed, "noted", *given)
    assert started.typed == typed
    there = store(started.root)
    _, reference, *args = shlex.split(started.typed)
    assert creation.begin(there, creation.prepare(there, reference, args)) == started.session_id


def test_a_path_to_a_playbook_is_relative_to_the_current_folder(
    installed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = installed.read(".playbooks/playbooks/auto-validate.yaml")
    installed.write("own/x.yaml", text)
    installed.commit("Keep one elsewhere")
    monkeypatch.chdir(installed.root / "specs")
    assert start(installed, "../own/x.yaml", "014").typed == f"/playbook.run own/x.yaml {NEW}"
    absolute = start(installed, str(installed.root / "own/x.yaml"), "014")
    assert absolute.typed == f"/playbook.run own/x.yaml {NEW}"
    refused(installed, "PB-ARG-PLAYBOOK", "own/y.yaml", "014")


def test_a_playbook_without_a_feature_uses_the_branch(installed: Project) -> None:
    text = installed.read(".playbooks/playbooks/auto-validate.yaml")
    before, _, after = text.partition("args:")
    installed.write(
        ".playbooks/playbooks/plain.yaml",
        before.replace("auto-validate", "plain")
        + "args: []\nsteps:"
        + after.partition("steps:")[2].replace("{{feature}}", ""),
    )
    installed.commit("One without args")
    started = start(installed, "plain")
    assert started.branch.name == f"main-{started.session_id}"
    assert store(started.root).manifest(started.session_id).feature == "main"
    there = store(started.root)
    wanted = creation.prepare(there, "plain", [])
    assert creation.begin(there, wanted) == started.session_id
    installed.git("switch", "-q", "--detach")
    detached = start(installed, "plain")
    assert detached.branch.name == f"session-{detached.session_id}"
    named = start(installed, "plain", branch="review/014")
    assert store(named.root).manifest(named.session_id).feature == "review/014"


def test_the_project_s_own_spec_kit_finds_the_feature_there(installed: Project) -> None:
    """Its pointer is ignored by git, so that a fresh worktree has none."""
    installed.write(".gitignore", ".specify/feature.json\n")
    installed.write(".specify/scripts/bash/common.sh", "read feature.json\n")
    installed.commit("spec-kit")
    installed.write(".specify/feature.json", '{"feature_directory": "specs/013-other"}')
    started = start(installed)
    pointer = json.loads((started.root / ".specify/feature.json").read_text())
    assert pointer == {"feature_directory": f"specs/{NEW}"}
    assert "013-other" in installed.read(".specify/feature.json")


def test_submodules_are_mentioned(installed: Project) -> None:
    installed.write(".gitmodules", "")
    installed.commit("Submodules")
    assert "submodules are not checked out" in start(installed).notices[-1]


# ── which branch ────────────────────────────────────────────────────────────────────────────


def test_the_feature_s_own_branch_is_used_with_its_commits(installed: Project) -> None:
    """spec-kit makes it and specifies there: main knows nothing of it yet."""
    installed.git("switch", "-q", "-c", "015-later")
    installed.write("specs/015-later/spec.md", "# Later\n")
    installed.commit("Specify")
    tip = installed.git("rev-parse", "HEAD")
    installed.git("switch", "-q", "main")
    started = start(installed, "auto-feature", "015")
    assert (started.branch.name, started.branch.new) == ("015-later", False)
    assert checkout.find(started.root).head == tip


@pytest.mark.parametrize("branch", [NEW, f"{NEW}/more"])
def test_another_branch_name_is_used_if_the_feature_s_own_is_taken(
    installed: Project, branch: str
) -> None:
    """Checked out, or in the way: git cannot keep a branch beside one that is its folder."""
    installed.git("switch", "-q", "-c", branch)
    started = start(installed, "auto-feature", NEW)
    assert (started.branch.name, started.branch.new) == (f"{NEW}-{started.session_id}", True)


def test_a_feature_that_is_not_a_valid_branch_name_gets_one(installed: Project) -> None:
    installed.write("specs/016.lock/spec.md", "# Odd\n")
    installed.commit("Specify")
    started = start(installed, "auto-feature", "016.lock")
    assert started.branch.name == f"016.lock-{started.session_id}"


def test_a_second_start_does_not_make_the_number_ambiguous(installed: Project) -> None:
    """Branches that end with a session's id are of the feature before it."""
    installed.git("rm", "-rq", "specs")
    installed.commit("Specified elsewhere")
    installed.git("branch", NEW)
    installed.git("branch", f"{NEW}-20260219-a7k")
    assert start(installed, "auto-validate", "014").branch.name == NEW


def test_a_named_branch_is_used_or_created(installed: Project) -> None:
    installed.git("branch", "there")
    assert start(installed, branch="there").branch.new is False
    assert start(installed, branch="fresh").branch.new is True
    taken = refused(installed, "PB-GIT-TAKEN", branch="main")
    assert str(installed.root) in taken.message
    for name in ("-x", "a..b", "HEAD", "@{-1}", "x\x1b[31m", "there/more"):
        refused(installed, "PB-ARG-BRANCH", branch=name)


def test_a_new_branch_starts_from_the_base(installed: Project, tmp_path: Path) -> None:
    old = installed.git("rev-parse", "HEAD")
    installed.write("later.txt", "x\n")
    installed.commit("Later")
    started = start(installed, base=old[:10])
    assert checkout.find(started.root).head == old
    assert started.base.name == f"{old[:10]} ({old[:7]})"
    installed.git("clone", "-q", "--bare", ".", str(tmp_path / "origin.git"))
    installed.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    installed.git("fetch", "-q", "origin")
    tracking = start(installed, base="origin/main", branch="tracking")
    assert tracking.base.name == "origin/main"
    assert installed.git("config", "branch.tracking.merge") == "refs/heads/main"
    for base in ("nowhere", "-x", "HEAD\n"):
        refused(installed, "PB-ARG-BASE", base=base)


def test_before_the_first_commit_there_is_nothing_to_start_from(tmp_path: Path) -> None:
    empty = Project(tmp_path / "empty", tmp_path)
    empty.root.mkdir()
    empty.git("init", "-q")
    with pytest.raises(PlaybookError, match="no commit yet"):
        start(empty)


def test_it_works_from_a_linked_worktree_and_beside_a_bare_repository(
    installed: Project, tmp_path: Path
) -> None:
    (tmp_path / "x").mkdir()
    installed.git("clone", "-q", "--bare", ".", str(tmp_path / "x/kai.git"))
    linked = Project(start(installed).root, installed.home)
    second = start(linked, "auto-validate", "014")
    assert second.root.parent == installed.root.parent
    assert store(second.root).manifest(second.session_id).worktree == f"../{second.root.name}"
    bare = Project(tmp_path / "x/main", installed.home)
    installed.git("-C", str(tmp_path / "x/kai.git"), "worktree", "add", "-q", "../main", "main")
    third = start(bare)
    assert third.root == tmp_path / f"x/kai-session-{third.session_id}"


# ── what is refused ─────────────────────────────────────────────────────────────────────────


def test_uncommitted_changes_are_refused_except_in_sessions(installed: Project) -> None:
    """kai FR34: a new worktree would not have the changes."""
    installed.write(".playbooks/sessions/20260219-a7k/notes.md", "x\n")
    installed.write("README.md", "changed\n")
    installed.write("new.txt", "new\n")
    installed.git("add", "new.txt")
    error = refused(installed, "PB-GIT-DIRTY")
    assert error.message == "2 changes not committed: M README.md, A  new.txt"
    assert error.details == (" M README.md", "A  new.txt")
    for number in range(9):
        installed.write(f"{number}.txt", "x\n")
    assert refused(installed, "PB-GIT-DIRTY").message.endswith(" and 6 more")
    installed.git("stash", "-qu", "--", ".", ":(exclude).playbooks/sessions")
    assert start(installed)


def test_what_the_commit_lacks_is_named(installed: Project) -> None:
    """A worktree has only what is committed: everything is looked up in the base commit."""

    def uncommitted(path: str) -> str:
        installed.git("rm", "-rq", "--cached", "--", path)
        installed.write(".gitignore", f"{path}\n")
        installed.git("add", ".gitignore")
        installed.git("commit", "-qm", f"Without {path}")
        error = refused(installed, "PB-GIT-BASE")
        assert "--base BRANCH" in error.guidance
        installed.git("reset", "-q", "HEAD~1")
        (installed.root / ".gitignore").unlink()
        return error.message

    assert uncommitted(f"specs/{NEW}") == f"specs/{NEW}/spec.md is not committed on main"
    playbook = ".playbooks/playbooks/auto-feature.yaml"
    assert uncommitted(playbook) == "the playbook auto-feature is not committed on main"
    assert uncommitted(".playbooks") == "the playbook auto-feature is not committed on main"
    run = ".claude/commands/playbook.run.md"
    assert uncommitted(run) == f"{run} is not committed on main"
    assert uncommitted(".claude/settings.json").startswith(".claude/settings.json is not")
    several = uncommitted(".claude/commands/playbook.*")
    assert several.endswith(" and 6 more are not committed on main")
    installed.git("rm", "-q", ".claude/commands/speckit.plan.md")
    installed.commit("Without a command")
    error = refused(installed, "PB-CHECK-COMMAND")
    assert (error.where, "/speckit.plan" in error.message) == (".claude on main", True)


def test_what_the_feature_s_own_branch_lacks_is_named_with_that_branch(installed: Project) -> None:
    error = refused(installed, "PB-GIT-BASE", "auto-feature", "013")
    assert error.message.endswith(f" are not committed on {FEATURE}")
    assert error.guidance.startswith(f"Commit it on {FEATURE}, or take another branch")
    assert start(installed, "auto-feature", "013", branch="013-again")


def test_an_insufficient_artifact_is_reported_with_its_evidence(installed: Project) -> None:
    installed.write(f"specs/{NEW}/spec.md", "\n")
    installed.commit("Empty it")
    assert refused(installed, "PB-GIT-BASE").message == f"specs/{NEW}/spec.md is empty (on main)"
    (installed.root / f"specs/{NEW}/spec.md").unlink()
    (installed.root / f"specs/{NEW}/spec.md").symlink_to("/etc/passwd")
    installed.commit("Lead out of the repository")
    assert "leads out of the repository" in refused(installed, "PB-GIT-BASE").message
    (installed.root / f"specs/{NEW}/spec.md").unlink()
    installed.write(f"specs/{NEW}/spec.md", "x" * 5_000_000)
    installed.commit("Written by a hook")
    assert "spec.md is larger than" in refused(installed, "PB-GIT-BASE").message


def test_the_preconditions_of_a_whole_first_group_are_checked(installed: Project) -> None:
    step = "  - id: {0}\n    command: /qa.run\n    autonomy: {1}\n    error_policy: stop\n"
    group = step + "    parallel_group: g\n    preconditions: [{2}, pr_created]\n"
    installed.write(
        ".playbooks/playbooks/group.yaml",
        'name: group\ndescription: d\nversion: "1.0"\n'
        "args: [{name: feature, description: d, required: true}]\nsteps:\n"
        + step.format("skipped", "skip")
        + group.format("one", "auto", "plan_exists")
        + group.format("two", "auto", "tasks_exists"),
    )
    installed.commit("A group")
    message = refused(installed, "PB-GIT-BASE", "group", "014").message
    assert message == "; ".join(
        f"specs/{NEW}/{name}.md is not committed on main" for name in ("plan", "tasks")
    )


def test_a_project_without_our_commands_is_referred_to_init(project: Project) -> None:
    error = refused(project, "PB-GIT-BASE", "auto-validate", "013", branch="beside")
    assert "playbook.run.md" in error.message
    assert error.guidance.startswith("Run `playbook init`")


def test_a_project_with_an_agent_of_its_own_needs_none_of_them(project: Project) -> None:
    project.write(".playbooks/config.yaml", "agent: own\nagents: {own: {exec: [own]}}\n")
    project.git("rm", "-rq", ".claude")
    project.commit("Headless")
    started = start(project, "auto-validate", "013")
    assert "not installed as slash commands here: /qa.plan, /qa.run" in started.notices


def test_outdated_hooks_are_reported(installed: Project) -> None:
    """As an older version left them: nothing waits to be committed."""
    settings = installed.read(".claude/settings.json")
    installed.write(".claude/settings.json", settings.replace('"Stop"', '"Stopp"'))
    installed.commit("Alter a hook")
    error = refused(installed, "PB-GIT-BASE")
    assert error.message == "hooks in .claude/settings.json are missing or changed on main"
    assert error.guidance.startswith("Run `playbook init`")
    assert installed.playbook("init", "--yes").code == 0
    installed.commit("Mend it")
    assert start(installed)


def test_an_installation_without_hooks_needs_none(installed: Project) -> None:
    installed.git("rm", "-q", ".claude/settings.json")
    record = installed.read(".playbooks/install.yaml")
    installed.write(".playbooks/install.yaml", f"no_hooks: true\n{record}")
    installed.commit("Without hooks")
    assert start(installed)


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        (".trees/{session}", "PB-CHECK-CONFIG"),
        (".git/{session}", "PB-CHECK-CONFIG"),
        ("../{repo}-{session}", "PB-GIT-TAKEN"),
    ],
)
def test_an_unsuitable_path_is_refused(
    installed: Project, pattern: str, code: str, mocker: MockerFixture
) -> None:
    """kai RK-2."""
    installed.write(".playbooks/config.yaml", f"worktrees: {pattern!r}\n")
    installed.commit("Settings")
    mocker.patch.object(DiskStore, "reserve", return_value="20260219-a7k")
    installed.root.with_name("project-20260219-a7k").mkdir()
    refused(installed, code)


@pytest.mark.parametrize(
    ("place", "why", "found"),
    [
        ("../dangling/deeper/{session}", "dangling is not a folder", True),
        (f"../{'long' * 80}-{{session}}", "File name too long", True),
        ("../plain/{session}", "plain is not a folder", False),
    ],
)
def test_where_no_folder_can_be_created_nothing_is_left(
    installed: Project, mocker: MockerFixture, place: str, why: str, found: bool
) -> None:
    """And the next start, with a better setting, succeeds (kai RK-2)."""
    installed.root.with_name("plain").touch()
    installed.root.with_name("dangling").symlink_to("nowhere")
    installed.write(".playbooks/config.yaml", f"worktrees: {place!r}\n")
    installed.commit("Settings")
    if found:
        assert refused(installed, "PB-CHECK-CONFIG").message.endswith(why)
    else:
        mocker.patch.object(worktree, "_flaw_of_place", return_value="")
        refused(installed, "PB-GIT-FAILED")
    installed.git("revert", "--no-edit", "HEAD")
    assert start(installed).notices == ()


def test_the_place_is_the_settings_to_choose(installed: Project) -> None:
    installed.write(".playbooks/config.yaml", "worktrees: ../trees/{repo}/{session}\n")
    installed.commit("Settings")
    started = start(installed)
    assert started.root == installed.root.parent / "trees/project" / started.session_id


def test_a_session_that_is_open_on_that_branch_is_not_overlooked(installed: Project) -> None:
    """Its worktree is gone, and its journal is on the branch: it continues where it is."""
    first = start(installed)
    there = Project(first.root, installed.home)
    there.commit("The journal")
    installed.git("worktree", "remove", "--force", str(first.root))
    error = refused(installed, "PB-STATE-OPEN")
    assert first.session_id in error.message


# ── what fails later leaves nothing ─────────────────────────────────────────────────────────


def hook(project: Project, text: str) -> None:
    file = project.write(".git/hooks/post-checkout", f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


@pytest.mark.parametrize("branch", ["", "there"])
def test_a_hook_of_git_that_refuses_takes_it_all_back(installed: Project, branch: str) -> None:
    """A branch that was there before stays."""
    installed.git("branch", "there")
    hook(installed, "echo not here >&2; touch untracked; exit 1")
    error = refused(installed, "PB-GIT-FAILED", branch=branch)
    assert error.message == "git worktree failed: not here"


def test_a_hook_that_is_content_has_been_called_as_for_any_worktree(installed: Project) -> None:
    hook(installed, 'echo "$1" >hooked.txt')
    assert set((start(installed).root / "hooked.txt").read_text().strip()) == {"0"}


def test_a_sparse_checkout_without_the_playbooks_is_reported(installed: Project) -> None:
    """A new worktree is as sparse as this one."""
    installed.git("sparse-checkout", "set", "specs", ".claude")
    error = refused(installed, "PB-GIT-FAILED")
    assert "has no .playbooks/" in error.message
    assert "git sparse-checkout add" in error.guidance
    installed.git("sparse-checkout", "add", ".playbooks")
    assert not (start(installed).root / ".agreements").exists()


def test_what_a_surrounding_git_has_set_leads_nothing_astray(
    installed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a hook or an alias: git would write the new worktree's index over this one's."""
    installed.git("switch", "-q", "-c", "015-later")
    installed.write("specs/015-later/spec.md", "# Later\n")
    installed.commit("Specify")
    installed.git("switch", "-q", "main")
    for name, value in (("GIT_DIR", ""), ("GIT_INDEX_FILE", "/index"), ("GIT_WORK_TREE", "/..")):
        monkeypatch.setenv(name, f"{installed.root}/.git{value}")
    started = start(installed, "auto-feature", "015")
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name)
    assert installed.git("status", "--porcelain") == ""
    assert worktree.changes(started.root) == ()


def test_a_full_disk_at_any_write_takes_it_all_back(
    installed: Project, mocker: MockerFixture
) -> None:
    real = os.write
    writes = 0

    def full_after(number: int) -> Callable[[int, bytes], int]:
        def write(descriptor: int, data: bytes) -> int:
            nonlocal writes
            writes += 1
            if writes > number:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(descriptor, data)

        return write

    mocker.patch("playbook_supervisor.commands.worktrees.start.write_atomically", _plain_write)
    before, number = made(installed), 0
    while True:
        writes = 0
        mocker.patch("os.write", full_after(number))
        try:
            started = start(installed)
        except PlaybookError as error:
            assert (error.code, made(installed)) == ("PB-IO-WRITE", before)  # noqa: PT017
            number += 3
        else:
            break
    assert number > 5
    assert started.root.is_dir()


def _plain_write(file: Path, content: bytes, *, durable: bool) -> None:
    file.write_bytes(content)


def test_an_interruption_takes_it_all_back(installed: Project, mocker: MockerFixture) -> None:
    before = made(installed)
    mocker.patch.object(creation, "begin", side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        start(installed)
    assert made(installed) == before


def test_while_another_is_at_the_worktrees_nothing_is_made(
    installed: Project, mocker: MockerFixture
) -> None:
    """Two gits that add worktrees at once may meet in each other's files."""
    mocker.patch("playbook_supervisor.commands.worktrees.worktree._TIMEOUT", 0.1)
    with worktree.locked_worktrees(checkout.find(installed.root)):
        refused(installed, "PB-STATE-BUSY")
    assert start(installed)


def test_a_branch_that_another_process_created_is_kept(
    installed: Project, mocker: MockerFixture
) -> None:
    def too_late(here: object, pattern: str, session_id: str) -> Path:
        installed.git("branch", NEW)
        return installed.root.with_name(f"late-{session_id}")

    mocker.patch.object(worktree, "path", too_late)
    with pytest.raises(PlaybookError, match="git branch failed"):
        start(installed)
    assert NEW in worktree.heads(installed.root)
    assert not list(installed.root.parent.glob("late-*"))


def test_it_can_be_started_from_a_thread(installed: Project) -> None:
    """Signals are the main thread's; everything else is the same."""
    found: list[object] = []
    hook(installed, "[ -e ../refuse ] && exit 1; exit 0")

    def run() -> None:
        found.append(start(installed).branch.name)
        (installed.root.parent / "refuse").touch()
        try:
            start(installed)
        except PlaybookError as error:
            found.append(error.code)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [NEW, "PB-GIT-FAILED"]


# ── what a killed start left ────────────────────────────────────────────────────────────────


class Leftover:
    """What a start that was killed has made so far: a record, a branch, a worktree, a session."""

    def __init__(self, project: Project, *, branch: bool = True, tree: bool = True) -> None:
        self.project = project
        here = checkout.find(project.root)
        self.root = project.root.with_name("left")
        self.records = here.common_dir / "playbook/starting"
        self.records.mkdir(parents=True)
        (here.ids / "20260219-a7k").mkdir(parents=True)
        plan = worktree.WorktreePlan(
            "20260219-a7k", str(self.root), "left", True, here.head, here.head
        )
        self.record = self.records / "20260219-a7k.json"
        self.record.write_text(json.dumps(as_mapping(plan)))
        if branch:
            project.git("branch", "left")
        if tree:
            project.git("worktree", "add", "-q", str(self.root), "left")

    def said(self) -> str:
        here = checkout.find(self.project.root)
        with worktree.locked_worktrees(here):
            (said,) = worktree.clean_up(here)
        assert not list(self.records.iterdir())
        return said

    def is_gone(self) -> bool:
        left = [self.root.exists(), "left" in worktree.heads(self.project.root)]
        left.append((checkout.find(self.project.root).ids / "20260219-a7k").exists())
        return not any(left)


@pytest.mark.parametrize("so_far", [{"branch": False, "tree": False}, {}], ids=str)
def test_what_it_left_is_removed(installed: Project, so_far: dict[str, bool]) -> None:
    left = Leftover(installed, **so_far)
    assert "removed what a killed command left of" in left.said()
    assert left.is_gone()


def test_an_incomplete_checkout_is_removed(installed: Project) -> None:
    left = Leftover(installed)
    (installed.root / ".git/worktrees/left/index").unlink()
    assert "removed what a killed command left of" in left.said()
    assert left.is_gone()


@pytest.mark.parametrize("what", ["a change", "a commit", "nothing git knows"])
def test_a_person_s_changes_are_kept_and_reported(installed: Project, what: str) -> None:
    left = Leftover(installed)
    there = Project(left.root, installed.home)
    there.write("mine.txt", "x\n")
    if what == "a commit":
        there.commit("Mine")
    elif what == "nothing git knows":
        there.write(".git", "gitdir: nowhere\n")
    assert f"left {left.root} on branch left" in left.said()
    assert (left.root / "mine.txt").exists()


def test_a_branch_with_new_commits_is_kept(installed: Project) -> None:
    left = Leftover(installed, tree=False)
    tree = installed.git("rev-parse", "HEAD^{tree}")
    installed.git(
        "branch", "-f", "left", installed.git("commit-tree", tree, "-p", "HEAD", "-m", "x")
    )
    assert "removed what a killed command left of" in left.said()
    assert "left" in worktree.heads(installed.root)


def test_a_session_that_was_created_is_reported(installed: Project) -> None:
    left = Leftover(installed)
    Project(left.root, installed.home).write(".playbooks/sessions/20260219-a7k/session.yaml", "x")
    assert f"it waits in {left.root}" in left.said()
    assert left.root.exists()


def test_a_start_in_progress_is_left_alone(installed: Project) -> None:
    left = Leftover(installed)
    with locked(left.record.with_suffix(".lock")):
        started = start(installed)
        assert started.notices == ()
    assert left.root.exists()
    assert "removed what a killed command left of" in start(installed).notices[0]


def test_what_cannot_be_removed_does_not_stop_the_next_start(
    installed: Project, mocker: MockerFixture
) -> None:
    left = Leftover(installed)
    stuck = PlaybookError("PB-IO-WRITE", "cannot remove x")
    mocker.patch.object(worktree, "remove_all", side_effect=stuck)
    (told,) = start(installed).notices
    assert told == "what a killed command left of session 20260219-a7k stays: cannot remove x"
    mocker.stopall()
    assert "removed what a killed command left of" in start(installed).notices[0]
    assert left.is_gone()


def test_an_unreadable_record_is_removed(installed: Project) -> None:
    left = Leftover(installed, branch=False, tree=False)
    left.record.write_text('{"path": 1}')
    assert start(installed).notices == ()
    assert not left.record.exists()


def test_a_playbook_without_an_agent_needs_nothing_of_claude_code(project: Project) -> None:
    """The project has none of our commands and hooks."""
    project.write(
        ".playbooks/playbooks/build.yaml",
        "name: build\ndescription: Build\nversion: '1.1'\nargs: []\n"
        "steps: [{id: make, command: cli make, autonomy: auto, error_policy: stop}]\n",
    )
    project.commit("Add a playbook")
    started = start(project, "build")
    assert (started.typed, started.headless) == ("", "playbook run build")
    refused(project, "PB-GIT-BASE")
