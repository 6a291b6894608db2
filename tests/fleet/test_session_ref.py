"""A session in git: its files travel from clone to clone, and only one worker can move it."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.git_repositories import git

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.fleet.engine.session_ref import Mirror, SessionClone, Tip
from playbook_supervisor.system.git.git_process import default_branch

ID = "20261125-abc"
REF = f"refs/playbook/sessions/{ID}"
FALLBACK = f"refs/heads/playbook-sessions/{ID}"
FOLDER = f".playbooks/sessions/{ID}"
BRANCH = "013-widgets"


class Site:
    """A remote with one commit on `main`, and the mirrors of machines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.remote = folder / "remote.git"
        self.url = f"file://{self.remote}"
        self._clones = count()

    def found(self) -> Site:
        work = self.folder / "founder"
        git(self.folder, "init", "-q", str(work))
        write(work, "README.md", "widgets\n")
        git(work, "add", ".")
        git(work, "commit", "-q", "-m", "Begin")
        git(work, "tag", "v1")
        git(self.folder, "clone", "-q", "--bare", str(work), str(self.remote))
        return self

    def mirror(self, machine: str = "here", seconds: float = 20.0) -> Mirror:
        return Mirror(self.folder / f"{machine}.git", self.url, ["file"], seconds=seconds)

    def path(self) -> Path:
        return self.folder / f"clone-{next(self._clones)}"

    def begun(self, machine: str = "here") -> SessionClone:
        """A clone with a session that is not pushed yet."""
        mirror = self.mirror(machine)
        commit, _ = mirror.base()
        clone = mirror.begin(commit, BRANCH, self.path())
        write(clone.path, f"{FOLDER}/session.yaml", "status: pending\n")
        return clone

    def claimed(self, machine: str, epoch: int = 1) -> tuple[Tip, SessionClone]:
        mirror = self.mirror(machine)
        tip = mirror.claim(mirror.tip(ID), epoch, machine)
        return tip, mirror.checkout(tip, self.path())

    def chain(self) -> list[str]:
        return git(self.remote, "rev-list", "--first-parent", REF, "--not", "main").split()

    def at(self, ref: str) -> str:
        return git(self.remote, "for-each-ref", "--format=%(objectname)", ref)

    def hook(self, name: str, text: str) -> None:
        hook = self.remote / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{text}")
        hook.chmod(0o755)

    def push_other_work(self, branch: str) -> str:
        other = self.path()
        git(self.folder, "clone", "-q", str(self.remote), str(other))
        git(other, "switch", "-q", "-C", branch)
        write(other, "other.txt", "theirs\n")
        git(other, "add", ".")
        git(other, "commit", "-q", "-m", "Work of someone else")
        git(other, "push", "-q", "origin", branch)
        return git(other, "rev-parse", "HEAD")


def write(root: Path, name: str, text: str | bytes) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def files(root: Path) -> dict[bytes, object]:
    """Each file but git's own: its bytes and whether it is executable, or where it links to."""
    found: dict[bytes, object] = {}
    for folder, folders, names in os.walk(os.fsencode(root)):
        if b".git" in folders and folder == os.fsencode(root):
            folders.remove(b".git")
        for name in (*names, *folders):
            path = os.path.join(folder, name)  # noqa: PTH118 - names that are no text
            key = os.path.relpath(path, os.fsencode(root))
            if os.path.islink(path):  # noqa: PTH114
                found[key] = os.readlink(path)  # noqa: PTH115
            elif name in names:
                found[key] = Path(os.fsdecode(path)).read_bytes(), os.access(path, os.X_OK)
    return found


@pytest.fixture(scope="module")
def founded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Site(tmp_path_factory.mktemp("founded")).found().remote


@pytest.fixture
def site(founded: Path, tmp_path: Path) -> Site:
    site = Site(tmp_path)
    shutil.copytree(founded, site.remote)
    return site


@pytest.fixture
def submitted(site: Site) -> Site:
    """A site whose remote has a session."""
    site.begun().create(ID)
    return site


def refused(code: str, call: Callable[[], object]) -> PlaybookError:
    with pytest.raises(PlaybookError) as error:
        call()
    assert error.value.code == code, error.value.message
    return error.value


# ── what travels ────────────────────────────────────────────────────────────────────────────


def test_every_file_of_the_work_tree_travels_to_another_machine_byte_by_byte(site: Site) -> None:
    clone = site.begun()
    root = clone.path
    write(
        root,
        ".gitattributes",
        "*.txt text eol=crlf\n*.lf text\n*.u16 working-tree-encoding=UTF-16\n",
    )
    write(root, "mixed.txt", b"one\r\ntwo\nthree\r")
    write(root, "unix.txt", "one\ntwo\n")
    write(root, "dos.lf", "one\r\ntwo\r\n")
    write(root, "odd.u16", b"\x00\x01$Id$")
    write(root, "tool", "#!/bin/sh\n").chmod(0o755)
    write(root, "empty", "")
    write(root, '-dash/ü "quote"\n*[a]:(top)', "odd\n")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe")).write_text("no text\n")
    (root / "link").symlink_to("nowhere/../..")
    (root / "README.md").unlink()
    git(root, "add", "tool")
    tip = clone.create(ID)

    _, there = site.claimed("there")
    assert files(there.path) == files(root)
    assert git(there.path, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert git(there.path, "rev-parse", "HEAD") == tip.head == site.at("refs/heads/main")
    assert git(there.path, "diff", "--cached", "--name-status") == ""
    assert "D README.md" in git(there.path, "status", "--porcelain")


def test_snapshots_follow_the_work_tree_and_the_commits_of_the_agent(submitted: Site) -> None:
    tip, clone = submitted.claimed("there")
    assert (tip.kind, tip.epoch, tip.worker) == ("claim", 1, "there")
    write(clone.path, "one.txt", "1")
    tip = clone.snapshot(tip)
    git(clone.path, "add", "one.txt")
    git(clone.path, "commit", "-q", "-m", "one")
    (clone.path / "README.md").unlink()
    tip = clone.snapshot(tip)
    one = git(clone.path, "rev-parse", "HEAD")
    (clone.path / "one.txt").unlink()
    tip = clone.snapshot(tip)

    assert (tip.head, tip.epoch, tip.worker, tip.kind) == (one, 1, "there", "snapshot")
    parents = git(submitted.remote, "rev-list", "--parents", "-2", "--first-parent", REF)
    assert [len(line.split()) for line in parents.splitlines()] == [2, 3]  # one came with one
    _, other = submitted.claimed("elsewhere", 2)
    assert files(other.path) == files(clone.path)
    assert git(other.path, "log", "-1", "--format=%s") == "one"
    assert git(submitted.remote, "fsck") == git(submitted.folder / "there.git", "fsck") == ""
    assert git(other.path, "fsck", "--no-dangling") == ""


def test_what_git_ignores_stays_but_the_sessions_folders_and_added_files_travel(site: Site) -> None:
    clone = site.begun()
    write(clone.path, ".gitignore", ".playbooks\nbuild\n*.log\n")
    write(clone.path, "build/tool", "made")
    write(clone.path, "kept.log", "committed")
    write(clone.path, "a.log/kept.log", "staged")
    write(clone.path, "gone.log", "staged, then removed")
    git(clone.path, "add", "-f", "kept.log")
    git(clone.path, "commit", "-q", "-m", "A log")
    git(clone.path, "add", "-f", "a.log", "gone.log")
    (clone.path / "gone.log").unlink()
    tip = clone.create(ID)
    child = write(clone.path, ".playbooks/sessions/20261125-def/session.yaml", "child\n")
    write(clone.path, ".playbooks/sessions/20261125-xyz/session.yaml", "of someone else\n")
    write(clone.path, f"{FOLDER}/.playbook-tmp-17", "half")
    write(clone.path, f"{FOLDER}/.playbook-tmp-folder/journal.yaml", "half")
    write(clone.path, "src/.playbook-tmp-18", "half")
    assert clone.other_sessions(ID) == ("20261125-def", "20261125-xyz")
    clone.snapshot(tip, children=["20261125-def", "../../etc"])

    _, there = site.claimed("there")
    assert set(files(there.path)) == {
        *(b".gitignore", b"README.md", b"kept.log", b"a.log/kept.log"),
        os.fsencode(f"{FOLDER}/session.yaml"),
        os.fsencode(child.relative_to(clone.path)),
    }


def test_an_added_file_that_git_ignores_travels_whenever_it_is_there(submitted: Site) -> None:
    tip, clone = submitted.claimed("there")
    git(clone.path, "update-index", "--split-index")
    write(clone.path, ".gitignore", "*.log\n")
    log = write(clone.path, "a.log", "1")
    git(clone.path, "add", "-f", "a.log")
    write(clone.path, "b.log", "announced")
    git(clone.path, "add", "-f", "--intent-to-add", "b.log")

    def travels() -> bool:
        return "a.log" in git(submitted.remote, "ls-tree", "--name-only", REF).split()

    tip = clone.snapshot(tip)
    assert travels()
    assert git(submitted.remote, "show", f"{REF}:b.log") == "announced"
    log.unlink()
    tip = clone.snapshot(tip)
    assert not travels()
    log.write_text("2")
    clone.snapshot(tip)
    assert travels()


def test_an_index_of_ours_that_an_agent_has_damaged_costs_no_file(submitted: Site) -> None:
    tip, clone = submitted.claimed("there")
    write(clone.path, ".gitignore", "*.log\n")
    write(clone.path, "kept.log", "committed")
    git(clone.path, "add", "-f", "kept.log")
    git(clone.path, "commit", "-q", "-m", "A log")
    tip = clone.snapshot(tip)
    before = files(clone.path)
    index = clone.path / ".git/playbook-snapshots/index"
    index.write_bytes(b"DIRC" + bytes(60))
    clone.snapshot(tip)
    _, other = submitted.claimed("other")
    assert files(other.path) == before


def test_an_empty_work_tree_and_a_branch_without_a_commit_travel(site: Site) -> None:
    clone = site.begun()
    git(clone.path, "switch", "-q", "--orphan", "fresh")
    shutil.rmtree(clone.path / ".playbooks")
    tip = clone.create(ID)
    assert (tip.head, tip.branch) == ("", "fresh")
    tip, there = site.claimed("there")
    assert files(there.path) == {}
    assert git(there.path, "status", "--porcelain", "--branch") == "## No commits yet on fresh"
    write(there.path, "first.txt", "1")
    git(there.path, "add", ".")
    git(there.path, "commit", "-q", "-m", "first")
    there.snapshot(tip, branch=True)
    assert site.at("refs/heads/fresh") == git(there.path, "rev-parse", "HEAD")


def test_a_clone_knows_its_remote_as_any_clone_does(submitted: Site) -> None:
    submitted.push_other_work("other/work")
    submitted.mirror("there").base()
    git(submitted.remote, "branch", "-m", "main", "trunk")
    git(submitted.remote, "symbolic-ref", "HEAD", "refs/heads/trunk")
    _, clone = submitted.claimed("there")
    assert git(clone.path, "remote", "get-url", "origin") == submitted.url
    assert default_branch(clone.path) == "trunk"
    assert git(clone.path, "describe", "--tags") == "v1"
    assert git(clone.path, "merge-base", "origin/other/work", "HEAD")
    git(clone.path, "fetch", "-q", "origin")
    git(clone.path, "push", "-q", "origin", BRANCH)


def test_a_clone_shares_no_reference_with_another_of_the_same_machine(submitted: Site) -> None:
    _, one = submitted.claimed("here", 1)
    _, two = submitted.claimed("here", 2)
    git(one.path, "commit", "-q", "--allow-empty", "-m", "overtaken")
    assert git(two.path, "rev-parse", BRANCH) == git(two.path, "rev-parse", "origin/main")
    one.remove()
    assert not one.path.exists()
    assert git(two.path, "fsck", "--no-dangling") == ""


@pytest.mark.parametrize("operation", ["merge", "rebase"])
def test_an_operation_under_way_does_not_disturb_a_snapshot(site: Site, operation: str) -> None:
    clone = site.begun()
    tip = clone.create(ID)
    git(clone.path, "switch", "-q", "-c", "other")
    write(clone.path, "README.md", "theirs\n")
    git(clone.path, "commit", "-q", "-a", "-m", "theirs")
    git(clone.path, "switch", "-q", BRANCH)
    write(clone.path, "README.md", "ours\n")
    git(clone.path, "commit", "-q", "-a", "-m", "ours")
    ours = git(clone.path, "rev-parse", "HEAD")
    done = subprocess.run(["git", operation, "other"], cwd=clone.path, capture_output=True)
    assert done.returncode == 1
    head = git(clone.path, "rev-parse", "HEAD")
    tip = clone.snapshot(tip, branch=True)

    assert (tip.branch, tip.head) == (BRANCH, head)
    assert (head == ours) is (operation == "merge")
    assert site.at(f"refs/heads/{BRANCH}") == ours  # nothing of half a rebase
    assert git(site.remote, "merge-base", "--is-ancestor", ours, REF) == ""
    _, there = site.claimed("there")
    assert b"<<<<<<<" in (there.path / "README.md").read_bytes()
    assert git(there.path, "rev-parse", BRANCH) == head


def test_another_branch_of_the_agent_becomes_the_sessions(submitted: Site) -> None:
    tip, clone = submitted.claimed("there")
    git(clone.path, "switch", "-q", "-c", "renamed")
    tip = clone.snapshot(tip, branch=True)
    assert tip.branch == "renamed"
    git(clone.path, "switch", "-q", "--detach")
    git(clone.path, "commit", "-q", "--allow-empty", "-m", "on no branch")
    tip = clone.snapshot(tip, branch=True)
    assert (tip.branch, tip.head) == ("renamed", git(clone.path, "rev-parse", "HEAD"))
    assert site_branches(submitted) == {"main", "renamed"}


def site_branches(site: Site) -> set[str]:
    return set(git(site.remote, "for-each-ref", "--format=%(refname:short)", "refs/heads").split())


def test_what_cannot_be_read_is_left_out_and_named(submitted: Site) -> None:
    tip, clone = submitted.claimed("there")
    git(clone.path, "init", "-q", "nested")
    write(clone.path, "nested/file", "in a repository without a commit")
    write(clone.path, "after.txt", "travels")
    tip = clone.snapshot(tip)
    assert [each for each in clone.notices if "nested" in each]
    git(clone.path / "nested", "commit", "-q", "--allow-empty", "-m", "first")
    tip = clone.snapshot(tip)
    assert clone.notices == ()
    _, there = submitted.claimed("elsewhere", 2)
    assert (there.path / "after.txt").read_text() == "travels"
    assert list((there.path / "nested").iterdir()) == []  # like a submodule


def test_an_agent_that_damages_the_indexes_does_not_stop_the_snapshots(submitted: Site) -> None:
    tip, clone = submitted.claimed("there")
    for index in clone.path.glob(".git/**/index"):
        index.write_bytes(b"damaged")
        index.with_name("index.lock").touch()
    write(clone.path, "work.txt", "done")
    clone.snapshot(tip)
    _, there = submitted.claimed("elsewhere", 2)
    assert (there.path / "work.txt").read_text() == "done"


# ── who may move it ─────────────────────────────────────────────────────────────────────────


def test_an_overtaken_worker_is_refused_before_its_successors_first_push_and_after(
    submitted: Site,
) -> None:
    early, slow = submitted.claimed("slow", 1)
    late, quick = submitted.claimed("quick", 2)
    refused("PB-FLEET-OVERTAKEN", lambda: slow.snapshot(early))
    late = quick.snapshot(late)
    refused("PB-FLEET-OVERTAKEN", lambda: slow.snapshot(early, branch=True))
    refused("PB-FLEET-OVERTAKEN", lambda: submitted.mirror("slow").claim(early, 3, "slow"))
    refused("PB-FLEET-OVERTAKEN", lambda: submitted.mirror("slow").drop(early))
    assert submitted.chain()[0] == late.commit
    assert not submitted.at(f"refs/heads/{BRANCH}")


def test_two_claims_are_never_the_same_commit(submitted: Site) -> None:
    mirror = submitted.mirror()
    tip = mirror.tip(ID)
    claims = {mirror.claim(tip, 1, "one").commit}
    refused("PB-FLEET-OVERTAKEN", lambda: mirror.claim(tip, 1, "two"))
    refused("PB-FLEET-OVERTAKEN", lambda: mirror.claim(tip, 2, "one"))
    claims.add(mirror.claim(mirror.tip(ID), 2, "one").commit)
    assert len(claims) == 2
    assert len(submitted.chain()) == 3


MOVES = st.lists(st.sampled_from([(w, m) for w in "ab" for m in ("claim", "snapshot")]), max_size=6)
_sites = count()


@settings(max_examples=5)
@given(moves=MOVES)
def test_any_interleaving_of_two_workers_leaves_one_line_and_loses_nothing(
    moves: Sequence[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory, founded: Path
) -> None:
    site = Site(tmp_path_factory.mktemp("interleaved"))
    shutil.copytree(founded, site.remote)
    accepted = [site.begun("a").create(ID).commit]
    holder, epoch = "", 0
    tips: dict[str, Tip] = {}
    clones: dict[str, SessionClone] = {}
    for number, (worker, move) in enumerate(moves):
        if move == "claim":
            epoch += 1
            tips[worker], clones[worker] = site.claimed(worker, epoch)
            holder = worker
        elif worker in clones:
            clone, tip = clones[worker], tips[worker]
            write(clone.path, f"{number}.txt", worker)
            if worker != holder:
                refused("PB-FLEET-OVERTAKEN", partial(clone.snapshot, tip))
                continue
            tips[worker] = clone.snapshot(tip)
        else:
            continue
        accepted.append(tips[worker].commit)
    assert site.chain() == accepted[::-1]
    epochs = [site.mirror("a").tip(ID).epoch]
    assert epochs == [epoch]


# ── what the remote says ────────────────────────────────────────────────────────────────────


def test_the_branch_moves_with_the_snapshot_or_neither_does(submitted: Site) -> None:
    tip, clone = submitted.claimed("there")
    git(clone.path, "commit", "-q", "--allow-empty", "-m", "work")
    theirs = submitted.push_other_work(BRANCH)
    error = refused("PB-FLEET-BRANCH", lambda: clone.snapshot(tip, branch=True))
    assert BRANCH in error.message
    assert submitted.at(f"refs/heads/{BRANCH}") == theirs
    assert submitted.chain()[0] == tip.commit
    git(submitted.remote, "update-ref", "-d", f"refs/heads/{BRANCH}")
    tip = clone.snapshot(tip, branch=True)
    assert submitted.at(f"refs/heads/{BRANCH}") == git(clone.path, "rev-parse", "HEAD") == tip.head
    assert submitted.chain()[0] == tip.commit


def test_where_a_forge_refuses_the_namespace_a_session_is_a_branch(site: Site) -> None:
    site.hook("update", 'case $1 in refs/playbook/*) echo "https://a:b@c/ no" >&2; exit 1; esac\n')
    tip = site.begun().create(ID)
    assert tip.ref == FALLBACK
    tip, clone = site.claimed("there")
    tip = clone.snapshot(tip, branch=True)
    assert (tip.ref, site.at(FALLBACK), site.at(REF)) == (FALLBACK, tip.commit, "")
    assert [each.commit for each in site.mirror("there").tips()] == [tip.commit]
    site.mirror("there").drop(tip)
    refused("PB-STATE-NO-SESSION", lambda: site.mirror("there").tip(ID))


def test_a_session_is_created_once(submitted: Site) -> None:
    before = submitted.chain()
    refused("PB-FLEET-TAKEN", lambda: submitted.begun("there").create(ID))
    assert submitted.chain() == before


def test_a_remote_that_takes_nothing_refuses_a_snapshot_and_a_new_session(
    submitted: Site,
) -> None:
    tip, clone = submitted.claimed("there")
    submitted.hook("pre-receive", "echo no more >&2; exit 1\n")
    refused("PB-FLEET-REFUSED", lambda: clone.snapshot(tip, branch=True))
    error = refused("PB-FLEET-REFUSED", lambda: submitted.begun("new").create("20261125-new"))
    assert error.message == f"{submitted.url} refuses git push: no more"
    (submitted.remote / "hooks/pre-receive").unlink()
    clone.snapshot(tip)


CUT = "kill -9 $PPID\n"


def test_a_push_whose_answer_is_lost_has_worked_if_the_remote_has_it(site: Site) -> None:
    site.hook("post-receive", CUT)
    tip = site.begun().create(ID)
    tip, clone = site.claimed("there")
    tip = clone.snapshot(tip)
    assert [tip.commit, len(site.chain())] == [site.chain()[0], 3]


def test_a_push_whose_answer_is_lost_with_the_network_is_found_when_it_is_tried_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(1_790_000_000)
    away = site.remote.with_name("away.git")
    cut = f"mv {site.remote} {away}; {CUT}"

    def tried(call: Callable[[], Tip]) -> Tip:
        site.hook("post-receive", cut)
        refused("PB-GIT-REMOTE", call)
        refused("PB-GIT-REMOTE", call)
        away.rename(site.remote)
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"@{next(seconds)} +0000")  # another commit
        (site.remote / "hooks/post-receive").unlink()
        return call()

    begun = site.begun()
    created = tried(lambda: begun.create(ID))
    assert site.chain() == [created.commit]
    mirror = site.mirror("there")
    tip = mirror.tip(ID)
    claim = tried(lambda: mirror.claim(tip, 1, "there"))
    assert site.chain()[0] == claim.commit
    clone = mirror.checkout(claim, site.path())
    write(clone.path, "work.txt", "done")
    last = tried(lambda: clone.snapshot(claim, branch=True))
    assert site.chain()[0] == last.commit
    assert site.chain()[-1] == created.commit
    assert site.at(f"refs/heads/{BRANCH}") == last.head


@pytest.mark.long
def test_a_remote_that_does_not_answer_is_given_up(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", "sleep 30 #")
    monkeypatch.setattr("playbook_supervisor.fleet.engine.session_ref.FIRST", 0.3)
    mirror = Mirror(site.folder / "ssh.git", "ssh://git@forge.example/w", ["ssh"], seconds=0.3)
    began = time.monotonic()
    assert "got no answer in time" in refused("PB-GIT-REMOTE", mirror.base).message
    git(site.folder, "clone", "-q", "--bare", str(site.remote), "ssh.git")
    (site.folder / "ssh.git/playbook-mirror").touch()
    assert "got no answer in time" in refused("PB-GIT-REMOTE", lambda: mirror.tip(ID)).message
    assert time.monotonic() - began < 10
    assert not list(site.folder.glob("*partly*"))


def test_a_transport_that_is_not_allowed_is_not_used(site: Site) -> None:
    mirror = Mirror(site.folder / "m.git", site.url, ["https", "ssh"])
    assert "not allowed" in refused("PB-GIT-REMOTE", mirror.base).cause
    mirror = Mirror(site.folder / "m.git", "ext::touch ran", ["ext", "file"])
    refused("PB-GIT-REMOTE", mirror.base)
    assert not list(site.folder.glob("**/ran"))


def test_branches_that_are_not_there_are_refused(site: Site) -> None:
    mirror = site.mirror()
    assert mirror.base("main") == mirror.base() == (site.at("refs/heads/main"), "main")
    assert "no branch nope" in refused("PB-GIT-BASE", lambda: mirror.base("nope")).message
    refused("PB-ARG-BRANCH", lambda: mirror.base("--upload-pack=x"))
    refused("PB-ARG-BRANCH", lambda: mirror.begin(mirror.base()[0], "../x", site.path()))
    for session in (ID, "../../x", "20261125-*"):
        refused("PB-STATE-NO-SESSION", partial(mirror.tip, session))
    git(site.remote, "symbolic-ref", "HEAD", "refs/heads/none")
    refused("PB-GIT-BASE", site.mirror("new").base)


# ── hostile and damaged references ──────────────────────────────────────────────────────────

TRAILERS = {
    "Session": ID,
    "Kind": "snapshot",
    "Epoch": "3",
    "Worker": "w1",
    "Branch": BRANCH,
    "Head": "0" * 40,
    "Version": "9.9.9",
}


def forged(site: Site, session: str = ID, **values: str) -> None:
    trailers = {**TRAILERS, "Session": session, **values}
    lines = "".join(f"Playbook-{name}: {value}\n" for name, value in trailers.items() if value)
    forge(site, session, f"Snapshot\n\n{lines}")


def forge(site: Site, session: str, message: str) -> None:
    argv = ["git", "commit-tree", "main^{tree}"]
    done = subprocess.run(argv, cwd=site.remote, input=message.encode(), capture_output=True)
    ref = f"refs/playbook/sessions/{session}"
    git(site.remote, "update-ref", ref, done.stdout.decode().strip())


@pytest.mark.parametrize(
    "values",
    [
        {"Session": "20261125-xyz"},
        {"Kind": "lease"},
        {"Epoch": "1" + "0" * 30},
        {"Epoch": "²"},
        {"Worker": "w\x1b[2J"},
        {"Branch": "--upload-pack=x"},
        {"Branch": "playbook-sessions/20261125-xyz"},
        {"Branch": "a\u202eb"},
        {"Branch": "a\nPlaybook-Branch: b"},
        {"Head": "--all"},
        {"Version": "1\x07"},
    ],
    ids=lambda values: repr(next(iter(values.items())))[:40],
)
def test_a_tip_that_we_would_not_have_written_is_refused(
    site: Site, values: dict[str, str]
) -> None:
    forged(site, **values)
    error = refused("PB-STATE-CORRUPT", lambda: site.mirror().tip(ID))
    assert error.message.isprintable()


def test_trailers_of_a_newer_version_are_no_obstacle(site: Site) -> None:
    forged(site, Colour="blue")
    tip = site.mirror().tip(ID)
    assert (tip.epoch, tip.version) == (3, "9.9.9")
    refused("PB-GIT-FAILED", lambda: site.mirror().checkout(tip, site.path()))  # no such head
    assert not list(site.folder.glob("clone-*"))


def test_all_sessions_are_read_at_once_and_damaged_ones_are_named(submitted: Site) -> None:
    forged(submitted, "20261125-aaa")
    forged(submitted, "20261125-bad", Branch="-x")
    forge(submitted, "20261125-two", "no trailers")
    git(submitted.remote, "update-ref", "refs/playbook/sessions/nonsense", "main")
    git(submitted.remote, "update-ref", "refs/playbook/sessions/20261125-tre", "main^{tree}")
    mirror = submitted.mirror("there")
    assert [tip.session for tip in mirror.tips()] == ["20261125-aaa", ID]
    named = " ".join(mirror.notices)
    for ref in ("20261125-bad", "20261125-two", "nonsense", "20261125-tre"):
        assert f"refs/playbook/sessions/{ref}" in named
    git(submitted.remote, "update-ref", "-d", REF)
    assert [tip.session for tip in mirror.tips()] == ["20261125-aaa"]


# ── one mirror, many processes ──────────────────────────────────────────────────────────────


def loose(mirror: Mirror) -> int:
    return int(mirror.git.ask("count-objects").split()[0])


def test_a_mirror_stays_small_and_what_shares_its_objects_stays_whole(
    submitted: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    tip, clone = submitted.claimed("here")
    mirror = submitted.mirror("here")
    for number in range(600):
        write(clone.path, f"made/{number}", f"{number}\n")
    tip = clone.snapshot(tip)
    mirror.tidy()
    assert loose(mirror) > 600
    monkeypatch.setattr("playbook_supervisor.fleet.engine.session_ref._LOOSE", 1)
    mirror.tidy()
    assert loose(mirror) < 10
    assert git(clone.path, "fsck", "--no-dangling") == ""
    write(clone.path, "made/0", "again\n")
    clone.snapshot(tip)
    there = submitted.mirror("there")
    assert files(there.checkout(there.tip(ID), submitted.path()).path) == files(clone.path)


def test_several_workers_share_a_mirror_from_its_first_use_on(
    submitted: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playbook_supervisor.fleet.engine.session_ref._LOOSE", 1)
    for number in range(6):
        forged(submitted, f"20261125-s{number:02}")
    errors: list[BaseException] = []

    def work(number: int) -> None:
        mirror = submitted.mirror("shared")  # a process has one of its own
        try:
            for turn in range(2):
                git(submitted.remote, "update-ref", f"refs/heads/b{number}/{turn}", "main")
                mirror.tips()
                mirror.tip(ID)
                git(submitted.remote, "update-ref", "-d", f"refs/heads/b{number}/{turn}")
                mirror.tidy()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert git(submitted.folder / "shared.git", "fsck") == ""


def test_a_lock_that_a_killed_git_left_is_removed_when_it_is_old(
    submitted: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playbook_supervisor.system.git.git_plumbing._PATIENCE", 0.1)
    mirror = submitted.mirror("there")
    mirror.tip(ID)
    git(submitted.remote, "update-ref", "-d", REF)
    lock = submitted.folder / "there.git/packed-refs.lock"
    lock.touch()
    refused("PB-GIT-REMOTE", lambda: mirror.tip(ID))
    os.utime(lock, (0, time.time() - 7200))
    refused("PB-STATE-NO-SESSION", lambda: mirror.tip(ID))
    assert not lock.exists()


def test_a_mirror_that_was_not_finished_is_made_again(submitted: Site) -> None:
    write(submitted.folder, "there.git/HEAD", "")
    write(submitted.folder, "there.git.partly-0123/HEAD", "")
    assert submitted.mirror("there").tip(ID).session == ID
    assert not list(submitted.folder.glob("*partly*"))


def test_the_default_branch_is_never_pushed(submitted: Site) -> None:
    tip, clone = submitted.claimed("there")
    before = submitted.at("refs/heads/main")
    git(clone.path, "switch", "-q", "main")
    git(clone.path, "commit", "-q", "--allow-empty", "-m", "on main")
    tip = clone.snapshot(tip, branch=True)
    assert submitted.at("refs/heads/main") == before
    assert (tip.branch, submitted.chain()[0]) == ("main", tip.commit)


def test_no_program_that_an_agent_names_in_its_clone_runs(submitted: Site) -> None:
    tip, clone = submitted.claimed("there")
    git(clone.path, "commit", "-q", "--allow-empty", "-m", "work")
    trap = write(clone.path, ".git/trap", f"#!/bin/sh\ntouch {submitted.folder}/ran\ncat\n")
    trap.chmod(0o755)
    for name in ("core.fsmonitor", "filter.x.clean", "core.sshCommand", "core.gitProxy"):
        git(clone.path, "config", name, str(trap))
    git(clone.path, "config", "remote.origin.pushurl", "ext::touch ran")
    git(clone.path, "config", f"url.ext::{trap} .insteadOf", submitted.url)
    git(clone.path, "config", "uploadpack.packObjectsHook", str(trap))
    write(clone.path, ".git/info/attributes", "* filter=x\n")
    for hook in ("pre-push", "reference-transaction", "post-index-change", "pre-commit"):
        write(clone.path, f".git/hooks/{hook}", trap.read_text()).chmod(0o755)
    write(clone.path, "work.txt", "done")
    clone.snapshot(tip)
    assert not (submitted.folder / "ran").exists()


def test_by_fast_forward_alone_the_wrong_worker_would_be_accepted(submitted: Site) -> None:
    """The control of the test before: two workers continue from one snapshot, without claims."""
    before = submitted.mirror("slow").tip(ID)
    slow = submitted.mirror("slow").checkout(before, submitted.path())
    quick = submitted.mirror("quick")
    rightful = quick.checkout(quick.tip(ID), submitted.path())
    write(rightful.path, "work.txt", "of the rightful one")
    slow.snapshot(before)  # it thaws before its successor has pushed
    refused("PB-FLEET-OVERTAKEN", lambda: rightful.snapshot(before))
