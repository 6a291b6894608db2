"""`pr` steps push the branch, open its pull request once, and may wait for it (cat FR-4.6)."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.scratch_project import FEATURE, Project, remote
from support.stand_in_forge import ADDRESS, Forge
from support.task_run import Bench, task

from playbook_supervisor.executors import forge as steps_of_the_forge
from playbook_supervisor.executors import pr as module
from playbook_supervisor.executors.pr import PullRequestExecutor
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.kernel.model import Reviewers
from playbook_supervisor.records import replace

PR = PullRequestExecutor()
TITLE = "Add a parser"
SEVEN = {"number": 7, "url": f"{ADDRESS}/pull/7"}


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forge:
    monkeypatch.setattr(module, "INTERVAL", 0.01)
    return Forge(tmp_path / "forge", monkeypatch)


@pytest.fixture
def origin(project: Project) -> Project:
    """A bare remote that holds the branch, which has one more commit here."""
    bare = remote(project)
    project.write("parser.py", "x\n")
    project.commit("Parse")
    return bare


def step(stdin: str = "", **options: Any) -> Any:
    return task(namespace="pr", stdin=stdin, options={"title": TITLE, **options})


def outcome(project: Project, stdin: str = "", **options: Any) -> Outcome:
    """Of a step that succeeds."""
    done = Bench(project.root).outcome(PR, step(stdin, **options))
    assert done.error is None, done.error
    return done


def failure(project: Project, **options: Any) -> Failure:
    return Bench(project.root).error(PR, step(**options))


# ── opening ─────────────────────────────────────────────────────────────────────────────────


def test_the_branch_is_pushed_and_its_pull_request_opened(
    project: Project, origin: Project, forge: Forge
) -> None:
    bench = Bench(project.root)
    done = bench.outcome(PR, step(body="Why\n\nIt is faster.\n"))
    assert (done.error, done.output, done.data) == (None, SEVEN["url"], SEVEN)
    assert bench.shown == [
        f"pushed {FEATURE} to origin",
        f"pull request #7 is opened: {SEVEN['url']}",
    ]
    assert origin.git("rev-parse", FEATURE) == project.git("rev-parse", "HEAD")
    assert forge.created == [
        ["pr", "create", f"--title={TITLE}", "--body-file=-", f"--head={FEATURE}"]
    ]
    assert forge.pulls[0]["body"] == "Why\n\nIt is faster.\n"


def test_owner_and_reviewers_stand_in_the_pull_request_and_logins_are_asked(
    project: Project, origin: Project, forge: Forge
) -> None:
    """cat FR-1.2; an address in a name mentions no one."""
    people = Reviewers(("architect", "@ann"), ("@us/core", "bob@example.org\n@all"))
    asked = replace(step(body="Why\n"), owner="the platform team", reviewers=people)
    bench = Bench(project.root)
    assert bench.outcome(PR, asked).error is None
    assert forge.pulls[0]["body"] == (
        "Why\n\nOwner: the platform team\nReviewers: architect, @ann\n"
        "Optional reviewers: @us/core, bob@\u200bexample.org @\u200ball"
    )
    assert forge.calls[-2:] == [
        ["pr", "edit", "7", "--add-reviewer=ann"],
        ["pr", "edit", "7", "--add-reviewer=us/core"],
    ]
    bench.outcome(PR, asked)
    assert [call[1] for call in forge.calls].count("edit") == 2, "not asked again"


def test_a_pull_request_stands_where_the_forge_refuses_a_reviewer(
    project: Project, origin: Project, forge: Forge
) -> None:
    forge.fails(verb="edit", stderr="could not request reviewer: 'ann' not found\n")
    bench = Bench(project.root)
    done = bench.outcome(PR, replace(step(), reviewers=Reviewers(("@ann",))))
    assert done.output == SEVEN["url"]
    assert bench.shown[-2:] == [
        "@ann is not asked for a review: gh pr edit failed: "
        "could not request reviewer: 'ann' not found",
        f"pull request #7 is opened: {SEVEN['url']}",
    ]


def test_the_options_are_passed_on(project: Project, origin: Project, forge: Forge) -> None:
    outcome(project, base="release", draft=True)
    assert forge.created[0][-2:] == ["--base=release", "--draft"]


def test_hostile_texts_are_texts(project: Project, origin: Project, forge: Forge) -> None:
    body = "--draft\n$(touch x) `y` \x00\n"
    outcome(project, title="--web\n; rm -rf / \x1b[31m" + "x" * 300, body=body)
    (call,) = forge.created
    assert call[2].startswith("--title=--web ; rm -rf / xxx")
    assert len(call[2]) == len("--title=") + 256
    assert forge.pulls[0]["body"] == body


# ── running again ───────────────────────────────────────────────────────────────────────────


def test_a_second_run_reports_the_first_one_s(
    project: Project, origin: Project, forge: Forge
) -> None:
    outcome(project)
    project.write("more.txt", "x\n")
    project.commit("More")
    bench = Bench(project.root)
    assert bench.outcome(PR, step()).data == SEVEN
    assert bench.shown[-1] == f"pull request #7 is open already: {SEVEN['url']}"
    assert len(forge.created) == 1
    assert origin.git("rev-parse", FEATURE) == project.git("rev-parse", "HEAD")


def test_a_merged_one_with_all_of_this_work_is_reported(
    project: Project, origin: Project, forge: Forge
) -> None:
    """The attempt before was interrupted while it waited; only its journal was added since."""
    forge.has_pull(state="MERGED", headRefOid=project.git("rev-parse", "HEAD"))
    project.write(".playbooks/sessions/20260219-a7k/journal.yaml", "entries: []\n")
    project.commit("Record a session")
    before = origin.git("rev-parse", FEATURE)
    assert outcome(project).data == SEVEN
    assert (forge.created, origin.git("rev-parse", FEATURE)) == ([], before)


@pytest.mark.parametrize("state", ["MERGED"])
def test_one_that_has_ended_without_this_work_is_no_reason_to_open_none(
    project: Project, origin: Project, forge: Forge, state: str
) -> None:
    forge.has_pull(state=state, headRefOid=project.git("rev-parse", "HEAD~1"))
    forge.has_pull(state=state, headRefOid="0" * 40)
    assert outcome(project).data["number"] == 9


def test_a_stranger_s_pull_request_from_a_branch_of_this_name_is_not_ours(
    project: Project, origin: Project, forge: Forge
) -> None:
    forge.has_pull(isCrossRepository=True, headRefOid="1" * 40)
    assert outcome(project).data["number"] == 8


def test_one_from_the_user_s_own_fork_is(project: Project, origin: Project, forge: Forge) -> None:
    forge.has_pull(isCrossRepository=True, headRefOid=project.git("rev-parse", "HEAD"))
    assert outcome(project).data == SEVEN
    assert forge.created == []


# ── refusals ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("base", [""])
def test_the_branch_that_it_would_be_merged_into_is_not_pushed(
    project: Project, forge: Forge, base: str
) -> None:
    bare = remote(project)
    project.git("push", "-q", "origin", "main")
    project.git("switch", "-q", "main")
    project.write("parser.py", "x\n")
    project.commit("Parse")
    before = bare.git("rev-parse", "main")
    error = failure(project, **({"base": base} if base else {}))
    assert error.message == "main is checked out, which a pull request would be merged into"
    assert (bare.git("rev-parse", "main"), forge.calls) == (before, [])


def test_a_branch_that_is_named_to_deceive_does_not_reach_gh(
    project: Project, forge: Forge
) -> None:
    project.git("switch", "-q", "-c", "fix\u202egnp.exe")
    assert failure(project).message == "'fixgnp.exe' is no name for a branch"
    assert forge.calls == []


@pytest.mark.parametrize(
    ("how", "message", "cure"),
    [
        (
            {"stderr": "To get started with GitHub CLI, please run:  gh auth login", "status": 4},
            "gh is logged out: To get started",
            "`gh auth login`",
        ),
        (
            {"stderr": "error connecting to api.github.com\ncheck your internet connection"},
            "gh does not reach the forge: error connecting",
            "network",
        ),
        (
            {
                "stderr": "none of the git remotes configured for this repository point to a known "
                "GitHub host. To tell gh about a new GitHub host, please use `gh auth login`"
            },
            "gh knows no forge of this repository: none of the git remotes",
            "as a remote",
        ),
        ({"stderr": ""}, "gh pr list failed: no message", "last lines"),
        ({"stdout": "Welcome to <html>", "status": 0}, "gh did not answer with a list", "gh"),
        ({"stdout": '[{"number": "7"}]', "status": 0}, "gh did not answer with number", "gh"),
        ({"stdout": "[" + '{"a": 1},' * 200_000, "status": 0}, "gh printed more than", "output"),
    ],
)
def test_what_gh_cannot_do_is_told_apart(
    project: Project, origin: Project, forge: Forge, how: Any, message: str, cure: str
) -> None:
    forge.fails(**how)
    before = origin.git("rev-parse", FEATURE)
    error = failure(project)
    assert error.code == "PB-STEP-FORGE"
    assert error.message.startswith(message)
    assert cure in error.guidance
    assert origin.git("rev-parse", FEATURE) == before


def test_without_gh_it_says_what_to_install(
    project: Project, origin: Project, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.gh("missing")
    monkeypatch.setenv("PATH", project.env["PATH"])
    error = failure(project)
    assert (error.code, error.guidance) == (
        "PB-STEP-FORGE",
        "Install GitHub's gh and put it on PATH.",
    )


def test_a_gh_that_never_answers_is_ended(
    project: Project, origin: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.gh("hanging")
    monkeypatch.setenv("PATH", project.env["PATH"])
    monkeypatch.setattr(steps_of_the_forge, "DEADLINE", 0.5)
    assert failure(project).message == "gh did not answer within 0.5 s"


@pytest.mark.parametrize("options", [{"title": " \n"}, {"base": "--web"}])
def test_an_empty_title_and_an_option_as_a_branch_are_refused(
    project: Project, forge: Forge, options: dict[str, str]
) -> None:
    assert failure(project, **options).code == "PB-STEP-INPUT"
    assert forge.calls == []


# ── waiting ─────────────────────────────────────────────────────────────────────────────────


def run(name: str, conclusion: str) -> dict[str, str]:
    """A check run; one without a conclusion is at work."""
    status = "COMPLETED" if conclusion else "IN_PROGRESS"
    return {"name": name, "status": status, "conclusion": conclusion}


def waits(project: Project, wanted: str) -> list[str]:
    """What a step says that waits, and succeeds."""
    bench = Bench(project.root)
    done = bench.outcome(PR, step(wait=wanted))
    assert done.error is None, done.error
    assert done.output == SEVEN["url"]
    return bench.shown[1:]


def test_it_waits_until_all_checks_have_passed(
    project: Project, origin: Project, forge: Forge
) -> None:
    status = {"context": "ci/lint", "state": "PENDING"}
    forge.has_pull(statusCheckRollup=[run("test", ""), status])
    forge.then(statusCheckRollup=[run("test", "SUCCESS"), status])
    forge.then()
    forge.then(statusCheckRollup=[run("test", "SUCCESS"), {**status, "state": "SUCCESS"}])
    assert waits(project, "checks")[1:] == [
        "waiting for 2 checks: test, ci/lint",
        "waiting for 1 check: ci/lint",
        "2 checks passed",
    ]


@pytest.mark.parametrize("conclusion", ["FAILURE", "SOMETHING_NEW"])
def test_a_failed_check_ends_the_waiting(
    project: Project, origin: Project, forge: Forge, conclusion: str
) -> None:
    forge.has_pull(statusCheckRollup=[run("test\x1b[31m", conclusion), run("lint", "")])
    error = failure(project, wait="checks")
    assert error.message == "1 check of pull request #7 failed: test"
    assert error.cause == SEVEN["url"]


def test_a_pull_request_that_never_gets_checks_has_none(
    project: Project, origin: Project, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forge takes a moment to start them."""
    forge.has_pull()
    forge.then(statusCheckRollup=[run("test", "")])
    forge.then(statusCheckRollup=[run("test", "NEUTRAL")])
    assert waits(project, "checks")[-1] == "1 check passed"
    monkeypatch.setattr(module, "NO_CHECKS", 0.0)
    forge.then(statusCheckRollup=[])
    Bench(project.root).outcome(PR, step(wait="checks"))
    assert waits(project, "checks")[-1] == "pull request #7 has no checks"


def test_it_waits_until_a_person_has_merged_it(
    project: Project, origin: Project, forge: Forge
) -> None:
    forge.has_pull()
    forge.then()
    forge.then(state="MERGED")
    assert waits(project, "merged")[1:] == [
        f"waiting until pull request #7 is merged: {SEVEN['url']}",
        "pull request #7 is merged",
    ]


@pytest.mark.parametrize("wanted", ["merged"])
def test_one_that_is_closed_ends_the_waiting(
    project: Project, origin: Project, forge: Forge, wanted: str
) -> None:
    forge.has_pull(statusCheckRollup=[run("test", "")])
    forge.then(state="CLOSED")
    assert failure(project, wait=wanted).message.startswith("pull request #7 was closed")


def test_a_few_failed_answers_do_not_end_the_waiting(
    project: Project, origin: Project, forge: Forge
) -> None:
    forge.has_pull(state="OPEN", statusCheckRollup=[run("test", "SUCCESS")])
    forge.fails(
        stdout=f'[{{"number": 7, "url": "{SEVEN["url"]}", "state": "OPEN", '
        '"isCrossRepository": false}]',
        status=0,
    )
    for _ in range(4):
        forge.fails(stderr="HTTP 502")
    assert waits(project, "checks")[-1] == "1 check passed"


@pytest.mark.parametrize(
    "answer", ["<html>", '{"number": 7, "url": "x", "state": "OPEN", "statusCheckRollup": [1]}']
)
def test_an_answer_of_another_shape_is_refused(
    project: Project, origin: Project, forge: Forge, answer: str
) -> None:
    forge.fails(stdout="[]", status=0)
    forge.fails(stdout=f"{SEVEN['url']}\n", status=0)
    forge.fails(stdout=answer, status=0)
    assert failure(project, wait="checks").message.startswith("gh did not answer with ")


def test_a_person_who_stops_it_does_not_wait(
    project: Project, origin: Project, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INTERVAL", 600.0)
    forge.has_pull()
    bench = Bench(project.root)
    context = bench.context()

    def stop() -> None:
        while not any("waiting" in line for line in bench.shown):
            time.sleep(0.02)
        context.stop()

    threading.Thread(target=stop).start()
    assert bench.error(PR, step(wait="merged"), context).code == "PB-STEP-CRASHED"
