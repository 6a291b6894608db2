"""A session is carried on on its own branch, and on no other one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.controlled_time import wait_until
from support.hook_calls import Hooked
from support.in_process import Result
from support.scratch_project import FEATURE, Project
from test_journeys import kill

from playbook_supervisor.errors import StateError
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout

DEVELOP = """\
name: develop
description: A question, a file, and its commit
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: ask, command: checkpoint, with: {message: "Go?"}}
  - {id: more, command: "cli touch more.txt"}
  - {id: keep, command: commit, with: {message: more work, paths: ["*.txt"], push: false}}
"""
ONE = """\
name: one
description: One step
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: only, command: "STEP"}
  - {id: then, command: "cli touch then.txt"}
"""


def begun(project: Project, commits: str = "step") -> str:
    """A session that waits at its first gate on the feature's branch; its id."""
    project.write(".playbooks/playbooks/develop.yaml", DEVELOP)
    project.write(".playbooks/config.yaml", f"commit_sessions: {commits}\n")
    project.commit("A playbook")
    project.git("branch", "-f", "main")
    ran = project.playbook("run", "develop")
    assert ran.code == 4, ran.err
    if commits == "step":
        project.commit("The session as it is")
    return project.session.name


def one(project: Project, step: str) -> None:
    project.write(".playbooks/config.yaml", "allow: {cli: [sh, git, touch]}\n")
    text = ONE.replace('"STEP"', json.dumps(step))
    project.write(".playbooks/playbooks/one.yaml", text)
    project.commit("A playbook")


def manifests(project: Project) -> list[dict[str, object]]:
    """session.yaml of the session and of its child."""
    found = [yaml.safe_load((each / "session.yaml").read_text()) for each in project.sessions]
    assert len(found) == 2
    return found


def refused(done: Result, now: str = "main is checked out here") -> bool:
    said = f"is on branch {FEATURE}, and {now} [PB-STATE-BRANCH]"
    assert (done.code, said in done.err) == (3, True), done.err
    return True


def untouched(project: Project) -> bool:
    """Nothing was done or restored on main, so that the way home is free."""
    assert project.git("log", "-1", "--format=%s", "main") == "A playbook"
    assert project.git("status", "--porcelain", "--", ".", ":!.playbooks/sessions") == ""
    project.git("switch", "-q", FEATURE)
    return True


@pytest.mark.parametrize(
    ("commits", "command"),
    [("never", ["answer", "continue"]), ("step", ["resume"]), ("step", ["next", "--wait"])],
)
def test_nothing_is_done_on_another_branch(
    project: Project, commits: str, command: list[str]
) -> None:
    begun(project, commits)
    journal = project.journal()
    project.git("switch", "-q", "main")
    assert refused(project.playbook(*command))
    assert untouched(project)
    assert project.journal() == journal
    assert project.playbook("answer", "continue").code == 0
    assert project.playbook("resume").code == 0
    assert project.git("log", "--format=%s").count("more work") == 1


class TestTheRefusal:
    def test_names_the_worktree_that_has_the_branch(self, project: Project) -> None:
        """The answer is never given in the first checkout, which is on main."""
        name = begun(project)
        project.git("switch", "-q", "main")
        beside = project.root.parent / "beside"
        project.git("worktree", "add", "-q", str(beside), FEATURE)
        for command in (["answer", name, "continue"], ["resume", name]):
            done = project.playbook(*command, cwd=beside)
            assert refused(done)
            assert (
                f"{FEATURE} is checked out in {beside}: switch that worktree to another" in done.err
            )
        assert project.git("log", "-1", "--format=%s", "main") == "A playbook"
        project.git("worktree", "remove", "--force", str(beside))
        project.git("switch", "-q", FEATURE)
        assert project.playbook("answer", "continue").code == 0

    def test_holds_in_the_middle_of_a_rebase(self, project: Project) -> None:
        begun(project, "never")
        project.git("-c", "sequence.editor=sed -i 1s/pick/edit/", "rebase", "-q", "-i", "HEAD~1")
        done = project.playbook("resume")
        assert refused(done, "it is being rebased here")
        assert "Finish the rebase first: `git rebase --continue`, or `--abort`." in done.err
        project.git("rebase", "--continue")
        assert project.playbook("resume").code == 4


def test_a_listing_says_on_which_branch_a_session_is(project: Project) -> None:
    name = begun(project)
    project.git("switch", "-q", "main")
    for status in (project.playbook("status"), project.playbook("status", name)):
        assert (status.code, status.out.splitlines()[1]) == (
            0,
            f"  it is on branch {FEATURE}, and main is checked out here",
        )
        assert "WAITS FOR A HUMAN at ask#1?1" in status.out
    (shape,) = project.playbook("status", "--json").json["sessions"]
    assert (shape["branch"], "is on branch" in shape["problem"]) == (FEATURE, True)
    shown = project.playbook("show", name)
    assert (shown.code, "ask#1" in shown.out) == (0, True), shown.err
    assert untouched(project)


def test_another_playbook_runs_on_another_branch(project: Project) -> None:
    """Each session waits on its own branch, and the commands take the one that is here."""
    waits = begun(project)
    project.git("switch", "-q", "main")
    ran = project.playbook("run", "develop")
    assert ran.code == 4, ran.err
    assert project.playbook("answer", "continue").code == 0
    assert project.playbook("resume").code == 0
    assert project.git("log", "--format=%s", "main").count("more work") == 1
    status = project.playbook("status")
    assert (status.out.count("WAITS FOR A HUMAN"), waits in status.out) == (1, True)
    project.git("switch", "-q", FEATURE)
    assert project.playbook("answer", "skip").code == 0


class TestAPersonCanMoveIt:
    """A person alone: `test_guards.py`, `test_own_agents.py`."""

    def test_and_that_is_recorded(self, project: Project) -> None:
        name = begun(project)
        project.git("switch", "-q", "main")
        moved = project.playbook("resume", "--on-this-branch")
        assert moved.code == 4, moved.err
        manifest = project.manifest()
        assert manifest["branch"] == "main"
        (confirmed,) = manifest["confirmed"]
        assert confirmed["what"] == f"branch main instead of {FEATURE}"
        assert confirmed["by"]
        assert project.playbook("answer", "continue").code == 0
        ended = project.playbook("resume")
        assert ended.code == 0, ended.err
        assert "more work" in project.git("log", "--format=%s", "main")
        assert project.playbook("audit", name).code == 0

    def test_not_to_where_no_branch_is_checked_out(self, project: Project) -> None:
        begun(project)
        project.git("switch", "-q", "--detach", "main")
        done = project.playbook("resume", "--on-this-branch")
        assert refused(done, "no branch is checked out here")

    def test_not_to_a_branch_with_an_open_session(self, project: Project) -> None:
        name = begun(project)
        project.git("switch", "-q", "main")
        project.playbook("run", "develop")
        done = project.playbook("resume", name, "--on-this-branch")
        assert (done.code, "PB-STATE-OPEN" in done.err) == (3, True), done.err


class TestItGoesOn:
    """What only looks like another branch is none."""

    def on(self, project: Project) -> bool:
        assert project.playbook("answer", "continue").code == 0
        ended = project.playbook("resume")
        assert ended.code == 0, ended.err
        return True

    def test_after_its_branch_was_renamed(self, project: Project) -> None:
        begun(project)
        project.git("branch", "-m", "in-between")
        project.git("branch", "-m", "renamed")
        assert self.on(project)
        assert project.manifest()["branch"] == "renamed"

    def test_but_not_on_a_branch_into_which_a_removed_one_was_merged(
        self, project: Project
    ) -> None:
        begun(project)
        project.git("switch", "-q", "main")
        project.git("merge", "-q", FEATURE)
        project.git("branch", "-d", FEATURE)
        assert refused(project.playbook("resume"))

    def test_after_a_rebase(self, project: Project) -> None:
        begun(project)
        project.git("rebase", "-q", "--force-rebase", "HEAD~1")
        assert self.on(project)

    def test_where_no_branch_but_its_own_commit_is_checked_out(self, project: Project) -> None:
        begun(project)
        project.git("switch", "-q", "--detach")
        assert project.playbook("answer", "continue").code == 0
        project.playbook("resume")
        assert (project.root / "more.txt").exists()
        assert project.manifest()["branch"] == FEATURE

    def test_before_the_first_commit(self, tmp_path: Path, home: Path) -> None:
        fresh = Project(tmp_path / "fresh", home)
        fresh.write(".playbooks/playbooks/develop.yaml", DEVELOP)
        fresh.git("init", "-q", "-b", "feat")
        assert fresh.playbook("run", "develop").code == 4
        assert fresh.playbook("answer", "continue").code == 0


class TestAStepOfItsOwnThatSwitches:
    """The session follows it, as far as can be told that it was the step."""

    @pytest.mark.parametrize("step", ["cli git switch -q main", "cli sh make-branch"])
    def test_takes_the_session_along(self, project: Project, step: str) -> None:
        project.write("make-branch", "#!/bin/sh\ngit switch -q -c topic\n")
        one(project, step)
        project.git("branch", "-f", "main")
        ran = project.playbook("run", "one")
        assert ran.code == 0, ran.err
        branch = "main" if "main" in step else "topic"
        assert project.git("branch", "--show-current") == branch
        assert project.manifest()["branch"] == branch

    def test_is_not_a_person_who_switches_meanwhile(self, project: Project) -> None:
        """What the step brought back is journaled, and judged on the session's branch."""
        project.write("as-a-person", "#!/bin/sh\ngit switch -q main\n")
        one(project, "cli sh as-a-person")
        project.git("branch", "-f", "main")
        assert refused(project.playbook("run", "one"))
        assert not (project.root / "then.txt").exists()
        project.git("switch", "-q", FEATURE)
        (entry,) = project.journal()
        assert (entry["status"], "returned_at" in entry) == ("in_progress", True)
        assert project.playbook("resume").code == 0
        assert [each["step_id"] for each in project.journal()] == ["only", "then"]

    def test_takes_it_along_if_the_runner_is_killed_meanwhile(self, project: Project) -> None:
        """By its own words; a step that names no branch may have been lost before a person came."""
        one(project, "branch topic")
        hook = project.root / ".git/hooks/post-checkout"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\ntouch .git/switched\nsleep 60\n")
        hook.chmod(0o755)
        with project.spawn("run", "one") as runner:
            wait_until((project.root / ".git/switched").exists)
            kill(runner)
        hook.unlink()
        assert project.git("branch", "--show-current") == "topic"
        resumed = project.playbook("resume", "--kill")
        assert resumed.code == 0, resumed.err
        assert project.manifest()["branch"] == "topic"


CHILD = DEVELOP.replace("steps:", "steps:\n  - {id: switch, command: branch topic}")
PARENT = """\
name: parent
description: A child that switches
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: sub, command: playbook develop}
  - {id: then, command: "cli touch then.txt"}
"""


class TestASessionWithAChild:
    @pytest.fixture(autouse=True)
    def _begin(self, project: Project) -> None:
        project.write(".playbooks/playbooks/develop.yaml", CHILD)
        project.write(".playbooks/playbooks/parent.yaml", PARENT)
        project.commit("Playbooks")
        project.git("branch", "-f", "main")
        assert project.playbook("run", "parent").code == 4

    def test_is_refused_and_moved_as_a_whole(self, project: Project) -> None:
        assert {each["branch"] for each in manifests(project)} == {"topic"}
        assert "it is on branch" not in project.playbook("status").out
        assert "PB-STATE-OPEN" in project.playbook("run", "develop").err
        project.git("switch", "-q", "main")
        for command in (["answer", "continue"], ["resume"]):
            done = project.playbook(*command)
            assert (done.code, "is on branch topic, and main is checked out here" in done.err) == (
                3,
                True,
            )
        assert project.playbook("resume", "--on-this-branch").code == 4
        assert {each["branch"] for each in manifests(project)} == {"main"}
        assert project.playbook("answer", "continue").code == 0
        assert project.playbook("resume").code == 0


def test_a_step_that_switches_takes_ended_children_along(project: Project) -> None:
    one(project, "cli touch one.txt")
    text = PARENT.replace(
        "playbook develop}", "playbook one}\n  - {id: home, command: branch main}"
    )
    project.write(".playbooks/playbooks/parent.yaml", text)
    project.write(".playbooks/config.yaml", "allow: {cli: [touch, git]}\ncommit_sessions: step\n")
    project.commit("The parent")
    project.git("branch", "-f", "main")
    ran = project.playbook("run", "parent")
    assert ran.code == 0, ran.err
    assert project.git("branch", "--show-current") == "main"
    assert [each["status"] for each in manifests(project)] == ["completed", "completed"]
    assert project.playbook("audit", "--all").code == 0


class TestEndingIt:
    def test_is_possible_on_another_branch(self, project: Project) -> None:
        """This branch's files stay as they are; those of the session follow on its own."""
        name = begun(project)
        project.git("switch", "-q", "main")
        ended = project.playbook("abort", "-m", "not needed")
        assert ended.code == 0, ended.err
        assert f"session {name} is on branch {FEATURE}; this branch is left as it is" in ended.err
        assert "aborted" in project.playbook("status", "--all").out
        assert untouched(project)
        assert project.playbook("show", name).code == 0
        assert project.manifest()["status"] == "aborted"
        assert project.journal()[-1]["resolution"] == "abort"
        assert project.playbook("audit", name).code == 0

    def test_can_wait(self, project: Project) -> None:
        begun(project)
        project.git("switch", "-q", "main")
        assert project.playbook("pause").code == 0
        assert untouched(project)


# ── the other ways in ───────────────────────────────────────────────────────────────────────


def test_in_the_client_nothing_is_answered_or_launched(project: Project) -> None:
    begun(project)
    client = Hooked(project)
    client.types("/playbook.resume")
    project.git("switch", "-q", "main")
    said = f"is on branch {FEATURE}, and main is checked out here"
    reply = client.says("continue")
    assert said in (reply.note or reply.shown)
    assert untouched(project)
    assert project.journal()[-1]["status"] == "in_progress"


def test_in_the_client_no_agent_goes_to_work_on_another_branch(project: Project) -> None:
    one(project, "/speckit.plan")
    project.git("branch", "-f", "main")
    client = Hooked(project)
    client.types("/playbook.run one")
    project.git("switch", "-q", "main")
    said = f"is on branch {FEATURE}, and main is checked out here"
    launch = client.calls("Agent", description="only#1", prompt="only#1")
    assert (launch.decision, said in launch.reason) == ("deny", True)
    with pytest.raises(StateError, match=said):
        client.types("/playbook.resume")
    project.git("switch", "-q", FEATURE)
    client.types("/playbook.resume")
    assert client.calls("Agent", description="only#1", prompt="only#1").decision == "allow"


def test_a_token_approves_nothing_and_may_deny(project: Project) -> None:
    begun(project)
    token = project.playbook("resume", "--json").json["requiresApproval"]["resumeToken"]
    project.git("switch", "-q", "main")
    approved = project.playbook("resume", "--token", token, "--approve", "--json")
    assert approved.json["error"]["code"] == "PB-STATE-BRANCH"
    assert approved.json["error"]["message"].endswith("main is checked out here")
    denied = project.playbook("resume", "--token", token, "--deny", "--json")
    assert denied.json["status"] == "cancelled"
    assert untouched(project)


def test_files_that_do_not_fit_are_no_reason_to_go_on_elsewhere(project: Project) -> None:
    begun(project, "never")
    project.git("switch", "-q", "main")
    (project.session / "playbook.yaml").write_text("name: another\n")
    done = project.playbook("answer", "continue")
    assert done.code == 3
    assert "[PB-STATE-" in done.err


def test_a_supervisor_goes_on_when_a_person_has_come_back(project: Project) -> None:
    name = begun(project)
    tree = SessionTree(DiskStore(checkout.find(project.root)), name)
    tree.hold()
    before = tree.look()
    project.git("switch", "-q", "main")
    assert tree.look().directive == before.directive
    project.git("switch", "-q", FEATURE)
    assert tree.look().directive == before.directive
