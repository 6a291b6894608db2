"""A worker takes a session, and advances it until it waits or ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.controlled_time import eventually

from fleet.local_fleet import ADA, FREE, WORKS, Fleet
from playbook_supervisor.errors import FleetError, GitError, StorageError
from playbook_supervisor.fleet.engine import outcome
from playbook_supervisor.fleet.engine.lease import Term
from playbook_supervisor.fleet.storage.rows import State
from playbook_supervisor.formats.versions import is_newer

SLEEPS = WORKS.replace("say: planned,", "say: planned, seconds: 30,")


def publish_free(fleet: Fleet) -> None:
    fleet.project.write(".playbooks/playbooks/free.yaml", FREE)
    fleet.project.commit("Add a playbook without gates")
    fleet.project.git("push", "-q", "origin", "HEAD")


def test_a_session_is_carried_to_its_gate_and_nothing_of_it_stays_on_the_machine(
    fleet: Fleet,
) -> None:
    session = fleet.submit()
    row = fleet.advance(session)
    assert (row.state, row.gate, row.choices[0]) == (State.WAITING, "tasks#1?1", "continue")
    assert (row.worker, row.lease_until, row.epoch) == ("", 0, 1)
    assert fleet.kept(session, "plan.md") == "# Plan"
    assert f"Record session {session} at a gate" in fleet.origin.git("log", "-1", row.branch)
    assert fleet.subjects(session) == ["Snapshot", "Claim", "Snapshot", "Snapshot"]
    assert list((fleet.folder / "one").iterdir()) == []
    assert any("waits at gate tasks#1?1" in sentence for sentence in fleet.told)


def test_an_answer_is_journaled_with_its_person_and_another_machine_goes_on(fleet: Fleet) -> None:
    session = fleet.submit()
    fleet.advance(session)
    fleet.answer(session, "continue: read it")
    assert fleet.advance(session, "two").state is State.COMPLETED
    journal = fleet.journal(session)
    assert f'by: "{ADA}", via: fleet' in journal
    assert 'text: "continue: read it"' in journal
    assert journal.count("step_id: plan") == 1
    assert fleet.kept(session, "made.py") == "1"
    assert fleet.audit().code == 0


def test_a_cancelled_session_is_aborted_at_its_gate(fleet: Fleet) -> None:
    session = fleet.submit()
    fleet.advance(session)
    fleet.database.cancel(session, "not needed", ADA)
    row = fleet.advance(session)
    assert row.state is State.ABORTED
    assert "not needed" in fleet.journal(session)
    subject = fleet.origin.git("log", "-1", "--format=%s", row.branch)
    assert subject == f"Record session {session}: aborted"


def test_a_cancelled_session_is_aborted_while_its_agent_works(fleet: Fleet) -> None:
    session = fleet.submit(script=SLEEPS)
    fleet.term = Term(6.0)
    with fleet.advancing(session):
        assert eventually(lambda: fleet.subjects(session)[2:] == ["Snapshot"])
        fleet.database.cancel(session, "not needed", ADA)
    assert fleet.row(session).state is State.ABORTED
    assert "not needed" in fleet.journal(session)


def test_a_worker_that_is_asked_to_stop_puts_back_what_it_has_in_hand(fleet: Fleet) -> None:
    session = fleet.submit(script=SLEEPS)
    with fleet.advancing(session):
        assert eventually(lambda: fleet.subjects(session)[2:] == ["Snapshot"])
        fleet.stopping.set()
    row = fleet.row(session)
    assert (row.state, row.failures) == (State.QUEUED, 0)
    assert "interrupted" in fleet.journal(session)


@pytest.mark.long
def test_agents_end_before_a_lease_that_cannot_be_renewed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = fleet.submit(script=SLEEPS)
    fleet.term = Term(6.0)

    def away(*_: object) -> None:
        raise FleetError("PB-FLEET-DATABASE", "it is away")

    monkeypatch.setattr(type(fleet.database), "renew", away)
    began = time.monotonic()
    fleet.advance(session)
    assert time.monotonic() - began < 6.0
    assert "interrupted" in fleet.journal(session)


def test_a_worker_whose_lease_another_has_pushes_nothing_more(fleet: Fleet) -> None:
    session = fleet.submit(script=SLEEPS)
    fleet.term = Term(6.0)
    with fleet.advancing(session):
        assert eventually(lambda: fleet.subjects(session)[2:] == ["Snapshot"])
        fleet.mirror().claim(fleet.mirror().tip(session), 2, "two")
        fleet.stopping.set()
    assert fleet.subjects(session) == ["Snapshot", "Claim", "Snapshot", "Claim"]
    assert any("given up" in sentence for sentence in fleet.told)


def test_a_child_that_is_killed_counts_as_a_first_failure_if_a_step_was_done(fleet: Fleet) -> None:
    publish_free(fleet)
    session = fleet.submit(
        "free", script=WORKS.replace("implement: {", "implement: {seconds: 30, ")
    )
    for _ in range(2):
        lease = fleet.database.take(session, "two", 60.0)
        assert lease
        fleet.database.put_off(lease, "PB-GIT-REMOTE", "away")
        fleet.database.retry(session)
    with fleet.advancing(session):
        assert eventually(lambda: "step_id: implement" in fleet.journal(session))
        (child,) = (fleet.folder / "one").glob("*/child")
        os.kill(json.loads(child.read_text())["pid"], signal.SIGTERM)
    row = fleet.row(session)
    assert (row.state, row.error) == (State.QUEUED, "PB-STATE-INTERRUPTED")
    assert row.failures == 1


def test_a_snapshot_that_cannot_be_made_puts_the_session_off(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = fleet.submit()

    def full(*_: object, **__: object) -> None:
        raise StorageError("PB-IO-WRITE", "the disk is full")

    monkeypatch.setattr("playbook_supervisor.fleet.engine.session_ref.SessionClone.snapshot", full)
    monkeypatch.setattr("playbook_supervisor.fleet.engine.advance._AGAIN", 0.1)
    monkeypatch.setattr("playbook_supervisor.fleet.engine.advance._UNFIT", 1.0)
    with fleet.advancing(session):
        assert eventually(lambda: fleet.row(session).failures == 1)
        put_off = time.monotonic()
    assert time.monotonic() - put_off > 0.5, "other sessions are left to other workers meanwhile"
    row = fleet.row(session)
    assert (row.state, row.error) == (State.QUEUED, "PB-IO-WRITE")


def test_a_remote_that_is_away_costs_no_step(fleet: Fleet) -> None:
    session = fleet.submit(script=WORKS.replace("say: planned,", "say: planned, seconds: 1,"))
    aside = fleet.origin.root.with_name("aside.git")
    with fleet.advancing(session):
        assert eventually(lambda: fleet.subjects(session)[2:] == ["Snapshot"])
        fleet.origin.root.rename(aside)
        assert eventually(lambda: any("not pushed yet" in each for each in fleet.told))
        aside.rename(fleet.origin.root)
    assert fleet.row(session).state is State.WAITING
    assert fleet.journal(session).count("step_id: plan") == 1


def test_a_remote_that_cannot_be_reached_puts_the_session_off(fleet: Fleet) -> None:
    session = fleet.submit()
    fleet.origin.root.rename(fleet.origin.root.with_name("aside.git"))
    row = fleet.advance(session)
    assert (row.state, row.error, row.failures) == (State.QUEUED, "PB-GIT-REMOTE", 1)
    assert row.due_at > row.changed_at
    assert str(fleet.origin.root) not in row.said


def test_a_worker_without_space_leaves_the_session_to_others(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playbook_supervisor.system.disk.files._LEAST_SPACE", 1 << 60)
    monkeypatch.setattr("playbook_supervisor.fleet.engine.advance._UNFIT", 0.0)
    session = fleet.submit()
    row = fleet.advance(session)
    assert (row.state, row.error) == (State.QUEUED, "PB-IO-WRITE")
    assert fleet.subjects(session) == ["Snapshot"]


def test_a_branch_that_someone_pushed_to_is_not_forced(fleet: Fleet) -> None:
    session = fleet.submit()
    branch = fleet.row(session).branch
    other = fleet.project.root.with_name("other")
    subprocess.run(["git", "clone", "-q", str(fleet.origin.root), str(other)], check=True)
    fleet.project.git("push", "-q", "origin", f"HEAD~1:refs/heads/{branch}x")
    for command in (
        ["switch", "-q", "--orphan", "elsewhere"],
        ["commit", "-q", "--allow-empty", "-m", "Theirs"],
        ["push", "-q", "--force", "origin", f"HEAD:refs/heads/{branch}"],
    ):
        subprocess.run(["git", *command], cwd=other, check=True)
    theirs = fleet.origin.git("rev-parse", f"refs/heads/{branch}")
    row = fleet.advance(session)
    assert (row.state, row.error) == (State.STUCK, "PB-FLEET-BRANCH")
    assert fleet.kept(session, "plan.md") == "# Plan"
    assert fleet.origin.git("rev-parse", f"refs/heads/{branch}") == theirs
    fleet.origin.git("update-ref", "-d", f"refs/heads/{branch}")
    fleet.database.retry(session)
    assert fleet.advance(session).state is State.WAITING


def test_a_restored_database_takes_the_epoch_of_the_repository(fleet: Fleet) -> None:
    session = fleet.submit()
    mirror = fleet.mirror()
    mirror.claim(mirror.tip(session), 7, "long-ago")
    row = fleet.advance(session)
    assert (row.state, row.epoch) == (State.WAITING, 8)


def test_a_session_of_a_newer_version_is_left_to_a_newer_worker(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = fleet.submit()
    mirror = fleet.mirror()
    clone = mirror.checkout(mirror.tip(session), fleet.folder / "clone")
    manifest = clone.path / f".playbooks/sessions/{session}/session.yaml"
    manifest.write_text(manifest.read_text().replace("schema: 1", "schema: 2"))
    monkeypatch.setattr("playbook_supervisor.fleet.engine.session_ref.__version__", "99.0.0")
    clone.snapshot(mirror.tip(session))
    row = fleet.advance(session)
    assert (row.state, row.needs) == (State.QUEUED, "99.0.0")
    fleet.database.retry(session)
    assert fleet.advance(session, "two").needs == "99.0.0"
    assert "left to a newer worker" in fleet.told[-1]


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"agents": ("claude",)}, "PB-FLEET-SETTINGS"),
        ({"repositories": ("https://github.com/acme/*",)}, "PB-FLEET-REPOSITORY"),
        ({"transports": ("https",)}, "PB-FLEET-REPOSITORY"),
    ],
)
def test_a_worker_leaves_what_its_settings_do_not_allow(
    fleet: Fleet, settings: dict[str, object], code: str
) -> None:
    session = fleet.submit()
    fleet.settle(**settings)
    row = fleet.advance(session)
    assert (row.state, row.error, row.failures) == (State.QUEUED, code, 1)


def test_a_worker_may_have_to_allow_the_agents_of_steps(fleet: Fleet) -> None:
    steps = "steps:\n  - {id: a, command: prompt, agent: '{{who}}', with: {text: A}}\n"
    args = "args: [{name: who, description: An agent, required: false, default: claude}]\n"
    head = f'description: Work\nversion: "1.2"\n{args}'
    fleet.project.write(".playbooks/playbooks/two.yaml", f"name: two\n{head}{steps}")
    fleet.project.commit("Two agents")
    fleet.project.git("push", "-q")
    session = fleet.submit("two", agent="exec:true")
    fleet.settle(agents=("exec",))
    row = fleet.advance(session)
    assert (row.state, row.error) == (State.QUEUED, "PB-FLEET-SETTINGS")
    assert any("do not allow the agent claude" in line for line in fleet.logged)


def test_a_limit_of_the_worker_is_one_that_the_agent_must_keep(fleet: Fleet) -> None:
    session = fleet.submit()
    fleet.settle(max_cost_usd=2.5)
    row = fleet.advance(session)
    assert (row.state, row.error) == (State.STUCK, "PB-ARG-AGENT")
    assert any("--max-cost-usd" in line for line in fleet.logged)


def test_an_agent_that_is_missing_here_may_be_found_elsewhere(fleet: Fleet) -> None:
    session = fleet.submit()
    script = Path(fleet.project.script(WORKS).removeprefix("script:"))
    script.rename(script.with_name("moved.yaml"))
    row = fleet.advance(session)
    assert row.state is State.QUEUED
    assert "step_id" not in fleet.journal(session)


@pytest.mark.long
def test_a_session_has_not_ended_before_its_branch_says_so(fleet: Fleet) -> None:
    program = fleet.folder.with_name("agent")
    program.write_text(
        "#!/bin/sh\necho done\n[ $PLAYBOOK_STEP = implement ] || exit 0\n"
        "mkdir -p .git/hooks; cd .git/hooks\n"
        'echo "exit 1" >pre-commit; chmod +x pre-commit\n'
    )
    program.chmod(0o755)
    session = fleet.submit(agent=f"exec:{program}")
    fleet.advance(session)
    fleet.answer(session, "continue")
    row = fleet.advance(session)
    assert (row.state, row.error) == (State.QUEUED, "PB-GIT-COMMIT")
    assert fleet.advance(session).state is State.COMPLETED
    manifest = fleet.origin.git("show", f"{row.branch}:.playbooks/sessions/{session}/session.yaml")
    assert "status: completed" in manifest
    assert fleet.journal(session).count("step_id:") == 3


def test_a_bug_of_the_worker_loses_no_session(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = fleet.submit()

    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("playbook_supervisor.fleet.engine.session_ref.Mirror.checkout", broken)
    row = fleet.advance(session)
    assert (row.state, row.error, row.failures) == (State.QUEUED, "PB-BUG", 1)
    assert "oops" not in row.said
    assert any("ZeroDivisionError" in line for line in fleet.logged)


def test_what_is_pushed_counts_even_if_the_database_is_away_for_good(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = fleet.submit()
    monkeypatch.setattr("playbook_supervisor.fleet.engine.advance._AGAIN", 0.1)

    def away(*_: object) -> None:
        raise FleetError("PB-FLEET-DATABASE", "it is away")

    with monkeypatch.context() as patch:
        patch.setattr(type(fleet.database), "wait", away)
        assert fleet.advance(session).state is State.RUNNING
    assert "opened_at" in fleet.journal(session)


def test_the_database_is_told_no_words_of_git_or_of_an_agent() -> None:
    git = GitError("PB-GIT-FAILED", "git push failed: token=abc", cause="token=abc")
    assert outcome.sentence(git) == "git failed on the worker"
    disk = StorageError("PB-IO-READ", "cannot read /secret")
    assert outcome.sentence(disk) == "it failed on the worker"
    assert outcome.lasts(git) is False


def test_a_session_is_advanced_on_its_own_branch_alone(fleet: Fleet) -> None:
    """Neither is its gate answered, nor does a step run, and the row says why."""
    session = fleet.submit()
    branch = fleet.row(session).branch
    fleet.advance(session)
    mirror = fleet.mirror()
    clone = mirror.checkout(mirror.tip(session), fleet.folder / "clone")
    manifest = clone.path / f".playbooks/sessions/{session}/session.yaml"
    manifest.write_text(manifest.read_text().replace(f"branch: {branch}", "branch: elsewhere"))
    clone.snapshot(mirror.tip(session))
    before = fleet.journal(session)
    fleet.answer(session, "continue")
    row = fleet.advance(session)
    assert row.error == "PB-STATE-BRANCH"
    assert f"is on branch elsewhere, and {branch} is checked out here" in "\n".join(fleet.told)
    assert fleet.journal(session) == before


def test_versions_are_compared_by_their_numbers() -> None:
    assert is_newer("1.10.0", "1.9.0")
    assert not is_newer("1.9.0", "1.10.0")
    assert not is_newer("nonsense", "1.0.0")
    assert not is_newer("", "0.1.0")


def test_a_policy_decides_whose_answer_counts(fleet: Fleet) -> None:
    policy = "- match: {step: tasks}\n  answered_by: [grace@example.org]\n"
    fleet.project.write(".playbooks/policies/who.yaml", policy)
    fleet.project.commit("Let Grace decide")
    fleet.project.git("push", "-q")
    session = fleet.submit()
    fleet.advance(session)
    fleet.answer(session, "continue")
    row = fleet.advance(session)
    assert row.state is State.WAITING
    assert "grace@example.org" in row.said
    fleet.answer(session, "continue", by="Grace <grace@example.org>")
    assert fleet.advance(session).state is State.COMPLETED
