"""Kills a real run of a real session, at every write or at any time, and lets it be resumed.

`points` ends a run by SIGKILL at its n-th write to the disk, for every n of the shard, until a run
comes to its end; `beginnings` does so with `run` and its options, followed by a bare `resume`;
`times` kills at random moments, again and again in one session. Each run is a process of its own.
Each returns its kills, runs, write points, and every broken promise.

What was done and said stands in a log outside the session: `ran`, `evidence` (its artifacts are
there), `settled` and `answered`, in the order in which it became true.
"""

from __future__ import annotations

import itertools
import os
import posix
import random
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from playbook_supervisor.agents.protocol import Call, Message, Running
from playbook_supervisor.agents.script import ScriptAgent, read
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.commands.views.session_files import audit
from playbook_supervisor.drivers.headless import Runner
from playbook_supervisor.drivers.observers import Observer, PromptAnswer
from playbook_supervisor.kernel.directives import Finish
from playbook_supervisor.kernel.state import Change, Entry, Event
from playbook_supervisor.kernel.vocabulary import (
    EntryStatus,
    GateReason,
    Mode,
    Resolution,
    SessionStatus,
)
from playbook_supervisor.sessions.files.journal import parse_journal
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.gate.gate_context import GateContext
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from support.stored_sessions import FEATURE, Scene, playbook, step

STEPS = (
    step("plan", postconditions=["plan_exists"]),
    step("fix", error_policy="retry_once"),
    step("agreement", parallel_group="g", postconditions=["agreement_exists"]),
    step("qa-plan", parallel_group="g", postconditions=["qa_plan_exists"]),
    step("note", parallel_group="g"),
    step("check", autonomy="gate_always", postconditions=["agreement_pass"]),
    step(
        "qa-run",
        postconditions=["qa_verdict_pass"],
        error_policy="gate",
        escalation_triggers=["verdict_fail"],
    ),
    step("last", autonomy="gate_always"),
)
BEGUN = (step("fix"), STEPS[0], step("last", autonomy="gate_always"))
"""A run with `--from plan` skips the first step."""
EVIDENT = ("plan", "agreement", "qa-plan", "check")
"""Steps whose artifacts, once written, say that they are done."""

SCRIPT = """
steps:
  plan: {write: {"specs/{{feature}}/plan.md": "a plan of {{attempt}}"}}
  fix: [{fail: two tests are red}, {say: mended}]
  agreement: {write: {".agreements/{{feature}}/agreement.yaml": "agreed: {{attempt}}"}}
  qa-plan: {write: {".qa/{{feature}}/test-plan.md": "plan {{attempt}}"}}
  check: {write: {".agreements/{{feature}}/check-report.md": "verdict: PASS"}}
  qa-run:
    - {write: {".qa/{{feature}}/verdict.md": "verdict: FAIL"}}
    - {write: {".qa/{{feature}}/verdict.md": "verdict: PASS"}}
"""
POINTS = ("write", "fsync", "fdatasync", "replace", "rename", "link", "unlink", "mkdir")

EVERY = int(os.environ.get("CRASH_EVERY", "5"))
"""Of the writes of a short deed, each fifth is tried. A release must survive `CRASH_EVERY=1`."""
STRIDE = 48
"""How many shards there are of the writes of a run with children, or with loops."""
SHARDS = int(os.environ.get("CRASH_SHARDS", "2"))
"""How many of them are tried. A release must survive `CRASH_SHARDS=48`: then each write is one."""


def some_writes(fewer: int = 1) -> Iterator[int]:
    """Of a deed that has few of them, without an end: the first, the sixth, and so on.

    Of one that has many, so many times `fewer`.
    """
    return itertools.count(1, EVERY if EVERY == 1 else EVERY * fewer)


def some_shards() -> list[Any]:
    """The first is in the short suite, the others in the long one."""
    return [0, *(pytest.param(shard, marks=pytest.mark.long) for shard in range(1, SHARDS))]


@dataclass
class Log:
    """Lines that are appended at once and not counted as writes."""

    path: Path
    append: Callable[[int, bytes], int] = os.write

    def say(self, *words: str) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.append(descriptor, f"{' '.join(words)}\n".encode())
        os.close(descriptor)

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.path.read_text().splitlines()]


# ── one run ─────────────────────────────────────────────────────────────────────────────────


@dataclass
class LoggedAgent:
    """The embedded agent, whose deeds are on record."""

    script: ScriptAgent
    log: Log
    name: str = "script"

    def available(self) -> str | None:
        return None

    def run(self, call: Call) -> Running:
        self.log.say("ran", call.directive)
        running = self.script.run(call)
        return Running(self._evident(running.messages, call), running.stop)

    def _evident(self, messages: Iterator[Message], call: Call) -> Iterator[Message]:
        for message in messages:
            if message.outcome is not None and message.outcome.ok:
                self.log.say("evidence", call.directive)
            yield message


class LoggedTree(SessionTree):
    """Puts on record what a human was told to be accepted."""

    log: Log

    def answer(
        self, gate_id: str, resolution: Resolution, text: str, by: Principal, at: int | None = None
    ) -> Snapshot:
        snapshot = super().answer(gate_id, resolution, text, by, at)
        self.log.say("answered", gate_id, resolution)
        return snapshot


@dataclass
class LoggedWatcher(Observer):
    """Puts on record what was told to be settled."""

    log: Log

    def on_event(self, event: Event, snapshot: Snapshot) -> None:
        if event.change in (Change.DONE, Change.FAILED, Change.SKIPPED):
            self.log.say("settled", event.id)


class Ana:
    """Answers every gate: a red verdict is worth another try, everything else continues."""

    def ask(
        self, snapshot: Snapshot, context: GateContext | None, overtaken: Callable[[], bool]
    ) -> PromptAnswer:
        reason = getattr(snapshot.directive, "reason", None)
        return PromptAnswer("retry" if reason is GateReason.VERDICT_FAIL else "continue")

    def not_understood(self, snapshot: Snapshot, question: str) -> None:
        raise AssertionError(question)


def drive(scene: Scene, log: Log, script: ScriptAgent) -> None:
    """Create the session or take it up, and drive it to its end."""
    scene.store = DiskStore(scene.store.checkout)
    sessions = scene.store.ids()
    if sessions:
        session_id = sessions[0]
    else:
        text = playbook(*STEPS)
        session_id = scene.store.create(playbook="sample", text=text, feature=FEATURE, args={})
    tree = LoggedTree(scene.store, session_id)
    tree.log = log
    pending = tree.look().pending
    observer, by = LoggedWatcher(log), Principal("Ana")
    runner = Runner(tree, LoggedAgent(script, log), observer, Ana(), by=by)
    ending = runner.drive(lambda: tree.begin() if pending else tree.advance())
    assert ending.why == "completed", ending.snapshot


def die_at(point: int) -> None:
    """SIGKILL this process at its n-th write, which, if it is one of bytes, is cut in half.

    Nothing is really synced: what a killed process has written stands all the same.
    """
    count = itertools.count(1)

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if next(count) == point:
                if name == "write":
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
                signal.pause()
            return None if name in ("fsync", "fdatasync") else real(*args, **kwargs)

        return call

    def cut(path: Path, data: bytes) -> int:
        if next(count) == point:
            whole(path, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()
        return whole(path, data)

    for name in POINTS:
        setattr(os, name, counted(name, getattr(os, name)))
    # It writes without `os.write`: who comes to use it in a session's way is found here.
    whole, Path.write_bytes = Path.write_bytes, cut  # type: ignore[assignment,method-assign]


def forked(
    work: Callable[[], object], point: int = 0, die: Callable[[int], object] = die_at
) -> int:
    """The id of a new process that does this work, and dies at that write; 0 is none."""
    with warnings.catch_warnings(action="ignore"):  # of threads, which the process does not need
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            sys.settrace(None)
            die(point)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            posix._exit(code)  # `os._exit` would save coverage
    return pid


def ended(pid: int) -> int:
    """The exit status of the process, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# ── what must hold afterwards ───────────────────────────────────────────────────────────────


def broken_promises(scene: Scene, log: Log) -> Iterator[str]:
    """Everything that a crash must not do, and did."""
    sessions = scene.store.ids()
    if len(sessions) != 1:
        yield f"{len(sessions)} sessions"
        return
    tree = SessionTree(DiskStore(scene.store.checkout), sessions[0])
    data = scene.file(tree, "journal.yaml").read_bytes()
    entries = parse_journal(data, "journal.yaml").entries
    yield from _in_the_journal(entries)
    yield from _in_the_log(entries, log.lines())
    if not isinstance(tree.look().directive, Finish):
        yield "the session has not ended"
    if scene.manifest(tree)["status"] != "completed":
        yield "the manifest lags"
    for folder in (scene.file(tree, "x").parent, tree.private):
        for file in folder.glob(".playbook-tmp-*"):
            yield f"a temporary file is left: {file}"


def false_alarms(scene: Scene) -> Iterator[str]:
    """What the first audit after a crash reports, which is the crash's own doing."""
    for session_id in scene.store.ids():
        for audited in audit([session_id], cwd=scene.store.checkout.root):
            for file in audited.files:
                yield from (f"audit: {problem.code} {problem.message}" for problem in file.problems)


def _in_the_journal(entries: tuple[Entry, ...]) -> Iterator[str]:
    for name in (str(one["id"]) for one in STEPS):
        mine = [entry for entry in entries if entry.step_id == name]
        if [entry.attempt for entry in mine] != list(range(1, len(mine) + 1)):
            yield f"the attempts of {name} are {[entry.attempt for entry in mine]}"
        if [entry.status is EntryStatus.DONE for entry in mine] != [False] * (len(mine) - 1) + [
            True
        ]:
            yield f"{name} ended as {[entry.status.value for entry in mine]}"


def _in_the_log(entries: tuple[Entry, ...], log: list[list[str]]) -> Iterator[str]:
    ran = [words[1] for words in log if words[0] == "ran"]
    known = {entry.id for entry in entries}
    yield from (f"{one} ran twice" for one in {one for one in ran if ran.count(one) > 1})
    yield from (f"{one} ran and is not in the journal" for one in set(ran) - known)
    answers = {
        (gate.id, gate.resolution) for entry in entries for gate in entry.gates if gate.resolution
    }
    done: set[str] = set()
    evident: set[str] = set()
    for what, who, *rest in log:
        name = who.partition("#")[0]
        if what == "ran" and name in done:
            yield f"{who} ran although {name} was settled"
        if what == "ran" and name in evident:
            yield f"{who} ran although the evidence was there"
        if what == "evidence" and name in EVIDENT:
            evident.add(name)
        if what == "settled" and any(
            entry.id == who and entry.status is EntryStatus.DONE for entry in entries
        ):
            done.add(name)
        if what == "answered" and (who, Resolution(rest[0])) not in answers:
            yield f"the answer {rest[0]} to {who} was lost"


# ── the experiments ─────────────────────────────────────────────────────────────────────────


def fresh(folder: Path, script: str) -> tuple[Scene, Log, ScriptAgent]:
    """A repository with nothing but the feature's specification."""
    shutil.rmtree(folder, ignore_errors=True)
    scene = Scene(folder / "repository")
    scene.write(f"specs/{FEATURE}/spec.md", "a specification\n")
    file = folder / "script.yaml"
    file.write_text(script)
    log = Log(folder / "log")
    log.path.touch()
    return scene, log, ScriptAgent(read(file))


def points(folder: Path, shard: int, shards: int) -> dict[str, Any]:
    """Kill at every n-th write; resume; look."""
    broken: list[str] = []
    for kills, point in enumerate(itertools.count(shard + 1, shards)):
        scene, log, agent = fresh(folder, SCRIPT)
        driven = partial(drive, scene, log, agent)
        code = ended(forked(driven, point))
        if code == 0:
            return {"kills": kills, "points": point, "broken": broken}
        if code != -signal.SIGKILL:
            broken.append(f"write {point}: the run ended with {code}")
        broken += [f"write {point}: {alarm}" for alarm in false_alarms(scene)]
        if code := ended(forked(driven)):
            broken.append(f"write {point}: the resumed run ended with {code}")
        broken += [f"write {point}: {promise}" for promise in broken_promises(scene, log)]
    raise AssertionError("writes never end")


def beginnings(folder: Path, shard: int, shards: int) -> dict[str, Any]:
    """Kill `run` with its options at every n-th write; look; `resume` continues with them."""
    broken: list[str] = []
    for kills, point in enumerate(itertools.count(shard + 1, shards)):
        scene, _, _ = fresh(folder, SCRIPT)
        scene.write(".playbooks/playbooks/sample.yaml", playbook(*BEGUN).decode())
        scene.write(".playbooks/config.yaml", "commit_sessions: never\n")
        options = DriveOptions(f"script:{folder}/script.yaml", Mode.AUTONOMOUS, 50.0, 40.0)
        begin = partial(driving.run, "sample", cwd=scene.root, start="plan", drive=options)
        code = ended(forked(begin, point))
        if code == 0:
            return {"kills": kills, "points": point, "broken": broken}
        if code != -signal.SIGKILL:
            broken.append(f"write {point}: the run ended with {code}")
        for promise in (*_broken_in(scene), *_broken_beginning(scene, partial(begin))):
            broken.append(f"write {point}: {promise}")  # noqa: PERF401 - as the others do
    raise AssertionError("writes never end")


def _broken_in(scene: Scene) -> Iterator[str]:
    """What is wrong with the files, before another command looks at them."""
    for session in scene.root.glob(".playbooks/sessions/[0-9]*"):
        if names := {"session.yaml", "journal.yaml", "playbook.yaml"} - {
            path.name for path in session.iterdir()
        }:
            yield f"{session.name} has no {names}"
        elif "driver:" not in (session / "session.yaml").read_text():
            yield "it is not known how to drive it"


def _broken_beginning(scene: Scene, begin: Callable[[], object]) -> Iterator[str]:
    store = DiskStore(scene.store.checkout)
    sessions = store.ids()
    private = {path.name for path in scene.root.glob(".git/playbook/[0-9]*")}
    if private != set(sessions) or list(scene.root.glob(".playbooks/sessions/.*")):
        yield f"something is left beside {sessions}: {private}"
    go_on = partial(driving.resume, cwd=scene.root) if sessions else begin
    if code := ended(forked(go_on)):
        yield f"the resumed run ended with {code}"
        return
    (session_id,) = DiskStore(scene.store.checkout).ids()
    tree = SessionTree(DiskStore(scene.store.checkout), session_id)
    manifest = tree.look().manifest
    driver = manifest.driver
    if (manifest.status, driver.mode, driver.wall, driver.idle) != (
        SessionStatus.COMPLETED,
        Mode.AUTONOMOUS,
        50.0,
        40.0,
    ):
        yield f"it was driven otherwise: {manifest}"
    entries = [(e["step_id"], e["status"]) for e in scene.journal(tree)]
    if ("fix", "skipped") not in entries or ("plan", "done") not in entries:
        yield f"it began elsewhere: {entries}"


def times(folder: Path, wanted: int, seed: int) -> dict[str, Any]:
    """Kill at random moments until there were so many kills; each session is driven to its end."""
    chance = random.Random(seed)  # noqa: S311 - moments, no secrets
    broken, kills, runs, sessions = [], 0, 0, 0
    longest = 0.2
    while kills < wanted:
        scene, log, agent = fresh(folder, SCRIPT)
        sessions += 1
        for patience in itertools.count():
            began = time.monotonic()
            pid = forked(partial(drive, scene, log, agent))
            runs += 1
            if patience < 12:
                time.sleep(chance.uniform(0, longest))
                os.kill(pid, signal.SIGKILL)
            code = ended(pid)
            if code == 0:
                longest = 0.8 * longest + 0.2 * (time.monotonic() - began)
                break
            if code != -signal.SIGKILL:
                broken.append(f"session {sessions}: a run ended with {code}")
                break
            kills += 1
        broken += [f"session {sessions}: {promise}" for promise in broken_promises(scene, log)]
    return {"kills": kills, "runs": runs, "sessions": sessions, "broken": broken}


def some_points(
    folder: Path,
    shard: int,
    script: str,
    drive: Callable[[Scene, Log, ScriptAgent], None],
    promises: Callable[[Scene, Log], Iterator[str]],
) -> tuple[int, list[str]]:
    """How many writes a run has, and what was broken by kills at those of the shard."""
    broken: list[str] = []
    for point in itertools.count(shard + 1, STRIDE):
        scene, log, agent = fresh(folder, script)
        driven = partial(drive, scene, log, agent)
        code = ended(forked(driven, point))
        if code == 0:
            return point, broken
        if code != -signal.SIGKILL:
            broken.append(f"write {point}: the run ended with {code}")
        if code := ended(forked(driven)):
            broken.append(f"write {point}: the resumed run ended with {code}")
        broken += [f"write {point}: {promise}" for promise in promises(scene, log)]
    raise AssertionError("unreachable: a run has an end")
