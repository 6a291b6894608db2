"""Measures a session's way through git: submission, take-up, snapshot, a list of sessions.

python benchmarks/session_refs.py FOLDER [--files N] [--mib N] [--rounds N]

It prints one JSON object of milliseconds and ratios. The remote is a bare repository on the same
disk, so that all of it counts but the network. A ratio is the median of our time by that of plain
git in the same round:

- submit: of two `git ls-remote` and a clone without history (depth 1);
- take_up (tip, claim, clone): of `git worktree add` from the mirror, at the same commit;
- snapshot, without its push: of `git status` in that clone.

`--mib` adds so much history, of random files that the last commit does not have.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, cast

from playbook_supervisor.fleet.commands.submitting import Submission, submit
from playbook_supervisor.fleet.engine.remote_refs import RemoteRefs
from playbook_supervisor.fleet.engine.session_ref import Mirror, SessionClone
from playbook_supervisor.sessions.files.manifest import REF

FILES, SESSIONS, ROUNDS = 50_000, 500, 7
IDENTITY = ("-c", "user.name=x", "-c", "user.email=x@x")
PLAYBOOK = """\
name: one
description: One step
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps: [{id: plan, command: /compact}]
"""
SMALL = {
    ".gitignore": "build/\n*.log\n",
    ".playbooks/playbooks/one.yaml": PLAYBOOK,
    ".playbooks/config.yaml": "push_sessions: false\n",
    "README.md": "widgets\n",
}


def git(root: Path, *arguments: str, stdin: str = "") -> str:
    argv = ["git", *IDENTITY, *arguments]
    done = subprocess.run(argv, cwd=root, check=True, capture_output=True, input=stdin, text=True)
    return done.stdout.strip()


Times = dict[str, list[float]]  # milliseconds


def measured_in(times: Times, name: str, work: Callable[[], object]) -> None:
    began = time.perf_counter()
    work()
    times.setdefault(name, []).append((time.perf_counter() - began) * 1000)


def remote(folder: Path, files: int, mib: int) -> Path:
    """A bare repository with that many files on `main`, in folders of 25, after that history."""
    bare = folder / "remote.git"
    git(folder, "init", "-q", "--bare", "-b", "main", str(bare))
    git(bare, "config", "uploadpack.allowFilter", "true")
    git(bare, "config", "core.bigFileThreshold", "512k")  # random bytes have no deltas
    with subprocess.Popen(["git", "fast-import", "--quiet"], cwd=bare, stdin=subprocess.PIPE) as it:
        assert it.stdin
        for number in range(mib):
            it.stdin.write(commit(f"History {number}", {"history.bin": os.urandom(1 << 20)}))
        source = ((f"src/{n % 40}/{n // 40 % 50}/{n}.txt", f"{n}\n" * 40) for n in range(files))
        made = {name: text.encode() for name, text in (*SMALL.items(), *source)}
        it.stdin.write(commit("Everything", made))
        it.stdin.write(b"D history.bin\n" if mib else b"")
    return bare


def commit(subject: str, files: dict[str, bytes]) -> bytes:
    about = f"commit refs/heads/main\ncommitter x <x@x> 1790000000 +0000\ndata {len(subject)}\n"
    parts = [about.encode(), subject.encode(), b"\n"]
    for name, data in files.items():
        parts += [f"M 100644 inline {name}\ndata {len(data)}\n".encode(), data, b"\n"]
    return b"".join(parts)


class Database:
    """Stands for the fleet's, which is measured elsewhere."""

    def rows(self, **_: object) -> list[object]:
        return []

    def row(self, _: str) -> None:
        return None

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def submit(self, _: object) -> None: ...


def measured(folder: Path, files: int, mib: int, rounds: int) -> dict[str, float]:
    bare = remote(folder, files, mib)
    url = f"file://{bare}"
    times: Times = {}
    measure = partial(measured_in, times)
    database = cast("Any", Database())
    for number in range(rounds):
        measure("ls_remote", partial(git, folder, "ls-remote", url))
        measure("reading", partial(read, folder, url, f"read-{number}"))
        measure("submit", partial(submit, database, Submission("one", repository=url), cwd=bare))
    refs = git(bare, "for-each-ref", "--format=%(refname)", "refs/playbook").split()
    session = refs[0].rpartition("/")[2]
    mirror = Mirror(folder / "mirror.git", url, ["file"])
    measure("mirror", mirror.base)
    for number in range(rounds):
        take_up_and_step(folder, mirror, session, number, times)
    add_sessions(bare, session)
    fresh = Mirror(folder / "fresh.git", url, ["file"])
    fresh.base()
    measure("tips_first", fresh.tips)
    measure("tips_again", fresh.tips)
    each_round = zip(times["ls_remote"], times["reading"], strict=True)
    times["submit_of_git"] = [2 * listing + reading for listing, reading in each_round]
    pairs = {
        "submit_ratio": ("submit", "submit_of_git"),
        "take_up_ratio": ("take_up", "worktree_add"),
        "snapshot_ratio": ("snapshot", "status"),
    }
    found = {name: round(median(each), 1) for name, each in times.items()}
    for name, (ours, gits) in pairs.items():
        ratios = [mine / its for mine, its in zip(times[ours], times[gits], strict=True)]
        found[name] = round(median(ratios), 2)
    return found


def read(folder: Path, url: str, name: str) -> None:
    git(folder, "clone", "-q", "--depth=1", url, name)


def take_up_and_step(folder: Path, mirror: Mirror, session: str, number: int, times: Times) -> None:
    measure = partial(measured_in, times)
    mirror.tip(session)
    tree = folder / f"tree-{number}"
    adding = ("worktree", "add", "-q", "--detach", str(tree), REF.format(id=session))
    measure("worktree_add", partial(git, mirror.folder, *adding))
    git(mirror.folder, "worktree", "remove", "--force", str(tree))
    clone = SessionClone(mirror, folder / f"clone-{number}")
    measure("take_up", partial(take_up, mirror, session, number + 1, clone.path))
    clone.remove()
    tip = mirror.tip(session)
    clone = mirror.checkout(tip, clone.path)
    tip = clone.snapshot(tip)  # the first one reads files again that are as young as the index
    for turn in range(2):
        (clone.path / "src/7/0/7.txt").write_text(f"{number} {turn}\n")
        measure("status", partial(git, clone.path, "status", "--short"))
        pushes: list[float] = []
        began = time.perf_counter()
        with timed_pushes(pushes):
            tip = clone.snapshot(tip)
        whole = (time.perf_counter() - began) * 1000
        times.setdefault("snapshot", []).append(whole - sum(pushes))
        times.setdefault("push", []).append(sum(pushes))
    clone.remove()


def take_up(mirror: Mirror, session: str, epoch: int, path: Path) -> None:
    mirror.checkout(mirror.claim(mirror.tip(session), epoch, "worker"), path)


@contextmanager
def timed_pushes(times: list[float]) -> Iterator[None]:
    """Note how long each push takes."""
    move = RemoteRefs.move

    def timed(*arguments: Any, **options: Any) -> str:
        began = time.perf_counter()
        try:
            return move(*arguments, **options)
        finally:
            times.append((time.perf_counter() - began) * 1000)

    RemoteRefs.move = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        RemoteRefs.move = move  # type: ignore[method-assign]


def add_sessions(bare: Path, like: str) -> None:
    """500 sessions, each at a commit of its own."""
    message = git(bare, "log", "-1", "--format=%B", REF.format(id=like))
    for number in range(SESSIONS):
        session = f"20261124-{number:03}"
        text = message.replace(like, session)
        made = git(bare, "commit-tree", "main^{tree}", "-p", "main", stdin=text)
        git(bare, "update-ref", REF.format(id=session), made)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for option, default in (("files", FILES), ("mib", 0), ("rounds", ROUNDS)):
        parser.add_argument(f"--{option}", type=int, default=default)
    given = parser.parse_args()
    place = given.folder.resolve()
    place.mkdir(parents=True)
    os.environ["HOME"] = str(place)  # the settings and mirrors of a user without any
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        os.environ.pop(name, None)
    (place / ".config/playbook").mkdir(parents=True)
    (place / ".config/playbook/worker.yaml").write_text("transports: [file]\n")
    print(json.dumps(measured(place, given.files, given.mib, given.rounds)))
