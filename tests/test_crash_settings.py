"""SIGKILL at every write with which a person takes over settings or files that have changed."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from cli.test_settings_at_gates import BROKEN, FIXED, SETTINGS, begun, offered
from support.crash_points import ended, forked, some_writes
from support.scratch_project import Project

from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.repair import repair


def say(words: str, root: Path) -> None:
    driving.answer([words], cwd=root)


@pytest.mark.long
@pytest.mark.parametrize("playbook", ["proved", pytest.param("parent", marks=pytest.mark.thorough)])
def test_an_answer_that_takes_settings_over_is_whole_or_can_be_given_again(
    project: Project, playbook: str
) -> None:
    assert begun(project, playbook=playbook).code == 4
    project.write(SETTINGS, FIXED)
    words = offered(project.playbook("status").out)
    for copy in killed_copies(project, partial(say, words)):
        taken_up_again(copy, words)


def test_files_are_accepted_together_with_who_accepted_them(project: Project) -> None:
    assert begun(project).code == 4
    file = project.session / "session.yaml"
    file.write_text(file.read_text().replace("feature: ", "feature: other-"))

    def take(root: Path) -> None:
        repair(accept=True, cwd=root)

    for copy in killed_copies(project, take):
        assert copy.playbook("repair", "--take").code == 0
        assert "session.yaml: " in copy.manifest()["confirmed"][0]["what"]
        assert copy.manifest()["feature"].startswith("other-")


def test_a_resume_that_takes_settings_over_can_be_said_again(project: Project) -> None:
    assert begun(project).code == 4
    project.write(SETTINGS, FIXED)

    def resume(root: Path) -> None:
        driving.resume(accept_config=True, cwd=root)

    for copy in killed_copies(project, resume):
        assert (copy.session / "config.yaml").read_text() in (BROKEN, FIXED)
        resume(copy.root)
        assert (copy.session / "config.yaml").read_text() == FIXED
        assert len(copy.manifest()["confirmed"]) == 1, copy.root.name


def killed_copies(project: Project, deed: Callable[[Path], None]) -> Iterator[Project]:
    """A copy for each write of the deed, in which a process that did it was killed there."""
    for point in some_writes():
        copy = Project(project.root.with_name(f"killed-{point}"), project.home)
        shutil.copytree(project.root, copy.root, symlinks=True)
        code = ended(forked(partial(deed, copy.root), point))
        if code == 0:
            assert point > 10
            break
        assert code == -signal.SIGKILL
        yield copy
        shutil.rmtree(copy.root)


def taken_up_again(project: Project, words: str) -> None:
    """What a person does who looks at the session after the kill; it always leads to its end."""
    assert {(each / "config.yaml").read_text() for each in project.sessions} <= {BROKEN, FIXED}
    looked = project.playbook("status")
    assert looked.code in (0, 4), looked.err
    if "take settings" in looked.out:
        assert offered(looked.out) == words
        again = project.playbook("answer", words, "--resume")
    elif "WAITS FOR A HUMAN" in looked.out:  # the settings are taken, the answer is not recorded
        again = project.playbook("answer", "continue", "--resume")
    else:
        again = project.playbook("resume")
    assert again.code == 0, again.err
    assert {(each / "config.yaml").read_text() for each in project.sessions} == {FIXED}
    for each in project.sessions:
        confirmed = yaml.safe_load((each / "session.yaml").read_text()).get("confirmed", [])
        assert len(confirmed) == 1, project.root.name
    assert project.playbook("audit", "--all").code == 0
