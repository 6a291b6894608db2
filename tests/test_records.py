"""Records behave as frozen dataclasses do, and say clearly what is wrong with a call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import new_class
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.records import Record, as_mapping, field, fields, replace

REPOSITORY = Path(__file__).parent.parent


class Spot(Record):
    """Where something stands."""

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
    def test_of_its_fields_in_order_or_by_name(self) -> None:
        assert Spot(3, 7) == Spot(line=3, col=7) == Spot(3, col=7)

    def test_with_defaults_for_what_is_left_out(self) -> None:
        assert (Spot(3).line, Spot(3).col, Spot(3).note) == (3, 1, "")

    def test_with_a_default_of_its_own_where_a_factory_makes_one(self) -> None:
        first, second = Tally("a"), Tally("b")
        first.marks.append(1)
        assert (first.marks, second.marks) == ([1], [])

    def test_with_what_was_given_instead_of_a_factorys_default(self) -> None:
        assert Tally("a", [5]).marks == [5]

    def test_and_completes_itself(self) -> None:
        assert Tally("first tally").title == "First Tally"

    def test_by_name_only_where_it_says_so(self) -> None:
        assert Call(step="plan").step == "plan"
        with pytest.raises(TypeError, match=r"Call\(\) takes 0 arguments by place, 1 were given"):
            make(Call, "plan")

    def test_matching_patterns_by_place_and_by_name(self) -> None:
        match Spot(3, 7):
            case Spot(line, col, note=""):
                assert (line, col) == (3, 7)
            case _:
                pytest.fail("it should have matched")


class TestAWrongCallIsRefused:
    """Each with the first thing that one would mend."""

    @pytest.mark.parametrize(
        ("given", "named", "says"),
        [
            ((), {}, "Spot() needs 'line'"),
            ((1, 2, "", 4), {}, "Spot() takes 3 arguments by place, 4 were given"),
            ((1,), {"row": 2}, "Spot() has no 'row'"),
            ((), {"row": 2}, "Spot() has no 'row'"),
            ((1,), {"line": 1}, "Spot() was given 'line' twice"),
        ],
    )
    def test_with_a_clear_sentence(
        self, given: tuple[object, ...], named: Mapping[str, object], says: str
    ) -> None:
        with pytest.raises(TypeError) as refused:
            make(Spot, *given, **named)
        assert str(refused.value) == says

    @pytest.mark.parametrize("name", ["total", "title"])
    def test_that_sets_what_is_no_argument(self, name: str) -> None:
        with pytest.raises(TypeError, match=rf"Tally\(\) has no '{name}'"):
            make(Tally, "a", **{name: 1})


class Often(Record, kw_only=True):
    name: str
    size: int = 1
    marks: list[int] = field(default_factory=list)


class TestAClassThatIsMadeOften:
    """It gets an `__init__` of its own, which means the same."""

    @pytest.fixture(autouse=True)
    def often(self) -> None:
        for number in range(1000):
            assert Often(name="a", size=number).size == number
            assert Other(number).line == number

    def test_takes_its_fields_in_order_or_by_name(self) -> None:
        assert Other(3, 7) == Other(line=3, col=7, note="")

    def test_has_its_defaults_and_a_factorys_of_its_own(self) -> None:
        first, second = Often(name="a"), Often(name="a", marks=[2])
        first.marks.append(1)
        assert (first.size, first.marks, second.marks, Often(name="b").marks) == (1, [1], [2], [])

    def test_is_replaced_in_the_same_way(self) -> None:
        assert replace(Other(3, note="x"), line=4) == Other(4, 1, "x")

    @pytest.mark.parametrize(
        ("given", "named"), [((), {}), (("a",), {}), ((), {"name": "a", "row": 1})]
    )
    def test_refuses_a_wrong_call(
        self, given: tuple[object, ...], named: Mapping[str, object]
    ) -> None:
        with pytest.raises(TypeError):
            make(Often, *given, **named)


class TestAFrozenRecord:
    def test_cannot_be_changed(self) -> None:
        spot: Any = Spot(3)
        with pytest.raises(AttributeError, match="Spot is frozen: 'line' cannot be set"):
            spot.line = 4
        with pytest.raises(AttributeError, match="Spot is frozen: 'line' cannot be deleted"):
            del spot.line
        assert spot == Spot(3)

    def test_has_no_room_for_anything_else(self) -> None:
        assert not hasattr(Spot(3), "__dict__")

    def test_hashes_as_it_compares(self) -> None:
        assert {Spot(3): "here"}[Spot(3, 1)] == "here"

    def test_keeps_room_for_a_cached_property_where_it_says_so(self) -> None:
        route: Any = Route(("a", "b"))
        assert (route.length, route.length) == (2, 2)
        assert route == Route(("a", "b"))
        with pytest.raises(AttributeError, match="Route is frozen"):
            route.stops = ()


class TestARecordThatChanges:
    def test_takes_and_loses_values(self) -> None:
        tally = Tally("a")
        tally.total = 3
        assert tally.total == 3
        del tally.total
        assert not hasattr(tally, "total")

    def test_refuses_a_name_that_is_no_field(self) -> None:
        tally: Any = Tally("a")
        with pytest.raises(AttributeError):
            tally.totel = 3

    def test_does_not_hash(self) -> None:
        with pytest.raises(TypeError, match="unhashable"):
            hash(Tally("a"))


class TestRecordsAreEqual:
    def test_only_to_records_of_their_own_class(self) -> None:
        alike: tuple[object, ...] = (Spot(3), Other(3), (3, 1, ""), None)
        assert [thing == Spot(3) for thing in alike] == [True, False, False, False]

    def test_not_where_a_field_differs(self) -> None:
        assert Spot(3) != Spot(3, note="x")

    def test_whatever_is_left_out_of_comparing(self) -> None:
        assert Call(step="plan", secrets=("x",)) == Call(step="plan")
        assert hash(Call(step="plan", secrets=("x",))) == hash(Call(step="plan"))


class TestARecordShows:
    def test_its_fields_as_one_would_write_them(self) -> None:
        assert repr(Spot(3, note="x")) == "Spot(line=3, col=1, note='x')"

    def test_nothing_of_what_is_kept_out(self) -> None:
        assert repr(Call(step="plan", secrets=("hush",))) == "Call(step='plan')"

    def test_the_names_of_its_fields(self) -> None:
        assert fields(Spot) == fields(Spot(3)) == ("line", "col", "note")

    def test_itself_as_a_mapping(self) -> None:
        assert as_mapping(Spot(3)) == {"line": 3, "col": 1, "note": ""}


class TestReplace:
    @given(st.integers(), st.integers(), st.text(), st.integers())
    def test_changes_what_is_named_and_leaves_the_rest(
        self, line: int, col: int, note: str, other: int
    ) -> None:
        spot = Spot(line, col, note)
        assert replace(spot, col=other) == Spot(line, other, note)
        assert spot == Spot(line, col, note)

    def test_completes_the_new_record_anew(self) -> None:
        tally = Tally("a", [1])
        tally.total = 9
        later = replace(tally, name="b")
        assert (later.title, later.marks, later.total) == ("B", [1], 0)

    def test_leaves_behind_what_was_worked_out_of_the_old_one(self) -> None:
        route = Route(("a", "b"))
        assert route.length == 2
        assert replace(route, stops=("a",)).length == 1

    def test_refuses_a_field_that_there_is_not(self) -> None:
        wrong: dict[str, Any] = {"row": 1}
        with pytest.raises(TypeError, match=r"Spot\(\) has no 'row'"):
            replace(Spot(3), **wrong)


class TestAClassIsRefused:
    def test_that_inherits_from_a_record(self) -> None:
        with pytest.raises(TypeError, match="Wider needs fields, and no base but Record"):
            define("Wider", Spot, {"__annotations__": {"width": "int"}})

    def test_that_has_no_fields(self) -> None:
        with pytest.raises(TypeError, match="Empty needs fields"):
            define("Empty", Record, {})

    def test_whose_records_would_share_a_default_that_changes(self) -> None:
        body = {"__annotations__": {"marks": "list[int]"}, "marks": []}
        with pytest.raises(TypeError, match=r"Shared\.marks: .* make a factory"):
            define("Shared", Record, body)


def test_records_are_there_without_the_modules_that_make_dataclasses_dear() -> None:
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
