"""Creating a session: completely or not at all, with what it is driven with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli.scripts import GATED, WORKS
from support.hook_calls import Hooked
from support.scratch_project import FEATURE, Project

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.vocabulary import Mode

BY_VARIABLE = 'if [ -n "$SPECIFY_FEATURE" ]; then\n'
BY_BRANCH = "git rev-parse --abbrev-ref HEAD\n"

LATER = """\
name: later
description: Another command, and then one of spec-kit
version: "1.0"
args:
  - {name: feature, description: The feature, required: true}
steps:
  - {id: qa-plan, command: /qa.plan, autonomy: auto, error_policy: stop}
  - {id: plan, command: /speckit.plan, autonomy: auto, error_policy: stop}
"""


def run(project: Project, *words: str, start: str = "") -> str:
    drive = DriveOptions(agent=project.script(WORKS))
    return driving.run(words[0], words[1:], start=start, drive=drive, cwd=project.root).why


def elsewhere(project: Project, script: str = BY_BRANCH) -> None:
    """A spec-kit that goes by the branch, on another one than the feature's."""
    project.write(".specify/scripts/bash/common.sh", script)
    project.git("switch", "-q", "-c", "999-elsewhere")


class TestWhereSpecKitWouldWorkOnAnotherFeature:
    @pytest.mark.parametrize(
        ("script", "begin"),
        [
            (BY_BRANCH, lambda project: run(project, "auto-feature", "013")),
            (BY_VARIABLE, lambda project: Hooked(project).types("/playbook.run auto-feature 013")),
            (
                BY_VARIABLE,
                lambda project: driving.begin("auto-feature", ["013"], cwd=project.root),
            ),
        ],
        ids=["a run", "what is typed in the client", "a client of its own"],
    )
    def test_no_session_is_created(
        self, project: Project, script: str, begin: Callable[[Project], object]
    ) -> None:
        elsewhere(project, script)
        with pytest.raises(StateError) as caught:
            begin(project)
        assert caught.value.code == "PB-STATE-SPECKIT"
        assert caught.value.guidance.startswith(f"Switch to it: git switch {FEATURE} ")
        assert project.sessions == []
        project.write(".playbooks/playbooks/gated.yaml", GATED)
        assert run(project, "gated") == "waiting"  # nothing else is open here

    def test_a_broken_pointer_creates_no_session(self, project: Project) -> None:
        project.write(".specify/feature.json", "[]")
        with pytest.raises(StateError, match=r"feature\.json is not a JSON object"):
            run(project, "auto-feature", "013")
        assert project.sessions == []

    def test_a_session_whose_first_step_is_not_spec_kits_begins(self, project: Project) -> None:
        """By the time that spec-kit is asked, the branch may be the right one."""
        project.write(".playbooks/playbooks/later.yaml", LATER)
        elsewhere(project)
        with pytest.raises(StateError, match="spec-kit takes its feature from the branch"):
            run(project, "later", "013")
        assert project.manifest()["status"] == "in_progress"
        project.git("switch", "-q", FEATURE)
        assert driving.resume(cwd=project.root, on_this_branch=True).why == "completed"


class TestASuggestedCommandNamesTheSession:
    """Without an id they mean what $PLAYBOOK_SESSION says, or what was active last."""

    def test_where_another_one_is_open(self, project: Project) -> None:
        project.write(".playbooks/playbooks/gated.yaml", GATED)
        run(project, "gated")
        with pytest.raises(StateError) as caught:
            run(project, "auto-validate", "013")
        name = project.session.name
        ways = f"`playbook resume {name}`, end it with `playbook abort {name}`"
        assert ways in caught.value.guidance

    def test_where_it_has_ended(self, project: Project) -> None:
        agent = project.script("default: {fail: it is broken}\n")
        drive = DriveOptions(agent=agent)
        assert driving.run("auto-validate", ["013"], drive=drive, cwd=project.root).why == "failed"
        with pytest.raises(StateError) as caught:
            driving.pause(cwd=project.root)
        name = project.session.name
        assert caught.value.guidance == (
            f"`playbook resume {name} --retry` resumes it, `playbook abort {name}` ends it."
        )

    def test_where_its_journal_is_gone(self, project: Project) -> None:
        project.write(".playbooks/playbooks/gated.yaml", GATED)
        run(project, "gated")
        (project.session / "journal.yaml").unlink()
        with pytest.raises(StateError) as caught:
            locate.store(project.root).journal(project.session.name)
        assert f"`playbook repair {project.session.name}` shows" in caught.value.guidance


class TestARunThatIsCutOffBeforeItIsDriven:
    @pytest.fixture
    def cut_off(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
        def interrupted(private: Path, agent: str) -> None:
            raise KeyboardInterrupt(private, agent)

        project.write(".playbooks/playbooks/gated.yaml", GATED)
        drive = DriveOptions(agent=project.script(WORKS), mode=Mode.AUTONOMOUS)
        with monkeypatch.context() as patch:
            patch.setattr(driver_lock, "driving", interrupted)
            with pytest.raises(KeyboardInterrupt):
                driving.run("gated", drive=drive, cwd=project.root)
        return project

    def test_resumes_with_the_agent_and_mode_it_was_begun_with(self, cut_off: Project) -> None:
        assert cut_off.manifest()["status"] == "pending"
        assert driving.resume(cwd=cut_off.root).why == "completed"
        assert cut_off.journal()[0]["agent"]["name"] == "script"
