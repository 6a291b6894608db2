"""What the real client does, as far as anything is built on it; and that it is on a leash."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from project import Project

from claude.client import Client
from claude.conftest import REQUIRED, Open, Start, leave_out
from claude.model import BROKEN, OVERLOADED, Model, Pause, Reply, Request, Script, call, text
from claude.network import Network
from claude.recorder import Recorder, allow, ask, block, deny, specific

POST = "PostToolUse"
FAILED = "PostToolUseFailure"
ID = "tool_use_id"
WAIT = {"command": "until [ -e go-on ]; do sleep 0.1; done", "description": "wait"}
RUN_IT = {"description": "x", "prompt": "run it"}
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

    def test_it_asks_the_model_and_for_nothing_else(self, start: Start) -> None:
        client = start(says("Good day."))
        client.run("hello")
        assert len(client.model.requests) == 1
        assert client.model.strays == []

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
        start(says("")).run("hello")  # leaves the test out where there is no client

        def reply(request: Request) -> Reply:
            raise LookupError("no line for this")

        with (
            pytest.raises(LookupError, match="no line for this"),
            Model(reply) as model,
            Client(project, model) as client,
        ):
            assert client.run("hello").result["is_error"]

    @pytest.mark.parametrize("failure", [OVERLOADED, BROKEN])
    def test_the_client_asks_again_after_an_error(self, start: Start, failure: Reply) -> None:
        replies = iter([failure, [text("Better now.")]])
        client = start(lambda request: next(replies))
        assert client.run("hello").text == "Better now."

    def test_a_reply_may_wait_in_the_middle(self, start: Start) -> None:
        client = start(lambda request: [text("First"), Pause(), text("last.")])
        running = client.spawn("hello")
        client.model.wait_for(lambda request: request.said == "hello")
        assert running.process.poll() is None
        client.model.release()
        assert running.wait().text == "last."

    def test_several_clients_may_ask_at_once(self, start: Start) -> None:
        client = start(lambda request: [Pause(), text(f"You are {request.session}.")])
        both = [client.spawn("hello"), client.spawn("hello")]
        client.model.wait_for(lambda request: request.number == 2)
        client.model.release()
        one, other = (running.wait() for running in both)
        assert one.session != other.session
        for done in (one, other):
            assert done.text == f"You are {done.session}."

    def test_a_directive_is_found_wherever_it_stands(self, start: Start) -> None:
        client = start(says("Read."))
        client.run('Facts.\nplaybook-directive: {"id":"a"}\nplaybook-directive: {"id":"b"} so')
        (request,) = client.model.requests
        assert request.directive() == {"id": "b"}
        assert request.mentions("Facts.")


class TestATurn:
    def test_of_plain_text_is_one_request(self, start: Start, recorder: Recorder) -> None:
        client = start(says("Good day."))
        done = client.run("hello")
        assert (done.code, done.text) == (0, "Good day.")
        (request,) = client.model.requests
        assert (request.said, request.main, request.session) == ("hello", True, done.session)
        assert recorder.names == ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]

    def test_calls_a_tool_and_is_given_the_result(self, start: Start, recorder: Recorder) -> None:
        client = start(calls("Read", file_path="README.md"))
        assert "# A project" in client.run("read").text
        (before,), (after,) = (recorder.of(name, tool="Read") for name in ("PreToolUse", POST))
        assert before["tool_input"]["file_path"].endswith("README.md")
        assert before["tool_use_id"] == after["tool_use_id"]
        assert after["tool_response"]["file"]["content"] == "# A project\n"

    def test_that_stops_is_sent_on_by_the_stop_hook(self, start: Start, recorder: Recorder) -> None:
        reason = 'There is a step left.\nplaybook-directive: {"id":"s2"}'
        recorder.answer("Stop", block(reason), times=2)
        client = start(lambda request: [text(f"I stop: {request.directive()}")])
        assert client.run("go").text == "I stop: {'id': 's2'}"
        assert [stop["stop_hook_active"] for stop in recorder.of("Stop")] == [False, True, True]
        assert client.model.main[1].said == f"Stop hook feedback:\n{reason}"

    def test_ends_at_once_when_a_refusal_says_so(self, start: Start, recorder: Recorder) -> None:
        recorder.answer("PreToolUse", deny("no") | {"continue": False, "stopReason": "enough"})
        client = start(calls("Read", file_path="README.md"))
        done = client.run("read")
        assert done.result["terminal_reason"] == "hook_stopped"
        assert len(client.model.requests) == 1
        assert "Stop" not in recorder.names

    def test_continues_after_an_equal_denial_that_is_no_refusal(
        self, start: Start, recorder: Recorder
    ) -> None:
        recorder.answer("PreToolUse", {"continue": False, "stopReason": "enough"})
        client = start(calls("Read", file_path="/etc/hostname"))
        assert client.run("read").result["terminal_reason"] == "completed"

    def test_runs_shell_commands_without_a_terminal_and_says_so_in_their_environment(
        self, start: Start
    ) -> None:
        command = 'echo "$CLAUDECODE $CLAUDE_PID"; tty; true < /dev/tty || echo none'
        client = start(calls("Bash", command=command))
        running = client.spawn("look", "--allowedTools", "Bash")
        seen = running.wait().text.splitlines()
        assert seen[:2] == [f"1 {running.pid}", "not a tty"]
        assert seen[-1] == "none"


class TestASlashCommand:
    @pytest.fixture(autouse=True)
    def command(self, project: Project) -> None:
        project.write(
            ".claude/commands/x.y.md", "---\ndescription: tries\n---\nAll: $ARGUMENTS; 1st: $0\n"
        )

    def test_of_the_project_is_expanded(self, start: Start) -> None:
        client = start(says("Done."))
        client.run("/x.y one 'two three'")
        assert "All: one 'two three'; 1st: one" in client.model.requests[0].said

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

    def test_that_the_hook_blocks_never_reaches_the_model(
        self, start: Start, recorder: Recorder
    ) -> None:
        recorder.answer("UserPromptExpansion", block("No such playbook."))
        client = start(says("Done."))
        done = client.run("/x.y one")
        assert client.model.requests == []
        assert (done.code, done.result["is_error"]) == (0, False)
        assert "No such playbook." in done.text

    def test_that_is_unknown_goes_to_the_model_as_text(
        self, start: Start, recorder: Recorder
    ) -> None:
        client = start(says("What is that?"))
        assert client.run("/x.z one").code == 0
        assert recorder.of("UserPromptExpansion") == []
        assert client.model.requests[0].said == "/x.z one"


class TestASkill:
    @pytest.mark.parametrize("name", ["closed", "unknown"])
    def test_that_is_closed_or_unknown_fires_no_hook(
        self, start: Start, recorder: Recorder, project: Project, name: str
    ) -> None:
        project.write(
            ".claude/commands/closed.md", "---\ndisable-model-invocation: true\n---\nNo.\n"
        )
        start(calls("Skill", skill=name)).run("go")
        assert not {"PreToolUse", POST, FAILED} & set(recorder.names)

    def test_whose_shell_line_fails_is_a_failure(
        self, start: Start, recorder: Recorder, project: Project
    ) -> None:
        project.write(".claude/commands/bad.md", "Look: !`false`\n")
        start(calls("Skill", skill="bad")).run("go")
        (seen,) = recorder.of(FAILED, tool="Skill")
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
    def test_in_the_foreground_returns_as_the_result_of_its_call(
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

    def test_leaves_a_receipt_for_the_command_that_it_ran(
        self, start: Start, recorder: Recorder
    ) -> None:
        client = start(dispatches(run_in_background=False))
        client.run("go")
        (receipt,) = recorder.of(POST, tool="Skill")
        (end,) = recorder.of(POST, tool="Agent")
        assert receipt["tool_input"] == PLAN
        assert receipt["tool_response"] == {"success": True, "commandName": "speckit.plan"}
        assert receipt["agent_id"] == end["tool_response"]["agentId"]
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

    def test_is_kept_in_the_foreground_by_the_environment(
        self, start: Start, recorder: Recorder
    ) -> None:
        client = start(dispatches())
        client.env["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] = "1"
        assert client.run("go").text == "Returned."

    def test_is_refused_or_rewritten_by_the_hook(self, start: Start, recorder: Recorder) -> None:
        ours = {"description": "s1", "prompt": "Our prompt.", "subagent_type": "general-purpose"}
        recorder.answer("PreToolUse", deny("That step is not due."), tool="Agent", times=1)
        recorder.answer("PreToolUse", allow(updatedInput=ours | {"model": "haiku"}), tool="Agent")

        def reply(request: Request) -> Reply:
            if request.called("Agent") == 2 or request.agent:
                return [text(request.prompt)]
            return [call("Agent", description="x", prompt="My own.", isolation="worktree")]

        client = start(reply)
        client.run("go")
        refused = client.model.main[1].results[0]
        assert (refused.text, refused.is_error) == (
            "PreToolUse:Agent hook error: That step is not due.",
            True,
        )
        (subagent,) = client.model.subagents
        assert subagent.prompt == "Our prompt."
        assert "haiku" in subagent.model
        (launch,) = recorder.of(POST, tool="Agent")
        assert "isolation" not in launch["tool_input"]

    def test_without_a_prompt_is_refused_before_any_hook(
        self, start: Start, recorder: Recorder
    ) -> None:
        start(calls("Agent", description="x")).run("go")
        assert recorder.of("PreToolUse") == []

    def test_that_waits_for_work_of_its_own_says_so_and_ends_again(
        self, start: Start, recorder: Recorder, project: Project
    ) -> None:
        def reply(request: Request) -> Reply:
            if request.agent and not request.calls:
                return [call("Bash", run_in_background=True, **WAIT)]
            if request.agent and request.results:
                recorder.wait_for("Stop")
            if request.main and not request.calls:
                return [call("Agent", **RUN_IT)]
            if request.main and request.notifications and not (project.root / "go-on").exists():
                project.write("go-on", "")
                recorder.wait_for("SubagentStop", count=2)
            return [text("ok")]

        start(reply).run("go", "--allowedTools", "Bash")
        first, second = recorder.of("UserPromptSubmit")[1:]
        assert "background work of its own still running" in first["prompt"]
        assert "background work of its own still running" not in second["prompt"]
        assert {"<status>completed" in seen["prompt"] for seen in (first, second)} == {True}
        assert len(recorder.of("SubagentStop")) == 2


class TestAHookThatBreaks:
    @pytest.mark.parametrize(("code", "runs"), [(1, True), (2, False)])
    def test_lets_the_tool_run_unless_its_code_is_two(
        self, start: Start, recorder: Recorder, code: int, runs: bool
    ) -> None:
        recorder.answer("PreToolUse", exit=code, err="broken")
        client = start(calls("Read", file_path="README.md"))
        assert ("# A project" in client.run("read").text) is runs

    @pytest.mark.parametrize(
        ("command", "runs"), [("exit 1", False), ("/nowhere", False), ("echo '{bad'", True)]
    )
    def test_closes_where_it_was_installed_to_but_for_bad_output(
        self, start: Start, project: Project, command: str, runs: bool
    ) -> None:
        hook = {"type": "command", "command": command, "onFailure": "block"}
        settings = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}}
        project.write(".claude/settings.json", json.dumps(settings))
        client = start(calls("Read", file_path="README.md"))
        assert ("# A project" in client.run("read").text) is runs


class TestAConversation:
    @pytest.mark.parametrize(
        ("how", "source"), [(["--resume"], "resume"), (["--fork-session", "--resume"], "fork")]
    )
    def test_resumed_tells_the_hook_how(
        self, start: Start, recorder: Recorder, how: list[str], source: str
    ) -> None:
        recorder.answer(
            "SessionStart",
            specific("SessionStart", additionalContext="Bound."),
            saying=f'"source": "{source}"',
        )
        client = start(says("ok"))
        first = client.run("one")
        second = client.run("two", *how, first.session)
        assert [seen["source"] for seen in recorder.of("SessionStart")] == ["startup", source]
        assert (first.session == second.session) is (source == "resume")
        assert "Bound." in client.model.requests[-1].context

    def test_without_a_terminal_has_no_way_to_ask_a_question(
        self, start: Start, recorder: Recorder
    ) -> None:
        client = start(calls("AskUserQuestion", questions=[QUESTION]))
        assert "No such tool available" in client.run("go").text
        assert recorder.of("PreToolUse") == []


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

    def test_launches_subagents_in_the_background_and_prompts_at_their_end(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        terminal = open_terminal(start(dispatches(until=lambda: recorder.wait_for("Stop"))))
        terminal.say("go")
        terminal.wait_for("Heard: planned")
        (launch,) = recorder.of(POST, tool="Agent")
        assert launch["tool_response"]["isAsync"] is True
        (receipt,) = recorder.of(POST, tool="Skill")
        assert receipt["agent_id"] == launch["tool_response"]["agentId"]
        notified = recorder.of("UserPromptSubmit")[-1]["prompt"]
        assert f"<task-id>{receipt['agent_id']}</task-id>" in notified

    def test_calls_for_a_permission_with_a_hook(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        client = start(calls("Write", file_path="new.txt", content="x"))
        terminal = open_terminal(client)
        terminal.say("write")
        recorder.wait_for("PermissionRequest", saying="Write")
        assert not (client.root / "new.txt").exists()
        terminal.choose("Yes")
        recorder.wait_for("Stop")
        assert (client.root / "new.txt").read_text() == "x"

    def test_rings_when_a_hook_asks_for_it(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        recorder.answer(POST, {"terminalSequence": "\a"})
        terminal = open_terminal(start(calls("Read", file_path="README.md")))
        terminal.ready()
        assert not terminal.rang
        terminal.say("read")
        terminal.wait_for_bell()

    def test_is_interrupted_without_any_hook(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        client = start(
            lambda request: [text("Thinking."), Pause(0 if request.number > 1 else None)]
        )
        terminal = open_terminal(client)
        terminal.say("hello")
        terminal.wait_for("Thinking")
        terminal.interrupt()
        assert _hooks(recorder) == {"SessionStart", "UserPromptSubmit"}
        terminal.say("and now")
        recorder.wait_for("Stop")
        assert client.model.requests[-1].mentions("[Request interrupted by user]")

    def test_compacts_and_clears_and_tells_the_hook(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        for source in ("compact", "clear"):
            added = specific("SessionStart", additionalContext=f"Bound by {source}.")
            recorder.answer("SessionStart", added, saying=f'"source": "{source}"')

        def reply(request: Request) -> Reply:
            return [text("<summary>All so far.</summary>" if request.compaction else "Good day.")]

        client = start(reply)
        terminal = open_terminal(client)
        terminal.say("hello")
        recorder.wait_for("Stop")
        terminal.say("/compact")
        recorder.wait_for("PostCompact")
        terminal.say("go on")
        recorder.wait_for("Stop", count=2)
        assert client.model.requests[-1].mentions("Bound by compact.")
        assert not client.model.requests[-1].mentions("Bound by clear.")
        terminal.say("/clear")
        recorder.wait_for("SessionStart", saying='"clear"')
        terminal.say("afresh")
        recorder.wait_for("Stop", count=3)
        assert client.model.requests[-1].mentions("Bound by clear.")
        sources = [seen["source"] for seen in recorder.of("SessionStart")]
        assert sources == ["startup", "compact", "clear"]
        before, after = (recorder.of("Stop")[i]["session_id"] for i in (0, -1))
        assert before != after

    @pytest.mark.parametrize("blocked", [True, False])
    def test_takes_new_settings_unless_the_hook_blocks_them(
        self,
        start: Start,
        open_terminal: Open,
        recorder: Recorder,
        project: Project,
        tmp_path: Path,
        blocked: bool,
    ) -> None:
        if blocked:
            recorder.answer("ConfigChange", block("These hooks stay."))
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
            if blocked or ran.exists():
                break
        assert ran.exists() is not blocked


class TestAQuestion:
    """The hook says `ask` and puts the question that the person shall see."""

    @pytest.fixture(autouse=True)
    def gate(self, recorder: Recorder) -> None:
        reply = ask("gate", updatedInput={"questions": [QUESTION]})
        recorder.answer("PreToolUse", reply, tool="AskUserQuestion")

    def test_is_answered_by_keys(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        terminal = open_terminal(start(calls("AskUserQuestion", questions=[OTHER_QUESTION])))
        terminal.say("go")
        terminal.answer("Really go on?", "abort")
        recorder.wait_for("Stop")
        (seen,) = recorder.of(POST, tool="AskUserQuestion")
        assert seen["tool_response"]["answers"] == {"Really go on?": "abort"}
        assert [asked["question"] for asked in seen["tool_response"]["questions"]] == [
            "Really go on?"
        ]

    def test_is_answered_in_own_words(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        terminal = open_terminal(start(calls("AskUserQuestion", questions=[OTHER_QUESTION])))
        terminal.say("go")
        terminal.answer_freely("Really go on?", "mend the test first")
        recorder.wait_for("Stop")
        (seen,) = recorder.of(POST, tool="AskUserQuestion")
        assert seen["tool_response"]["answers"] == {"Really go on?": "mend the test first"}

    def test_is_left_by_escape_without_a_hook(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        client = start(calls("AskUserQuestion", questions=[OTHER_QUESTION]))
        terminal = open_terminal(client)
        terminal.say("go")
        recorder.wait_for("PermissionRequest")
        terminal.wait_for("1. approve")
        terminal.interrupt()
        asked = {"SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest"}
        assert _hooks(recorder) == asked
        terminal.say("and now")
        recorder.wait_for("Stop")
        assert client.model.requests[-1].results[0].is_error

    def test_is_talked_about_as_an_error_of_the_tool(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        client = start(calls("AskUserQuestion", questions=[OTHER_QUESTION]))
        terminal = open_terminal(client)
        terminal.say("go")
        terminal.wait_for("1. approve")
        terminal.choose("Chat about this")
        recorder.wait_for("Stop")
        assert recorder.of(POST) == []
        assert client.model.requests[-1].results[0].is_error

    def test_is_not_shown_when_the_hook_allows_it(
        self, start: Start, open_terminal: Open, recorder: Recorder
    ) -> None:
        recorder.forget()
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


def _hooks(recorder: Recorder) -> set[str]:
    """The events so far, but for the one that says for how long a person has done nothing."""
    return set(recorder.names) - {"Notification"}


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
