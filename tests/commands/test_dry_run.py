"""What a run would do, found out without doing any of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.scripts import GATED, WORKS, conforms
from cli.terminal import Terminal
from support.scratch_project import FEATURE, Project

from playbook_supervisor.agents.protocol import Budget
from playbook_supervisor.cli.render import plan as rendered
from playbook_supervisor.cli.render.plan import as_json
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving import driving, dry_run
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.commands.driving.dry_run import RunPlan
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.errors import ArgumentError, PlaybookError
from playbook_supervisor.kernel.vocabulary import Mode

CHECKS = """\
name: checks
description: A step that is left out, and two that run together
version: "1.0"
args:
  - {name: feature, description: The feature, required: true}
steps:
  - {id: tidy, command: /clear, autonomy: skip, error_policy: stop}
  - id: lint
    command: /qa.plan
    args: "{{feature}} all"
    model: opus
    autonomy: auto
    parallel_group: both
    preconditions: [spec_exists, tasks_exists]
    error_policy: retry_once
  - {id: types, command: /review, autonomy: gate_on_breaking, parallel_group: both,
     preconditions: [tasks_exists, pr_created], error_policy: stop,
     escalation_triggers: [subagent_error]}
"""


POLICIES = """\
name: policies
description: What happens on a failure
version: "1.1"
args: []
steps:
  - {id: a, command: cli true, autonomy: auto, error_policy: continue}
  - {id: b, command: cli true, autonomy: auto, error_policy: ignore}
  - {id: c, command: cli true, autonomy: auto, error_policy: "retry:3"}
  - id: d
    command: cli true
    autonomy: auto
    error_policy: {default: stop, PB-STEP-TIMEOUT: "retry:1", PB-STEP-FAILED: gate}
    escalation_triggers: [verdict_fail]
"""


def plan(project: Project, *words: str, start: str = "", mode: Mode = Mode.MANUAL) -> RunPlan:
    drive = DriveOptions(agent=project.script(WORKS), mode=mode)
    return dry_run.plan(words[0], words[1:], start=start, drive=drive, cwd=project.root)


def lines(shown: RunPlan, **how: bool) -> list[str]:
    return [line.strip() for line in rendered.lines(shown, **how)]


def everything(folder: Path) -> dict[str, int]:
    """Each file below, the git directory included, and when it was written."""
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_says_for_each_step_what_it_runs_needs_and_makes(project: Project) -> None:
    project.gh("none")
    agent = project.script(WORKS)
    before = everything(project.root)
    done = project.playbook("run", "auto-feature", "013", "--agent", agent, "--dry-run")
    assert everything(project.root) == before
    assert (done.code, done.err) == (0, "The run can begin. Nothing was created.\n")
    said = done.out.splitlines()
    assert "      fails  asks you" in said
    assert said[:7] == [
        f"auto-feature on {FEATURE} · 8 steps · agent script",
        "  .playbooks/playbooks/auto-feature.yaml",
        "",
        " 1  plan  /speckit.plan",
        "      runs   .claude/commands/speckit.plan.md",
        f"      needs  ✓ spec_exists  specs/{FEATURE}/spec.md, 3 lines",
        f"      makes  · plan_exists  specs/{FEATURE}/plan.md is missing",
    ]
    assert said[-6:-1] == [
        f" 8  pr  /feature.pr {FEATURE}",
        "      gate   gate_always: asks you before it runs",
        "      runs   .claude/commands/feature.pr.md",
        "      needs  · qa_verdict_pass  from qa-run",
        f"      makes  · pr_created       no pull request of branch {FEATURE}",
    ]


def test_prints_one_object_for_programs(project: Project) -> None:
    project.gh("missing")  # and every other program with it
    done = project.playbook("run", "auto-validate", "013", "--dry-run", "--json")
    shape = conforms("plan", done.json)
    assert (done.code, shape["exit_code"], shape["agent"]) == (2, 2, "")
    assert shape["refusals"][0]["code"] == "PB-AGENT-NONE"
    first, second = (phase["steps"][0] for phase in shape["phases"])
    assert (first["command"], first["args"]) == ("/qa.plan", FEATURE)
    assert first["file"] == ".claude/commands/qa.plan.md"
    assert second["preconditions"][0]["from"] == "qa-plan"
    assert second["escalation_triggers"] == ["verdict_fail"]


def test_what_is_missing_is_what_nothing_before_provides(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(".playbooks/playbooks/checks.yaml", CHECKS)
    monkeypatch.setenv("PATH", "/nowhere")
    shown = plan(project, "checks", "013")
    assert shown.exit_code == 0
    tasks, forge = shown.missing
    assert tasks == f"lint needs tasks_exists: specs/{FEATURE}/tasks.md is missing"
    assert forge.startswith("types needs pr_created, which cannot be checked: cannot ask for")
    said = lines(shown)
    assert "1  tidy  skipped by the playbook" in said
    assert f"2  lint  /qa.plan {FEATURE} all  (opus), in parallel with types" in said
    assert f"needs  ✗ tasks_exists  specs/{FEATURE}/tasks.md is missing" in said
    assert "gate   gate_on_breaking: asks you if a report says breaking" in said
    assert "runs   /review, built into Claude Code" in said
    assert [line for line in said if line.startswith("needs  ? pr_created")]
    shape = as_json(shown)
    (review,) = [
        step for phase in shape["phases"] for step in phase["steps"] if step["command"] == "/review"
    ]
    assert review["builtin"] is True
    assert "file" not in review
    assert f"missing: {tasks}" in said
    assert "fails  retries once, then stops" in said
    assert "fails  asks you on subagent_error; else stops" in said
    conforms("plan", as_json(shown))


def test_says_what_each_error_policy_does(project: Project) -> None:
    project.write(".playbooks/playbooks/policies.yaml", POLICIES)
    shown = plan(project, "policies")
    assert [line for line in lines(shown) if line.startswith("fails")] == [
        "fails  goes on without it",
        "fails  counts as done",
        "fails  retries up to 3 times, then stops",
        "fails  asks you on verdict_fail; else on PB-STEP-TIMEOUT retries once, then stops; "
        "on PB-STEP-FAILED asks you; else stops",
    ]
    phases = conforms("plan", as_json(shown))["phases"]
    *_, retried, by_code = (phase["steps"][0]["error_policy"] for phase in phases)
    assert (retried, by_code["PB-STEP-FAILED"]) == ("retry:3", "gate")


ALL = """
name: all
description: What a playbook of version 1.1 can say of its steps
version: "1.1"
args: [{name: out, description: d, required: false, default: dist}]
outputs: ["{{out}}/report.md"]
limits: {max_cost_usd: 2.5, max_turns: 9}
defaults: {autonomy: auto, error_policy: stop}
steps:
  - id: build
    title: Build the report
    command: cli make {{out}}
    cwd: tools
    output: json
    output_schema: {type: object}
    outputs: ["{{out}}/report.md"]
    skip_if: [{file_exists: README.md}, {command_succeeds: cli make check}]
    timeout_seconds: 90
    idle_timeout_seconds: 20
    max_output_bytes: 20000
  - id: review
    command: prompt
    with: {text: Review it}
    stdin: $build.json
    when: $build.json.big
    tools: [Read, Grep]
    postconditions: [git_clean]
    error_policy: {default: stop, PB-AGENT-TIMEOUT: "retry:2"}
    max_tokens: 1000000
    max_tool_calls: 1000
  - {id: look, command: checkpoint, with: {message: Fine?}, timeout_seconds: 9}
"""


def test_says_what_version_1_1_adds_to_a_step(project: Project) -> None:
    project.write(".playbooks/playbooks/all.yaml", ALL)
    shown = plan(project, "all")
    said = [re.sub(r"  +", "  ", line) for line in lines(shown)]
    begin = said.index("at most 2.50 USD")
    assert said[begin : said.index("3  look  checkpoint") + 3] == [
        "at most 2.50 USD",
        "each step at most 9 turns",
        "must leave dist/report.md",
        "",
        "1  build  cli make dist",
        "Build the report",
        "runs  cli, without an agent, in tools",
        "prints JSON that matches its schema",
        "limits 1 min 30 s, 20 s of silence, 20,000 bytes of output",
        "unless ✓ file_exists=README.md  README.md, 1 line",
        "and  · command_succeeds='cli make check'  not run by a dry run",
        "makes  · file_exists=dist/report.md  dist/report.md is missing",
        "",
        "2  review  prompt",
        "when  $build.json.big: known once build is over",
        "runs  a prompt, by an agent that may use Read, Grep",
        "reads  $build.json: known once build is over",
        "limits 1,000,000 tokens, 1,000 tool calls",
        "makes  · git_clean  1 file not committed: .playbooks/playbooks/all.yaml",
        "fails  on PB-AGENT-TIMEOUT retries up to 2 times, then stops; else stops",
        "",
        "3  look  checkpoint",
        "gate  checkpoint: asks you before it runs",
        "asks  Fine?",
    ]
    shape = conforms("plan", as_json(shown))
    assert (shape["outputs"], shape["limits"]) == (
        ["dist/report.md"],
        {"max_cost_usd": 2.5, "max_turns": 9},
    )
    build, review = (phase["steps"][0] for phase in shape["phases"][:2])
    assert [each["held"] for each in build["skip_if"]] == [True, False]
    assert (build["title"], build["cwd"], build["output"]) == ("Build the report", "tools", "json")
    assert build["limits"]["timeout_seconds"] == 90
    assert (review["when"], review["stdin"]) == ("$build.json.big", "$build.json")
    assert review["tools"] == ["Read", "Grep"]


def test_says_how_often_a_step_is_repeated(project: Project) -> None:
    project.write(
        ".playbooks/playbooks/again.yaml",
        """
name: again
description: Repeat
version: "1.1"
args: [{name: files, description: d, required: true}]
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: a, command: "cli cat {{f}}", for_each: {in: $files, as: f, max: 9, at_once: 2}}
  - {id: b, command: cli make, until: {conditions: [tasks_done, {file_exists: x}], max: 3}}
""",
    )
    shown = plan(project, "again", "one two")
    said = [re.sub(r"  +", "  ", line) for line in lines(shown)]
    assert "each  f of $files, at most 9, 2 at once" in said
    assert "until  tasks_done, file_exists=x: at most 3 rounds" in said
    first, second = (phase["steps"][0] for phase in conforms("plan", as_json(shown))["phases"])
    assert first["for_each"] == {"in": "$files", "as": "f", "max": 9, "at_once": 2}
    assert second["until"] == {"conditions": ["tasks_done", "file_exists=x"], "max": 3}


def test_what_could_not_be_proved_at_the_end_is_said_before_the_beginning(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without gh the last step's work would be done, and its session would fail."""
    monkeypatch.setenv("PATH", "/nowhere")
    shown = plan(project, "auto-feature", "013")
    (said,) = [each for each in shown.warnings if "pr_created" in each]
    assert said.startswith("pr makes pr_created, which cannot be checked now: cannot ask for")
    assert f"note: {said}" in lines(shown)
    assert (shown.missing, shown.exit_code) == ((), 0)


def test_what_from_leaves_out_provides_nothing(project: Project) -> None:
    shown = plan(project, "auto-feature", "013", start="tasks")
    assert "1  plan  skipped by --from" in lines(shown)
    assert shown.missing == (f"tasks needs plan_exists: specs/{FEATURE}/plan.md is missing",)
    assert not shown.phases[0][0].runs
    assert lines(plan(project, "auto-feature", "013", start="agreement"))[3:5] == [
        "1  plan  skipped by --from",
        "2  tasks  skipped by --from",
    ]
    project.write(f"specs/{FEATURE}/plan.md", "# Plan\n")
    shown = plan(project, "auto-feature", "013")
    assert "the result of plan is there" in shown.warnings[0]
    assert f"makes  ✓ plan_exists  specs/{FEATURE}/plan.md, 1 line" in lines(shown)


def test_says_what_policies_make_of_it_and_who_is_asked(project: Project) -> None:
    project.write(
        ".playbooks/policies/release.yaml",
        "- {match: {command: /qa.plan}, autonomy: gate_always, postconditions: [spec_exists]}\n"
        "- {match: {step: qa-run}, autonomy: gate_always, answered_by: ['*@example.org', ada@x]}\n",
    )
    shown = plan(project, "auto-validate", "013", mode=Mode.AUTONOMOUS)
    said = lines(shown)
    assert said[0].endswith("agent script, autonomous")
    assert "policy release.yaml: gate_always instead of auto, also spec_exists" in said
    assert "gate   gate_always: approved automatically" in said
    assert "gate   gate_always: asks *@example.org or ada@x before it runs" in said
    shape = conforms("plan", as_json(shown))
    policies = [phase["steps"][0]["policies"][0] for phase in shape["phases"]]
    assert [(each["step"], each["was"], each["autonomy"]) for each in policies] == [
        ("qa-plan", "auto", "gate_always"),
        ("qa-run", "auto", "gate_always"),
    ]


def test_what_is_wrong_with_what_was_asked_for_is_said_as_by_a_run(project: Project) -> None:
    project.write("specs/013-other/spec.md", "x\n")
    for words in (["auto-faeture"], ["auto-feature"], ["auto-feature", "013"]):
        with pytest.raises(ArgumentError):
            plan(project, *words)
    done = project.playbook("run", "auto-feature", "013", "--dry-run", "--json")
    assert (done.code, conforms("error", done.json)["error"]["code"]) == (1, "PB-ARG-FEATURE")


def test_a_run_is_refused_for_commands_that_its_agent_lacks(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / ".claude/commands/qa.run.md").unlink()
    project.write(".claude/commands/qa.plan.md", "---\ndisable-model-invocation: true\n---\n")
    client = project.root.parent / "bin/claude"
    client.parent.mkdir()
    client.write_text("#!/bin/sh\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(client.parent), prepend=":")
    drive = DriveOptions(agent="claude")
    shown = dry_run.plan("auto-validate", ["013"], drive=drive, cwd=project.root)
    assert [error.code for error in shown.refusals] == ["PB-CHECK-COMMAND"]
    assert shown.exit_code == 1
    said = lines(shown)
    assert "runs   not installed here" in said
    assert "runs   .claude/commands/qa.plan.md, not inside Claude Code" in said
    assert "do: Install the command, or correct its name in the playbook." in said
    assert rendered.verdict(shown) == "The run would be refused. Nothing was created."


def test_a_limit_that_the_agent_cannot_keep_is_refused_as_by_a_run(project: Project) -> None:
    drive = DriveOptions(agent=project.script(WORKS), limits=Budget(max_turns=3))
    shown = dry_run.plan("auto-validate", ["013"], drive=drive, cwd=project.root)
    assert [error.code for error in shown.refusals] == ["PB-ARG-AGENT"]
    assert (shown.agent, shown.exit_code) == ("script", 1)


def test_an_open_session_refuses_another_and_a_pending_one_is_continued(
    project: Project,
) -> None:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    drive = DriveOptions(agent=project.script(WORKS))
    ending = driving.run("gated", cwd=project.root, drive=drive)
    shown = plan(project, "auto-validate", "013")
    assert [error.code for error in shown.refusals] == ["PB-STATE-OPEN"]
    assert shown.exit_code == 3
    driving.abort(ending.snapshot.manifest.session_id, cwd=project.root)
    pending = begin_only(project)
    shown = plan(project, "gated")
    assert (shown.adopts, shown.exit_code) == (pending, 0)
    assert as_json(shown)["adopts"] == pending
    assert rendered.verdict(shown) == (
        f"The run would continue session {pending}. Nothing was created."
    )


def by_branch(project: Project) -> None:
    """A spec-kit that goes by the branch alone, and another branch."""
    project.write(".specify/scripts/bash/common.sh", "git rev-parse --abbrev-ref HEAD\n")
    project.git("switch", "-q", "-c", "elsewhere")


def broken_pointer(project: Project) -> None:
    project.write(".specify/feature.json", "[]")


def taken_folder(project: Project) -> None:
    project.write(".playbooks/sessions", "a file\n")


@pytest.mark.parametrize("obstacle", [by_branch, broken_pointer, taken_folder])
def test_what_a_run_would_refuse_before_its_first_step_is_foreseen(
    project: Project, obstacle: Callable[[Project], None]
) -> None:
    obstacle(project)
    before = everything(project.root)
    shown = plan(project, "auto-feature", "013")
    assert everything(project.root) == before
    drive = DriveOptions(agent=project.script(WORKS))
    with pytest.raises(PlaybookError) as caught:
        driving.run("auto-feature", ["013"], cwd=project.root, drive=drive)
    assert shown.refusals[0].code == caught.value.code
    assert shown.exit_code == caught.value.exit_code


def test_a_later_step_that_spec_kit_would_misunderstand_is_reported(project: Project) -> None:
    """A step before it may put that right; so it is not refused."""
    by_branch(project)
    later = "  - {id: look, command: /qa.plan, autonomy: auto, error_policy: stop}\n"
    text = project.read(".playbooks/playbooks/auto-feature.yaml")
    project.write(
        ".playbooks/playbooks/auto-feature.yaml", text.replace("steps:\n", f"steps:\n{later}", 1)
    )
    shown = plan(project, "auto-feature", "013")
    assert (shown.refusals, shown.exit_code) == ((), 0)
    assert shown.missing[-1] == (
        "plan will not begin: this project's spec-kit takes its feature from the branch, "
        f"but the branch is elsewhere, not {FEATURE}"
    )


def test_a_pending_session_with_a_driver_is_not_continued(project: Project) -> None:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    private = locate.store(project.root).runtime(begin_only(project))
    with driver_lock.driving(private, "script"):
        shown = plan(project, "gated")
    assert [error.code for error in shown.refusals] == ["PB-STATE-DRIVEN"]


def begin_only(project: Project) -> str:
    """A session that has not begun, as another worktree's `start` leaves it."""
    from playbook_supervisor.sessions.store import creation
    from playbook_supervisor.sessions.store.disk_store import DiskStore
    from playbook_supervisor.system.git import checkout

    store = DiskStore(checkout.find(project.root))
    return creation.begin(store, creation.prepare(store, "gated", []))


def test_at_a_terminal_it_is_coloured_and_no_wider(project: Project) -> None:
    agent = project.script(WORKS)
    with Terminal(project, "run", "auto-feature", "013", "--agent", agent, "--dry-run") as person:
        assert person.end() == 0
        assert "\x1b[1mplan\x1b[0m" in person.raw
        steps, _, _ = person.shown.partition("\n\nnote:")
        assert max(map(len, steps.splitlines())) == 100
        assert f"neither .qa/{FEATURE}/test-plan.md nor" in person.shown
        assert "…" in steps


def test_what_conditions_say_is_cut_to_a_narrow_terminal(project: Project) -> None:
    shown = rendered.lines(plan(project, "auto-feature", "013"), width=60)
    said = [line for line in shown if line.strip().startswith(("needs", "makes"))]
    assert max(map(len, said)) == 60
    assert any(line.endswith("…") for line in said)


def test_a_playbook_from_anywhere_in_the_repository_is_named_from_its_top(
    project: Project,
) -> None:
    project.write("tools/gated.yaml", GATED)
    shown = plan(project, str(project.root / "tools/gated.yaml"))
    assert (shown.file, shown.feature) == ("tools/gated.yaml", FEATURE)
