"""Version 1.1 of the playbook format: what is read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Limits, Reviewers
from playbook_supervisor.kernel.vocabulary import ArgType, Autonomy, OutputFormat, Transform
from playbook_supervisor.project.playbooks import format_version
from playbook_supervisor.project.playbooks.schema import examine, read_playbook, schema_text

WHOLE = Path(__file__).parent.parent / "playbooks" / "version-1-1.yaml"


def problems(steps: str, *, args: str = "[]") -> list[Problem]:
    """All problems of a playbook of version 1.1 with these steps, flow mappings."""
    return list(examine(document(steps, args=args).encode(), "x.yaml")[1])


def document(steps: str, *, args: str = "[]") -> str:
    return f'name: x\ndescription: y\nversion: "1.1"\nargs: {args}\nsteps: [{steps}]\n'


def step(more: str = "", *, command: str = "cli make", name: str = "one") -> str:
    """A step as a flow mapping; `more` begins with a comma."""
    return f"{{id: {name}, command: '{command}', autonomy: auto, error_policy: stop{more}}}"


def only(*args: str, **named: str) -> Problem:
    (problem,) = problems(*args, **named)
    return problem


# ── what is read ────────────────────────────────────────────────────────────────────────────


def test_a_playbook_is_read_with_every_field() -> None:
    """cat FR-1.2, FR-2.2, FR-4.9, E-1: the fields that 1.1 adds to a playbook, its args and its
    steps."""
    playbook = read_playbook(WHOLE.read_bytes(), "x.yaml")
    assert (playbook.owner, playbook.outputs) == ("platform team", ("report.md",))
    assert playbook.reviewers == Reviewers(("architect",), ("@ann",))
    assert playbook.limits == Limits(timeout_seconds=600, max_cost_usd=2.5)
    level, title, token = playbook.args
    assert (level.type, level.values, level.default) == (ArgType.ENUM, ("low", "high"), "low")
    assert (title.transform, title.secret) == (Transform.KEBAB_CASE, False)
    assert token.secret
    build, review = playbook.steps
    assert (build.namespace, build.title) == ("cli", "Build the report")
    assert json.loads(build.options) == {"env": {"TOKEN": "{{token}}", "DEPTH": 3, "DRY": False}}
    assert (build.output, json.loads(build.output_schema)) == (
        OutputFormat.JSON,
        {"type": "object"},
    )
    assert build.limits == Limits(timeout_seconds=30, max_output_bytes=1000)
    assert build.skip_if == ("file_exists=report.md", "tag_exists=v1.0", "plan_exists")
    assert build.postconditions == (
        "git_clean",
        "command_succeeds='cli make test'",
        "changes_within=docs/** report.md",
        "file_contains=report.md 'the summary'",
    )
    assert (build.cwd, build.outputs, build.feedback) == ("tools", ("report.md",), False)
    assert (review.stdin, review.when, review.tools) == (
        "$build.json",
        '$build.json.kind == "full"',
        ("Read", "Bash(make test)"),
    )


def test_defaults_complete_the_steps_that_leave_them_out() -> None:
    """cat FR-1.2."""
    build, review = read_playbook(WHOLE.read_bytes(), "x.yaml").steps
    assert (build.autonomy, build.error_policy) == (Autonomy.GATE_ALWAYS, ErrorPolicy.GATE)
    assert (review.autonomy, review.error_policy) == (Autonomy.AUTO, ErrorPolicy.STOP)
    assert review.limits.timeout_seconds == 120


@pytest.mark.parametrize(
    "policy", ["continue", "ignore", "fail", "retry:3", "{default: gate, PB-STEP-TIMEOUT: retry:2}"]
)
def test_every_error_policy_is_read(policy: str) -> None:
    """cat FR-4.9."""
    text = step().replace("stop", policy)
    (read,) = read_playbook(document(text).encode(), "x.yaml").steps
    assert read.error_policy == ErrorPolicy.read(yaml.safe_load(policy))


# ── what is refused ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("steps", "message", "guidance"),
    [
        (
            "{id: one, command: cli make}",
            "`autonomy` is missing",
            "Add `autonomy:` with one of auto",
        ),
        (step(", tools: [Bash]"), "`tools` has no meaning", "`prompt` or `markdown`"),
        (
            step(", with: {env: {}}", command="/qa.run"),
            "`with` has no meaning for a slash command",
            "into `args`",
        ),
        (step(", output_schema: {}"), "`output_schema` needs `output: json`", "Add"),
        (step(command="cly make"), "`cly make` is not a valid `command`", "mean `cli`?"),
        (step(command="web open"), "`web` steps need a package", "Install it"),
        (step(', with: {env: {A: [1, "{{x}}"]}}'), "`{{x}}` is not a declared arg", "Declare it"),
        (
            step(command="cli echo {{secret:TOKEN}}"),
            "`{{secret:TOKEN}}` can only stand in `with.env` and `with.headers`",
            "there",
        ),
        (step(", stdin: $two.stdout"), "`two` is no earlier step", "Earlier steps: none"),
        (
            step(name="zero") + ", " + step(", when: $zero.approved and true"),
            "`when` is wrong at character 15: the expression ends here",
            "Write `$STEP.approved`",
        ),
        (step(", when: $one.skipped"), "`one` is no earlier step", "Earlier steps: none"),
        (
            step().replace("stop", "{default: stop, PB-STEP-FAILED: retri}"),
            "`retri` is not a valid value of `PB-STEP-FAILED`",
            "Allowed: stop, retry_once",
        ),
        (
            step().replace("stop", "{default: stop, FAILED: gate}"),
            "`FAILED` is not a valid `error_policy`",
            "an error code",
        ),
        (step().replace("stop", "retry:11"), "`retry:11` is not a valid value", "retry:10"),
    ],
)
def test_each_mistake_has_a_message_and_guidance(steps: str, message: str, guidance: str) -> None:
    """cat SC-5, PL-5."""
    found = [each for each in problems(steps) if message in each.message]
    assert found, problems(steps)
    assert guidance in found[0].guidance


@pytest.mark.parametrize(
    ("arg", "message"),
    [
        ("type: enum", "an enum needs `values`"),
        ("values: [a]", "`values` belongs to an enum"),
        ("type: enum, values: [a, b], default: c", "the default must be one of a, b, not"),
        ("type: number, default: many", "the default must be a number"),
        ("type: number, transform: kebab-case", "`transform` is for text: it would change"),
        ("secret: true, transform: kebab-case", "the value of this secret arg"),
    ],
)
def test_an_arg_that_contradicts_itself_is_refused(arg: str, message: str) -> None:
    args = f"[{{name: a, description: b, required: false, {arg}}}]"
    assert message in only(step(), args=args).message


def test_a_secret_arg_is_not_mistaken_for_a_secret_of_its_name() -> None:
    args = "[{name: token, description: b, required: true, secret: true}]"
    found = only(step(', with: {env: {T: "{{secret:token}}"}}', command="cli env"), args=args)
    assert found.message == "`{{secret:token}}` is a secret of that name, not the arg `token`"
    assert found.guidance == "Write `{{token}}`."


@pytest.mark.parametrize(
    ("more", "message", "guidance"),
    [
        (", stdin: $a.stdout", "`stdin` has no meaning", "`preview`"),
        (", approval: required", "`approval` has no meaning", "in any case"),
        (", checkpoint: true", "`checkpoint` has no meaning", "is a checkpoint itself"),
        (", output: json, output_schema: {}", "`output` has no meaning", "runs nothing"),
        (", with: {message: x, preview: $b.stdout}", "`b` is no earlier step", "Earlier steps"),
    ],
)
def test_a_checkpoint_only_asks(more: str, message: str, guidance: str) -> None:
    found = problems(step(more, command="checkpoint"))
    assert message in found[0].message
    assert guidance in found[0].guidance


def test_a_default_refers_to_earlier_args_alone() -> None:
    first = "{name: a, description: b, required: true}"
    second = "{name: c, description: d, required: false, default: 'x-{{a}}'}"
    assert not problems(step(), args=f"[{first}, {second}]")
    found = problems(step(), args=f"[{second}, {first}]")
    assert [each.message for each in found] == ["`{{a}}` is not a declared arg"]


def test_a_default_of_a_required_arg_is_refused() -> None:
    args = "[{name: a, description: b, required: true, default: c}]"
    assert "has no effect" in only(step(), args=args).message


def test_a_secret_arg_can_only_stand_where_secrets_may() -> None:
    """Never in the text that an agent reads."""
    args = "[{name: a, description: b, required: true, secret: true}]"
    assert not problems(step(', with: {env: {A: "{{a}}"}}'), args=args)
    refused = only(step(', args: "{{a}}"', command="/qa.run"), args=args)
    assert "`{{a}}` is secret and can only stand in" in refused.message


def test_the_tables_of_later_keys_are_those_of_the_schema() -> None:
    schema = json.loads(schema_text("playbook"))
    known = {
        "playbook": schema["properties"],
        "arg": schema["definitions"]["arg"]["properties"],
        "step": schema["definitions"]["step"]["properties"],
    }
    for kind, keys in format_version.LATER_KEYS.items():
        assert keys < set(known[kind])
