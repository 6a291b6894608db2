"""A check that runs is shown with the last line of its output, wherever it is shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from inbox.serving import serving
from support.controlled_time import wait_until
from support.git_repositories import put
from support.hook_calls import Hooked
from support.scratch_project import Project

from playbook_supervisor.cli.render.log import Log
from playbook_supervisor.drivers.observers import Observer, showing_check
from playbook_supervisor.formats.sanitize import shortened
from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.vocabulary import Autonomy

LINE = "tests/test_greeting_of_people_with_unicode_names.py ........................... [ 86%]"
CHECK = f"""\
#!/bin/sh
printf '\\033[31m{LINE.replace("%", "%%")}\\n'
while [ ! -e go ]; do sleep 0.1; done
echo 12 passed
"""
PLAYBOOK = """\
name: proved
description: Build, and prove it
version: "1.1"
args: []
steps:
  - id: build
    command: cli true
    autonomy: auto
    error_policy: stop
    postconditions: [{command_succeeds: test}]
"""


@pytest.fixture
def slow(project: Project) -> Project:
    project.write("check.sh", CHECK).chmod(0o755)
    project.write(".playbooks/playbooks/proved.yaml", PLAYBOOK)
    project.write(".playbooks/config.yaml", "checks: {test: {run: [./check.sh]}}\n")
    return project


def test_other_terminals_and_the_inbox_show_it(slow: Project) -> None:
    with slow.spawn("run", "proved") as runner:
        wait_until(lambda: "[ 86%]" in slow.playbook("status").out)
        for command in ("status", "show"):
            shown = slow.playbook(command).out
            assert "  build#1: checking test " in shown
            assert f" · {LINE}\n" in shown
            assert "\x1b" not in shown
        with serving(slow) as served, served.visitor() as client:
            wait_until(lambda: LINE in client.get("/").text)
        slow.write("go", "")
        assert runner.wait(60) == 0
    assert "checking" not in slow.playbook("status", "--all").out


def test_the_log_has_a_line_every_half_minute() -> None:
    written: list[str] = []
    step = Step("build", "cli true", Autonomy.AUTO, ErrorPolicy.STOP)
    log, attempt = Log(write=written.append), Attempt(step, 1)
    for seconds in (0, 29, 30):
        log.on_check(attempt, f"checking test {seconds} s · 7 passed", seconds)
    assert [line.partition(" ")[2] for line in written] == [
        "build#1 checking test 0 s · 7 passed",
        "build#1 checking test 30 s · 7 passed",
    ]


def test_a_hostile_line_is_harmless() -> None:
    shown: list[str] = []

    class Seen(Observer):
        def on_check(self, attempt: Attempt, line: str, seconds: int) -> None:
            del attempt, seconds
            shown.append(line)

    step = Step("build", "cli true", Autonomy.AUTO, ErrorPolicy.STOP)
    with showing_check(Seen(), Attempt(step, 1), "test") as hear:
        hear("\x1b[2J\x07evil\u202e" + "x" * 5_000)
        hear("\x1b[0m")
        wait_until(lambda: "evil" in shown[-1])
    assert shown[-1].isprintable()
    assert len(shown[-1]) < 150


@pytest.mark.parametrize(
    ("limit", "short"),
    [
        (26, "tests/test_gr…..... [ 86%]"),
        (1, "…"),
        (200, LINE),
    ],
)
def test_a_long_line_keeps_both_ends(limit: int, short: str) -> None:
    assert shortened(LINE, limit) == short


@pytest.fixture
def judged(project: Project, tmp_path: Path) -> Project:
    """A project whose check is found on PATH, with two programs of its name."""
    for name, said in (("honest", "12 passed"), ("forged", "forged: 13 passed")):
        put(tmp_path, f"{name}/judge", f"#!/bin/sh\necho {said}\n")
        (tmp_path / name / "judge").chmod(0o755)
    project.write(".playbooks/playbooks/proved.yaml", PLAYBOOK)
    project.write(".playbooks/config.yaml", "checks: {test: {run: [judge], room: clean}}\n")
    return project


def path_with(folder: Path) -> dict[str, str]:
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_in_a_clean_room_path_is_that_of_the_sessions_beginning(
    judged: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path_with(tmp_path / "honest")["PATH"])
    Hooked(judged).types("/playbook.run proved")
    judged.process("next", "--wait", env=path_with(tmp_path / "forged"))
    (entry,) = judged.journal()
    assert '"12 passed"' in entry["evidence"][0]


def test_a_run_that_a_person_resumes_has_their_path(judged: Project, tmp_path: Path) -> None:
    failed = judged.process("run", "proved")
    assert failed.code == 2
    assert "judge" in failed.err
    assert judged.process("resume", "--retry", env=path_with(tmp_path / "honest")).code == 0
    assert '"12 passed"' in judged.journal()[-1]["evidence"][0]
