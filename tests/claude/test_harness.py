"""What the real client does, as far as anything is built on it; and that it is on a leash."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scratch_project import Project

from claude.client import Client
from claude.conftest import REQUIRED, Open, Start, leave_out
from claude.model import Model, Pause, Reply, Request, Script, call, text
from claude.network import Network
from claude.recorder import Recorder, allow, specific

POST = "PostToolUse"
FAILED = "PostToolUseFailure"
ID = "tool_use_id"
PLAN = {"skill": "speckit.plan", "args": "013"}
QUESTION = {
    "question": "Really go on?",
    "header": "Gate",
    "multiSelect": False,
    "options": [
        {"label": "approve", "description": "go on"},
        {"label": "abort", "description": "end it"},
    ],
}
OTHER_QUESTION = QUESTION | {"question": "May I do as I like?"}


def says(words: str) -> Script:
    return lambda request: [text(words)]


def calls(tool: str, **arguments: Any) -> Script:
    """Call that tool in every turn, then say what came back."""

    def reply(request: Request) -> Reply:
        if request.results:
            return [text(request.results[-1].text)]
        return [call(tool, **arguments)]

    return reply


def dispatches(until: Callable[[], object] = lambda: None, **arguments: Any) -> Script:
    """Have one subagent run /speckit.plan 013, and say what became of it; it ends after `until`."""

    def reply(request: Request) -> Reply:
        if request.agent:
            if not request.results:
                return [call("Skill", **PLAN)]
            until()
            return [text("planned")]
        if request.notifications:
            return [text(f"Heard: {request.notifications[-1]['result']}")]
        if request.results:
            return [text("Launched." if "Async" in request.results[-1].text else "Returned.")]
        return [call("Agent", description="plan", prompt="run it", **arguments)]

    return reply


class TestTheLeash:
    def test_the_network_is_private(self, start: Start) -> None:
        client = start(calls("Bash", command="cat /proc/net/route"))
        if not client.model.network.private:
            pytest.skip("no network namespace is permitted here: the client has the usual loopback")
        head, *routes = client.run("look", "--allowedTools", "Bash").text.splitlines()
        assert head.startswith("Iface")
        assert routes == []

    def test_the_environment_is_explicit_and_no_other_agent_is_on_the_path(
        self, start: Start, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COVERAGE_SECRET", "inherited")
        client = start(calls("Bash", command="env; claude; gh; playbook --version; pwd"))
        seen = client.run("look", "--allowedTools", "Bash").text
        assert "COVERAGE_SECRET" not in seen
        assert "http_proxy" not in seen
        assert f"HOME={client.home}\n" in seen
        assert "tests do not run the real claude" in seen
        assert "tests do not run the real gh" in seen
        assert "playbook 0." in seen
        assert str(client.root) in seen

    def test_a_kill_leaves_nothing_behind(self, start: Start) -> None:
        client = start(calls("Bash", command="setsid sleep 600"))
        running = client.spawn("wait", "--allowedTools", "Bash")
        client.model.wait_for(lambda request: True)
        deadline = time.monotonic() + 60
        while not any(b"sleep" in _command(pid) for pid in client.processes()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        running.kill()
        assert client.processes() == []
        assert running.process.returncode == -9

    def test_a_client_that_takes_too_long_is_killed_and_fails(self, start: Start) -> None:
        client = start(lambda request: [Pause()])
        with pytest.raises(AssertionError, match="longer than 2 s"):
            client.run("hello", timeout=2)
        assert client.processes() == []

    def test_where_no_network_can_be_made_the_usual_loopback_serves(
        self, start: Start, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start(says(""))  # leaves the test out where there is no client
        with monkeypatch.context() as nothing_installed:
            nothing_installed.setenv("PATH", "")
            network = Network()
        assert not network.private
        with Model(says("Good day."), network) as model, Client(project, model) as client:
            assert client.run("hello").text == "Good day."

    @pytest.mark.smoke
    def test_what_is_missing_leaves_a_test_out_unless_it_is_required(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv(REQUIRED, raising=False)
        with pytest.raises(pytest.skip.Exception, match="no tmux"):
            leave_out("no tmux")
        monkeypatch.setenv(REQUIRED, "1")
        with pytest.raises(pytest.fail.Exception, match="no tmux, and PLAYBOOK_REQUIRE_CLAUDE"):
            leave_out("no tmux")


class TestTheScriptedModel:
    def test_a_script_that_raises_fails_the_test(self, project: Project, start: Start) -> None:
        start(says(""))  # leaves the test out where there is no client

        def reply(request: Request) -> Reply:
            raise LookupError("no line for this")

        with (
            pytest.raises(LookupError, match="no line for this"),
            Model(reply) as model,
            Client(project, model) as client,
        ):
            assert client.run("hello").result["is_error"]


@pytest.mark.thorough
class TestATurn:
    def test_of_plain_text_is_one_request_and_nothing_else(
        self, start: Start, recorder: Recorder
    ) -> None:
        client = start(says("Good day."))
        done = client.run("hello")
        assert (done.code, done.text) == (0, "Good day.")
        (request,) = client.model.requests
        assert (request.said, request.main, request.session) == ("hello", True, done.session)
        assert client.model.strays == []
        assert recorder.names == ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]

    def test_continues_after_an_equal_denial_that_is_no_refusal(
        self, start: Start, recorder: Recorder
    ) -> None:
        recorder.answer("PreToolUse", {"continue": False, "stopReason": "enough"})
        client = start(calls("Read", file_path="/etc/hostname"))
        assert client.run("read").result["terminal_reason"] == "completed"


@pytest.mark.thorough
class TestASlashCommand:
    @pytest.fixture(autouse=True)
    def command(self, project: Project) -> None:
        project.write(
            ".claude/commands/x.y.md", "---\ndescription: tries\n---\nAll: $ARGUMENTS; 1st: $0\n"
        )

    def test_is_shown_to_the_hook_after_the_prompt_which_may_add_to_it(
        self, start: Start, recorder: Recorder
    ) -> None:
        event = "UserPromptExpansion"
        recorder.answer(event, specific(event, additionalContext="Session 42 begins."))
        client = start(says("Done."))
        client.run("/x.y one 'two three'")
        assert recorder.names[:3] == ["SessionStart", "UserPromptSubmit", event]
        (seen,) = recorder.of(event)
        fields = ("expansion_type", "command_name", "command_args", "command_source", "prompt")
        assert [seen[name] for name in fields] == [
            "slash_command",
            "x.y",
            "one 'two three'",
            "projectSettings",
            "/x.y one 'two three'",
        ]
        assert "Session 42 begins." in client.model.requests[0].context
        assert "All: one 'two three'; 1st: one" in client.model.requests[0].said

    def test_that_is_unknown_goes_to_the_model_as_text(
        self, start: Start, recorder: Recorder
    ) -> None:
        client = start(says("What is that?"))
        assert client.run("/x.z one").code == 0
        assert recorder.of("UserPromptExpansion") == []
        assert client.model.requests[0].said == "/x.z one"


@pytest.mark.thorough
class TestASkill:
    def test_that_is_closed_or_unknown_fires_no_hook_and_one_that_breaks_does(
        self, start: Start, recorder: Recorder, project: Project
    ) -> None:
        project.write(
            ".claude/commands/closed.md", "---\ndisable-model-invocation: true\n---\nNo.\n"
        )
        project.write(".claude/commands/bad.md", "Look: !`false`\n")
        tries = [call("Skill", skill=name) for name in ("closed", "unknown", "bad")]
        start(lambda request: [text("ok")] if request.results else tries).run("go")
        assert [seen["tool_input"]["skill"] for seen in recorder.of("PreToolUse")] == ["bad"]
        assert recorder.of(POST) == []
        (seen,) = recorder.of(FAILED)
        assert "Shell command failed" in seen["error"]

    @pytest.mark.parametrize("allowed", [False, True])
    def test_with_tools_of_its_own_needs_the_hooks_permission(
        self, start: Start, recorder: Recorder, project: Project, allowed: bool
    ) -> None:
        project.write(".claude/commands/own.md", "---\nallowed-tools: Bash(ls:*)\n---\nList.\n")
        if allowed:
            recorder.answer("PreToolUse", allow(), tool="Skill")
        start(calls("Skill", skill="own")).run("go")
        assert bool(recorder.of(POST, tool="Skill")) is allowed
        assert bool(recorder.of("PermissionRequest", tool="Skill")) is not allowed


class TestASubagent:
    @pytest.mark.thorough
    def test_in_the_foreground_returns_as_the_result_of_its_call_and_leaves_a_receipt(
        self, start: Start, recorder: Recorder
    ) -> None:
        client = start(dispatches(run_in_background=False))
        assert client.run("go").text == "Returned."
        (end,) = recorder.of(POST, tool="Agent")
        response = end["tool_response"]
        assert response["status"] == "completed"
        assert response["content"][-1] == {"type": "text", "text": "planned"}
        assert {"agentId", "resolvedModel", "totalDurationMs"} <= response.keys()
        assert {request.agent for request in client.model.subagents} == {response["agentId"]}
        (receipt,) = recorder.of(POST, tool="Skill")
        assert receipt["tool_input"] == PLAN
        assert receipt["tool_response"] == {"success": True, "commandName": "speckit.plan"}
        assert receipt["agent_id"] == response["agentId"]
        assert "agent_id" not in end
        first, second = client.model.subagents
        assert first.prompt == "run it"
        assert second.said == "Do what speckit.plan means.\n\n013\n"

    @pytest.mark.smoke
    def test_goes_to_the_background_unless_told_otherwise_and_its_end_is_a_prompt(
        self, start: Start, recorder: Recorder
    ) -> None:
        client = start(dispatches(until=lambda: recorder.wait_for("Stop")))
        assert client.run("go").text == "Heard: planned"
        (launch,) = recorder.of(POST, tool="Agent")
        assert launch["tool_response"]["status"] == "async_launched"
        agent = launch["tool_response"]["agentId"]
        (waiting,) = recorder.of("Stop")[0]["background_tasks"]
        assert (waiting["id"], waiting["type"], waiting["status"]) == (agent, "subagent", "running")
        assert recorder.of("Stop")[-1]["background_tasks"] == []
        prompt = recorder.of("UserPromptSubmit")[-1]["prompt"]
        assert prompt.startswith("<task-notification>")
        for part in (f"<task-id>{agent}<", "<status>completed<", f"<tool-use-id>{launch[ID]}<"):
            assert part in prompt

    @pytest.mark.thorough
    def test_is_kept_in_the_foreground_by_the_environment(
        self, start: Start, recorder: Recorder
    ) -> None:
        client = start(dispatches())
        client.env["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] = "1"
        assert client.run("go").text == "Returned."


@pytest.mark.thorough
class TestAHookThatBreaks:
    @pytest.mark.parametrize(("code", "runs"), [(1, True), (2, False)])
    def test_lets_the_tool_run_unless_its_code_is_two(
        self, start: Start, recorder: Recorder, code: int, runs: bool
    ) -> None:
        recorder.answer("PreToolUse", exit=code, err="broken")
        client = start(calls("Read", file_path="README.md"))
        assert ("# A project" in client.run("read").text) is runs

    def test_closes_where_it_was_installed_to_but_for_bad_output(
        self, start: Start, project: Project
    ) -> None:
        hooks = {"Read": "exit 1", "Write": "/nowhere", "Bash": "echo '{bad'"}
        settings = [
            {
                "matcher": tool,
                "hooks": [{"type": "command", "command": command, "onFailure": "block"}],
            }
            for tool, command in hooks.items()
        ]
        project.write(".claude/settings.json", json.dumps({"hooks": {"PreToolUse": settings}}))
        tries = [
            call("Read", file_path="README.md"),
            call("Write", file_path="new.txt", content="x"),
            call("Bash", command="true"),
        ]
        client = start(lambda request: [text("ok")] if request.results else tries)
        client.run("look", "--allowedTools", "Bash,Write")
        results = [result for made in tries for result in client.model.results_of(made)]
        assert [result.is_error for result in results] == [True, True, False], results


@pytest.mark.thorough
class TestAConversation:
    def test_without_a_terminal_has_no_way_to_ask_a_question(
        self, start: Start, recorder: Recorder
    ) -> None:
        client = start(calls("AskUserQuestion", questions=[QUESTION]))
        assert "No such tool available" in client.run("go").text
        assert recorder.of("PreToolUse") == []


@pytest.mark.thorough
class TestTheTerminal:
    def test_asks_for_trust_before_anything_runs(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        client = start(says("Good day."))
        client.distrust()
        terminal = open_terminal(client)
        terminal.wait_for("I trust this folder")
        assert recorder.names == []
        terminal.trust()
        terminal.say("hello")
        terminal.wait_for("Good day")

    def test_runs_shell_commands_without_a_controlling_terminal(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        recorder.allow("Bash")
        command = 'echo "$CLAUDECODE"; tty; true < /dev/tty || echo none'
        terminal = open_terminal(start(calls("Bash", command=command)))
        terminal.say("look")
        recorder.wait_for("Stop")
        (seen,) = recorder.of(POST, tool="Bash")
        assert seen["tool_response"]["stdout"].splitlines()[:2] == ["1", "not a tty"]
        assert seen["tool_response"]["stdout"].splitlines()[-1] == "none"

    def test_takes_new_settings_that_no_hook_blocks(
        self,
        start: Start,
        open_terminal: Open,
        recorder: Recorder,
        project: Project,
        tmp_path: Path,
    ) -> None:
        project.write(".claude/settings.json", "{}")
        terminal = open_terminal(start(says("ok")))
        terminal.ready()
        hook = {"type": "command", "command": f"touch '{tmp_path}/new-hook-ran'"}
        settings = {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}
        file = write_until(
            lambda: project.write(".claude/settings.json", json.dumps(settings)),
            lambda: recorder.of("ConfigChange"),
        )
        seen = recorder.of("ConfigChange")[0]
        assert (seen["source"], seen["file_path"]) == ("project_settings", str(file))
        ran = tmp_path / "new-hook-ran"
        for turn in range(1, 11):  # what is taken is taken when the hook has answered, not before
            terminal.say("hello")
            recorder.wait_for("Stop", count=turn)
            if ran.exists():
                break
        assert ran.exists()


@pytest.mark.thorough
class TestAQuestion:
    def test_is_not_shown_when_the_hook_allows_it(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        reply = allow(updatedInput={"questions": [QUESTION]})
        recorder.answer("PreToolUse", reply, tool="AskUserQuestion")
        terminal = open_terminal(start(calls("AskUserQuestion", questions=[OTHER_QUESTION])))
        terminal.say("go")
        recorder.wait_for("Stop")
        (seen,) = recorder.of(POST, tool="AskUserQuestion")
        assert seen["tool_response"]["answers"] == {}


def write_until(write: Callable[[], Path], seen: Callable[[], object]) -> Path:
    """Write the file, again now and then: a client that has just begun watches nothing yet."""
    deadline = time.monotonic() + 60
    while True:
        file, written = write(), time.monotonic()
        while time.monotonic() < written + 5:
            if seen():
                return file
            time.sleep(0.05)
        assert time.monotonic() < deadline, f"the client does not see {file}"


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
