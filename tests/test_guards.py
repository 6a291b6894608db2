"""What only a human may decide, and who may drive a session by commands: with real processes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.scripts import GATED, WORKS
from cli.terminal import Terminal
from support.bound_session import PROGRAM, Conversation
from support.scratch_project import Project

from playbook_supervisor.sessions.gate import tokens

pytestmark = pytest.mark.measured

DECIDING = {
    "answer": ["answer", "continue"],
    "abort": ["abort"],
    "pause": ["pause"],
    "repair": ["repair"],
    "resume --retry": ["resume", "--retry"],
    "resume --on-this-branch": ["resume", "--on-this-branch"],
    "resume --mode autonomous": ["resume", "--mode", "autonomous"],
}
# Gives its own process a terminal, as `script` does, and runs the rest in it.
WITH_TERMINAL = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"


@pytest.fixture
def conversation(project: Project) -> Iterator[Conversation]:
    """A conversation of Claude Code that drives a session; the session waits at a gate."""
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    with Conversation(project) as conversation:
        conversation.types("run", "gated")
        yield conversation


def waits(project: Project) -> bool:
    return str(project.manifest()["gate"]["id"]) == "publish#1?1"


class TestCommandsThatOnlyAHumanMayRun:
    """kai FR26: only a human answers. This is the row of the contract about the command line."""

    @pytest.mark.long
    def test_are_refused_in_a_shell_of_the_client(self, conversation: Conversation) -> None:
        for command, argv in DECIDING.items():
            refused = conversation.runs(*argv)
            assert refused.code == 3
            assert "PB-STATE-HUMAN-ONLY" in refused.err
            assert f"only a human may run `playbook {command}` here" in refused.err
            assert "in a terminal of your own" in refused.err
            assert waits(conversation.project)

    def test_are_refused_without_a_terminal(self, conversation: Conversation) -> None:
        for argv in DECIDING.values():
            refused = conversation.project.playbook(*argv)
            assert (refused.code, "there is no terminal here" in refused.err) == (3, True)
            assert waits(conversation.project)

    def test_are_refused_with_the_client_as_an_ancestor(self, conversation: Conversation) -> None:
        for argv in DECIDING.values():
            refused = conversation.starts(sys.executable, "-c", WITH_TERMINAL, *PROGRAM, *argv)
            assert refused.code == 3
            assert f"Claude Code (process {conversation.pid}) has started it" in refused.out
            assert waits(conversation.project)

    def test_are_refused_if_only_variables_reveal_the_client(
        self, conversation: Conversation
    ) -> None:
        with Terminal(conversation.project, "answer", "continue", CLAUDECODE="1") as terminal:
            assert terminal.end() == 3
            assert "Claude Code runs this shell" in " ".join(terminal.shown.split())
        assert waits(conversation.project)

    def test_are_carried_out_in_a_separate_terminal(self, conversation: Conversation) -> None:
        with Terminal(conversation.project, "answer", "continue") as terminal:
            assert terminal.end() == 0
            assert "Claude Code continues at your next message there" in terminal.shown
        (entry,) = conversation.project.journal()
        assert entry["gates"][0]["resolution"] == "continue"
        assert entry["gates"][0]["by"] == "Ada Example <ada@example.org>"

    def test_are_allowed_everywhere_in_a_headless_session(self, project: Project) -> None:
        project.write(".playbooks/playbooks/gated.yaml", GATED)
        agent = project.script("default: {say: done}\n")
        assert project.playbook("run", "gated", "--agent", agent).code == 4
        with Conversation(project) as conversation:
            assert conversation.runs("answer", "continue").code == 0
        assert project.playbook("resume").code == 0

    def test_are_refused_if_the_binding_was_removed(self, conversation: Conversation) -> None:
        project = conversation.project
        for file in ("playbook/bound", f"playbook/{project.session.name}/claude.json"):
            (project.root / ".git" / file).unlink()
        refused = conversation.runs("answer", "continue")
        assert (refused.code, "PB-STATE-HUMAN-ONLY" in refused.err) == (3, True)
        assert waits(project)

    def test_are_refused_if_the_binding_was_overwritten(self, conversation: Conversation) -> None:
        project = conversation.project
        (file,) = (project.root / ".git/playbook").glob("*/claude.json")
        file.write_text(file.read_text().replace(str(conversation.pid), "1"))
        agent = project.script("default: {say: done}\n")
        for command in (["resume", "--agent", agent], ["answer", "continue"]):
            refused = project.playbook(*command)
            assert (refused.code, "there is no terminal here" in refused.err) == (3, True)
        assert waits(project)
        with Terminal(project, "answer", "continue") as terminal:
            assert terminal.end() == 0

    def test_are_refused_to_a_worker_that_outlives_its_client(
        self, conversation: Conversation
    ) -> None:
        around = conversation.shell
        conversation.dies()
        agent = conversation.project.script("default: {say: done}\n")
        for command in (["resume", "--agent", agent], ["answer", "continue"]):
            refused = conversation.project.playbook(*command, env=around)
            assert (refused.code, "PB-STATE-HUMAN-ONLY" in refused.err) == (3, True)
        assert waits(conversation.project)


class TestATokenOfABoundSession:
    """tyr 22: a token is no way around the client's human."""

    def test_decides_nothing_below_the_client(self, conversation: Conversation) -> None:
        project = conversation.project
        token = tokens.issue(project.root / ".git/playbook" / project.session.name, "publish#1?1")
        command = ["resume", "--token", token, "--approve"]
        refused = conversation.runs(*command)
        assert (refused.code, "PB-STATE-HUMAN-ONLY" in refused.err) == (3, True)
        assert "only a human may run `playbook resume --token` here" in refused.err
        assert waits(project)
        request = {"action": "resume", "token": token, "approve": False}
        answer = project.playbook("rpc", input=json.dumps(request), env=conversation.shell)
        assert answer.json["error"]["code"] == "PB-STATE-HUMAN-ONLY"
        assert waits(project)
        with Terminal(project, *command) as terminal:
            assert terminal.end() == 3  # a person may, but not while the client drives
            assert "PB-STATE-DRIVEN" in terminal.shown
        assert waits(project)

    def test_of_a_headless_session_decides_where_an_answer_does(self, project: Project) -> None:
        project.write(".playbooks/playbooks/gated.yaml", GATED)
        agent = project.script("default: {say: done}\n")
        ran = project.playbook("run", "gated", "--agent", agent, "--json")
        token = ran.json["requiresApproval"]["resumeToken"]
        with Conversation(project) as conversation:
            done = conversation.runs("resume", "--token", token, "--approve", "--json")
        assert (done.code, done.json["status"]) == (0, "ok")


class TestASessionWhoseDriverIsUnknown:
    """A worker that pretends to be a human may have removed the files in the git directory."""

    def refused(self, project: Project, why: str = "its last driver is unknown") -> None:
        """Check that a process without the client's ancestry, variables and terminal is refused."""
        detached = project.playbook("answer", "continue")
        assert (detached.code, "PB-STATE-HUMAN-ONLY" in detached.err) == (3, True), detached
        assert why in detached.err
        assert waits(project)

    def test_is_answered_only_at_a_terminal(self, conversation: Conversation) -> None:
        """A command that accepts the session's files first does not help."""
        project = conversation.project
        shutil.rmtree(project.root / ".git/playbook")
        self.refused(project)
        assert project.playbook("next").code == 3
        with Terminal(project, "repair", "--take") as terminal:
            assert terminal.end() == 0
        self.refused(project)
        assert (
            project.playbook("resume", "--agent", project.script("default: {say: done}\n")).code
            == 4
        )
        self.refused(project)
        with Terminal(project, "answer", "continue") as terminal:
            assert terminal.end() == 0
        assert project.playbook("resume").code == 0

    @pytest.mark.parametrize("taken", [True, False])
    def test_is_open_to_all_once_a_person_has_driven_it_headless(
        self, conversation: Conversation, taken: bool
    ) -> None:
        project = conversation.project
        conversation.dies()
        agent = project.script("default: {say: done}\n")
        if taken:
            assert project.playbook("resume", "--agent", agent).code == 4
            self.refused(project)
        with Terminal(project, "resume", "--agent", agent) as terminal:
            terminal.until("skip or abort > ")
            terminal.type("\x04")
            assert terminal.end() == 4
        assert project.playbook("answer", "continue").code == 0

    def test_stays_with_a_human_after_a_conversation_released_it(
        self, conversation: Conversation
    ) -> None:
        conversation.hook("Stop")
        conversation.types("pause")
        self.refused(conversation.project, "there is no terminal here")

    def test_does_not_count_as_fetched_if_it_was_committed_here(
        self, conversation: Conversation
    ) -> None:
        project = conversation.project
        project.commit("Wait at the gate")
        project.git("switch", "-q", "main")
        project.git("switch", "-q", "-")
        shutil.rmtree(project.root / ".git/playbook")
        self.refused(project)

    def test_continues_in_a_clone(self, conversation: Conversation, tmp_path: Path) -> None:
        conversation.project.commit("Wait at the gate")
        there = tmp_path / "there"
        conversation.project.git("clone", "-q", ".", str(there))
        other = Project(there, conversation.project.home, conversation.project.env)
        journal = other.session / "journal.yaml"
        committed = journal.read_bytes()
        journal.write_bytes(committed + b"# mine\n")
        self.refused(other)
        journal.write_bytes(committed)
        shutil.rmtree(other.root / ".git/playbook")
        assert other.playbook("answer", "continue").code == 0
        assert other.playbook("resume", "--agent", other.script("default: {say: done}\n")).code == 0


class TestOneDriver:
    """A runner and a client never drive the same session at once."""

    def test_a_runner_is_refused_while_the_client_lives(self, conversation: Conversation) -> None:
        refused = conversation.project.playbook("resume")
        assert refused.code == 3
        assert f"driven by Claude Code (process {conversation.pid})" in refused.err

    def test_a_runner_takes_the_session_over_from_a_client_that_is_gone(
        self, conversation: Conversation
    ) -> None:
        project = conversation.project
        conversation.dies()
        agent = project.script("default: {say: done}\n")
        assert project.playbook("resume", "--agent", agent).code == 4
        assert not (project.root / ".git/playbook/bound").exists()
        with Terminal(project, "answer", "continue") as terminal:
            assert terminal.end() == 0
        assert project.playbook("resume").code == 0

    def test_a_person_at_another_terminal_pauses_the_session(
        self, conversation: Conversation
    ) -> None:
        with Terminal(conversation.project, "pause") as terminal:
            assert terminal.end() == 0
        assert not (conversation.project.root / ".git/playbook/bound").exists()
        assert conversation.hook("PreToolUse", tool_name="Bash", tool_input={}) is None
        assert conversation.project.manifest()["status"] == "in_progress"


class TestCommandsInTheClientsShell:
    """`begin`, `next` and `report` are refused in a conversation that no hook has seen."""

    def test_need_a_hook_that_has_seen_the_conversation(self, project: Project) -> None:
        with Conversation(project) as conversation:
            begun = conversation.runs("begin", "auto-validate", "013")
            assert begun.code == 3
            assert "PB-STATE-NO-HOOKS" in begun.err
            assert f"Start Claude Code in {project.root} itself" in begun.err
            assert project.sessions == []

            project.playbook("begin", "auto-validate", "013")
            for command in (["next"], ["report", "qa-plan#1"]):
                refused = conversation.runs(*command)
                assert (refused.code, "PB-STATE-NO-HOOKS" in refused.err) == (3, True)
        assert project.journal()[-1]["status"] == "in_progress"

    def test_may_not_begin_at_a_later_step(self, project: Project) -> None:
        with Conversation(project) as conversation:
            refused = conversation.runs("begin", "auto-validate", "013", "--from", "qa-run")
        assert (refused.code, "only a human may run `playbook begin --from`" in refused.err) == (
            3,
            True,
        )

    def test_begin_no_second_session_beside_the_bound_one(self, conversation: Conversation) -> None:
        refused = conversation.runs("begin", "auto-validate", "013")
        assert (refused.code, "PB-STATE-OPEN" in refused.err) == (3, True)
        assert len(conversation.project.sessions) == 1

    def test_work_in_the_bound_conversation(self, conversation: Conversation) -> None:
        asked = conversation.runs("next", "--json")
        assert (asked.code, asked.json["directive"]) == (0, "ask")

    def test_are_refused_if_the_script_of_the_hooks_was_changed(self, project: Project) -> None:
        """It may have been made to do nothing; then no hook would say so."""
        project.write(".playbooks/playbooks/gated.yaml", GATED)
        assert project.playbook("init", "--yes").code == 0
        with Conversation(project) as conversation:
            conversation.types("run", "gated")
            assert conversation.runs("next").code == 0
            project.write(".claude/hooks/playbook.sh", "exit 0\n")
            refused = conversation.runs("next")
            assert (refused.code, "PB-STATE-TAMPERED" in refused.err) == (3, True)
            assert "`playbook update` writes it again" in refused.err

    def test_are_refused_in_another_conversation(self, conversation: Conversation) -> None:
        refused = conversation.runs("next", CLAUDE_CODE_SESSION_ID="another")
        assert (refused.code, "PB-STATE-NO-HOOKS" in refused.err) == (3, True)


class TestAnInstallationWithoutHooks:
    """`playbook init --no-hooks`: the model runs `next` and `report`; a human answers elsewhere."""

    @pytest.fixture
    def conversation(self, project: Project) -> Iterator[Conversation]:
        assert project.playbook("init", "--yes", "--no-hooks").code == 0
        with Conversation(project) as conversation:
            yield conversation

    def test_is_driven_to_its_end_by_commands(self, conversation: Conversation) -> None:
        project = conversation.project
        begun = conversation.runs("begin", "auto-validate", "013", "--json")
        assert begun.json["steps"][0]["id"] == "qa-plan#1"
        project.write(".qa/013-playbook-create/test-plan.md", "# Plan\n")
        assert conversation.runs("report", "qa-plan#1").code == 0
        project.write(".qa/013-playbook-create/verdict.md", "---\nverdict: PASS\n---\n")
        ended = conversation.runs("report", "qa-run#1", "--json").json
        assert (ended["directive"], ended["status"]) == ("finish", "completed")
        assert not list((project.root / ".git/playbook").glob("*/claude.json"))

    def test_still_leaves_its_gates_to_a_human(self, conversation: Conversation) -> None:
        project = conversation.project
        project.write(".playbooks/playbooks/gated.yaml", GATED)
        asked = conversation.runs("begin", "gated", "--json")
        assert asked.json["directive"] == "ask"
        assert conversation.runs("answer", "continue").code == 3
        assert project.playbook("answer", "continue").code == 3
        with Terminal(project, "answer", "continue") as terminal:
            assert terminal.end() == 0
        assert conversation.runs("next", "--json").json["directive"] == "run"

    def test_is_driven_by_one_living_conversation(self, conversation: Conversation) -> None:
        project = conversation.project
        conversation.runs("begin", "auto-validate", "013")
        with Conversation(project, "another") as other:
            refused = other.runs("next")
            assert f"driven by Claude Code (process {conversation.pid})" in refused.err
            conversation.dies()
            assert other.runs("next").code == 0
            assert other.runs("next").code == 0
        resumed = project.playbook("resume", "--agent", project.script(WORKS))
        assert resumed.code == 0
