"""Which conversation drives a session: how it is stored and how its process is recognised."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.scripts import GATED, conforms
from support.bound_session import Conversation
from support.scratch_project import Project

from playbook_supervisor.drivers.claude_code import binding, context, marker
from playbook_supervisor.drivers.claude_code.binding import Binding, Subagent
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.ancestry import Process

SESSION = "20260219-a7k"


@pytest.fixture(params=["/proc", "ps"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How processes are looked up: with /proc, as on Linux, and without."""
    if request.param == "ps":
        monkeypatch.setattr(ancestry, "_PROC", Path("/nowhere"))
    elif not Path("/proc/self").exists():
        pytest.skip("this system has no /proc")
    return str(request.param)


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


class TestAncestry:
    def test_leads_from_the_parent_upwards(self, source: str) -> None:
        above = list(ancestry.ancestors())
        assert above[0].pid == os.getppid()
        assert [each.parent for each in above[:-1]] == [each.pid for each in above[1:]]
        assert above[-1].pid == 1 or above[-1].parent == 0

    def test_knows_a_process_by_its_name_and_birth(
        self, source: str, sleeping: subprocess.Popen[bytes]
    ) -> None:
        found = ancestry.process(sleeping.pid)
        assert found is not None
        assert (found.name, found.parent) == ("sleep", os.getpid())
        assert found == ancestry.process(sleeping.pid)
        assert ancestry.lives(sleeping.pid, found.born)
        assert ancestry.lives(sleeping.pid, "")

    def test_distinguishes_processes_of_one_number_by_their_start(
        self, source: str, sleeping: subprocess.Popen[bytes]
    ) -> None:
        assert not ancestry.lives(sleeping.pid, "long ago")

    def test_does_not_count_zombies_as_running(
        self, source: str, sleeping: subprocess.Popen[bytes]
    ) -> None:
        found = ancestry.process(sleeping.pid)
        assert found is not None
        sleeping.kill()
        os.waitid(os.P_PID, sleeping.pid, os.WEXITED | os.WNOWAIT)
        assert ancestry.process(sleeping.pid) is None
        sleeping.wait()
        assert ancestry.process(sleeping.pid) is None
        assert not ancestry.lives(sleeping.pid, found.born)

    def test_finds_nothing_without_proc_and_ps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ancestry, "_PROC", Path("/nowhere"))
        monkeypatch.setenv("PATH", "/nowhere")
        assert ancestry.process(os.getpid()) is None
        assert list(ancestry.ancestors()) == []


class TestTheClientsProcess:
    def test_is_the_one_that_it_names(self) -> None:
        assert context.process({"CLAUDE_PID": "4242"}) == 4242

    def test_is_otherwise_above_the_shells(self, monkeypatch: pytest.MonkeyPatch) -> None:
        above = [
            Process(30, 20, "sh", "3"),
            Process(20, 10, "bash", "2"),
            Process(10, 1, "node", "1"),
        ]
        monkeypatch.setattr(ancestry, "ancestors", lambda: iter(above))
        assert context.process({}) == context.process({"CLAUDE_PID": "-"}) == 10
        monkeypatch.setattr(ancestry, "ancestors", lambda: iter(()))
        assert context.process({}) == os.getppid()


class TestABinding:
    @pytest.fixture
    def bound(self) -> Binding:
        workers = {"plan#1": Subagent("speckit.plan", "013", "use", agent="a1")}
        return Binding(SESSION, "c1", os.getppid(), workers=workers, receipts={"a1": [["x", "y"]]})

    @pytest.fixture
    def here(self, project: Project) -> checkout.Checkout:
        return checkout.find(project.root)

    @pytest.fixture
    def private(self, here: checkout.Checkout) -> Path:
        folder = here.runtime / SESSION
        folder.mkdir(parents=True)
        return folder

    def test_is_read_as_it_was_written(
        self, bound: Binding, here: checkout.Checkout, private: Path
    ) -> None:
        binding.bind(here, private, bound)
        assert binding.load(private) == binding.living(private) == bound
        assert bound.born
        assert binding.bound(here) == SESSION
        assert marker.marked(str(here.git_dir)) == (SESSION, "c1")
        assert binding.hooks_reach(here, bound)

    def test_knows_the_attempts_of_its_workers(self, bound: Binding) -> None:
        assert bound.worker_of(agent="a1") == bound.worker_of(tool_use="use") == "plan#1"
        assert bound.worker_of(agent="a2") == bound.worker_of() == ""

    @pytest.mark.parametrize("text", ["{", '{"workers": {}}'])
    def test_that_is_unreadable_is_none(self, private: Path, text: str) -> None:
        (private / "claude.json").write_text(text)
        assert binding.load(private) is None
        assert binding.living(private) is None

    @pytest.mark.parametrize("text", ["", "/x\n../../etc\nc1\n"])
    def test_marker_that_names_no_session_binds_none(
        self, here: checkout.Checkout, private: Path, text: str
    ) -> None:
        (here.git_dir / marker.MARKER).write_bytes(text.encode("latin-1"))
        assert binding.bound(here) == ""

    def test_is_removed_without_another_sessions_marker(
        self, bound: Binding, here: checkout.Checkout, private: Path
    ) -> None:
        binding.bind(here, private, bound)
        other = here.runtime / "20260219-zzz"
        other.mkdir()
        binding.unbind(here, other)
        assert binding.bound(here) == SESSION
        binding.unbind(here, private)
        assert (binding.bound(here), binding.load(private)) == ("", None)

    def test_without_hooks_leaves_no_marker(
        self, bound: Binding, here: checkout.Checkout, private: Path
    ) -> None:
        bound.hooked = False
        binding.bind(here, private, bound)
        assert binding.bound(here) == ""
        assert binding.living(private) is not None

    def test_names_the_program_that_runs_now(
        self, here: checkout.Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        assert binding.executable() == str(Path(sys.executable).with_name("playbook"))
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
        monkeypatch.setenv("PATH", str(tmp_path))
        assert binding.executable() == "playbook"
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/playbook").write_text("#!/bin/sh\n")
        (tmp_path / "bin/playbook").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        assert binding.executable() == str(tmp_path / "bin/playbook")

    def test_records_whose_dialog_is_open(self, private: Path) -> None:
        assert binding.dialog(private) == ""
        binding.dialog_opened(private, "a1", "Write")
        binding.dialog_over(private, "a2")
        assert binding.dialog(private) == "Write"
        binding.dialog_over(private, "a1")
        assert binding.dialog(private) == ""


class TestStatusShows:
    """A person elsewhere sees who drives, and what waits for them."""

    @pytest.fixture
    def conversation(self, project: Project) -> Iterator[Conversation]:
        project.write(".playbooks/playbooks/gated.yaml", GATED)
        with Conversation(project) as conversation:
            yield conversation

    def test_who_drives_and_where_a_gate_is_answered(self, conversation: Conversation) -> None:
        conversation.types("run", "gated")
        said = conversation.project.playbook("status").out
        assert "WAITS FOR A HUMAN at publish#1?1" in said
        assert f"driven by process {conversation.pid} (agent claude-code)" in said
        assert f"playbook answer {conversation.project.session.name}" in said
        shown = conforms("status", conversation.project.playbook("status", "--json").json)
        assert shown["sessions"][0]["driver"] == {"pid": conversation.pid, "agent": "claude-code"}
        conversation.dies()
        assert "driven by" not in conversation.project.playbook("status").out

    def test_that_a_dialog_waits_until_its_agent_continues(
        self, conversation: Conversation
    ) -> None:
        project = conversation.project
        conversation.types("run", "auto-validate 013")
        conversation.hook("PermissionRequest", tool_name="Write", agent_id="a1")
        assert (
            "a permission dialog for Write waits for you in Claude Code"
            in project.playbook("status").out
        )
        shown = conforms("status", project.playbook("status", "--json").json)
        assert shown["sessions"][0]["dialog"] == "Write"
        conversation.hook("PreToolUse", tool_name="Read", tool_input={}, agent_id="a1")
        assert "dialog" not in project.playbook("status").out
