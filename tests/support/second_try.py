"""Repeats a failed test once, up to N tests in each process: docs/decisions/0070.

The end of the run shows the first failure of each repeated test. A test that fails twice fails.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

FAILED_ONCE = "failed once"
LEFT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--second-tries",
        type=int,
        default=0,
        metavar="N",
        help="how many failed tests each process may repeat once (default: 0)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT] = config.getoption("--second-tries")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    stash, hook = item.config.stash, item.ihook
    if not stash[LEFT]:
        return None
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    failures = [report for report in reports if report.failed]
    if failures:
        stash[LEFT] -= 1
        for report in failures:
            report.outcome = FAILED_ONCE  # type: ignore[assignment]  # an outcome of our own
            hook.pytest_runtest_logreport(report=report)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_report_teststatus(
    report: pytest.TestReport,
) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    if str(report.outcome) == FAILED_ONCE:
        return FAILED_ONCE, "2", ("TRIED AGAIN", {"yellow": True})
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reporter = terminalreporter
    for report in reporter.stats.get(FAILED_ONCE, []):
        reporter.section(f"failed once: {report.nodeid}", yellow=True)
        report.toterminal(reporter._tw)
