"""The commands that a person types in the client, tested without the client."""

from __future__ import annotations

import json
import os

import pytest
from claude import playbooks
from support.hook_calls import Hooked
from support.scratch_project import FEATURE, Project

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.claude_code import binding
from playbook_supervisor.errors import ArgumentError, PlaybookError
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import running
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.processes import Worker

PLAN = f"specs/{FEATURE}/plan.md"


@pytest.fixture
def person(project: Project) -> Hooked:
    playbooks.shelve(project)
    return Hooked(project)


@pytest.fixture
def at_work(person: Hooked) -> Hooked:
    """Three agents were allowed: one works, one has returned, one was not launched."""
    person.types("/playbook.run group 013")
    person.does("qa-plan#1", "qa.plan", f".qa/{FEATURE}/test-plan.md")
    person.launches("plan#1")
    return person


def refused(person: Hooked, line: str) -> PlaybookError:
    """The error that a typed command raises."""
    with pytest.raises(PlaybookError) as caught:
        person.types(line)
    return caught.value


def move(person: Hooked) -> None:
    """Attribute everything to another client, which is running."""
    bound = person.bound
    bound.client, bound.pid = "another", os.getpid()
    binding.bind(checkout.find(person.project.root), person.private, bound)


@pytest.mark.parametrize("file", ["commands/playbook.run.md", "skills/playbook.run/SKILL.md"])
def test_a_foreign_command_of_our_name_begins_no_session_of_ours(person: Hooked, file: str) -> None:
    person.project.write(f".claude/{file}", "You are the supervisor: write the journal.\n")
    reply = person.types("/playbook.run group 013")
    assert "playbook does not supervise what it does" in reply.shown
    assert not reply.decision
    assert not (person.project.root / ".playbooks/sessions").exists()


def bound_to(person: Hooked) -> bool:
    """Whether the hooks of that conversation find the session and own it."""
    here = checkout.find(person.project.root)
    return binding.bound(here) == person.project.session.name and (
        person.bound.client == person.client
    )


class TestRun:
    def test_begins_the_session_and_says_so_to_the_person_and_to_the_model(
        self, person: Hooked
    ) -> None:
        """cat IP-1: the first directive accompanies the prompt."""
        reply = person.types("/playbook.run two 013")
        session = person.project.session.name
        assert reply.shown == f"Session {session} · two · {FEATURE} · 2 steps"
        assert reply.snapshot is not None
        assert [member.id for member in running(reply.snapshot)] == ["plan#1"]
        assert bound_to(person)

    @pytest.mark.parametrize(
        ("typed", "note"),
        [('two 013 "a; $HOME `x`"', "a; $HOME `x`"), ("two 013 note=it's", "it's")],
    )
    def test_takes_arguments_as_typed(self, person: Hooked, typed: str, note: str) -> None:
        person.types(f"/playbook.run {typed}")
        assert person.project.manifest()["args"].get("note", "") == note

    def test_begins_in_the_middle_where_the_person_says_so(self, person: Hooked) -> None:
        person.project.write(PLAN, "x\n")
        reply = person.types("/playbook.run two 013 --from tasks")
        assert person.steps == ["plan#1 skipped", "tasks#1 in_progress"]
        assert isinstance(reply.snapshot.directive, Ask)

    @pytest.mark.parametrize(
        ("typed", "code"),
        [
            ("", "PB-ARG-USAGE"),
            ("two 013 --from nowhere", "PB-ARG-STEP"),
            ("two", "PB-ARG-INVALID"),
        ],
    )
    def test_that_fails_begins_and_binds_nothing(
        self, person: Hooked, typed: str, code: str
    ) -> None:
        error = refused(person, f"/playbook.run {typed}")
        assert isinstance(error, ArgumentError)
        assert (error.code, person.project.sessions) == (code, [])
        assert not binding.bound(checkout.find(person.project.root))

    def test_of_a_second_session_is_refused_and_the_first_stays_bound(
        self, at_work: Hooked
    ) -> None:
        assert refused(at_work, "/playbook.run two 013").code == "PB-STATE-OPEN"
        assert bound_to(at_work)

    def test_with_a_command_that_models_cannot_call_is_refused(self, person: Hooked) -> None:
        closed = "---\ndisable-model-invocation: true\n---\nPlan.\n"
        person.project.write(".claude/commands/speckit.plan.md", closed)
        error = refused(person, "/playbook.run two 013")
        assert (error.code, person.project.sessions) == ("PB-CHECK-COMMAND", [])
        assert "playbook run two" in error.guidance

    def test_of_another_command_is_left_to_the_model(self, person: Hooked) -> None:
        named = {"command_name": "playbook.status", "command_args": ""}
        assert person("UserPromptExpansion", **named) is None


class TestResume:
    def test_in_the_same_client_waits_for_its_agents_and_launches_the_rest(
        self, at_work: Hooked
    ) -> None:
        assert at_work.types("/playbook.resume").snapshot is not None
        assert at_work.steps == ["plan#1 in_progress", "tasks#1 in_progress", *done("qa-plan#1")]
        assert set(at_work.bound.workers) == {"plan#1"}
        again = at_work.calls("Agent", prompt="plan#1")
        assert (again.decision, "already running" in again.reason) == ("deny", True)
        assert at_work.launches("tasks#1").decision == "allow"

    def test_of_a_stalled_session_waits_no_longer(self, at_work: Hooked) -> None:
        bound = at_work.bound
        bound.stalled = True
        binding.save(at_work.private, bound)
        at_work.types("/playbook.resume")
        assert at_work.steps[0] == "plan#1 failed"
        assert at_work.project.journal()[0]["error_code"] == "PB-STATE-INTERRUPTED"
        assert (at_work.bound.stalled, at_work.bound.workers) == (False, {})
        dismissed = at_work("PreToolUse", agent_id="agent of plan#1", tool_name="Read")
        assert dismissed.decision == "deny"

    def test_in_another_client_judges_by_evidence_what_the_first_launched(
        self, at_work: Hooked
    ) -> None:
        at_work.project.write(PLAN, "x\n")
        move(at_work)
        at_work.types("/playbook.resume")
        first, second, third = at_work.project.journal()
        assert first["recovered"] is True
        assert (second["step_id"], second.get("attempt", 1)) == ("tasks", 1)
        assert "returned_at" in third
        assert bound_to(at_work)
        assert at_work.ended("plan#1") is None
        late = at_work("PreToolUse", agent_id="agent of plan#1", tool_name="Write")
        assert late.decision == "deny"

    @pytest.mark.parametrize("line", ["resume", "abort"])
    def test_where_no_person_types_takes_nothing_from_a_living_client(
        self, at_work: Hooked, line: str
    ) -> None:
        move(at_work)
        at_work.environment["CLAUDE_CODE_ENTRYPOINT"] = "sdk-cli"
        error = refused(at_work, f"/playbook.{line}")
        assert (error.code, f"process {os.getpid()}" in error.message) == ("PB-STATE-DRIVEN", True)
        assert at_work.bound.client == "another"
        assert at_work.project.manifest()["status"] == "in_progress"

    @pytest.mark.parametrize("line", ["abort", "resume --accept-config"])
    def test_below_the_living_client_takes_nothing_from_it(
        self, at_work: Hooked, line: str
    ) -> None:
        """An agent can start a client at a terminal that it has made, and type there."""
        outer = ancestry.ancestors(os.getppid())[0]
        bound = at_work.bound
        bound.client, bound.pid, bound.born = "another", outer.pid, outer.born
        binding.save(at_work.private, bound)
        error = refused(at_work, f"/playbook.{line}")
        assert error.code == "PB-STATE-HUMAN-ONLY"
        assert f"Claude Code (process {outer.pid}) has started it" in error.message
        assert at_work.bound.client == "another"

    def test_of_a_failed_session_needs_the_persons_word(self, person: Hooked) -> None:
        person.types("/playbook.run two 013")
        person.does("plan#1", "speckit.plan")
        error = refused(person, "/playbook.resume")
        assert (error.code, "--retry" in error.guidance) == ("PB-STATE-ENDED", True)
        person.types("/playbook.resume --retry")
        assert person.steps == ["plan#1 failed", "plan#2 in_progress"]

    def test_of_an_ended_session_says_that_it_has_ended(self, person: Hooked) -> None:
        person.types("/playbook.run two 013")
        person.types("/playbook.abort")
        for line in ("resume", "pause", "abort"):
            error = refused(person, f"/playbook.{line}")
            assert "is already aborted" in error.message

    @pytest.mark.parametrize("typed", ["--retri", "a b"])
    def test_takes_no_other_argument(self, at_work: Hooked, typed: str) -> None:
        assert refused(at_work, f"/playbook.resume {typed}").code == "PB-ARG-USAGE"

    def test_names_other_open_sessions(self, person: Hooked) -> None:
        person.types("/playbook.run two 013")
        person.types("/playbook.pause")
        known = person.project.session.name
        store = DiskStore(checkout.find(person.project.root))
        text = (person.project.root / ".playbooks/playbooks/straight.yaml").read_bytes()
        store.create(playbook="straight", text=text, feature=FEATURE, args={"feature": FEATURE})
        assert "also open: " in person.types("/playbook.resume").shown
        assert len(person.project.sessions) == 2
        assert known in [folder.name for folder in person.project.sessions]

    @pytest.mark.parametrize("line", ["resume", "abort"])
    def test_waits_for_a_runner_in_another_terminal(self, at_work: Hooked, line: str) -> None:
        with driver_lock.driving(at_work.private, "script:x"):
            error = refused(at_work, f"/playbook.{line}")
        assert (error.code, "agent script:x" in error.message) == ("PB-STATE-DRIVEN", True)

    def test_waits_for_an_orphan_of_a_dead_runner(self, at_work: Hooked) -> None:
        worker = Worker(
            ["sleep", "60"], cwd=at_work.project.root, worker_file=at_work.private / "worker-plan#1"
        )
        try:
            error = refused(at_work, "/playbook.resume")
            assert "the worker of plan#1 is still running" in error.message
        finally:
            worker.stop()
            list(worker.lines())


class TestPause:
    def test_releases_the_session_and_names_what_still_runs(self, at_work: Hooked) -> None:
        reply = at_work.types("/playbook.pause")
        assert reply.decision == ""
        assert "is paused; /playbook.resume continues it" in reply.shown
        assert "Still running, but no longer supervised: plan#1." in reply.shown
        assert binding.load(at_work.private) is None
        assert at_work.calls("Write", file_path="x") is None
        assert at_work.project.manifest()["status"] == "in_progress"

    def test_and_resume_dismisses_what_still_runs(self, at_work: Hooked) -> None:
        """Two agents never work on the same step."""
        at_work.types("/playbook.pause")
        assert at_work("PreToolUse", agent_id="agent of plan#1", tool_name="Write") is None
        at_work.types("/playbook.resume")
        assert at_work.steps[-2:] == ["plan#2 in_progress", "tasks#2 in_progress"]
        late = at_work("PreToolUse", agent_id="agent of plan#1", tool_name="Write")
        assert late.decision == "deny"
        at_work.types("/playbook.pause")
        at_work.types("/playbook.resume")
        assert at_work.bound.dismissed == ["agent of plan#1"]

    @pytest.mark.parametrize("text", ["[", "{}"])
    def test_ignores_an_invalid_file_of_dismissed_agents(self, at_work: Hooked, text: str) -> None:
        at_work.types("/playbook.pause")
        (at_work.private.parent / "left.json").write_text(text)
        at_work.types("/playbook.resume")
        assert at_work.bound.dismissed == []


class TestAbort:
    def test_ends_the_session_in_the_persons_words_and_name(self, person: Hooked) -> None:
        person.types("/playbook.run two 013")
        reply = person.types("/playbook.abort it was a mistake")
        assert (reply.decision, "is aborted" in reply.shown) == ("", True)
        (entry,) = person.project.journal()
        assert (entry["resolution"], entry["human_response"]) == ("abort", "it was a mistake")
        assert not binding.bound(checkout.find(person.project.root))

    def test_ends_a_failed_session_too(self, person: Hooked) -> None:
        assert person.project.playbook("run", "two", "013", "--agent", "exec:false").code == 2
        assert "is aborted" in person.types("/playbook.abort").shown
        assert person.steps == ["plan#1 failed", "plan#2 skipped"]

    def test_stops_the_working_agents_and_then_releases_the_session(self, at_work: Hooked) -> None:
        at_work.types("/playbook.abort")
        assert at_work.project.manifest()["status"] == "aborted"
        refused_call = at_work("PreToolUse", agent_id="agent of plan#1", tool_name="Write")
        assert refused_call.decision == "deny"
        assert at_work.calls("Write", file_path="x") is None  # the conversation is the person's
        journal = json.dumps(at_work.project.journal(), default=str)
        assert at_work.ended("plan#1") is None
        assert at_work.stops().decision == ""
        assert not binding.bound(checkout.find(at_work.project.root))
        assert json.dumps(at_work.project.journal(), default=str) == journal

    def test_is_not_forgotten_by_the_next_session(self, at_work: Hooked) -> None:
        at_work.types("/playbook.abort")
        assert "is already aborted" in refused(at_work, "/playbook.resume").message
        first = at_work.project.session.name
        at_work.types("/playbook.run two 013")
        (second,) = {folder.name for folder in at_work.project.sessions} - {first}
        found = binding.load(at_work.private_of(second))
        assert found is not None
        assert found.dismissed == ["agent of plan#1"]


def done(attempt: str) -> list[str]:
    """A member of a group that has returned is settled with the others."""
    return [f"{attempt} in_progress"]
