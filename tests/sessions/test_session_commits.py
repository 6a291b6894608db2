"""One session's folder in git, in real repositories in many states."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from support.controlled_time import HOUR, put_clock_forward, shorten_grace

from playbook_supervisor.errors import GitError
from playbook_supervisor.sessions.publication.session_commits import Commit, SessionInGit
from playbook_supervisor.system.git import checkout

SESSION = "20260219-a7k"
FOLDER = f".playbooks/sessions/{SESSION}"
FILES = [f"{FOLDER}/{name}" for name in ("journal.yaml", "playbook.yaml", "session.yaml")]
MESSAGE = f"""\
Record session {SESSION} before pr

auto-feature 013-x: 7/8 steps done

Playbook-Session: {SESSION}
Playbook-Name: auto-feature"""


class Repository:
    """A repository with one commit, a branch of its own, and an uncommitted session."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, *arguments: str) -> str:
        argv = ["git", *arguments]
        done = subprocess.run(argv, cwd=self.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.removesuffix("\n")

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def hook(self, name: str, script: str) -> None:
        self.write(f".git/hooks/{name}", f"#!/bin/sh\n{script}\n").chmod(0o755)

    def hangs(self, hook: str, patch: pytest.MonkeyPatch) -> None:
        """The hook never ends; once it has begun, the timeout is over."""
        shorten_grace(patch)
        begun = self.root.with_name(f"{hook}-has-begun")
        self.hook(hook, f"touch '{begun}'; sleep 600")
        put_clock_forward(patch, lambda: HOUR * begun.exists())

    def journals(self, text: str) -> None:
        self.write(f"{FOLDER}/journal.yaml", text)

    def session(self, patience: float = 60.0) -> SessionInGit:
        return SessionInGit(checkout.find(self.root), SESSION, timeout=patience)

    def commit(self, patience: float = 60.0, *, known: bool = False) -> Commit | None:
        body = "auto-feature 013-x: 7/8 steps done"
        subject = f"Record session {SESSION} before pr"
        return self.session(patience).commit(subject, body, "auto-feature", known=known)

    def refuses(self, patience: float = 60.0) -> GitError:
        """The refusal, after which HEAD, index and working tree are what they were."""
        before = self.state
        with pytest.raises(GitError) as caught:
            self.commit(patience)
        assert self.state == before
        assert caught.value.code == "PB-GIT-COMMIT"
        return caught.value

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    @property
    def files(self) -> list[str]:
        """What the last commit has changed."""
        return self.git("show", "--format=", "--name-only").splitlines()

    @property
    def state(self) -> tuple[str, ...]:
        asked = ("status", "--porcelain=v2", "--branch", "--untracked-files=all")
        return self.git(*asked), self.git("ls-files", "--stage", "--debug", "-t")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Repository(tmp_path_factory.mktemp("template") / "repository")
    made.write("a.txt", "one\ntwo\nthree\n")
    made.git("init", "-q")
    made.git("add", ".")
    made.git("commit", "-q", "-m", "Begin")
    made.git("switch", "-q", "-c", "013-x")
    for file in FILES:
        made.write(file, "schema: 1\n")
    return made.root


@pytest.fixture
def repository(template: Path, tmp_path: Path) -> Repository:
    shutil.copytree(template, tmp_path / "repository", symlinks=True)
    return Repository(tmp_path / "repository")


@pytest.fixture
def remote(repository: Repository) -> Repository:
    """A bare repository that holds the branch as it stands; the branch follows it."""
    bare = repository.root.with_name("remote.git")
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    repository.git("remote", "add", "origin", str(bare))
    repository.git("push", "-q", "--set-upstream", "origin", "013-x")
    return Repository(bare)


# ── the commit ──────────────────────────────────────────────────────────────────────────────


def test_a_session_is_one_commit_that_names_it(repository: Repository) -> None:
    """kai FR14."""
    before = repository.head
    assert repository.commit() == Commit(repository.head, before)
    assert repository.git("log", "-1", "--format=%B").strip() == MESSAGE
    assert repository.files == FILES
    assert repository.git("status", "--porcelain") == ""


def test_changes_are_committed_and_no_changes_are_not(repository: Repository) -> None:
    first = repository.commit()
    assert first
    assert repository.commit() is None
    repository.journals("schema: 1\nentries: []\n")
    repository.write(f"{FOLDER}/outputs/plan.json", "{}\n")
    second = repository.commit()
    assert second == Commit(repository.head, first.id)
    assert repository.files == [FILES[0], f"{FOLDER}/outputs/plan.json"]


def test_a_persons_staged_changes_stay(repository: Repository) -> None:
    """Staged, staged in part, intended, removed, untracked: none of it moves."""
    repository.write("a.txt", "ONE\ntwo\nthree\n")
    repository.git("add", "a.txt")
    repository.write("a.txt", "ONE\ntwo\nTHREE\n")
    repository.write("new.txt", "x\n")
    repository.write("meant.txt", "x\n")
    repository.write("loose.txt", "x\n")
    repository.git("add", "new.txt")
    repository.git("add", "--intent-to-add", "meant.txt")
    before = repository.git("status", "--porcelain", "-z", "--", ":!.playbooks")
    diffs = repository.git("diff"), repository.git("diff", "--cached")
    assert repository.commit()
    assert repository.files == FILES
    assert repository.git("status", "--porcelain", "-z") == before
    assert (repository.git("diff"), repository.git("diff", "--cached")) == diffs


def test_temporary_files_are_left_out(repository: Repository) -> None:
    unfinished = [f"{FOLDER}/.playbook-tmp-1", f"{FOLDER}/outputs/.playbook-tmp-2"]
    for file in unfinished:
        repository.write(file, "half")
    assert repository.commit()
    assert repository.files == FILES
    assert repository.git("ls-files", "--others").splitlines() == unfinished
    assert repository.commit() is None


def test_an_interrupted_commit_is_completed(repository: Repository) -> None:
    repository.git("add", "--intent-to-add", FOLDER)
    assert repository.commit()
    assert repository.files == FILES
    assert repository.git("status", "--porcelain") == ""


def test_only_a_session_that_git_knows_is_committed_where_that_is_asked(
    repository: Repository,
) -> None:
    assert repository.commit(known=True) is None
    repository.git("add", ".")  # staged is not known: the person may think better of it
    assert repository.commit(known=True) is None
    assert repository.commit()
    repository.journals("schema: 1\nentries: []\n")
    assert repository.commit(known=True)


def test_a_linked_worktree_and_one_of_a_bare_repository_commit_for_themselves(
    repository: Repository, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.git"
    repository.git("worktree", "add", "-q", "-b", "014-y", str(tmp_path / "beside"))
    subprocess.run(["git", "clone", "-q", "--bare", str(repository.root), str(bare)], check=True)
    Repository(bare).git("worktree", "add", "-q", str(tmp_path / "tree"), "main")
    trees = [repository, Repository(tmp_path / "beside"), Repository(tmp_path / "tree")]
    for tree in trees[1:]:
        shutil.copytree(repository.root / FOLDER, tree.root / FOLDER)
    made: list[Commit | None] = []
    threads = [threading.Thread(target=lambda t=tree: made.append(t.commit())) for tree in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.id for each in made if each) == sorted(tree.head for tree in trees)
    assert {tuple(tree.files) for tree in trees} == {tuple(FILES)}


def test_a_submodule_commits_in_itself(repository: Repository, tmp_path: Path) -> None:
    outer = Repository(tmp_path / "outer")
    outer.root.mkdir()
    outer.git("init", "-q")
    outer.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(repository.root))
    outer.git("commit", "-q", "-m", "Begin")
    inner = Repository(outer.root / "repository")
    shutil.copytree(repository.root / FOLDER, inner.root / FOLDER)
    assert inner.commit()
    assert inner.files == FILES
    assert outer.git("diff", "--cached") == ""


def test_a_sparse_checkout_commits_what_it_does_not_show(repository: Repository) -> None:
    repository.write("src/b.txt", "b\n")
    repository.git("add", "src")
    repository.git("commit", "-q", "-m", "More")
    repository.git("sparse-checkout", "set", "--cone", "src")
    assert repository.commit()
    assert repository.files == FILES
    repository.journals("schema: 1\nentries: []\n")
    assert repository.commit()


# ── what stands in the way ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("hook", ["pre-commit", "commit-msg"])
def test_the_message_of_a_refusing_hook_is_reported(repository: Repository, hook: str) -> None:
    repository.write("a.txt", "staged\n")
    repository.git("add", "a.txt")
    repository.hook(hook, "echo checking; printf '\\033[31mno journals here\\n' >&2; exit 1")
    refusal = repository.refuses()
    assert refusal.message == "git commit was refused: checking / no journals here"
    (repository.root / ".git/hooks" / hook).unlink()
    assert repository.commit()


def test_a_hook_that_hangs_is_ended_and_its_locks_with_it(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.hangs("pre-commit", monkeypatch)
    refusal = repository.refuses()
    assert refusal.message == "git commit took longer than 60 seconds, and was ended"
    assert not list(repository.root.glob(".git/*.lock"))


def test_a_hook_that_hangs_after_the_commit_undoes_nothing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.hangs("post-commit", monkeypatch)
    made = repository.commit()
    assert made is not None
    assert repository.files == FILES
    assert repository.git("status", "--porcelain") == ""


def test_a_hook_may_rewrite_the_message(repository: Repository, remote: Repository) -> None:
    """A commit without our trailer is not pushed."""
    repository.hook("commit-msg", 'echo "The journal" >"$1"')
    assert repository.commit() == Commit(repository.head, repository.git("rev-parse", "HEAD~1"))
    assert repository.session().push() == ""


def test_a_hook_may_add_a_file(repository: Repository) -> None:
    repository.hook("pre-commit", "echo x >stamp; git add stamp")
    assert repository.commit()
    assert repository.files == [*FILES, "stamp"]


def test_a_short_lock_is_waited_for(repository: Repository) -> None:
    lock = repository.write(".git/index.lock", "")
    release = threading.Timer(0.3, lock.unlink)
    release.start()
    assert repository.commit()
    release.join()


def test_a_lasting_lock_is_reported(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playbook_supervisor.system.git.git_unattended._PAUSES", (0.01, 0.01))
    lock = repository.write(".git/index.lock", "")
    with pytest.raises(GitError, match=r"another git holds .*index\.lock"):
        repository.commit()
    assert lock.exists()
    lock.unlink()
    assert repository.git("status", "--porcelain") == "?? .playbooks/"


def test_an_unfinished_merge_is_left_alone(repository: Repository) -> None:
    repository.git("switch", "-q", "-c", "other")
    repository.write("a.txt", "theirs\n")
    repository.git("commit", "-q", "-a", "-m", "Theirs")
    repository.git("switch", "-q", "013-x")
    repository.write("a.txt", "ours\n")
    repository.git("commit", "-q", "-a", "-m", "Ours")
    for command, what in (("merge", "a merge"), ("cherry-pick", "a cherry-pick")):
        subprocess.run(
            ["git", command, "other"], cwd=repository.root, capture_output=True, check=False
        )
        assert repository.refuses().message == f"{what} is under way"
        repository.git(command, "--abort")
    subprocess.run(
        ["git", "rebase", "other"], cwd=repository.root, capture_output=True, check=False
    )
    assert repository.refuses().message == "a rebase is under way"
    repository.git("rebase", "--abort")
    repository.git("reset", "-q")
    assert repository.commit()


def test_a_conflict_in_other_files_stays_one(repository: Repository) -> None:
    """As after `git stash pop`: no operation is in progress, and the index has conflicts."""
    repository.write("a.txt", "mine\n")
    repository.git("stash", "-q")
    repository.write("a.txt", "yours\n")
    repository.git("commit", "-q", "-a", "-m", "Yours")
    subprocess.run(["git", "stash", "pop"], cwd=repository.root, capture_output=True, check=False)
    before = repository.git("ls-files", "--unmerged"), repository.git("diff")
    assert repository.commit()
    assert repository.files == FILES
    assert (repository.git("ls-files", "--unmerged"), repository.git("diff")) == before


def test_on_no_branch_nothing_is_committed(repository: Repository) -> None:
    repository.git("switch", "-q", "--detach")
    refusal = repository.refuses()
    assert refusal.message == "HEAD is on no branch"
    assert FOLDER in refusal.guidance


def test_the_first_commit_is_the_persons(tmp_path: Path, repository: Repository) -> None:
    unborn = Repository(tmp_path / "unborn")
    shutil.copytree(repository.root / FOLDER, unborn.root / FOLDER)
    unborn.git("init", "-q")
    with pytest.raises(GitError, match="there is no commit yet"):
        unborn.commit()
    assert unborn.git("status", "--porcelain") == "?? .playbooks/"


def test_an_ignored_folder_is_reported(repository: Repository) -> None:
    repository.write(".gitignore", ".playbooks/sessions/\n")
    refusal = repository.refuses()
    assert refusal.message == f"git ignores {FOLDER}"
    assert "commit_sessions: never" in refusal.guidance
    repository.git("add", "--force", *FILES[:1])  # what is tracked is not ignored any more
    assert repository.commit()
    assert repository.files == FILES[:1]


def test_without_an_identity_git_says_what_is_missing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    repository.git("config", "user.useConfigOnly", "true")
    refusal = repository.refuses()
    assert refusal.message.startswith("git commit was refused: fatal: no email was given")
    assert "`git config user.email ADDRESS`" in refusal.guidance


def test_git_shows_no_prompt(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at a terminal nor in a window."""
    monkeypatch.setenv("GPG_TTY", "/dev/pts/0")
    monkeypatch.setenv("SSH_ASKPASS", "/bin/window")
    seen = repository.root / ".git/seen"
    repository.hook("pre-commit", f"env >{seen}; (: </dev/tty) 2>/dev/null && echo tty >>{seen}; :")
    assert repository.commit()
    said = seen.read_text().splitlines()
    assert "GIT_TERMINAL_PROMPT=0" in said
    assert not [line for line in said if line.startswith(("GPG_TTY", "SSH_ASKPASS=", "tty"))]


# ── the push ────────────────────────────────────────────────────────────────────────────────


def test_the_last_commit_is_pushed_where_its_parent_is(
    repository: Repository, remote: Repository
) -> None:
    assert repository.commit()
    assert repository.session().push() == "origin/013-x"
    assert remote.git("rev-parse", "013-x") == repository.head
    assert repository.git("rev-parse", "origin/013-x") == repository.head
    assert repository.session().push() == ""


def test_commits_of_a_persons_are_not_published_with_it(
    repository: Repository, remote: Repository
) -> None:
    before = repository.head
    repository.git("commit", "-q", "--allow-empty", "-m", "Mine")
    mine = repository.head
    assert repository.commit()
    with pytest.raises(GitError, match=f"origin/013-x is not at {mine[:7]}") as caught:
        repository.session().push()
    assert caught.value.code == "PB-GIT-PUSH"
    assert remote.git("rev-parse", "013-x") == before


def test_a_commit_with_other_files_is_not_pushed(
    repository: Repository, remote: Repository
) -> None:
    before = repository.head
    assert repository.session().push() == ""  # a commit of the person's
    assert repository.commit()
    repository.write("a.txt", "mine\n")
    repository.git("commit", "-q", "-a", "--amend", "--no-edit")
    assert repository.session().push() == ""
    assert remote.git("rev-parse", "013-x") == before


def test_only_the_branch_of_the_same_name_is_pushed_to(
    repository: Repository, remote: Repository
) -> None:
    """A branch that was made from origin/main follows it; it is not to land there."""
    repository.git("push", "-q", "origin", "013-x:main")
    repository.git("switch", "-q", "-c", "014-y", "--track", "origin/main")
    assert repository.commit()
    with pytest.raises(GitError, match="origin holds no branch 014-y"):
        repository.session().push()
    assert remote.git("rev-parse", "main") != repository.head


def test_without_a_remote_nothing_is_reported(repository: Repository, template: Path) -> None:
    assert repository.commit()
    assert repository.session().push() == ""  # no remote
    repository.git("remote", "add", "one", str(template))
    repository.git("remote", "add", "two", str(template))
    assert repository.session().push() == ""  # which one?
    repository.git("config", "branch.013-x.remote", ".")
    assert repository.session().push() == ""  # a local branch
    repository.git("switch", "-q", "--detach")
    assert repository.session().push() == ""


def test_a_branch_without_upstream_is_pushed_to_the_remote_that_has_it(
    repository: Repository, remote: Repository, template: Path
) -> None:
    repository.git("branch", "--unset-upstream")
    assert repository.commit()
    assert repository.session().push() == "origin/013-x"
    repository.git("remote", "add", "fork", str(template))
    repository.journals("schema: 1\nentries: []\n")
    assert repository.commit()
    assert repository.session().push() == "origin/013-x"
    repository.git("config", "remote.pushDefault", "fork")
    repository.journals("schema: 1\n")
    assert repository.commit()
    with pytest.raises(GitError, match="fork/013-x is not at"):
        repository.session().push()


def test_the_parent_is_compared_at_the_push_url(
    repository: Repository, remote: Repository, tmp_path: Path
) -> None:
    """And a branch of which the name is a part is another one."""
    subprocess.run(
        ["git", "clone", "-q", "--bare", str(remote.root), str(tmp_path / "b")], check=True
    )
    fork = Repository(tmp_path / "b")
    repository.git("remote", "set-url", "--push", "origin", str(fork.root))
    assert repository.commit()
    repository.git("update-ref", "-d", "refs/remotes/origin/013-x")
    fork.git("update-ref", "refs/heads/refs/heads/013-x", "013-x")
    fork.git("update-ref", "-d", "refs/heads/013-x")
    with pytest.raises(GitError, match="origin holds no branch 013-x"):
        repository.session().push()


@pytest.mark.parametrize(
    ("hook", "to"), [("pre-push", "1"), ("pre-push", "2"), ("pre-receive", "2")]
)
def test_a_refused_push_is_reported(
    repository: Repository, remote: Repository, hook: str, to: str
) -> None:
    """Git leaves a pre-push hook's stdout alone, where many of them say why."""
    before = repository.head
    script = f"echo 'not on a Friday' >&{to}; exit 1"
    if hook == "pre-push":
        repository.hook(hook, script)
    else:
        file = remote.write(f"hooks/{hook}", f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    assert repository.commit()
    with pytest.raises(GitError) as caught:
        repository.session().push()
    assert caught.value.code == "PB-GIT-PUSH"
    said, *_ = caught.value.cause.splitlines()
    assert said.endswith("not on a Friday")
    assert "not on a Friday" in caught.value.message
    assert remote.git("rev-parse", "013-x") == before


def test_a_remote_that_moves_on_meanwhile_is_not_overwritten(
    repository: Repository, remote: Repository, tmp_path: Path
) -> None:
    """Even configured to force: another push comes between the look and ours."""
    assert repository.commit()
    repository.git("config", "remote.origin.push", "+refs/heads/*:refs/heads/*")
    other = tmp_path / "other"
    subprocess.run(["git", "clone", "-q", "-b", "013-x", str(remote.root), str(other)], check=True)
    elsewhere = Repository(other)
    elsewhere.git("commit", "-q", "--allow-empty", "-m", "Theirs")
    repository.hook("pre-push", f"env -u GIT_DIR git -C {other} push -q")
    with pytest.raises(GitError, match="git push was refused"):
        repository.session().push()
    assert remote.git("rev-parse", "013-x") == elsewhere.head


def test_the_error_of_an_unreachable_remote_contains_no_password(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none is asked for."""
    repository.git("remote", "add", "origin", "https://ada:secret@127.0.0.1:9/x.git")
    assert repository.commit()
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.delenv(name)
    with pytest.raises(GitError) as caught:
        repository.session().push()
    assert "secret" not in caught.value.message + caught.value.cause
    assert "127.0.0.1" in caught.value.cause


@pytest.mark.parametrize("said", ["environment", "config", ""])
def test_ssh_asks_nothing_and_a_persons_own_command_stays(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str
) -> None:
    seen = tmp_path / "seen"
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(f'#!/bin/sh\necho "$@" >{seen}\nexit 255\n')
    ssh.chmod(0o755)
    repository.git("remote", "add", "origin", "ssh://nowhere.example/x.git")
    monkeypatch.setenv("PATH", str(ssh.parent), prepend=":")
    if said == "environment":
        monkeypatch.setenv("GIT_SSH_COMMAND", f"{ssh} -v")
    elif said == "config":
        repository.git("config", "core.sshCommand", f"{ssh} -v")
    assert repository.commit()
    with pytest.raises(GitError):
        repository.session().push()
    assert ("BatchMode=yes" in seen.read_text()) == (not said)
    assert ("-v" in seen.read_text()) == bool(said)


def test_a_remote_that_does_not_answer_is_given_up(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_grace(monkeypatch)
    repository.git("remote", "add", "origin", "ssh://nowhere.example/x.git")
    asked = repository.root.with_name("asked")
    monkeypatch.setenv("GIT_SSH_COMMAND", f"touch '{asked}'; sleep 600;")
    put_clock_forward(monkeypatch, lambda: HOUR * asked.exists())
    assert repository.commit()
    with pytest.raises(GitError, match="git ls-remote took longer than 60 seconds"):
        repository.session().push()


def test_a_remotes_name_is_never_an_option(repository: Repository) -> None:
    stolen = repository.root.with_name("stolen")
    repository.git("config", "branch.013-x.remote", f"--upload-pack=touch {stolen};")
    assert repository.commit()
    with pytest.raises(GitError, match="git ls-remote was refused"):
        repository.session().push()
    assert not os.path.lexists(stolen)
