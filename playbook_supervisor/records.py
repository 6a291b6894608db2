"""Records: plain data with named fields, frozen by default.

Type checkers and readers see a dataclass. Defining one takes microseconds, while the import of
`dataclasses` alone takes longer than a whole hook should (docs/decisions/0010-records.md). Only
modules that hooks, `next`, `report` or `check FILE` load have records; all others have dataclasses,
and all change both with `replace`.
"""

from __future__ import annotations

from operator import attrgetter
from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import replace as replace
    from typing import Any, dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda kind: kind

    def replace(record, /, **changes):
        """A copy of the record or dataclass with these fields changed. TypeError if unknown."""
        kind = type(record)
        if not isinstance(record, Record):
            from dataclasses import replace as copied

            return copied(record, **changes)
        if not changes.keys() <= kind.__settable__.keys():
            raise TypeError(_complaint(kind, (), changes))
        if not kind.__trailing__:
            return kind(**{name: getattr(record, name) for name in kind.__settable__} | changes)
        copy = object.__new__(kind)
        for name in kind.__fields__:
            _set(copy, name, changes[name] if name in changes else getattr(record, name))
        return copy


_MISSING = object()
_set = object.__setattr__


class _Field(SimpleNamespace):
    """The options of one field in a class body: the arguments of `field`."""


def field(
    *,
    default: Any = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    init: bool = True,
    repr: bool = True,  # noqa: A002 - the name that type checkers know
    compare: bool = True,
) -> Any:
    """Options of a field, with the names and meanings of `dataclasses.field`.

    `default_factory` makes a new default for every record. `init=False` is no argument: it has a
    default, or `__post_init__` sets it. `repr=False` and `compare=False` leave the field out.
    """
    return _Field(
        default=default, factory=default_factory, settable=init, shown=repr, compared=compare
    )


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _RecordMeta(type):
    """Turns the annotations of a class into slots before the class is created."""

    __fields__: tuple[str, ...]
    __settable__: dict[str, None]
    __match_args__: tuple[str, ...]
    __defaults__: dict[str, Any]
    __factories__: dict[str, Callable[[], Any]]
    __trailing__: dict[int, tuple[Any, ...]]
    """Number of positional arguments → the defaults that complete them."""
    __initialised__: int
    """The number of fields that have a value before `__post_init__` runs."""
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
        annotations = body.get("__annotations__", {})
        names = tuple(key for key, kind in annotations.items() if not kind.startswith("ClassVar["))
        if bases != (Record,) or not names:
            raise TypeError(f"{name} needs fields, and no base but Record")
        defaults = {key: body.pop(key) for key in names if key in body}
        options = {key: each for key, each in defaults.items() if isinstance(each, _Field)}
        defaults |= {key: each.default for key, each in options.items()}
        defaults = {key: each for key, each in defaults.items() if each is not _MISSING}
        for key, default in defaults.items():
            if type(default).__hash__ is None:
                raise TypeError(f"{name}.{key}: records would share that default; use a factory")
        factories = {key: each.factory for key, each in options.items() if each.factory}
        settable = tuple(key for key in names if key not in options or options[key].settable)
        positional = () if kw_only else settable
        simple = positional == names and "__post_init__" not in body
        body |= {
            "__fields__": names,
            "__settable__": dict.fromkeys(settable),
            "__match_args__": positional,
            "__defaults__": defaults,
            "__factories__": factories,
            "__trailing__": _trailing(names, defaults) if simple else {},
            "__initialised__": len({*settable, *defaults, *factories}),
            "__compared__": attrgetter(
                *(key for key in names if key not in options or options[key].compared)
            ),
            "__shown__": tuple(key for key in names if key not in options or options[key].shown),
        }
        if slots:
            body["__slots__"] = names
        if not frozen:
            body |= {"__setattr__": _set, "__delattr__": object.__delattr__, "__hash__": None}
        return super().__new__(cls, name, bases, body)


class Record(metaclass=_RecordMeta):
    """Base class of every record. A subclass of it has no subclasses.

        class Arg(Record):
            name: str
            required: bool = False

    Arguments are positional, in the order of the fields, or by name (`kw_only=True`: by name
    only). Records of one class are equal if their fields are; frozen ones are hashable.
    `frozen=False` lets attributes change; `slots=False` allows a `cached_property`. A `ClassVar` is
    no field. The defining module needs `from __future__ import annotations`.
    """

    __slots__ = ()

    def __init__(self, *args: Any, **named: Any) -> None:
        kind = type(self)
        if not named and (rest := kind.__trailing__.get(len(args))) is not None:
            for name, value in zip(kind.__fields__, args + rest, strict=True):
                _set(self, name, value)
            return
        given = dict(zip(kind.__match_args__, args, strict=False), **named) if args else named
        values = kind.__defaults__ | given
        for name, make in kind.__factories__.items():
            if name not in values:
                values[name] = make()
        if (
            len(values) != kind.__initialised__
            or len(given) != len(args) + len(named)
            or not named.keys() <= kind.__settable__.keys()
        ):
            raise TypeError(_complaint(kind, args, named))
        for name, value in values.items():
            _set(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Hook for a subclass: runs when all arguments are set."""

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
    """The names of all fields, in order."""
    return record.__fields__ if isinstance(record, type) else type(record).__fields__


def as_mapping(record: object) -> dict[str, Any]:
    """Field name → value of a record or dataclass; nested ones are not converted."""
    kind: Any = type(record)
    names = kind.__fields__ if isinstance(record, Record) else kind.__dataclass_fields__
    return {name: getattr(record, name) for name in names}


def valued(**pairs: object) -> dict[str, object]:
    """These pairs without empty values."""
    return {key: value for key, value in pairs.items() if value not in (None, "", [], {})}


def _trailing(names: tuple[str, ...], defaults: dict[str, Any]) -> dict[int, tuple[Any, ...]]:
    trailing: dict[int, tuple[Any, ...]] = {len(names): ()}
    for count in range(len(names) - 1, -1, -1):
        if names[count] not in defaults:
            break
        trailing[count] = (defaults[names[count]], *trailing[count + 1])
    return trailing


def _complaint(kind: _RecordMeta, args: tuple[Any, ...], named: dict[str, Any]) -> str:
    positional = kind.__match_args__
    if len(args) > len(positional):
        takes, given = len(positional), len(args)
        return f"{kind.__name__}() takes {takes} positional arguments, but {given} were given"
    if unknown := [name for name in named if name not in kind.__settable__]:
        return f"{kind.__name__}() has no field {unknown[0]!r}"
    if twice := [name for name in positional[: len(args)] if name in named]:
        return f"{kind.__name__}() got {twice[0]!r} twice"
    known = {*positional[: len(args)], *named, *kind.__defaults__, *kind.__factories__}
    missing = ", ".join(repr(name) for name in kind.__settable__ if name not in known)
    return f"{kind.__name__}() is missing {missing}"
