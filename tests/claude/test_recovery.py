"""A client that is killed, closed, compacted, cleared, doubled; and what continues then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.scratch_project import Project

from claude.client import Client
from claude.conftest import FREE, Sit, Start
from claude.conversation import Reply, Request, Used, call, text
from claude.obedient import Obedient
from claude.recorder import Recorder

INTERRUPTED = "PB-STATE-INTERRUPTED"


@pytest.fixture
def project(furnished: Project) -> Project:
    """The project in which clients are started, unless they are told another."""
    return furnished


def steps(project: Project) -> list[str]:
    """Each entry as `attempt status`."""
    return [f"{e['step_id']}#{e.get('attempt', 1)} {e['status']}" for e in project.journal()]


def worker(skill: str, asks: Callable[[Request], bool]) -> Callable[[Request], bool]:
    """Whether it is the worker that was told to run this skill, and that asks so."""
    return lambda request: f"Skill `{skill}`" in request.prompt and asks(request)


def ran(client: Client) -> list[str]:
    """The commands that subagents were told to run, in order."""
    first = [request for request in client.model.subagents if not request.calls]
    return [request.prompt.split("`")[1] for request in first]


class TestAKilledClient:
    def test_loses_nothing_that_was_finished_and_repeats_only_what_was_not(
        self, project: Project, start: Start
    ) -> None:
        """kai FR15, FR32, NFR1, J2: what its evidence proves is recovered, the rest runs again."""
        client = start(Obedient(held={"speckit.tasks"}, unending={"speckit.plan"}))
        running = client.spawn("/playbook.run group 013", *FREE)
        model = client.model
        model.wait_for(worker("speckit.plan", lambda request: request.called("Write") == 1))
        model.wait_for(worker("speckit.tasks", lambda request: request.called("Skill") == 1))
        model.wait_for(lambda request: bool(request.notifications))
        running.kill()
        before = project.journal()
        assert [entry.get("returned_at") is not None for entry in before] == [False, False, True]
        other = start(Obedient())
        other.run("/playbook.resume", *FREE)
        assert ran(other) == ["speckit.tasks"]
        first, lost, third, again = project.journal()
        assert first["recovered"] is True
        assert lost["error_code"] == INTERRUPTED
        assert third["returned_at"] == before[2]["returned_at"]
        assert (third["status"], third["agent"]) == ("done", before[2]["agent"])
        assert (again["step_id"], again["attempt"], again["status"]) == ("tasks", 2, "done")
        assert project.manifest()["status"] == "completed"

    def test_leaves_its_gate_open_and_a_closed_terminal_does(
        self, project: Project, sit: Sit, recorder: Recorder
    ) -> None:
        terminal = sit(Obedient())
        terminal.say("/playbook.run two 013")
        terminal.wait_for("1. continue")
        terminal.close()
        before = project.journal()
        again = sit(Obedient())
        again.ready()
        again.say("/playbook.resume")
        again.wait_for("1. continue")
        assert project.journal() == before
        again.choose("continue")
        again.wait_for("two: completed")
        assert steps(project) == ["plan#1 done", "tasks#1 done"]
        assert ran(again.client) == ["speckit.tasks"]

    def test_in_the_background_a_second_client_is_told_and_left_alone(
        self, project: Project, start: Start, recorder: Recorder
    ) -> None:
        """It may do as it likes, but for nothing: the hooks hold the other one."""
        client = start(Obedient(held={"speckit.plan"}))
        running = client.spawn("/playbook.run straight 013", *FREE)
        client.model.wait_for(lambda request: bool(request.agent and request.calls))

        def reply(request: Request) -> Reply:
            if request.results:
                return [text("done")]
            return [call("Write", file_path="other.txt", content="x")]

        other = start(reply)
        other.run("write", *FREE)
        assert "waits here: /playbook.resume" in other.model.main[0].context
        assert project.read("other.txt") == "x"
        refused = other.run("/playbook.resume", *FREE).text + other.run("/playbook.abort").text
        assert refused.count("is being driven by Claude Code") == 2
        client.model.release()
        running.wait()
        assert project.manifest()["status"] == "completed"


class TestAConversation:
    def test_that_is_compacted_or_cleared_is_told_again_what_is_due(
        self, project: Project, sit: Sit, recorder: Recorder
    ) -> None:
        model = Obedient(held={"speckit.plan"})
        terminal = sit(model)
        terminal.say("/playbook.run straight 013")
        recorder.wait_for("Stop")
        terminal.say("/compact")
        recorder.wait_for("PostCompact", saying="")
        terminal.settle()
        model.talk = lambda request: (
            [text("Good day.")] if request.said.strip().endswith("hello") else None
        )
        terminal.say("hello")
        recorder.wait_for("Stop", saying="Good day")
        (told,) = [words for words in terminal.client.model.main[-1].texts if "straight" in words][
            -1:
        ]
        assert '"directive":"wait","steps":["plan#1"]' in told
        terminal.client.model.release()
        terminal.wait_for("straight: completed")
        assert steps(project) == ["plan#1 done", "tasks#1 done"]

    def test_that_the_client_compacts_by_itself_in_mid_turn_continues(
        self, project: Project, start: Start, recorder: Recorder
    ) -> None:
        """Before it has dispatched anything: what it is told then must be enough."""
        obedient, looks = Obedient(), iter([100, 100, 100, 190_000])

        def crowded(request: Request) -> Reply:
            own = request.main and request.tools and not request.compaction
            if own and (tokens := next(looks, None)):
                return [call("Read", file_path="README.md"), Used(tokens)]
            return obedient(request)

        client = start(crowded)
        client.env["CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"] = "5"
        client.run("/playbook.run straight 013", *FREE)
        assert recorder.of("PostCompact")[0]["trigger"] == "auto"
        (summed_up,) = [each for each in client.model.requests if each.compaction]
        first = next(each for each in client.model.main if each.number > summed_up.number)
        assert "To run now: plan#1" in first.context
        assert steps(project) == ["plan#1 done", "tasks#1 done"]


BREAKS = """\
#!/bin/sh
payload=$(cat)
case $payload in *'<task-notification>'*) mkdir '{broken}' 2>/dev/null && exit 1;; esac
printf %s "$payload" | '{program}' hook
"""
"""A program that fails at the first notification, and is as it should be from then on."""


class TestAHookThatBreaksOnce:
    def test_at_a_steps_end_has_lost_nothing(
        self, project: Project, sit: Sit, recorder: Recorder, tmp_path: Path
    ) -> None:
        """The notification is blocked, and the model never told: it is seen at the next stop."""
        model = Obedient(
            held={"speckit.plan"},
            talk=lambda request: [text("Hm.")] if request.said.strip() == "hello" else None,
        )
        terminal = sit(model)
        terminal.say("/playbook.run straight 013")
        terminal.client.model.wait_for(lambda request: request.called("Skill") > 0)
        recorder.wait_for("Stop")
        terminal.idle()
        marker = project.root / ".git/playbook/bound"
        program, rest = marker.read_text().split("\n", 1)
        breaks = tmp_path / "breaks"
        breaks.write_text(BREAKS.format(broken=tmp_path / "broken", program=program))
        breaks.chmod(0o755)
        marker.write_text(f"{breaks}\n{rest}")
        terminal.client.model.release()
        terminal.wait_for("playbook does not answer")
        assert steps(project) == ["plan#1 in_progress"]
        terminal.say("hello")
        terminal.wait_for("straight: completed")
        assert steps(project) == ["plan#1 done", "tasks#1 done"]
        assert project.journal()[0]["output"] == "speckit.plan is done"


class TestTheWorktree:
    def test_two_at_once_do_not_know_of_each_other(
        self, project: Project, start: Start, tmp_path: Path
    ) -> None:
        """kai FR36, S-B3."""
        beside = tmp_path / "beside"
        project.git("worktree", "add", "-q", str(beside), "-b", "014-other")
        shutil.copytree(project.root / "specs/013-playbook-create", beside / "specs/014-other")
        other = Project(beside, project.home, project.env)
        one = start(Obedient())
        written = {
            "speckit.plan": ("specs/014-other/plan.md", "p\n"),
            "speckit.tasks": ("specs/014-other/tasks.md", "t\n"),
        }
        two = start(Obedient(written=written), other)
        both = [one.spawn("/playbook.run straight 013", *FREE)]
        both.append(two.spawn("/playbook.run straight 014", *FREE))
        for running in both:
            running.wait()
        for each in (project, other):
            assert each.manifest()["status"] == "completed"
            assert steps(each) == ["plan#1 done", "tasks#1 done"]

    def test_without_our_tool_is_not_touched(
        self, pristine: Path, tmp_path: Path, home: Path, start: Start, recorder: Recorder
    ) -> None:
        """kai NFR8."""
        bare = Project.copied(pristine, tmp_path / "bare", home=home)
        before = bare.git("status", "--porcelain", "--ignored")
        client = start(
            lambda request: [text("ok")] if request.results else [call("Bash", command="true")],
            bare,
        )
        client.run("hello", *FREE)
        assert bare.git("status", "--porcelain", "--ignored") == before
        assert not (bare.root / ".git/playbook").exists()
