"""A bound session whose record in the git directory is gone stops the conversation."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from support.bound_session import CLIENT, Conversation
from support.hook_calls import Hooked
from support.scratch_project import Project

from playbook_supervisor.drivers.claude_code import binding, client_register
from playbook_supervisor.drivers.claude_code.binding import Binding
from playbook_supervisor.drivers.claude_code.client_register import Registration
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.git import checkout

RUN = "/playbook.run auto-validate 013"
PID = os.getppid()


@pytest.fixture
def conversation(project: Project) -> Hooked:
    conversation = Hooked(project)
    conversation.types(RUN)
    return conversation


def registrations(project: Project) -> list[str]:
    """The processes that are registered as clients, and whatever else is left there."""
    folder = project.home / ".local/state/playbook/bound"
    left = {each.name for each in folder.iterdir()} if folder.is_dir() else set()
    return sorted(left - {".lock"})


def writes(conversation: Hooked, **more: Any) -> Any:
    """What the hook says to a file that the model, or the agent of `agent_id`, would write."""
    given = {"file_path": str(conversation.project.root / "made.txt"), "content": "x"}
    return conversation("PreToolUse", tool_name="Write", tool_input=given, **more)


def moved(project: Project) -> None:
    (project.root / ".git").rename(project.root / "moved")


def moved_in_part(project: Project) -> None:
    (project.root / ".git/playbook").rename(project.root / "moved")


def replaced(project: Project) -> None:
    moved(project)
    project.git("init", "-q")


def marked_for_nobody(project: Project) -> None:
    moved_in_part(project)
    (project.root / ".git/playbook").mkdir()
    (project.root / ".git/playbook/bound").write_text("/nowhere\n20260101-abc\nanother\n")


def without_its_binding(project: Project) -> None:
    for file in (project.root / ".git/playbook").glob("*/claude.json"):
        file.unlink()


DEEDS = [moved, moved_in_part, replaced, marked_for_nobody, without_its_binding]


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: str(deed.__name__))
class TestARecordThatIsGone:
    def test_stops_the_conversation_until_a_person_speaks(
        self, conversation: Hooked, deed: Callable[[Project], None]
    ) -> None:
        project = conversation.project
        deed(project)
        denied = writes(conversation)
        assert denied.decision == "deny"
        record = f"{project.root}/.git/playbook/"
        for words in ("drives this conversation", record, "/playbook.pause", "/playbook.abort"):
            assert words in denied.end
        agent = writes(conversation, agent_id="a1")
        assert (agent.decision, agent.end) == ("deny", "")
        due = conversation.calls("Agent", description="qa-plan#1", prompt="qa-plan#1")
        assert due.decision == "deny"
        line = conversation("PreSkillShellCommand", command="touch made", agent_id="a1")
        assert line.decision == "deny"
        conversation.says(conversation.notice("qa-plan#1"))
        assert writes(conversation) == denied

        assert record in conversation.says("what has happened?").note
        assert writes(conversation) is None
        conversation("Stop", background_tasks=[])
        assert writes(conversation) == denied

    @pytest.mark.parametrize("command", ["abort"])
    def test_releases_the_conversation_when_a_person_says_so(
        self, conversation: Hooked, deed: Callable[[Project], None], command: str
    ) -> None:
        deed(conversation.project)
        line = f"/playbook.{command}"
        assert conversation.says(line) is None
        told = conversation("UserPromptExpansion", command_name=line[1:], prompt=line)
        assert "This conversation is released" in f"{told.reason}{told.shown}"
        assert registrations(conversation.project) == []


@pytest.mark.parametrize("deed", [moved, moved_in_part])
def test_what_is_moved_back_goes_on_as_before(
    conversation: Hooked, deed: Callable[[Project], None]
) -> None:
    project = conversation.project
    deed(project)
    conversation.says("what has happened?")
    assert writes(conversation) is None
    place = ".git" if deed is moved else ".git/playbook"
    (project.root / "moved").rename(project.root / place)
    conversation.stops()
    assert "Expected now: Agent(description='qa-plan#1'" in writes(conversation).reason
    deed(project)
    gone = writes(conversation)
    assert gone is not None, "the person's turn is over"
    assert "is not in" in gone.end


def test_a_marker_that_alone_is_gone_is_written_again(conversation: Hooked) -> None:
    marker = conversation.project.root / ".git/playbook/bound"
    before = marker.read_text()
    marker.unlink()
    assert "Expected now: Agent(description='qa-plan#1'" in writes(conversation).reason
    assert marker.read_text() == before


def test_a_registration_that_is_gone_is_written_again(conversation: Hooked) -> None:
    project = conversation.project
    assert registrations(project) == [str(PID)]
    shutil.rmtree(project.home / ".local/state/playbook")
    assert writes(conversation) is not None
    assert registrations(project) == [str(PID)]
    moved(project)
    assert writes(conversation) is not None


def test_a_worktree_that_was_removed_stops_its_client(project: Project) -> None:
    tree = project.root.with_name("tree")
    project.git("worktree", "add", "-q", "-b", "014-other", str(tree))
    conversation = Hooked(Project(tree, project.home))
    conversation.types(RUN)
    project.git("worktree", "remove", "--force", str(tree))
    assert writes(conversation).end
    conversation.types("/playbook.pause")
    assert registrations(project) == []
    assert writes(Hooked(project)) is None


class TestSeveralClients:
    def test_one_that_took_the_session_over_leaves_the_first_alone(self, project: Project) -> None:
        with Conversation(project) as first, Conversation(project, f"{CLIENT}x") as second:
            first.types("run", "auto-validate 013")
            second.types("resume")
            assert registrations(project) == [str(second.pid)]
            given: dict[str, Any] = {"tool_name": "Write", "tool_input": {"file_path": "x"}}
            assert first.hook("PreToolUse", **given) is None
            second.types("pause")
            assert registrations(project) == []
            assert first.hook("PreToolUse", **given) is None
            assert second.hook("PreToolUse", **given) is None

    def test_in_two_worktrees_each_has_its_own_record(self, project: Project) -> None:
        tree = project.root.with_name("tree")
        project.git("worktree", "add", "-q", "-b", "014-other", str(tree))
        with Conversation(project) as one, Conversation(Project(tree, project.home)) as other:
            one.types("run", "auto-validate 013")
            other.types("run", "auto-validate 013")
            assert registrations(project) == sorted([str(one.pid), str(other.pid)])
            (project.root / ".git/playbook").rename(project.root / "moved")
            given: dict[str, Any] = {"tool_name": "Write", "tool_input": {"file_path": "x"}}
            assert "continue" in one.hook("PreToolUse", **given)
            kept = other.hook("PreToolUse", **given)
            assert "Expected now" in kept["hookSpecificOutput"]["permissionDecisionReason"]

    def test_a_later_process_of_the_same_number_is_not_meant(self, conversation: Hooked) -> None:
        known = client_register.registered(PID)
        assert known is not None
        late = Registration(known.program, known.session, known.client, "long ago", known.root)
        client_register.register(PID, late)
        moved(conversation.project)
        assert client_register.registered(PID) is None
        assert registrations(conversation.project) == []


class TestWithoutAPlaceForTheUsersState:
    def test_a_home_that_cannot_be_written_leaves_one_place(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blocked = project.write("blocked", "a file\n")
        monkeypatch.setenv("HOME", str(blocked))
        conversation = Hooked(project)
        conversation.types(RUN)
        assert "Expected now" in writes(conversation).reason
        moved_in_part(project)
        assert writes(conversation) is None, "as the documents say"


# ── kills ───────────────────────────────────────────────────────────────────────────────────


def killed(number: int, action: Callable[[], None]) -> bool:
    """Whether a process that does this is killed at its write of that number."""
    child = os.fork()
    if not child:
        left = count(1)
        for name in ("rename", "replace", "link", "unlink"):
            _kill_at(name, number, left)
        try:
            action()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _kill_at(name: str, number: int, left: Any) -> None:
    real = getattr(os, name)

    def write(*args: Any, **named: Any) -> Any:
        if next(left) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **named)

    setattr(os, name, write)


@pytest.mark.parametrize("deed", ["bind", "unbind"])
def test_a_kill_at_any_write_leaves_a_session_that_is_supervised_or_free(
    conversation: Hooked, deed: str
) -> None:
    here = checkout.find(conversation.project.root)
    session = binding.bound(here)
    private = DiskStore(here).runtime(session)
    kills = 0
    for number in count(1):
        binding.bind(here, private, Binding(session, conversation.client, PID))
        if deed == "bind":
            binding.unbind(here, private)
            again = Binding(session, conversation.client, PID)
            hit = killed(number, lambda bound=again: binding.bind(here, private, bound))  # type: ignore[misc]
        else:
            hit = killed(number, lambda: binding.unbind(here, private))
        reply = writes(conversation)
        if reply is not None:
            assert "Expected now" in reply.reason, number
        assert (reply is None) is not (binding.bound(here) == session)
        conversation.types("/playbook.resume")
        assert registrations(conversation.project) == [str(PID)]
        assert writes(conversation) is not None
        conversation.types("/playbook.pause")
        assert writes(conversation) is None
        assert registrations(conversation.project) == []
        kills += hit
        if not hit:
            break
    assert kills >= 2
