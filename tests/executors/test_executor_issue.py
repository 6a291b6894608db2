"""`issue` steps open an issue once (cat FR-4.7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.scratch_project import Project
from support.stand_in_forge import ADDRESS, Forge
from support.task_run import Bench, task

from playbook_supervisor.executors.issue import IssueExecutor

ISSUE = IssueExecutor()
TITLE = "The parser is slow"
SEVEN = {"number": 7, "url": f"{ADDRESS}/issues/7"}


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forge:
    return Forge(tmp_path / "forge", monkeypatch)


def step(stdin: str = "", **options: Any) -> Any:
    return task(namespace="issue", stdin=stdin, options={"title": TITLE, **options})


def test_an_issue_is_opened(project: Project, forge: Forge) -> None:
    bench = Bench(project.root)
    done = bench.outcome(ISSUE, step(body="Since Monday.\n"))
    assert (done.error, done.output, done.data) == (None, SEVEN["url"], SEVEN)
    assert bench.shown == [f"issue #7 is opened: {SEVEN['url']}"]
    assert forge.issues[0]["body"] == "Since Monday.\n"


def test_assignee_and_labels_are_single_values_whatever_they_contain(
    project: Project, forge: Forge
) -> None:
    """gh reads these options as lines of CSV."""
    options: dict[str, Any] = {"assignee": "@me", "labels": ["bug", 'a, "b"', "--web"]}
    Bench(project.root).outcome(ISSUE, step(**options))
    assert forge.created[0][2:] == [
        f"--title={TITLE}",
        "--body-file=-",
        '--label="bug"',
        '--label="a, ""b"""',
        '--label="--web"',
        '--assignee="@me"',
    ]


def test_a_second_run_reports_the_first_one_s(project: Project, forge: Forge) -> None:
    Bench(project.root).outcome(ISSUE, step())
    bench = Bench(project.root)
    assert bench.outcome(ISSUE, step()).data == SEVEN
    assert bench.shown == [f"issue #7 is open already: {SEVEN['url']}"]
    assert len(forge.created) == 1


def test_an_issue_with_another_title_is_another_one(project: Project, forge: Forge) -> None:
    forge.has_issue(number=7, title="The parser is slow again", url="x")
    forge.has_issue(number="7", title=TITLE, url="x")
    assert Bench(project.root).outcome(ISSUE, step()).data["number"] == 9


def test_an_answer_without_an_address_is_no_issue(project: Project, forge: Forge) -> None:
    forge.fails(stdout="[]", status=0)
    forge.fails(stdout="Done\n", status=0)
    error = Bench(project.root).error(ISSUE, step())
    assert error.message == "gh did not answer with the address of an issue"
