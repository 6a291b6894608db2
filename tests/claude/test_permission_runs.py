"""`playbook run` with the real client: what it may not do, and what it asks, waits at a gate."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from support.scratch_project import Project

from claude.conversation import Reply, Request, call, text
from claude.runner import Headless, works
from playbook_supervisor.system.process.process_groups import until

COUNTED = "sh -c 'echo once >>counted'"
BASH = call("Bash", command=COUNTED, description="count")
LOST = ("STOP", "interrupted", "AbortError")
"""How the client tells the model that a call was lost when it ended."""
ASKED = {
    "question": "Which shell?",
    "header": "Shell",
    "multiSelect": False,
    "options": [
        {"label": "bash", "description": "the old one"},
        {"label": "zsh", "description": "the new one"},
    ],
}


def first(block: object) -> Callable[[Request], Reply]:
    """A model that makes this call, again if it was interrupted, tells what came, and works."""

    def script(request: Request) -> Reply:
        if not request.tools:
            return [text("a title")]
        results = [
            each for each in request.all_results if not any(word in each.text for word in LOST)
        ]
        if not results:
            return [block]  # type: ignore[list-item]
        if len(results) == 1:
            said = text(f"I was told: {results[0].text}")
            return [said, call("Write", file_path="specs/013-playbook-create/plan.md", content="x")]
        return works(request)

    return script


def counted(project: Project) -> int:
    path = project.root / "counted"
    return len(path.read_text().splitlines()) if path.exists() else 0


def gates(project: Project) -> list[tuple[str, str]]:
    return [
        (gate["reason"], gate.get("resolution", ""))
        for entry in project.journal()
        for gate in entry.get("gates", [])
    ]


def until_it_asks(project: Project) -> str:
    run = project.playbook("run", "one")
    assert run.code == 4, run.err
    return run.err


def test_a_permission_is_given_from_another_terminal_and_the_conversation_goes_on(
    headless: Headless, project: Project
) -> None:
    headless(first(BASH))
    said = until_it_asks(project)
    assert f"Claude wants to run `{COUNTED}` (plan#1): allow once" in said
    assert counted(project) == 0
    assert project.playbook("answer", "allow").code == 0
    done = project.playbook("resume")
    assert done.code == 0, done.err
    (entry,) = project.journal()
    assert (counted(project), gates(project)) == (1, [("permission", "allow")])
    conversation = entry["gates"][0]["request"]["conversation"]
    assert entry["agent"]["id"] == conversation
    assert project.playbook("audit").code == 0


def test_a_command_that_asks_gets_its_answer_days_later(
    headless: Headless, project: Project
) -> None:
    headless(first(call("AskUserQuestion", questions=[ASKED])))
    said = until_it_asks(project)
    assert "Claude asks (plan#1): Which shell?" in said
    assert "2. zsh: the new one" in said
    assert project.playbook("answer", "2").code == 0
    done = project.playbook("resume")
    assert done.code == 0, done.err
    assert gates(project) == [("question", "answer")]
    told = project.playbook("logs", "plan").out
    assert "zsh" in told


@pytest.mark.sampled("9")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_while_it_waits_nothing_is_lost_asked_or_done_twice(
    number: signal.Signals, headless: Headless, project: Project
) -> None:
    client = headless(first(BASH))
    with project.spawn("run", "one", "--patience", "60") as runner:
        assert runner.stderr
        while b"WAITS" not in (line := runner.stderr.readline()):
            assert line
        runner.send_signal(number)
        runner.communicate(timeout=60)
    assert until(lambda: not client.processes(), 10)
    assert gates(project) == [("permission", "")]
    assert project.playbook("answer", "allow").code == 0
    done = project.playbook("resume")
    assert done.code == 0, done.err
    assert (counted(project), gates(project)) == (1, [("permission", "allow")])
    assert len(project.journal()) == 1
