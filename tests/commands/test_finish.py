"""`finish`: remove worktree and branch once their work is merged, and not before."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from support.scratch_project import Project

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.commands.worktrees import finish as finishing
from playbook_supervisor.commands.worktrees import start as starting
from playbook_supervisor.commands.worktrees import worktree
from playbook_supervisor.commands.worktrees.finish import FinishPlan
from playbook_supervisor.commands.worktrees.journal_home import Homecoming
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.system.git import checkout

NEW = "014-new-thing"


class Beside:
    """A session that was started from main, in its own worktree `tree`."""

    def __init__(self, main: Project, *, base: str = "") -> None:
        self.main = main
        started = starting.start("auto-validate", ["014"], cwd=main.root, base=base)
        self.id, self.tree = started.session_id, Project(started.root, main.home)

    def write(self, text: str = "made\n", file: str = "made.txt") -> None:
        """Work of the session, committed."""
        self.tree.write(file, text)
        self.tree.commit(f"Write {file}")

    def end(self) -> None:
        """The session comes to its end; its journal is committed."""
        driving.abort(self.id, "abort", cwd=self.main.root)
        if self.tree.git("status", "--porcelain"):
            self.tree.commit("Journal")

    def looked_at(self) -> FinishPlan:
        return finishing.plan(self.id, cwd=self.main.root)

    def finish(self) -> tuple[FinishPlan, tuple[Homecoming, ...]]:
        plan = self.looked_at()
        return plan, finishing.finish(plan)[0]

    @property
    def stands(self) -> bool:
        standing = self.tree.root.exists()
        assert (NEW in worktree.heads(self.main.root)) is standing
        return standing


@pytest.fixture
def beside(installed: Project) -> Beside:
    """A session that has ended, with work on its branch."""
    beside = Beside(installed)
    beside.write()
    beside.end()
    return beside


def status(project: Project, session: str) -> SessionStatus:
    return locate.store(project.root).manifest(session).status


def journals(brought: Iterable[Homecoming]) -> tuple[str, ...]:
    """The sessions that were brought home."""
    return tuple(each.session_id for each in brought)


# ── merged in every way ─────────────────────────────────────────────────────────────────────


def merge(main: Project) -> None:
    main.git("merge", "-q", "--no-ff", "-m", "Merge", NEW)


def squash(main: Project) -> None:
    main.git("merge", "-q", "--squash", NEW)
    main.commit("A new thing (#7)")


def squash_beside_others(main: Project) -> None:
    """Others changed the same file before, elsewhere in it, and those very lines later."""
    text = main.read("README.md")
    main.write("README.md", f"{text}\n\n\n\n\nat the end\n")
    main.commit("Before")
    squash(main)
    main.write("README.md", main.read("README.md").replace("made", "made and changed"))
    main.write("made.txt", "changed\n")
    main.commit("After")


def rebase(main: Project) -> None:
    main.write("other.txt", "x\n")
    main.commit("Meanwhile")
    main.git("cherry-pick", f"main..{NEW}")


@pytest.mark.parametrize(
    ("way", "how"),
    [
        (merge, "merged into main"),
        (squash, "squashed or rebased into main, by "),
        (squash_beside_others, "squashed or rebased into main, by "),
        (rebase, "squashed or rebased into main, by "),
    ],
)
def test_merged_work_is_removed(beside: Beside, way: Callable[[Project], None], how: str) -> None:
    beside.write("made\n# A project\n", "README.md")
    assert not beside.looked_at().merged
    way(beside.main)
    plan, brought = beside.finish()
    assert plan.merged.startswith(how)
    assert (beside.stands, journals(brought)) == (False, ())
    assert status(beside.main, beside.id) is SessionStatus.ABORTED
    assert beside.main.git("status", "--porcelain") == ""


def test_what_was_added_after_the_merge_is_not_lost(beside: Beside) -> None:
    squash(beside.main)
    beside.write("later\n", "later.txt")
    beside.write("made again\n")
    with pytest.raises(PlaybookError) as caught:
        beside.finish()
    assert caught.value.code == "PB-GIT-UNFINISHED"
    told = [line.partition(": ")[2].split(" ", 1)[1] for line in caught.value.details]
    assert told[:2] == ["Write made.txt", "Write later.txt"]
    assert beside.stands


def test_a_branch_with_only_its_journal_is_removed(installed: Project) -> None:
    """The journal comes along, since it is nowhere else."""
    beside = Beside(installed)
    beside.end()
    plan, brought = beside.finish()
    assert plan.merged == "no work that main lacks"
    assert journals(brought) == (beside.id,)
    assert status(installed, beside.id) is SessionStatus.ABORTED
    assert installed.git("status", "--porcelain") == "?? .playbooks/sessions/"


def test_a_merge_upstream_counts_before_it_is_pulled(beside: Beside, tmp_path: Path) -> None:
    main = beside.main
    main.git("clone", "-q", "--bare", ".", str(tmp_path / "origin.git"))
    main.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    main.git("fetch", "-q", "origin")
    main.git("branch", "-q", "--set-upstream-to=origin/main", "main")
    main.git("push", "-q", "origin", f"{NEW}:main")
    plan, brought = beside.finish()
    assert (plan.merged, beside.stands) == ("merged into origin/main", False)
    assert journals(brought) == (), "a pull brings it"


def test_the_base_that_it_came_from_counts(installed: Project) -> None:
    installed.git("branch", "develop")
    beside = Beside(installed, base="develop")
    beside.write()
    beside.end()
    installed.git("switch", "-q", "develop")
    installed.git("merge", "-q", NEW)
    installed.git("switch", "-q", "main")
    assert beside.finish()[0].merged == "merged into develop"


def test_a_branch_that_is_its_own_base_must_be_merged(installed: Project) -> None:
    installed.git("branch", NEW)
    beside = Beside(installed, base=NEW)
    beside.write()
    beside.end()
    for name, value in (("diff.external", "false"), ("log.showSignature", "true")):
        installed.git("config", name, value)
    assert beside.looked_at().obstacles[0].endswith(" Write made.txt")
    squash(installed)
    beside.finish()
    assert not beside.stands


def test_a_merged_pull_request_counts_if_it_contains_all_work(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = beside.main
    head = beside.tree.git("rev-parse", "HEAD")
    told = main.root.with_name("pulls.json")
    program = main.root.with_name("bin") / "gh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$6" = merged ] && cat {told}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    pull = '{"number": 7, "url": "https://forge.example/7", "headRefOid": "%s"}'
    told.write_text(f"[{pull % head}]")
    assert not beside.looked_at().merged, "there is no remote"
    main.git("remote", "add", "origin", "nowhere")
    for answer in ("<html>", "{}", "[1]", "[{}]", f"[{pull % ('f' * 40)}]", f"[{pull % '-x'}]"):
        told.write_text(answer)
        assert not beside.looked_at().merged
    told.write_text(f"[{pull % head}]")
    assert beside.looked_at().merged == "pull request #7 is merged: https://forge.example/7"
    beside.write("later\n", "later.txt")
    assert not beside.looked_at().merged
    program.write_text("#!/bin/sh\nexit 4\n")
    assert not beside.looked_at().merged
    program.unlink()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert not beside.looked_at().merged


def test_an_old_git_recognises_only_plain_merges(
    beside: Beside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git before 2.38."""
    squash(beside.main)
    old = tmp_path / "old" / "git"
    old.parent.mkdir()
    real = subprocess.run(["which", "git"], check=True, capture_output=True, text=True).stdout
    old.write_text(
        f'#!/bin/sh\nfor a; do [ "$a" = merge-tree ] && exit 129; done\nexec {real.strip()} "$@"\n'
    )
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent), prepend=":")
    assert not beside.looked_at().merged


def test_an_unrelated_history_is_not_merged(beside: Beside) -> None:
    tree = beside.tree.git("rev-parse", "HEAD^{tree}")
    lone = beside.tree.git("commit-tree", tree, "-m", "Alone")
    beside.tree.git("reset", "-q", "--hard", lone)
    assert beside.looked_at().obstacles


# ── what is in the way ──────────────────────────────────────────────────────────────────────


def test_every_obstacle_is_named(installed: Project) -> None:
    beside = Beside(installed)
    beside.write()
    beside.tree.write("made.txt", "changed\n")
    beside.tree.write("new.txt", "new\n")
    git_dir = checkout.find(beside.tree.root).git_dir
    (git_dir / "MERGE_HEAD").write_text(beside.tree.git("rev-parse", "HEAD"))
    installed.git("worktree", "lock", str(beside.tree.root))
    private = locate.store(beside.tree.root).runtime(beside.id)
    with driver_lock.driving(private, "script"):
        obstacles = beside.looked_at().obstacles
    shown = [line.rpartition(":")[0] or line for line in obstacles]
    assert (
        obstacles[0] == f"session {beside.id} is pending at qa-plan: begin it, or take it away: "
        f"playbook abort --clean {beside.id}"
    )
    assert "is being driven by process" in obstacles[1]
    assert obstacles[2] == "a merge is in progress in the worktree"
    assert obstacles[3].startswith("the worktree is locked")
    assert obstacles[4:6] == ("not committed: M made.txt", "not committed: ?? new.txt")
    assert shown[6:] == ["not merged into main"]
    assert len(obstacles) == 7
    with pytest.raises(PlaybookError, match="obstacle"):
        beside.finish()
    assert beside.stands


def test_submodules_are_an_obstacle_until_they_are_deinitialised(
    beside: Beside, tmp_path: Path
) -> None:
    library = Project(tmp_path / "library", beside.main.home)
    library.write("a.txt", "a\n")
    library.git("init", "-q")
    library.commit("Begin")
    allowed = ("-c", "protocol.file.allow=always", "submodule", "--quiet")
    beside.tree.git(*allowed, "add", str(library.root), "lib")
    beside.tree.commit("Use a library")
    merge(beside.main)
    (told,) = beside.looked_at().obstacles
    assert told.startswith("submodules are checked out,")
    assert "`git submodule deinit --all`" in told
    beside.tree.git("submodule", "--quiet", "deinit", "--all")
    beside.finish()
    assert not beside.stands


def test_a_gate_that_waits_is_named_with_the_way_to_answer_it(installed: Project) -> None:
    beside = Beside(installed)
    driving.run("auto-validate", ["014"], cwd=beside.tree.root, drive=_planning(installed))
    (waits, *_) = beside.looked_at().obstacles
    assert waits.startswith(
        f"session {beside.id} waits for an answer at qa-run#1?1: playbook answer {beside.id} …, "
        f"then playbook resume {beside.id}, or abort it; it asks: "
    )
    assert "qa-run" in waits.partition("it asks: ")[2]


def test_a_worktree_is_not_removed_for_a_session_that_a_merge_brought(beside: Beside) -> None:
    """Its own has gone, and a younger worktree has a copy of the journal."""
    main = beside.main
    merge(main)
    beside.finish()
    younger = starting.start("auto-validate", ["013"], cwd=main.root, branch="013-again")
    driving.abort(younger.session_id, "abort", cwd=main.root)
    assert (younger.root / ".playbooks/sessions" / beside.id).is_dir()
    assert beside.looked_at().root == beside.tree.root, "which has gone"
    beside.finish()
    with pytest.raises(StateError) as caught:
        finishing.plan(cwd=main.root)
    assert caught.value.guidance.endswith(f"playbook finish {younger.session_id}.")
    assert younger.root.is_dir()


def test_a_session_of_the_main_checkout_has_no_worktree(project: Project) -> None:
    done = driving.run("auto-validate", ["013"], cwd=project.root, drive=_scripted(project))
    with pytest.raises(StateError) as caught:
        finishing.plan(done.snapshot.manifest.session_id, cwd=project.root)
    assert caught.value.code == "PB-STATE-NO-WORKTREE"


def test_without_a_name_those_that_have_a_worktree_are_named(installed: Project) -> None:
    with pytest.raises(StateError) as none:
        finishing.plan(cwd=installed.root)
    assert none.value.code == "PB-STATE-NO-SESSION"
    beside = Beside(installed)
    with pytest.raises(StateError) as caught:
        finishing.plan(cwd=installed.root)
    assert caught.value.guidance.endswith(f"playbook finish {beside.id}.")
    assert finishing.plan(cwd=beside.tree.root).session_id == beside.id


def _planning(project: Project) -> DriveOptions:
    script = "steps: {qa-plan: {write: {'.qa/{{feature}}/test-plan.md': a plan}}}"
    return DriveOptions(agent=project.script(script))


def _scripted(project: Project) -> DriveOptions:
    return DriveOptions(agent=project.script("default: {fail: never mind}\n"))


def test_there_may_be_nothing_to_merge_into(beside: Beside) -> None:
    beside.main.git("switch", "-q", "--detach")
    beside.main.git("branch", "-D", "-q", "main", "013-playbook-create")
    assert beside.looked_at().obstacles == (
        "there is no other branch that it could have been merged into",
    )


def test_a_main_branch_is_never_removed(installed: Project) -> None:
    """The main checkout is on another branch, and a worktree is on main."""
    installed.git("switch", "-q", "-c", "work")
    installed.git("worktree", "add", "-q", "../kept", "main")
    kept = Project(installed.root.with_name("kept"), installed.home)
    done = driving.run("auto-validate", ["014"], cwd=kept.root, drive=_scripted(installed))
    kept.write("made.txt", "x\n")
    kept.commit("On main")
    plan = finishing.plan(done.snapshot.manifest.session_id, cwd=kept.root)
    assert (plan.branch, plan.obstacles) == ("", ())
    finishing.finish(plan)
    assert not kept.root.exists()
    assert "main" in worktree.heads(installed.root)


def test_a_commit_without_a_branch_must_be_merged_as_well(beside: Beside) -> None:
    beside.tree.git("switch", "-q", "--detach")
    beside.main.git("branch", "-D", "-q", NEW)
    assert beside.looked_at().obstacles
    beside.main.git("merge", "-q", beside.tree.git("rev-parse", "HEAD"))
    beside.finish()
    assert not beside.tree.root.exists()


# ── with force ──────────────────────────────────────────────────────────────────────────────


def test_force_removes_it_and_aborts_its_open_session(installed: Project) -> None:
    beside = Beside(installed)
    beside.write()
    brought, _ = finishing.finish(beside.looked_at(), force=True)
    assert not beside.stands
    assert journals(brought) == (beside.id,)
    known = locate.store(installed.root).manifest(beside.id)
    assert known.status is SessionStatus.ABORTED
    assert "finish --force" in installed.read(f".playbooks/sessions/{beside.id}/journal.yaml")


# ── the journal's end ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def merged_too_early(installed: Project) -> Beside:
    """Its branch was squashed while the session waited; its end is on the branch alone."""
    beside = Beside(installed)
    beside.write()
    squash(installed)
    beside.end()
    return beside


def test_an_end_after_the_merge_is_copied_to_the_main_checkout(merged_too_early: Beside) -> None:
    main = merged_too_early.main
    assert status(main, merged_too_early.id) is SessionStatus.PENDING
    (merged_too_early.tree.session / "link").symlink_to("/etc/passwd")
    (merged_too_early.tree.session / "a-file.txt").write_text("x\n")
    assert journals(merged_too_early.finish()[1]) == (merged_too_early.id,)
    assert status(main, merged_too_early.id) is SessionStatus.ABORTED
    changed = {name.rpartition("/")[2] for name in main.git("status", "--porcelain").split()}
    assert changed == {"M", "journal.yaml", "session.yaml", "??", "a-file.txt"}


# ── a worktree that is gone already ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("registered", [True, False])
def test_the_branch_of_a_removed_worktree_is_removed(beside: Beside, registered: bool) -> None:
    merge(beside.main)
    beside.main.git("worktree", "remove", "--force", str(beside.tree.root))
    if registered:
        beside.main.git("worktree", "add", "-q", str(beside.tree.root), NEW)
        subprocess.run(["rm", "-rf", beside.tree.root], check=True)
    plan, _ = beside.finish()
    assert (plan.gone, plan.merged) == (True, "merged into main")
    assert NEW not in worktree.heads(beside.main.root)
    assert beside.finish()[0].branch == ""


def test_unmerged_work_of_a_removed_worktree_is_kept(beside: Beside) -> None:
    squash(beside.main)
    beside.write("later\n", "later.txt")
    beside.main.git("worktree", "remove", "--force", str(beside.tree.root))
    with pytest.raises(PlaybookError, match="2 obstacles"):
        beside.finish()
    assert NEW in worktree.heads(beside.main.root)


# ── what is kept of a start ─────────────────────────────────────────────────────────────────


def test_an_unreadable_base_is_unknown(beside: Beside) -> None:
    private = locate.store(beside.tree.root).runtime(beside.id)
    known = worktree.saved(private)
    assert known is not None
    assert known.ref == "refs/heads/main"
    (private / "base.json").write_text('{"x": 1}')
    assert worktree.saved(private) is None
    merge(beside.main)
    assert beside.finish()[0].merged == "merged into main"
