"""Args in a step's text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.errors import CheckError
from playbook_supervisor.kernel.model import Arg
from playbook_supervisor.project.expressions.references import (
    fill,
    handle,
    interpolate,
    names,
    output_reference,
    secret_names,
    shown,
    words,
)


def test_the_names_come_in_order_and_each_once() -> None:
    assert names("{{b}} then {{ a }} then {{b}}") == ("b", "a")


def test_text_without_references_has_no_names_and_stays_as_it_is() -> None:
    text = "a {single} brace, }} a closing pair, {{ an open one"
    assert names(text) == ()
    assert interpolate(text, {"single": "x"}) == text


def test_each_reference_becomes_its_value() -> None:
    values = {"feature": "013-x", "target-url": "http://localhost/?a=b&c='d'"}
    assert interpolate("{{feature}} at {{ target-url }}", values) == (
        "013-x at http://localhost/?a=b&c='d'"
    )


def test_a_value_that_looks_like_a_reference_is_not_read_again() -> None:
    assert interpolate("{{a}}", {"a": "{{b}} \\1", "b": "secret"}) == "{{b}} \\1"


def test_an_unknown_name_is_an_error_that_says_what_is_declared() -> None:
    with pytest.raises(CheckError) as caught:
        interpolate("{{featur}} {{nope}}", {"feature": "013"})
    assert caught.value.message == "unknown arg {{featur}}, {{nope}}"
    assert "feature" in caught.value.guidance


def test_a_megabyte_of_braces_is_read_in_one_pass() -> None:
    assert names("{" * 1_000_000) == ()
    assert names("{{a" * 300_000) == ()


def test_a_secret_is_named_by_its_handle_or_by_a_secret_arg() -> None:
    token = Arg("token", "", required=True, secret=True)
    plain = Arg("feature", "", required=True)
    text = "{{feature}} {{ secret:API_TOKEN }} {{token}} {{secret:}} {{secret:a b}} {{secret}}"
    assert secret_names(text, (plain, token)) == ("secret:API_TOKEN", "token")
    assert secret_names(text) == ("secret:API_TOKEN",)
    assert handle("secret:API_TOKEN") == "API_TOKEN"
    assert handle("secret:a-b") == handle("API_TOKEN") == ""


def test_a_reference_to_output_names_a_step_and_a_part() -> None:
    assert output_reference("$build-it.json") == ("build-it", "json")
    for wrong in ("build.json", "$build.files", "$build.json.path", "$build", " $build.json"):
        with pytest.raises(ValueError, match="is not"):
            output_reference(wrong)


def test_all_text_of_the_options_is_filled_but_keys_are_not() -> None:
    options = {"json": {"{{a}}": ["{{a}}", 1, None, {"b": "<{{a}}>"}]}, "title": "{{a}}"}
    assert fill(options, {"a": "x"}, {}) == {
        "json": {"{{a}}": ["x", 1, None, {"b": "<x>"}]},
        "title": "x",
    }


@pytest.mark.parametrize("name", ["secret:TOKEN", "token"])
def test_a_secret_fills_values_of_env_and_headers_and_nothing_else(name: str) -> None:
    """tyr 28."""
    values, secrets = {"token": "TOKEN", "a": "x"}, {name: "hunter2!"}
    filled = fill({"headers": {"X": f"{{{{{name}}}}}-{{{{a}}}}"}}, values, secrets)
    assert filled == {"headers": {"X": "hunter2!-x"}}
    assert fill({"env": {"X": f"{{{{{name}}}}}"}}, values, secrets) == {"env": {"X": "hunter2!"}}
    with pytest.raises(CheckError):
        fill({"body": f"{{{{{name}}}}}"}, values, secrets)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cli make test", ("make", "test")),
        ("cli echo 'a b' \"c d\" e\\ f", ("echo", "a b", "c d", "e f")),
        ("cli run --name={{file}}", ("run", "--name=a b")),
        ("cli run {{absent}} '{{absent}}' end", ("run", "end")),
        ("cli {{whole}}", ("npm", "test", "a b")),
        ("cli {{absent}}", ()),
    ],
)
def test_a_command_is_split_before_its_args_are_replaced(
    command: str, expected: tuple[str, ...]
) -> None:
    """tyr 13, 14: whatever a value contains, it fills one word."""
    values = {"text": "'; rm -rf / #", "file": "a b", "absent": "", "whole": "npm test 'a b'"}
    assert words(command, values) == expected


@given(st.text(max_size=60))
def test_any_value_fills_exactly_one_word(value: str) -> None:
    assert words("cli echo -{{value}}", {"value": value}) == ("echo", f"-{value}")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/speckit.plan", "/speckit.plan"),
        ("cli echo {{none}} {{file}}", "cli echo 'a b'"),
        ("cli echo {{unknown}}", "cli echo {{unknown}}"),
        ("cli echo 'open", "cli echo 'open"),
    ],
)
def test_a_command_is_shown_as_a_person_would_type_it(command: str, expected: str) -> None:
    assert shown(command, {"file": "a b", "none": ""}) == expected


@pytest.mark.parametrize("command", ["cli echo 'open", "cli {{value}}"])
def test_a_quotation_mark_that_is_not_closed_is_an_error(command: str) -> None:
    with pytest.raises(CheckError, match="cannot split"):
        words(command, {"value": 'say "hello'})
