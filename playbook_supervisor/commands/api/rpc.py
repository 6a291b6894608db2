"""`rpc`: serves one request of the Tyrum contract."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.api.envelope import DEADLINE
from playbook_supervisor.commands.driving import driving, resume_token
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.drivers.observers import DriveResult, Observer
from playbook_supervisor.errors import ArgumentError, CheckError, PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line, suggestion
from playbook_supervisor.kernel.state import INTERRUPTED
from playbook_supervisor.project.expressions.arguments import by_name
from playbook_supervisor.project.playbooks import playbook_file
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.gate import tokens
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.disk.files import contained
from playbook_supervisor.system.process.cancellation import Interrupted, cancelled_by

LARGEST = 4 * 1024 * 1024  # bytes of a request
_LONGEST_TIME = 7 * 24 * 3600 * 1000  # ms
_MOST_OUTPUT = 64 * 1024 * 1024  # bytes
_ANY = ("action", "cwd", "timeoutMs", "maxOutputBytes")
_KEYS = {"run": (*_ANY, "pipeline", "argsJson"), "resume": (*_ANY, "token", "approve")}
_NEEDED = {"run": ("pipeline",), "resume": ("token", "approve")}


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a program: to run a `pipeline`, or else to resume with a `token`.

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


# ── carrying it out ───────────────────────────────────────────────────────────────────────────


def serve(request: Request, observer: Observer) -> DriveResult:
    """Carry out the request, in its folder, within its time.

    Raises PlaybookErrors as `run` and `resume` do. StateError PB-STATE-DEADLINE or -INTERRUPTED if
    its time was over, or a signal ended it, before or after the session was driven.
    """
    os.chdir(request.folder)
    store = locate.store()
    begun = store.driven()
    with within(request.timeout) as deadline:
        try:
            result = _carried_out(request, store, observer)
        except Interrupted as error:
            raise _unserved(request, store, begun, deadline) from error
    expired = result.why == "interrupted" and deadline.passed
    return replace(result, signal=DEADLINE) if expired else result


def _carried_out(request: Request, store: DiskStore, observer: Observer) -> DriveResult:
    drive = DriveOptions(max_output_bytes=request.max_output_bytes)
    if request.token:
        return resume_token.resume(
            request.token, approve=request.approve, drive=drive, observer=observer
        )
    if not request.is_text:
        return driving.run(request.pipeline, request.args, drive=drive, observer=observer)
    pipeline = playbook_file.of_text(store.checkout.root, request.pipeline)
    try:
        return driving.run(pipeline, request.args, drive=drive, observer=observer)
    except CheckError as error:
        if error.code != "PB-CHECK-INVALID":
            raise
        cure = "Correct what `details` lists."  # there is no file to check
        raise CheckError(
            error.code, error.message, where=error.where, guidance=cure, details=error.details
        ) from error


def _unserved(
    request: Request, store: DiskStore, begun: list[str], deadline: Deadline
) -> StateError:
    if deadline.passed:
        error = StateError("PB-STATE-DEADLINE", "the request took longer than its `timeoutMs`")
    else:
        error = StateError(INTERRUPTED, "a signal has ended the request")
    with suppress(PlaybookError):
        new = [each for each in store.driven() if each not in begun]
        if request.token:
            error.session, error.resume_token = tokens.session_of(request.token), request.token
        elif new:
            error.session, error.resume_token = new[0], tokens.issue(store.runtime(new[0]))
    return error


# ── its time ──────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Deadline:
    """`passed` once the time is over; `interrupted` once the request is being ended."""

    passed: bool = False
    interrupted: bool = False


@contextmanager
def within(seconds: float | None) -> Iterator[Deadline]:
    """End what runs meanwhile after so many seconds, as SIGTERM and Ctrl-C do.

    A driver that handles SIGTERM ends its workers. Where there is none, Interrupted is raised.
    """
    deadline = Deadline()

    def over(number: int, _: object) -> None:
        del number
        deadline.passed = True
        signal.raise_signal(signal.SIGTERM)

    def stop(number: int, _: object) -> None:
        deadline.interrupted = True
        raise Interrupted(signal.Signals(number).name)

    handlers = {signal.SIGALRM: over, signal.SIGTERM: stop, signal.SIGINT: stop}
    former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    if seconds is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with cancelled_by(lambda: deadline.interrupted):
            yield deadline
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in former.items():
            signal.signal(number, handler)
