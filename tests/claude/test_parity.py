"""What commands produce through a playbook is what they produce by hand."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from cli import terminal as person
from support.scratch_project import FEATURE, Project

from claude.conftest import Start
from claude.model import Reply, Request, call, text
from claude.obedient import Obedient
from claude.recorder import Recorder
from claude.scripts import FILES, FREE, obey

BY_HAND = (
    "/speckit.plan",
    "/speckit.tasks",
    f"/agreement.create {FEATURE}",
    "/speckit.implement",
    f"/agreement.check {FEATURE}",
    f"/qa.plan {FEATURE}",
    f"/qa.run {FEATURE}",
    f"/feature.pr {FEATURE}",
)
"""What a person types, one after the other, instead of `/playbook.run auto-feature 013`."""

EXPANDING = """\
---
allowed-tools: Bash(ls:*)
---
Do what qa.plan means.

$ARGUMENTS

Know this: @README.md

There are: !`ls specs`
"""
BODY = re.compile(r"Do what (\S+) means\.\n.*", re.DOTALL)


def carry_out(request: Request) -> Reply:
    """What a model does with a command: here all that it was told, word for word, is written."""
    told = [found for words in request.texts if (found := BODY.match(words))][-1]
    skill = told[1]
    knows = "@README.md" in told[0] and request.mentions("# A project")
    writing = {f"made/{skill}.txt": f"{told[0]}\n{knows=}\n"}
    if skill in FILES:
        path, content = FILES[skill]
        writing[path] = content
    if missing := [path for path in writing if not _written(request, path)]:
        return [call("Write", file_path=path, content=writing[path]) for path in missing]
    return [text(f"{skill} is done")]


def _written(request: Request, path: str) -> bool:
    return any(made.name == "Write" and made.input["file_path"] == path for made in request.calls)


def twins(project: Project) -> tuple[Project, Project]:
    """Two projects that do not differ."""
    project.write(".claude/commands/qa.plan.md", EXPANDING)
    assert project.playbook("init", "--yes").code == 0
    project.commit("Install")
    project.gh("open")
    other = Project.copied(project.root, project.root.with_name("twin"), home=project.home)
    other.gh("open")
    return project, other


def differences(one: Path, other: Path) -> list[str]:
    """What `diff -r` says of the two trees, but for sessions and git's own files."""
    argv = ["diff", "-r", "-x", ".git", "-x", "sessions", str(one), str(other)]
    done = subprocess.run(argv, capture_output=True, check=False, text=True, timeout=60)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def test_typing_by_hand_and_running_the_playbook_have_equal_results(
    project: Project, start: Start
) -> None:
    """kai FR41, NFR8, S-T1, S-M3: the same commands, expanded in the same way, leave the same tree
    behind."""
    supervised, typed = twins(project)

    by_playbook = start(Obedient(work=lambda skill, request: carry_out(request)))
    by_playbook.run("/playbook.run auto-feature 013", *FREE)
    assert supervised.manifest()["gate"]["id"] == "pr#1?1"
    with person.Terminal(supervised, "answer", "continue") as terminal:
        assert terminal.end() == 0
    by_playbook.run("/playbook.resume", *FREE)
    assert supervised.manifest()["status"] == "completed"

    by_hand = start(carry_out, typed)
    messages = [{"role": "user", "content": words} for words in BY_HAND]
    lines = [json.dumps({"type": "user", "message": message}) + "\n" for message in messages]
    streamed = ("--input-format", "stream-json", *FREE)
    by_hand.run("", *streamed, stdin="".join(lines).encode())

    assert len(list((typed.root / "made").iterdir())) == len(BY_HAND)
    plan = typed.read("made/qa.plan.txt")
    assert plan.endswith(
        f"{FEATURE}\n\nKnow this: @README.md\n\nThere are: {FEATURE}\n\nknows=True\n"
    )
    assert differences(supervised.root, typed.root) == []


@pytest.mark.smoke
def test_supervision_costs_two_requests_a_step_and_says_nothing_to_workers(
    project: Project, start: Start, recorder: Recorder
) -> None:
    """One request dispatches, one waits. A worker's prompt is the command and nothing beside it
    (kai S-B2)."""
    assert project.playbook("init", "--yes").code == 0
    agents: dict[str, int] = {}

    def unhurried(request: Request) -> Reply:
        if request.agent:  # it ends when the main thread has begun to wait for it, no sooner
            recorder.wait_for("Stop", count=agents.setdefault(request.agent, len(agents) + 1))
        return obey(request)

    client = start(unhurried)
    client.run("/playbook.run auto-validate 013", *FREE)
    assert project.manifest()["status"] == "completed"
    assert len(client.model.main) == 2 * len(project.journal()) + 1

    prompts = {request.prompt for request in client.model.subagents}
    (asked,) = {words for words in prompts if "`qa.plan`" in words}
    wanted = f"Run the Skill `qa.plan` with args `{FEATURE}`, first, then follow it to its end."
    assert wanted in asked
    assert "playbook" not in asked.partition(wanted)[2].replace(FEATURE, "")
