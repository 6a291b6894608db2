"""A person at the terminal, a playbook in the client: keys, words, Esc, and what is seen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from support.scratch_project import Project

from claude.conftest import Open, Sit, Start
from claude.conversation import Pause, Reply, Request, call, text
from claude.obedient import Obedient
from claude.recorder import Recorder
from claude.scripts import FILES

TASKS = "Run /speckit.tasks (step tasks) now"


@pytest.fixture
def project(furnished: Project) -> Project:
    """The project in which clients are started, unless they are told another."""
    return furnished


def steps(project: Project) -> list[str]:
    """Each entry as `attempt status`."""
    return [f"{e['step_id']}#{e.get('attempt', 1)} {e['status']}" for e in project.journal()]


def reply_to(words: str, *blocks: Any) -> Callable[[Request], Reply | None]:
    """What Claude does when the person has just typed these words; once, then it says done."""

    def talk(request: Request) -> Reply | None:
        if not request.mentions(words):
            return None
        if request.said.strip().endswith(words):
            return list(blocks)
        if request.results and not request.notifications and request.results[0].tool != "Agent":
            return [text("So be it.")]
        return None

    return talk


def own_question(question: str) -> dict[str, Any]:
    """The gate's question as a model asks it by itself."""
    options = [{"label": word, "description": word} for word in ("continue", "skip")]
    return {"question": question, "header": "gate", "multiSelect": False, "options": options}


def quiet(request: Request) -> Reply | None:
    """A person's own words are answered with as many."""
    return [text("I hear you.")] if "\n" not in request.said.strip() and request.said else None


class TestAGate:
    def test_is_asked_and_answered_by_keys_on_the_way_through_auto_feature(
        self, project: Project, sit: Sit, recorder: Recorder
    ) -> None:
        """kai FR17, FR24, FR26, S-B1: the kernel's question; words, name and gate id."""
        model = Obedient(after={"feature.pr": lambda: project.gh("open")})
        terminal = sit(model)
        terminal.say("/playbook.run auto-feature 013")
        terminal.wait_for(r"Session \d{8}-\w+ · auto-feature · 013-playbook-create · 8 steps")
        terminal.wait_for(r"Run /feature\.pr \(step pr\) now", timeout=200)
        terminal.wait_for_bell()
        for line in ("1. continue", "2. skip", "3. abort", "7/8 steps done"):
            terminal.wait_for(re.escape(line))
        terminal.wait_for(r"qa-run ✓ [\d.]+ s · qa_verdict_pass: .*says PASS")
        assert "Shall I do as I like?" not in terminal.screen
        terminal.wait_for(r"│ > ✓ qa_verdict_pass: .*says PASS")
        terminal.wait_for(r"│ > qa-run#1 said last: ")
        terminal.wait_for(r"│ > branch \S+, no commits, \d+ files changed, .* since")
        terminal.wait_for(r"implement ✓ [\d.]+ s · said: ")
        assert project.manifest()["gate"]["id"] == "pr#1?1"
        terminal.choose("continue")
        terminal.wait_for("auto-feature: completed")
        last = project.journal()[-1]
        (gate,) = last["gates"]
        assert (gate["id"], gate["text"], gate["resolution"]) == ("pr#1?1", "continue", "continue")
        name, mail = (project.git("config", f"user.{key}") for key in ("name", "email"))
        assert gate["by"] == f"{name} <{mail}>"
        assert "pull request #7 is open" in last["evidence"][0]
        ran = [seen["tool_input"]["command"] for seen in recorder.of("PreToolUse", tool="Bash")]
        assert ran == ["playbook next --wait"]
        assert project.manifest()["status"] == "completed"
        assert len(project.journal()) == 8
        session = f"Record session {project.session.name}"
        committed = project.git("log", "-2", "--format=%s").splitlines()
        assert committed == [f"{session}: completed", f"{session} before pr"]

    def test_is_talked_about_and_answered_by_typing(
        self, project: Project, sit: Sit, recorder: Recorder
    ) -> None:
        """kai FR26, FR38: a question, many words, another wish are talk: the gate stays open."""
        model = Obedient(talk=lambda request: None)
        terminal = sit(model)
        terminal.say("/playbook.run two 013")
        terminal.wait_for(re.escape(TASKS))
        turns = len(recorder.of("Stop"))
        terminal.choose("Chat about this")
        recorder.wait_for("Stop", count=turns + 1)
        model.talk = quiet
        for number, words in enumerate(
            (
                "shall I continue?",
                "please tell me all about it before I say continue",
                "stop asking",
                "no",
            ),
            start=1,
        ):
            terminal.say(words)
            recorder.wait_for("Stop", saying="I hear you", count=number)
            assert "resolution" not in project.journal()[-1]
            assert project.manifest()["gate"]["id"] == "tasks#1?1"
        assert "Skip this step, or abort the run?" in terminal.client.model.main[-1].context
        model.talk = lambda request: None
        terminal.say("Yes, please.")
        terminal.wait_for("two: completed")
        (gate,) = project.journal()[-1]["gates"]
        assert (gate["text"], gate["resolution"]) == ("Yes, please.", "continue")
        assert gate["by"]

    @pytest.mark.sampled("talked in")
    @pytest.mark.parametrize("first", ["talked in", "left by Esc"])
    def test_is_answered_in_a_second_dialog_that_the_model_opens_by_itself(
        self, project: Project, sit: Sit, recorder: Recorder, first: str
    ) -> None:
        """What a person chooses in any dialog that shows the gate's question is the answer."""
        words = "looks right, go ahead"

        def talk(request: Request) -> Reply | None:
            if request.mentions(words) and not again:
                again.append(request)
                gate = project.manifest()["gate"]
                return [call("AskUserQuestion", questions=[own_question(gate["question"])])]
            return None

        again: list[Request] = []
        terminal = sit(Obedient(talk=talk))
        terminal.say("/playbook.run two-gates 013")
        if first == "talked in":
            terminal.answer_freely("speckit.plan", words)
        else:
            terminal.wait_for("speckit.plan")
            terminal.interrupt()
            terminal.say(words)
        recorder.wait_for("PreToolUse", saying="AskUserQuestion", count=2)
        terminal.answer("speckit.plan", "continue")
        terminal.answer("speckit.tasks", "skip")
        terminal.wait_for("two-gates: completed")
        assert steps(project) == ["plan#1 done", "tasks#1 skipped"]
        texts = [gate["text"] for entry in project.journal() for gate in entry["gates"]]
        assert texts == ["continue", "skip"]


class TestTheRunningTurn:
    def test_a_person_may_have_claude_do_something_else_while_a_step_runs(
        self, project: Project, sit: Sit, recorder: Recorder
    ) -> None:
        note = str(project.root / "note.txt")
        talk = reply_to("write a note", call("Write", file_path=note, content="x"))
        model = Obedient(held={"speckit.plan"}, talk=talk)
        terminal = sit(model)
        terminal.say("/playbook.run straight 013")
        recorder.wait_for("Stop")
        terminal.say("write a note")
        recorder.wait_for("Stop", saying="So be it")
        assert (project.root / "note.txt").read_text() == "x"
        terminal.client.model.release()
        terminal.wait_for("straight: completed")
        assert steps(project) == ["plan#1 done", "tasks#1 done"]

    @pytest.mark.sampled("hello there")
    @pytest.mark.parametrize("words", ["hello there", "/playbook.resume"])
    def test_escape_interrupts_the_step_and_its_late_agent_is_ignored(
        self, project: Project, sit: Sit, recorder: Recorder, words: str
    ) -> None:
        def talk(request: Request) -> Reply | None:
            if request.said.strip().endswith("hello there"):
                return [text("Good day.")]
            if request.results and "Async agent" in request.results[0].text and not spoken:
                spoken.append(request)
                return [text("Launched."), Pause()]
            return None

        spoken: list[Request] = []
        model = Obedient(held={"speckit.plan"}, talk=talk)
        terminal = sit(model)
        terminal.say("/playbook.run straight 013")
        terminal.wait_for("Launched.")
        terminal.client.model.wait_for(lambda request: bool(request.agent and request.results))
        terminal.interrupt()
        terminal.say(words)
        recorder.wait_for("SubagentStart", count=2)
        terminal.wait_for("Good day." if words == "hello there" else "Agent.plan#2")
        assert ("Good day." in terminal.screen) is (words == "hello there")
        first = project.journal()[0]
        assert (first["status"], first["error_code"]) == ("failed", "PB-STATE-INTERRUPTED")
        assert project.manifest()["status"] == "in_progress"
        terminal.client.model.release()
        terminal.wait_for("straight: completed")
        assert steps(project) == ["plan#1 failed", "plan#2 done", "tasks#1 done"]
        assert project.journal()[0] == first
        terminal.client.model.wait_for(
            lambda request: bool(request.agent) and any(each.is_error for each in request.results)
        )
        late = {
            result.id: result.text
            for request in terminal.client.model.subagents
            for result in request.results
            if result.is_error
        }
        assert len(late) == 1  # a client may have asked twice with the same result
        assert "its result is not needed" in late.popitem()[1]


class TestATypedCommand:
    def test_that_cannot_be_carried_out_asks_no_model_which_shows_what_there_is(
        self, project: Project, sit: Sit, recorder: Recorder
    ) -> None:
        """kai P2-1, P2-2."""

        def talk(request: Request) -> Reply | None:
            if request.results:
                return [text(request.results[-1].text)]
            word = "status" if "playbook status" in request.said else "list"
            return [call("Bash", command=f"playbook {word}", description="look")]

        terminal = sit(Obedient(talk=talk))
        terminal.say("/playbook.run nonsense")
        terminal.wait_for("do: ")
        terminal.say("/playbook.resume")
        terminal.wait_for("no session belongs to this worktree")
        assert terminal.client.model.main == []
        assert project.sessions == []
        terminal.say("/playbook.list")
        assert "auto-feature" in json.dumps(recorder.wait_for("Stop"))
        terminal.say("/playbook.status")
        recorder.wait_for("Stop", count=2)
        assert recorder.of("PermissionRequest") == []

    def test_that_aborts_at_a_gate_is_said_plainly_and_ends_the_gate(
        self, project: Project, sit: Sit, recorder: Recorder
    ) -> None:
        """The person is not told of an operation that a hook blocked."""

        def talk(request: Request) -> Reply | None:
            if request.said.strip().endswith("and now?") and not request.results:
                return [call("AskUserQuestion", questions=[own_question("Shall we?")])]
            return [text("So be it.")] if request.mentions("is aborted") else None

        terminal = sit(Obedient(talk=talk))
        terminal.say("/playbook.run two 013")
        terminal.wait_for(re.escape("1. continue"))
        terminal.interrupt()
        terminal.say("/playbook.abort")
        terminal.wait_for(r"says: Session \d{8}-\w+ is aborted\.")
        terminal.say("and now?")
        terminal.wait_for("its gate tasks#1.1 has ended")
        assert "blocked by hook" not in terminal.screen
        assert "1. continue" not in terminal.screen
        assert project.manifest()["status"] == "aborted"


class TestAGroup:
    def test_of_three_agents_runs_at_once_each_with_its_model_and_its_command(
        self, project: Project, sit: Sit, recorder: Recorder
    ) -> None:
        """Commands from three places: with tools of its own, from a skill, and one that dispatches
        an agent itself; one agent leaves work in the background (kai FR22, NFR5)."""
        project.write(
            ".claude/commands/speckit.plan.md",
            "---\nallowed-tools: Bash(ls:*)\n---\nPlan.\n",
        )
        (project.root / ".claude/commands/speckit.tasks.md").unlink()
        project.write(
            ".claude/skills/speckit.tasks/SKILL.md",
            "---\nname: speckit.tasks\ndescription: tasks\n---\nList tasks.\n",
        )

        def work(skill: str, request: Request) -> Reply | None:
            if skill == "qa.plan" and not request.called("Agent"):
                return [call("Agent", description="look", prompt="look around")]
            if skill == "speckit.tasks" and not request.called("Bash"):
                wait = "until [ -e go-on ]; do sleep 0.1; done"
                return [call("Bash", command=wait, description="w", run_in_background=True)]
            return None

        terminal = sit(Obedient(work=work))
        terminal.say("/playbook.run group 013")
        recorder.wait_for("UserPromptSubmit", saying="still running")
        project.write("go-on", "")
        terminal.wait_for("group: completed")
        launches = [seen for seen in recorder.of("PreToolUse", tool="Agent") if "#" in str(seen)]
        assert len({seen["prompt_id"] for seen in launches if "agent_id" not in seen}) == 1
        assert steps(project) == ["plan#1 done", "tasks#1 done", "qa-plan#1 done"]
        agents = [entry["agent"] for entry in project.journal()]
        assert "haiku" in agents[0]["model"]
        assert all(agent["model"] and agent["name"] == "claude-code" for agent in agents)
        seen = {request.agent for request in terminal.client.model.subagents}
        assert {agent["id"] for agent in agents} < seen
        assert recorder.of("PermissionRequest", tool="Skill") == []


def test_a_person_is_called_when_a_worker_needs_permission(
    project: Project, start: Start, open_terminal: Open, recorder: Recorder
) -> None:
    client = start(Obedient(written={"speckit.plan": FILES["speckit.plan"]}))
    client.ask_first()
    terminal = open_terminal(client, "--allowedTools", "Agent,Skill")
    terminal.say("/playbook.run straight 013")
    recorder.wait_for("PermissionRequest", saying='"Write"')
    terminal.wait_for("1. Yes")
    terminal.wait_for_bell()
    waits = "a permission dialog for Write waits for you in Claude Code"
    assert waits in project.playbook("status").out
    terminal.choose("Yes")
    recorder.wait_for("SubagentStop")
    terminal.wait_for("plan ✓")
    assert steps(project)[0] == "plan#1 done"
    assert waits not in project.playbook("status").out
