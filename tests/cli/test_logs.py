"""`logs`: all that an agent said is kept, and the journal has its last words."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import pytest
from support.scratch_project import Project

from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.system.disk import log_file
from playbook_supervisor.system.disk.log_file import LogFile, followed, whole

pytestmark = pytest.mark.measured
THINK = """\
name: think
description: One step
version: "1.0"
args: []
steps:
  - {id: think, command: /qa.plan, autonomy: auto, error_policy: stop}
"""


@pytest.fixture
def thinking(project: Project) -> Project:
    project.write(".playbooks/playbooks/think.yaml", THINK)
    return project


def says(project: Project, text: str) -> str:
    """What `--agent` takes for an agent that is this Python program."""
    file = project.root.parent / "agent.py"
    file.write_text(textwrap.dedent(text))
    return f"exec:{sys.executable} {file}"


def test_a_talkative_agent_is_kept_whole_and_the_journal_has_its_last_words(
    thinking: Project,
) -> None:
    agent = says(
        thinking,
        """
        import os, sys
        print("my-agent 1.2\\x1b[31m (c) me")
        print(*range(300), sep="\\n")
        print("warning: one", file=sys.stderr)
        print("the key is", os.environ["FORGE_TOKEN"])
        print("All 12 tests are green.\\n\\nTwo files changed.")
        """,
    )
    thinking.env["FORGE_TOKEN"] = "s3cret-value-1"
    run = thinking.playbook("run", "think", "--agent", agent)
    assert run.code == 0
    log = thinking.playbook("logs")
    assert log.code == 0
    lines = log.out.splitlines()
    assert lines[:2] == ["my-agent 1.2 (c) me", "0"]
    assert lines[-5:] == [
        "299",
        "the key is [redacted]",
        "All 12 tests are green.",
        "Two files changed.",
        "warning: one",
    ]
    (entry,) = thinking.journal()
    assert entry["output"].endswith(
        "299\nthe key is [redacted]\nAll 12 tests are green.\nTwo files changed."
    )
    assert len(entry["output"]) <= 500
    assert "my-agent" not in entry["output"]
    shown = thinking.playbook("show").out
    assert "         Two files changed." in shown


def test_a_long_output_keeps_its_beginning_and_its_end(thinking: Project) -> None:
    agent = says(thinking, "for n in range(1500): print('line', n, '.' * 1000)\nprint('the end')")
    assert thinking.playbook("run", "think", "--agent", agent).code == 0
    lines = thinking.playbook("logs", "think").out.splitlines()
    assert (lines[0][:7], lines[-2][:10], lines[-1]) == ("line 0 ", "line 1499 ", "the end")
    (cut,) = [line for line in lines if "bytes left out" in line]
    assert re.fullmatch(r"\[… \d+ bytes left out …\] *", cut)
    assert sum(map(len, lines)) < 1_000_000


def test_an_agent_that_fails_shows_its_last_fifteen_lines(thinking: Project) -> None:
    agent = says(thinking, "print(*range(40), sep='\\n')\nprint('it broke')\nexit(3)")
    run = thinking.playbook("run", "think", "--agent", agent)
    assert run.code == 2
    shown = [line.strip() for line in run.err.splitlines()]
    assert [str(n) for n in range(26, 40)] + ["it broke"] == shown[shown.index("26") :][:15]
    assert "25" not in shown
    (entry,) = thinking.journal()
    assert entry["error_cause"].splitlines() == [*map(str, range(26, 40)), "it broke"]
    assert entry["output"].endswith("39\nit broke")


def test_every_attempt_has_a_log_of_its_own(project: Project) -> None:
    script = project.script("""
    steps:
      qa-plan:
        - {say: first, fail: not yet}
        - {say: second, write: {".qa/{{feature}}/test-plan.md": "# Plan\\n"}}
      qa-run: {say: 3 of 4, write: {".qa/{{feature}}/verdict.md": "verdict: PASS\\n"}}
    """)
    run = ("run", "auto-validate", "013", "--agent", script)
    assert project.playbook(*run).code == 2
    assert project.playbook("resume", "--retry").code == 0
    said = {
        step: project.playbook("logs", *step).out
        for step in [("qa-plan#1",), ("qa-plan",), ("qa-run",), ()]
    }
    assert [text.strip() for text in said.values()] == ["first", "second", "3 of 4", "3 of 4"]
    unknown = project.playbook("logs", "qa-plam")
    assert (unknown.code, "PB-STATE-NO-LOG" in unknown.err) == (3, True)
    assert "There are logs of qa-plan#1, qa-plan#2, qa-run#1." in unknown.err


def test_a_log_is_followed_until_its_attempt_ends(thinking: Project) -> None:
    go = thinking.root.parent / "go"
    agent = says(
        thinking,
        f"""
        import pathlib, time
        print("thinking", flush=True)
        while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.02)
        print("done thinking")
        """,
    )
    with thinking.spawn("run", "think", "--agent", agent) as run:
        while not thinking.sessions:
            assert run.poll() is None
        with thinking.spawn("logs", "--follow") as logs:
            assert logs.stdout
            assert logs.stdout.readline() == b"thinking\n"
            go.touch()
            out, _ = logs.communicate(timeout=60)
        run.communicate(timeout=60)
    assert (logs.returncode, out) == (0, b"done thinking\n")


def test_a_follower_of_a_killed_run_comes_to_an_end(thinking: Project) -> None:
    agent = says(thinking, "import time\nprint('thinking', flush=True)\ntime.sleep(600)")
    with thinking.spawn("run", "think", "--agent", agent) as run:
        while not list(thinking.root.glob(".git/playbook/*/logs/think#1.log")):
            assert run.poll() is None
        with thinking.spawn("logs", "--follow") as logs:
            assert logs.stdout
            assert logs.stdout.readline() == b"thinking\n"
            run.kill()
            run.communicate(timeout=60)
            out, _ = logs.communicate(timeout=60)
    assert (logs.returncode, out) == (0, b"")
    thinking.playbook("abort")


# ── the file ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("behind", [0, 9])
def test_a_follower_reads_every_line_of_a_log_that_is_cut_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    monkeypatch.setattr(log_file, "HEAD", 100)
    monkeypatch.setattr(log_file, "TAIL", 100)
    monkeypatch.setattr(log_file, "_CUT_SIZE", 200 + log_file._MARK_SIZE)
    monkeypatch.setattr(log_file, "_LARGEST", 300 + log_file._MARK_SIZE)
    file = tmp_path / "plan#1.log"
    log, written = LogFile(file), 0

    def write() -> None:
        nonlocal written
        for _ in range(behind + 1):
            log.add(f"line {written}")
            written += 1

    seen = list(followed(file, lambda: written > 60, write))
    assert seen == [f"line {number}" for number in range(len(seen))]
    assert len(seen) == written
    text = whole(file)
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith(f"line {written - 1}\n")
    assert text == printable(text, keep_newlines=True)


def test_a_full_disk_ends_the_log_and_not_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogFile(tmp_path / "plan#1.log")
    log.add("one")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("os.write", full)
        log.add("two")
    log.add("three")
    assert whole(tmp_path / "plan#1.log") == "one\n"
    LogFile(tmp_path / "plan#1.log" / "below a file").add("nothing")
