"""Error policies as a file states them, and what they say about an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.kernel.error_policy import ErrorPolicy, Handling, Reaction

WORDS = ["stop", "fail", "retry_once", "gate", "continue", "ignore", "retry:1", "retry:10"]
CODES = ["PB-STEP-FAILED", "PB-STEP-TIMEOUT", "PB-AGENT-FAILED", "PB-COND-POSTCONDITION"]

words = st.sampled_from(WORDS)
maps = st.dictionaries(st.sampled_from(CODES), words).flatmap(
    lambda named: words.map(lambda word: named | {"default": word})
)


@pytest.mark.parametrize(
    ("word", "handling"),
    [
        ("stop", Handling(Reaction.STOP)),
        ("fail", Handling(Reaction.STOP)),
        ("retry_once", Handling(Reaction.RETRY, 1)),
        ("gate", Handling(Reaction.GATE)),
        ("continue", Handling(Reaction.CONTINUE)),
        ("ignore", Handling(Reaction.IGNORE)),
        ("retry:1", Handling(Reaction.RETRY, 1, backoff=True)),
        ("retry:10", Handling(Reaction.RETRY, 10, backoff=True)),
    ],
)
def test_a_word_is_the_handling_of_every_error(word: str, handling: Handling) -> None:
    """kai FR5."""
    policy = ErrorPolicy.read(word)
    assert policy.handling("PB-STEP-FAILED") == handling
    assert policy.written == ("stop" if word == "fail" else word)


def test_the_words_of_version_1_0_have_names() -> None:
    assert ErrorPolicy.read("stop") == ErrorPolicy.STOP
    assert ErrorPolicy.read("retry_once") == ErrorPolicy.RETRY_ONCE
    assert ErrorPolicy.read("gate") == ErrorPolicy.GATE


def test_a_map_names_error_codes_and_a_default() -> None:
    """cat FR-4.11."""
    policy = ErrorPolicy.read({"PB-STEP-TIMEOUT": "retry:3", "default": "continue"})
    assert policy.handling("PB-STEP-TIMEOUT").word == "retry:3"
    assert policy.handling("PB-STEP-FAILED").word == "continue"
    assert policy.handling("").word == "continue"
    assert [each.word for each in policy.handlings] == ["continue", "retry:3"]
    assert policy.written == {"default": "continue", "PB-STEP-TIMEOUT": "retry:3"}
    assert policy.reacts(Reaction.RETRY)
    assert not policy.reacts(Reaction.GATE)


def test_a_map_without_a_default_stops_at_every_other_error() -> None:
    """cat FR-4.11: the engine's default is to fail."""
    policy = ErrorPolicy.read({"PB-STEP-TIMEOUT": "retry:3"})
    assert policy.handling("PB-STEP-FAILED") == ErrorPolicy.read("fail").default


def test_each_wait_is_twice_as_long_as_the_one_before() -> None:
    thrice = ErrorPolicy.read("retry:3").default
    assert [thrice.wait(number) for number in (1, 2, 3)] == [1000, 2000, 4000]


def test_retry_once_retries_at_once() -> None:
    assert ErrorPolicy.RETRY_ONCE.default.wait(1) == 0


@given(words | maps)
def test_what_was_written_reads_as_it_was(value: str | dict[str, str]) -> None:
    policy = ErrorPolicy.read(value)
    assert ErrorPolicy.read(policy.written) == policy


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("halt", "'halt' is not an error policy; allowed: stop, fail, retry_once, gate, continue"),
        ("retry:0", "'retry:0' is not"),
        ("retry:11", "'retry:11' is not"),
        ("retry:٣", "'retry:٣' is not"),
        (None, "None is not"),
        (["stop"], r"\['stop'\] is not"),
        ({}, "names at least one"),
        ({"default": {"default": "stop"}}, "is not an error policy"),
        ({"default": "stop", "timeout": "gate"}, "'timeout' is not an error code such as"),
        ({"default": "stop", "pb-step-failed": "gate"}, "'pb-step-failed' is not"),
        ({"default": "stop", 7: "gate"}, "7 is not an error code"),
    ],
)
def test_anything_else_is_an_error_that_says_what_is_allowed(value: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ErrorPolicy.read(value)
