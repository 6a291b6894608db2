"""What of a repository is protected and writable in isolation, wherever git keeps it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.isolation import profiles
from playbook_supervisor.system.isolation.profiles import Profile, Wishes


def git(folder: Path, *arguments: str) -> None:
    argv = ["git", "-c", "protocol.file.allow=always", *arguments]
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a local remote, a submodule in a submodule, and a worktree beside it."""
    tmp_path = tmp_path_factory.mktemp("repositories")
    for name in ("inner", "outer", "project"):
        git(tmp_path, "init", "-q", name)
        git(tmp_path / name, "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path / "outer", "submodule", "--quiet", "add", "../inner", "deep/inner")
    git(tmp_path / "outer", "commit", "-q", "-m", "second")
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    project = tmp_path / "project"
    git(project, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(project, "remote", "add", "beside", f"file://{tmp_path / 'outer'}")
    git(project, "remote", "add", "far", "ssh://git@example.org/a.git")
    git(project, "submodule", "--quiet", "add", "../outer", "lib/outer")
    git(project, "submodule", "--quiet", "update", "--init", "--recursive")
    git(project, "commit", "-q", "-m", "second")
    git(project, "worktree", "add", "-q", "../other")
    return project


def profile(root: Path, *outputs: str, wishes: Wishes | None = None) -> Profile:
    return profiles.of_agent(checkout.find(root), wishes or Wishes(), outputs)


def test_the_settings_of_each_submodule_are_protected(root: Path) -> None:
    protected = set(profile(root).protected)
    outer = root / ".git/modules/lib/outer"
    for module in (root / ".git", outer, outer / "modules/deep/inner"):
        assert {module / "config", module / "hooks", module / "commondir"} <= protected
    assert {root / "lib/outer/.git", root / "lib/outer/deep/inner/.git"} <= protected


def test_a_worktree_writes_the_shared_objects_and_no_other_worktree(root: Path) -> None:
    main, other = profile(root), profile(root.parent / "other")
    own = root / ".git/worktrees/other"
    assert own in main.protected
    assert own not in other.protected
    assert {own / "config.worktree", own / "commondir", own / "playbook"} <= set(other.protected)
    assert root.parent / "other/.git" in other.protected
    assert {root.parent / "other", root / ".git", own} <= set(other.writable)
    assert root not in other.writable


def test_a_repository_of_this_machine_can_be_pushed_to_and_its_hooks_stay(root: Path) -> None:
    found = profile(root)
    remotes = {root.parent / "remote.git", root.parent / "outer/.git"}
    assert remotes <= set(found.writable)
    assert {remote / "hooks" for remote in remotes} <= set(found.protected)


def test_objects_that_are_borrowed_are_shown(root: Path) -> None:
    git(root.parent, "clone", "-q", "--shared", "project", "clone")
    assert root / ".git/objects" in profile(root.parent / "clone").shown


@pytest.mark.parametrize(
    ("output", "written"),
    [
        (".playbooks/reviews/a.md", ".playbooks/reviews"),
        (".playbooks/sessions/x/journal.yaml", ""),
        (".playbooks/policies/a.yaml", ""),
        (".playbooks/config.yaml", ""),
        (".playbooks/../.git/config", ""),
        ("src/**", ""),
    ],
)
def test_below_playbooks_a_step_writes_the_folders_of_its_files(
    root: Path, output: str, written: str
) -> None:
    usual, asked = set(profile(root).writable), set(profile(root, output).writable)
    assert asked - usual == ({root / written} if written else set())


def test_settings_name_places_from_the_home_by_variables_and_from_the_checkout(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SOCKETS", "/srv/sockets")
    wishes = Wishes(write=("~/.npm",), show=("$SOCKETS/agent",), hide=("notes",))
    found = profile(root, wishes=wishes)
    assert tmp_path / ".npm" in found.writable
    assert Path("/srv/sockets/agent") in found.shown
    assert root / "notes" in found.hidden


def test_keys_are_shown_to_git_of_ours_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSH_AUTH_SOCK", "/srv/agent")
    usual = profile(root)
    keys = profiles.with_keys(usual)
    assert tmp_path / ".ssh" in usual.hidden
    assert tmp_path / ".ssh" not in keys.hidden
    given = {"SSH_AUTH_SOCK": "/srv/agent", "TMUX": "x", "TMPDIR": "/elsewhere", "LANG": "C"}
    assert profiles.environment(given, usual) == {"TMPDIR": "/tmp", "LANG": "C"}
    assert profiles.environment(given, keys)["SSH_AUTH_SOCK"] == "/srv/agent"


def test_a_check_in_a_room_has_the_programs_of_the_checkout_that_are_on_path(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (root / ".venv/bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{root}/.venv/bin:/usr/bin")
    room = tmp_path / "rooms/project"
    here = checkout.find(root)
    asked = Wishes(write=("~/.npm", "build"))
    found = profiles.of_check(here, asked, room, tmp_path / "own")
    assert (root, room) in found.private
    assert (root / ".venv", root / ".venv") in found.lent
    assert root / "build" not in found.writable
    assert tmp_path / "own" in found.writable
