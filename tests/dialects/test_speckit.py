"""spec-kit's workflow files, read as playbooks of version 1.1."""

# ruff: noqa: E501 - a row of a table is a line

from __future__ import annotations

from typing import Any

import pytest

from playbook_supervisor.formats.located import yaml_values
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.project.playbooks.schema import examine
from playbook_supervisor.project.playbooks.translation import translate

HEAD = """\
schema_version: "1.0"
workflow: {id: cycle, name: Cycle, version: "1.2", author: Ann, description: From spec to code}
requires: {speckit_version: ">=0.7", integrations: {any: [claude]}}
inputs:
  spec: {type: string, required: true, prompt: What to build}
  scope: {type: string, default: full, enum: [full, small]}
  count: {type: number, required: true, default: 3}
  tests: {type: boolean}
steps:
"""
SCAN = "{id: scan, command: speckit.analyze}"
GATE = "{id: review, type: gate, message: 'Is it right?'}"
SHELL = "{id: test, type: shell, run: make test}"
FAN = """\
{id: build, type: fan-out, items: "{{ steps.scan.output.tasks }}", max_concurrency: 3,
     step: {command: speckit.implement, input: {args: "{{ item.file }} {{ item }}"}}}"""
WORK = "{id: fix, type: prompt, prompt: Mend it}"
NOT_GREEN = "{{ steps.test.output.exit_code != 0 }}"


def workflow(*steps: str) -> str:
    return HEAD + "".join(f"  - {step}\n" for step in steps)


def read(*steps: str) -> Playbook:
    playbook, problems, _ = examine(workflow(*steps).encode(), "w.yaml")
    assert playbook is not None, problems
    return playbook


def data(*steps: str) -> Any:
    """The translated steps, as data."""
    translation = translate(workflow(*steps).encode(), "w.yaml")
    assert [each for each in translation.problems if each.severity == "error"] == []
    return yaml_values(translation.document.data)["steps"]


def said(text: str, severity: str = "error") -> list[tuple[int, str, str]]:
    """Line, message and guidance of each problem."""
    _, problems, _ = examine(text.encode(), "w.yaml")
    found = [each for each in problems if each.severity == severity]
    return [(each.line, each.message, each.guidance) for each in found]


def branch(condition: str) -> str:
    """A step that depends on an expression."""
    return f'{{id: b, type: if, condition: "{{{{ {condition} }}}}", then: [{SHELL}]}}'


# ── what is carried ─────────────────────────────────────────────────────────────────────────


def test_the_head_and_the_inputs_are_those_of_a_playbook() -> None:
    playbook = read(SCAN)
    assert (playbook.name, playbook.owner) == ("cycle", "Ann")
    assert playbook.description == "Cycle: From spec to code"
    args = [(arg.name, str(arg.type), arg.required, arg.default) for arg in playbook.args]
    assert args == [
        ("spec", "string", True, None),
        ("scope", "enum", False, "full"),
        ("count", "number", False, "3"),
        ("tests", "boolean", False, "false"),
    ]
    assert playbook.args[0].description == "What to build"
    assert playbook.args[1].values == ("full", "small")


def test_a_command_is_a_slash_command_with_its_args() -> None:
    step = """{id: plan, command: speckit.plan, integration: "{{ inputs.spec }}", model: opus,
     options: {}, continue_on_error: true, input: {args: "{{ inputs.spec }} {{ 'x' }}"}}"""
    (plan,) = read(step).steps
    assert (plan.command, plan.args, plan.model) == ("/speckit.plan", "{{spec}} x", "opus")
    assert str(plan.autonomy) == "auto"
    assert data(step)[0]["error_policy"] == "continue"


def test_the_model_of_the_workflow_is_that_of_its_agents() -> None:
    text = workflow(SCAN, SHELL).replace("author: Ann", "model: opus, integration: claude")
    playbook, _, _ = examine(text.encode(), "w.yaml")
    assert playbook is not None
    assert [step.model for step in playbook.steps] == ["opus", ""]


def test_a_prompt_can_end_with_the_output_of_a_step() -> None:
    step = """{id: look, type: prompt, prompt: "Of {{ inputs.spec }}: {{ steps.test.output.stdout }} "}"""
    look = read(SHELL, step).steps[1]
    assert (look.command, look.stdin) == ("prompt", "$test.stdout")
    assert data(SHELL, step)[1]["with"] == {"text": "Of {{spec}}: "}


@pytest.mark.parametrize(
    ("run", "command"),
    [
        ("make test", "cli make test"),
        ("grep -n {{ inputs.spec }} 'a|b' \"c d\"", "cli grep -n {{spec}} 'a|b' \"c d\""),
        (r"echo a\ b", r"cli echo a\ b"),
        ("git log | head -3", "cli sh -c 'git log | head -3'"),
        ("A=b make", "cli sh -c 'A=b make'"),
        ("ls # all", "cli sh -c 'ls # all'"),
        ('echo "$HOME"', "cli sh -c 'echo \"$HOME\"'"),
        ("echo 'a", "cli sh -c 'echo '\"'\"'a'"),
    ],
)
def test_a_line_of_shell_is_a_program_and_needs_a_shell_only_for_its_syntax(
    run: str, command: str
) -> None:
    import json

    (step,) = read(f"{{id: a, type: shell, run: {json.dumps(run)}}}").steps
    assert step.command == command


def test_a_gate_is_a_checkpoint_that_names_its_file() -> None:
    gate = """{id: review, type: gate, message: "Is {{ inputs.spec }} right?",
     options: [approve, reject], on_reject: skip, show_file: specs/spec.md}"""
    (step,) = data(gate)
    assert step["command"] == "checkpoint"
    assert step["with"] == {"message": "Is {{spec}} right? (file: specs/spec.md)"}
    (note,) = [each for each in said(workflow(gate), "note") if "`checkpoint`" in each[1]]
    assert "To reject is to answer `skip`." in note[2]


@pytest.mark.parametrize(
    ("condition", "holds", "fails"),
    [
        ("inputs.scope == 'full'", '$scope == "full"', '$scope != "full"'),
        ("'full' != inputs.scope", '$scope != "full"', '$scope == "full"'),
        ("inputs.count == 3", "$count == 3", "$count != 3"),
        ("inputs.tests", "$tests", "!$tests"),
        ("not inputs.tests", "!$tests", "$tests"),
        ("steps.scan.output.ok", "$scan.json.ok", "!$scan.json.ok"),
        ("steps.scan.output.a[0].b == none", "$scan.json.a[0].b == null", "$scan.json.a[0].b != null"),
        ("not (steps.scan.output.n == 1.5)", "$scan.json.n != 1.5", "$scan.json.n == 1.5"),
        ("steps.review.output.choice == 'approve'", "$review.approved", "!$review.approved"),
        ("steps.review.output.choice != 'approve'", "!$review.approved", "$review.approved"),
        ("steps.review.output.choice == 'reject'", "!$review.approved", "$review.approved"),
    ],
)  # fmt: skip
def test_a_branch_is_the_when_of_its_steps(condition: str, holds: str, fails: str) -> None:
    step = f"""{{id: b, type: if, condition: "{{{{ {condition} }}}}",
     then: [{SHELL}], else: [{{id: other, type: shell, run: make}}]}}"""
    steps = read(SCAN, GATE, step).steps
    assert [step.when for step in steps] == ["", "", holds, fails]


def test_the_cases_of_a_switch_are_comparisons() -> None:
    switch = f"""{{id: s, type: switch, expression: "{{{{ inputs.scope }}}}",
     cases: {{full: [{SHELL}]}}, default: [{{id: other, type: shell, run: make}}]}}"""
    assert [step.when for step in read(switch).steps] == ['$scope == "full"', '$scope != "full"']
    switch = f"""{{id: s, type: switch, expression: "{{{{ steps.scan.output.kind }}}}",
     cases: {{bug: [{SHELL}], new: [{WORK}]}}}}"""
    assert [step.when for step in read(SCAN, switch).steps][1:] == [
        '$scan.json.kind == "bug"',
        '$scan.json.kind == "new"',
    ]


def test_a_step_whose_json_is_read_promises_it() -> None:
    scan, _ = data(SCAN, branch("steps.scan.output.ok"))
    assert scan["output"] == "json"
    notes = said(workflow(SCAN, branch("steps.scan.output.ok")), "note")
    assert any("`scan` must print JSON" in each[1] for each in notes)


@pytest.mark.parametrize("kind", ["while", "do-while"])
def test_a_loop_that_works_and_tests_is_a_step_until_its_test_succeeds(kind: str) -> None:
    loop = f"""{{id: l, type: {kind}, condition: "{NOT_GREEN}", max_iterations: 5,
     steps: [{WORK}, {SHELL}]}}"""
    (step,) = data(loop)
    test = [{"command_succeeds": "cli make test"}]
    assert (step["id"], step["until"]) == ("fix", {"conditions": test, "max": 5})
    assert step.get("skip_if", []) == (test if kind == "while" else [])


def test_a_loop_without_a_limit_has_that_of_spec_kit() -> None:
    loop = f"""{{id: l, type: while, condition: "{NOT_GREEN}", steps: [{WORK}, {SHELL}]}}"""
    assert data(loop)[0]["until"]["max"] == 10


def test_a_fan_out_is_a_loop_over_items_and_its_fan_in_is_no_step() -> None:
    join = "{id: join, type: fan-in, wait_for: [build]}"
    tell = """{id: tell, type: prompt, prompt: "Of: {{ steps.build.output.results }}"}"""
    scan, build, tell_step = data(SCAN, FAN, join, tell)
    assert scan["output"] == "json"
    assert (build["id"], build["command"]) == ("build", "/speckit.implement")
    assert build["args"] == "{{item.file}} {{item}}"
    loop = {"in": "$scan.json.tasks", "as": "item", "max": 100, "at_once": 3}
    assert build["for_each"] == loop
    assert tell_step["stdin"] == "$build.stdout"


def test_a_fan_out_goes_through_an_input() -> None:
    fan = FAN.replace("steps.scan.output.tasks", "inputs.spec")
    assert data(fan)[0]["for_each"]["in"] == "$spec"


def test_every_translation_of_a_behaviour_is_a_note_and_no_warning() -> None:
    notes = [message for _, message, _ in said(workflow(SCAN), "note")]
    assert notes[0] == "read as a spec-kit workflow: translated to version 1.1"
    assert any("`requires` is not tested" in each for each in notes)
    assert any("every step has" in each for each in notes)


# ── what is refused, at its place ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("steps", "line", "message", "guidance"),
    [
        ((branch("inputs.scope == 'a' and inputs.tests"),), 10, "`and` has no counterpart", "once"),
        ((branch("inputs.count > 3"),), 10, "`>` has no counterpart", "as JSON"),
        ((branch("inputs.spec | contains('a')"),), 10, "`|` has no counterpart", "Name an input"),
        ((branch("inputs.spec == inputs.scope"),), 10, "this condition has no counterpart", "Compare"),
        ((branch("true"),), 10, "this condition has no counterpart", "Compare"),
        ((branch("inputs.spec"),), 10, "`$spec` is neither true nor false", "Compare it"),
        ((branch("inputs.nothing"),), 10, "`inputs.nothing` is no input", "under `inputs`"),
        ((branch("inputs.scope == 'big'"),), 10, "`$scope` is never `big`", "`values`"),
        ((branch("inputs.spec == 3"),), 10, "`$spec` is text", "quotes"),
        ((branch("whatever == 3"),), 10, "`whatever` has no counterpart", "steps.ID"),
        ((branch("steps.later.output.ok"),), 10, "`later` is no earlier step", "before this"),
        ((SHELL, branch("steps.test.output.exit_code == 1")), 11, "`exit_code` is always 0", "JSON"),
        ((SCAN, branch("steps.scan.output.stdout == 'a'")), 11, "`stdout` is text", "print JSON"),
        ((SCAN, branch("steps.scan.output['a b']")), 11, "the key `a b` cannot be named", "letters"),
        ((GATE, branch("steps.review.output.ok")), 11, "a gate has only a `choice`", "approve"),
        ((branch("inputs.tests }} and {{ inputs.tests"),), 10, "one expression", "Write"),
        (("{id: a, type: shell, run: 'echo {{ inputs.spec }} | cat'}",), 10, "(a shell reads `|`), and an expression", "script"),
        (('{id: a, type: shell, run: "make\\nmake test"}',), 10, "this has several lines", "script"),
        (("{id: a, type: shell}",), 10, "`run` is empty", "Write a program"),
        (("{id: a, command: x, input: {args: \"{{ inputs.spec | default('y') }}\"}}",), 10, "`|` has no counterpart", "`default`"),
        (("{id: a, command: x, input: {args: \"{{ item }}\"}}",), 10, "only in a fan-out", "input"),
        (("{id: a, command: x, input: {file: y}}",), 10, "`file` is not a known key", "args"),
        (("{id: a, command: x, options: {a: 1}}",), 10, "`options` of an agent", "Remove"),
        (("{id: a, command: x, model: '{{ inputs.spec }}'}",), 10, "chosen before the run", "Write the name"),
        (("{id: a}",), 10, "`command` is missing", "as in"),
        (("{command: x}",), 10, "`id` is missing", "Add"),
        (("{id: a, command: x, continue_on_error: maybe}",), 10, "neither true nor false", "true or"),
        (("{id: a, command: x, tiemout: 3}",), 10, "`tiemout` is not a known key", "The keys"),
        (("{id: a, type: comand, command: x}",), 10, "`comand` is no type", "mean `command`?"),
        (("{id: g, type: gate, message: a, options: [yes please]}",), 10, "the option `yes please`", "approve"),
        (("{id: g, type: gate, message: a, on_reject: explode}",), 10, "`explode` is no reaction", "abort"),
        (("{id: p, type: prompt, prompt: 'x {{ '}",), 10, "wrong at character", "Write"),
        ((f"{{id: o, type: if, condition: inputs.tests, then: [{branch('inputs.tests')}]}}",), 10, "a branch in a branch", "their own"),
        (("{id: o, type: if, condition: inputs.tests}",), 10, "a list of steps is expected", "at least"),
        ((f"{{id: s, type: switch, expression: inputs.scope, cases: {{full: [{SHELL}], small: [{WORK}]}}, default: [{SCAN}]}}",), 10, "`default` beside several", "its own case"),
        ((f"{{id: s, type: switch, expression: inputs.count, cases: {{3: [{SHELL}]}}}}",), 10, "the case `3` is a number", "`if`"),
        ((f'{{id: l, type: while, condition: "{NOT_GREEN}", steps: [{SCAN}, {WORK}, {SHELL}]}}',), 10, "works and then tests", "child playbook"),
        ((f'{{id: l, type: while, condition: "{NOT_GREEN}", steps: [{GATE}, {SHELL}]}}',), 10, "a `gate` step cannot be repeated", "agent"),
        ((FAN.replace("steps.scan.output.tasks", "3"),), 10, "a loop goes through", "Write"),
        ((f"{{id: f, type: fan-out, items: inputs.spec, step: {GATE}}}",), 10, "a `gate` step cannot be in", "Use"),
        (("{id: g, type: gate, message: a, options: approve}",), 10, "`options` is not a list", "Write a list"),
        (("{id: j, type: fan-in, wait_for: [x]}",), 10, "`x` is no earlier step", "before"),
        (("{id: j, type: fan-in, wait_for: []}",), 9, "no step does anything", "Add a command"),
        (("{id: j, type: fan-in, wait_for: [], output: {a: b}}",), 10, "the `output` of a fan-in", "Read"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_is_refused_with_a_cure(
    steps: tuple[str, ...], line: int, message: str, guidance: str
) -> None:
    found = said(workflow(*steps))
    assert len(found) == 1, found
    assert found[0][0] == line
    assert message in found[0][1]
    assert guidance in found[0][2]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('"1.0"', '"2.0"', 1, "`schema_version` is not 1.0"),
        ("author: Ann", "auhtor: Ann", 2, "`auhtor` is not a known key of `workflow`"),
        ("integrations:", "integration:", 3, "`integration` is not a known key of `requires`"),
        ("prompt: What", "prmpt: What", 5, "`prmpt` is not a known key of an input"),
        ("type: number", "type: money", 7, "`money` is not a valid value"),
        ("steps:", "extra: 1\nsteps:", 9, "`extra` is not a known key"),
        ("id: cycle", "id: My Cycle", 2, "`My Cycle` is not a valid `name`"),
    ],
)
def test_a_fault_of_the_head_is_reported_where_it_stands(
    old: str, new: str, line: int, message: str
) -> None:
    found = said(workflow(SCAN).replace(old, new, 1))
    assert [each[0] for each in found if message in each[1]] == [line]


@pytest.mark.parametrize(
    "text",
    [
        "workflow: {}\nsteps: []\n",
        "workflow: {id: [a]}\ninputs: [a]\nrequires: 3\nsteps: [3, [], {type: []}]\n",
        "workflow: {id: a}\nsteps: [{id: [b], type: if, condition: {}, then: {}}]\n",
        "workflow: {id: a}\nsteps: [{id: b, type: fan-out, items: [], step: [1]}]\n",
        "workflow: {id: a}\nsteps: [{id: b, type: gate, message: [], options: {a: b}}]\n",
        "workflow: {id: a}\ninputs: {x: 3, y: [], z: }\nsteps: [{id: b, command: {}, input: []}]\n",
        "workflow: {id: ../../etc}\nsteps: [{id: ../b, command: '../../x'}]\n",
        f"workflow: {{id: a}}\nsteps: [{{id: b, type: prompt, prompt: '{'{{(' * 5_000}'}}]\n",
    ],
)
def test_a_file_of_the_wrong_shape_has_problems_and_never_runs(text: str) -> None:
    playbook, problems, _ = examine(text.encode(), "w.yaml")
    assert playbook is None
    assert problems
