"""The reply to each hook while a session is bound, tested without the client."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from claude import playbooks
from support.hook_calls import HANDED_IN, Hooked
from support.scratch_project import FEATURE, Project

from playbook_supervisor.drivers.claude_code import authorization, binding, fast_path, settings
from playbook_supervisor.drivers.claude_code.marker import MARK, SCRIPT
from playbook_supervisor.errors import StateError
from playbook_supervisor.project.install_record import fingerprint
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.process import ancestry

PLAN = f"specs/{FEATURE}/plan.md"
SETTINGS = settings.merged(b"{}")


@pytest.fixture
def unbound(project: Project) -> Hooked:
    playbooks.shelve(project)
    return Hooked(project)


@pytest.fixture
def hooked(unbound: Hooked) -> Hooked:
    """A conversation in which plan#1 is due, followed by a gate."""
    unbound.types("/playbook.run two 013")
    return unbound


@pytest.fixture
def gated(hooked: Hooked) -> Hooked:
    """The gate is open."""
    hooked.does("plan#1", "speckit.plan", PLAN)
    return hooked


def denied(reply: Any) -> str:
    """The reason of a refusal."""
    assert (reply.event, reply.decision) == ("PreToolUse", "deny")
    return str(reply.reason)


def blocked(reply: Any) -> str:
    assert reply.decision == "block"
    return str(reply.reason)


def by_a_worker(hooked: Hooked, tool: str, **given: Any) -> Any:
    return hooked("PreToolUse", tool_name=tool, tool_input=given, agent_id="agent of plan#1")


def settings_file(hooked: Hooked, data: bytes, name: str = settings.FILE) -> Any:
    """The client has seen that the file changed."""
    file = hooked.project.write(name, data.decode())
    return hooked("ConfigChange", source="project_settings", file_path=str(file))


class TestWhereNoSessionIsBound:
    @pytest.mark.parametrize("event", ["PreToolUse", "Stop", "SessionStart", "NotKnownYet", ""])
    def test_nothing_is_said(self, unbound: Hooked, event: str) -> None:
        assert unbound(event, tool_name="Write", tool_input={}) is None

    def test_other_commands_are_ignored(self, unbound: Hooked) -> None:
        assert unbound("UserPromptExpansion", command_name="speckit.plan") is None

    def test_the_folder_is_the_conversations_where_the_client_names_no_project(
        self, hooked: Hooked
    ) -> None:
        del hooked.environment["CLAUDE_PROJECT_DIR"]
        assert "Expected now" in denied(hooked.calls("Write", file_path="x"))


class TestAnotherConversation:
    def other(self, hooked: Hooked) -> Hooked:
        """In the same worktree, with another process."""
        other = Hooked(hooked.project, "another")
        other.environment["CLAUDE_PID"] = "1"
        return other

    @pytest.mark.parametrize("event", ["PreToolUse", "Stop", "UserPromptSubmit", "ConfigChange"])
    def test_is_untouched(self, hooked: Hooked, event: str) -> None:
        assert self.other(hooked)(event, tool_name="Write", tool_input={}) is None

    def test_is_told_once_that_a_session_waits(self, hooked: Hooked) -> None:
        reply = self.other(hooked)("SessionStart", source="startup")
        assert reply.note.endswith("waits here: /playbook.resume continues it.")
        assert reply.shown == reply.note, "the person may have lost the session with its terminal"

    @pytest.mark.parametrize("source", ["clear", "resume", "compact"])
    def test_that_follows_in_another_process_does_not_own_the_session(
        self, hooked: Hooked, source: str
    ) -> None:
        hooked.environment["CLAUDE_PID"] = "1"
        assert hooked("SessionStart", source=source).snapshot is None
        assert hooked.bound.pid == os.getppid()

    def test_of_the_same_id_in_another_process_is_ignored(self, hooked: Hooked) -> None:
        """A worker's `claude -p --resume <the same id>`."""
        hooked.environment["CLAUDE_PID"] = "1"
        assert hooked.says("continue") is None
        assert hooked.calls("Write", file_path="x") is None

    def test_is_untouched_even_if_the_binding_is_lost(self, hooked: Hooked) -> None:
        (hooked.private / "claude.json").unlink()
        assert self.other(hooked).calls("Write", file_path="x") is None

    def test_a_fork_does_not_own_the_session(self, hooked: Hooked) -> None:
        fork = Hooked(hooked.project, "fork")
        assert "waits here" in fork("SessionStart", source="fork").note
        assert hooked.bound.client == hooked.client

    @pytest.mark.parametrize("source", ["clear", "resume", "compact"])
    def test_that_follows_in_the_same_process_continues(self, hooked: Hooked, source: str) -> None:
        follower = Hooked(hooked.project, "follower")
        assert follower("SessionStart", source=source).snapshot is not None
        assert hooked.bound.client == "follower"
        assert "Expected now" in denied(follower.calls("Write", file_path="x"))

    @pytest.mark.parametrize(
        ("source", "shown"), [("clear", True), ("resume", True), ("compact", False)]
    )
    def test_that_follows_at_a_gate_shows_it_to_the_person(
        self, gated: Hooked, source: str, shown: bool
    ) -> None:
        """The question has left the screen, except after a compaction."""
        reply = Hooked(gated.project, "follower")("SessionStart", source=source)
        assert ("Type your answer here." in reply.shown) is shown


class TestTheCaller:
    def test_may_not_be_an_agents_shell(self, hooked: Hooked) -> None:
        hooked.environment["AI_AGENT"] = "claude-code_2-1-329_agent"
        with pytest.raises(StateError, match="an agent's shell runs this"):
            hooked.says("continue")
        with pytest.raises(StateError, match="an agent's shell runs this"):
            hooked.types("/playbook.abort")

    def test_may_not_be_a_process_that_the_client_has_not_started(self, hooked: Hooked) -> None:
        """It has left the client's process tree and claims to be the client's."""
        bound = hooked.bound
        bound.pid = os.getpid()
        binding.bind(checkout.find(hooked.project.root), hooked.private, bound)
        hooked.environment["CLAUDE_PID"] = str(os.getpid())
        with pytest.raises(StateError, match="has not started this"):
            hooked.says("continue")

    def test_may_not_be_a_different_shell(
        self, hooked: Hooked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The installed shell lines run between the client and the hook."""
        shell, client, *_ = ancestry.ancestors()
        bound = hooked.bound
        bound.pid = client.pid
        binding.bind(checkout.find(hooked.project.root), hooked.private, bound)
        hooked.environment["CLAUDE_PID"] = str(client.pid)
        with pytest.raises(StateError, match="a different shell runs this"):
            hooked.says("continue")
        monkeypatch.setattr(authorization, "_PROC", tmp_path / "proc")
        hooked.says("the shell is unknown: not every machine has such a folder")
        line = tmp_path / "proc" / str(shell.pid) / "cmdline"
        line.parent.mkdir(parents=True)
        line.write_bytes(f"/bin/sh\0-c\0{MARK} playbook hook\0".encode())
        hooked.says("continue")
        line.write_bytes(b"/bin/sh\0-c\0playbook hook\0")
        with pytest.raises(StateError, match="a different shell runs this"):
            hooked.says("continue")

    @pytest.mark.parametrize(
        ("old", "new"),
        [('"supervised"', '"human"'), ('"receipts": {', '"receipts": {"a": [],'), ("{", "")],
    )
    def test_a_lost_or_overwritten_binding_blocks_everything(
        self, hooked: Hooked, old: str, new: str
    ) -> None:
        file = hooked.private / "claude.json"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
        reason = denied(hooked.calls("Read", file_path="x"))
        assert "its binding is gone" in reason
        assert "/playbook.resume binds it again" in reason
        assert blocked(settings_file(hooked, b"{}"))
        stopped = hooked.stops()
        assert (stopped.decision, "/playbook.resume binds it again" in stopped.shown) == ("", True)
        hooked.types("/playbook.resume")
        assert "Expected now" in denied(hooked.calls("Write", file_path="x"))


class TestATool:
    def test_of_the_supervising_model_is_refused_with_what_is_due(self, hooked: Hooked) -> None:
        reply = hooked.calls("Write", file_path="x")
        assert "Agent(description='plan#1'" in denied(reply)
        assert reply.snapshot is not None
        assert hooked.bound.refusals == 1

    def test_that_only_reads_passes(self, hooked: Hooked) -> None:
        assert hooked.calls("Read", file_path="README.md") is None

    @pytest.mark.parametrize(
        "file",
        [
            ".playbooks/sessions/x/journal.yaml",
            ".playbooks/playbooks/../sessions/x",
            "way/sessions/x",
            ".git/playbook/bound",
            "~/project/.playbooks/sessions/x",
        ],
    )
    def test_of_a_worker_leaves_the_journal_alone(self, hooked: Hooked, file: str) -> None:
        root = hooked.project.root
        (root / "way").symlink_to(".playbooks")
        (hooked.project.home / "project").symlink_to(root)
        reply = by_a_worker(hooked, "Write", file_path=file)
        assert "Only playbook writes the journal" in denied(reply)
        assert hooked.bound.refusals == 0
        assert by_a_worker(hooked, "Write", file_path="src/main.py") is None

    @pytest.mark.parametrize("file", ["\0", "~nobody-of-that-name/x", "a" * 5000])
    def test_may_name_an_impossible_file(self, hooked: Hooked, file: str) -> None:
        assert by_a_worker(hooked, "Write", file_path=file) is None

    def test_without_the_journals_folder_is_looked_at_from_the_root(self, hooked: Hooked) -> None:
        reply = hooked(
            "PreToolUse",
            cwd="",
            agent_id="a",
            tool_name="Write",
            tool_input={"file_path": ".playbooks/sessions/x"},
        )
        assert denied(reply)

    def test_that_launches_a_step_resets_the_count(self, hooked: Hooked) -> None:
        hooked.calls("Write", file_path="x")
        hooked.launches("plan#1")
        assert hooked.bound.refusals == 0

    def test_shows_the_gate_and_nothing_of_the_models(self, gated: Hooked) -> None:
        reply = gated.calls("AskUserQuestion", questions=[{"question": "May I?"}])
        assert reply.decision == "ask"
        assert "tasks" in reply.given["questions"][0]["question"]
        means = [each["description"] for each in reply.given["questions"][0]["options"]]
        assert means == ["run the step now", "skip the step", "end the session"]


class TestALineOfShellInACommand:
    """It is judged like a call of the shell, unless a person typed the command."""

    @staticmethod
    def comes(hooked: Hooked, command: str, **more: str) -> Any:
        given = {"tool_name": "Bash", "tool_input": {"command": command}, **more}
        return hooked("PreSkillShellCommand", **given)

    def test_of_the_supervising_model_is_refused(self, hooked: Hooked) -> None:
        reply = self.comes(hooked, "make it", invoked_by="claude")
        assert (reply.event, reply.decision) == ("PreSkillShellCommand", "deny")
        assert self.comes(hooked, "playbook status", invoked_by="claude") is None

    def test_that_a_person_typed_passes_in_any_turn(self, hooked: Hooked) -> None:
        assert self.comes(hooked, "git status", invoked_by="user") is None
        journal = ".playbooks/sessions/x/journal.yaml"
        touched = self.comes(hooked, f"echo > {journal}", invoked_by="user")
        assert "Only playbook writes the journal" in touched.reason

    def test_of_a_worker_leaves_the_journal_alone(self, hooked: Hooked) -> None:
        told = {"hook_event_name": "PreSkillShellCommand", "agent_id": "a", "tool_name": "Bash"}
        told |= {"session_id": hooked.client, "cwd": str(hooked.project.root)}
        for command, verdict in {
            "make it": "pass",
            "rm .playbooks/sessions/x/journal.yaml": "deny",
        }.items():
            payload = {**told, "tool_input": {"command": command}}
            ruling = fast_path.at_once(payload, hooked.environment)
            assert ruling is not None
            assert ruling.verdict == verdict

    def test_of_a_dismissed_agent_is_refused(self, hooked: Hooked) -> None:
        hooked.launches("plan#1")
        hooked.presses_escape()
        hooked.says("stop it")
        reply = self.comes(hooked, "make it", agent_id="agent of plan#1")
        assert (reply.event, reply.decision) == ("PreSkillShellCommand", "deny")


class TestACommandOfAWorker:
    def test_is_allowed_where_it_is_the_steps_own(self, hooked: Hooked) -> None:
        hooked.launches("plan#1")
        assert by_a_worker(hooked, "Skill", skill="speckit.plan").decision == "allow"
        assert by_a_worker(hooked, "Skill", skill="speckit.tasks") is None

    @pytest.mark.parametrize("response", [{"success": False}, {"success": "true"}, {}, None])
    def test_that_did_not_succeed_is_no_receipt(self, hooked: Hooked, response: object) -> None:
        hooked.launches("plan#1")
        hooked(
            "PostToolUse",
            agent_id="agent of plan#1",
            tool_name="Skill",
            tool_input={"skill": "speckit.plan"},
            tool_response=response,
        )
        hooked.project.write(PLAN, "x")
        hooked.ended("plan#1")
        assert hooked.project.journal()[0]["error_code"] == "PB-AGENT-NO-RECEIPT"

    def test_of_the_main_thread_is_no_receipt(self, hooked: Hooked) -> None:
        hooked.launches("plan#1")
        skill = {"tool_name": "Skill", "tool_input": {"skill": "speckit.plan"}}
        assert hooked("PostToolUse", **skill, tool_response={"success": True}) is None
        assert hooked.bound.receipts == {}


class TestAnAgent:
    def test_of_a_worker_is_ignored(self, hooked: Hooked) -> None:
        hooked.launches("plan#1")
        fields = {"tool_name": "Agent", "tool_use_id": "use of plan#1", "agent_id": "inner"}
        assert hooked("PostToolUseFailure", **fields, error="max turns") is None
        assert hooked("PostToolUseFailure", tool_name="Write", error="no") is None
        assert hooked.steps == ["plan#1 in_progress"]

    def test_the_journal_is_copied_out_of_reach(self, gated: Hooked) -> None:
        kept = (gated.private / "journal.yaml").read_bytes()
        assert kept == (gated.project.session / "journal.yaml").read_bytes()


class TestStopping:
    def test_is_refused_while_a_step_is_due(self, hooked: Hooked) -> None:
        reply = hooked.stops()
        assert blocked(reply) == "The playbook continues."
        assert reply.snapshot is not None

    def test_is_allowed_after_six_times_and_marked(self, hooked: Hooked) -> None:
        replies = [hooked.stops() for _ in range(8)]
        assert [reply.decision for reply in replies if reply] == ["block"] * 6 + [""]
        assert hooked.bound.stalled
        assert replies[6] is not None
        assert "was told 6 times what is outstanding" in replies[6].ring
        assert replies[7] is None, "the person is called once"

    def test_is_allowed_while_all_agents_work(self, hooked: Hooked) -> None:
        hooked.launches("plan#1")
        assert hooked.stops("agent of plan#1") is None
        assert hooked.bound.blocks == 0

    def test_is_refused_while_a_check_is_due(self, hooked: Hooked) -> None:
        """A check that starts a program needs a waiting command to wake the model."""
        hooked.project.write(".playbooks/playbooks/handed-in.yaml", HANDED_IN)
        hooked.types("/playbook.abort")
        hooked.types("/playbook.run handed-in")
        hooked.does("pr#1", "feature.pr")
        shell = {"id": "b1", "type": "shell"}
        assert blocked(hooked("Stop", background_tasks=[shell]))

    def test_is_refused_where_only_something_else_runs(self, hooked: Hooked) -> None:
        """A server that a worker left running is not worth waiting for."""
        assert blocked(hooked.stops("npm run dev"))

    def test_is_allowed_at_a_gate_and_calls_the_person(self, gated: Hooked) -> None:
        reply = gated.stops()
        assert (reply.decision, bool(reply.ring)) == ("", True)
        assert reply.shown.endswith("1/2 steps done. Type your answer here.")

    def test_is_allowed_at_the_end_and_releases_the_session(self, gated: Hooked) -> None:
        gated.stops()
        gated.says("continue")
        gated.does("tasks#1", "speckit.tasks", f"specs/{FEATURE}/tasks.md")
        assert gated.stops().shown == "two: completed (2/2 steps)"
        assert not binding.bound(checkout.find(gated.project.root))

    def test_is_allowed_after_a_failed_step_and_says_how_to_resume(self, hooked: Hooked) -> None:
        hooked.does("plan#1", "speckit.plan")
        reply = hooked.stops()
        assert reply.shown == ("two: failed (0/2 steps); /playbook.resume --retry resumes it")

    def test_of_a_subagent_needs_no_reply(self, hooked: Hooked) -> None:
        assert hooked("SubagentStop", agent_id="a") is None
        assert hooked("NotKnownYet") is None


class TestAnErrorThatEndsATurn:
    """No Stop hook fires then, and the person may be away."""

    def failed(self, hooked: Hooked, **more: str) -> Any:
        said = {"error": "unknown", "last_assistant_message": "API Error: 400\nscripted"}
        return hooked("StopFailure", **said, **more)

    def test_stalls_the_session_and_calls_the_person(self, hooked: Hooked) -> None:
        reply = self.failed(hooked)
        assert "is stalled: an error ended Claude's turn (API Error: 400)" in reply.ring
        assert hooked.bound.stalled
        hooked.says("hello")
        assert hooked.bound.turn == "human"

    def test_stalls_nothing_where_an_agents_end_begins_another(self, hooked: Hooked) -> None:
        hooked.launches("plan#1")
        assert self.failed(hooked) is None
        assert self.failed(hooked, agent_id="agent of plan#1") is None
        assert not hooked.bound.stalled

    def test_calls_the_person_at_a_gate(self, gated: Hooked) -> None:
        assert self.failed(gated).ring.startswith("Run /speckit.tasks (step tasks) now")
        assert not gated.bound.stalled


class TestWithoutProgress:
    """Every busy loop is counted and ended, and the person is called."""

    def ended(self, reply: Any, why: str) -> None:
        assert "is stalled: " in reply.end
        assert why in reply.end
        assert reply.ring == reply.end

    def test_twenty_refused_calls_end_the_run(self, hooked: Hooked) -> None:
        replies = [hooked.calls("Write", file_path="x") for _ in range(20)]
        assert [bool(reply.end) for reply in replies if reply] == [False] * 19 + [True]
        self.ended(replies[-1], "20 calls were refused")
        assert hooked.bound.stalled
        hooked.says("hello")
        assert hooked.bound.turn == "human", "their turn is theirs: the model's has ended"

    def test_requests_of_any_kind_are_warned_and_then_ended(self, hooked: Hooked) -> None:
        assert hooked.asks(99) is None
        told = hooked.asks()
        assert "Your last 100 requests made no progress" in told.note
        assert told.snapshot is not None
        assert not hooked.bound.stalled
        self.ended(hooked.asks(20), "the model was asked 120 times")
        assert hooked.bound.stalled

    def test_requests_and_refusals_are_counted_independently(self, hooked: Hooked) -> None:
        """Reading, stopping and refused calls in turn: each count continues."""
        for _ in range(6):
            hooked.asks(10)
            hooked.calls("Write", file_path="x")
            assert blocked(hooked.stops())
        assert (hooked.bound.blocks, hooked.bound.refusals) == (6, 6)
        hooked.asks(39)
        self.ended(hooked.asks(21), "120 times")

    @pytest.mark.parametrize("what", ["a launch", "a prompt", "an end", "an answer", "a resume"])
    def test_progress_resets_the_count(self, hooked: Hooked, what: str) -> None:
        if what == "an answer":
            hooked.does("plan#1", "speckit.plan", PLAN)
        if what == "an end":
            hooked.launches("plan#1")
        hooked.asks(1 if what == "an end" else 99)
        match what:
            case "a launch":
                hooked.launches("plan#1")
            case "a prompt":
                hooked.stops()
                hooked.says("go on")
                hooked.stops()
            case "an end":
                hooked.ended("plan#1")
            case "an answer":
                hooked.stops()
                hooked.says("continue")
            case _:
                hooked.types("/playbook.resume")
        assert hooked.asks(50) is None

    def test_a_persons_turn_is_not_counted(self, hooked: Hooked) -> None:
        hooked.launches("plan#1")
        hooked.stops("agent of plan#1")
        hooked.says("look at all of it, please")
        assert hooked.asks(200) is None
        assert hooked.asks(1, agent="some agent of theirs") is None
        (hooked.private / "dialog").write_text("\nWrite")
        assert hooked.asks() is None

    def test_another_conversation_is_not_counted(self, hooked: Hooked) -> None:
        other = Hooked(hooked.project, "another")
        assert other.asks(130) is None

    def test_waiting_counts_once_a_minute_without_signs_of_an_agent(self, hooked: Hooked) -> None:
        """A model may look often while a step is running, but not for ever."""
        hooked.launches("plan#1")
        assert hooked.asks(300) is None
        requests = hooked.private / "requests"
        assert requests.stat().st_size == 1
        for minutes in range(2, 100):
            os.utime(requests, (0, 0))
            assert hooked.asks(3) is None
            assert requests.stat().st_size == minutes
        hooked.asks(1, agent="agent of plan#1")
        assert requests.stat().st_size == 0
        os.truncate(requests, 119)
        os.utime(requests, (0, 0))
        self.ended(hooked.asks(), "120 times")
        (hooked.private / "dialog").write_text("agent of plan#1\nWrite")
        hooked.asks(1, agent="agent of plan#1")
        assert requests.stat().st_size == 0

    def test_a_dismissed_agent_is_no_sign_of_life(self, hooked: Hooked) -> None:
        hooked.launches("plan#1")
        hooked.presses_escape()
        hooked.says("/playbook.status")
        hooked.asks(99)
        for agent in ("agent of plan#1", "some other agent"):
            hooked.asks(1, agent=agent)
        assert (hooked.private / "requests").stat().st_size == 99

    def test_nothing_is_counted_if_the_file_cannot_be_written(self, hooked: Hooked) -> None:
        (hooked.private / "requests").unlink(missing_ok=True)
        (hooked.private / "requests").mkdir()
        assert hooked.asks(3) is None


class TestAScheduledPrompt:
    def test_is_no_answer(self, gated: Hooked) -> None:
        crons = [{"id": "a", "prompt": "continue"}, "nonsense", {}]
        gated("Stop", background_tasks=[], session_crons=crons)
        assert gated.says("continue") is None
        assert gated.bound.turn == "supervised"
        assert gated.project.manifest()["gate"]["id"] == "tasks#1?1"

    def test_that_is_no_longer_scheduled_may_be_typed(self, gated: Hooked) -> None:
        gated("Stop", session_crons=[{"prompt": "continue"}])
        gated("Stop", session_crons=None)
        gated.says("continue")
        assert "gate" not in gated.project.manifest()


@pytest.fixture
def installed(unbound: Hooked) -> Hooked:
    """The same conversation where `playbook init` has installed hooks, before a session begins."""
    assert unbound.project.playbook("init", "--yes").code == 0
    return unbound


class TestTheScriptOfTheHooks:
    @pytest.mark.parametrize("text", ["", "exit 0\n", None])
    def test_stops_a_bound_session_if_it_is_changed(
        self, installed: Hooked, text: str | None
    ) -> None:
        installed.types("/playbook.run two 013")
        script = installed.project.read(SCRIPT)
        change(installed, text)
        assert SCRIPT in denied(installed.calls("Agent", description="plan#1", prompt="plan#1"))
        assert "playbook update" in installed("Stop", background_tasks=[]).shown
        assert "PB-STATE-TAMPERED" in installed.says("continue").note
        assert blocked(installed("ConfigChange", file_path="x"))
        installed.project.write(SCRIPT, script)
        assert installed.calls("Agent", description="plan#1", prompt="plan#1").decision == "allow"

    @pytest.mark.parametrize("text", ["", "exit 0\n", None])
    def test_begins_none_if_it_was_changed_before(
        self, installed: Hooked, text: str | None
    ) -> None:
        change(installed, text)
        with pytest.raises(StateError) as refused:
            installed.types("/playbook.run two 013")
        assert (refused.value.code, installed.project.sessions) == ("PB-STATE-TAMPERED", [])
        assert installed.project.playbook("update").code == 0
        assert installed.types("/playbook.run two 013").snapshot is not None

    def test_of_another_version_begins_one(self, installed: Hooked) -> None:
        """A colleague's newer program has written it, and the record says so."""
        project = installed.project
        record, script = project.read(".playbooks/install.yaml"), project.read(SCRIPT)
        newer = f"{script}# newer\n"
        known = record.replace(fingerprint(script.encode()), fingerprint(newer.encode()))
        project.write(".playbooks/install.yaml", known)
        project.write(SCRIPT, newer)
        assert installed.types("/playbook.run two 013").snapshot is not None

    def test_is_not_missed_where_the_entries_are_those_of_an_earlier_version(
        self, unbound: Hooked
    ) -> None:
        """They hold the shell text themselves, until somebody runs `playbook update`."""
        old = {"type": "command", "command": f"{MARK} exit 0"}
        entries = {"hooks": {"Stop": [{"hooks": [old]}]}}
        unbound.project.write(settings.FILE, json.dumps(entries))
        assert unbound.types("/playbook.run two 013").snapshot is not None

    def test_may_not_be_edited_meanwhile(self, installed: Hooked) -> None:
        installed.types("/playbook.run two 013")
        file = str(installed.project.root / SCRIPT)
        assert "stays as it is" in denied(by_a_worker(installed, "Write", file_path=file))
        line = "echo exit >.claude/./hooks/playbook.sh"
        assert "stays as it is" in denied(by_a_worker(installed, "Bash", command=line))
        assert by_a_worker(installed, "Read", file_path=file) is None


class TestOurPlugin:
    """It brings the hooks; the project's settings have none."""

    @pytest.fixture
    def plugged(self, unbound: Hooked, tmp_path: Path) -> Hooked:
        script = tmp_path / "plugin/hooks/playbook.sh"
        script.parent.mkdir(parents=True)
        script.write_text("the script\n")
        unbound.environment["CLAUDE_PLUGIN_ROOT"] = str(tmp_path / "plugin")
        return unbound

    def test_begins_and_releases_a_session_by_its_own_spelling(self, plugged: Hooked) -> None:
        run = {"command_name": "playbook:run", "command_args": "two 013"}
        assert plugged("UserPromptExpansion", **run).snapshot is not None
        assert plugged.says("/playbook:status") is None
        assert plugged("UserPromptExpansion", command_name="playbook:pause") is not None
        assert plugged.calls("Write", file_path="x") is None

    def test_lets_the_projects_settings_change_but_not_switch_it_off(self, plugged: Hooked) -> None:
        plugged.types("/playbook.run two 013")
        assert settings_file(plugged, b"{}") is None
        off = b'{"enabledPlugins": {"playbook@any": false}}'
        assert "enabledPlugins" in blocked(settings_file(plugged, off))

    def test_stops_a_bound_session_if_its_script_is_changed(
        self, plugged: Hooked, tmp_path: Path
    ) -> None:
        plugged.types("/playbook.run two 013")
        assert plugged.calls("Write", file_path="x").decision == "deny"
        (tmp_path / "plugin/hooks/playbook.sh").write_text("exit 0\n")
        assert "was changed or removed" in denied(plugged.calls("Write", file_path="x"))


def change(installed: Hooked, text: str | None) -> None:
    """Give the script that text, or none."""
    if text is None:
        (installed.project.root / SCRIPT).unlink()
    else:
        installed.project.write(SCRIPT, text)


class TestSettings:
    def test_with_our_hooks_may_change(self, hooked: Hooked) -> None:
        assert settings_file(hooked, SETTINGS) is None
        more = json.dumps({**json.loads(SETTINGS), "model": "opus"}).encode()
        assert settings_file(hooked, more) is None

    def test_without_our_hooks_are_blocked(self, hooked: Hooked) -> None:
        reason = blocked(settings_file(hooked, b"{}"))
        assert "hooks.PreToolUse" in reason
        assert "/playbook.pause first" in reason

    def test_that_were_deleted_are_blocked(self, hooked: Hooked) -> None:
        file = hooked.project.root / settings.FILE
        assert blocked(hooked("ConfigChange", file_path=str(file)))

    def test_reached_by_another_path_are_the_same(self, hooked: Hooked) -> None:
        way = hooked.project.root.with_name("way")
        way.symlink_to(hooked.project.root)
        hooked.project.write(settings.FILE, "{}")
        assert blocked(hooked("ConfigChange", file_path=str(way / settings.FILE)))

    def test_that_cannot_be_read_are_blocked(self, hooked: Hooked) -> None:
        assert "PB-CHECK" in blocked(settings_file(hooked, b'{"hooks": '))

    def test_of_any_scope_that_disable_hooks_are_blocked(self, hooked: Hooked) -> None:
        off = b'{"disableAllHooks": true}'
        assert "disableAllHooks" in blocked(settings_file(hooked, off, settings.LOCAL_FILE))
        assert settings_file(hooked, b"{}", settings.LOCAL_FILE) is None


class TestAPermissionDialog:
    def test_calls_the_person_and_is_recorded(self, hooked: Hooked) -> None:
        reply = hooked("PermissionRequest", tool_name="Write", agent_id="agent of plan#1")
        assert reply.ring == "Claude asks for permission: Write"
        assert binding.dialog(hooked.private) == "Write"

    def test_of_a_gate_does_not_call_again(self, gated: Hooked) -> None:
        assert gated("PermissionRequest", tool_name="AskUserQuestion") is None
        assert binding.dialog(gated.private) == ""


class TestTrouble:
    """The session was tampered with and cannot continue: hooks fail closed."""

    @pytest.fixture(autouse=True)
    def tampered(self, hooked: Hooked) -> None:
        file = hooked.project.session / "journal.yaml"
        file.write_text(file.read_text().replace("in_progress", "done"))

    def test_refuses_every_call_of_the_model(self, hooked: Hooked) -> None:
        reason = denied(hooked.calls("Agent", description="plan#1", prompt="plan#1"))
        assert "PB-STATE-TAMPERED" in reason
        assert "playbook repair" in reason
        assert hooked.bound.stalled

    def test_lets_the_model_stop_and_calls_the_person(self, hooked: Hooked) -> None:
        reply = hooked.stops()
        assert reply.decision == ""
        assert "PB-STATE-TAMPERED" in reply.shown
        assert reply.ring.startswith("playbook: ")
        assert hooked.bound.stalled

    def test_is_reported_at_every_other_hook(self, hooked: Hooked) -> None:
        assert "PB-STATE-TAMPERED" in hooked("SessionStart", source="compact").note


def test_an_error_is_reported_when_the_turn_ends(gated: Hooked) -> None:
    """Otherwise the person would not learn why their answer had no effect."""
    pinned = gated.project.session / "config.yaml"
    written = pinned.read_bytes()
    pinned.write_text("commit_sessions: never\n")
    assert "[PB-STATE-TAMPERED]" in gated.stops().shown
    pinned.write_bytes(written)
    assert "PB-STATE" not in gated.stops().shown
