"""Words behave as an `enum.StrEnum` does, as far as the house asks anything of one."""

from __future__ import annotations

import copy
import enum
import json

import pytest

from playbook_supervisor.words import Words


class Colour(Words):
    """What a thing looks like."""

    RED = "red"
    """As fire is."""
    DARK_BLUE = "dark blue"

    @property
    def warm(self) -> bool:
        return self is Colour.RED


class Model(enum.StrEnum):
    """The same with the standard library."""

    RED = "red"
    DARK_BLUE = "dark blue"


def test_a_word_is_its_spelling() -> None:
    blue = Colour.DARK_BLUE
    assert (blue, str(blue), blue.value, f"{blue}") == ("dark blue",) * 4
    assert (type(str(blue)), type(blue.value), blue.name) == (str, str, "DARK_BLUE")
    assert {"dark blue": 1}[blue] == 1
    assert json.dumps({blue: blue}) == '{"dark blue": "dark blue"}'


def test_a_spelling_finds_its_word_and_no_second_one_is_made() -> None:
    assert Colour("red") is Colour(Colour.RED) is Colour.RED
    assert copy.deepcopy(Colour.RED) is Colour.RED


@pytest.mark.parametrize("spelling", ["RED", "", None, []])
def test_what_is_no_word_of_the_set_is_refused_in_the_same_words(spelling: str) -> None:
    with pytest.raises(ValueError) as expected:
        Model(spelling)
    with pytest.raises(ValueError) as found:
        Colour(spelling)
    assert str(found.value) == str(expected.value).replace("Model", "Colour")


def test_a_set_holds_its_words_in_their_order() -> None:
    assert [*Colour] == [Colour.RED, Colour.DARK_BLUE]
    assert len(Colour) == 2
    assert Colour.RED in Colour
    assert repr(Colour.RED) == repr(Model.RED).replace("Model", "Colour")


def test_a_set_has_properties_of_its_own() -> None:
    assert Colour.RED.warm
    assert not Colour.DARK_BLUE.warm


def test_a_word_is_matched_by_its_spelling() -> None:
    match Colour("dark blue"):
        case Colour.RED:
            pytest.fail("red")
        case found:
            assert found is Colour.DARK_BLUE
