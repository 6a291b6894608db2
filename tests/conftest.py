"""A scratch home for each test, an environment without the developer's, and `project`."""

from __future__ import annotations

import fcntl
import importlib
import os
import pkgutil
import re
import runpy
import shutil
import signal
import sys
import tempfile
import termios
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from itertools import count, groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from support import isolation_guard, leftovers, second_try
from support.scratch_project import Project

import playbook_supervisor
from playbook_supervisor.commands.install import init

REPOSITORY = Path(__file__).parent.parent
CLIENTS = ("tests/claude/", "tests/clients/")
"""Where all tests are long, but for a few."""
MARKED = re.compile(r"mark\.(?:long|thorough|sampled)\b|crash_points")
"""Stands in each other file that has long tests."""
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
"""A file system in memory and the bytes that the tests want there: on a disk, they take longer."""

settings.register_profile(
    "full",
    deadline=None,  # a busy machine is not a defect
    derandomize=True,  # the same examples every time; `make fuzz` looks for new ones
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("short", parent=settings.get_profile("full"), max_examples=30)
settings.register_profile(
    "fuzz", parent=settings.get_profile("full"), derandomize=False, max_examples=20_000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    del parser
    pluginmanager.register(second_try)


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("TESTS_REAL_HOME", os.environ.get("HOME", ""))
    config.stash[RUN] = leftovers.mark()
    scratch = Path(tempfile.mkdtemp(prefix="playbook-tests-")).resolve()
    config.add_cleanup(lambda: shutil.rmtree(scratch, ignore_errors=True))
    environment = isolation_guard.clean_environment(scratch)
    os.environ.clear()
    os.environ.update(environment)
    places = [Path(tempfile.gettempdir())]
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)
        places.append(MEMORY)
    os.umask(0o022)
    time.tzset()
    leave_terminal()
    make_validator(config)
    # Only a loss of power would show the difference, and it costs more than most writes.
    for sync in ("fsync", "fdatasync"):
        setattr(os, sync, lambda _: None)
    # In the background of a script, SIGINT is ignored; the processes that tests start inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.basetemp:
        places.append(Path(config.option.basetemp).absolute())
    config.stash[GUARD] = isolation_guard.install(REPOSITORY, *places)


def make_validator(config: pytest.Config) -> None:
    """Make it where the checkout was not installed since its schema changed, as after a pull."""
    build = REPOSITORY / "hatch_build.py"
    schema = REPOSITORY / "playbook_supervisor/project/schemas/written/playbook.json"
    made = schema.parent.with_name("playbook_validator.py")
    if hasattr(config, "workerinput") or not build.exists():  # a copy of this file in a test
        return
    newest = max(path.stat().st_mtime for path in (build, schema))
    if made.exists() and made.stat().st_mtime > newest:
        return
    runpy.run_path(str(build), run_name="__main__")


def leave_terminal() -> None:
    """Tests have no controlling terminal unless they make one."""
    with suppress(OSError), Path("/dev/tty").open("rb", buffering=0) as terminal:
        fcntl.ioctl(terminal, termios.TIOCNOTTY)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file without long tests where only those are wanted: it takes time."""
    if not config.option.markexpr.startswith(("long", "thorough")):
        return None
    return None if collection_path.suffix != ".py" or may_be_long(collection_path) else True


@cache
def may_be_long(file: Path) -> bool:
    inside = str(file).removeprefix(f"{REPOSITORY}/")
    return inside.startswith(CLIENTS) or bool(MARKED.search(file.read_text("utf-8")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the scenarios that wait for a client among the tests that compute, file by file."""
    waiting = [item for item in items if item.nodeid.startswith(CLIENTS)]
    others = [item for item in items if not item.nodeid.startswith(CLIENTS)]
    spread: list[pytest.Item] = []
    given = passed = 0
    for _, file in groupby(others, key=lambda item: item.path):
        spread += (tests := list(file))
        passed += len(tests)
        due = len(waiting) * passed // len(others)
        spread += waiting[given:due]
        given = due
    items[:] = spread or waiting


def pytest_itemcollected(item: pytest.Item) -> None:
    """What is thorough is long, too: docs/decisions/0273."""
    sampled = item.get_closest_marker("sampled")
    if sampled and not any(fnmatch(item.callspec.id, each) for each in sampled.args):  # type: ignore[attr-defined]
        item.add_marker("thorough")
    if item.get_closest_marker("thorough"):
        item.add_marker("long")
    if item.get_closest_marker("long"):
        assert may_be_long(item.path), f"{item.path} is passed over: name the mark there"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Do not trace property tests: without coverage they are three times as fast."""
    if not any(item.get_closest_marker(name) for name in ("unmeasured", "hypothesis")):
        return (yield)
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)


def pytest_collection_finish() -> None:
    """Import the whole package before the first test.

    Hypothesis collects constants from the modules that are imported. Without this, its examples
    would depend on the tests that have run before.
    """
    for module in pkgutil.walk_packages(playbook_supervisor.__path__, "playbook_supervisor."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """More than there are processors: tests wait for processes, long ones mostly for clients."""
    processors = os.cpu_count() or 1
    return processors + 2 if config.option.markexpr == "not long" else 2 * processors + 1


GUARD = pytest.StashKey[isolation_guard.Guard]()
RUN = pytest.StashKey[str]()
LEFT = pytest.StashKey[list[leftovers.Left]]()
TORN = pytest.StashKey[int]()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Kill processes that tests left behind, and remove their unfinished coverage files."""
    done = yield
    if run := session.config.stash[RUN]:
        session.config.stash[LEFT] = leftovers.find(run)
        measuring = getattr(session.config.pluginmanager.getplugin("_cov"), "cov_controller", None)
        if measuring is not None:
            data = Path(measuring.cov.get_option("run:data_file"))
            session.config.stash[TORN] = leftovers.discard_torn(data.absolute())
    return done


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report how many scenarios ran in the real client, and which were skipped and why."""
    reporter = terminalreporter
    if left := reporter.config.stash.get(LEFT, []):
        reporter.section("processes left behind")
        for each in left:
            reporter.write_line(str(each), yellow=True)
    if torn := reporter.config.stash.get(TORN, 0):
        reporter.write_line(f"unfinished coverage files of killed processes removed: {torn}")
    held, left_out, failed, broken = (_in_the_client(reporter, kind) for kind in OUTCOMES)
    ran = len(held) + len(failed) + len(broken)
    if not ran and not left_out:
        return
    reporter.section("in the real Claude Code client")
    reporter.write_line(f"scenarios passed: {len(held)} of {ran}")
    counts = [dict(each.user_properties).get("lies", (0, 0)) for each in (*held, *failed)]
    if told := sum(count for _, count in counts):
        reporter.write_line(f"lies caught: {sum(count for count, _ in counts)} of {told}")
    for reason in sorted({str(report.longrepr[2]) for report in left_out}):
        why = reason.removeprefix("Skipped: ")
        number = sum(reason == report.longrepr[2] for report in left_out)
        reporter.write_line(f"scenarios skipped: {number}: {why}", yellow=True)


OUTCOMES = ("passed", "skipped", "failed", "error")


def _in_the_client(reporter: pytest.TerminalReporter, outcome: str) -> list[Any]:
    reports = reporter.stats.get(outcome, [])
    return [each for each in reports if each.nodeid.startswith("tests/claude/")]


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New folders. Pytest itself would look through all of them to name the next one."""
    parent = tmp_path_factory.mktemp("homes")
    return (parent / str(number) for number in count())


@pytest.fixture(autouse=True)
def home(
    request: pytest.FixtureRequest, homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The scratch home of this test. A test that touches the real one fails."""
    folder = next(homes)
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # meant for this run, not for runs within
    yield folder
    offences = request.config.stash[GUARD].forgive()
    assert not offences, "; ".join(offences)


@pytest.fixture(autouse=True)
def _processes_measured_or_not(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start processes without coverage, unless the test is marked as `measured`.

    Starting coverage takes several times as long as starting Python, and what a killed process ran
    would be counted by chance.
    """
    if not request.node.get_closest_marker("measured"):
        for name in os.environ:
            if name.startswith("COVERAGE_"):
                monkeypatch.delenv(name)


@pytest.fixture
def isolation(request: pytest.FixtureRequest) -> isolation_guard.Guard:
    """The guard itself, for its own tests."""
    return request.config.stash[GUARD]


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that `project` starts from, made once."""
    return Project.found(tmp_path_factory.mktemp("pristine") / "project", REPOSITORY / "templates")


@pytest.fixture
def project(pristine: Path, tmp_path: Path, home: Path) -> Project:
    """A git repository with spec-kit style commands, a specified feature and the playbooks."""
    return Project.copied(pristine, tmp_path / "project", home=home)


@pytest.fixture(scope="session")
def pristine_installation(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository after `init`, on main, with a second feature specified; made once."""
    folder = tmp_path_factory.mktemp("installed")
    project = Project.copied(pristine, folder / "project", home=folder)
    project.git("switch", "-q", "main")
    init.apply(init.plan(cwd=project.root))
    project.write("specs/014-new-thing/spec.md", "# A new thing\n")
    project.commit("Install, and specify a new thing")
    return project.root


@pytest.fixture
def installed(pristine_installation: Path, tmp_path: Path, home: Path) -> Project:
    """A project on main, after `init`, with everything committed and feature 014 specified."""
    return Project.copied(pristine_installation, tmp_path / "project", home=home)
