"""Which tool calls are allowed while a session is bound."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.drivers.claude_code.allowlist import (
    AGENTS,
    DISPATCHING,
    READING,
    ToolCall,
    ToolDecision,
    named_file,
    permitted,
    rule,
)

KEPT = ("/project/.playbooks/sessions", "/project/.git/playbook", "/bare/playbook")
WRITING = ("Write", "Edit", "MultiEdit", "NotebookEdit", "mcp__files__write_file")
SHELLS = ("Bash", "Monitor", "PowerShell")
OTHERS = ("TodoWrite", "TaskCreate", "TaskStop", "WebFetch", "Skill", "ExitPlanMode", "NotKnownYet")
EVERY_TOOL = sorted({*READING, *DISPATCHING, *AGENTS, *WRITING, *SHELLS, *OTHERS})
SIDES: dict[str, Any] = {
    "supervised": {"worker": False, "supervised": True},
    "human turn": {"worker": False, "supervised": False},
    "worker": {"worker": True, "supervised": True},
    "worker in a human turn": {"worker": True, "supervised": False},
}
FREE = [name for name in SIDES if name != "supervised"]


def ruled(tool: str, given: Mapping[str, Any] | None = None, **more: Any) -> ToolDecision:
    """The decision on a call of a supervised main thread, unless `more` says otherwise."""
    around: dict[str, Any] = {"worker": False, "supervised": True, "kept": KEPT} | more
    return rule(ToolCall(tool, given or {}, **around))


def command(text: str, **more: Any) -> str:
    return ruled("Bash", {"command": text}, **more).verdict


class TestTheSupervisingModel:
    def test_may_only_read(self) -> None:
        verdicts = {tool: ruled(tool).verdict for tool in EVERY_TOOL}
        assert verdicts == {tool: "pass" if tool in READING else "deny" for tool in EVERY_TOOL}

    @pytest.mark.parametrize("tool", sorted(AGENTS))
    def test_launches_what_is_due_by_its_id(self, tool: str) -> None:
        due = frozenset({"plan#1", "docs#1"})
        assert ruled(tool, {"prompt": "plan#1"}, due=due) == ToolDecision(
            "launch", attempt="plan#1"
        )
        assert ruled(tool, {"prompt": " docs#1\n"}, due=due) == ToolDecision(
            "launch", attempt="docs#1"
        )

    @pytest.mark.parametrize("prompt", ["plan#2", "plan#1 please", None, ["plan#1"]])
    def test_launches_nothing_else_and_learns_what_is_due(self, prompt: object) -> None:
        refused = ruled("Agent", {"prompt": prompt}, due=frozenset({"plan#1", "docs#1"}))
        assert refused.verdict == "deny"
        assert refused.reason.endswith(
            "Expected now: Agent(description='docs#1', prompt='docs#1')"
            " and Agent(description='plan#1', prompt='plan#1')."
        )

    def test_waits_for_running_steps(self) -> None:
        refused = ruled("Agent", {"prompt": "plan#1"}, at_work=frozenset({"plan#1"}))
        assert refused == ToolDecision("deny", "plan#1 is already running: wait for it.")

    def test_asks_at_a_gate_and_nowhere_else(self) -> None:
        assert ruled("AskUserQuestion", gate_open=True) == ToolDecision("ask")
        assert ruled("AskUserQuestion") == ToolDecision(
            "deny", "No gate is open: there is nothing to ask."
        )

    @pytest.mark.parametrize(
        "text",
        [
            "playbook next --wait",
            "playbook begin 'auto-feature' '013'",
            "playbook report plan#1 --error 'it broke'",
            "playbook probe plan_exists",
        ],
    )
    def test_runs_our_reading_commands(self, text: str) -> None:
        assert command(text) == "pass"

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "playbook",
            "playbook answer continue",
            "playbook resume",
            "playbook hook",
            "playbook nextish",
            "./playbook next",
            "PATH=. playbook next",
            "playbook next; ls",
            "playbook next | sh",
            "playbook next $(ls)",
            "playbook next $HOME",
            "playbook next \\\nls",
            "ls; playbook next",
        ],
    )
    def test_runs_nothing_else(self, text: str) -> None:
        assert command(text) == "deny"

    @given(st.text(st.characters(codec="utf-8")))
    def test_runs_no_second_command_with_any_appended_text(self, tail: str) -> None:
        if any(sign in tail.strip() for sign in ";&|`$()<>\n\\"):
            assert command(f"playbook next {tail}") == "deny"


class TestEveryCaller:
    def test_has_no_other_way_to_prompt(self) -> None:
        for tool, side in product(DISPATCHING, SIDES):
            refused = ruled(tool, **SIDES[side])
            assert (refused.verdict, tool in refused.reason) == ("deny", True), (tool, side)

    @pytest.mark.parametrize(
        "file",
        [
            "/project/.playbooks/sessions/20260219-a7k/journal.yaml",
            "/project/.PlayBooks/SESSIONS/20260219-a7k/session.yaml",
            "/project/.git/playbook/bound",
        ],
    )
    def test_leaves_the_journal_to_the_program(self, file: str) -> None:
        for tool, side in product((*WRITING, "NotKnownYet"), SIDES):
            refused = ruled(tool, {"file_path": "whatever"}, file=file, **SIDES[side])
            said = "Only playbook writes the journal; `playbook show` reads it."
            assert refused.reason == said, (tool, side)

    @pytest.mark.parametrize(
        "file",
        [
            "",
            "/project/.git/config",
            "/project/.playbooks/sessions.md",
            "/elsewhere/.playbooks/sessions/x",
        ],
    )
    def test_writes_other_files_unless_supervising(self, file: str) -> None:
        for side in FREE:
            ruling = ruled("Write", {"file_path": "x"}, file=file, **SIDES[side])
            assert ruling == ToolDecision("pass"), side

    @pytest.mark.parametrize(
        "text",
        [
            "echo x > .playbooks/sessions/20260219-a7k/journal.yaml",
            "cat .playbooks/./sessions/x",
            "cat '.playbooks'/\"sessions\"/x",
            "cat .PLAYBOOKS/Sessions",
            "rm .git/worktrees/other/playbook/bound",
            "rm .git/modules/lib/inner/playbook/bound",
            "rm $(git rev-parse --git-common-dir)/playbook/ids",
            "rm $(git rev-parse --git-path playbook/bound)",
            "echo {} | python -m playbook_supervisor hook",
            "playbook next; rm .git/playbook/bound",
        ],
    )
    def test_leaves_the_journal_alone_in_a_shell(self, text: str) -> None:
        for tool, side in product(SHELLS, SIDES):
            refused = ruled(tool, {"command": text}, **SIDES[side])
            told = "playbook" in refused.reason
            assert (refused.verdict, told) == ("deny", True), (tool, side)

    @pytest.mark.parametrize(
        "text",
        [
            "git add --all && git commit -m x",
            "cat .github/playbook",
            "playbook show; true",
            "playbook status .playbooks/sessions",
        ],
    )
    def test_runs_other_commands_unless_supervising(self, text: str) -> None:
        assert {side: command(text, **SIDES[side]) for side in FREE} == dict.fromkeys(FREE, "pass")

    def test_may_read_the_journal(self) -> None:
        journal = f"{KEPT[0]}/x/journal.yaml"
        for tool, side in product(READING, SIDES):
            assert ruled(tool, file=journal, **SIDES[side]).verdict == "pass", (tool, side)


class TestWorkersAndHumanTurns:
    def test_are_not_restricted_otherwise(self) -> None:
        for tool, side in product(set(EVERY_TOOL) - set(DISPATCHING), FREE):
            assert ruled(tool, **SIDES[side]) == ToolDecision("pass"), (tool, side)

    @pytest.mark.parametrize("side", ["worker"])
    def test_workers_launch_no_step_of_ours(self, side: str) -> None:
        due = frozenset({"plan#1"})
        assert ruled("Agent", {"prompt": "plan#1"}, due=due, **SIDES[side]) == ToolDecision("pass")

    def test_a_due_step_may_be_launched_in_a_human_turn(self) -> None:
        around: dict[str, Any] = {"due": frozenset({"b#1"}), "at_work": frozenset({"a#1"})}
        around |= SIDES["human turn"]
        assert ruled("Agent", {"prompt": "b#1"}, **around) == ToolDecision("launch", attempt="b#1")
        assert ruled("Agent", {"prompt": "a#1"}, **around).verdict == "deny"
        assert ruled("Agent", {"prompt": "mend the test"}, **around) == ToolDecision("pass")


@pytest.mark.parametrize(
    ("given_input", "file"),
    [
        ({"notebook_path": "b"}, "b"),
        ({"file_path": "", "path": "c"}, "c"),
        ({"file_path": None, "command": "x"}, ""),
    ],
)
def test_a_call_names_at_most_one_file(given_input: dict[str, Any], file: str) -> None:
    assert named_file(given_input) == file


class TestAWorkerWhoseStepNamesItsTools:
    def test_uses_no_other(self) -> None:
        for tool in EVERY_TOOL:
            ruling = ruled(tool, worker=True, permitted=frozenset({"Read", "Bash"}))
            allowed = tool in ("Read", "Bash")
            assert ruling.verdict == ("pass" if allowed else "deny"), tool
            if not allowed and tool not in DISPATCHING:
                assert ruling.reason == f"{tool} is not among the tools of this step: Bash, Read."

    def test_is_known_by_its_id(self) -> None:
        workers = [("a", ["Read", "Bash(git *)"]), ("b", None)]
        assert permitted(workers, "a") == frozenset({"Read", "Bash", "ToolSearch"})
        assert permitted(workers, "b") is None
        assert permitted(workers, "another") is None

    def test_counts_as_one_of_those_whose_ids_are_not_known_yet(self) -> None:
        workers = [("", ["Read"]), ("", ["Grep"]), ("a", None)]
        assert permitted(workers, "x") == frozenset({"Read", "Grep", "ToolSearch"})
        assert permitted([("", ["Read"]), ("", None)], "x") is None
        assert permitted([], "x") is None
