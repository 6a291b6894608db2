"""Steps without an agent in a client: carried out behind `next --wait`, never by a hook."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support import directive_lines
from support.bound_session import Conversation
from support.scratch_project import Project

from playbook_supervisor.drivers import detached
from playbook_supervisor.drivers.claude_code.binding import Binding
from playbook_supervisor.errors import StateError
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.disk.files import locked
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.cancellation import Interrupted
from playbook_supervisor.system.process.process_groups import until

PATIENCE = 30.0
# Counts its runs, and hangs as long as it is held, both outside of the repository.
SCRIPT = """\
import os, pathlib, sys, time
beside = pathlib.Path({beside!r})
with open(beside / "runs", "a") as runs:
    runs.write("x")
(beside / "process").write_text(str(os.getpid()))
while (beside / f"{{sys.argv[1]}} is held").exists():
    time.sleep(0.05)
print("built", *sys.argv[1:])
"""
MIXED = """\
name: mixed
description: Programs before, beside and after an agent
version: "1.1"
args: [{{name: what, description: What to build, required: true}}]
defaults: {{autonomy: auto, error_policy: stop}}
steps:
  - id: build
    command: cli {program} {{{{what}}}}
  - {{id: look, command: /qa.plan, parallel_group: both}}
  - {{id: again, command: cli {program} twice, parallel_group: both}}
  - {{id: ask, command: cli true, autonomy: gate_always}}
"""


TOLD = """\
name: told
description: An agent is told only what is given as an arg
version: "1.1"
args: [{name: what, description: What it is told, required: false}]
steps:
  - {id: tell, command: prompt, with: {text: "{{what}}"}, autonomy: auto, error_policy: gate}
"""


class Built:
    """A project with that playbook; `program` can be held."""

    def __init__(self, project: Project, beside: Path) -> None:
        self.project, self.beside = project, beside
        script = beside / "build.py"
        script.write_text(SCRIPT.format(beside=str(beside)))
        program = f"{sys.executable} {script}"
        project.write(".playbooks/playbooks/mixed.yaml", MIXED.format(program=program))
        project.commit("Build")

    @property
    def runs(self) -> int:
        file = self.beside / "runs"
        return len(file.read_text()) if file.exists() else 0

    def hold(self, what: str = "x") -> None:
        """Let the program with this argument hang until it is released."""
        (self.beside / f"{what} is held").touch()

    def release(self, what: str = "x") -> None:
        (self.beside / f"{what} is held").unlink()

    @property
    def process(self) -> int:
        return int((self.beside / "process").read_text())

    @property
    def session(self) -> str:
        return self.project.session.name

    @property
    def private(self) -> Path:
        return DiskStore(checkout.find(self.project.root)).runtime(self.project.session.name)

    def entry(self, step: str) -> Any:
        entries = self.project.journal()
        return next(each for each in reversed(entries) if each["step_id"] == step)


@pytest.fixture
def built(project: Project, tmp_path: Path) -> Built:
    return Built(project, tmp_path)


@pytest.fixture
def conversation(built: Built) -> Iterator[Conversation]:
    with Conversation(built.project) as conversation:
        yield conversation


def directive(said: str) -> Any:
    """The directive in what a model reads."""
    return directive_lines.in_text(said)[0]


def test_a_hook_leaves_a_step_to_a_command(built: Built, conversation: Conversation) -> None:
    due = directive_lines.told(conversation.types("run", "mixed x"))
    assert (due["directive"], due["steps"]) == ("wait", ["build#1"])
    assert due["command"] == "playbook next --wait"
    assert built.runs == 0
    due = directive(conversation.runs("next", "--wait").out)
    assert (due["directive"], [step["id"] for step in due["steps"]]) == ("run", ["look#1"])
    assert built.entry("build")["output"] == "built x"
    assert built.project.playbook("logs", "build").out.strip().endswith("built x")


def test_in_a_group_programs_and_agents_work_at_once(
    built: Built, conversation: Conversation
) -> None:
    conversation.types("run", "mixed x")
    built.hold("twice")
    conversation.runs("next", "--wait")
    due = directive_lines.told(conversation.works("look#1", "qa.plan"))
    assert (due["directive"], due["steps"]) == ("wait", ["again#1"])
    built.release("twice")
    due = directive(conversation.runs("next", "--wait").out)
    assert (due["directive"], due["gate"]["step"]) == ("ask", "ask")
    assert built.runs == 2


def test_a_model_cannot_report_what_no_agent_carries_out(
    built: Built, conversation: Conversation
) -> None:
    conversation.types("run", "mixed x")
    refused = conversation.runs("report", "build#1")
    assert refused.code == 3
    assert "build#1 is carried out by playbook itself" in refused.err
    assert "returned_at" not in built.entry("build")


def test_a_gate_that_opens_behind_the_command_says_more_in_its_dialog(
    built: Built, conversation: Conversation
) -> None:
    """Nothing else shows it, for the client folds away what the command prints."""
    text = "".join(line for line in MIXED.splitlines(True) if "both" not in line)
    text = text.format(program=f"{sys.executable} -c 0")
    built.project.write(".playbooks/playbooks/mixed.yaml", text)
    built.project.commit("Without an agent")
    conversation.types("run", "mixed x")
    built.project.write("made.txt", "made\n")
    assert directive(conversation.runs("next", "--wait").out)["gate"]["id"] == "ask#1?1"
    called: dict[str, Any] = {"tool_name": "AskUserQuestion", "tool_input": {"questions": []}}
    asked = conversation.hook("PreToolUse", **called)["hookSpecificOutput"]
    lines = asked["updatedInput"]["questions"][0]["question"].splitlines()
    assert lines[0].startswith("Run ")
    assert [line.split()[:2] for line in lines[1:3]] == [[">", "build"], [">", "branch"]]
    assert lines[3:] == [">   made.txt (new) | 1 +"]


def test_nothing_more_is_carried_out_for_a_client_that_has_ended(
    built: Built, conversation: Conversation
) -> None:
    """A `next --wait` that outlives its client would begin the program again and again."""
    conversation.types("run", "mixed x")
    conversation.dies()
    refused = built.project.playbook("next", "--wait")
    assert (refused.code, built.runs) == (3, 0)
    assert f"the Claude Code that drove session {built.session} has ended" in refused.err


def test_a_client_without_hooks_drives_by_commands(built: Built) -> None:
    begun = built.project.playbook("begin", "mixed", "x", "--json")
    assert (begun.json["directive"], begun.json["steps"]) == ("wait", ["build#1"])
    waited = built.project.process("next", "--wait", "--json")
    assert (waited.json["directive"], waited.json["steps"][0]["id"]) == ("run", "look#1")
    built.project.playbook("report", "look#1")
    waited = built.project.process("next", "--wait", "--json")
    assert (waited.json["directive"], built.runs) == ("ask", 2)


def test_a_session_of_a_client_goes_on_headless(built: Built, conversation: Conversation) -> None:
    conversation.types("run", "mixed x")
    conversation.dies()
    assert os.path.lexists(built.private)
    script = built.project.script("default: {say: done}\n")
    resumed = built.project.playbook("resume", "--agent", script)
    assert (resumed.code, built.entry("build")["output"]) == (4, "built x")


def test_a_prompt_that_cannot_be_made_fails_its_step(
    built: Built, conversation: Conversation
) -> None:
    built.project.write(".playbooks/playbooks/told.yaml", TOLD)
    built.project.commit("Tell")
    due = directive_lines.told(conversation.types("run", "told"))
    assert (due["directive"], due["gate"]["reason"]) == ("ask", "subagent_error")
    assert built.entry("tell")["error_code"] == "PB-AGENT-PROMPT"
    assert "the prompt of tell is empty" in due["gate"]["question"]


class TestInThisProcess:
    """The work of the detached process, done before `next --wait` looks at the session again."""

    @pytest.fixture(autouse=True)
    def here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(detached, "run_detached", lambda work: work())

    def test_what_a_process_began_that_has_gone_is_begun_again(self, built: Built) -> None:
        built.project.playbook("begin", "mixed", "x")
        (built.private / "worker-build#1").touch()
        built.project.playbook("next", "--wait")
        assert built.entry("build")["attempt"] == 2

    def test_its_failure_reaches_the_command(
        self, built: Built, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*_: object) -> None:
            raise StateError("PB-STATE-CORRUPT", "it cannot be read")

        built.project.playbook("begin", "mixed", "x")
        monkeypatch.setattr(detached, "_carry_out", fails)
        refused = built.project.playbook("next", "--wait")
        assert refused.code == 3
        assert "it cannot be read [PB-STATE-CORRUPT]" in refused.err

    def test_a_process_that_works_already_is_waited_for(self, built: Built) -> None:
        built.project.playbook("begin", "mixed", "x")
        tree = SessionTree(DiskStore(checkout.find(built.project.root)), built.session)
        tree.look()
        with ThreadPoolExecutor(1) as elsewhere:
            with locked(built.private / "detached"):
                waiting = elsewhere.submit(detached.attend, tree)
                until(waiting.done, 0.5)
                assert not waiting.done()
            waiting.result(PATIENCE)
        assert built.runs == 0

    def test_it_is_not_wanted_once_another_client_drives(self, built: Built) -> None:
        built.project.playbook("begin", "mixed", "x")
        tree = SessionTree(DiskStore(checkout.find(built.project.root)), built.session)
        tree.look()
        ours = detached._Abandoned(tree, None)
        assert not ours()
        assert not ours()  # it looks only now and then
        assert detached._Abandoned(tree, ("another client", 1))()

    def test_it_has_the_environment_of_the_client(self) -> None:
        before = dict(os.environ)
        try:
            os.environ["FAKED"] = "by a model's shell"
            detached._take_environment(Binding("session", "client", os.getpid()))
            assert "FAKED" not in os.environ
            assert os.environ
        finally:
            os.environ.clear()
            os.environ.update(before)

    def test_outside_isolation_it_keeps_the_environment_that_the_client_was_given(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ancestry, "_acts_for", [])
        ancestry.act_for(os.getpid(), "bwrap")
        monkeypatch.setenv("GIVEN", "to the client")
        detached._take_environment(Binding("session", "client", os.getpid()))
        assert os.environ["GIVEN"] == "to the client"

    def test_a_long_step_is_looked_after(self, built: Built) -> None:
        def releases() -> None:
            until(lambda: built.runs == 1, PATIENCE)
            until(lambda: False, 2 * detached._GLANCE)
            built.release()

        built.hold()
        built.project.playbook("begin", "mixed", "x")
        with ThreadPoolExecutor(1) as elsewhere:
            released = elsewhere.submit(releases)
            built.project.playbook("next", "--wait")
            released.result(PATIENCE)
        assert built.entry("build")["output"] == "built x"

    def test_a_step_that_was_stopped_is_an_interrupted_attempt(
        self, built: Built, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stops(*_: object) -> None:
            until(lambda: built.runs == 1, PATIENCE)
            raise Interrupted

        built.hold()
        built.project.playbook("begin", "mixed", "x")
        with monkeypatch.context() as patched:
            patched.setattr(detached, "_next", stops)
            detached.attend(
                SessionTree(DiskStore(checkout.find(built.project.root)), built.session)
            )
        built.release()
        built.project.playbook("next", "--wait")
        first, second = (e for e in built.project.journal() if e["step_id"] == "build")
        assert (first["error_code"], second["attempt"]) == ("PB-STATE-INTERRUPTED", 2)

    def test_the_time_of_a_retry_is_waited_for_by_the_command(self, built: Built) -> None:
        text = MIXED.format(program="false").replace("error_policy: stop", "error_policy: retry:1")
        built.project.write(".playbooks/playbooks/mixed.yaml", text)
        built.project.commit("Retry")
        built.project.playbook("begin", "mixed", "x")
        waited = built.project.playbook("next", "--wait", "--json")
        assert waited.json["status"] == "failed"
        first, second = built.project.journal()
        assert (first["error_code"], second["attempt"]) == ("PB-STEP-FAILED", 2)
