"""Records behave like frozen dataclasses, and explain what is wrong with a call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import new_class
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.records import Record, as_mapping, field, fields, replace

REPOSITORY = Path(__file__).parent.parent


class Spot(Record):
    """A place in a file."""

    line: int
    col: int = 1
    note: str = ""

    @property
    def place(self) -> str:
        return f"{self.line}:{self.col}"


class Other(Record):
    line: int
    col: int = 1
    note: str = ""


class Tally(Record, frozen=False):
    name: str
    marks: list[int] = field(default_factory=list)
    total: int = field(init=False, default=0)
    title: str = field(init=False)

    def __post_init__(self) -> None:
        self.title = self.name.title()


class Call(Record, kw_only=True):
    step: str
    secrets: tuple[str, ...] = field(default=(), repr=False, compare=False)


class Route(Record, slots=False):
    stops: tuple[str, ...]

    @cached_property
    def length(self) -> int:
        return len(self.stops)


def make(kind: type[Any], *given: object, **named: object) -> Any:
    """A call that a type checker would refuse."""
    return kind(*given, **named)


def define(name: str, base: type, body: dict[str, Any]) -> type:
    """A class that a type checker would refuse."""
    return new_class(name, (base,), exec_body=lambda namespace: namespace.update(body))


class TestARecordIsMade:
    def test_with_defaults_for_missing_arguments(self) -> None:
        assert (Spot(3).line, Spot(3).col, Spot(3).note) == (3, 1, "")

    def test_with_a_new_default_from_a_factory(self) -> None:
        first, second = Tally("a"), Tally("b")
        first.marks.append(1)
        assert (first.marks, second.marks) == ([1], [])

    def test_by_name_only_if_declared_so(self) -> None:
        assert Call(step="plan").step == "plan"
        with pytest.raises(TypeError, match=r"Call\(\) takes 0 positional arguments, but 1 were"):
            make(Call, "plan")

    def test_and_matches_positional_and_named_patterns(self) -> None:
        match Spot(3, 7):
            case Spot(line, col, note=""):
                assert (line, col) == (3, 7)
            case _:
                pytest.fail("no match")


class TestAWrongCallIsRefused:
    """The message names the first mistake."""

    @pytest.mark.parametrize(
        ("given", "named", "says"),
        [
            ((), {}, "Spot() is missing 'line'"),
            ((1, 2, "", 4), {}, "Spot() takes 3 positional arguments, but 4 were given"),
            ((1,), {"row": 2}, "Spot() has no field 'row'"),
            ((), {"row": 2}, "Spot() has no field 'row'"),
            ((1,), {"line": 1}, "Spot() got 'line' twice"),
        ],
    )
    def test_with_a_clear_message(
        self, given: tuple[object, ...], named: Mapping[str, object], says: str
    ) -> None:
        with pytest.raises(TypeError) as refused:
            make(Spot, *given, **named)
        assert str(refused.value) == says

    @pytest.mark.parametrize("name", ["total", "title"])
    def test_that_sets_a_field_that_is_no_argument(self, name: str) -> None:
        with pytest.raises(TypeError, match=rf"Tally\(\) has no field '{name}'"):
            make(Tally, "a", **{name: 1})


class TestAFrozenRecord:
    def test_cannot_be_changed(self) -> None:
        spot: Any = Spot(3)
        with pytest.raises(AttributeError, match="Spot is frozen: 'line' cannot be set"):
            spot.line = 4
        with pytest.raises(AttributeError, match="Spot is frozen: 'line' cannot be deleted"):
            del spot.line
        assert spot == Spot(3)

    def test_is_hashable(self) -> None:
        assert {Spot(3): "here"}[Spot(3, 1)] == "here"

    def test_without_slots_can_have_a_cached_property(self) -> None:
        route: Any = Route(("a", "b"))
        assert (route.length, route.length) == (2, 2)
        assert route == Route(("a", "b"))
        with pytest.raises(AttributeError, match="Route is frozen"):
            route.stops = ()


class TestAMutableRecord:
    def test_can_be_changed(self) -> None:
        tally = Tally("a")
        tally.total = 3
        assert tally.total == 3
        del tally.total
        assert not hasattr(tally, "total")


class TestRecordsAreEqual:
    def test_only_to_records_of_their_own_class(self) -> None:
        alike: tuple[object, ...] = (Spot(3), Other(3), (3, 1, ""), None)
        assert [thing == Spot(3) for thing in alike] == [True, False, False, False]

    def test_except_for_fields_with_compare_false(self) -> None:
        assert Call(step="plan", secrets=("x",)) == Call(step="plan")
        assert hash(Call(step="plan", secrets=("x",))) == hash(Call(step="plan"))


class TestARecordShows:
    def test_its_fields_as_in_a_call(self) -> None:
        assert repr(Spot(3, note="x")) == "Spot(line=3, col=1, note='x')"

    def test_no_field_with_repr_false(self) -> None:
        assert repr(Call(step="plan", secrets=("hush",))) == "Call(step='plan')"

    def test_the_names_of_its_fields(self) -> None:
        assert fields(Spot) == fields(Spot(3)) == ("line", "col", "note")

    def test_itself_as_a_mapping(self) -> None:
        assert as_mapping(Spot(3)) == {"line": 3, "col": 1, "note": ""}


class TestReplace:
    @given(st.integers(), st.integers(), st.text(), st.integers())
    def test_changes_the_named_fields_only(
        self, line: int, col: int, note: str, other: int
    ) -> None:
        spot = Spot(line, col, note)
        assert replace(spot, col=other) == Spot(line, other, note)
        assert spot == Spot(line, col, note)

    def test_runs_post_init_again(self) -> None:
        tally = Tally("a", [1])
        tally.total = 9
        later = replace(tally, name="b")
        assert (later.title, later.marks, later.total) == ("B", [1], 0)

    def test_does_not_copy_cached_properties(self) -> None:
        route = Route(("a", "b"))
        assert route.length == 2
        assert replace(route, stops=("a",)).length == 1

    def test_refuses_an_unknown_field(self) -> None:
        wrong: dict[str, Any] = {"row": 1}
        with pytest.raises(TypeError, match=r"Spot\(\) has no field 'row'"):
            replace(Spot(3), **wrong)


class TestAClassIsRefused:
    def test_that_inherits_from_a_record(self) -> None:
        with pytest.raises(TypeError, match="Wider needs fields, and no base but Record"):
            define("Wider", Spot, {"__annotations__": {"width": "int"}})

    def test_that_has_no_fields(self) -> None:
        with pytest.raises(TypeError, match="Empty needs fields"):
            define("Empty", Record, {})

    def test_with_a_mutable_default(self) -> None:
        body = {"__annotations__": {"marks": "list[int]"}, "marks": []}
        with pytest.raises(TypeError, match=r"Shared\.marks: .* use a factory"):
            define("Shared", Record, body)


def test_records_do_not_import_what_makes_dataclasses_slow() -> None:
    code = "import sys, playbook_supervisor.records; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
        check=True,
    )
    assert not {"dataclasses", "inspect", "typing", "re"} & set(done.stdout.split())


class Shade(Record):
    name: str

    NONE: ClassVar[Shade]


Shade.NONE = Shade("none")


def test_a_class_variable_is_no_field() -> None:
    assert fields(Shade) == ("name",)
    assert Shade("none") == Shade.NONE
