"""When a session is committed and pushed, and what is reported."""

from __future__ import annotations

import pytest
from support.hook_calls import Hooked
from support.scratch_project import FEATURE, Project, remote
from support.stored_sessions import ask, failed, playbook, step, work

from playbook_supervisor.commands.driving import driving
from playbook_supervisor.drivers.observers import DriveResult
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.gate.gate_context import gate_context
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout

OK = Outcome(output="ok")
PLAYBOOKS = ".playbooks/playbooks"
FILES = ["journal.yaml", "playbook.yaml", "session.yaml"]


def publishing(name: str = "pr", **more: object) -> dict[str, object]:
    return step(name, postconditions=["pr_created"], **more)


def session(project: Project, *steps: dict[str, object] | str) -> SessionTree:
    store = DiskStore(checkout.find(project.root))
    text = playbook(*steps)
    return SessionTree(store, store.create(playbook="sample", text=text, feature=FEATURE, args={}))


def again(tree: SessionTree) -> SessionTree:
    """The same session in a new process."""
    return SessionTree(DiskStore(tree.store.checkout), tree.id)


def subjects(project: Project) -> list[str]:
    """Commits since the project's own, oldest first, without the session's id."""
    lines = project.git("log", "--reverse", "--format=%s", "main..HEAD").splitlines()
    return [line.replace(f" {project.session.name}", "") for line in lines]


def committed(project: Project, name: str = "journal.yaml") -> str:
    """A file of the session as the last commit has it."""
    return project.git("show", f"HEAD:.playbooks/sessions/{project.session.name}/{name}")


def setting(project: Project, text: str) -> None:
    project.write(".playbooks/config.yaml", f"{text}\n")


# ── when ────────────────────────────────────────────────────────────────────────────────────


def test_the_journal_is_committed_before_a_step_that_publishes_and_at_the_end(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kai FR40: the journal in the pull request knows of the very step that made it."""
    project.gh("open")
    monkeypatch.setenv("PATH", project.env["PATH"])
    tree = session(project, "a", publishing(autonomy="gate_always"))
    tree.begin()
    snapshot = tree.report("a#1", OK)
    assert (snapshot.notices, subjects(project)) == ((), [])
    snapshot = tree.answer(ask(snapshot).id, Resolution.CONTINUE, "continue", Principal("Ana"))
    assert snapshot.notices == ()
    snapshot = tree.advance()
    head = project.git("rev-parse", "--short=7", "HEAD")
    assert (work(snapshot).id, snapshot.notices) == (
        "pr#1",
        (f"the session is committed before pr: {head}",),
    )
    assert subjects(project) == ["Record session before pr"]
    assert "step_id: pr\n    status: in_progress" in committed(project)
    assert tree.advance().notices == ()
    assert tree.report("pr#1", OK).notices[0].startswith("the session is committed at its end: ")
    assert subjects(project) == ["Record session before pr", "Record session: completed"]
    assert "status: completed" in committed(project, "session.yaml")
    body = project.git("log", "-1", "--format=%b").splitlines()
    assert body == [
        f"sample {FEATURE}: 2/2 steps done",
        "",
        f"Playbook-Session: {tree.id}",
        "Playbook-Name: sample",
    ]


def test_each_settled_step_is_committed_where_that_is_wanted(project: Project) -> None:
    setting(project, "commit_sessions: step")
    tree = session(
        project, "a", step("b", autonomy="skip"), step("c", error_policy="retry_once"), "d"
    )
    tree.begin()
    tree.report("a#1", OK)
    assert subjects(project) == ["Record session after a, b"]
    tree.report("c#1", failed())
    tree.report("c#2", OK)
    tree.interrupt()
    tree.advance()
    tree.report("d#2", failed())
    assert subjects(project)[1:] == [
        "Record session after c",
        "Record session after c",
        "Record session after d",
        "Record session: failed",
    ]


def test_nothing_is_committed_where_that_is_not_wanted(project: Project) -> None:
    setting(project, "commit_sessions: never")
    tree = session(project, publishing(), "a")
    assert tree.begin().notices == ()
    assert tree.abort("abort", Principal("Ana")).notices == ()
    assert tree.close().notices == ()
    assert subjects(project) == []


def test_a_failed_session_is_committed_only_if_git_knows_it(project: Project) -> None:
    """A run that fails at its first step leaves no commit; one that was in git is closed there."""
    tree = session(project, "a", publishing())
    tree.begin()
    assert tree.report("a#1", failed()).notices == ()
    tree.go_on(retry=True)
    tree.report("a#2", OK)
    assert subjects(project) == ["Record session before pr"]
    assert tree.abort("abort", Principal("Ana")).notices
    assert subjects(project)[1:] == ["Record session: aborted"]
    assert "status: aborted" in committed(project, "session.yaml")


def test_a_session_aborted_at_its_gate_in_git_is_closed_there(project: Project) -> None:
    setting(project, "commit_sessions: step")
    tree = session(project, "a", step("b", autonomy="gate_always"))
    tree.begin()
    snapshot = tree.report("a#1", OK)
    assert "b#1?1" in committed(project)  # the gate that waits is in git, for another machine
    tree.answer(ask(snapshot).id, Resolution.ABORT, "abort", Principal("Ana"))
    assert subjects(project) == ["Record session after a", "Record session: aborted"]


# ── none of a step's work ───────────────────────────────────────────────────────────────────


def test_our_commit_is_not_shown_as_the_steps_work(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate shows what has changed since the session began, and in which commits."""
    project.gh("none")
    monkeypatch.setenv("PATH", project.env["PATH"])
    tree = session(project, publishing(error_policy="gate"))
    tree.begin()
    with tree.store.open(tree.id) as opened:
        assert opened.runtime.launches["pr#1"].head == project.git("rev-parse", "HEAD")
    assert again(tree).look().repeated
    project.write("made.py", "1\n")
    project.commit("The work")
    snapshot = tree.report("pr#1", OK)
    context = gate_context(snapshot)
    assert context is not None
    assert [line for line in context.changes if "|" in line] == [" made.py (new) | 1 +"]
    (commit,) = context.commits
    assert commit.endswith("The work")


# ── what git refuses ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (["switch", "-q", "--detach"], "HEAD is on no branch [PB-GIT-COMMIT]. `git switch` to one"),
        (["config", "core.hooksPath", "hooks"], "git commit was refused: not now [PB-GIT-COMMIT]"),
        (["config", "core.excludesFile", "ignored"], "git ignores .playbooks/sessions/"),
    ],
)
def test_a_refused_commit_is_reported_and_the_run_continues(
    project: Project, prepare: list[str], said: str
) -> None:
    project.write("hooks/pre-commit", "#!/bin/sh\necho not now >&2\nexit 1\n").chmod(0o755)
    project.write("ignored", ".playbooks/sessions\n")
    project.git(*prepare)
    tree = session(project, publishing(), "a")
    snapshot = tree.begin()
    (notice,) = snapshot.notices
    assert notice.startswith(f"the session is not committed: {said}")
    assert work(snapshot).id == "pr#1"
    assert subjects(project) == []


def test_resuming_commits_what_was_refused_at_the_end(project: Project) -> None:
    """Also what a kill has cut off: the end is journaled first, and committed then."""
    hook = project.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    tree = session(project, "a")
    tree.begin()
    (notice,) = tree.report("a#1", OK).notices
    assert "git commit was refused: no message" in notice
    hook.unlink()
    assert resumed(project).why == "completed"
    assert subjects(project) == ["Record session: completed"]
    assert resumed(project).snapshot.notices == ()


def resumed(project: Project) -> DriveResult:
    return driving.resume(project.session.name, cwd=project.root)


# ── the push ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def upstream(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    project.gh("open")
    monkeypatch.setenv("PATH", project.env["PATH"])
    return remote(project)


def published(project: Project, tree: SessionTree, snapshot: Snapshot) -> Snapshot:
    """The step `pr` has pushed the branch, as `/feature.pr` does, and come back."""
    assert work(snapshot).id == "pr#1"
    project.git("push", "-q")
    return tree.report("pr#1", OK)


def test_the_closing_commit_follows_into_the_pull_request(
    project: Project, upstream: Project
) -> None:
    """kai FR14: what is in the pull request does not stay `in_progress` for ever."""
    tree = session(project, publishing())
    snapshot = published(project, tree, tree.begin())
    assert snapshot.notices[1] == f"its last commit is pushed to origin/{FEATURE}"
    place = f"{FEATURE}:.playbooks/sessions/{tree.id}/session.yaml"
    assert "status: completed" in upstream.git("show", place)


def test_a_refused_push_is_reported_and_repeated_by_a_resume(
    project: Project, upstream: Project
) -> None:
    tree = session(project, publishing())
    snapshot = tree.begin()
    project.git("push", "-q")
    hook = upstream.write("hooks/pre-receive", "#!/bin/sh\necho closed today >&2\nexit 1\n")
    hook.chmod(0o755)
    snapshot = tree.report("pr#1", OK)
    assert snapshot.notices[1].startswith("the session is not pushed: git push was refused: ")
    assert "[PB-GIT-PUSH]" in snapshot.notices[1]
    hook.unlink()
    resumed(project)
    assert upstream.git("rev-parse", FEATURE) == project.git("rev-parse", "HEAD")


# ── in Claude Code ──────────────────────────────────────────────────────────────────────────


def test_a_hook_commits_too_and_shows_it_to_the_person(project: Project) -> None:
    """Hooks carry out no step; the journal goes into the pull request all the same."""
    steps = step("plan", command="/speckit.plan"), publishing(command="/feature.pr")
    project.write(f"{PLAYBOOKS}/sample.yaml", playbook(*steps).decode())
    hooked = Hooked(project)
    hooked.types("/playbook.run sample")
    reply = hooked.does("plan#1", "speckit.plan")
    assert reply is not None
    assert reply.snapshot is not None
    (notice,) = reply.snapshot.notices
    assert notice.startswith("the session is committed before pr: ")
    assert subjects(project) == ["Record session before pr"]
    reply = hooked.types("/playbook.abort")
    assert "the session is committed at its end: " in reply.shown
    assert subjects(project)[1:] == ["Record session: aborted"]
