"""What a valid playbook probably does not mean."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.project.expressions import namespaces
from playbook_supervisor.project.playbooks.lint import lint
from playbook_supervisor.project.playbooks.schema import examine
from playbook_supervisor.project.settings.config import CheckSpec, Config
from playbook_supervisor.project.slash_commands import InstalledCommand as Installed

FEATURE = "[{name: feature, description: d, required: true}]"


def step(name: str, **keys: str) -> str:
    given = {"command": f"/{name}", "autonomy": "auto", "error_policy": "stop", **keys}
    return f"{{id: {name}, " + ", ".join(f"{key}: {value}" for key, value in given.items()) + "}"


def warnings(
    *steps: str,
    args: str = FEATURE,
    command: Callable[[str], Installed | None] | None = None,
    config: Config | None = None,
    stem: str = "x",
    version: str = "1.0",
) -> tuple[Problem, ...]:
    """The steps stand one in a line from line 6 on, each from column 3."""
    lines = "\n".join(f"- {each}" for each in steps)
    text = f'name: x\ndescription: y\nversion: "{version}"\nargs: {args}\nsteps:\n{lines}\n'
    playbook, problems, document = examine(text.encode(), "x.yaml")
    assert problems == ()
    assert playbook is not None
    assert document is not None
    return lint(playbook, document, command=command, config=config, stem=stem)


def codes(found: tuple[Problem, ...]) -> list[tuple[int, str]]:
    return [(each.line, each.code.removeprefix("PB-CHECK-")) for each in found]


def without_unseen(found: tuple[Problem, ...]) -> list[tuple[int, str]]:
    return [each for each in codes(found) if each[1] != "LINT-UNSEEN"]


def test_a_sound_playbook_has_no_warnings() -> None:
    found = warnings(
        step("plan", preconditions="[spec_exists]", postconditions="[plan_exists]"),
        step("pr", autonomy="gate_always", postconditions="[pr_created]"),
        command=lambda name: Installed(name),
    )
    assert found == ()


def test_every_warning_has_a_place_a_code_and_a_cure() -> None:
    (problem,) = warnings(step("a"))
    assert problem == Problem(
        "x.yaml",
        (6, 8),
        "warning",
        "PB-CHECK-LINT-UNSEEN",
        "`a` has no postconditions: only the agent says that it is done",
        "Add a condition that holds once the work is done, if there is one.",
    )


def test_a_trigger_without_postconditions_never_fires() -> None:
    found = warnings(step("a", escalation_triggers="[subagent_error, postcondition_fail]"))
    assert without_unseen(found) == [(6, "LINT-TRIGGER")]
    assert (
        warnings(
            step("a", escalation_triggers="[postcondition_fail]", postconditions="[plan_exists]")
        )
        == ()
    )


@pytest.mark.parametrize(
    ("triggers", "postconditions", "idle"),
    [
        ("[subagent_error, postcondition_fail]", "[plan_exists]", True),
        ("[subagent_error]", "[]", True),
        ("[subagent_error]", "[plan_exists]", False),
    ],
)
def test_a_retry_that_never_happens_is_named(
    triggers: str, postconditions: str, idle: bool
) -> None:
    found = warnings(
        step(
            "a",
            error_policy="retry_once",
            escalation_triggers=triggers,
            postconditions=postconditions,
        )
    )
    assert ((6, "LINT-RETRY") in codes(found)) is idle


@pytest.mark.parametrize(
    ("command", "code", "near"),
    [
        ("/a", "PB-STEP-TIMEOUT", "`PB-AGENT-TIMEOUT`"),
        ("cli make", "PB-STEP-FIALED", "`PB-STEP-FAILED`"),
        ("cli make", "PB-BUG", ""),
    ],
)
def test_a_code_that_no_failure_of_the_step_has_is_named(
    command: str, code: str, near: str
) -> None:
    policy = f"{{default: stop, {code}: continue}}"
    found = warnings(step("a", command=f"'{command}'", error_policy=policy), version="1.1")
    (warned,) = (each for each in found if each.code == "PB-CHECK-LINT-CODE")
    assert warned.message == f"no failure here has the code `{code}`"
    assert warned.guidance.startswith(f"Did you mean {near}? " if near else "Codes of agents")
    assert warned.line == 6
    assert warned.col > 50


def test_defaults_may_name_the_codes_of_every_step_that_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def warned(*commands: str) -> list[str]:
        steps = ", ".join(
            f"{{id: s{i}, command: {each}, postconditions: [git_clean]}}"
            for i, each in enumerate(commands)
        )
        policy = "{default: stop, PB-AGENT-API: gate, PB-STEP-HTTP: gate, PB-STEP-MINE: gate}"
        text = f"""
name: x
description: y
version: "1.1"
args: []
defaults: {{autonomy: auto, error_policy: {policy}}}
steps: [{steps}, {{id: own, command: /a, error_policy: gate, postconditions: [git_clean]}}]
"""
        playbook, _, document = examine(text.encode(), "x.yaml")
        assert playbook is not None
        assert document is not None
        return [each.message.split("`")[1] for each in lint(playbook, document)]

    monkeypatch.setattr(namespaces, "installed", lambda: ("mine",))
    assert warned("cli make") == ["PB-AGENT-API", "PB-STEP-MINE"]
    assert warned("cli make", "/b") == ["PB-STEP-MINE"]
    assert warned("mine do", "/b") == []
    assert warned("mine do") == ["PB-AGENT-API"]


def test_a_retry_of_what_would_fail_again_is_named() -> None:
    policy = "{default: stop, PB-STEP-PROGRAM: retry_once, PB-STEP-TIMEOUT: retry_once}"
    (found,) = warnings(step("a", command="cli make", error_policy=policy), version="1.1")
    assert found.code == "PB-CHECK-LINT-RETRY"
    assert "`retry_once` has no effect: `PB-STEP-PROGRAM`" in found.message


KNOWN = {
    "/here": Installed("/here"),
    "/closed": Installed("/closed-one", closed=True),
    "/hidden": Installed("/hidden", hidden=True),
    "/neither": Installed("/neither", closed=True, hidden=True),
    "/compact": Installed("/compact", builtin=True),
}
HEADLESS = "runs headless (`playbook run`), not inside Claude Code: `disable-model-invocation`"
INSIDE = "runs inside Claude Code (`/playbook.run`), not headless: `user-invocable`"


def test_a_command_that_is_not_found_or_built_in_is_named_at_its_place() -> None:
    found = warnings(*map(step, ("here", "gone", "compact")), command=KNOWN.get)
    said = [(each.line, each.message) for each in found if each.code == "PB-CHECK-COMMAND"]
    assert said == [
        (7, "the command `/gone` was not found in this project"),
        (8, "`/compact` is built into Claude Code; subagents may not be able to run it"),
    ]


@pytest.mark.parametrize(
    ("names", "severity", "told"),
    [
        (["closed"], "note", [f"`/closed-one` {HEADLESS}"]),
        (["here", "hidden"], "note", [f"`/hidden` {INSIDE}"]),
        (["closed", "hidden"], "warning", [f"`/closed-one` {HEADLESS}", f"`/hidden` {INSIDE}"]),
        (["neither"], "warning", [f"`/neither` {HEADLESS}", f"`/neither` {INSIDE}"]),
    ],
)
def test_the_way_in_which_a_command_runs_is_a_note_unless_none_is_left(
    names: list[str], severity: str, told: list[str]
) -> None:
    all_found = warnings(*map(step, names), command=KNOWN.get)
    found = [each for each in all_found if each.code != "PB-CHECK-LINT-UNSEEN"]
    assert [each.message for each in found] == told
    assert {each.severity for each in found} == {severity}


def test_a_check_that_the_settings_do_not_define_is_named_at_its_place() -> None:
    """One that an arg names, and one of a step that is skipped, is not looked for."""
    steps = (
        step("a", postconditions="[command_succeeds: test, command_succeeds: cli make]"),
        step("b", preconditions="[command_fails: tset]"),
        step("c", skip_if="[command_succeeds: lint]"),
        step("d", autonomy="skip", postconditions="[command_succeeds: lint]"),
        step("e", postconditions="[command_succeeds: '{{check}}']"),
    )
    args = "[{name: feature, description: d, required: true}, "
    args += "{name: check, description: d, required: false}]"
    config = Config(checks={"test": CheckSpec("test", ("make", "test"))})
    found = warnings(*steps, args=args, config=config, version="1.1")
    said = [(each.line, each.message) for each in found if each.code == "PB-CHECK-UNDEFINED"]
    assert said == [
        (7, "the config defines no check 'tset'; did you mean test?"),
        (8, "the config defines no check 'lint'; there is test"),
    ]
    assert "PB-CHECK-UNDEFINED" not in str(warnings(*steps, args=args, version="1.1"))


def test_a_precondition_that_only_a_later_step_provides_is_named() -> None:
    found = warnings(
        step("tasks", preconditions="[spec_exists, plan_exists]", postconditions="[tasks_exists]"),
        step("plan", postconditions="[plan_exists]"),
    )
    assert [(each.line, each.code) for each in found] == [(6, "PB-CHECK-LINT-ORDER")]
    assert "`plan_exists` is provided by `plan`" in found[0].message


def test_a_step_that_is_skipped_provides_nothing_and_is_not_judged() -> None:
    found = warnings(
        step("a", preconditions="[plan_exists]", postconditions="[tasks_exists]"),
        step("b", autonomy="skip", postconditions="[plan_exists]"),
        step(
            "c", autonomy="skip", error_policy="retry_once", escalation_triggers="[subagent_error]"
        ),
    )
    assert found == ()


def test_a_feature_condition_without_an_arg_feature_is_named_once() -> None:
    found = warnings(
        step("a", postconditions="[pr_created]", autonomy="gate_always"),
        step("b", preconditions="[spec_exists]", postconditions="[plan_exists]"),
        args="[]",
    )
    assert codes(found) == [(7, "LINT-FEATURE")]
    assert found[0].message.startswith("`spec_exists` needs a feature")


def test_a_name_that_differs_from_the_files_is_named() -> None:
    """cat PL-4."""
    (problem,) = warnings(step("a", postconditions="[plan_exists]"), stem="y")
    assert (problem.line, problem.col, problem.code) == (1, 7, "PB-CHECK-LINT-NAME")
    assert "`y`" in problem.message
    assert warnings(step("a", postconditions="[plan_exists]"), stem="") == ()


@pytest.mark.parametrize(
    "publishing", [step("open", postconditions="[pr_created]"), step("open", command="/feature.pr")]
)
def test_a_gate_after_the_publishing_step_comes_too_late(publishing: str) -> None:
    found = warnings(publishing, step("review", autonomy="gate_always"))
    assert without_unseen(found) == [(7, "LINT-GATE")]


def test_a_gate_after_a_pr_step_comes_too_late() -> None:
    opens = step("open", command="pr", **{"with": "{title: Add it}"})
    found = warnings(opens, step("review", autonomy="gate_always"), version="1.1")
    assert without_unseen(found) == [(7, "LINT-GATE")]
    runs = step("run", command="cli bin/pr")
    assert (
        without_unseen(warnings(runs, step("review", autonomy="gate_always"), version="1.1")) == []
    )


def test_only_the_steps_of_agents_need_conditions_to_be_seen() -> None:
    """tyr 29."""
    commits = step("commit", command="commit", **{"with": "{message: m, paths: [src]}"})
    asks = step("ask", command="prompt", **{"with": "{text: Why}"})
    assert codes(warnings(commits, asks, version="1.1")) == [(7, "LINT-UNSEEN")]


@pytest.mark.parametrize("command", ["/speckit.clarify", "/speckit-clarify"])
def test_a_command_that_is_known_to_ask_questions_is_named(command: str) -> None:
    assert without_unseen(warnings(step("a", command=command))) == [(6, "LINT-ASKS")]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"postconditions": "[{file_exists: out/Report-1.md}]"}, 6),
        ({"postconditions": "[{verdict_pass: summary.md}]"}, 6),
        ({"outputs": "[notes.md, findings.md]"}, 6),
        ({"postconditions": "[plan_exists, {file_exists: check-report.md}]"}, 0),
        ({"outputs": "[report.txt]"}, 0),
        ({"command": "cli make", "outputs": "[report.md]"}, 0),
    ],
)
def test_a_file_that_the_client_lets_no_subagent_write_is_named(
    keys: dict[str, str], line: int
) -> None:
    """Measured with Claude Code 2.1.329."""
    found = warnings(step("a", **keys), version="1.1")
    refused = [each for each in found if each.code == "PB-CHECK-LINT-REFUSED"]
    assert [each.line for each in refused] == ([line] if line else [])
