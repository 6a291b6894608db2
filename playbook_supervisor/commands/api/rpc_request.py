"""Reads a request of the Tyrum contract: one JSON object, of which nothing is believed."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import first_line, suggestion
from playbook_supervisor.project.expressions.arguments import by_name
from playbook_supervisor.system.disk.files import contained

LARGEST = 4 * 1024 * 1024  # bytes of a request
_LONGEST_TIME = 7 * 24 * 3600 * 1000  # ms
_MOST_OUTPUT = 64 * 1024 * 1024  # bytes
_ANY = ("action", "cwd", "timeoutMs", "maxOutputBytes")
_KEYS = {"run": (*_ANY, "pipeline", "argsJson"), "resume": (*_ANY, "token", "approve")}
_NEEDED = {"run": ("pipeline",), "resume": ("token", "approve")}


@dataclass(frozen=True, slots=True)
class Request:
    """What a program asks for: to run a `pipeline`, or else to resume with a `token`.

    `pipeline` is the text of a playbook if it has a newline, else a name or a path. `args` are as
    on the command line. `timeout` is in seconds, for the whole request; `max_output_bytes` is for
    each step. `folder` is where the request is served.
    """

    folder: Path
    pipeline: str = ""
    args: tuple[str, ...] = ()
    token: str = ""
    approve: bool = False
    timeout: float | None = None
    max_output_bytes: int | None = None

    @property
    def is_text(self) -> bool:
        return "\n" in self.pipeline


def read_request(data: bytes, workspace: Path) -> Request:
    """The request. `workspace` is the folder that `cwd` must not leave, and its default.

    ArgumentError PB-ARG-REQUEST, or PB-ARG-INVALID for names of args; StorageError PB-IO-ESCAPE.
    """
    shape = _object(_text(data), "the request")
    action = _choice(shape, "action", _KEYS)
    for key in shape:
        if key not in _KEYS[action]:
            near = suggestion(key, _KEYS[action])
            _refuse(f"{action} has no key {first_line(key, 40)!r}{near}")
    for key in _NEEDED[action]:
        if key not in shape:
            _refuse(f"{key} is missing")
    timeout = _number(shape, "timeoutMs", _LONGEST_TIME)
    return Request(
        folder=_folder(_string(shape, "cwd"), workspace),
        pipeline=_string(shape, "pipeline"),
        args=tuple(by_name(_args(_string(shape, "argsJson")))),
        token=_string(shape, "token"),
        approve=_boolean(shape, "approve"),
        timeout=None if timeout is None else timeout / 1000,
        max_output_bytes=_number(shape, "maxOutputBytes", _MOST_OUTPUT),
    )


# ── JSON ────────────────────────────────────────────────────────────────────────────────────


def _text(data: bytes) -> str:
    if len(data) > LARGEST:
        _refuse(f"the request is larger than {LARGEST:,} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse(f"the request is not UTF-8: byte {error.start + 1} is wrong")


def _object(text: str, what: str, number: Callable[[str], Any] | None = None) -> dict[str, Any]:
    """The object that is the whole text, with its numbers read by `number`."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            _refuse(f"{what} has the key {first_line(twice, 40)!r} twice")
        return found

    def no_number(word: str) -> NoReturn:
        _refuse(f"{what} is not JSON: {word} is not a number")

    try:
        shape = json.loads(
            text,
            object_pairs_hook=unique,
            parse_constant=no_number,
            parse_int=number,
            parse_float=number,
        )
        json.dumps(shape, ensure_ascii=False).encode()  # a half of a surrogate pair is no text
    except json.JSONDecodeError as error:
        _refuse(f"{what} is not JSON: {error.msg} at {error.lineno}:{error.colno}")
    except (ValueError, RecursionError):  # a number of thousands of digits, for one
        _refuse(f"{what} holds a value that no request needs")
    if not isinstance(shape, dict):
        _refuse(f"{what} is not a JSON object")
    return shape


# ── values ──────────────────────────────────────────────────────────────────────────────────


def _args(text: str) -> Mapping[str, object]:
    """The args that a JSON object gives. A number stays as written."""
    shape = _object(text, "argsJson", _Number) if text else {}
    return {name: _plain(value, top=True) for name, value in shape.items()}


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


def _plain(value: Any, *, top: bool = False) -> Any:
    """The value with real numbers below its top, so that those in lists are written as numbers."""
    if isinstance(value, _Number) and not top:
        return json.loads(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def _folder(cwd: str, workspace: Path) -> Path:
    top = Path(contained(workspace, "."))
    relative = cwd
    if Path(cwd).is_absolute() and Path(cwd).is_relative_to(workspace):
        relative = str(Path(cwd).relative_to(workspace))
    folder = contained(top, relative or ".")
    if not folder.is_dir():
        _refuse(f"cwd is not a folder: {first_line(cwd, 200)!r}")
    return folder


def _choice(shape: Mapping[str, Any], key: str, allowed: Collection[str]) -> str:
    value = shape.get(key)
    if not isinstance(value, str) or value not in allowed:
        near = suggestion(value, allowed) if isinstance(value, str) else ""
        _refuse(f"{key} must be {' or '.join(allowed)}{near}")
    return value


def _string(shape: Mapping[str, Any], key: str) -> str:
    value = shape.get(key, "")
    if not isinstance(value, str) or (key in shape and not value.strip() and key != "cwd"):
        _refuse(f"{key} must be text")
    return value


def _boolean(shape: Mapping[str, Any], key: str) -> bool:
    value = shape.get(key, False)
    if not isinstance(value, bool):
        _refuse(f"{key} must be true or false")
    return value


def _number(shape: Mapping[str, Any], key: str, most: int) -> int | None:
    value = shape.get(key)
    if key not in shape:
        return None
    if type(value) is not int or not 1 <= value <= most:
        _refuse(f"{key} must be a whole number from 1 to {most}")
    return value


def _refuse(message: str) -> NoReturn:
    raise ArgumentError("PB-ARG-REQUEST", message)
