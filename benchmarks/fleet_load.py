"""Measures what a fleet costs: workers that idle or are busy, and their database.

PYTHONPATH=tests:tools python benchmarks/fleet_load.py FOLDER [SECONDS [PART…]]

Prints one JSON object with these parts, or those that are named. Each has a new database of a
PostgreSQL server of its own.

idle      1, 3, 10 and 50 workers with two slots, which six sessions have kept busy before, are
          observed for SECONDS (30).
busy      five workers with ten slots, and 50 with one, while 50 agents are at work.
loaded    the former, while 1,000 sessions wait at gates and 200 are queued, in 40 repositories.
taken     one of three idle workers takes each of ten sessions: from the row to its lease.
answered  one of two idle workers takes ten answers: from the answer to the agent at work.
killed    one of two workers with a lease of 8 s is killed ten times while its agent works.

Times of processors are % of a core. Statements are those that the server logs, with BEGIN, COMMIT
and ROLLBACK, which are also counted apart. Connections are the most at any second.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import psycopg
from fleet import chains, ledger, postgres
from fleet.machines import HOST, Machine, Site, in_time
from support import isolation_guard

IDLE, SLOTS, BEFORE = (1, 3, 10, 50), 2, 6
BUSY = ((5, 10), (50, 1))
WAITING, QUEUED, REPOSITORIES = 1_000, 200, 40
TAKEN = ANSWERS = KILLS = 10
TICKS = os.sysconf("SC_CLK_TCK")
LOGGED = re.compile(rb"LOG:  (?:statement|execute [^:]*): (\w+)")
BRACKETS = frozenset({b"BEGIN", b"COMMIT", b"ROLLBACK"})
PATIENCE = 600.0

Found = dict[str, object]


def main(folder: Path, seconds: float, wanted: Sequence[str]) -> Found:
    """The measurements that are wanted, in new folders below `folder`."""
    programs = postgres.programs()
    assert programs, "PostgreSQL is not installed"
    with postgres.Server(programs, max_connections="1000") as server:
        parts: dict[str, Callable[[Path], object]] = {
            "idle": lambda at: [idle(at / f"{n}", server, seconds, n) for n in IDLE],
            "busy": lambda at: [busy(at / f"{n[0]}", server, seconds, *n) for n in BUSY],
            "loaded": lambda at: loaded(at, server, seconds),
            "taken": lambda at: taken(at, server),
            "answered": lambda at: answered(at, server),
            "killed": lambda at: killed(at, server),
        }
        return {name: parts[name](folder / name) for name in wanted or parts}


@contextmanager
def site_of(
    folder: Path, server: postgres.Server, slots: int, lease: float = 90.0
) -> Iterator[Site]:
    """A site whose database is there, and logs its statements."""
    with Site(folder, server, lease=lease, slots=slots) as site:
        made = site.machine("desk").playbook("fleet", "migrate")
        assert made.code == 0, made.err
        server.execute(f"ALTER DATABASE {site.database} SET log_statement = 'all'")
        yield site


# ── what is observed ────────────────────────────────────────────────────────────────────────


def used(pids: Sequence[int]) -> float:
    """Seconds that these processes have had of a processor, without their children."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def memory(pid: int) -> float:
    """MiB of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def transactions(site: Site) -> int:
    """How many the site's database has seen; those of this program go to another one."""
    assert site.server
    time.sleep(1)  # a process of the server reports once a second
    query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = "
    return int(site.server.execute(f"{query}'{site.database}'")[0][0])


def connections(site: Site) -> int:
    assert site.server
    query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    return int(site.server.execute(f"{query} AND datname = '{site.database}'")[0][0])


def observed(site: Site, machines: Sequence[Machine], seconds: float) -> Found:
    """What workers and the database use while the time passes."""
    assert site.server
    workers = [machine.worker.pid for machine in machines if machine.worker]
    database = site.server.processes()
    counted, logged = transactions(site), site.server.log.stat().st_size
    before, begun = (used(workers), used(database)), time.monotonic()
    most = 0
    while time.monotonic() < begun + seconds:
        most = max(most, connections(site))
        time.sleep(1)
    passed = time.monotonic() - begun
    still = [pid for pid in database if Path(f"/proc/{pid}").exists()]
    after = used(workers), used(still)
    with site.server.log.open("rb") as log:
        log.seek(logged)
        statements = LOGGED.findall(log.read())
    done = transactions(site) - counted
    share = [100 * (late - early) / passed for early, late in zip(before, after, strict=True)]
    inner = [each for each in statements if each.upper() not in BRACKETS]
    return {
        "workers": len(workers),
        "slots": site.slots,
        "connections of a worker": round(most / len(workers), 1),
        "statements/s of a worker": round(len(statements) / passed / len(workers), 2),
        "without BEGIN and COMMIT": round(len(inner) / passed / len(workers), 2),
        "statements/s": round(len(statements) / passed, 1),
        "transactions/s": round(done / (passed + 1), 1),
        "a worker, %": round(share[0] / len(workers), 1),
        "the database, %": round(share[1], 1),
        "a worker, MiB": round(max(memory(pid) for pid in workers)),
    }


# ── what is to be observed ──────────────────────────────────────────────────────────────────


def started(machines: Sequence[Machine]) -> None:
    """Start the workers, and wait until they take sessions."""
    for machine in machines:
        machine.start()
    assert in_time(lambda: all("pools" in each.log.read_text() for each in machines), PATIENCE)
    time.sleep(5)


def submit(machine: Machine, urls: Sequence[str], sessions: int, agent: str) -> None:
    def one(number: int) -> None:
        options = ("--repo", urls[number % len(urls)], "--agent", agent)
        made = machine.playbook("fleet", "submit", "six", *options)
        assert made.code == 0, made.err

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, range(sessions)))


def in_state(site: Site, state: str) -> int:
    assert site.server
    query = f"SELECT count(*) FROM fleet.session WHERE state = '{state}'"  # noqa: S608
    return int(site.server.execute(query, site.database)[0][0])


def idle(folder: Path, server: postgres.Server, seconds: float, workers: int) -> Found:
    """Workers that have had work."""
    with site_of(folder, server, SLOTS) as site:
        machines = [site.machine(f"m{number}", work=1) for number in range(workers)]
        submit(machines[0], [site.remote("r1")], BEFORE, "exec:tools/step")
        machines[0].start()
        assert in_time(lambda: "pools" in machines[0].log.read_text())
        assert machines[0].worker
        start = used([machines[0].worker.pid])
        started(machines[1:])
        assert in_time(lambda: in_state(site, "waiting") == BEFORE, PATIENCE)
        time.sleep(10)
        return {**observed(site, machines, seconds), "start, CPU s": round(start, 2)}


@contextmanager
def at_work(site: Site, workers: int) -> Iterator[list[Machine]]:
    """Workers whose slots are all busy with agents that sleep."""
    machines = [site.machine(f"m{number}") for number in range(workers)]
    urls = [site.remote(f"r{number}") for number in range(5)]
    sessions = workers * site.slots
    submit(machines[0], urls, sessions, "exec:sleep 3000")
    started(machines)
    assert in_time(lambda: in_state(site, "running") == sessions, PATIENCE)
    time.sleep(20)
    yield machines


def busy(folder: Path, server: postgres.Server, seconds: float, workers: int, slots: int) -> Found:
    with site_of(folder, server, slots) as site, at_work(site, workers) as machines:
        return observed(site, machines, seconds)


def loaded(folder: Path, server: postgres.Server, seconds: float) -> Found:
    """Many sessions that wait and are queued, beside those at work."""
    workers, slots = BUSY[0]
    with site_of(folder, server, slots) as site, at_work(site, workers) as machines:
        fill(site)
        time.sleep(10)
        found = observed(site, machines, seconds)
        times = []
        for _ in range(3):
            begin = time.monotonic()
            assert machines[0].playbook("fleet", "status").code == 0
            times.append(time.monotonic() - begin)
        return {**found, "fleet status, s": round(median(times), 2)}


def fill(site: Site) -> None:
    """Copy a row to many that wait, and others that are queued; only the database knows them."""
    assert site.server
    copied = {
        "waiting": (WAITING, {"gate": "four#1?1", "choices": '["continue","skip","abort"]'}),
        "queued": (QUEUED, {}),
    }
    for first, (state, (number, told)) in enumerate(copied.items(), start=1):
        given = json.dumps({"state": state, "worker": "", "lease_until": 0, **told})
        site.server.execute(
            "INSERT INTO fleet.session SELECT copied.* FROM "  # noqa: S608
            f"(SELECT to_jsonb(s) || '{given}' AS row FROM fleet.session s LIMIT 1) one, "
            f"generate_series(1, {number}) n, jsonb_populate_record(NULL::fleet.session, row || "
            f"jsonb_build_object('id', '2026110{first}-' || lpad(to_hex(n), 3, '0'), "
            f"'repository', '{HOST}row-' || n % {REPOSITORIES} || '.git', 'branch', "
            "'feature-' || n)) copied",
            site.database,
        )


def taken(folder: Path, server: postgres.Server) -> dict[str, float]:
    """From the moment that a row can be seen to the one when it is leased."""
    with site_of(folder, server, SLOTS) as site:
        machines = [site.machine(f"m{number}", work=1) for number in range(3)]
        url = site.remote("r1")
        started(machines)
        return spread(partial(taken_once, site, machines[0], url), TAKEN)


def taken_once(site: Site, desk: Machine, url: str) -> float:
    assert site.server
    query = b"SELECT count(*), count(*) FILTER (WHERE epoch > 0) FROM fleet.session"
    with psycopg.connect(site.server.url(site.database), autocommit=True) as connection:

        def until(column: int, number: int) -> float:
            end = time.monotonic() + PATIENCE
            while (connection.execute(query).fetchone() or ())[column] < number:
                assert time.monotonic() < end
                time.sleep(0.005)
            return time.monotonic()

        rows = int((connection.execute(query).fetchone() or ())[0]) + 1
        with desk.start_playbook(
            *("fleet", "submit", "six", "--repo", url, "--agent", "exec:tools/step")
        ) as submitting:
            there = until(0, rows)
            found = until(1, rows) - there
            _, err = submitting.communicate(timeout=60)
        assert submitting.returncode == 0, err
    assert in_time(lambda: in_state(site, "waiting") == rows)
    return found


def answered(folder: Path, server: postgres.Server) -> dict[str, float]:
    """From the end of `playbook answer` to the beginning of the next step."""
    with site_of(folder, server, SLOTS) as site:
        machines = [site.machine(f"m{number}", work=1) for number in range(2)]
        url = site.remote("r1")
        started(machines)
        return spread(partial(answered_once, site, machines[0], url), ANSWERS)


def answered_once(site: Site, desk: Machine, url: str) -> float:
    """Seconds from the answer to the step, for one session."""
    submitted = desk.submit(url)
    assert submitted.code == 0, submitted.err
    name = submitted.out.strip()
    assert in_time(lambda: in_state(site, "waiting") == 1)
    answer = desk.playbook("answer", name, "continue")
    assert answer.code == 0, answer.err
    given = ledger.now()
    assert in_time(lambda: begun(site, name) > 0)
    return begun(site, name) - given


def killed(folder: Path, server: postgres.Server) -> dict[str, float]:
    """From the end of a worker to the next claim of its session, with a lease of 8 s."""
    with site_of(folder, server, 1, 8.0) as site:
        machines = [site.machine(f"m{number}", work=100) for number in range(2)]
        url = site.remote("r1")
        started(machines)
        return spread(partial(killed_once, site, url), KILLS)


def killed_once(site: Site, url: str) -> float:
    """Seconds from a kill to a claim, of a new session: one is stuck after five."""
    desk, claims = site.machines[0], len(claimed(site)) + 1
    submitted = desk.submit(url)
    assert submitted.code == 0, submitted.err
    assert in_time(lambda: ledger.at_work(site.ledger) != set())
    (machine,) = (each for each in site.machines if each.name in ledger.at_work(site.ledger))
    at = ledger.now()
    machine.kill_worker()
    machine.start()
    assert in_time(lambda: len(claimed(site)) > claims)
    assert desk.playbook("abort", submitted.out.strip(), "-m", "measured").code == 0
    assert in_time(lambda: ledger.at_work(site.ledger) == set())
    return claimed(site)[claims] - at


def claimed(site: Site) -> list[float]:
    """When sessions were claimed."""
    commits = {
        link.commit
        for chain in site.chains().values()
        for link in chain.links
        if link.kind == "claim"
    }
    return sorted(push.at for push in chains.pushes(site.pushes) if push.new in commits)


def begun(site: Site, name: str) -> float:
    """When the step after the gate began; 0 before."""
    found = [each.began for each in site.attempts() if (each.session, each.step) == (name, "four")]
    return min(found, default=0.0)


def spread(once: Callable[[], float], times: int) -> dict[str, float]:
    """The seconds of a thing that is done so many times."""
    found = [once() for _ in range(times)]
    return {"median, s": round(median(found), 2), "largest, s": round(max(found), 2)}


if __name__ == "__main__":
    os.environ.setdefault("TESTS_REAL_HOME", os.environ["HOME"])
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    clean = isolation_guard.clean_environment(Path(tempfile.mkdtemp(dir=place)))
    os.environ.clear()
    os.environ.update(clean)
    passing, *parts = sys.argv[2:] or ["30"]
    print(json.dumps(main(place, float(passing), parts), indent=1))
