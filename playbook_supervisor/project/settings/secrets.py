"""Secrets by handle: a playbook and a session name a secret and never contain it.

A handle is a name under `secrets` in the config, whose program prints the value, or else an
environment variable. A value is looked up when a step starts that needs it, and nothing keeps it.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, quote_plus

from playbook_supervisor.errors import PlaybookError, StepError
from playbook_supervisor.kernel.model import Arg, Step
from playbook_supervisor.project.expressions.references import handle, secret_names
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.system.process import processes

SHORTEST = 4
"""Characters of a secret at least: a shorter value would hide parts of common words."""
_LARGEST = 64 * 1024  # bytes
_DEADLINE = 30.0  # seconds that a program has to print a secret
_SHORTEST_FRAGMENT = 6  # characters of base64


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of one step: value by name (`secret:TOKEN`, or that of a secret arg), and
    `hidden`, what its output must not show."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    hidden: tuple[str, ...] = field(default=(), repr=False)


def known(name: str, config: Config) -> bool:
    """True if a handle names a secret here; its value is not looked at."""
    return name in config.secrets or bool(os.environ.get(name))


def of_step(
    step: Step, args: tuple[Arg, ...], given: Mapping[str, str], config: Config, root: Path
) -> Secrets:
    """The secrets that the `with:` of a step names; programs of the config run in `root`.

    `given` are the session's values of the args; an optional secret arg that was not given is
    empty. StepError PB-STEP-SECRET for a secret that is missing, that its program does not print
    within 30 seconds, or whose value has fewer than 4 characters: it could not be hidden.
    Interrupted if a person asked to stop. No message contains a value, or what a program said.
    """
    handles = {
        name: handle(name) or given.get(name, "") for name in secret_names(step.options, args)
    }
    looked_up = {
        each: value_of(each, config, root) for each in dict.fromkeys(handles.values()) if each
    }
    hidden = dict.fromkeys(form for value in looked_up.values() for form in forms(value))
    values = {name: looked_up.get(each, "") for name, each in handles.items()}
    return Secrets(values, tuple(hidden))


def value_of(name: str, config: Config, root: Path) -> str:
    """The value of a handle. Errors as `of_step`; no message contains the value."""
    argv = config.secrets.get(name)
    value = os.environ.get(name, "") if argv is None else _printed(name, argv, root)
    if not value:
        why = (
            "no such environment variable is set" if argv is None else "its program prints nothing"
        )
        raise _refusal(name, "is not there", why)
    if len(value) < SHORTEST:
        raise _refusal(name, f"has fewer than {SHORTEST} characters", "it could not be hidden")
    if "\0" in value:
        raise _refusal(name, "contains a NUL character", "no program can be given it")
    return value


def _printed(name: str, argv: tuple[str, ...], root: Path) -> str:
    try:
        done = processes.run(argv, cwd=root, timeout=_DEADLINE, cap=_LARGEST)
    except PlaybookError as error:
        raise _refusal(name, "is not there", error.message) from error
    if done.timed_out:
        raise _refusal(name, "is not there", f"`{argv[0]}` did not end in {_DEADLINE:.0f} s")
    if done.returncode:
        why = f"`{argv[0]}` ended with exit status {done.returncode}"
        raise _refusal(name, "is not there", why)
    if done.truncated:
        raise _refusal(name, "is too long", f"`{argv[0]}` printed more than {_LARGEST} bytes")
    return done.stdout.strip()


def _refusal(name: str, what: str, why: str) -> StepError:
    return StepError("PB-STEP-SECRET", f"the secret {name} {what}: {why}")


def forms(value: str) -> tuple[str, ...]:
    """The forms of a secret in output: as it is, escaped in JSON or a URL, and in base64.

    In base64, what surrounds a value decides about the first and last characters, so the forms are
    those that every text has that contains it, at each of the three positions.
    """
    escaped = [json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    escaped += [quote(value, safe=""), quote(value), quote_plus(value)]
    return tuple(dict.fromkeys([value, *escaped, *_in_base64(value.encode())]))


def _in_base64(value: bytes) -> list[str]:
    fragments = []
    for before in range(3):
        encoded = b64encode(bytes(before) + value).decode().rstrip("=")
        first = (0, 2, 3)[before]  # characters that contain bits of what is before the value
        last = len(encoded) - ((before + len(value)) % 3 > 0)  # and of what is after it
        fragments.append(encoded[first:last])
    urlsafe = [each.replace("+", "-").replace("/", "_") for each in fragments]
    return [each for each in [*fragments, *urlsafe] if len(each) >= _SHORTEST_FRAGMENT]
