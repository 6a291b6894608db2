"""`begin`, `next` and `report`: how a client drives a session."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import directive_lines
from support.in_process import Result
from support.scratch_project import Project

from cli.scripts import GATED, WORKS, conforms
from playbook_supervisor.system.process.process_groups import until

pytestmark = pytest.mark.measured

FEATURE = "013-playbook-create"


def directive(result: Result) -> dict[str, Any]:
    """The directive in the last line of the output; prose precedes it."""
    assert result.code == 0, result.err
    *prose, line = result.out.splitlines()
    assert prose
    assert all(each.startswith("> ") for each in prose)
    assert "prompt" not in line
    return directive_lines.only(result.out)


def test_a_client_drives_a_session_by_its_directives(project: Project) -> None:
    """kai FR23: the installed command once, in a fresh subagent; `next` repeats it."""
    begun = project.process("begin", "auto-validate", "013")
    told = directive(begun)
    (step,) = told["steps"]
    assert (step["id"], step["command"], step["args"]) == ("qa-plan#1", "/qa.plan", FEATURE)
    assert "To run now: qa-plan#1" in begun.out
    assert "outstanding" not in told

    again = conforms("directive", project.process("next", "--json").json)
    assert again["outstanding"] is True
    assert again["steps"][0]["prompt"] == (
        f"Run the Skill `qa.plan` with args `{FEATURE}`, first, then follow it to its end."
    )

    project.write(f".qa/{FEATURE}/test-plan.md", "# Plan\n")
    reported = project.process("report", "qa-plan#1")
    assert reported.out.startswith("> qa-plan ✓ ")
    assert directive(reported)["steps"][0]["id"] == "qa-run#1"
    repeated = directive(project.process("report", "qa-plan#1"))
    assert repeated["outstanding"] is True

    failed = project.process("report", "qa-run#1", "--error", "it \x1b[31mbroke\nbadly")
    gate = directive(failed)
    assert gate["gate"]["id"] == "qa-run#1?1"
    assert "context" not in gate["gate"]
    assert "A human answers: " in failed.out
    full = conforms("directive", project.process("next", "--json").json)
    assert "it broke badly" in full["gate"]["question"]
    assert full["outstanding"] is True

    project.process("answer", "abort")
    finish = conforms("directive", project.process("next", "--json").json)
    assert (finish["directive"], finish["status"]) == ("finish", "aborted")
    assert "The session is aborted." in project.process("next").out


def test_an_open_gate_is_shown_and_answered_without_what_is_slow_to_import(
    project: Project,
) -> None:
    project.playbook("begin", "auto-validate", "013")
    project.write(f".qa/{FEATURE}/test-plan.md", "# Plan\n")
    project.playbook("report", "qa-plan#1")
    project.playbook("report", "qa-run#1", "--error", "it broke")
    project.write("README.md", "# Another title\n")
    for command in (["next", "--json"], ["answer", "continue"]):
        done = project.process(*command, env={"PYTHONPROFILEIMPORTTIME": "1"})
        imported = {line.rpartition("|")[2].strip() for line in done.err.splitlines()}
        assert imported.isdisjoint({"git", "subprocess", "yaml"})
        assert done.code == 0
        if command[0] == "next":
            assert any("README.md" in line for line in done.json["gate"]["context"])


def test_a_report_may_contain_the_outcome(project: Project, tmp_path: Path) -> None:
    project.playbook("begin", "auto-validate", "013")
    project.write(f".qa/{FEATURE}/test-plan.md", "# Plan\n")
    outcome = tmp_path / "outcome.json"
    outcome.write_text('{"output": "two scenarios", "agent": {"model": "opus", "cost_usd": 0.5}}')
    shape = project.playbook("report", "qa-plan#1", "--output", str(outcome), "--json").json
    assert conforms("directive", shape)["progress"]["done"] == 1
    entry = project.journal()[0]
    assert (entry["output"], entry["agent"]) == (
        "two scenarios",
        {"model": "opus", "cost_usd": 0.5},
    )

    for text in ('{"outptu": 1}', "{", "[" * 100_000):
        outcome.write_text(text)
        refused = project.playbook("report", "qa-run#1", "--output", str(outcome))
        assert (refused.code, "PB-ARG-INVALID" in refused.err) == (1, True)
    missing = project.playbook("report", "qa-run#1", "--output", str(tmp_path / "none"))
    assert "does not exist" in missing.err
    assert project.journal()[-1]["status"] == "in_progress"


WAITING = """\
import pathlib, sys, time
from playbook_supervisor.__main__ import program

sleep = time.sleep

def told(seconds):
    pathlib.Path(sys.argv[0]).touch()
    sleep(seconds)

time.sleep = told
sys.argv[0] = sys.argv.pop(1)
program()
"""
"""The program, changed to create a file when it begins to wait."""


@contextmanager
def waiting(project: Project, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`next --wait`, which is waiting for the session to change."""
    mark = project.root.with_name("waits")
    mark.unlink(missing_ok=True)
    argv = [sys.executable, "-c", WAITING, str(mark), "next", "--wait", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, cwd=project.root, env=project.environment, stdout=pipe, stderr=pipe
    ) as process:
        try:
            assert until(lambda: mark.exists() or process.poll() is not None, 120)
            yield process
        finally:
            process.kill()


def test_next_waits_until_there_is_something_else_to_do(project: Project) -> None:
    project.playbook("begin", "auto-validate", "013")
    project.write(f".qa/{FEATURE}/test-plan.md", "# Plan\n")
    with waiting(project, "--json") as process:
        assert process.poll() is None
        project.playbook("report", "qa-plan#1")
        out, _ = process.communicate(timeout=120)
    assert json.loads(out)["steps"][0]["id"] == "qa-run#1"


def test_an_interrupted_next_prints_nothing(project: Project) -> None:
    project.playbook("begin", "auto-validate", "013")
    with waiting(project) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_session_with_a_runner_takes_no_reports(project: Project) -> None:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    agent = project.script("default: {hang: true}\n")
    with project.spawn("run", "gated", "--mode", "autonomous", "--agent", agent) as runner:
        assert runner.stderr is not None
        while b" start " not in runner.stderr.readline():
            pass
        for command in (["next"], ["report", "publish#1"], ["repair"]):
            refused = project.playbook(*command)
            assert (refused.code, "PB-STATE-DRIVEN" in refused.err) == (3, True)
        runner.send_signal(signal.SIGINT)
        runner.communicate(timeout=120)


def test_a_session_may_begin_in_the_client_and_end_headless(project: Project) -> None:
    project.process("begin", "auto-validate", "013")
    resumed = project.process("resume", "--agent", project.script(WORKS))
    assert resumed.code == 0
    assert [entry["status"] for entry in project.journal()] == ["failed", "done", "done"]


def test_the_line_for_a_model_stays_short(project: Project) -> None:
    """A client cuts longer lines; long args are only in --json."""
    long = "x" * 3_000
    step = "  - {id: s%d, command: /qa.plan, args: %s, autonomy: auto, error_policy: stop,\n"
    group = "     parallel_group: all}\n"
    head = GATED.partition("steps:")[0].replace("gated", "wide")
    steps = "".join(step % (number, long) + group for number in range(3))
    project.write(".playbooks/playbooks/wide.yaml", f"{head}steps:\n{steps}")
    begun = project.playbook("begin", "wide")
    assert len(begun.out.encode()) < 8_000
    assert [step["id"] for step in directive(begun)["steps"]] == ["s0#1", "s1#1", "s2#1"]
    full = project.playbook("next", "--json").json
    assert full["steps"][2]["args"] == long


class TestTheFastWay:
    """Plainly spelled `next`, `report` and `check` need no click."""

    @pytest.mark.parametrize(
        ("plain", "otherwise"),
        [
            (["next"], ["next", "--log-level", "info"]),
            (["next", "--json"], ["--log-level=info", "next", "--json"]),
            (["report", "qa-plan#1", "--error", "no"], ["report", "--error=no", "--", "qa-plan#1"]),
            (["report"], ["report", "--debug"]),
            (["report", "a", "b"], ["report", "a", "b", "--debug"]),
            (["next", "--session", "x"], ["next", "--session=x"]),
            (["next", "--session"], ["next", "--json", "--session"]),
            (["check", "a.yaml", "--strict"], ["check", "--format", "text", "--strict", "a.yaml"]),
        ],
    )
    def test_and_click_agree(
        self, project: Project, plain: list[str], otherwise: list[str]
    ) -> None:
        project.write("a.yaml", GATED)
        project.playbook("begin", "auto-validate", "013")
        one, other = project.playbook(*plain), project.playbook(*otherwise)
        assert one.code == other.code
        if plain[0] != "report" or one.code:
            assert one.out.strip("{\n") or one.err
            assert (one.err == other.err) or "--debug" in otherwise or "--json" in otherwise
        if "--json" not in otherwise and one.code == 0 and plain[0] != "report":
            assert one.out == other.out

    @pytest.mark.parametrize("command", [["next"], ["report", "qa-plan#1"], ["check", "a.yaml"]])
    def test_imports_nothing_heavy(self, project: Project, command: list[str]) -> None:
        project.write("a.yaml", GATED)
        project.write(f".qa/{FEATURE}/test-plan.md", "# Plan\n")  # at its end git would be asked
        project.playbook("begin", "auto-validate", "013")
        program = (
            "import sys; from playbook_supervisor.__main__ import main;"
            f"sys.argv[1:] = {command!r}; code = main();"
            "heavy = {'click', 'rich', 'git', 'ruamel', 'jsonschema', 'subprocess', 'asyncio'};"
            "sys.exit(' '.join(heavy & sys.modules.keys()) or code)"
        )
        done = project._finished(sys.executable, "-c", program)
        assert done.err.count("\n") <= 1  # what `check` says at its end


def test_a_report_of_an_attempt_that_never_began_is_refused(project: Project) -> None:
    project.playbook("begin", "auto-validate", "013")
    project.write(f".qa/{FEATURE}/test-plan.md", "# Plan\n")
    project.playbook("report", "qa-plan#1")
    before = project.journal()
    for attempt in ("qa-plan#99", "qa-plan#0", "qa-plan#01", "qa-plan", "qa-run#2", "nosuch#1"):
        refused = project.playbook("report", attempt)
        assert refused.code == 3
        assert f"{attempt} is not expected; outstanding is the work of qa-run#1" in refused.err
        assert project.journal() == before
    assert project.playbook("report", "qa-plan#1").code == 0


def test_figures_that_cannot_be_are_refused(project: Project) -> None:
    project.playbook("begin", "auto-validate", "013")
    figures = [("cost_usd", each) for each in ("-0.5", "NaN", "Infinity", "1e999", '"many"')]
    for key, figure in (*figures, ("input_tokens", "-1"), ("turns", "NaN")):
        project.write("outcome.json", f'{{"agent": {{"name": "x", "{key}": {figure}}}}}')
        refused = project.playbook("report", "qa-plan#1", "--output", "outcome.json")
        assert (refused.code, f"agent.{key}: cannot be" in refused.err) == (1, True)
        assert "returned_at" not in project.journal()[0]
    project.write("outcome.json", '{"agent": {"name": "x", "cost_usd": 0}}')
    assert project.playbook("report", "qa-plan#1", "--output", "outcome.json").code == 0
