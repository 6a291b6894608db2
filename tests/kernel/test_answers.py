"""What counts as an answer at a gate, and what does not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.kernel.answers import (
    SYNONYMS,
    WORDS_AT_PROMPT,
    ParsedAnswer,
    read_answer,
    words_of,
)
from playbook_supervisor.kernel.vocabulary import Resolution

ALL = (Resolution.CONTINUE, Resolution.RETRY, Resolution.ACCEPT, Resolution.SKIP, Resolution.ABORT)
PERMISSION = (Resolution.ALLOW, Resolution.ALWAYS, Resolution.DENY, Resolution.ABORT)
QUESTION = (Resolution.ANSWER, Resolution.ABORT)
SEPARATORS = (", ", "; ", ": ", ". ", "! ", ",", ":", " - ", " – ", " — ", "\n", "\r\n", " and ")


@pytest.mark.parametrize("word", ALL)
@pytest.mark.parametrize("form", ["{}", " {} ", "{}.", "{}!", '"{}"', "`{}`", "**{}**", "“{}”"])
def test_each_of_the_five_words_is_an_answer_by_itself(word: Resolution, form: str) -> None:
    for said in (form.format(word), form.format(word).upper(), form.format(word).title()):
        assert read_answer(said, ALL) == ParsedAnswer(word)


@pytest.mark.parametrize("word", ALL)
@pytest.mark.parametrize("separator", SEPARATORS)
def test_a_word_counts_as_the_first_or_the_last_clause(word: Resolution, separator: str) -> None:
    assert read_answer(f"{word}{separator}test mended", ALL) == ParsedAnswer(word)
    assert read_answer(f"fixed test{separator}{word}", ALL) == ParsedAnswer(word)
    assert read_answer(f"fixed test{separator}{word}.", ALL) == ParsedAnswer(word)


@pytest.mark.parametrize("word", ALL)
@pytest.mark.parametrize(
    "form", ["don't {}", "{} asking", "I would {} now", "{}?", "why not {}?", "a, {}, b", "-{}-x"]
)
def test_a_word_inside_a_clause_or_a_question_is_not_an_answer(word: Resolution, form: str) -> None:
    assert read_answer(form.format(word), ALL) == ParsedAnswer()


@pytest.mark.parametrize(
    "said",
    [
        "continue or abort",
        "continue, abort",
        "skip and retry",
        "don't continue: abort",
        "continue, but abort if it fails again",
        "skip the tests and continue",
    ],
)
def test_two_different_words_are_not_an_answer(said: str) -> None:
    assert read_answer(said, ALL) == ParsedAnswer()


def test_the_same_word_twice_is_one_answer() -> None:
    assert read_answer("continue, please continue", ALL) == ParsedAnswer(Resolution.CONTINUE)


@pytest.mark.parametrize(("synonym", "meant"), SYNONYMS.items())
def test_a_synonym_counts_as_the_whole_message_only(synonym: str, meant: Resolution) -> None:
    for form in ("{}", "{}.", "{}!", "{}, please", "please {}", "{} thanks", "{}, thank you!"):
        assert read_answer(form.format(synonym).capitalize(), ALL) == ParsedAnswer(meant)
    for form in ("{} asking me", "fixed test, {}", "{}, test mended", "not {}", "{}?"):
        assert read_answer(form.format(synonym), ALL) == ParsedAnswer()


def test_every_documented_synonym_is_known() -> None:
    by_resolution = {
        Resolution.CONTINUE: "yes y ok go proceed approve okay yep approved lgtm go-ahead",
        Resolution.RETRY: "again rerun",
        Resolution.ACCEPT: "waive override",
        Resolution.ABORT: "cancel stop quit",
    }
    expected = {
        word.replace("-", " "): resolution
        for resolution, words in by_resolution.items()
        for word in words.split()
    }
    assert expected == SYNONYMS


@pytest.mark.parametrize("word", ALL)
def test_a_choice_that_the_gate_does_not_offer_is_not_an_answer(word: Resolution) -> None:
    others = tuple(choice for choice in ALL if choice is not word)
    assert read_answer(word, others) == ParsedAnswer()
    for synonym, meant in SYNONYMS.items():
        if meant is word:
            assert read_answer(synonym, others) == ParsedAnswer()


@pytest.mark.parametrize("said", ["no", "No.", "no thanks", "No, thank you!", "n"])
def test_no_as_the_whole_message_asks_back(said: str) -> None:
    assert read_answer(said, ALL) == ParsedAnswer(question="Skip this step, or abort the run?")


def test_no_asks_back_with_what_the_gate_offers() -> None:
    after_failure = (Resolution.CONTINUE, Resolution.RETRY, Resolution.ACCEPT, Resolution.ABORT)
    assert read_answer("no", after_failure) == ParsedAnswer(
        question="Abort the run, or one of these: continue, retry, accept?"
    )


@pytest.mark.parametrize("said", ["no way", "not sure, no", "no, not yet"])
def test_no_in_a_longer_message_is_not_an_answer(said: str) -> None:
    assert read_answer(said, ALL) == ParsedAnswer()


@pytest.mark.parametrize("said", ["", " ", "\n", "...", "please", "thanks!", "-", "and", "\x00"])
def test_an_empty_message_is_not_an_answer(said: str) -> None:
    assert read_answer(said, ALL) == ParsedAnswer()


def test_a_long_message_at_the_prompt_is_not_an_answer() -> None:
    short = "I have fixed the two tests now, continue"
    long = "I have fixed the two failing tests now, continue"
    assert len(short.split()) == WORDS_AT_PROMPT
    assert read_answer(short, ALL, typed_at_prompt=True) == ParsedAnswer(Resolution.CONTINUE)
    assert read_answer(long, ALL, typed_at_prompt=True) == ParsedAnswer()
    assert read_answer(long, ALL) == ParsedAnswer(Resolution.CONTINUE)


def test_a_question_at_the_prompt_is_not_an_answer() -> None:
    assert read_answer("which test? continue", ALL, typed_at_prompt=True) == ParsedAnswer()
    assert read_answer("continue", ALL, typed_at_prompt=True) == ParsedAnswer(Resolution.CONTINUE)
    assert read_answer("no?", ALL, typed_at_prompt=True) == ParsedAnswer()


@given(st.text(), st.sets(st.sampled_from(ALL)), st.booleans())
def test_every_text_gives_an_offered_choice_that_it_contains_or_none(
    said: str, choices: set[Resolution], prompt: bool
) -> None:
    reply = read_answer(said, tuple(choices), typed_at_prompt=prompt)
    assert reply.resolution is None or reply.resolution in choices
    assert not (reply.resolution and reply.question)


FRAGMENTS = st.sampled_from(
    [*ALL, *SYNONYMS, "no", "not", "fixed", "?", "please", *SEPARATORS, " ", "-", "and"]
)


@given(st.lists(FRAGMENTS, max_size=8).map("".join))
def test_an_answer_is_always_a_word_of_the_message(said: str) -> None:
    reply = read_answer(said, ALL)
    if reply.resolution:
        spelled = [reply.resolution, *(w for w, r in SYNONYMS.items() if r is reply.resolution)]
        words = re.split(r"[^a-z ]+|\band\b", said)
        assert any(word in part for part in words for word in spelled)
        assert len({word for word in ALL if re.search(rf"\b{word}\b", said)}) <= 1


@pytest.mark.parametrize(
    "hostile",
    [" " * 500_000, "- " * 250_000, "continue," * 100_000, "please " * 100_000, "a" * 900_000],
)
def test_a_megabyte_of_hostile_text_is_read_in_one_pass(hostile: str) -> None:
    assert read_answer(hostile + "!abort?", ALL) == ParsedAnswer()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("allow", Resolution.ALLOW),
        ("Yes, please", Resolution.ALLOW),
        ("go ahead", Resolution.ALLOW),
        ("continue", Resolution.ALLOW),
        ("I looked at it: allow", Resolution.ALLOW),
        ("always", Resolution.ALWAYS),
        ("always allow", Resolution.ALWAYS),
        ("no", Resolution.DENY),
        ("deny", Resolution.DENY),
        ("deny: use pnpm, we never allow npm", Resolution.DENY),
        ("no, always use pnpm", Resolution.DENY),
        ("abort", Resolution.ABORT),
        ("stop", Resolution.ABORT),
    ],
)
def test_a_permission_is_allowed_denied_or_aborted(said: str, meant: Resolution) -> None:
    assert read_answer(said, PERMISSION) == ParsedAnswer(meant)


@pytest.mark.parametrize(
    "said", ["", "  ", "do not allow", "allow or deny", "retry", "we allow it", "now", "?"]
)
def test_what_is_not_clearly_a_permission_is_none(said: str) -> None:
    assert read_answer(said, PERMISSION) == ParsedAnswer()


@pytest.mark.parametrize("said", ["2", "PostgreSQL", "1\n3", "no", "continue", "abort the old one"])
def test_a_question_is_answered_by_any_words(said: str) -> None:
    assert read_answer(said, QUESTION) == ParsedAnswer(Resolution.ANSWER)


def test_a_question_is_aborted_by_the_whole_message_alone_and_not_answered_by_nothing() -> None:
    assert read_answer("Abort!", QUESTION) == ParsedAnswer(Resolution.ABORT)
    assert read_answer(" \n", QUESTION) == ParsedAnswer()


def test_at_an_agents_prompt_an_answer_to_a_question_is_announced() -> None:
    assert read_answer("use tabs", QUESTION, typed_at_prompt=True) == ParsedAnswer()
    said = read_answer("answer: use tabs", QUESTION, typed_at_prompt=True)
    assert said == ParsedAnswer(Resolution.ANSWER)


@pytest.mark.parametrize(
    ("said", "resolution", "words"),
    [
        ("deny: use pnpm", Resolution.DENY, "use pnpm"),
        ("No - use pnpm, not npm", Resolution.DENY, "use pnpm, not npm"),
        ("deny", Resolution.DENY, ""),
        ("answer: 2", Resolution.ANSWER, "2"),
        ("2\nnone of these", Resolution.ANSWER, "2\nnone of these"),
        ("allow", Resolution.ALLOW, ""),
    ],
)
def test_the_agent_is_told_the_words_besides_the_choice(
    said: str, resolution: Resolution, words: str
) -> None:
    assert words_of(said, resolution) == words
