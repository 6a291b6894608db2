"""Records: plain data with named fields, frozen unless said otherwise.

A type checker and a reader see a dataclass; defining one costs microseconds where `dataclasses`
takes most of a millisecond and its own import (docs/decisions/0010-records.md).
"""

from __future__ import annotations

from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from dataclasses import replace as replace
    from typing import Any, dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda kind: kind

    def replace(record, /, **changes):
        """The same record with these fields changed. TypeError where there is no such field."""
        kind = type(record)
        if not changes.keys() <= kind.__settable__.keys():
            raise TypeError(_complaint(kind, (), changes))
        if not kind.__plain__:
            return kind(**_taken(record, kind.__settable__) | changes)
        same = object.__new__(kind)
        for name in kind.__fields__:
            _put(same, name, changes[name] if name in changes else getattr(record, name))
        return same


_NOTHING = object()
_OFTEN = 200
"""So many records of a class and compiling an `__init__` for it is worth what it costs."""
_put = object.__setattr__


class _Field:
    """What a class body says of one field."""

    __slots__ = ("compared", "default", "factory", "settable", "shown")

    def __init__(
        self,
        default: Any,
        factory: Callable[[], Any] | None = None,
        settable: bool = True,
        shown: bool = True,
        compared: bool = True,
    ) -> None:
        self.default = default
        self.factory = factory
        self.settable = settable
        self.shown = shown
        self.compared = compared


def field(
    *,
    default: Any = _NOTHING,
    default_factory: Callable[[], Any] | None = None,
    init: bool = True,
    repr: bool = True,  # noqa: A002 - the word that type checkers know
    compare: bool = True,
) -> Any:
    """More about a field than a plain default says; the words mean what dataclasses mean by them.

    `default_factory` makes a default of its own for every record. `init=False`: no argument; what
    has no default then is set by `__post_init__`. `repr` and `compare` leave it out of the one or
    the other.
    """
    return _Field(default, default_factory, init, repr, compare)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _RecordMeta(type):
    """Makes the annotations of a class its slots, before the class exists."""

    __fields__: tuple[str, ...]
    __match_args__: tuple[str, ...]
    __settable__: dict[str, None]
    __defaults__: dict[str, Any]
    __factories__: dict[str, Callable[[], Any]]
    __filled__: int
    """How many fields have a value before `__post_init__` runs."""
    __plain__: bool
    """Whether the arguments are all there is to it."""
    __made__: int
    __compared__: Callable[[Any], Any]
    __shown__: tuple[str, ...]

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        body: dict[str, Any],
        *,
        frozen: bool = True,
        slots: bool = True,
        kw_only: bool = False,
    ) -> _RecordMeta:
        if not bases:
            return super().__new__(cls, name, bases, body)
        names = tuple(body.get("__annotations__", ()))
        if bases != (Record,) or not names:
            raise TypeError(f"{name} needs fields, and no base but Record")
        said = {key: body.pop(key) for key in names if key in body}
        special = {key: each for key, each in said.items() if isinstance(each, _Field)}
        said |= {key: each.default for key, each in special.items()}
        defaults = {key: each for key, each in said.items() if each is not _NOTHING}
        factories = {key: each.factory for key, each in special.items() if each.factory}
        settable = [key for key in names if key not in special or special[key].settable]
        compared = [key for key in names if key not in special or special[key].compared]
        shown = [key for key in names if key not in special or special[key].shown]
        for key, default in defaults.items():
            if type(default).__hash__ is None:
                raise TypeError(f"{name}.{key}: records would share that default; make a factory")
        body |= {
            "__fields__": names,
            "__settable__": dict.fromkeys(settable),
            "__match_args__": () if kw_only else tuple(settable),
            "__defaults__": defaults,
            "__factories__": factories,
            "__filled__": len({*settable, *defaults, *factories}),
            "__plain__": len(settable) == len(names) and "__post_init__" not in body,
            "__made__": 0,
            "__compared__": attrgetter(*compared),
            "__shown__": tuple(shown),
        }
        if slots:
            body["__slots__"] = names
        if not frozen:
            body |= {"__setattr__": _put, "__delattr__": object.__delattr__, "__hash__": None}
        return super().__new__(cls, name, bases, body)


class Record(metaclass=_RecordMeta):
    """Base of every record, and of nothing that inherits further.

        class Arg(Record):
            name: str
            required: bool = False

    Arguments are taken in the order of the fields, or by name (`kw_only=True`: by name only).
    Records of one class are equal where their fields are; frozen ones hash. `frozen=False` lets
    attributes change; `slots=False` leaves room for a `cached_property`. The module that defines
    one postpones its annotations, as every module of ours does.
    """

    __slots__ = ()

    def __init__(self, *given: Any, **named: Any) -> None:
        kind = type(self)
        said = dict(zip(kind.__match_args__, given, strict=False), **named)
        values = kind.__defaults__ | said
        for name, make in kind.__factories__.items():
            if name not in values:
                values[name] = make()
        if (
            len(values) != kind.__filled__
            or len(said) != len(given) + len(named)
            or not named.keys() <= kind.__settable__.keys()
        ):
            raise TypeError(_complaint(kind, given, named))
        for name, value in values.items():
            _put(self, name, value)
        self.__post_init__()
        kind.__made__ += 1
        if kind.__made__ == _OFTEN and kind.__plain__:
            type.__setattr__(kind, "__init__", _specialised(kind))

    def __post_init__(self) -> None:
        """What a record does once its fields are there."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        compared = type(self).__compared__
        return bool(compared(self) == compared(other))

    def __hash__(self) -> int:
        return hash(type(self).__compared__(self))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in type(self).__shown__)
        return f"{type(self).__qualname__}({', '.join(shown)})"


def fields(record: Record | type[Record]) -> tuple[str, ...]:
    """The names of all fields, in their order."""
    return record.__fields__ if isinstance(record, type) else type(record).__fields__


def as_mapping(record: Record) -> dict[str, Any]:
    """Field name → value as it stands: what lies deeper is not converted."""
    return _taken(record, type(record).__fields__)


def _taken(record: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _specialised(kind: _RecordMeta) -> Any:
    """The `__init__` of this class alone, as one would write it: it takes a third of the time."""
    takes, puts = ["self"], []
    known: dict[str, Any] = {"put": _put, "nothing": _NOTHING}
    if not kind.__match_args__:
        takes.append("*")
    for number, name in enumerate(kind.__fields__):
        taken, value = name, name
        if make := kind.__factories__.get(name):
            known[f"make{number}"] = make
            taken, value = f"{name}=nothing", f"make{number}() if {name} is nothing else {name}"
        elif name in kind.__defaults__:
            known[f"default{number}"] = kind.__defaults__[name]
            taken = f"{name}=default{number}"
        takes.append(taken)
        puts.append(f"    put(self, {name!r}, {value})\n")
    made: dict[str, Any] = {}
    exec(f"def __init__({', '.join(takes)}):\n{''.join(puts)}", known, made)  # noqa: S102 - of names in our own source
    return made["__init__"]


def _complaint(kind: _RecordMeta, given: tuple[Any, ...], named: dict[str, Any]) -> str:
    """What is wrong with these arguments, in the order in which one would mend it."""
    takes = kind.__match_args__
    if len(given) > len(takes):
        return f"{kind.__name__}() takes {len(takes)} arguments by place, {len(given)} were given"
    if unknown := [name for name in named if name not in kind.__settable__]:
        return f"{kind.__name__}() has no {unknown[0]!r}"
    if twice := [name for name in takes[: len(given)] if name in named]:
        return f"{kind.__name__}() was given {twice[0]!r} twice"
    had = {*takes[: len(given)], *named, *kind.__defaults__, *kind.__factories__}
    missing = ", ".join(repr(name) for name in kind.__settable__ if name not in had)
    return f"{kind.__name__}() needs {missing}"
