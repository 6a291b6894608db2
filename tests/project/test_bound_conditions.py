"""The conditions of a playbook with the values of its args."""

from __future__ import annotations

import pytest

from playbook_supervisor.errors import CheckError
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Arg, Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.expressions.bound_conditions import bound, without_absent_checks

ARGS = (
    Arg("feature", "The feature", required=True),
    Arg("test", "A check", required=False, default="test"),
    Arg("extra", "A path", required=False),
)


def playbook(*names: str, args: tuple[Arg, ...] = ARGS) -> Playbook:
    step = Step("build", "/build", Autonomy.AUTO, ErrorPolicy.read("stop"), postconditions=names)
    return Playbook("build", "Build it", "1.1", args, (step,))


def asked(name: str, **values: str) -> tuple[str, ...]:
    return bound(playbook(name), {"feature": "013-lists", **values}).steps[0].postconditions


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plan_exists", "plan_exists"),
        ("file_exists=docs/{{feature}}.md", "file_exists=docs/013-lists.md"),
        ("command_fails='cli pytest {{extra}}'", "command_fails='cli pytest tests/a'"),
        ("changes_within=src/** {{extra}}", "changes_within=src/** tests/a"),
    ],
)
def test_a_value_replaces_its_reference(name: str, expected: str) -> None:
    assert asked(name, test="test", extra="tests/a") == (expected,)


@pytest.mark.parametrize(
    "name",
    [
        "command_succeeds={{test}}",
        "command_succeeds='cli {{test}}'",
        "file_contains=README.md {{extra}}",
        "changes_made={{extra}}",
    ],
)
def test_a_condition_with_an_absent_arg_is_not_asked(name: str) -> None:
    assert asked(name, test="", extra="") == ()


def test_an_absent_arg_is_dropped_from_a_list_and_from_a_program() -> None:
    assert asked("changes_within=src/** {{extra}}") == ("changes_within=src/**",)
    assert asked("command_fails='cli pytest {{extra}}'") == ("command_fails='cli pytest'",)


def test_a_value_fills_exactly_one_word_of_a_program() -> None:
    """tyr 13: no value can add a word, an option or a program."""
    hostile = "a b; rm -r / 'c"
    (name,) = asked("command_succeeds='cli pytest {{extra}}'", extra=hostile)
    import shlex

    (parameter,) = shlex.split(name.partition("=")[2])
    assert shlex.split(parameter) == ["cli", "pytest", hostile]


def test_an_arg_that_is_the_whole_program_is_split() -> None:
    assert asked("command_succeeds='cli {{test}}'", test="make 'a b'") == (
        """command_succeeds='cli make '"'"'a b'"'"''""",
    )


def test_a_value_is_not_interpolated_itself() -> None:
    assert asked("file_exists={{extra}}.md", extra="{{feature}}") == ("file_exists={{feature}}.md",)


def test_every_list_of_conditions_is_bound_and_the_rest_stays() -> None:
    """cat FR-8.3: the outputs of a step are conditions, too."""
    name = "file_exists={{feature}}"
    step = Step(
        "build",
        "/build",
        Autonomy.AUTO,
        ErrorPolicy.read("stop"),
        args="{{feature}}",
        preconditions=(name, "plan_exists"),
        skip_if=(name,),
        outputs=("dist/{{feature}}",),
    )
    playbook = Playbook("build", "", "1.1", ARGS, (step,), outputs=("{{feature}}.md",))
    whole = bound(playbook, {"feature": "013"})
    (made,) = whole.steps
    assert made.preconditions == ("file_exists=013", "plan_exists")
    assert made.skip_if == ("file_exists=013",)
    assert made.postconditions == ("file_exists=dist/013",)
    assert whole.outputs == ("013.md",)
    assert made.args == "{{feature}}"


def test_a_playbook_without_references_stays_as_it_is() -> None:
    plain = playbook("plan_exists", "file_exists=README.md")
    assert bound(plain, {}) is plain


def test_an_arg_that_is_not_declared_is_an_error() -> None:
    with pytest.raises(CheckError, match=r"unknown arg \{\{nothing\}\}"):
        asked("file_exists={{nothing}}")


class TestAnArgThatNamesACheck:
    NAMED = "command_succeeds={{test}}"

    def values(self, name: str, given: str, *checks: str) -> dict[str, str]:
        return without_absent_checks(playbook(name), {"feature": "x", "test": given}, checks)

    def test_keeps_its_default_where_the_project_has_that_check(self) -> None:
        assert self.values(self.NAMED, "test", "test", "lint")["test"] == "test"

    def test_has_no_value_where_the_project_lacks_the_default(self) -> None:
        assert self.values(self.NAMED, "test", "lint") == {"feature": "x", "test": ""}

    def test_keeps_what_a_person_gave_so_that_a_misspelt_check_is_an_error(self) -> None:
        assert self.values(self.NAMED, "tets", "test")["test"] == "tets"

    def test_keeps_its_default_where_that_is_a_program(self) -> None:
        args = (Arg("test", "", required=False, default="cli make test"),)
        program = playbook(self.NAMED, args=args)
        values = without_absent_checks(program, {"test": "cli make test"}, ())
        assert values == {"test": "cli make test"}

    @pytest.mark.parametrize("name", ["file_exists={{test}}", "command_succeeds=test-{{test}}"])
    def test_is_another_matter_where_it_is_not_the_whole_check(self, name: str) -> None:
        assert self.values(name, "test")["test"] == "test"
