"""Measures what a fleet costs: workers that idle, and a database with many sessions.

PYTHONPATH=tests:tools python benchmarks/fleet_load.py FOLDER [SECONDS]

Prints one JSON object. First three workers idle for SECONDS (30) at a PostgreSQL of their own. Then
1,000 sessions wait at gates and 200 are queued, in 40 repositories, while five workers with ten
slots each carry out 50 more, and are observed for as long. Then one of two idle workers takes ten
answers, one after the other. Last, one of two workers with a lease of 8 s is killed ten times while
its agent works. Times of processors are % of a core.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median

from fleet import chains, ledger, postgres
from fleet.machines import HOST, Machine, Site, in_time
from support import isolation_guard

from playbook_supervisor.fleet.storage import address
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import NewSession

WORKERS, SLOTS = 5, 10
WAITING, QUEUED, REPOSITORIES, RUNNING = 1_000, 200, 40, 50
ANSWERS = KILLS = 10
TICKS = os.sysconf("SC_CLK_TCK")
IDS = (f"20261101-{number:03x}" for number in count(1))


def main(folder: Path, seconds: float) -> dict[str, object]:
    """All measurements, in new folders below `folder`."""
    programs = postgres.programs()
    assert programs, "PostgreSQL is not installed"
    with postgres.Server(programs) as server:
        return {
            "idle": idle(folder / "idle", server, seconds),
            "loaded": loaded(folder / "loaded", server, seconds),
            "answer to agent at work, s": answered(folder / "answered", server),
            "kill to next claim, s": killed(folder / "killed", server),
        }


@contextmanager
def site_of(folder: Path, server: postgres.Server, slots: int, lease: float) -> Iterator[Site]:
    """A site whose database is there."""
    with Site(folder, server, lease=lease, slots=slots) as site:
        made = site.machine("desk").playbook("fleet", "migrate")
        assert made.code == 0, made.err
        yield site


# ── processes ───────────────────────────────────────────────────────────────────────────────


def used(pids: Sequence[int]) -> float:
    """Seconds that these processes have had of a processor, without their children."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def observed(site: Site, machines: Sequence[Machine], seconds: float) -> dict[str, object]:
    """What workers and the database use while the time passes."""
    assert site.server
    workers = [machine.worker.pid for machine in machines if machine.worker]
    database = site.server.processes()
    before = used(workers), used(database)
    time.sleep(seconds)
    still = [pid for pid in database if Path(f"/proc/{pid}").exists()]
    after = used(workers), used(still)
    share = [100 * (late - early) / seconds for early, late in zip(before, after, strict=True)]
    return {
        "a worker, %": round(share[0] / len(workers), 1),
        "the database, %": round(share[1], 1),
        "a worker, MiB": round(max(memory(pid) for pid in workers)),
    }


def memory(pid: int) -> float:
    """MiB of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def started(machines: Sequence[Machine]) -> None:
    """Start the workers, and wait until they take jobs."""
    for machine in machines:
        machine.start()
    assert in_time(lambda: all("pools" in each.log.read_text() for each in machines))
    time.sleep(5)


# ── measurements ────────────────────────────────────────────────────────────────────────────


def idle(folder: Path, server: postgres.Server, seconds: float) -> dict[str, object]:
    """Three workers without work."""
    with site_of(folder, server, 2, 90.0) as site:
        machines = [site.machine(f"m{number}") for number in range(3)]
        started(machines)
        assert machines[0].worker
        start = used([machines[0].worker.pid])
        return {"start, CPU s": round(start, 2), **observed(site, machines, seconds)}


def loaded(folder: Path, server: postgres.Server, seconds: float) -> dict[str, object]:
    """Many sessions that wait and are queued, and 50 whose agents sleep."""
    with site_of(folder, server, SLOTS, 90.0) as site:
        machines = [site.machine(f"m{number}") for number in range(WORKERS)]
        urls = [site.remote(f"r{number}") for number in range(5)]
        desk = site.machines[0]
        for number in range(RUNNING):
            url = urls[number % len(urls)]
            made = desk.playbook(
                "fleet", "submit", "six", "--repo", url, "--agent", "exec:sleep 3000"
            )
            assert made.code == 0, made.err
        started(machines)
        query = "SELECT count(*) FROM fleet.session WHERE state = 'running'"
        assert in_time(lambda: server.execute(query, site.database) == [(RUNNING,)], 300)
        fill(server.url(site.database))
        time.sleep(10)
        found = observed(site, machines, seconds)
        times = []
        for _ in range(3):
            begin = time.monotonic()
            assert desk.playbook("fleet", "status").code == 0
            times.append(time.monotonic() - begin)
        return {**found, "fleet status, s": round(median(times), 2)}


def fill(url: str) -> None:
    """Put sessions into the database that wait, and others that are queued."""
    with FleetDatabase.open(address.parse(url)) as database:
        for number in range(WAITING):
            new = session(number)
            database.submit(new)
            lease = database.take(new.id, 1, "benchmark", 60)
            assert lease
            assert database.wait(lease, "four#1?1", ("continue", "skip", "abort"))
        for number in range(QUEUED):
            database.submit(session(number))


def session(number: int) -> NewSession:
    """A session of one of the repositories, which only the database knows."""
    return NewSession(
        id=next(IDS),
        repository=f"{HOST}only-a-row-{number % REPOSITORIES}.git",
        branch=f"feature-{number}",
        playbook="six",
        feature="",
    )


def answered(folder: Path, server: postgres.Server) -> dict[str, float]:
    """From the end of `playbook answer` to the beginning of the next step."""
    with site_of(folder, server, 2, 90.0) as site:
        machines = [site.machine(f"m{number}", work=1) for number in range(2)]
        desk, url = site.machines[0], site.remote("r1")
        started(machines)
        waits = [answered_once(site, desk, url) for _ in range(ANSWERS)]
        return {"median": round(median(waits), 2), "largest": round(max(waits), 2)}


def answered_once(site: Site, desk: Machine, url: str) -> float:
    """Seconds from the answer to the step, for one session."""
    assert site.server
    server, query = site.server, "SELECT count(*) FROM fleet.session WHERE state = 'waiting'"
    submitted = desk.submit(url)
    assert submitted.code == 0, submitted.err
    name = submitted.out.strip()
    assert in_time(lambda: server.execute(query, site.database) == [(1,)])
    answer = desk.playbook("answer", name, "continue")
    assert answer.code == 0, answer.err
    given = ledger.now()
    assert in_time(lambda: begun(site, name) > 0)
    return begun(site, name) - given


def killed(folder: Path, server: postgres.Server) -> dict[str, float]:
    """From the end of a worker to the next claim of its session, with a lease of 8 s."""
    with site_of(folder, server, 1, 8.0) as site:
        machines = [site.machine(f"m{number}", work=100) for number in range(2)]
        submitted = machines[0].submit(site.remote("r1"))
        assert submitted.code == 0, submitted.err
        started(machines)
        waits = [killed_once(site) for _ in range(KILLS)]
        return {"median": round(median(waits), 2), "largest": round(max(waits), 2)}


def killed_once(site: Site) -> float:
    """Seconds from a kill to a claim, for the only session."""
    claims = len(claimed(site))
    assert in_time(lambda: ledger.at_work(site.ledger) != set())
    (machine,) = (each for each in site.machines if each.name in ledger.at_work(site.ledger))
    at = ledger.now()
    machine.kill_worker()
    machine.start()
    assert in_time(lambda: len(claimed(site)) > claims)
    return claimed(site)[claims] - at


def claimed(site: Site) -> list[float]:
    """When the only session was claimed."""
    commits = {
        link.commit
        for chain in site.chains().values()
        for link in chain.links
        if link.kind == "claim"
    }
    return [push.at for push in chains.pushes(site.pushes) if push.new in commits]


def begun(site: Site, name: str) -> float:
    """When the step after the gate began; 0 before."""
    found = [each.began for each in site.attempts() if (each.session, each.step) == (name, "four")]
    return min(found, default=0.0)


if __name__ == "__main__":
    os.environ.setdefault("TESTS_REAL_HOME", os.environ["HOME"])
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    clean = isolation_guard.clean_environment(Path(tempfile.mkdtemp(dir=place)))
    os.environ.clear()
    os.environ.update(clean)
    print(json.dumps(main(place, float((sys.argv[2:] or ["30"])[0])), indent=1))
