"""Sessions for tests: a repository, its store, and the tree of one session in it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from pytest_mock import MockerFixture

from playbook_supervisor.kernel.directives import Ask, Attempt, Failure, Outcome
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot, running
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout

FEATURE = "013-x"
BEGAN = 1_771_495_200_000  # 2026-02-19T10:00:00Z


def step(name: str, **more: object) -> dict[str, object]:
    """A step that runs by itself and stops when it fails, unless `more` says otherwise."""
    return {"id": name, "command": "/x", "autonomy": "auto", "error_policy": "stop", **more}


def playbook(*steps: dict[str, object] | str) -> bytes:
    top = {
        "name": "sample",
        "description": "A sample.",
        "version": "1.0",
        "args": [],
        "steps": [step(one) if isinstance(one, str) else one for one in steps],
    }
    return yaml.safe_dump(json.loads(json.dumps(top)), sort_keys=False).encode()  # no anchors


@dataclass
class Clock:
    """One second passes between two looks at it."""

    now: int = BEGAN

    def __call__(self) -> int:
        self.now += 1000
        return self.now


@dataclass
class Scene:
    """A repository at `root` in which sessions are created, driven and looked at."""

    root: Path
    clock: Clock = field(default_factory=Clock)
    store: DiskStore = field(init=False)

    def __post_init__(self) -> None:
        git = self.root / ".git"
        for folder in ("objects", "refs/heads"):
            (git / folder).mkdir(parents=True, exist_ok=True)
        (git / "HEAD").write_text("ref: refs/heads/013-x\n")
        self.store = self.fresh()

    def fresh(self) -> DiskStore:
        """The store as a new process sees it."""
        return DiskStore(checkout.find(self.root), clock=self.clock)

    def create(self, *steps: dict[str, object] | str) -> SessionTree:
        """A pending session of a playbook with these steps."""
        text = playbook(*steps)
        session_id = self.store.create(playbook="sample", text=text, feature=FEATURE, args={})
        return SessionTree(self.store, session_id)

    def define(self, *steps: Step, **top: Any) -> SessionTree:
        """A pending session of these steps, with other fields of the playbook in `top`."""
        definition = Playbook("sample", "A sample.", "1.1", (), steps, **top)
        session_id = self.store.create(
            playbook="sample",
            text=playbook("stand-in"),
            feature=FEATURE,
            args={},
            definition=definition,
        )
        return SessionTree(self.store, session_id)

    def again(self, tree: SessionTree) -> SessionTree:
        """The same session in a new process."""
        return SessionTree(self.fresh(), tree.id)

    def cloned(self, tree: SessionTree) -> SessionTree:
        """The session's files in a checkout that did not begin it."""
        git, former = self.root / ".git", self.root / "former.git"
        git.rename(former)
        shutil.copytree(former, git, ignore=shutil.ignore_patterns("playbook"))
        shutil.rmtree(former)
        return self.again(tree)

    def file(self, tree: SessionTree, name: str) -> Path:
        return self.root / ".playbooks/sessions" / tree.id / name

    def journal(self, tree: SessionTree) -> list[dict[str, Any]]:
        """The entries as any YAML reader sees them."""
        entries: list[dict[str, Any]] = yaml.safe_load(
            self.file(tree, "journal.yaml").read_bytes()
        )["entries"]
        return entries

    def manifest(self, tree: SessionTree) -> dict[str, Any]:
        data: dict[str, Any] = yaml.safe_load(self.file(tree, "session.yaml").read_bytes())
        return data

    def edit(self, tree: SessionTree, name: str, *changes: tuple[str, str]) -> bytes:
        """Edit a file of the session; each change must be possible."""
        file = self.file(tree, name)
        text = file.read_text()
        for old, new in changes:
            assert old in text, f"{old!r} is not in {text!r}"
            text = text.replace(old, new, 1)
        file.write_text(text)
        return text.encode()

    def write(self, path: str, text: str = "content\n") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file


def unsynced(monkeypatch: pytest.MonkeyPatch, root: Path) -> Scene:
    """A scene on a disk that says at once that it has kept what it was given."""
    for sync in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, sync, lambda descriptor: None)
    return Scene(root)


def work(snapshot: Snapshot) -> Attempt:
    (attempt,) = running(snapshot)
    return attempt


def ask(snapshot: Snapshot) -> Ask:
    assert isinstance(snapshot.directive, Ask)
    return snapshot.directive


def ids(entries: Iterable[dict[str, Any]]) -> list[str]:
    """`step#attempt status` of each entry."""
    return [f"{e['step_id']}#{e.get('attempt', 1)} {e['status']}" for e in entries]


def failed(message: str = "it broke") -> Outcome:
    return Outcome(error=Failure("PB-AGENT-FAILED", message))


def finish(tree: SessionTree, snapshot: Snapshot) -> Snapshot:
    """Every step succeeds and every gate is continued, to the end."""
    while True:
        if isinstance(snapshot.directive, Ask):
            asked = snapshot.directive
            tree.answer(asked.id, Resolution.CONTINUE, "continue", Principal("Ana"))
            snapshot = tree.advance()
        elif running(snapshot):
            snapshot = tree.report(running(snapshot)[0].id, Outcome(output="ok"))
        else:
            return snapshot


CALLS = ("os.open", "os.write", "os.fsync", "os.fdatasync", "os.replace", "os.mkdir")


class Failing:
    """The n-th call that would write to the disk fails, and with `lasting` every one after it.

    What is only kept to be read faster does not count: nothing is lost, and nothing is said.
    """

    def __init__(self, mocker: MockerFixture, turn: int, reason: int, *, lasting: bool) -> None:
        self.left = turn
        self.lasting = lasting
        for name in CALLS:
            mocker.patch(name, self._failing(getattr(os, name[3:]), reason))

    def _failing(self, real: Callable[..., Any], reason: int) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            reads = real is self.opens and not args[1] & (os.O_WRONLY | os.O_CREAT)
            pipe = isinstance(args[0], int) and not stat.S_ISREG(os.fstat(args[0]).st_mode)
            only_faster = str(args[0]).endswith("/settled.jsonl")
            if not reads and not only_faster and not (pipe and real is self.writes):
                self.left -= 1
                if self.left == 0 or (self.lasting and self.left < 0):
                    raise OSError(reason, os.strerror(reason))
            return real(*args, **kwargs)

        return call

    opens, writes = staticmethod(os.open), staticmethod(os.write)


REFUSALS = [errno.ENOSPC, errno.EIO, errno.EROFS]
