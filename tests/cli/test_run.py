"""`run`, `resume`, `answer`, `abort` and `pause` without a terminal."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from support import in_process
from support.controlled_time import Held, wait_until
from support.scratch_project import FEATURE, Project

from cli.scripts import FAILS, GATED, HANGS, LONG, WORKS, conforms

pytestmark = pytest.mark.measured


def as_seconds(at: str | datetime) -> float:
    """Since the epoch."""
    return (at if isinstance(at, datetime) else datetime.fromisoformat(at)).timestamp()


def started(project: Project) -> bool:
    """Whether a step of the session is running, with its worker."""
    return bool(list(project.root.glob(".git/playbook/*/worker-*")))


@pytest.fixture
def gated(project: Project) -> Project:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    return project


@pytest.fixture
def long(project: Project) -> Project:
    project.write(".playbooks/playbooks/long.yaml", LONG)
    return project


def test_a_run_goes_to_the_gate_and_a_resume_through_it(project: Project) -> None:
    """kai FR20; cat FR-3.7, FR-7.3, FR-10.1, NFR-4.1, NFR-4.2, NFR-4.3, NFR-4.4, EX-0; tyr 3: seven
    steps, then a question and how to answer it."""
    project.gh("open")
    waiting = project.process("run", "auto-feature", "013", "--agent", project.script(WORKS))
    assert (waiting.code, waiting.out) == (4, "")
    lines = waiting.err.splitlines()
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.fullmatch(rf"{stamp} plan#1 start /speckit\.plan", lines[0])
    assert re.fullmatch(rf"{stamp} plan#1 done \d+\.\ds auto", lines[1])
    assert any(re.search(r" implement#1 failed \d+\.\ds auto: one test is red$", x) for x in lines)
    (gate,) = [line for line in lines if "WAITS FOR A HUMAN" in line]
    assert re.match(rf"{stamp} pr#1 WAITS FOR A HUMAN: .*7/8 steps done", gate)
    assert "answer: playbook answer continue (or skip or abort), then playbook resume" in lines

    opened = project.manifest()["gate"]["opened_at"]
    wait_until(lambda: time.time() - as_seconds(opened) > 1)  # shorter waits are not mentioned
    answered = project.process("answer", "all", "fine,", "continue")
    assert answered.code == 0
    assert "pr#1 answered continue" in answered.out
    assert answered.out.splitlines()[-1] == "next: playbook resume (7/8 steps done)"

    ended = project.process("resume", "--json")
    shape = conforms("run", ended.json)
    assert (ended.code, shape["ending"], shape["exit_code"]) == (0, "completed", 0)
    assert shape["progress"] == {"done": 8, "total": 8}
    assert [step["id"] for step in shape["steps"]][3:5] == ["implement#1", "implement#2"]
    assert shape["steps"][-1]["human_response"] == "all fine, continue"
    assert re.search(r"completed, 8/8 steps, .* of it at gates$", ended.err, re.MULTILINE)
    assert re.search(r" pr#1 done \d\.\ds gate \(\d\.\d s at a gate\)", ended.err)
    steps = [line.split()[:2] for line in ended.err.splitlines()[-10:-1]]
    assert steps[3:5] == [["implement#1", "failed"], ["implement#2", "done"]]
    assert re.search(r"  pr#1 +done +\d\.\d s  \d\.\d s of it at a gate$", ended.err, re.MULTILINE)
    assert ended.err.splitlines()[-1].startswith("not committed: 7 files of this session: ")

    again = project.process("resume")
    assert again.code == 0
    assert "nothing to do" in again.err


def test_an_answer_that_continues_ends_at_the_next_gate_or_with_the_session(gated: Project) -> None:
    agent = gated.script("default: {fail: it broke}")
    gated.playbook("run", "gated", "--agent", agent)
    argv = ("answer", "continue", "--resume")
    failed = in_process.run(argv, cwd=gated.root, env=gated.environment, merged=True)
    assert failed.code == 2
    assert failed.out.index(" answered continue") < failed.out.index(" start /feature.pr")
    assert gated.journal()[-1]["status"] == "failed"
    gated.playbook("run", "gated", "--agent", agent)
    aborted = gated.playbook("answer", "abort", "--resume")
    assert aborted.code == 2
    assert "aborted, 0/1 step" in aborted.err
    assert "nothing to do" not in aborted.err


def test_a_run_on_the_default_branch_says_so_first(gated: Project) -> None:
    run = ("run", "gated", "--agent", gated.script(WORKS))
    assert "default branch" not in gated.playbook(*run).err
    gated.playbook("abort")
    gated.commit("So far")
    gated.git("switch", "-q", "-C", "trunk")
    gated.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
    gated.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    first, *_ = gated.playbook(*run).err.splitlines()
    assert first.startswith("note: this runs on trunk, the repository's default branch; ")


def test_a_failure_exits_with_2_and_is_retried_only_on_request(project: Project) -> None:
    """cat FR-3.6, EX-2; own L-3."""
    run = project.playbook("run", "auto-validate", "013", "--agent", project.script(FAILS))
    assert run.code == 2
    assert "qa-plan#1 failed" in run.err
    assert f"auto-validate on {FEATURE}: failed" in run.err
    assert "the disk caught fire" in run.err  # the agent's colours are gone
    assert "fix the cause, then: playbook resume --retry" in run.err

    plain = project.playbook("resume", "--json")
    shape = conforms("run", plain.json)
    assert (plain.code, shape["ending"], shape["error"]["code"]) == (2, "failed", "PB-AGENT-FAILED")
    assert len(project.journal()) == 1

    works = project.script(WORKS)
    retried = project.playbook("resume", "--retry", "--agent", works)
    assert retried.code == 0
    assert "qa-plan#1 is retried" in retried.err


@pytest.fixture
def hangups() -> Iterator[None]:
    """Let child processes get SIGHUP even if the tests run under nohup."""
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, former)


@pytest.mark.usefixtures("hangups")
def test_an_interrupted_run_exits_with_130_and_can_be_resumed(long: Project) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        command = ("resume",) if long.sessions else ("run", "long")
        with long.spawn(*command, "--agent", long.script(HANGS)) as process:
            wait_until(lambda: started(long) and b"start" in _seen(process))
            process.send_signal(number)
            _, err = process.communicate(timeout=120)
        assert process.returncode == code
        assert "continue: playbook resume" in err.decode()
    ended = long.playbook("resume", "--agent", long.script(WORKS))
    assert ended.code == 0
    assert [entry["status"] for entry in long.journal()] == ["failed"] * 3 + ["done"]


def _seen(process: subprocess.Popen[bytes]) -> bytes:
    """The first line on stderr, written after the launch was journaled."""
    assert process.stderr is not None
    return process.stderr.readline()


def test_a_step_has_deadlines(long: Project) -> None:
    agent = long.script(HANGS)
    for option in ("--timeout", "--idle-timeout"):
        command = ["resume", "--retry"] if long.sessions else ["run", "long"]
        done = long.playbook(*command, "--agent", agent, option, "0.3")
        assert done.code == 2
        assert long.journal()[-1]["error_code"] == "PB-AGENT-TIMEOUT"
    assert "has already failed" in long.playbook("pause").err


def test_a_failed_session_can_be_aborted(project: Project) -> None:
    """Otherwise it would be selected before every later one."""
    agent = project.script(FAILS)
    assert project.playbook("run", "auto-validate", "013", "--agent", agent).code == 2
    assert "1 ended, 1 of them failed: see" in project.playbook("status").err
    aborted = project.playbook("abort", "-m", "not worth a retry")
    assert (aborted.code, project.manifest()["status"]) == (0, "aborted"), aborted.err
    failed, ended = project.journal()
    assert (failed["status"], failed["resolution"]) == ("failed", "retry")
    assert (ended["status"], ended["resolution"]) == ("skipped", "abort")
    assert ended["human_response"] == "not worth a retry"
    assert "launched_at" not in ended
    assert project.playbook("audit").code == 0
    assert "is already aborted" in project.playbook("abort").err


@pytest.mark.parametrize("said", ["-1", "nan"])
def test_a_timeout_must_be_positive(long: Project, said: str) -> None:
    done = long.playbook("run", "long", "--agent", long.script(HANGS), "--timeout", said)
    assert (done.code, f"'{said}' is not a number of seconds above 0" in done.err) == (1, True)
    assert not long.sessions


def test_pause_and_abort_reach_a_runner_in_another_terminal(long: Project) -> None:
    with long.spawn("run", "long", "--agent", long.script(HANGS)) as process:
        wait_until(lambda: started(long) and b"start" in _seen(process))
        driven = long.playbook("resume")
        assert driven.code == 3
        assert f"process {process.pid}" in driven.err
        (seen,) = long.playbook("status", "--json").json["sessions"]
        assert seen["driver"]["pid"] == process.pid
        assert f"driven by process {process.pid}" in long.playbook("status").out
        aborted = long.playbook("abort", "-m", "not now")
        assert aborted.code == 0
        assert "aborted, 0/1 step" in aborted.out
        process.communicate(timeout=120)
    assert process.returncode == 2
    (entry,) = long.journal()
    assert (entry["status"], entry["human_response"]) == ("failed", "not now")


def test_pause_lets_running_steps_finish(project: Project) -> None:
    plan = ".qa/013-playbook-create/test-plan.md"
    held = Held.put(project, then=f"mkdir -p .qa/013-playbook-create && echo '# Plan' >{plan}")
    with project.spawn("run", "auto-validate", "013", "--agent", held.agent) as process:
        wait_until(lambda: started(project) and b"start" in _seen(process))
        with project.spawn("pause") as paused:
            assert b"qa-plan#1 may finish, nothing else is launched" in _seen(process)
            held.let_go()
            out, _ = paused.communicate(timeout=120)
        assert paused.returncode == 0
        assert f"session {project.session.name} is paused" in out.decode()
        _, err = process.communicate(timeout=120)
    assert process.returncode == 4
    assert "continue: playbook resume" in err.decode()
    assert [entry["step_id"] for entry in project.journal()] == ["qa-plan"]
    assert project.playbook("resume", "--agent", project.script(WORKS)).code == 0


def test_notes_are_printed_and_costs_are_summed(project: Project) -> None:
    project.write("specs/99-new/spec.md", "# New\n")
    run = project.playbook("run", "auto-feature", "98", "--agent", project.script(FAILS))
    assert run.err.startswith("note: no folder, feature file or branch is named 98 yet\n")
    quiet = project.playbook(
        "run", "auto-feature", "98", "--agent", project.script(FAILS), "--log-level", "error"
    )
    assert quiet.code == 2
    failed, summary, then = quiet.err.splitlines()  # what goes wrong is said at any level
    assert "plan#1 failed 0.0s auto: spec_exists" in failed
    assert "failed, 0/8 steps" in summary
    assert then == "fix the cause, then: playbook resume --retry"

    project.playbook("begin", "auto-validate", "013")
    project.write(".qa/013-playbook-create/test-plan.md", "# Plan\n")
    outcome = project.write("outcome.json", '{"agent": {"cost_usd": 0.125}}')
    project.playbook("report", "qa-plan#1", "--output", str(outcome))
    ended = project.playbook("abort", "-m", "enough")
    assert ended.out.endswith(" 0.12 USD\n")


def test_a_session_without_a_driver_can_be_paused_and_aborted(gated: Project) -> None:
    gated.playbook("run", "gated", "--agent", gated.script(WORKS))
    paused = gated.playbook("pause")
    assert paused.code == 0
    assert "is paused\nit waits for a human" in paused.out
    assert gated.playbook("abort").code == 0
    assert gated.manifest()["status"] == "aborted"
    for command in ("abort", "pause"):
        again = gated.playbook(command)
        assert again.code == 3
        assert "is already aborted" in again.err


def test_an_invalid_answer_changes_nothing(gated: Project) -> None:
    gated.playbook("run", "gated", "--agent", gated.script(WORKS))
    for words in (["maybe"], ["don't", "continue"], ["retry"]):
        asked = gated.playbook("answer", *words)
        assert asked.code == 1
        assert "Begin or end with one of: continue, skip, abort; as in `skip: REASON`." in asked.err
        assert "Run /feature.pr" in asked.err
    unsure = gated.playbook("answer", "no")
    assert "Skip this step, or abort the run?" in unsure.err
    other = gated.playbook("answer", "--gate", "publish#1?2", "continue")
    assert (other.code, "the open one is publish#1?1" in other.err) == (3, True)
    assert gated.journal()[0]["gates"][0].keys() == {"id", "reason", "place", "opened_at"}

    (session,) = gated.sessions
    assert gated.playbook("answer", session.name, "skip").code == 0
    assert gated.playbook("answer", "continue").code == 3


def test_an_answer_is_printed_before_its_effect(long: Project) -> None:
    playbook = LONG.replace("error_policy: stop", "error_policy: gate")
    long.write(".playbooks/playbooks/long.yaml", playbook)
    agent = long.script('default: {say: [I begin, the door is shut], fail: "no key"}')
    asked = long.playbook("run", "long", "--agent", agent)
    assert "    the door is shut" in asked.err.splitlines()
    (gate,) = [line for line in asked.err.splitlines() if "WAITS FOR A HUMAN" in line]
    assert gate.count("retry") == 1
    assert gate.endswith(" 0/1 step done.")
    answered, settled, follows = long.playbook("answer", "retry").out.splitlines()
    assert re.search(r" think#1 answered retry by .+$", answered)
    assert re.search(r" think#1 failed \d+\.\ds \w+$", settled)
    assert follows == "next: playbook resume (0/1 step done)"


def test_the_session_may_be_named_in_three_ways(gated: Project) -> None:
    gated.playbook("run", "gated", "--agent", gated.script(WORKS))
    name = gated.session.name
    nobody = "20200101-aaa"
    assert gated.playbook("show", name).code == 0
    assert gated.playbook("show", "--session", name, env={"PLAYBOOK_SESSION": nobody}).code == 0
    assert gated.playbook("show", env={"PLAYBOOK_SESSION": nobody}).code == 3
    assert gated.playbook("show", nobody).code == 3
    both = gated.playbook("show", name, "--session", nobody)
    assert (both.code, "two different sessions are given" in both.err) == (1, True)


def test_the_log_level_decides_how_much_is_printed(gated: Project) -> None:
    """cat PL-2."""
    agent = gated.script("default: {say: I did it}\n")
    quiet = gated.playbook(
        "run", "gated", "--mode=autonomous", "--agent", agent, "--log-level=error"
    )
    assert (quiet.code, quiet.err) == (0, "")
    chatty = gated.playbook(
        "--log-level", "debug", "run", "gated", "--mode=autonomous", "--agent", agent
    )
    assert "publish#1 says I did it" in chatty.err
    usual = gated.playbook("run", "gated", "--mode=autonomous", "--agent", agent)
    assert "I did it" not in usual.err


def test_a_log_has_colours_only_with_force_color(gated: Project) -> None:
    agent = gated.script(WORKS)
    forced = gated.playbook("run", "gated", "--agent", agent, env={"FORCE_COLOR": "1"})
    assert "\x1b[1;33m" in forced.err
    for env in ({}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}):
        assert "\x1b" not in gated.playbook("resume", env=env).err


def test_a_refused_run_leaves_nothing_behind(project: Project) -> None:
    """cat NFR-2.3: arguments, step, playbook and agent are checked first."""
    for words, told in (
        (("nope", "013"), "no playbook is called 'nope'"),
        (("auto-feature",), "feature is missing"),
        (("auto-feature", "013", "--from", "plann"), "did you mean plan?"),
        (("auto-feature", "013", "--max-cost-usd", "much"), "is not an amount above 0"),
        (("auto-feature", "013", "--max-turns", "0"), "--max-turns"),
    ):
        refused = project.playbook("run", *words)
        assert refused.code == 1
        assert told in refused.err
    project.gh("missing")  # and nothing else on PATH, no agent either
    agentless = project.playbook("run", "auto-feature", "013")
    assert (agentless.code, "PB-AGENT-NONE" in agentless.err) == (2, True)
    assert not project.sessions


def test_one_checkout_has_one_open_session(gated: Project) -> None:
    """kai P3-4; cat EX-3."""
    agent = gated.script(WORKS)
    gated.playbook("run", "gated", "--agent", agent)
    second = gated.playbook("run", "auto-feature", "013", "--agent", agent)
    assert second.code == 3
    assert "is open here at publish" in second.err


@pytest.mark.parametrize("command", [["run"], ["start"]], ids=" ".join)
def test_an_arg_may_be_written_like_an_option(project: Project, command: list[str]) -> None:
    """own L-4."""
    wrong = project.playbook(*command, "auto-validate", "--featuer=013")
    assert (wrong.code, "no arg is called featuer; did you mean feature?" in wrong.err) == (1, True)
    similar = project.playbook(*command, "auto-validate", "013", "--jsn=1", "--fro=x")
    assert (similar.code, "[PB-ARG-" in similar.err) == (1, True)
    extra = ["--dry-run", "--agent", project.script(WORKS)] if command == ["run"] else []
    right = project.playbook(*command, "auto-validate", "--feature=013", *extra)
    if command == ["start"]:
        assert "PB-ARG" not in right.err  # it asks for an installation
    else:
        assert (right.code, FEATURE in right.out) == (0, True)


def test_the_end_of_a_failed_run_is_about_what_ended_it(project: Project) -> None:
    steps = "  - {id: minor, command: cli ls no-such-file, error_policy: continue}\n"
    steps += "  - {id: fatal, command: cli ls other-file}\n"
    text = 'name: two\ndescription: Two failures\nversion: "1.1"\nargs: []\n'
    text += f"defaults: {{autonomy: auto, error_policy: stop}}\nsteps:\n{steps}"
    project.write(".playbooks/playbooks/two.yaml", text)
    run = project.playbook("run", "two")
    end = run.err.partition("failed, 1/2 steps")[2]
    assert run.code == 2
    assert "fatal#1 ended with" in end
    assert "minor#1 ended with" not in end
    assert "minor#1:" not in end
