"""A playbook, or every violation at once, each with its place and its cure."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from playbook_supervisor.errors import ArgumentError, CheckError
from playbook_supervisor.formats.problems import MAX_PROBLEMS, Problem
from playbook_supervisor.formats.strict_yaml import load
from playbook_supervisor.kernel.error_policy import MOST_RETRIES, ErrorPolicy
from playbook_supervisor.kernel.model import Arg, Limits, Playbook
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Condition,
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
    SessionStatus,
    Trigger,
)
from playbook_supervisor.project.expressions.requirement import PLAIN, SINCE_LAUNCH
from playbook_supervisor.project.playbooks import schema
from playbook_supervisor.project.playbooks.schema import examine, read_playbook, schema_text
from playbook_supervisor.project.schemas.playbook_validator import conforms
from playbook_supervisor.records import fields

ROOT = Path(__file__).parents[2]
PLAYBOOKS = Path(__file__).parents[1] / "playbooks"
SCHEMAS = ROOT / "playbook_supervisor" / "project" / "schemas"

HEAD = 'name: x\ndescription: y\nversion: "1.0"\n'
STEP = "{id: one, command: /one, autonomy: auto, error_policy: stop"


def fixture(name: str) -> bytes:
    return (PLAYBOOKS / name).read_bytes()


def problems(text: str) -> tuple[Problem, ...]:
    return examine(text.encode(), "x.yaml")[1]


def with_step(more: str, args: str = "[]") -> str:
    """A playbook of one step with these keys besides the required ones, from line 6 column 5."""
    return f"{HEAD}args: {args}\nsteps:\n  - {STEP}{more}}}\n"


def only(text: str) -> Problem:
    found = problems(text)
    assert len(found) == 1, found
    return found[0]


# ── what is read ────────────────────────────────────────────────────────────────────────────


def test_the_originals_own_playbook_is_read_with_every_field() -> None:
    """kai FR1 to FR7, D-P, D-A, D-S."""
    playbook, found, document = examine(fixture("auto-feature.yaml"), "auto-feature.yaml")
    assert found == ()
    assert document is not None
    assert playbook is not None
    assert (playbook.name, playbook.version) == ("auto-feature", "1.0")
    assert playbook.description
    (arg,) = playbook.args
    assert (arg.name, bool(arg.description), arg.required) == ("feature", True, True)
    assert [step.id for step in playbook.steps][:3] == ["plan", "tasks", "agreement"]
    check = playbook.step("agreement-check")
    assert check.autonomy is Autonomy.GATE_ON_BREAKING
    assert check.postconditions == (Condition.AGREEMENT_PASS,)
    assert check.escalation_triggers == (Trigger.AGREEMENT_BREAKING,)
    assert check.error_policy == ErrorPolicy.GATE
    assert check.args == "{{feature}}"
    assert playbook.step("qa-run").model == "opus"
    assert [len(phase) for phase in playbook.phases] == [1, 1, 1, 1, 2, 1]


def test_real_playbooks_are_read_as_their_authors_mean() -> None:
    playbook = read_playbook(fixture("revue-de-site.yaml"), "revue-de-site.yaml")
    assert playbook.version == "2.0"
    assert playbook.args == (
        Arg("target-url", "L'adresse à examiner", required=False),
        Arg("feature", "", required=True),
    )
    assert playbook.steps[0].args.startswith("Ouvre {{target-url}} et note")
    assert "\n\n  - une ligne par défaut\n" in playbook.steps[0].args
    assert playbook.steps[1].args.endswith("# ceci n'est pas un commentaire")
    assert playbook.steps[2].id == "013"
    assert playbook.steps[2].parallel_group == "fin de course"


def test_json_is_read_in_the_same_way() -> None:
    """Catalyst FR-1.5."""
    playbook = read_playbook(fixture("minimal.json"), "minimal.json")
    assert playbook.name == "minimal"
    assert playbook.args == ()


@pytest.mark.parametrize(
    ("stated", "name"),
    [
        ("test", "proved=test"),
        ("{check: test}", "proved=test"),
        (
            "{check: test, without: [alarm, runner], red: allowed, new_tests: required}",
            "proved=test without=alarm,runner new_tests=required red=allowed",
        ),
    ],
)
def test_options_of_a_condition_are_part_of_its_canonical_text(stated: str, name: str) -> None:
    text = with_step(f", postconditions: [proved: {stated}]").replace('"1.0"', '"1.2"')
    assert read_playbook(text.encode(), "x").steps[0].postconditions == (name,)


def test_a_minimal_step_has_empty_options() -> None:
    """kai D-S."""
    step = read_playbook(with_step("").encode(), "x").steps[0]
    assert (step.args, step.model, step.parallel_group) == ("", "", "")
    assert (step.preconditions, step.postconditions, step.escalation_triggers) == ((), (), ())


@pytest.mark.parametrize(
    "text", ["013", "no", "on", "1:30", "2026-02-19", "1234e567", "1.0", "null", "~", "true", "1_0"]
)
def test_free_text_stays_text_without_quotes(text: str) -> None:
    playbook = read_playbook(
        (
            f"name: x\ndescription: {text}\nversion: 1.0\nargs: []\n"
            f"steps:\n- {STEP}, args: {text}}}"
        ).encode(),
        "x.yaml",
    )
    assert (playbook.description, playbook.steps[0].args) == (text, text)
    assert playbook.version == "1.0"
    assert type(playbook.description) is str


@pytest.mark.parametrize("word", ["true", "True", "TRUE", "false", "False", "FALSE"])
def test_a_boolean_is_true_or_false_in_the_spellings_of_yaml_1_2(word: str) -> None:
    text = f"{HEAD}args:\n- {{name: a, description: b, required: {word}}}\nsteps: [{STEP}}}]\n"
    assert read_playbook(text.encode(), "x").args[0].required is (word.lower() == "true")


@pytest.mark.parametrize("word", ["yes", "no", "on", "1", '"true"', "'false'"])
def test_nothing_else_is_a_boolean(word: str) -> None:
    text = f"{HEAD}args:\n- {{name: a, description: b, required: {word}}}\nsteps: [{STEP}}}]\n"
    problem = only(text)
    assert (problem.line, problem.col, problem.code) == (5, 39, "PB-CHECK-SCHEMA")
    assert problem.message.endswith("not true or false")


@pytest.mark.parametrize("command", ["/a", "/speckit.plan", "/team:a_b-c.D", "/9"])
@pytest.mark.parametrize("model", ["opus", "claude-opus-4-1@x", "a.b/c:d_e"])
def test_commands_and_models_of_every_spelling_are_read(command: str, model: str) -> None:
    text = with_step(f", model: {model!r}").replace("/one", command)
    step = read_playbook(text.encode(), "x").steps[0]
    assert (step.command, step.model) == (command, model)


# ── what is wrong ───────────────────────────────────────────────────────────────────────────


def test_every_violation_is_reported_at_once_with_its_place_in_order() -> None:
    """kai FR8, NFR3; cat FR-1.3."""
    playbook, found, document = examine(fixture("every-fault.yaml"), "every-fault.yaml")
    assert playbook is None
    assert document is not None
    assert [(each.line, each.col, each.code.removeprefix("PB-CHECK-")) for each in found] == [
        (1, 1, "SCHEMA"),  # description missing
        (1, 7, "SCHEMA"),
        (2, 1, "SCHEMA"),
        (3, 10, "VERSION"),
        (7, 5, "SCHEMA"),
        (8, 15, "SCHEMA"),
        (10, 11, "RULE"),
        (11, 18, "RULE"),
        (13, 5, "SCHEMA"),
        (17, 15, "SCHEMA"),
        (19, 5, "RULE"),
        (19, 11, "RULE"),
        (20, 21, "SCHEMA"),
        (20, 33, "SCHEMA"),
        (20, 47, "SCHEMA"),
        (21, 5, "SCHEMA"),
        (23, 5, "SCHEMA"),
        (24, 9, "RULE"),
        (25, 14, "SCHEMA"),
        (28, 5, "SCHEMA"),
        (30, 21, "RULE"),
        (31, 14, "SCHEMA"),
        (32, 15, "SCHEMA"),
        (34, 26, "SCHEMA"),
    ]
    assert [each.severity for each in found].count("warning") == 1


def test_no_message_uses_terms_of_json_schema_and_each_has_guidance() -> None:
    for problem in examine(fixture("every-fault.yaml"), "x")[1]:
        assert problem.guidance.endswith((".", "?"))
        said = problem.message + problem.guidance
        assert not re.search(
            r"properties|is not of type|required property|does not match|\\Z", said
        )


@pytest.mark.parametrize(
    ("text", "message", "guidance"),
    [
        ("", "the file is empty", "A playbook has `name:`"),
        ("# nothing\n", "the file is empty", "A playbook has `name:`"),
        ("[]\n", "this is a list, not a playbook", "A playbook has `name:`"),
        ("text\n", "this is `text`, not a playbook", "A playbook has `name:`"),
        (f"{HEAD}args: []\nsteps: []\n", "`steps` is empty", "at least one step"),
        (f"{HEAD}args: {{}}\nsteps: [{STEP}}}]", "`args` is a mapping, not a list", "Write a list"),
        (f"{HEAD}args:\nsteps: [{STEP}}}]", "`args` has no value", "`[]`"),
        (f"{HEAD}args: []\nsteps: [x]", "item 1 of `steps` is `x`, not a mapping", "Write a map"),
        (f"{HEAD}steps: [{STEP}}}]", "`args` is missing", "Add `args:` with a list"),
        (with_step("").replace("/one", "/a b"), "`/a b` is not a valid `command`", "`args`"),
        (with_step("").replace("/one", "rm -rf /"), "`rm -rf /` is not a valid `command`", "slash"),
        (with_step("").replace("/one", '"/one\\n"'), "`/one` is not a valid `command`", "slash"),
        (
            with_step("").replace("id: one", '"id": "a\\n"'),
            "is not a valid `id` of a step",
            "lowercase",
        ),
        (with_step("").replace("id: one", "id: -a"), "`-a` is not a valid `id`", "letter or digit"),
        (with_step("").replace("id: one", "id: null"), "`id` has no value", "Write text"),
        (with_step("").replace("id: one", "id: " + "a" * 101), "has 101 characters", "most 100"),
        (with_step(", model: $x"), "`$x` is not a valid `model`", "opus, sonnet, haiku"),
        (with_step(", model: null"), "`model` has no value", "remove the key"),
        (with_step(", parallel_group: ~"), "`parallel_group` has no value", "remove the key"),
        (with_step(', parallel_group: " a"'), "is not a valid `parallel_group`", "one line"),
        (with_step(", args: [a]"), "`args` is a list, not text", "Write text"),
        (with_step(", autonom: auto"), "`autonom` is not a known step key", "mean `autonomy`?"),
        (
            with_step(", zzz: auto"),
            "`zzz` is not a known step key",
            "keys of a step are id, command",
        ),
        (
            with_step(", postconditions: [plan_exist]"),
            "`plan_exist` is not a valid value",
            "`plan_exists`?",
        ),
        (
            with_step(", postconditions: [x]"),
            "`x` is not a valid value",
            "Allowed: spec_exists, plan",
        ),
        (
            with_step(", escalation_triggers: [always]"),
            "`always` is not a valid value",
            "subagent_error",
        ),
        (with_step(", preconditions: [[a]]"), "item 1 of `preconditions` is a list", "Write one"),
        (
            with_step(", error_polizy: x"),
            "`error_polizy` is not a known step key",
            "`error_policy`?",
        ),
        (HEAD.replace("y\n", '""\n', 1) + f"args: []\nsteps: [{STEP}}}]", "is empty", "Write text"),
        (with_step("", "[{name: a b, description: c, required: true}]"), "`name` of an arg", "Use"),
        (
            with_step("", "[{name: a, description: c, required: true, x: y}]"),
            "arg key",
            "The keys of an arg are",
        ),
        (with_step("", "[{name: a, description: c}]"), "`required` is missing", "true or false"),
    ],
)
def test_each_kind_of_violation_has_a_message_and_guidance(
    text: str, message: str, guidance: str
) -> None:
    """kai S-T2."""
    found = [each for each in problems(text) if message in each.message]
    assert found, problems(text)
    assert guidance in found[0].guidance


def test_control_characters_in_a_value_do_not_reach_the_message() -> None:
    problem = only(with_step(', model: "\\e[31mred"'))
    assert problem.message == "`red` is not a valid `model` of a step"


# ── rules beyond the schema ─────────────────────────────────────────────────────────────────


def test_a_reference_to_an_arg_that_is_not_declared_is_an_error() -> None:
    problem = only(with_step(", args: '{{featur}} {{feature}}'", "[" + FEATURE + "]"))
    assert (problem.code, problem.line) == ("PB-CHECK-RULE", 6)
    assert problem.message == "`{{featur}}` is not a declared arg"
    assert problem.guidance.startswith("Did you mean `{{feature}}`? Declare it under `args`")


FEATURE = "{name: feature, description: d, required: true}"


def test_a_reference_where_no_arg_is_declared_says_so() -> None:
    assert "Declared: none" in only(with_step(", args: '{{a}}'")).guidance


def test_an_arg_declared_twice_is_an_error() -> None:
    problem = only(with_step("", f"[{FEATURE}, {FEATURE}]"))
    assert problem.message == "arg 1 already has the name `feature`"


def test_two_steps_of_one_id_are_an_error() -> None:
    problem = only(f"{HEAD}args: []\nsteps:\n- {STEP}}}\n- {STEP}}}\n")
    assert (problem.line, problem.col) == (7, 8)
    assert problem.message == "step 1 already has the id `one`"


def steps(*groups: str) -> str:
    lines = [
        f"- {{id: s{number}, command: /a, autonomy: auto, error_policy: stop"
        + (f", parallel_group: {group}}}" if group else "}")
        for number, group in enumerate(groups)
    ]
    return f"{HEAD}args: []\nsteps:\n" + "\n".join(lines)


def test_steps_of_a_parallel_group_are_next_to_each_other() -> None:
    """kai FR7."""
    assert problems(steps("a", "a", "", "b", "b", "c")) == ()
    problem = only(steps("a", "", "a", "a"))
    assert (problem.line, problem.code) == (8, "PB-CHECK-RULE")
    assert "separated from the rest of the group" in problem.message
    assert len(problems(steps("a", "b", "a", "b"))) == 2


def test_control_characters_are_refused_in_every_text() -> None:
    text = (
        'name: x\ndescription: "\\a"\nversion: "1.0"\nargs:\n'
        '- {name: a, description: "\\b", required: true}\n'
        f'steps:\n- {STEP}, args: "line\\r\\n\\ttab \\e[0m", parallel_group: "a\\x07b"}}\n'
    )
    assert [each.message[-6:] for each in problems(text)] == [
        "U+0007",
        "U+0008",
        "U+001B",
        "U+0007",
    ]


# ── versions ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", ["2.0", "1", "1.3"])
def test_a_version_that_is_not_known_is_read_as_the_newest_with_a_warning(version: str) -> None:
    """cat NFR-6.3."""
    text = with_step("").replace("1.0", version) + "owner: me\n"
    playbook, (problem,), _ = examine(text.encode(), "x.yaml")
    assert playbook is not None
    said = (problem.severity, problem.code, problem.message)
    read = f"version `{version}` is not known; it is read as 1.2"
    assert said == ("warning", "PB-CHECK-VERSION", read)


LATER = [
    (with_step("") + "owner: me\n", "`owner`"),
    (with_step("") + "reviewers: {required: [ann]}\n", "`reviewers`"),
    (with_step("") + "limits: {max_turns: 3}\n", "`limits`"),
    (
        with_step("")
        + "  - {id: b, command: /b, autonomy: auto, error_policy: stop, when: $one.approved}\n",
        "`when`",
    ),
    (with_step(", timeout_seconds: 5"), "`timeout_seconds`"),
    (
        with_step("", "[{name: a, description: b, required: false, transform: kebab-case}]"),
        "`transform`",
    ),
    (with_step(", postconditions: [tasks_done]"), "`tasks_done`"),
    (with_step("").replace("/one", "cli make test"), "a `cli` command"),
]


@pytest.mark.parametrize(("text", "word"), LATER)
def test_a_file_of_version_1_0_cannot_use_what_came_later(text: str, word: str) -> None:
    problem = only(text)
    assert (problem.code, problem.message) == ("PB-CHECK-VERSION", f"{word} needs version 1.1")
    assert problem.guidance == (
        'Write `version: "1.1"` at the top of the file: it is the version of the playbook format, '
        "and not of your playbook."
    )


def test_a_wrong_version_is_one_error_that_names_all_that_needs_another() -> None:
    problem = only(with_step(", title: x, undo: true, postconditions: [tasks_done]"))
    assert problem.message == ("`undo` needs version 1.2; so do `title`, `tasks_done`")


def test_a_condition_that_is_spelled_as_evidence_spells_it_gets_the_form_of_a_file() -> None:
    problem = only(with_step(', postconditions: ["changes_made=src/**"]'))
    assert "is how evidence spells a condition" in problem.message
    assert problem.guidance == 'Write `changes_made: "src/**"`.'


def test_a_namespace_that_is_written_as_a_key_gets_the_form_of_a_command() -> None:
    problem = only(with_step(", prompt: {text: Do it.}"))
    assert problem.message == "`prompt` is not a known step key"
    assert problem.guidance == "Write `command: prompt …`, and what it needs under `with`."


def test_version_1_2_needs_no_autonomy_and_no_error_policy() -> None:
    text = "{name: a, description: b, version: '%s', args: [], steps: [{id: one, command: /one}]}"
    playbook, problems, _ = examine((text % "1.2").encode(), "p.yaml")
    assert not problems
    assert playbook is not None
    (one,) = playbook.steps
    assert (one.autonomy, one.error_policy) == (Autonomy.AUTO, ErrorPolicy.GATE)
    _, problems, _ = examine((text % "1.1").encode(), "p.yaml")
    assert [each.message for each in problems] == [
        "`autonomy` is missing",
        "`error_policy` is missing",
    ]
    assert 'or write `version: "1.2"`' in problems[0].guidance
    assert examine(text.replace('"1.0"', '"1.1"').encode(), "x.yaml")[0] is not None


# ── the faces ───────────────────────────────────────────────────────────────────────────────


def test_text_that_cannot_be_read_is_one_problem_without_a_document() -> None:
    playbook, (problem,), document = examine(b"a: &x b\n", "C:/odd:name.yaml")
    assert (playbook, document) == (None, None)
    assert (problem.line, problem.col, problem.code) == (1, 4, "PB-CHECK-HOSTILE")
    assert problem.guidance


def test_reading_an_invalid_playbook_names_the_first_error_and_lists_all() -> None:
    with pytest.raises(CheckError) as caught:
        read_playbook(fixture("every-fault.yaml"), "p.yaml")
    error = caught.value
    assert (error.code, error.exit_code) == ("PB-CHECK-INVALID", 1)
    assert error.message == "`description` is missing (and 22 more)"
    assert error.where == "p.yaml:1:1"
    assert len(error.details) == 23
    assert error.details[1].startswith("p.yaml:1:7: `Bad Name` is not a valid")
    assert "playbook check" in error.guidance


def test_reading_a_playbook_with_one_error_gives_its_guidance() -> None:
    with pytest.raises(CheckError) as caught:
        read_playbook(with_step("").replace("auto,", "autoo,").encode(), "p.yaml")
    assert caught.value.message == "`autoo` is not a valid value of `autonomy`"
    assert caught.value.guidance.startswith("Did you mean `auto`?")


def test_reading_invalid_yaml_is_the_same_error() -> None:
    with pytest.raises(CheckError) as caught:
        read_playbook(b"a: 'x", "p.yaml")
    assert (caught.value.code, caught.value.where) == ("PB-CHECK-INVALID", "p.yaml:1:4")


def test_the_number_of_listed_problems_is_limited() -> None:
    found = problems(with_step(", preconditions: [" + "a," * 20_000 + "]"))
    assert len(found) == MAX_PROBLEMS + 1
    assert any(f"more than {MAX_PROBLEMS} problems" in each.message for each in found)


def test_a_valid_playbook_is_read_without_the_heavy_libraries() -> None:
    code = (
        "import sys\nbefore = set(sys.modules)\n"
        "from playbook_supervisor.project.playbooks.schema import examine\n"
        f"assert examine(open({str(PLAYBOOKS / 'auto-feature.yaml')!r}, 'rb').read(), 'x')[0]\n"
        "heavy = {'jsonschema', 'ruamel', 'difflib', 'click', 'git', 'fastjsonschema', 'decimal'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


KEYS = sorted({"titel", "default"} | set(re.findall(r'"(\w+)": \{', schema_text("playbook"))))
ANY = st.recursive(
    st.sampled_from(["", "a", "auto", "/x", "true", "null", "{{a}}", "spec_exists", "1.0", "'q'"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=20,
)


@given(ANY)
def test_any_data_is_a_playbook_or_has_at_least_one_error(data: Any) -> None:
    playbook, found, _ = examine(json.dumps(data).encode(), "x.json")
    assert (playbook is None) == any(each.severity == "error" for each in found)
    assert all(each.line >= 1 and each.col >= 1 and each.guidance for each in found)


VALID_STEP = st.fixed_dictionaries(
    {
        "id": st.uuids().map(str),
        "command": st.sampled_from(["/a", "/b.c"]),
        "autonomy": st.sampled_from(list(map(str, Autonomy))),
        "error_policy": st.sampled_from(["stop", "retry_once", "gate"]),
    },
    optional={
        "args": st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=30).filter(
            lambda text: "{{" not in text
        ),
        "preconditions": st.lists(
            st.sampled_from(list(map(str, sorted({*PLAIN} - SINCE_LAUNCH)))), max_size=3
        ),
        "escalation_triggers": st.lists(st.sampled_from(list(map(str, Trigger))), max_size=3),
        "model": st.sampled_from(["opus", "a/b:c"]),
    },
)


@given(st.lists(VALID_STEP, min_size=1, max_size=4))
def test_every_valid_playbook_is_read_as_it_was_written(given_steps: list[dict[str, Any]]) -> None:
    data = {"name": "x", "description": "y", "version": "1.1", "args": [], "steps": given_steps}
    playbook = read_playbook(json.dumps(data).encode(), "x.json")
    assert isinstance(playbook, Playbook)
    for step, written in zip(playbook.steps, given_steps, strict=True):
        assert step.command == written["command"]
        assert step.args == written.get("args", "")
        assert list(step.preconditions) == written.get("preconditions", [])


# ── the schemas ─────────────────────────────────────────────────────────────────────────────


def definitions(node: Any) -> Iterator[dict[str, Any]]:
    """Every mapping of a schema, from the outside in."""
    if isinstance(node, dict):
        yield node
        for each in node.values():
            yield from definitions(each)
    elif isinstance(node, list):
        for each in node:
            yield from definitions(each)


PLAYBOOK_SCHEMA = json.loads(schema_text("playbook"))


def test_the_schemas_lists_are_the_vocabulary() -> None:
    """kai S-T2."""
    of_playbook = PLAYBOOK_SCHEMA["definitions"]
    assert of_playbook["trigger"]["enum"] == list(Trigger)
    plain, valued = of_playbook["condition"]["else"], of_playbook["condition"]["then"]
    assert {*Condition} <= {*plain["enum"], *valued["properties"]}


def test_the_schemas_autonomy_and_policies_are_the_vocabulary() -> None:
    properties = PLAYBOOK_SCHEMA["definitions"]["step"]["properties"]
    assert properties["autonomy"]["enum"] == list(Autonomy)
    words = PLAYBOOK_SCHEMA["definitions"]["reaction"]["enum"]
    assert [ErrorPolicy.read(word).written for word in words if word != "fail"] == [
        word for word in words if word != "fail"
    ]
    assert words[-1] == f"retry:{MOST_RETRIES}"


def test_the_other_documents_schemas_use_the_vocabulary() -> None:
    session, journal = (json.loads(schema_text(name)) for name in ("session", "journal"))
    assert session["properties"]["status"]["enum"] == list(SessionStatus)
    assert session["definitions"]["reason"]["enum"] == list(GateReason)
    of_journal = journal["definitions"]
    assert of_journal["reason"]["enum"] == list(GateReason)
    assert of_journal["trigger"]["enum"] == list(Trigger)
    assert of_journal["resolution"]["enum"] == list(Resolution)
    assert of_journal["gate"]["properties"]["place"]["enum"] == list(Place)
    assert of_journal["entry"]["properties"]["status"]["enum"] == list(EntryStatus)
    assert of_journal["entry"]["properties"]["decision"]["enum"] == list(Decision)


def definition_of(node: Any) -> dict[str, Any]:
    name = node.get("$ref", "").removeprefix("#/definitions/")
    return dict(PLAYBOOK_SCHEMA["definitions"].get(name, {}))


def test_the_reader_knows_the_booleans_and_names_of_the_schema() -> None:
    properties = {
        key: {**definition_of(each), **each}
        for node in definitions(PLAYBOOK_SCHEMA)
        for key, each in node.get("properties", {}).items()
    }
    booleans = {key for key, each in properties.items() if each.get("type") == "boolean"}
    named = {key for key, each in properties.items() if "pattern" in each}
    assert booleans == schema._BOOLEANS
    assert named | {"version"} == schema._NAMES
    assert {*fields(Limits), "max_depth", "max", "at_once", "times"} == schema._NUMBERS


DRAFT_7 = {
    "$schema $ref title description default examples type enum const properties required items",
    "additionalProperties definitions pattern minLength maxLength minItems minimum anyOf not",
    "patternErrorMessage propertyNames minProperties maxProperties if then else",
    "exclusiveMinimum maximum",
}


@pytest.mark.parametrize(
    "name", ["playbook", "session", "journal", "records", "outputs", "config", "policy"]
)
def test_a_schema_is_draft_7_and_keeps_to_its_keywords(name: str) -> None:
    data = json.loads(schema_text(name))
    assert data["$schema"] == "http://json-schema.org/draft-07/schema#"
    Draft7Validator.check_schema(data)
    allowed = {word for line in DRAFT_7 for word in line.split()}
    nodes = list(definitions(data))
    names = [
        id(node[key]) for node in nodes for key in ("properties", "definitions") if key in node
    ]
    for node in nodes:
        if id(node) not in names:
            assert set(node) <= allowed


def test_no_pattern_of_a_schema_lets_a_trailing_line_end_pass() -> None:
    patterns = [
        (path.name, node["pattern"])
        for path in SCHEMAS.glob("*/*.json")
        for node in definitions(json.loads(path.read_text("utf-8")))
        if isinstance(node.get("pattern"), str) and node["pattern"] != r"\S"  # not blank
    ]
    assert patterns
    for name, pattern in patterns:
        assert pattern.endswith("$(?!\\n)"), f"{name}: {pattern}"


def test_the_generated_validator_is_up_to_date() -> None:
    written = (SCHEMAS / "playbook_validator.py").read_text("utf-8")
    assert written == runpy.run_path(str(ROOT / "hatch_build.py"))["generate"]()


@given(ANY)
def test_the_generated_validator_agrees_with_jsonschema(data: Any) -> None:
    typed = schema._typed("", load(json.dumps(data).encode(), "x.json").data)
    assert conforms(typed) == Draft7Validator(PLAYBOOK_SCHEMA).is_valid(typed)


SAMPLES = {
    "session": """
        schema: 1
        session_id: 20260219-a7k
        playbook: auto-feature
        feature: 013-playbook-create
        args: {feature: 013-playbook-create}
        status: in_progress
        started_at: "2026-02-19T10:00:00Z"
        completed_at: ""
        current_step: implement
        worktree: ../kai-session-20260219-a7k
        branch: 013-playbook-create
        gate: {id: "implement#1?1", reason: postcondition_fail, question: "Go on?",
               opened_at: "2026-02-19T10:32:31.871Z"}
        """,
    "records": """
        schema: 1
        begun: {at: "2026-02-19T10:00:04.119Z", head: "5a14c5a", artifacts: {}}
        launches:
          - {attempt: "qa-run#1", at: "2026-02-19T10:32:07.400Z", head: "",
             artifacts: {".qa/013-x/verdict.md": "9f31c2a0", ".qa/013-x/verdict.yaml": ""}}
        waivers: {agreement_pass: "6b86b273"}
        findings: {"6b86b273": accepted}
        """,
    "journal": """
        schema: 1
        entries:
          - step_id: implement
            status: done
            decision: escalated
            started_at: "2026-02-19T10:20:26.104Z"
            completed_at: "2026-02-19T10:32:31.871Z"
            duration_seconds: 725.767
            attempt: 2
            trigger: postcondition_fail
            human_response: "fixed test, continue"
            resolution: continue
            error: "plan_exists: specs/013-playbook-create/plan.md is missing"
            evidence: ["plan_exists: specs/013-playbook-create/plan.md, 212 lines"]
            reviewers_note: a key of a person's own
            agent: {name: claude, cost_usd: 0.25, turns: 12}
            gates:
              - {id: "implement#2?1", reason: postcondition_fail, place: after,
                 opened_at: "2026-02-19T10:30:00Z", answered_at: "2026-02-19T10:31:00Z",
                 by: "Ada <ada@example.org>", text: "fixed test, continue", resolution: continue}
        """,
    "config": """
        agent: claude
        agents: {claude: {permission_mode: plan, allowed_tools: [Bash], wait_for_limit: true},
                 other: {exec: [other-agent, --print]}}
        secrets: {TOKEN: [pass, show, token]}
        commit_sessions: step
        push_sessions: false
        worktrees: ../{repo}-{session}
        artifacts: {specs: specs, agreements: .agreements, qa: .qa}
        allow: {cli: [make], http: ["*.example.org"], mcp: [tracker.read]}
        deny: {cli: [curl]}
        notify: [notify-send, playbook]
        """,
}


def values(data: Any) -> Any:
    """A document's data by the core rules, as a JSON Schema sees them."""
    if isinstance(data, dict):
        return {key: values(each) for key, each in data.items()}
    if isinstance(data, list):
        return [values(each) for each in data]
    return getattr(data, "value", data)


def errors_of(name: str, data: Any) -> list[str]:
    return [
        each.json_path for each in Draft7Validator(json.loads(schema_text(name))).iter_errors(data)
    ]


@pytest.mark.parametrize("name", SAMPLES)
def test_the_documents_of_the_format_conform_to_their_schemas(name: str) -> None:
    assert errors_of(name, values(load(SAMPLES[name].encode(), name).data)) == []


@pytest.mark.parametrize(
    ("name", "change", "path"),
    [
        ("session", {"status": "running"}, "$.status"),
        ("session", {"session_id": "../../etc"}, "$.session_id"),
        ("session", {"started_at": "yesterday"}, "$.started_at"),
        ("journal", {"entries": [{"step_id": "x"}]}, "$.entries[0]"),
        ("journal", {"entries": {}}, "$.entries"),
        ("records", {"launches": [{"attempt": "x#1"}]}, "$.launches[0]"),
        ("session", {"driver": {"mode": "alone"}}, "$.driver"),
        ("config", {"agnt": "x"}, "$"),
        ("config", {"agents": {"claude": {"permission_mode": "bypassPermissions"}}}, "$.agents"),
        ("config", {"notify": []}, "$.notify"),
    ],
)
def test_invalid_documents_are_refused_by_their_schemas(
    name: str, change: dict[str, Any], path: str
) -> None:
    data = {**values(load(SAMPLES[name].encode(), name).data), **change}
    found = errors_of(name, data)
    assert found
    assert all(each.startswith(path) for each in found)


def test_a_session_of_the_originals_tools_conforms() -> None:
    data = {
        "session_id": "20260219-a7k",
        "playbook": "auto-feature",
        "feature": "012-x",
        "args": {"feature": "012-x"},
        "status": "completed",
        "started_at": "2026-02-19T10:00:00Z",
        "completed_at": "2026-02-19T11:00:00Z",
        "current_step": "",
        "worktree": "",
    }
    assert errors_of("session", data) == []


def test_an_unknown_schema_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ArgumentError) as caught:
        schema_text("../../../etc/passwd")
    assert caught.value.code == "PB-ARG-USAGE"
    assert "config" in caught.value.message
    assert "playbook" in caught.value.message


@pytest.mark.parametrize(
    "path",
    [*sorted(ROOT.glob("templates/playbooks/*.yaml")), ROOT / "templates/playbook.tpl.yaml"],
    ids=lambda path: str(path.name),
)
def test_every_playbook_that_ships_is_valid(path: Path) -> None:
    """kai FR9: the template is itself valid."""
    playbook, found, _ = examine(path.read_bytes(), path.name)
    assert found == ()
    assert playbook is not None


def test_where_the_package_was_not_built_jsonschema_says_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, conforms.__module__, None)
    assert examine(with_step("").encode(), "x.yaml")[0] is not None
    assert examine(with_step(", odd: 1").encode(), "x.yaml")[0] is None


def test_the_names_of_the_schemas_are_known() -> None:
    assert {"playbook", "session", "journal", "config"} <= {*schema.schema_names()}
