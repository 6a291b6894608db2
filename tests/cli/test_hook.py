"""`playbook hook` with valid and invalid payloads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claude import playbooks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import directive_lines, stored_sessions
from support.bound_session import Conversation
from support.hook_calls import HANDED_IN
from support.scratch_project import Project
from support.stored_sessions import Scene

from playbook_supervisor.cli import hook_handler
from playbook_supervisor.cli.directive_output import lines_at_stop
from playbook_supervisor.drivers.claude_code.context import directive_details
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.sessions.files.principal import Principal

pytestmark = pytest.mark.measured

EVENTS = (
    "ConfigChange",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "PreToolUse",
    "SessionEnd",
    "SessionStart",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "UserPromptExpansion",
    "UserPromptSubmit",
)
TOOLS = ("Agent", "AskUserQuestion", "Bash", "Edit", "Read", "SendMessage", "Skill", "Task")
KEYS = ("prompt", "command", "file_path", "skill", "args", "success", "status", "agentId")
MORE_KEYS = ("content", "answers", "notebook_path", "path", "resolvedModel", "run_in_background")
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=30)
    | st.sampled_from(("", "qa-plan#1", "\ud800", "\0", "~", "/" * 5_000, "completed", "continue"))
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from((*KEYS, *MORE_KEYS)), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = (
    "agent_id",
    "background_tasks",
    "command_args",
    "cwd",
    "error",
    "file_path",
    "is_interrupt",
    "last_assistant_message",
    "prompt",
    "session_crons",
    "source",
    "tool_response",
    "tool_use_id",
    "transcript_path",
)
PAYLOADS = st.builds(
    lambda event, tool, given, fields: {
        "hook_event_name": event,
        "tool_name": tool,
        "tool_input": given,
        **fields,
    },
    st.sampled_from(EVENTS) | JSON,
    st.sampled_from(TOOLS) | JSON,
    JSON,
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5),
)


@pytest.fixture
def conversation(project: Project) -> Iterator[Conversation]:
    with Conversation(project) as conversation:
        conversation.types("run", "auto-validate 013")
        yield conversation


class TestAnyPayload:
    """A failing hook would allow the call, and exit code 2 would block the client."""

    @settings(
        max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
    )
    @given(payload=PAYLOADS | JSON)
    def test_is_answered(
        self,
        payload: Any,
        project: Project,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        around = {"CLAUDE_PROJECT_DIR": str(project.root), "CLAUDE_CODE_ENTRYPOINT": "cli"}
        around |= {"CLAUDE_PID": str(os.getppid()), "CLAUDECODE": "1"}
        for name, value in around.items():
            monkeypatch.setenv(name, value)
        begin = {"hook_event_name": "UserPromptExpansion", "command_name": "playbook.run"}
        if not (project.root / ".git/playbook/bound").exists():
            assert (
                hook_handler.handle(
                    begin | {"command_args": "auto-validate 013", "session_id": "c"}
                )
                == 0
            )
        if isinstance(payload, dict) and "session_id" not in payload:
            payload = {**payload, "session_id": "c"}
        capsys.readouterr()
        code = 0 if hook_handler.answer_fast(payload) else hook_handler.handle(payload)
        assert code in (0, 1)
        said = capsys.readouterr().out
        assert not said or isinstance(json.loads(said), dict)

    @pytest.mark.parametrize("text", ["", "[]", "[" * 100_000])
    def test_that_is_not_an_object_exits_with_1(self, project: Project, text: str) -> None:
        said = project.playbook("hook", input=text.encode("utf-8", "replace").decode())
        assert (said.code, said.out) == (1, "")
        assert "stdin is not the JSON object of a hook" in said.err

    def test_of_ten_megabytes_is_answered(self, conversation: Conversation) -> None:
        large = "x" * 10_000_000
        given = {"file_path": "large.txt", "content": large}
        assert (
            conversation.hook("PreToolUse", tool_name="Write", agent_id="a", tool_input=given)
            is None
        )
        denied = conversation.hook("PreToolUse", tool_name="Write", tool_input=given)
        assert denied["hookSpecificOutput"]["permissionDecision"] == "deny"
        assert conversation.hook("SubagentStop", agent_id="a", last_assistant_message=large) is None

    def test_outside_a_repository_exits_with_1(self, project: Project) -> None:
        payload = {"hook_event_name": "Stop", "cwd": str(project.root.parent)}
        assert project.playbook("hook", input=json.dumps(payload)).code == 1


class TestWhatAWorkerDoes:
    """The fast path decides by the same rules without opening the session."""

    def asked(self, conversation: Conversation, tool: str, **given: str) -> str:
        reply = conversation.hook(
            "PreToolUse", agent_id="a1", tool_name=tool, tool_input=given, tool_use_id="t"
        )
        return str(reply and reply["hookSpecificOutput"]["permissionDecision"])

    def test_is_not_supervised(self, conversation: Conversation) -> None:
        assert self.asked(conversation, "Write", file_path="a.py", content="1") == "None"
        assert self.asked(conversation, "Bash", command="make test") == "None"
        assert self.asked(conversation, "Read", file_path="\0") == "None"

    def test_does_not_touch_the_journal(self, conversation: Conversation) -> None:
        project = conversation.project
        journal = project.session / "journal.yaml"
        (project.root / "link").symlink_to(project.root / ".playbooks/sessions")
        for path in (str(journal), f"link/{project.session.name}/journal.yaml"):
            assert self.asked(conversation, "Edit", file_path=path) == "deny"
        assert self.asked(conversation, "Bash", command=f"rm {journal}") == "deny"

    def test_is_evaluated_fully_if_the_binding_is_not_plain(
        self, conversation: Conversation
    ) -> None:
        """Another process or an open dialog needs the full evaluation."""
        asked: dict[str, Any] = {"tool_name": "SendMessage", "tool_input": {}, "agent_id": "a1"}
        stranger = conversation.hook("PreToolUse", session_id="another", **asked)
        assert stranger is None
        conversation.hook("PermissionRequest", tool_name="Write", agent_id="a1")
        assert "for Write" in conversation.project.playbook("status").out
        denied = conversation.hook("PreToolUse", **asked)
        assert denied["hookSpecificOutput"]["permissionDecision"] == "deny"
        assert "for Write" not in conversation.project.playbook("status").out


def context(said: Any) -> str:
    """The text for the model."""
    return str(said["hookSpecificOutput"]["additionalContext"])


class TestWhatIsSaid:
    def test_prints_nothing_if_nothing_follows(self, conversation: Conversation) -> None:
        for event in ("SessionEnd", "SubagentStart"):
            assert conversation.hook(event, agent_id="a1") is None

    def test_distinguishes_due_from_running_attempts(self, project: Project) -> None:
        """After a compaction the model must neither wait nor launch attempts twice."""
        playbooks.shelve(project)
        with Conversation(project) as conversation:
            conversation.types("run", "group 013")
            told = conversation.hook("SessionStart", source="compact")
            assert "To run now: plan#1, tasks#1, qa-plan#1" in context(told)
            assert "running" not in context(told)
            assert '"outstanding"' not in context(told)
            for attempt in ("plan#1", "tasks#1", "qa-plan#1"):
                asked = {"prompt": attempt}
                conversation.hook("PreToolUse", tool_name="Agent", tool_input=asked)
                if attempt == "tasks#1":
                    told = conversation.hook("SessionStart", source="compact")
            assert "> Still running: plan#1, tasks#1\n> To run now: qa-plan#1" in context(told)
            directive = directive_lines.only(context(told))
            assert [step["id"] for step in directive["steps"]] == ["qa-plan#1"]
            waits = conversation.runs("next", "--json").json
            assert (waits["directive"], "command" in waits) == ("wait", False)
            assert waits["steps"] == ["plan#1", "tasks#1", "qa-plan#1"]
            said = conversation.types("resume")
            assert "> Still running: plan#1, tasks#1, qa-plan#1\nplaybook-directive[" in context(
                said
            )

    def test_shows_the_user_what_was_settled_between_hooks(self, project: Project) -> None:
        """Slow checks are left to `playbook next --wait`, which the client folds."""
        project.write(".playbooks/playbooks/handed-in.yaml", HANDED_IN)
        project.gh("open")
        with Conversation(project) as conversation:
            conversation.types("run", "handed-in")
            called: dict[str, Any] = {"tool_name": "Agent", "tool_use_id": "use"}
            conversation.hook("PreToolUse", **called, tool_input={"prompt": "pr#1"})
            ran: dict[str, Any] = {
                "tool_input": {"skill": "feature.pr"},
                "tool_response": {"success": True},
            }
            conversation.hook("PostToolUse", agent_id="a1", tool_name="Skill", **ran)
            back = {"status": "completed", "agentId": "a1"}
            told = conversation.hook("PostToolUse", **called, tool_response=back)
            assert "systemMessage" not in told
            conversation.runs("next", "--wait")
            shown = conversation.hook("Stop")["systemMessage"].splitlines()
            assert shown[0].startswith("pr ✓ ")
            assert "pull request #7 is open" in shown[0]
            assert shown[1] == "handed-in: completed (1/1 step)"

    def test_blocks_a_command_that_fails(self, project: Project) -> None:
        """No model is involved; the user reads what, where and how to fix it."""
        with Conversation(project) as conversation:
            said = conversation.types("run", "nonsense 013")
            lacking = conversation.types("run", "auto-validate")
            conversation.types("run", "auto-validate 013")
            occupied = conversation.types("run", "auto-feature 013")
        assert said["decision"] == "block"
        assert "nonsense" in said["reason"]
        assert "\ndo: " in said["reason"]
        assert "For example: /playbook.run auto-validate 013" in lacking["reason"]
        goes_on = f"`/playbook.resume {project.session.name}`"
        assert f"Continue with {goes_on}, end it with `/playbook.abort`" in occupied["reason"]

    def test_fails_closed_if_the_binding_is_unreadable(self, conversation: Conversation) -> None:
        (file,) = (conversation.project.root / ".git/playbook").glob("*/claude.json")
        file.write_text("{")
        payload = {"hook_event_name": "PreToolUse", "session_id": conversation.client}
        payload |= {"tool_name": "Write", "agent_id": "a1"}
        said = conversation.hears(json.dumps(payload | {"tool_input": {"file_path": "x"}}))
        denied = said.code == 0 and '"deny"' in said.out
        assert denied or said.code == 1  # which the shell line turns into 2


def test_a_turn_that_would_end_is_told_in_words_what_is_due(tmp_path: Path) -> None:
    """People see all of it, so it holds no JSON."""
    scene = Scene(tmp_path)
    tree = scene.create("a", stored_sessions.step("b", autonomy="gate_always"))

    def told(given: frozenset[str] | None = None) -> list[str]:
        snapshot = tree.advance()
        return lines_at_stop(snapshot, directive_details(tree, snapshot, given))

    assert told() == ["Expected now: Agent(description='a#1', prompt='a#1')."]
    assert told(frozenset({"a#1"})) == ["Wait for the agents."]
    tree.report("a#1", Outcome())
    assert told() == ["The gate b#1?1 is open: ask its question with AskUserQuestion."]
    tree.abort("enough", Principal("Ada"))
    assert told() == ["The session is aborted."]
