"""What strangers wrote, made fit to be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.formats.sanitize import first_line, nearest, printable


@pytest.mark.parametrize(
    ("hostile", "seen"),
    [
        ("plain text, naïve – ✓", "plain text, naïve – ✓"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("\x9b31mred", "red"),
        ("\x9d0;title\x9cafter", "after"),
        ("\x1b[12", "12"),
        ("\x1bcreset", "reset"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("\u2066isolated\u2069", "isolated"),
        ("tag\U000e0041s", "tags"),
        ("half \ud800 a pair", "half  a pair"),
        ("family 👨\u200d👩\u200d👧", "family 👨\u200d👩\u200d👧"),
    ],
)
def test_terminal_sequences_and_bidi_overrides_are_removed(hostile: str, seen: str) -> None:
    assert printable(hostile) == seen


def test_line_breaks_can_be_kept() -> None:
    assert printable("a\r\nb\rc\n\td\x1b[m", keep_newlines=True) == "a\nb\nc\n d"


def test_an_unclosed_sequence_removes_only_its_own_line() -> None:
    assert printable("\x1b]0;evil\nsecond line", keep_newlines=True) == "\nsecond line"


@given(st.text())
def test_only_printable_characters_are_left(text: str) -> None:
    shown = printable(text)
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in shown)
    assert printable(shown) == shown
    shown.encode("utf-8")


@given(st.text(alphabet="\x1b[]0;m\x9b\x07a\n", max_size=200))
def test_broken_sequences_leave_no_escape_behind(text: str) -> None:
    assert "\x1b" not in printable(text)


def test_the_first_line_is_the_first_with_visible_text() -> None:
    assert first_line("\n  \x1b[0m \n\t second \nthird") == "second"


def test_there_may_be_no_line_at_all() -> None:
    assert first_line("\n \x1b[0m\n") == ""


def test_a_long_line_is_cut_at_its_limit_with_an_ellipsis() -> None:
    assert first_line("x" * 300) == "x" * 199 + "…"
    assert first_line("abc def", limit=5) == "abc…"
    assert first_line("exact", limit=5) == "exact"


def test_a_line_of_ten_megabytes_is_fast() -> None:
    assert first_line("\x1b]" * 5_000_000 + "x" * 10) == ""


def test_a_similar_word_is_suggested_in_its_own_spelling() -> None:
    assert nearest("Plan_exist", ["spec_exists", "plan_exists"]) == "plan_exists"
    assert nearest("AUTO", ["auto", "skip"]) == "auto"


def test_nothing_is_suggested_if_no_word_is_similar() -> None:
    assert nearest("rm -rf", ["auto", "skip"]) == ""
    assert nearest("x", []) == ""


def test_a_giant_word_is_not_searched_for() -> None:
    assert nearest("a" * 1_000_000, ["a" * 1_000_000]) == ""


def test_only_the_first_few_hundred_words_are_searched() -> None:
    words = [f"w{number}" for number in range(100_000)] + ["needle"]
    assert nearest("needle", words) == ""
