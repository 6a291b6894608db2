"""What the project lets steps use: programs, hosts and tools, by `allow` and `deny` in the config.

A pattern is a glob. `deny` wins, and a playbook cannot widen either (tyr 27). Without `allow`
everything passes but shells; a shell must be matched by a pattern of `allow.cli`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from playbook_supervisor.errors import PolicyError
from playbook_supervisor.formats.sanitize import first_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from playbook_supervisor.project.config import Config

    Kind = Literal["cli", "http", "mcp"]

_SHELLS = r"""(?x)(?:
    (?: a | ba | c | da | fi | k | mk | rba | tc | xon | ya | z )? sh [0-9.-]*
    | cmd | command\.com | elvish | nu | powershell | pwsh
)\Z"""
"""Names of programs that take a command line as text."""
_LAUNCHERS = r"""(?x)(?:
    busybox | ch(?:root|rt) | doas | env | flock | (?:io)?nice | nohup | parallel | script
    | set(?:priv|sid) | stdbuf | strace | sudo | taskset | time(?:out)? | toybox | unshare
    | watch | xargs
)\Z"""
"""Names of programs that start the program that their arguments name."""
_SPLIT = ("--split-string=", "-S")  # options of `env` that contain a whole command line


def admit_program(config: Config, argv: Sequence[str], cwd: Path) -> None:
    """PolicyError PB-POLICY-DENIED if the project does not let a step in `cwd` run this.

    A pattern with a slash is compared with the program's path, another one with its name. A
    program that others start (`env sh`) must not be denied either, nor be a shell.
    """
    program, *others = argv
    started = [program]
    if re.match(_LAUNCHERS, _name(program)):
        started += [word for each in others if (word := _first_word(each))]
    for each in started:
        names = _names(each, cwd)
        if any(_matches(names, pattern) for pattern in config.deny.cli or ()):
            raise _denied("cli", each, "`deny.cli` of the project's config forbids it")
        allowed = any(_matches(names, pattern) for pattern in config.allow.cli or ())
        shells = [name for name in names if re.match(_SHELLS, _name(name))]
        if shells and not any(_matches(shells, pattern) for pattern in config.allow.cli or ()):
            raise _denied("cli", each, "it is a shell, and `allow.cli` does not name it")
        if each is program and config.allow.cli is not None and not allowed:
            raise _denied("cli", each, "`allow.cli` of the project's config does not name it")


def admit_host(config: Config, host: str, port: int | None = None) -> None:
    """PolicyError PB-POLICY-DENIED if a step may send no request to the host.

    A pattern is compared with `host` and with `host:port`, in lower case.
    """
    name = host.casefold().removesuffix(".")
    names = [name, *([] if port is None else [f"{name}:{port}"])]
    _admit("http", names, partial(_any_glob, fold=True), config)


def admit_tool(config: Config, server: str, tool: str) -> None:
    """PolicyError PB-POLICY-DENIED if a step may not call `SERVER.TOOL`."""
    _admit("mcp", [f"{server}.{tool}"], partial(_any_glob, fold=False), config)


def _admit(
    kind: Kind, names: list[str], matches: Callable[[list[str], str], bool], config: Config
) -> None:
    allow: tuple[str, ...] | None = getattr(config.allow, kind)
    deny: tuple[str, ...] | None = getattr(config.deny, kind)
    if any(matches(names, pattern) for pattern in deny or ()):
        raise _denied(kind, names[-1], f"`deny.{kind}` of the project's config forbids it")
    if allow is not None and not any(matches(names, pattern) for pattern in allow):
        raise _denied(kind, names[-1], f"`allow.{kind}` of the project's config does not name it")


def _any_glob(names: list[str], pattern: str, *, fold: bool) -> bool:
    return any(fnmatchcase(name, pattern.casefold() if fold else pattern) for name in names)


def _denied(kind: Kind, name: str, why: str) -> PolicyError:
    used = {"cli": "run", "http": "send a request to", "mcp": "call"}[kind]
    message = f"a step may not {used} {first_line(name, 100)!r}: {why}"
    return PolicyError("PB-POLICY-DENIED", message)


def _matches(names: Iterable[str], pattern: str) -> bool:
    if os.sep in pattern:
        return any(fnmatchcase(name, os.path.normpath(pattern)) for name in names)
    return any(fnmatchcase(Path(name).name, pattern) for name in names)


def _names(program: str, cwd: Path) -> tuple[str, ...]:
    """The program as it is written, without `..`; where it is found; the file that a link names."""
    from shutil import which

    found = os.path.normpath(cwd / program) if os.sep in program else which(program) or program
    names = (os.path.normpath(program), found, os.path.realpath(found))
    return tuple(dict.fromkeys(names))


def _name(program: str) -> str:
    return Path(program).name.casefold().removesuffix(".exe")


def _first_word(argument: str) -> str:
    """The program that an argument of a launcher may be; empty if it cannot be one."""
    for option in _SPLIT:
        argument = argument.removeprefix(option)
    words = argument.split(maxsplit=1)
    return words[0] if words and not words[0].startswith("-") else ""
