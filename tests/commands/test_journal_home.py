"""`finish` brings home what only the worktree has of a session, or removes nothing."""

from __future__ import annotations

import errno
import itertools
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_mock import MockerFixture
from support import crash_points
from support.scratch_project import Project

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.commands.worktrees import finish as finishing
from playbook_supervisor.commands.worktrees import start as starting
from playbook_supervisor.commands.worktrees import worktree
from playbook_supervisor.commands.worktrees.journal_home import Homecoming
from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.sessions.files.journal import parse_journal
from playbook_supervisor.system.git import checkout

NEW = "014-new-thing"
SCRIPT = """
steps:
  qa-plan: {write: {".qa/{{feature}}/test-plan.md": a plan}}
  qa-run: {write: {".qa/{{feature}}/verdict.md": "verdict: FAIL"}}
"""


class Late:
    """A session whose branch was merged into main while it waited at a gate, and that then ended.

    Main has the journal up to the gate; the worktree has its end.
    """

    def __init__(self, main: Project, *, base: str = "") -> None:
        self.main = main
        started = starting.start("auto-validate", ["014"], cwd=main.root, base=base)
        self.id, self.tree = started.session_id, Project(started.root, main.home)
        self.before: tuple[Entry, ...] = ()
        self.end: tuple[Entry, ...] = ()

    def wait(self) -> None:
        """It runs until its gate; all of it is committed."""
        drive = DriveOptions(agent=self.main.script(SCRIPT))
        driving.run("auto-validate", ["014"], cwd=self.tree.root, drive=drive)
        self.tree.commit("Work")
        self.before = self.entries(self.tree.root)

    def complete(self, *, commit: bool = True) -> None:
        """A person accepts, and it ends."""
        driving.answer(["accept"], cwd=self.tree.root)
        driving.resume(cwd=self.tree.root)
        if commit and self.tree.git("status", "--porcelain"):
            self.tree.commit("The end")
        self.end = self.entries(self.tree.root)
        assert len(self.end) == len(self.before) == 2
        assert self.end[1] != self.before[1]

    def file(self, name: str, root: Path | None = None) -> Path:
        return (root or self.main.root) / ".playbooks/sessions" / self.id / name

    def entries(self, root: Path | None = None) -> tuple[Entry, ...]:
        return parse_journal(self.file("journal.yaml", root).read_bytes(), "journal.yaml").entries

    def finish(self) -> tuple[Homecoming, ...]:
        return finishing.finish(finishing.plan(self.id, cwd=self.main.root))[0]

    def refused(self) -> str:
        """Why it is not finished; nothing has been removed or changed, with `--force` neither."""
        status = self.main.git("status", "--porcelain")
        for force in (False, True):
            with pytest.raises(PlaybookError) as caught:
                finishing.finish(finishing.plan(self.id, cwd=self.main.root), force=force)
            assert caught.value.code == "PB-GIT-UNFINISHED"
        assert "--force discards no journal" in caught.value.guidance
        assert self.main.git("status", "--porcelain") == status
        assert self.stands
        return caught.value.details[-1]

    @property
    def stands(self) -> bool:
        standing = self.tree.root.exists()
        assert (NEW in worktree.heads(self.main.root)) is standing
        return standing

    @property
    def is_home(self) -> bool:
        """Whether main's checkout has the journal to its end, and the worktree is gone."""
        status = locate.store(self.main.root).manifest(self.id).status
        return (self.entries(), status) == (self.end, SessionStatus.COMPLETED) and not self.stands


def squash(main: Project, branch: str = NEW) -> None:
    main.git("merge", "-q", "--squash", branch)
    main.commit("A new thing (#7)")


@pytest.fixture
def late(installed: Project) -> Late:
    late = Late(installed)
    late.wait()
    squash(installed)
    late.complete()
    return late


# ── what a person did to main's copy ────────────────────────────────────────────────────────


def comment(late: Late) -> list[str]:
    """At the beginning, in an entry, at the end, and in the other file; and a key of one's own."""
    journal = late.file("journal.yaml").read_text()
    first, second = journal.split("  - step_id: qa-run\n")
    late.file("journal.yaml").write_text(
        f"# above all\n{first}  # between\n"
        f"  - step_id: qa-run  # beside\n    mine: a key\n{second}# below\n"
    )
    manifest = late.file("session.yaml")
    manifest.write_text(f"# about it\n{manifest.read_text()}")
    return ["# above all\n", "  # between\n", "qa-run  # beside\n    mine: a key\n", "# below\n"]


def test_comments_in_main_are_kept_byte_for_byte(late: Late) -> None:
    notes = comment(late)
    finished = late.finish()
    assert [each.home for each in finished] == [late.main.root]
    assert late.is_home
    text = late.file("journal.yaml").read_text()
    assert [note in text for note in notes] == [True] * 4
    assert late.file("session.yaml").read_text().startswith("# about it\nschema: 1\n")


def test_comments_in_the_worktree_come_along(late: Late) -> None:
    journal = late.file("journal.yaml", late.tree.root)
    journal.write_text(journal.read_text() + "# seen by Ana\n")
    late.finish()
    assert late.is_home
    assert late.file("journal.yaml").read_text().endswith("# seen by Ana\n")


def a_strangers_file(late: Late) -> None:
    late.file("notes.md").write_text("mine\n")


def folder_removed(late: Late) -> None:
    shutil.rmtree(late.file("x").parent)


def folder_removed_with_git(late: Late) -> None:
    late.main.git("rm", "-rq", f".playbooks/sessions/{late.id}")


def folder_removed_and_committed(late: Late) -> None:
    folder_removed_with_git(late)
    late.main.git("commit", "-qm", "Tidy up")


def journal_emptied(late: Late) -> None:
    late.file("journal.yaml").write_text("\n")


def everything_untracked(late: Late) -> None:
    """As a `finish` that was killed leaves it where main has no copy."""
    late.main.git("reset", "-q", "--soft", "HEAD~1")
    late.main.git("reset", "-q", "--", ".playbooks")
    late.main.git("commit", "-qm", "Only the work")


def crlf(late: Late) -> None:
    for name in ("journal.yaml", "session.yaml"):
        text = late.file(name).read_bytes()
        late.file(name).write_bytes(text.replace(b"\n", b"\r\n"))


@pytest.mark.parametrize(
    "done",
    [
        a_strangers_file,
        folder_removed_and_committed,
        journal_emptied,
        everything_untracked,
        crlf,
    ],
)
def test_the_end_of_a_journal_reaches_main_with_any_copy_there(
    late: Late, done: Callable[[Late], None]
) -> None:
    done(late)
    strangers = late.file("notes.md").exists()
    late.finish()
    assert late.is_home
    assert late.file("notes.md").exists() is strangers


# ── where main's checkout stands ────────────────────────────────────────────────────────────


def test_main_on_a_branch_without_it_is_named_first(late: Late) -> None:
    """A file there would be in the way of `git switch main`."""
    late.main.git("switch", "-q", "-c", "elsewhere", "main~1")
    assert late.refused().endswith(
        f"main has a copy, which {late.main.root} lacks; "
        f"first `git -C {late.main.root} switch main`"
    )
    late.main.git("switch", "-q", "main")
    late.finish()
    assert late.is_home


def test_a_worktree_on_main_takes_it_if_the_main_checkout_cannot(late: Late) -> None:
    late.main.git("switch", "-q", "-c", "elsewhere", "main~1")
    late.main.git("worktree", "add", "-q", "../on-main", "main")
    there = late.main.root.with_name("on-main")
    (brought,) = late.finish()
    assert brought.home == there
    assert late.entries(there) == late.end


def origin(main: Project) -> None:
    bare = str(main.root.with_name("origin.git"))
    main.git("clone", "-q", "--bare", ".", bare)
    main.git("remote", "add", "origin", bare)
    main.git("fetch", "-q")
    main.git("branch", "-q", "--set-upstream-to=origin/main", "main")


def test_a_merge_that_was_fetched_must_be_pulled_first(late: Late) -> None:
    """A file of ours would be in the way of `git pull`."""
    main = late.main
    main.git("branch", "-q", "merged", "main")
    main.git("reset", "-q", "--hard", "main~1")
    origin(main)
    main.git("push", "-q", "origin", "merged:main")
    main.git("branch", "-qD", "merged")
    assert late.refused().endswith(f"first `git -C {main.root} pull`")
    main.git("pull", "-q")
    late.finish()
    assert late.is_home


def test_an_end_that_was_merged_and_fetched_is_safe(late: Late) -> None:
    origin(late.main)
    late.main.git("push", "-q", "origin", f"{NEW}:main", "--force")
    assert late.finish() == ()
    assert late.entries() == late.before
    late.main.git("reset", "-q", "--hard", "origin/main")
    assert late.is_home


def test_a_branch_that_a_killed_finish_left_is_removed_by_the_next_one(late: Late) -> None:
    """Nothing in main's checkout tells of the session: its end is safe upstream."""
    origin(late.main)
    late.main.git("push", "-q", "origin", f"{NEW}:main", "--force")
    late.main.git("reset", "-q", "--hard", f"{NEW}~2")
    assert not late.main.sessions
    late.main.git("worktree", "remove", "--force", str(late.tree.root))
    finished = late.main.playbook("finish", late.id)
    assert finished.code == 0, finished.err
    assert f"✓ Branch {NEW} removed" in finished.out
    assert not late.stands
    assert late.main.playbook("finish", late.id).code == 3


# ── what cannot be merged ───────────────────────────────────────────────────────────────────


def conflicted(late: Late) -> None:
    late.file("journal.yaml").write_text("<<<<<<< HEAD\nschema: 1\n=======\n")


def changed(late: Late) -> None:
    text = late.file("journal.yaml").read_text()
    late.file("journal.yaml").write_text(text.replace("status: done", "status: skipped", 1))


def notes_in_both(late: Late) -> None:
    comment(late)
    journal = late.file("journal.yaml", late.tree.root)
    journal.write_text("# above all, too\n" + journal.read_text())


def linked(late: Late) -> None:
    journal = late.file("journal.yaml")
    journal.rename(late.main.root.with_name("journal.yaml"))
    journal.symlink_to(late.main.root.with_name("journal.yaml"))


@pytest.mark.parametrize(
    ("done", "why"),
    [
        (conflicted, "journal.yaml: it cannot be read"),
        (changed, "journal.yaml: the entry qa-plan#1 differs"),
        (notes_in_both, "journal.yaml: its beginning has notes in both"),
        (linked, "is a symbolic link"),
    ],
)
def test_what_cannot_be_merged_is_refused(
    late: Late, done: Callable[[Late], None], why: str
) -> None:
    done(late)
    assert why in late.refused()
    late.main.git("checkout", "-q", "--", ".playbooks")
    late.finish()
    assert late.is_home


def test_a_journal_that_something_else_changed_is_refused(late: Late) -> None:
    journal = late.file("journal.yaml", late.tree.root)
    journal.write_text(journal.read_text().replace("status: done", "status: skipped", 1))
    assert f"`playbook repair {late.id}` shows the change" in late.refused()


# ── what the worktree has of it ─────────────────────────────────────────────────────────────


def worktree_without_files(late: Late) -> None:
    shutil.rmtree(late.file("x", late.tree.root).parent)


def worktree_with_an_empty_journal(late: Late) -> None:
    late.file("journal.yaml", late.tree.root).write_text("")


def worktree_without_runtime(late: Late) -> None:
    shutil.rmtree(checkout.find(late.tree.root).runtime)


@pytest.mark.parametrize(
    "done",
    [
        worktree_without_files,
        worktree_with_an_empty_journal,
        worktree_without_runtime,
    ],
)
def test_the_end_is_found_where_it_is(late: Late, done: Callable[[Late], None]) -> None:
    done(late)
    late.finish()
    assert late.is_home


def test_a_worktree_that_git_reset_to_an_earlier_journal_is_not_removed(late: Late) -> None:
    """A crash just before the last write leaves the same files, and then the session is open."""
    late.tree.git("reset", "-q", "--hard", "HEAD~1")
    with pytest.raises(GitError) as caught:
        late.finish()
    assert "waits for an answer" in caught.value.details[0]
    assert late.stands
    late.tree.git("reset", "-q", "--hard", "ORIG_HEAD")
    late.finish()
    assert late.is_home


def test_the_end_on_a_branch_alone_comes_home(late: Late) -> None:
    late.main.git("worktree", "remove", "--force", str(late.tree.root))
    late.finish()
    assert late.is_home


def test_beside_a_bare_repository_a_worktree_takes_it(installed: Project, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    installed.git("clone", "-q", "--bare", ".", str(tmp_path / "x/kai.git"))
    bare = Project(tmp_path / "x/kai.git", installed.home)
    bare.git("worktree", "add", "-q", "../main", "main")
    main = Project(tmp_path / "x/main", installed.home)
    late = Late(main)
    late.wait()
    squash(main)
    late.complete()
    main.git("switch", "-q", "--detach", "main~1")
    assert "no other checkout is there to take it" in late.refused()
    main.git("switch", "-q", "main")
    late.finish()
    assert late.is_home


@pytest.fixture
def cloned(installed: Project, tmp_path: Path, mocker: MockerFixture) -> Late:
    """A session that went on in a second clone: in a worktree for its branch, a person answered."""
    mocker.patch.object(locate, "require_human")
    late = Late(installed)
    late.wait()
    squash(installed)
    clone = Project(tmp_path / "clone/project", installed.home)
    installed.git("clone", "-q", ".", str(clone.root))
    clone.git("worktree", "add", "-q", "../beside", NEW)
    late.main, late.tree = clone, Project(clone.root.with_name("beside"), installed.home)
    late.complete(commit=False)
    return late


def test_in_a_second_clone_the_end_comes_home_as_well(cloned: Late) -> None:
    worktree_without_files(cloned)
    cloned.finish()
    assert cloned.is_home


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_at_any_write_in_a_second_clone_the_end_is_there(
    cloned: Late, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kills = killed_everywhere(cloned, tmp_path / "copy", 1)
    with capsys.disabled():
        print(f"\nkills survived: {kills}, in a second clone")


def test_an_open_session_of_a_removed_folder_is_not_finished(installed: Project) -> None:
    late = Late(installed)
    late.wait()
    squash(installed)
    shutil.rmtree(late.tree.root)
    with pytest.raises(PlaybookError) as caught:
        late.finish()
    assert (caught.value.code, NEW in worktree.heads(installed.root)) == (
        "PB-STATE-NO-WORKTREE",
        True,
    )


# ── what `status` advises ───────────────────────────────────────────────────────────────────


def advice(late: Late) -> str:
    shown = late.main.playbook("status", "--all").out
    assert late.id in shown
    return shown


def test_an_older_copy_of_a_removed_worktree_is_not_to_be_resumed(late: Late) -> None:
    """Its gate was answered, and what it says to do next was done."""
    late.main.git("worktree", "remove", "--force", str(late.tree.root))
    shown = advice(late)
    assert not re.search("playbook (resume|answer)|WAITS", shown)
    (add,) = re.findall("git (worktree add .*)", shown)
    late.main.git(*add.split())
    assert "completed" in advice(late)


def test_a_removed_folder_is_to_be_finished(late: Late) -> None:
    shutil.rmtree(late.tree.root)
    shown = advice(late)
    assert not re.search("playbook (resume|answer)|WAITS", shown)
    assert late.main.playbook(*re.findall("playbook (finish .*)", shown)[0].split()).code == 0
    assert "completed" in advice(late)
    assert late.entries() == late.end


def test_an_open_session_of_a_removed_folder_is_not_its_older_copy(installed: Project) -> None:
    late = Late(installed)
    late.wait()
    squash(installed)
    shutil.rmtree(late.tree.root)
    shown = advice(late)
    assert not re.search("playbook (resume|answer)|WAITS", shown)
    assert f"playbook repair {late.id} --restore" in shown


def test_in_another_clone_the_copy_is_what_there_is(late: Late, tmp_path: Path) -> None:
    """A person may go on from it on main, which it was merged into."""
    late.main.git("clone", "-q", "--single-branch", ".", str(tmp_path / "clone"))
    late.main = clone = Project(tmp_path / "clone", late.main.home)
    assert f"it is on branch {NEW}, and main is checked out here" in advice(late)
    assert clone.playbook("answer", late.id, "accept").code == 3
    assert clone.playbook("resume", late.id, "--on-this-branch").code == 4
    assert clone.playbook("answer", late.id, "accept").code == 0


def test_a_copy_that_a_branch_continues_is_not_resumed(late: Late, tmp_path: Path) -> None:
    late.main.git("clone", "-q", ".", str(tmp_path / "clone"))
    clone = late.main = Project(tmp_path / "clone", late.main.home)
    shown = advice(late)
    assert not re.search("playbook (resume|answer)|WAITS", shown)
    assert f"session {late.id} is further on branch origin/{NEW}; merge that branch" in shown
    before = late.entries()
    for words in (
        ("resume", late.id),
        ("answer", late.id, "accept"),
        ("next", "--session", late.id),
    ):
        refused = clone.playbook(*words)
        assert (refused.code, "[PB-STATE-OLDER]" in refused.err) == (3, True), refused.err
    assert late.entries() == before
    assert not (clone.root / ".git/playbook" / late.id / "runtime-0").exists()
    assert clone.playbook("repair", late.id, "--take").code == 0
    assert clone.playbook("resume", late.id, "--on-this-branch").code == 4
    assert clone.playbook("answer", late.id, "accept").code == 0


def test_a_copy_whose_worktree_was_removed_is_not_resumed_either(late: Late) -> None:
    late.main.git("worktree", "remove", "--force", str(late.tree.root))
    refused = late.main.playbook("resume", late.id)
    assert f"session {late.id} is further on branch {NEW} [PB-STATE-OLDER]" in refused.err
    late.main.git("restore", f"--source={NEW}", "--", ".playbooks/sessions")
    assert "already completed" in late.main.playbook("resume", late.id).err


# ── kills and full disks ────────────────────────────────────────────────────────────────────


def main_has_none(late: Late) -> None:
    """Nothing was committed but the work."""
    everything_untracked(late)
    folder_removed(late)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("done", "step"),
    [
        (comment, 5),
        pytest.param(comment, 1, marks=pytest.mark.thorough),
        pytest.param(main_has_none, 1, marks=pytest.mark.long),
    ],
)
def test_killed_at_any_write_and_called_again_the_end_is_there(
    late: Late,
    done: Callable[[Late], None],
    step: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done(late)
    kills = killed_everywhere(late, tmp_path / "copy", step)
    assert kills >= 10 // step
    with capsys.disabled():
        print(f"\nkills survived: {kills}, {done.__name__}")


def killed_everywhere(late: Late, copy: Path, step: int) -> int:
    """How many kills of a `finish` were survived.

    Between the two calls the end is there as well: at home, or still in the worktree.
    """
    for root in (late.main.root, late.tree.root):
        shutil.copytree(root, copy / root.name, symlinks=True)
    for kills in itertools.count():
        point = 1 + kills * step
        code = crash_points.ended(crash_points.forked(late.finish, point))
        if code == 0:
            assert late.is_home
            return kills
        assert code == -signal.SIGKILL
        where = [root for root in (late.main.root, late.tree.root) if at_its_end(late, root)]
        assert where, f"at write {point}"
        late.finish()
        assert late.is_home, f"after a kill at write {point}"
        assert not list(late.file("x").parent.glob(".playbook-tmp-*"))
        for root in (late.main.root, late.tree.root):
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(copy / root.name, root, symlinks=True)
    raise AssertionError("writes never end")


def at_its_end(late: Late, root: Path) -> bool:
    try:
        return late.entries(root) == late.end
    except (OSError, PlaybookError):
        return False


def test_a_full_disk_at_any_write_removes_nothing(late: Late, mocker: MockerFixture) -> None:
    a_strangers_file(late)
    comment(late)
    real, writes, number = os.write, 0, 0

    def write(descriptor: int, data: bytes) -> int:
        nonlocal writes
        writes += 1
        if writes > number:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    plan = finishing.plan(late.id, cwd=late.main.root)
    while True:
        writes = 0
        mocker.patch("os.write", write)
        try:
            finishing.finish(plan)
        except PlaybookError as error:
            mocker.stopall()
            assert (error.code, late.stands) == ("PB-IO-WRITE", True)  # noqa: PT017
            assert late.entries(late.tree.root) == late.end
            number += 1
        else:
            break
    assert number >= 2
    assert late.is_home


# ── merged by a pull request ────────────────────────────────────────────────────────────────


def merged_by_pull_request(late: Late, head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `gh` says; the merge itself was not fetched."""
    main = late.main
    main.git("reset", "-q", "--hard", "main~1")
    main.git("remote", "add", "origin", "nowhere")
    main.gh("none")
    pull = f'[{{"number": 7, "url": "https://forge.example/7", "headRefOid": "{head}"}}]'
    program = main.root.with_name("project-bin") / "gh"
    program.write_text(f"#!/bin/sh\n[ \"$6\" = merged ] && echo '{pull}'\n")
    monkeypatch.setenv("PATH", main.env["PATH"])


def test_a_pull_request_that_has_the_end_is_fetched_first(
    late: Late, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the forge merged is in a reference that is here, and shown from there."""
    end, head = late.end, late.tree.git("rev-parse", "HEAD")
    merged_by_pull_request(late, head, monkeypatch)
    told = late.refused()
    assert "pull request #7 has a copy" in told, "the remote cannot be reached"
    forge = tmp_path / "forge.git"
    late.main.git("clone", "-q", "--bare", ".", str(forge))
    late.main.git("-C", str(forge), "update-ref", "refs/heads/main", head)
    late.main.git("-C", str(forge), "update-ref", "-d", f"refs/heads/{NEW}")
    late.main.git("remote", "set-url", "origin", str(forge))
    assert late.finish() == ()
    assert not late.stands
    assert late.main.git("branch", "--list", NEW) == ""
    shown = late.main.playbook("show", late.id, "--json")
    assert (shown.code, len(shown.json["steps"])) == (0, len(end)), shown.err


def test_a_pull_request_without_the_end_must_be_pulled_first(
    late: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged_by_pull_request(late, late.tree.git("rev-parse", "HEAD~1"), monkeypatch)
    told = late.refused()
    assert "pull request #7 has a copy" in told
    assert told.endswith(f"first `git -C {late.main.root} pull`")
