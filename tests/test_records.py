"""Records behave like frozen dataclasses, and explain what is wrong with a call."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
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


def make(kind: Callable[..., Any], *given: object, **named: object) -> Any:
    """A call that a type checker would refuse."""
    return kind(*given, **named)


def define(name: str, base: type, body: dict[str, Any]) -> type:
    """A class that a type checker would refuse."""
    return new_class(name, (base,), exec_body=lambda namespace: namespace.update(body))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Spot(line=3, col=7), Spot(3, 7)),
        ((Spot(3).line, Spot(3).col, Spot(3).note), (3, 1, "")),
        (Tally("a", [5]).marks, [5]),
        (Tally("first tally").title, "First Tally"),
        (Call(step="plan").step, "plan"),
        ([thing == Spot(3) for thing in (Spot(3), Other(3), (3, 1, ""))], [True, False, False]),
        (Spot(3) == Spot(3, note="x"), False),
        (Call(step="plan", secrets=("x",)), Call(step="plan")),
        (hash(Call(step="plan", secrets=("x",))), hash(Call(step="plan"))),
        ({Spot(3): "here"}[Spot(3, 1)], "here"),
        (hasattr(Spot(3), "__dict__"), False),
        (repr(Spot(3, note="x")), "Spot(line=3, col=1, note='x')"),
        (repr(Call(step="plan", secrets=("hush",))), "Call(step='plan')"),
        (fields(Spot), ("line", "col", "note")),
        (fields(Spot(3)), ("line", "col", "note")),
        (as_mapping(Spot(3)), {"line": 3, "col": 1, "note": ""}),
    ],
)
def test_a_record_is_made_compared_and_shown(found: object, expected: object) -> None:
    assert found == expected


def test_each_record_has_a_new_default_from_a_factory() -> None:
    first, second = Tally("a"), Tally("b")
    first.marks.append(1)
    assert (first.marks, second.marks) == ([1], [])


def test_a_record_matches_positional_and_named_patterns() -> None:
    match Spot(3, 7):
        case Spot(line, col, note=""):
            assert (line, col) == (3, 7)
        case _:
            pytest.fail("no match")


def test_a_record_without_slots_can_have_a_cached_property() -> None:
    route = Route(("a", "b"))
    assert (route.length, route.length) == (2, 2)
    assert route == Route(("a", "b"))
    assert replace(route, stops=("a",)).length == 1


def test_a_record_that_is_not_frozen_can_be_changed() -> None:
    tally = Tally("a")
    tally.total = 3
    assert tally.total == 3
    del tally.total
    assert not hasattr(tally, "total")


@pytest.mark.parametrize(
    ("wrong", "kind", "says"),
    [
        (lambda: make(Spot), TypeError, "Spot() is missing 'line'"),
        (
            lambda: make(Spot, 1, 2, "", 4),
            TypeError,
            "Spot() takes 3 positional arguments, but 4 were given",
        ),
        (lambda: make(Spot, 1, row=2), TypeError, "Spot() has no field 'row'"),
        (lambda: make(Spot, row=2), TypeError, "Spot() has no field 'row'"),
        (lambda: make(Spot, 1, line=1), TypeError, "Spot() got 'line' twice"),
        (lambda: make(Tally, "a", total=1), TypeError, "Tally() has no field 'total'"),
        (lambda: make(Tally, "a", title=1), TypeError, "Tally() has no field 'title'"),
        (lambda: make(Call, "plan"), TypeError, "takes 0 positional arguments, but 1 were"),
        (lambda: make(replace, Spot(3), row=1), TypeError, "Spot() has no field 'row'"),
        (lambda: setattr(Spot(3), "line", 4), AttributeError, "'line' cannot be set"),
        (lambda: delattr(Spot(3), "line"), AttributeError, "'line' cannot be deleted"),
        (lambda: setattr(Route(()), "stops", ()), AttributeError, "Route is frozen"),
        (lambda: setattr(Tally("a"), "totel", 3), AttributeError, "totel"),
        (lambda: hash(Tally("a")), TypeError, "unhashable"),
        (
            lambda: define("Wider", Spot, {"__annotations__": {"width": "int"}}),
            TypeError,
            "Wider needs fields, and no base but Record",
        ),
        (lambda: define("Empty", Record, {}), TypeError, "Empty needs fields"),
        (
            lambda: define("Shared", Record, {"__annotations__": {"marks": "list"}, "marks": []}),
            TypeError,
            "Shared.marks: ",
        ),
    ],
)
def test_what_is_wrong_is_refused_and_named(
    wrong: Callable[[], object], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=re.escape(says)):
        wrong()


@given(st.integers(), st.integers(), st.text(), st.integers())
def test_replace_changes_the_named_fields_only(line: int, col: int, note: str, other: int) -> None:
    spot = Spot(line, col, note)
    assert replace(spot, col=other) == Spot(line, other, note)
    assert spot == Spot(line, col, note)


def test_replace_runs_post_init_again() -> None:
    tally = Tally("a", [1])
    tally.total = 9
    later = replace(tally, name="b")
    assert (later.title, later.marks, later.total) == ("B", [1], 0)


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
