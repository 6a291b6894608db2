"""Measures everything that has a bar, and writes docs/performance.md.

Processes are measured alternately with `python -c pass` and reported relative to it, because ratios
can be compared between machines and between a busy and a quiet machine. Nothing here fails for
being slow.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import cache_from_source
from pathlib import Path
from statistics import median
from typing import Any

import hooks
import sample

import playbook_supervisor

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "performance.md"
PASS = (sys.executable, "-c", "pass")
PLAYBOOK = (sys.executable, "-m", "playbook_supervisor")
ROUNDS = 21
WHY = """\
## Where the time goes

The parts of `next`, `report` and the hooks, relative to `python -c pass`, measured separately with
Python 3.11 and rounded:

| part | a worker's tool | a hook that opens the session | `next` | `report` |
|---|---|---|---|---|
| the interpreter, which exits without cleaning up | 0.85 | 0.85 | 0.85 | 0.85 |
| `json`, which imports `re`, `enum` and `contextlib` | 0.6 | 0.6 | 0.6 | 0.6 |
| `pathlib`, which imports `urllib.parse` and `ipaddress` up to Python 3.12 | – | 0.3 | 0.3 | 0.3 |
| our modules, 0.02 each | 0.2 | 1.05 | 0.95 | 1.05 |
| the work itself, and the shell of a hook | 0.15 | 0.3 to 0.5 | 0.3 | 0.55 |

Most hooks of a session are tool calls of workers, reads of the main thread and rounds of calls. Six
small modules answer them. The others, a few for each step, ask the kernel what is due. This needs
the playbook, the state of the journal, and the digests of the session's files, which show whether
they were changed. A report also writes the result and the next launch, both synced to disk before
anything else happens, and keeps a copy out of reach of the workers.

Faster alternatives that we rejected: a background process that answers (one more thing that can
hang, die or be deceived), a substitute for `urllib.parse` during the import of `pathlib`, an
interpreter without `site` (virtual environments and editable installs need it), and fewer, larger
modules.

## The inbox

`PYTHONPATH=tests:tools python benchmarks/inbox_load.py FOLDER` makes the last rows of the table: it
runs `playbook inbox` on a terminal, and 50 clients that listen and fetch the list at each event.
While nothing happens, a fifth of its time goes to a look at all 200 sessions every 15 seconds; it
takes 14 ms. The rest goes to some thirty wake-ups a second, of what watches the files and of the
server.

After a write in one session, only that session is read again, and the folders of its repository are
listed: 2 ms. Reading all sessions of that repository took 18 ms. The list is rendered once for each
change. When each browser had it rendered, the same load took 22 % of a core.

## The fleet

`PYTHONPATH=tests:tools python benchmarks/fleet_load.py FOLDER` makes the rows of the fleet, with a
PostgreSQL server of its own that does not wait for the disk. Processor times are those of the
workers and of the server's processes, without agents and the sessions that drive them. Statements
are those that the server logs, with BEGIN and COMMIT. Idle workers have had work before, so that
their memory is that of a worker, not of a start. From an answer to the next agent at work there
are the clone and the start of the session. After a kill, the lease of 8 seconds has to lapse; a
usual one lasts 90.

`make fleet-chaos` and `make fleet-soak` say what is kept while everything fails
([decision 0240](decisions/0240-steps-and-git-are-the-judges.md)). In an hour with 500 sessions on
three workers and a fault every 5 to 10 seconds (`FLEET_PAUSE=5-10`), 150 kills and 72 freezes among
them, 430 sessions were completed and 70 were aborted as people had asked, all within 43 minutes;
the later faults struck idle workers. Of 2,986 steps that began, 274 were cut off and began again.
No settled step began again, no answer was lost, no two agents of a session were at work at once but
for 0.01 seconds after the thaw of a whole machine, and no session lost its job. From a kill to the
next claim it took 13 seconds in the median and 42 at most, with a lease of 8 seconds, while slots
were busy and the database failed, too.

## Killed runs

`CLAUDE_KILLS=200 python -m pytest -n0 --timeout=0 tests/claude -k random_moments` kills runs with
SIGKILL at random moments while the real client works, and resumes them, either waiting for the
client or ending it. In 200 kills of 179 sessions of two steps, 171 of which left a client working,
no step was lost or repeated. `CRASH_KILLS=200 python -m pytest tests/test_crash.py -k moments` uses
the embedded agent: in 200 kills of 43 sessions of eight steps, no step was lost or repeated.
`make fuzz` runs both; the suite runs them with fewer kills.""".splitlines()
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Row:
    """A row of the table: the subject, its figure, the bar, whether it is met, absolute figures."""

    what: str
    figure: str
    bar: str
    kept: bool
    absolute: str


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="playbook-bench-") as folder:
        _compiled(Path(folder))
        rows = []
        for row in _measured(Path(folder)):
            print(f"{row.what}: {row.figure} (bar: {row.bar}), {row.absolute}", flush=True)
            rows.append(row)
    PAGE.write_text(_page(rows))
    print(f"wrote {PAGE.relative_to(HERE.parent)}")


def _measured(folder: Path) -> Iterator[Row]:
    yield from _checks(folder)
    yield from _engine(folder)
    yield from _client(folder)
    yield from _fleet_status(folder / "sessions")
    yield from _hooks(folder / "hooks")
    yield from _worktrees(folder / "worktrees")
    yield from _tree(folder / "tree")
    yield from _proofs(folder / "proofs")
    yield from _headless(folder / "headless")
    yield from _inbox(folder / "inbox")
    yield from _fleet(folder / "fleet")


# ── what is measured ────────────────────────────────────────────────────────────────────────


def _checks(folder: Path) -> Iterator[Row]:
    root = sample.repository(folder / "checks")
    (root / "one.yaml").write_bytes(sample.playbook(20, "one", conditions=True))
    yield _whole("`playbook check FILE`, 20 steps", ["check", "one.yaml"], root, 5.0)
    names = [f"p{number}.yaml" for number in range(1000)]
    for name in names:
        (root / name).write_bytes(sample.playbook(20, name[:-5], conditions=True))
    began = time.perf_counter()
    _run([*PLAYBOOK, "check", *names], root)
    each = time.perf_counter() - began
    yield _absolute("`playbook check` of 1,000 playbooks of 20 steps, each", each, 3.0)
    examined = _engine_says("check", 1000, folder / "examined")["each"]
    yield _absolute("the same in process, without lints", examined, 3.0)


def _engine(folder: Path) -> Iterator[Row]:
    for steps in (100, 1000):
        what = f"engine overhead for each no-op step of a run of {steps:,}"
        for where, place in (("", folder), (", without a disk", _in_memory(folder))):
            found = _engine_says("run", steps, place / f"run-{steps}{where}")
            more = (
                f"processor {found['processor']:.2f}; the first hundred {found['first']:.2f}, the "
                f"last {found['last']:.2f}; one small file is replaced in {found['replace']:.2f}"
            )
            yield _absolute(what + where, found["each"], 2.0, more)
    memory = _engine_says("run", 10_000, _in_memory(folder) / "run-10000")
    kept = memory["memory"] <= 100
    figure = f"{memory['memory']:.0f} MiB"
    each = f"{memory['each']:.2f} ms a step, without a disk"
    yield Row("a session of 10,000 steps, most memory at any time", figure, "100 MiB", kept, each)
    ratios = []
    for items in (10, 100, 1000):
        found = _engine_says("items", items, _in_memory(folder) / f"items-{items}")
        ratios.append(found["item"] / found["step"])
        what = f"an item of a loop of {items:,}, to a step of a playbook of as many, without a disk"
        absolute = f"{found['item']:.2f} ms, a step {found['step']:.2f} ms"
        yield Row(what, f"{ratios[-1]:.2f} ×", "none", True, absolute)
    yield _grown("the same ratio, 1,000 items against 10", ratios[0], ratios[-1])
    few, many = (
        _engine_says("write", entries, folder / f"write-{entries}")["each"]
        for entries in (10, 1000)
    )
    yield _grown("a report's writes, 1,000 entries against 10", few, many)
    found = _engine_says("commit", ROUNDS, folder / "commit")
    ratio, absolute = found["ours"] / found["by hand"], f"{found['ours']:.0f} ms"
    what = "a session's commit, against `git commit` of the same by hand"
    yield Row(what, f"{ratio:.1f} ×", "3.0 ×", ratio <= 3, absolute)


def _client(folder: Path) -> Iterator[Row]:
    for command in ("next", "report"):
        took, passed = _client_call(command, folder / command, 10, 60)
        what = f"`playbook {command}`, 60 steps, 10 journal entries"
        yield _ratio(what, took, passed, 5.0)
        few, many = (
            took / passed
            for took, passed in (
                _client_call(command, folder / f"{command}-{entries}", entries, 1060)
                for entries in (10, 1000)
            )
        )
        row = _grown(f"`playbook {command}`, 1,060 steps, 1,000 entries against 10", few, many)
        yield replace(row, absolute=f"{many:.1f} × against {few:.1f} ×")
    sample.part_of_the_way(root := sample.repository(folder / "gate"), 10, 60, gate=True)
    yield _whole("`playbook next` at a gate, with its context", ["next"], root, 5.0)


def _fleet_status(root: Path) -> Iterator[Row]:
    """A database on this machine; skipped without the extra."""
    if importlib.util.find_spec("psycopg") is None:
        return
    from playbook_supervisor.fleet.storage import address
    from playbook_supervisor.fleet.storage.database import FleetDatabase
    from playbook_supervisor.fleet.storage.rows import NewSession

    sample.repository(root)
    place = address.of_file(root / "fleet.sqlite")
    settings = root / ".playbooks/config.yaml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(f"fleet: {place.url}\n")
    FleetDatabase.migrate(place)
    url = "https://git.example/acme/site"
    with FleetDatabase.open(place) as database:
        for number in range(30):
            id_ = f"20260219-{number:03}"
            database.submit(NewSession(id_, url, f"branch-{id_}", "auto-feature", "013"))
    yield _whole("`playbook fleet status`, 30 sessions, SQLite", ["fleet", "status"], root, 12.0)


def _hooks(folder: Path) -> Iterator[Row]:
    for found in hooks.measured(folder):
        figure, bar = f"{found.ratio:.2f} ×", f"{found.bar:.2f} ×"
        kept = found.ratio <= found.bar
        yield Row(f"a hook: {found.what}", figure, bar, kept, f"{found.ms:.1f} ms of processor")


def _worktrees(folder: Path) -> Iterator[Row]:
    """Compared with git itself, without a bar."""
    folder.mkdir()
    argv = [sys.executable, str(HERE / "worktrees.py"), str(folder)]
    environment = {**ENVIRONMENT, "GIT_CONFIG_NOSYSTEM": "1"}
    said = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, float] = json.loads(said)
    at_once = f"eight at once {found['eight'] / 1000:.1f} s, {found['failed']:.0f} of them failed"
    yield _beside(
        "`playbook start`, 2,000 files, to `git worktree add`",
        *(found["start"], found["added"]),
        at_once,
    )
    for name, what in (
        ("apart", "each in one of them"),
        ("merged", "all of them in each"),
    ):
        what = f"`playbook status`, 200 sessions, 10 worktrees, {what}, to `git status`"
        yield _beside(what, found[f"status_{name}"], found[f"git_{name}"])


def _tree(folder: Path) -> Iterator[Row]:
    """The id of a working tree, compared with `git status`, without a bar."""
    folder.mkdir()
    argv = [sys.executable, str(HERE / "tree.py"), str(folder)]
    said = subprocess.run(argv, env=ENVIRONMENT, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, float] = json.loads(said)
    for name, what in (("clean", "nothing changed"), ("new", "50 new files")):
        what = f"the id of a tree of 10,000 files, {what}, to `git status`"
        yield _beside(what, found[name], found[f"{name}_status"])


def _proofs(folder: Path) -> Iterator[Row]:
    """The condition `proved`, compared with the exit status of its check."""
    folder.mkdir()
    argv = [sys.executable, str(HERE / "proofs.py"), str(folder)]
    said = subprocess.run(argv, env=ENVIRONMENT, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, float] = json.loads(said)
    for name, what, bar in (
        ("first", "of changed code, for the first time", 3.5),
        ("code", "of changed code", 1.2),
        ("both", "of changed code and tests", 2.5),
    ):
        ratio = found[name]
        what = f"the proof {what}, to its check alone, processor"
        yield Row(what, f"{ratio:.2f} ×", f"{bar:.1f} ×", ratio <= bar, "")


def _headless(folder: Path) -> Iterator[Row]:
    """A step with the real client, compared with the client alone; skipped if not installed."""
    if importlib.util.find_spec("claude_agent_sdk") is None:
        return
    argv = [sys.executable, str(HERE / "headless.py"), str(folder)]
    environment = {
        **ENVIRONMENT,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PYTHONPATH": str(HERE.parent / "tests"),
        **{f"GIT_{who}_{what}": "x@x" for who in ("AUTHOR", "COMMITTER") for what in _IDENTITY},
    }
    said = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, float] = json.loads(said)
    took, bare = found["ours"], found["bare"]
    absolute = f"{took:.0f} ms, alone {bare:.0f} ms"
    what = "a step of `playbook run` by the client, to `claude -p` alone, a scripted model"
    yield Row(what, f"{took / bare:.2f} ×", "none", True, absolute)


_IDENTITY = ("NAME", "EMAIL")


def _inbox(folder: Path) -> Iterator[Row]:
    """The inbox with 50 browsers, from what Linux tells of its process; skipped elsewhere."""
    if sys.platform != "linux":
        return
    found: dict[str, float] = _load("inbox_load.py", folder)
    for name, what in (("idle_alone", "no browser"), ("idle", "50 browsers that listen")):
        what = f"the inbox, 200 sessions in 20 repositories, nothing happens, {what}, of a core"
        yield Row(what, f"{found[name]:.2f} %", "1.00 %", found[name] <= 1, "")
    yield Row(
        "the same with a journal write each second, which 50 browsers then show, of a core",
        *(f"{found['load']:.1f} %", "none", True),
        f"{found['memory']:.0f} MiB, {found['threads']:.0f} threads, "
        f"{found['descriptors']:.0f} descriptors",
    )
    shown, most = found["shown"], found["shown_most"]
    yield Row(
        "from the start of a journal write until the last of 50 browsers shows it",
        *(f"{shown:.2f} s", "1.00 s", shown <= 1),
        f"at most {most:.2f} s in 60 writes; the last browser is told after {found['told']:.2f} s",
    )
    grown = found["memory_grown"]
    yield Row(
        "memory of the inbox after 3,000 more writes, to after 1,000 of them",
        *(f"+{grown:.1f} MiB", "none", True),
        f"threads +{found['threads_grown']:.0f}, descriptors +{found['descriptors_grown']:.0f}; "
        f"{found['pages']:,.0f} pages were fetched meanwhile",
    )
    yield Row(
        "Ctrl-C until the inbox has ended, 50 browsers that listen",
        *(f"{found['end']:.2f} s", "2.00 s", found["end"] <= 2, ""),
    )


def _fleet(folder: Path) -> Iterator[Row]:
    """Workers and their database, from what Linux tells of them; skipped without PostgreSQL."""
    if sys.platform != "linux" or not any(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        return
    found = _load("fleet_load.py", folder)
    idle: dict[int, dict[str, float]] = {row["workers"]: row for row in found["idle"]}
    three = idle[3]
    yield Row(
        "an idle worker of a fleet, of a core",
        *(f"{three['a worker, %']:.1f} %", "4.0 %", three["a worker, %"] <= 4),
        f"{three['start, CPU s']:.2f} s of processor to start",
    )
    most = max(row["a worker, MiB"] for row in idle.values())
    yield Row("its memory, after work", f"{most:.0f} MiB", "80 MiB", most <= 80, "")
    for what, key, bar in (
        ("its statements", "statements/s of a worker", 1.0),
        ("its connections", "connections of a worker", 2.0),
    ):
        each = {number: row[key] for number, row in idle.items()}
        shown = ", ".join(f"with {number} {figure:.1f}" for number, figure in each.items())
        unit = "/s" if key.startswith("statements") else ""
        most = max(each.values())
        yield Row(what, f"{most:.1f}{unit}", f"{bar:.0f}{unit}", most <= bar, shown)
    for row in found["busy"]:
        most, slots = row["connections of a worker"], row["slots"]
        yield Row(
            f"connections of a worker, {row['workers']} workers with {slots} busy slots each",
            *(f"{most:.1f}", f"{2 + slots}", most <= 2 + slots),
            f"{row['statements/s of a worker']:.1f} statements/s, {row['a worker, MiB']:.0f} MiB",
        )
    yield Row(
        "the database of a fleet with three idle workers, of a core",
        *(f"{three['the database, %']:.1f} %", "5.0 %", three["the database, %"] <= 5, ""),
    )
    loaded: dict[str, float] = found["loaded"]
    share = loaded["the database, %"]
    yield Row(
        "the same with 1,000 sessions waiting, 200 queued and 50 running on five workers",
        *(f"{share:.1f} %", "10.0 %", share <= 10),
        f"a worker {loaded['a worker, %']:.1f} %, {loaded['a worker, MiB']:.0f} MiB",
    )
    took = loaded["fleet status, s"]
    yield Row("`playbook fleet status` of these", f"{took:.2f} s", "1.00 s", took <= 1, "")
    for what, part, bar in (
        ("from a session in the queue until a worker has it", "taken", 1.0),
        ("from an answer until the next agent is at work", "answered", 5.0),
        ("from the kill of a worker until its session is claimed", "killed", 18.0),
    ):
        usual, most = found[part]["median, s"], found[part]["largest, s"]
        yield Row(
            what, f"{usual:.1f} s", f"{bar:.0f} s", most <= bar, f"at most {most:.1f} s in 10"
        )


def _load(program: str, folder: Path) -> Any:
    """What a program beside this one prints, as JSON. It may use what the tests use."""
    folder.mkdir()
    argv = [sys.executable, str(HERE / program), str(folder)]
    paths = os.pathsep.join(str(HERE.parent / name) for name in ("tests", "tools"))
    environment = {**ENVIRONMENT, "PYTHONPATH": paths}
    return json.loads(
        subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=True).stdout
    )


def _beside(what: str, took: float, git: float, more: str = "") -> Row:
    absolute = f"{took:.0f} ms, git {git:.0f} ms" + (f"; {more}" if more else "")
    return Row(what, f"{took / git:.1f} ×", "none", True, absolute)


def _client_call(command: str, root: Path, entries: int, steps: int) -> tuple[float, float]:
    """Milliseconds of the command in a half-finished session, and of `python -c pass`."""
    sample.part_of_the_way(sample.repository(root), entries, steps)
    running = iter(range(entries, steps))
    if command == "next":
        return _in_turn(lambda: ["next"], root)
    return _in_turn(lambda: ["report", f"s{next(running)}#1"], root)


# ── how it is measured ──────────────────────────────────────────────────────────────────────


def _whole(what: str, argv: Sequence[str], cwd: Path, bar: float) -> Row:
    return _ratio(what, *_in_turn(lambda: list(argv), cwd), bar)


def _in_turn(argv: Callable[[], list[str]], cwd: Path) -> tuple[float, float]:
    """Median milliseconds of the command and of `python -c pass`, measured alternately."""
    _run([*PLAYBOOK, *argv()], cwd)
    command, nothing = [], []
    for _ in range(ROUNDS):
        nothing.append(_run(PASS, cwd))
        command.append(_run([*PLAYBOOK, *argv()], cwd))
    return median(command), median(nothing)


def _run(argv: Sequence[str], cwd: Path) -> float:
    """Milliseconds of a process, which must succeed."""
    began = time.perf_counter()
    subprocess.run(argv, cwd=cwd, env=ENVIRONMENT, capture_output=True, check=True)
    return (time.perf_counter() - began) * 1000


def _engine_says(what: str, number: int, folder: Path) -> dict[str, float]:
    argv = [sys.executable, str(HERE / "engine.py"), what, str(number), str(folder)]
    said = subprocess.run(argv, env=ENVIRONMENT, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, float] = json.loads(said)
    return found


def _in_memory(folder: Path) -> Path:
    """A folder in memory, to spare the disk: 10,000 journals are written, the last one of 2 MiB."""
    memory = Path("/dev/shm")  # noqa: S108 - a scratch folder of its own is made in it
    if not os.access(memory, os.W_OK):
        return folder
    scratch = tempfile.TemporaryDirectory(prefix="playbook-bench-", dir=memory)
    _SCRATCH.append(scratch)
    return Path(scratch.name)


_SCRATCH: list[tempfile.TemporaryDirectory[str]] = []


def _compiled(folder: Path) -> None:
    """Without .pyc files every start takes three times as long, and the figures mean nothing."""
    subprocess.run([*PLAYBOOK, "--version"], cwd=folder, env=ENVIRONMENT, check=True)
    package = Path(playbook_supervisor.__file__).parent
    if not Path(cache_from_source(str(package / "errors.py"))).exists():
        sys.exit("There are no .pyc files of the package: unset PYTHONDONTWRITEBYTECODE.")


# ── what is said ────────────────────────────────────────────────────────────────────────────


def _ratio(what: str, took: float, passed: float, bar: float) -> Row:
    ratio = took / passed
    absolute = f"{took:.0f} ms, `python -c pass` {passed:.0f} ms"
    return Row(what, f"{ratio:.1f} ×", f"{bar:.1f} ×", ratio <= bar, absolute)


def _absolute(what: str, ms: float, bar: float, more: str = "") -> Row:
    return Row(what, f"{ms:.2f} ms", f"{bar:.0f} ms", ms <= bar, more)


def _grown(what: str, few: float, many: float) -> Row:
    ratio = many / few
    return Row(what, f"{ratio:.2f} ×", "1.3 ×", ratio <= 1.3, "")


def _busy(load: float) -> list[str]:
    """A warning if other processes kept the machine busy."""
    if load <= 1:
        return []
    return [
        f"**The machine was busy, with a load of {load:.0f} per core.** This affects all figures",
        "except processor times. Measure again on a quiet machine.",
    ]


def _page(rows: Sequence[Row]) -> str:
    lines = [
        "# Performance",
        "",
        "Written by `make bench` (`python benchmarks`); do not edit. Processes are measured",
        f"alternately with `python -c pass` and shown relative to it, medians of {ROUNDS} runs.",
        "Compare these ratios; milliseconds depend on the machine and its load. A no-op step makes",
        "two writes that are synced to disk, and its figure includes waiting for the disk;",
        "`without a disk` is the same on a file system in memory, if the machine has one.",
        "",
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end.",
        *_busy(os.getloadavg()[0] / (os.cpu_count() or 1)),
        "",
        "| what | measured | bar | met | absolute |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        kept = "" if row.bar == "none" else "yes" if row.kept else "no"
        lines.append(f"| {row.what} | {row.figure} | {row.bar} | {kept} | {row.absolute} |")
    return "\n".join([*lines, "", *WHY, ""])


if __name__ == "__main__":
    main()
