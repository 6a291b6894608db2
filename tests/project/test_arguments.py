"""Arguments given by a person, bound to those that a playbook declares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.model import Arg, Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy, ErrorPolicy
from playbook_supervisor.project.arguments import bind

FEATURE = Arg("feature", "Feature number or folder", required=True)
URL = Arg("target-url", "Where the application runs", required=False)
STEP = Step("plan", "/speckit.plan", Autonomy.AUTO, ErrorPolicy.STOP)


def playbook(*args: Arg) -> Playbook:
    return Playbook("auto-feature", "", "1.0", args, (STEP,))


def refused(declared: Playbook, *given_args: str) -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        bind(declared, given_args)
    assert caught.value.code == "PB-ARG-INVALID"
    return caught.value


def test_a_positional_argument_and_a_named_one_mean_the_same() -> None:
    """kai FR10."""
    declared = playbook(FEATURE)
    assert bind(declared, ["013"]) == bind(declared, ["feature=013"]) == {"feature": "013"}


def test_positional_arguments_follow_the_order_of_declaration() -> None:
    assert bind(playbook(FEATURE, URL), ["013", "http://localhost"]) == {
        "feature": "013",
        "target-url": "http://localhost",
    }


def test_named_ones_come_in_any_order_and_are_returned_in_that_of_declaration() -> None:
    bound = bind(playbook(FEATURE, URL), ["target-url=x", "013"])
    assert list(bound.items()) == [("feature", "013"), ("target-url", "x")]


def test_an_optional_argument_that_is_not_given_is_empty() -> None:
    assert bind(playbook(FEATURE, URL), ["013"])["target-url"] == ""


@pytest.mark.parametrize("text", ["https://host/?q=1", "a b=c", "1=2", "=x"])
def test_free_text_with_an_equals_sign_stays_one_positional_argument(text: str) -> None:
    assert bind(playbook(FEATURE), [text]) == {"feature": text}
    assert bind(playbook(FEATURE), ["feature=a=b"]) == {"feature": "a=b"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("featuer=013", "no arg is called featuer; did you mean feature?"),
        ("Feature=013", "no arg is called Feature; did you mean feature?"),
        ("colour=red", "no arg is called colour"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_names_that_there_are(text: str, said: str) -> None:
    error = refused(playbook(FEATURE, URL), text)
    assert said in error.message
    assert error.guidance.startswith("It takes feature (required): ")


@pytest.mark.parametrize(
    "typed", ["013", "no", " l'été, déjà ", '"quoted"', "{{x}}", "--flag", "1:30"]
)
def test_a_value_stays_what_was_typed(typed: str) -> None:
    assert bind(playbook(FEATURE), [typed]) == {"feature": typed}


def test_a_missing_required_argument_is_named_with_what_it_wants_and_an_example() -> None:
    error = refused(playbook(FEATURE, URL))
    assert error.message == "auto-feature: feature is missing"
    assert error.guidance == (
        "It takes feature (required): Feature number or folder, "
        "target-url (optional): Where the application runs. "
        "For example: playbook run auto-feature 013 [target-url=TARGET-URL]"
    )
    assert error.details == (
        "feature (required): Feature number or folder",
        "target-url (optional): Where the application runs",
    )


@pytest.mark.parametrize("nothing", ["", "  ", "feature="])
def test_a_required_argument_without_a_value_is_missing(nothing: str) -> None:
    assert "feature is missing" in refused(playbook(FEATURE), nothing).message


def test_one_error_reports_all_problems() -> None:
    error = refused(playbook(FEATURE, URL), "feature=", "x\x07", "target-url=b", "c", "d")
    assert error.message == (
        "auto-feature: feature is given twice; target-url is given twice; "
        'too many arguments: "d"; feature is missing'
    )


def test_an_argument_given_by_position_and_by_name_is_refused() -> None:
    assert "feature is given twice" in refused(playbook(FEATURE), "013", "feature=014").message
    assert "feature is given twice" in refused(playbook(FEATURE), "feature=014", "013").message


def test_too_many_arguments_are_quoted() -> None:
    assert 'too many arguments: "b"' in refused(playbook(FEATURE), "a", "b").message
    assert 'too many arguments: "b", "c"' in refused(playbook(FEATURE), "a", "b", "c").message


def test_a_playbook_without_arguments_says_so() -> None:
    error = refused(playbook(), "013")
    assert error.guidance == "It takes no arguments: playbook run auto-feature"
    assert bind(playbook(), []) == {}


@pytest.mark.parametrize("hostile", ["a\nb", "\x1b[2Jx", "a\x00", "\u202eabc", "\ud800", "a\tb"])
def test_an_argument_with_control_characters_is_refused_and_not_repeated(hostile: str) -> None:
    error = refused(playbook(FEATURE), hostile)
    assert error.message == "auto-feature: feature contains control characters"


def test_a_surplus_argument_is_shown_without_its_control_characters() -> None:
    assert '"red"' in refused(playbook(), "\x1b[31mred").message


@given(st.lists(st.text(max_size=12), max_size=4))
def test_any_arguments_are_bound_or_refused(given_args: list[str]) -> None:
    declared = playbook(FEATURE, URL)
    message = ""
    try:
        bound = bind(declared, given_args)
    except ArgumentError as error:
        message = error.message
    else:
        assert list(bound) == ["feature", "target-url"]
        assert bound["feature"].strip()
    assert printable(message) == message
