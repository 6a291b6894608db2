"""The feed: which sessions it has, in which order, and what it reads again."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cli.scripts import GATED, HANGS, LONG, WORKS
from cli.test_child_playbooks import put
from pytest_mock import MockerFixture
from support.controlled_time import eventually
from support.scratch_project import FEATURE, Project

from playbook_supervisor.commands import overview
from playbook_supervisor.inbox.commands import register
from playbook_supervisor.inbox.commands.feed import Feed
from playbook_supervisor.inbox.commands.repository import AnyRow, Row
from playbook_supervisor.inbox.web import inbox_pages
from playbook_supervisor.system.disk import user_state

AS_ROOT = os.geteuid() == 0


@pytest.fixture
def feed(project: Project) -> Feed:
    """Of the one project, before its first session."""
    found = Feed(lambda: [project.root])
    assert found.poll() == ()
    assert found.listing.rows == ()
    return found


def begin(project: Project) -> str:
    before = set(project.sessions)
    assert project.playbook("begin", "auto-validate", "013").code == 0
    (new,) = set(project.sessions) - before
    return new.name


def gate(project: Project) -> str:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    before = set(project.sessions)
    assert project.playbook("run", "gated", "--agent", project.script(WORKS)).code == 4
    (new,) = set(project.sessions) - before
    return new.name


def beside(project: Project, name: str) -> Project:
    """A new worktree: each has one open session at most."""
    other = project.root.with_name(name)
    project.git("worktree", "add", "-q", str(other), "-b", name)
    return Project(other, project.home)


def another(project: Project, name: str) -> Project:
    return Project.copied(project.root, project.root.with_name(name), home=project.home)


def ids(rows: Sequence[AnyRow]) -> list[str]:
    return [row.session_id for row in rows]


def local(rows: Sequence[AnyRow]) -> tuple[Row, ...]:
    """Those that are no sessions of a fleet."""
    return tuple(row for row in rows if isinstance(row, Row))


# ── sessions ────────────────────────────────────────────────────────────────────────────────


def test_a_session_is_told_when_it_begins_changes_and_is_removed(
    project: Project, feed: Feed
) -> None:
    name = begin(project)
    (topic,) = feed.poll()
    assert topic.endswith(f"/{name}")
    assert feed.poll() == ()
    assert ids(feed.listing.idle) == [name]
    version = feed.listing.version
    assert project.playbook("abort").code == 0
    assert feed.poll() == (topic,)
    assert ids(feed.listing.ended) == [name]
    assert feed.listing.version == version + 1
    shutil.rmtree(project.session)
    assert feed.poll() == (topic,)
    (row,) = feed.listing.rows
    assert isinstance(row, Row)
    assert row.seen.problem == "its files are gone; the next command restores them"
    shutil.rmtree(project.root / f".git/playbook/{name}")
    assert feed.poll() == (topic,)
    assert feed.listing.rows == ()


def test_the_oldest_gate_comes_first(project: Project, feed: Feed) -> None:
    other = beside(project, "014-other")
    older = gate(project)
    time.sleep(0.01)
    newer = gate(other)
    feed.poll()
    assert ids(feed.listing.waiting) == [older, newer]
    assert project.playbook("answer", "continue", "--session", older).code == 0
    feed.poll()
    assert (ids(feed.listing.waiting), ids(feed.listing.idle)) == ([newer], [older])


def test_a_session_in_a_new_worktree_appears_and_goes_with_it(project: Project, feed: Feed) -> None:
    other = beside(project, "014-other").root
    begin(Project(other, project.home))
    feed.poll()
    (row,) = feed.listing.idle
    assert row.seen.root == other
    assert row.repository == project.root.name
    assert other / ".playbooks" in feed.folders()
    project.git("worktree", "remove", "--force", str(other))
    assert len(feed.poll()) == 1
    assert feed.listing.rows == ()
    assert other / ".playbooks" not in feed.folders()


def test_the_inbox_of_a_worktree_outlives_it(project: Project) -> None:
    other = beside(project, "014-other").root
    feed = Feed(lambda: [other])
    name = begin(project)
    feed.poll()
    assert ids(feed.listing.idle) == [name]
    project.git("worktree", "remove", "--force", str(other))
    feed.poll()
    assert ids(feed.listing.idle) == [name]
    assert feed.listing.problems == ()


def test_a_child_session_is_part_of_the_session_above_it(project: Project, feed: Feed) -> None:
    put(project)
    assert project.playbook("run", "top", "--agent", "exec:echo done").code == 4
    feed.poll()
    (row,) = local(feed.listing.rows)
    assert ids(feed.listing.waiting) == [row.session_id]
    assert row.seen.gate is not None
    assert row.seen.gate.id == "release#1/ask#1?1"
    (child,) = row.seen.children
    journal = child.store.folder(child.session_id) / "journal.yaml"
    assert project.playbook("answer", "continue").code == 0
    assert feed.poll([journal]) == (row.topic,)
    assert feed.listing.waiting == ()


@pytest.mark.parametrize("file", ["session.yaml", "journal.yaml"])
def test_a_damaged_session_is_shown_with_what_is_wrong(
    project: Project, feed: Feed, file: str
) -> None:
    begin(project)
    (project.session / file).write_text("{")
    feed.poll()
    (row,) = feed.listing.idle
    assert "bracket is not closed" in row.seen.problem
    assert f"{file}:2:1" in inbox_pages.listing_page(feed.listing, "you", 0)


def test_a_file_that_was_replaced_within_a_tick_of_the_clock_is_read(
    project: Project, feed: Feed
) -> None:
    name = gate(project)
    feed.poll()
    files = [*project.session.iterdir(), *(project.root / ".git/playbook" / name).iterdir()]
    folder = project.session.stat()
    times = {file: file.stat() for file in files}
    assert project.playbook("answer", "continue").code == 0
    for file, status in times.items():
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.utime(project.session, ns=(folder.st_atime_ns, folder.st_mtime_ns))
    assert len(feed.poll()) == 1
    assert feed.listing.waiting == ()


# ── drivers ─────────────────────────────────────────────────────────────────────────────────


def test_the_last_line_of_a_worker_is_shown_until_its_runner_is_killed(
    project: Project, feed: Feed
) -> None:
    project.write(".playbooks/playbooks/long.yaml", LONG)
    with project.spawn("run", "long", "--agent", project.script(HANGS)) as runner:
        assert eventually(lambda: any(row.progress.lines for row in working(feed)))
        (row,) = working(feed)
        assert dict(row.progress.lines) == {"think#1": "I am thinking"}
        said = project.root / ".git/playbook" / row.session_id / "said.json"
        said.write_text('{"think#1": "I have an idea"}')
        assert feed.poll([said]) == (row.topic,)
        assert dict(local(feed.listing.working)[0].progress.lines) == {"think#1": "I have an idea"}
        runner.send_signal(signal.SIGKILL)
    assert eventually(lambda: working(feed) == ())
    assert ids(feed.listing.idle) == [row.session_id]


def working(feed: Feed) -> tuple[Row, ...]:
    feed.poll()
    return local(feed.listing.working)


# ── repositories ────────────────────────────────────────────────────────────────────────────


def test_a_repository_that_is_gone_is_a_problem_until_it_is_back(project: Project) -> None:
    other = another(project, "other")
    feed = Feed(lambda: [project.root, other.root])
    here, there = begin(project), begin(other)
    feed.poll()
    assert set(ids(feed.listing.idle)) == {here, there}
    away = other.root.rename(other.root.with_name("away"))
    assert "" in feed.poll()
    assert ids(feed.listing.idle) == [here]
    (problem,) = feed.listing.problems
    assert problem == f"{other.root}: there is no folder {str(other.root)!r}"
    assert problem.replace("'", "&#39;") in inbox_pages.listing_page(feed.listing, "you", 0)
    away.rename(other.root)
    assert "" in feed.poll()
    assert set(ids(feed.listing.idle)) == {here, there}
    assert feed.listing.problems == ()


def break_pointer(root: Path) -> None:
    shutil.rmtree(root / ".git")
    (root / ".git").write_text("gitdir: nowhere\n")


def break_head(root: Path) -> None:
    (root / ".git/HEAD").write_bytes(b"\0")


def close(root: Path) -> None:
    (root / ".git").chmod(0)


@pytest.mark.parametrize(
    "harm",
    [
        break_pointer,
        break_head,
        pytest.param(close, marks=pytest.mark.skipif(AS_ROOT, reason="root may read all")),
    ],
)
def test_a_repository_that_cannot_be_read_is_a_problem(
    project: Project, harm: Callable[[Path], None]
) -> None:
    other = another(project, "other")
    feed = Feed(lambda: [other.root, project.root])
    name = begin(project)
    for read in (feed, Feed(lambda: [other.root, project.root])):
        harm(other.root)
        read.poll()
        (problem,) = read.listing.problems
        assert str(other.root) in problem
        assert ids(read.listing.idle) == [name]
        if harm is break_pointer:
            break
    other.root.joinpath(".git").chmod(0o700)


def test_a_repository_counts_once_however_it_was_added(project: Project, tmp_path: Path) -> None:
    tree, alias = beside(project, "014-other").root, tmp_path / "alias"
    alias.symlink_to(project.root)
    for path in (project.root, tree, alias, project.root / "specs"):
        register.add(path)
    assert register.load().repositories == (project.root,)
    feed = Feed(lambda: [alias, tree, project.root])
    name = begin(project)
    feed.poll()
    assert ids(feed.listing.rows) == [name]
    assert len(feed.one_of_each()) == 1


def test_what_names_the_repositories_is_read_at_each_look(project: Project) -> None:
    feed = Feed(lambda: register.load().repositories)
    feed.poll()
    register.add(project.root)
    name = begin(project)
    feed.poll()
    assert ids(feed.listing.rows) == [name]
    file = user_state.path(register.FILE)
    known = file.read_text()
    file.write_text("{")
    feed.poll()
    (problem,) = feed.listing.problems
    assert f"{file} is damaged" in problem
    assert ids(feed.listing.rows) == [name]
    file.write_text(known)
    feed.poll()
    assert feed.listing.problems == ()
    register.remove(project.root)
    feed.poll()
    assert feed.listing.rows == ()


# ── what is read again ──────────────────────────────────────────────────────────────────────


def test_only_the_session_that_was_written_is_read_again(
    project: Project, mocker: MockerFixture
) -> None:
    other = another(project, "other")
    for each in (project, beside(project, "014-beside"), beside(project, "015-beside"), other):
        gate(each)
    feed = Feed(lambda: [project.root, other.root])
    feed.poll()
    before = {row.session_id: row for row in feed.listing.rows}
    assert len(before) == 4
    changed = project.session
    assert project.playbook("answer", "continue", "--session", changed.name).code == 0
    reads = mocker.spy(overview, "_look")
    assert len(feed.poll([str(changed / "journal.yaml")])) == 1
    assert [call.args[1] for call in reads.call_args_list] == [changed.name]
    for row in feed.listing.rows:
        assert (row is before[row.session_id]) == (row.session_id != changed.name)
    reads.reset_mock()
    assert feed.poll() == ()
    assert reads.call_count == 0


def test_what_is_written_elsewhere_is_not_looked_at(
    project: Project, feed: Feed, mocker: MockerFixture
) -> None:
    other = beside(project, "other")
    begin(project)
    feed.poll()
    begin(other)
    sessions = mocker.spy(overview, "sessions")
    git = project.root / ".git"
    for path in (
        project.root / "README.md",
        project.root / ".playbooks/config.yaml",
        project.root / ".playbooks-of-others/sessions",
        git / "worktrees/other/index",
        git / "worktrees/other/logs/HEAD",
        git / "playbook/lock",
    ):
        assert feed.poll([path]) == ()
    assert sessions.call_count == 0
    assert len(feed.poll([git / "worktrees/other/HEAD"])) == 1


def test_a_branch_that_was_checked_out_is_seen(project: Project, feed: Feed) -> None:
    name = begin(project)
    feed.poll()
    (row,) = feed.listing.idle
    assert row.seen.store.checkout.branch == FEATURE
    project.git("switch", "-q", "-c", "015-other")
    found = feed.find(row.key, name)
    assert found is not None
    assert found.seen.store.checkout.branch == "015-other"


def test_the_page_asks_for_a_look_where_none_was_made_for_long(
    project: Project, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = begin(project)
    assert feed.current().rows == ()
    later = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert ids(feed.current().rows) == [name]


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_jumps_hides_what_ended_on_another_day_only(
    project: Project, feed: Feed, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    ended = begin(project)
    assert project.playbook("abort").code == 0
    waits = gate(project)
    feed.poll()
    assert (ids(feed.listing.waiting), ids(feed.listing.ended)) == ([waits], [ended])
    real, jump = time.localtime, days * 86_400
    monkeypatch.setattr(
        time, "localtime", lambda at=None: real(time.time() + jump if at is None else at)
    )
    (topic,) = feed.poll()
    assert topic.endswith(f"/{ended}")
    assert (ids(feed.listing.waiting), ids(feed.listing.ended)) == ([waits], [])
    now = time.time_ns() // 1_000_000 + jump * 1000
    assert "Run /feature.pr" in inbox_pages.listing_page(feed.listing, "you", now)
