"""`commit` steps commit what they name, take up what the remote has, and push (cat FR-4.4)."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.scratch_project import FEATURE, Project, remote
from support.task_run import Bench, task

from playbook_supervisor.executors.commit import CommitExecutor
from playbook_supervisor.kernel.directives import Failure, Outcome

COMMIT = CommitExecutor()
MESSAGE = "Add a parser"
JOURNAL = ".playbooks/sessions/20260219-a7k/journal.yaml"


def outcome(project: Project, *paths: str, **options: Any) -> Outcome:
    """Of a commit that is neither pulled nor pushed, unless the options say so."""
    return Bench(project.root).outcome(COMMIT, step(*paths, **options))


def step(*paths: str, **options: Any) -> Any:
    chosen = {"message": MESSAGE, "push": False, "pull": False, "paths": list(paths), **options}
    return task(namespace="commit", options=chosen)


def committed(project: Project, *paths: str, **options: Any) -> list[str]:
    """The files of the new commit."""
    before = project.git("rev-parse", "HEAD")
    done = outcome(project, *paths, **options)
    assert done.error is None, done.error
    assert project.git("rev-parse", "HEAD^") == before
    asked = ("show", "--format=", "--name-only", "--no-renames")
    listed = project.git("-c", "core.quotePath=false", *asked).splitlines()
    assert done.data["files"] == sorted(listed)
    assert done.data["commit"] == project.git("rev-parse", "HEAD")
    return sorted(listed)


def refusal(project: Project, *paths: str, **options: Any) -> Failure:
    """The failure, after which HEAD, index and working tree are what they were."""
    before = state(project)
    error = Bench(project.root).error(COMMIT, step(*paths, **options))
    assert state(project) == before
    assert error.code in ("PB-STEP-GIT", "PB-STEP-INPUT")
    return error


def state(project: Project) -> tuple[str, ...]:
    asked = ("status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--untracked-files=all")
    found = project.git(*asked).replace("branch.ab +? -?", "branch.ab +0 -0")  # of the remote
    return found, project.git("diff", "HEAD"), project.git("ls-files", "--stage")


def hook(project: Project, name: str, script: str) -> None:
    project.write(f".git/hooks/{name}", f"#!/bin/sh\n{script}\n").chmod(0o755)


@pytest.fixture
def changed(project: Project) -> Project:
    """A file changed, one removed, two new, and a session that is being recorded."""
    project.write("src/old.py", "old\n")
    project.write("docs/guide.md", "old\n")
    project.commit("More")
    (project.root / "src/old.py").unlink()
    project.write("src/new.py", "new\n")
    project.write("src/deep/er.py", "new\n")
    project.write("docs/guide.md", "new\n")
    project.write(JOURNAL, "entries: []\n")
    return project


# ── what is committed ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("paths", "files"),
    [
        (["src"], ["src/deep/er.py", "src/new.py", "src/old.py"]),
        (["src/*"], ["src/new.py", "src/old.py"]),
        (["**/*.md"], ["docs/guide.md"]),
        (["./"], ["docs/guide.md", "src/deep/er.py", "src/new.py", "src/old.py"]),
        ([".playbooks/sessions/**", "docs"], [JOURNAL, "docs/guide.md"]),
    ],
)
def test_only_what_the_patterns_name_is_committed(
    changed: Project, paths: list[str], files: list[str]
) -> None:
    """Sessions are left to the supervisor unless a pattern names them."""
    rest = set(changed.git("ls-files", "-omd", "--exclude-standard").splitlines()) - set(files)
    assert committed(changed, *paths) == files
    left = changed.git("ls-files", "-omd", "--exclude-standard").splitlines()
    assert set(left) == rest


def test_the_message_is_what_the_step_says(changed: Project) -> None:
    message = "Add a parser\n\n# Why\n\nIt is `$HOME` faster; --amend \x1b[31mred\n"
    committed(changed, "src", message=message)
    told = changed.git("log", "-1", "--format=%B").strip()
    assert told == "Add a parser\n\n# Why\n\nIt is `$HOME` faster; --amend red"


def test_a_persons_staged_changes_stay_staged(changed: Project) -> None:
    changed.git("add", "docs/guide.md")
    changed.write("docs/guide.md", "newer\n")
    changed.write("staged.txt", "new\n")
    changed.git("add", "staged.txt")
    before = changed.git("diff", "--cached"), changed.git("diff", "--", "docs")
    assert committed(changed, "src") == ["src/deep/er.py", "src/new.py", "src/old.py"]
    assert (changed.git("diff", "--cached"), changed.git("diff", "--", "docs")) == before


def test_names_mean_themselves(project: Project) -> None:
    names = ["*.txt", ":(exclude)a", "-f", "a b", "\u00fc.txt"]
    for name in [*names, "other.txt"]:
        project.write(f"odd/{name}", "x\n")
    assert committed(project, "odd/[!o]*") == [f"odd/{name}" for name in sorted(names)]


def test_a_pattern_cannot_be_an_option_or_magic(changed: Project) -> None:
    for path in (":(exclude)src", "--all", ":/", "-a"):
        assert outcome(changed, path).output == f"nothing to commit in {path}"


def test_ignored_files_stay_out(changed: Project) -> None:
    changed.write(".gitignore", "src/new.py\n")
    assert committed(changed, "src") == ["src/deep/er.py", "src/old.py"]


def test_nothing_to_commit_is_no_error(changed: Project) -> None:
    head = changed.git("rev-parse", "HEAD")
    done = outcome(changed, "specs/**", "README.md")
    assert done.ok
    assert done.output == "nothing to commit in specs/**, README.md"
    assert done.data == {"commit": "", "files": [], "pushed": ""}
    assert changed.git("rev-parse", "HEAD") == head


def test_the_first_commit_of_a_repository_can_be_made(project: Project) -> None:
    shutil.rmtree(project.root / ".git")
    project.git("init", "-q")
    done = outcome(project, "README.md")
    assert done.error is None, done.error
    assert project.git("ls-tree", "--name-only", "HEAD") == "README.md"


# ── refusals ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["src/../../x", "/etc/passwd", "a\nb"])
def test_a_pattern_stays_in_the_repository(changed: Project, path: str) -> None:
    assert refusal(changed, path).message.endswith("is no path inside the repository")


def test_an_empty_message_is_refused(changed: Project) -> None:
    assert refusal(changed, "src", message=" \n").message == "the message of the commit is empty"


def test_a_hook_that_refuses_is_quoted(changed: Project) -> None:
    hook(changed, "pre-commit", "echo src/new.py: missing docstring; echo 1 problem >&2; exit 1")
    bench = Bench(changed.root)
    error = bench.error(COMMIT, step("src"))
    assert error.message.startswith("git commit was refused: ")
    assert "src/new.py: missing docstring" in error.cause
    assert "1 problem" in error.message
    assert "src/new.py: missing docstring" in bench.shown
    refusal(changed, "src")


def test_a_hook_may_change_what_is_committed(changed: Project) -> None:
    hook(changed, "pre-commit", "echo formatted > src/new.py; git add src/new.py")
    outcome(changed, "src")
    assert changed.git("show", "HEAD:src/new.py") == "formatted"


def test_without_an_author_it_says_how_to_name_one(
    changed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NAME", "EMAIL"):
        for whose in ("AUTHOR", "COMMITTER"):
            monkeypatch.delenv(f"GIT_{whose}_{name}", raising=False)
    monkeypatch.delenv("EMAIL", raising=False)
    config = changed.root.with_name("config")
    config.write_text("[user]\n\tuseConfigOnly = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    assert "git config user.email" in refusal(changed, "src").guidance


def test_a_lock_of_another_git_is_named(changed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playbook_supervisor.system.git.git_unattended._PAUSES", (0.01, 0.01))
    lock = changed.write(".git/index.lock", "")
    error = Bench(changed.root).error(COMMIT, step("src"))
    assert error.message == f"another git holds {lock}"
    lock.unlink()
    assert committed(changed, "src")


def test_a_lock_that_goes_away_is_waited_for(changed: Project) -> None:
    lock = changed.write(".git/index.lock", "")
    threading.Timer(0.3, lock.unlink).start()
    assert committed(changed, "src")


# ── the remote ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def origin(changed: Project) -> Project:
    """A bare remote that holds the branch."""
    return remote(changed)


def colleague(changed: Project) -> Project:
    """A second clone of the remote, on the branch."""
    folder = changed.root.with_name("colleague")
    changed.git(
        "clone", "-q", "--branch", FEATURE, str(changed.root.with_name("remote.git")), str(folder)
    )
    return Project(folder, changed.home)


def both(project: Project, *paths: str, **options: Any) -> Outcome:
    return outcome(project, *paths, push=True, pull=True, **options)


def test_the_commit_is_pushed(changed: Project, origin: Project) -> None:
    done = both(changed, "src")
    head = changed.git("rev-parse", "HEAD")
    assert done.output == f"committed 3 files as {head[:7]}\npushed {FEATURE} to origin"
    assert done.data["pushed"] == f"origin/{FEATURE}"
    assert origin.git("rev-parse", FEATURE) == head


def test_another_upstream_is_neither_pushed_to_nor_replaced(
    changed: Project, origin: Project
) -> None:
    before = origin.git("rev-parse", FEATURE)
    changed.git("switch", "-q", "-c", "fix", "--track", f"origin/{FEATURE}")
    assert both(changed, "src").data["pushed"] == "origin/fix"
    assert origin.git("rev-parse", FEATURE) == before
    assert changed.git("rev-parse", "--abbrev-ref", "@{upstream}") == f"origin/{FEATURE}"


def test_nothing_to_commit_pushes_what_was_not_pushed(changed: Project, origin: Project) -> None:
    """An attempt that was interrupted between commit and push is made up for."""
    committed(changed, "src")
    done = both(changed, "src")
    assert done.output == f"nothing to commit in src\npushed {FEATURE} to origin"
    assert both(changed, "src").output == "nothing to commit in src"
    changed.git("switch", "-q", "-c", "empty")
    assert both(changed, "src").data["pushed"] == ""
    assert "empty" not in origin.git("branch", "--list")


def test_commits_of_others_are_taken_up_before(changed: Project, origin: Project) -> None:
    other = colleague(changed)
    other.write("theirs.txt", "theirs\n")
    other.commit("Theirs")
    other.git("push", "-q")
    bench = Bench(changed.root)
    done = bench.outcome(COMMIT, step("src", push=True, pull=True))
    assert done.ok
    assert bench.shown[0] == f"took up 1 commit of origin/{FEATURE}"
    assert changed.read("theirs.txt") == "theirs\n"
    assert changed.git("log", "-2", "--format=%s").splitlines() == [MESSAGE, "Theirs"]
    assert origin.git("rev-parse", FEATURE) == changed.git("rev-parse", "HEAD")


def test_a_diverged_branch_is_left_alone(changed: Project, origin: Project) -> None:
    other = colleague(changed)
    other.write("theirs.txt", "theirs\n")
    other.commit("Theirs")
    other.git("push", "-q")
    committed(changed, "docs")
    error = refusal(changed, "src", push=True, pull=True)
    assert error.message == (
        f"{FEATURE} and origin/{FEATURE} have diverged: 1 commit only here, 1 commit only there"
    )
    assert error.guidance == "Rebase or merge by hand, then run the step again."
    assert origin.git("log", "-1", "--format=%s", FEATURE) == "Theirs"


def test_a_push_that_comes_too_late_keeps_the_commit(changed: Project, origin: Project) -> None:
    other = colleague(changed)
    other.write("theirs.txt", "theirs\n")
    other.commit("Theirs")
    hook(changed, "post-commit", f"git -C '{other.root}' push -q")
    error = Bench(changed.root).error(COMMIT, step("src", push=True, pull=True))
    head = changed.git("rev-parse", "HEAD")
    assert error.message == (
        f"committed {head[:7]}, but origin/{FEATURE} did not take the push: "
        "[rejected] (fetch first)"
    )
    assert error.guidance == "Rebase or merge what it has, then run the step again."
    assert origin.git("log", "-1", "--format=%s", FEATURE) == "Theirs"


def test_a_hook_of_the_remote_is_quoted(changed: Project, origin: Project) -> None:
    refuses = origin.write("hooks/pre-receive", "#!/bin/sh\necho no secrets here\nexit 1\n")
    refuses.chmod(0o755)
    error = Bench(changed.root).error(COMMIT, step("src", push=True))
    assert "[remote rejected] (pre-receive hook declined): remote: no secrets here" in error.message
    refuses.unlink()
    assert both(changed, "src").data["pushed"] == f"origin/{FEATURE}"


def test_without_a_remote_nothing_is_committed_unless_it_may_stay_here(changed: Project) -> None:
    error = refusal(changed, "src", push=True)
    assert error.message == f"there is no remote to push {FEATURE} to"
    assert "`push: false`" in error.guidance
    assert committed(changed, "src", pull=True)


def test_a_remote_that_cannot_be_reached_is_named_before_anything_is_committed(
    changed: Project, origin: Project
) -> None:
    shutil.rmtree(origin.root)
    error = refusal(changed, "src", push=True)
    assert error.message.startswith("asking origin for its branches was refused: ")


# ── interruption ────────────────────────────────────────────────────────────────────────────


class Second(Bench):
    """A bench beside another one in the repository."""

    @property
    def worker_file(self) -> Path:
        return self.folder.parent / "second"


def test_two_steps_at_once_commit_one_after_the_other(changed: Project) -> None:
    hook(changed, "pre-commit", "sleep 0.2")
    outcomes: list[Outcome] = []

    def commit(bench: Bench, path: str) -> None:
        outcomes.append(bench.outcome(COMMIT, step(path)))

    steps = [(Bench(changed.root), "src"), (Second(changed.root), "docs")]
    threads = [threading.Thread(target=commit, args=each) for each in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.error for each in outcomes] == [None, None]
    assert sorted(len(each.data["files"]) for each in outcomes) == [1, 3]
    assert changed.git("log", "-2", "--format=%s").splitlines() == [MESSAGE, MESSAGE]
    assert changed.git("status", "--porcelain", "--", "src", "docs") == ""


def test_a_deadline_leaves_no_lock_and_no_new_names(changed: Project) -> None:
    hook(changed, "pre-commit", "echo checking; sleep 600")
    before = state(changed)
    bench = Bench(changed.root)
    context = bench.context(wall=1.0)
    assert bench.error(COMMIT, step("src"), context).code == "PB-STEP-TIMEOUT"
    assert state(changed) == before
    assert not (changed.root / ".git/index.lock").exists()


def test_a_killed_git_is_made_up_for_by_the_next_attempt(changed: Project) -> None:
    """The names that it added to the index are committed all the same."""
    hook(changed, "pre-commit", "echo $PPID > ../git.pid; sleep 600")
    pid = changed.root.parent / "git.pid"

    def kill() -> None:
        while not (pid.exists() and pid.read_text().strip()):
            time.sleep(0.02)
        os.kill(int(pid.read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    error = Bench(changed.root).error(COMMIT, step("src"))
    killer.join()
    assert error.code == "PB-STEP-GIT"
    Path(changed.root / ".git/hooks/pre-commit").unlink()
    for lock in (changed.root / ".git").rglob("*.lock"):
        lock.unlink()  # as the next error would say
    assert committed(changed, "src") == ["src/deep/er.py", "src/new.py", "src/old.py"]
