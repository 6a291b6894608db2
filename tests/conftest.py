"""One scratch home per test, nothing of the developer's, and one fixture: `project`."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import guard
import pytest
from hypothesis import HealthCheck, settings
from project import Project

REPOSITORY = Path(__file__).parent.parent

settings.register_profile(
    "suite",
    deadline=None,  # a busy machine is no defect
    derandomize=True,  # the same examples for everyone; `make fuzz` looks for new ones
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz", parent=settings.get_profile("suite"), derandomize=False, max_examples=20_000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("TESTS_REAL_HOME", os.environ.get("HOME", ""))
    scratch = Path(tempfile.mkdtemp(prefix="playbook-tests-")).resolve()
    config.add_cleanup(lambda: shutil.rmtree(scratch, ignore_errors=True))
    environment = guard.clean_environment(scratch)
    os.environ.clear()
    os.environ.update(environment)
    os.umask(0o022)
    time.tzset()
    places = [Path(tempfile.gettempdir())]
    if config.option.basetemp:
        places.append(Path(config.option.basetemp).absolute())
    config.stash[GUARD] = guard.install(REPOSITORY, *places)


GUARD = pytest.StashKey[guard.Guard]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many scenarios ran in the real client, and plainly which were left out, and why."""
    reporter = terminalreporter
    held, left_out, failed, broken = (_in_the_client(reporter, kind) for kind in OUTCOMES)
    ran = len(held) + len(failed) + len(broken)
    if not ran and not left_out:
        return
    reporter.section("in the real Claude Code client")
    reporter.write_line(f"scenarios held: {len(held)} of {ran}")
    for reason in sorted({str(report.longrepr[2]) for report in left_out}):
        why = reason.removeprefix("Skipped: ")
        number = sum(reason == report.longrepr[2] for report in left_out)
        reporter.write_line(f"scenarios left out: {number}, for {why}", yellow=True)


OUTCOMES = ("passed", "skipped", "failed", "error")


def _in_the_client(reporter: pytest.TerminalReporter, outcome: str) -> list[Any]:
    reports = reporter.stats.get(outcome, [])
    return [each for each in reports if each.nodeid.startswith("tests/claude/")]


@pytest.fixture(autouse=True)
def home(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """The scratch home of this test. Whoever reaches for the real one fails."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # meant for this run, not for runs within
    yield folder
    offences = request.config.stash[GUARD].forgive()
    assert not offences, "; ".join(offences)


@pytest.fixture
def isolation(request: pytest.FixtureRequest) -> guard.Guard:
    """The guard itself, for the tests that prove it."""
    return request.config.stash[GUARD]


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that `project` starts from, made once."""
    return Project.found(tmp_path_factory.mktemp("pristine") / "project", REPOSITORY / "templates")


@pytest.fixture
def project(pristine: Path, tmp_path: Path, home: Path) -> Project:
    """A git repository with spec-kit style commands, a specified feature and the playbooks."""
    return Project.copied(pristine, tmp_path / "project", home=home)
