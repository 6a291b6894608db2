"""`audit --all` over a fleet's references: nothing in what it wrote, and all that is forged."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from support.git_repositories import git
from support.stored_sessions import playbook, step

from playbook_supervisor.audit.examination import AuditReport
from playbook_supervisor.commands.views.session_files import audit, metrics
from playbook_supervisor.fleet.engine.session_ref import Mirror, SessionClone, Tip
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.project.policies.session_policy import Demand, Policy
from playbook_supervisor.sessions.engine.session_engine import EngineOptions
from playbook_supervisor.sessions.files import session_clock
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout

HOUR = 3_600_000
OK = Outcome(output="done")
REF = "refs/playbook/sessions/"
CALLS = step("calls", command="playbook child")
ASKS = step("asks", autonomy="gate_always")


@dataclass
class Fleet:
    """A remote, the database's clock, and machines whose own clocks are `behind` it, in ms."""

    folder: Path
    patch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.now = time.time_ns() // 1_000_000 - 24 * HOUR
        self.behind, self.follows = 0, True
        self.remote = self.folder / "remote.git"
        self.mirror = Mirror(self.folder / "mirror.git", f"file://{self.remote}", ["file"])
        machine = SimpleNamespace(time_ns=lambda: self._tick() * 1_000_000)
        self.patch.setattr(session_clock, "time", machine)
        self._epoch = 0

    def _tick(self) -> int:
        self.now += 20
        return self.now - self.behind

    def found(self) -> Fleet:
        work = self.folder / "founder"
        git(self.folder, "init", "-q", "-b", "main", str(work))
        (work / "README.md").write_text("widgets\n")
        (work / ".playbooks").mkdir()
        (work / ".playbooks/config.yaml").write_text("commit_sessions: never\n")
        git(work, "add", ".")
        git(work, "commit", "-q", "-m", "Begin")
        git(self.folder, "clone", "-q", "--bare", str(work), str(self.remote))
        return self

    def submit(self, *steps: dict[str, object] | str, policy: Policy | None = None) -> Tip:
        """A pending session, pushed; a step may run the playbook `child`."""
        commit, _ = self.mirror.base()
        clone = self.mirror.begin(commit, "013-x", self._path("submitted"))
        store = self._store(clone)
        name = store.create(
            playbook="sample",
            text=playbook(*steps).replace(b"'1.0'", b"'1.1'"),
            feature="013-x",
            args={},
            children={"child": playbook("plan").replace(b"name: sample", b"name: child")},
            policy=policy,
        )
        tip = clone.create(name)
        clone.remove()
        return tip

    def take_up(self, session_id: str, work: Callable[[SessionTree], object]) -> Tip:
        """What a worker does on its machine, and the snapshot that it leaves."""
        self._epoch += 1
        tip = self.mirror.claim(self.mirror.tip(session_id), self._epoch, f"w{self._epoch}")
        clone = self.mirror.checkout(tip, self._path(f"w{self._epoch}"))
        work(SessionTree(self._store(clone), session_id, EngineOptions(copies=True)))
        self.patch.setenv("GIT_COMMITTER_DATE", f"@{(self.now - self.behind) // 1000} +0000")
        tip = clone.snapshot(tip)
        self.patch.delenv("GIT_COMMITTER_DATE")
        clone.remove()
        return tip

    def _store(self, clone: SessionClone) -> DiskStore:
        store = DiskStore(checkout.find(clone.path))
        if self.follows:
            store.clock.follow(self.now)
        return store

    def _path(self, name: str) -> Path:
        return self.folder / f"clone-{name}"

    def journal(self, session_id: str, ref: str = REF) -> str:
        path = f".playbooks/sessions/{session_id}/journal.yaml"
        return git(self.remote, "show", f"{ref}{session_id}:{path}") + "\n"

    def mirrored(self) -> Path:
        mirror = self.folder / "mirrored.git"
        git(self.folder, "clone", "-q", "--mirror", str(self.remote), str(mirror))
        return mirror

    def audited(self, where: Path | None = None, *names: str) -> tuple[AuditReport, ...]:
        where = where or self.mirrored()
        self.behind = 0
        return audit(names, every=not names, cwd=where)

    def forge(self, session_id: str, change: Callable[[Path], object], *, at: str = REF) -> None:
        """Someone who may push puts another tree on top of the session's chain."""
        clone = self.folder / "forger"
        git(self.folder, "clone", "-q", str(self.remote), str(clone))
        git(clone, "fetch", "-q", "origin", f"{REF}{session_id}")
        git(clone, "switch", "-q", "--detach", "FETCH_HEAD")
        change(clone / ".playbooks/sessions" / session_id)
        git(clone, "add", "-A", "-f")
        git(clone, "commit", "-q", "--allow-empty", "-m", "Forged")
        git(clone, "push", "-q", "-f", "origin", f"HEAD:{at}{session_id}")
        shutil.rmtree(clone)


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    return Fleet(tmp_path, monkeypatch).found()


def found(audited: tuple[AuditReport, ...]) -> list[str]:
    return [
        f"{problem.code} {problem.message}"
        for each in audited
        for file in each.files
        for problem in file.problems
    ]


def codes(audited: tuple[AuditReport, ...]) -> set[str]:
    return {each.split()[0] for each in found(audited)}


def launch(tree: SessionTree) -> None:
    if tree.look().state.pristine:
        tree.begin()
    tree.advance()


def completed(fleet: Fleet) -> str:
    tip = fleet.submit("a")

    def run(tree: SessionTree) -> None:
        launch(tree)
        tree.report("a#1", OK)

    fleet.take_up(tip.session, run)
    return tip.session


@pytest.mark.parametrize("follows", [True, False], ids=["following", "alone"])
@pytest.mark.parametrize("behind", [HOUR, 0], ids=["behind", "right"])
def test_nothing_is_found_in_what_several_machines_wrote(
    fleet: Fleet, behind: int, follows: bool
) -> None:
    """A lost attempt, a child session, an answer by a role; clocks an hour apart."""
    policy = Policy((Demand("asks", "who.yaml", answered_by=("role:release",)),))
    name = fleet.submit(CALLS, ASKS, "last", policy=policy).session
    fleet.follows = follows
    fleet.take_up(name, launch)  # and it is killed

    fleet.behind = behind
    fleet.take_up(name, lambda tree: resumed(tree, fleet))
    asked_at = fleet.now
    fleet.behind = 0
    fleet.now += 2 * HOUR

    def answered(tree: SessionTree) -> None:
        ana = Principal("Ana <ana@example.org>", via="fleet", role="release")
        tree.answer("asks#1?1", Resolution.CONTINUE, "continue", ana, asked_at + HOUR)
        tree.advance()
        tree.report("asks#1", OK)

    fleet.behind = behind
    fleet.take_up(name, answered)
    fleet.behind = 0

    def end(tree: SessionTree) -> None:
        tree.lose(tree.advance().directive.members[0])  # type: ignore[union-attr]
        tree.report("last#2", OK)

    fleet.take_up(name, end)
    audited = fleet.audited()
    assert audited[0].name == name
    assert len(audited) == 2  # with its child
    assert found(audited) == []
    assert [each.notes for each in audited] == [(), ()]
    entries = yaml.safe_load(fleet.journal(name))["entries"]
    asks = next(each for each in entries if each["step_id"] == "asks")
    assert asks["gates"][0]["role"] == "release"
    if follows:  # else an hour of the wait is unknown
        assert asks["duration_seconds"] == pytest.approx(2 * 3600, abs=60)
    assert metrics(every=True, cwd=fleet.folder / "mirrored.git")


def resumed(tree: SessionTree, fleet: Fleet) -> None:
    snapshot = tree.advance()
    below = snapshot.children["calls#1"].directive
    tree.lose(snapshot.directive.members[0])  # type: ignore[union-attr]
    assert below is not None
    tree.advance()
    fleet.now += 60_000
    tree.report("calls#1/plan#2", OK)


def test_nothing_is_found_in_a_session_that_was_cancelled(fleet: Fleet) -> None:
    name = fleet.submit(ASKS).session
    fleet.take_up(name, launch)
    fleet.behind = HOUR
    ben = Principal("Ben <ben@example.org>", via="fleet")
    fleet.take_up(name, lambda tree: tree.abort("not needed", ben))
    assert found(fleet.audited()) == []


def test_a_journal_that_someone_forged_is_found_at_its_reference(fleet: Fleet) -> None:
    name = completed(fleet)

    def longer(folder: Path) -> None:
        text = (folder / "journal.yaml").read_text()
        (folder / "journal.yaml").write_text(
            text.replace("duration_seconds: 0", "duration_seconds: 9")
        )

    fleet.forge(name, longer)
    audited = fleet.audited()
    assert codes(audited) >= {"AUD-DURATION"}
    assert audited[0].files[0].file == f"{REF}{name}:.playbooks/sessions/{name}/journal.yaml"


def test_an_entry_that_is_later_than_its_snapshot_is_found(fleet: Fleet) -> None:
    name = completed(fleet)

    def invent(folder: Path) -> None:
        lines = (folder / "journal.yaml").read_text().splitlines()
        changed = [f"{line}  # invented" if "started_at" in line else line for line in lines]
        (folder / "journal.yaml").write_text("\n".join(changed))

    fleet.patch.setenv("GIT_COMMITTER_DATE", f"@{(fleet.now - HOUR) // 1000} +0000")
    fleet.forge(name, invent)
    fleet.patch.delenv("GIT_COMMITTER_DATE")
    assert codes(fleet.audited()) == {"AUD-COMMITTED"}


def test_a_session_that_is_open_although_it_was_merged_is_found(fleet: Fleet) -> None:
    name = fleet.submit(ASKS).session
    fleet.take_up(name, launch)
    git(fleet.remote, "update-ref", "refs/heads/main", f"{REF}{name}")
    assert codes(fleet.audited()) == {"AUD-MERGED"}


def test_a_child_session_that_cannot_be_read_is_none(fleet: Fleet) -> None:
    name = fleet.submit(CALLS).session
    fleet.take_up(name, launch)

    def point_elsewhere(folder: Path) -> None:
        text = (folder / "journal.yaml").read_text()
        (folder / "journal.yaml").write_text(re.sub(r"session: \S+", "session: ../../x", text))

    fleet.forge(name, point_elsewhere)
    assert [each.name for each in fleet.audited()] == [name]


def test_a_clone_audits_the_references_that_it_has_fetched(fleet: Fleet) -> None:
    name = completed(fleet)
    clone = fleet.folder / "clone"
    git(fleet.folder, "clone", "-q", str(fleet.remote), str(clone))
    assert fleet.audited(clone) == ()
    git(clone, "fetch", "-q", "origin", f"{REF}*:{REF}*")
    (clone / "sub").mkdir()
    assert [each.name for each in fleet.audited(clone / "sub")] == [name]
    assert found(fleet.audited(clone / "sub")) == []


def test_sessions_on_branches_are_audited_where_a_forge_refuses_the_namespace(fleet: Fleet) -> None:
    name = completed(fleet)
    at = git(fleet.remote, "rev-parse", f"{REF}{name}")
    git(fleet.remote, "update-ref", f"refs/heads/playbook-sessions/{name}", at)
    git(fleet.remote, "update-ref", "-d", f"{REF}{name}")
    clone = fleet.folder / "clone"
    git(fleet.folder, "clone", "-q", str(fleet.remote), str(clone))
    for where in (fleet.mirrored(), clone):
        (audited,) = fleet.audited(where)
        assert (audited.name, audited.ok) == (name, True)


def test_hostile_references_are_reported_and_harm_nothing(fleet: Fleet) -> None:
    linked, huge, gone = (completed(fleet) for _ in range(3))

    def link(folder: Path) -> None:
        (folder / "journal.yaml").unlink()
        os.symlink("/etc/passwd", folder / "journal.yaml")  # noqa: PTH211

    fleet.forge(linked, link)
    fleet.forge(huge, lambda folder: (folder / "journal.yaml").write_bytes(b"#" * (1 << 25)))
    fleet.forge(gone, shutil.rmtree)
    blob = git(fleet.remote, "rev-parse", "main:README.md")
    git(fleet.remote, "update-ref", f"{REF}20260101-aaa", blob)
    main = git(fleet.remote, "rev-parse", "main")
    git(fleet.remote, "update-ref", f"{REF}not-an-id", main)
    git(fleet.remote, "update-ref", f"{REF}20260101-bbb", main)
    reports = {each.name: found((each,)) for each in fleet.audited()}
    assert "symbolic link" in " ".join(reports[linked])
    assert "larger than" in " ".join(reports[huge])
    assert "does not have the session's files" in " ".join(reports[gone])
    assert "does not have the session's files" in " ".join(reports["20260101-bbb"])
    assert set(reports) == {linked, huge, gone, "20260101-bbb"}
