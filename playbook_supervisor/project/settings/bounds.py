"""The bounds of steps: programs, hosts and tools, by `allow` and `deny` in the config.

A pattern is a glob. `deny` wins, and a playbook cannot widen either. Without both, everything
passes but shells; a shell must be matched by a pattern of `allow.cli`. No list of the programs that
start others is complete, so `deny.cli` without `allow.cli` admits only what is known to start none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from playbook_supervisor.errors import PolicyError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project.settings.config import Config

Kind = Literal["cli", "http", "mcp"]
Chooser = Literal["playbook", "settings", "us"]

_SHELLS = r"""(?x)(?:
    (?: a | ba | c | da | fi | k | mk | rba | tc | xon | ya | z )? sh [0-9.-]*
    | cmd | command\.com | elvish | nu | powershell | pwsh
)\Z"""
"""Names of programs that take a command line as text."""
STARTS_NOTHING = r"""(?x)(?:
    arch | b2sum | base32 | base64 | basename | cat | chgrp | chmod | chown | cksum | cmp | comm |
    cp | cut | date | df | dirname | du | echo | expand | expr | factor | false | fmt | fold |
    grep | groups | head | hostid | id | join | jq | link | ln | ls | md5sum | mkdir | mkfifo |
    mktemp | mv | nl | nproc | numfmt | od | paste | pathchk | pr | printenv | printf | pwd |
    readlink | realpath | rm | rmdir | seq | sha1sum | sha224sum | sha256sum | sha384sum |
    sha512sum | shuf | sleep | stat | sum | sync | tac | tail | tee | test | touch | tr | true |
    truncate | tsort | uname | unexpand | uniq | unlink | wc | who | whoami | yes
)\Z"""
"""Names of programs that are known to start no other one, whatever their arguments are."""
_LOADS = re.compile(r"LD_|DYLD_|GCONV_PATH\Z")
"""Variables by which the C library loads other code into a program."""
_SPLIT = re.compile("--s(?:p[a-z-]*)?=|-[iv0]*S")  # options of `env` that contain a command line
_TO_ADD = (
    "A person may name it in .playbooks/config.yaml, with all other programs that steps start: "
    "`allow: {{cli: [{}]}}`."
)


def where_is(program: str, path: str | None = None) -> str | None:
    """The file that a name on PATH, or on `path`, stands for; None if there is none."""
    from shutil import which

    return which(program, path=path)


def admit_program(
    config: Config,
    argv: Sequence[str],
    cwd: Path,
    by: Chooser = "playbook",
    env: Mapping[str, str | None] | None = None,
) -> None:
    """PolicyError PB-POLICY-DENIED if the project does not let this run in `cwd`.

    `env` may set variables that differ from ours: with another PATH, other programs are found.

    A pattern with a slash is compared with the program's path, another one with its name. What a
    program may start by its arguments (`env sh`) must be neither denied nor a shell. With
    `deny.cli` alone, a playbook may start only what is known to start nothing. `by` says who has
    chosen the program: a playbook, the settings, or we, whose arguments are no programs.
    """
    program, *others = argv
    env = env or {}
    path = _path(env, cwd)
    names = _names(program, cwd, path)
    allow, deny = config.allow.cli, config.deny.cli
    if why := _refusal(config, names):
        raise _denied("cli", program, why)
    if allow is not None and not any(_matches(names, pattern) for pattern in allow):
        raise _denied("cli", program, "`allow.cli` of the project's config does not name it")
    if by == "us" or (_starts_nothing(program) and not _loads_others(program, env, path)):
        return
    if by == "playbook" and deny and allow is None:
        why = "it may start other programs, which `deny.cli` cannot see"
        name = first_line(Path(program).name, 60)
        raise _denied("cli", program, why, _TO_ADD.format(name))
    for word in filter(None, map(_word, others)):
        if _may_start(word, cwd, path) and (why := _refusal(config, _names(word, cwd, path))):
            raise _denied("cli", word, why)


def admit_host(config: Config, host: str, port: int | None = None) -> None:
    """PolicyError PB-POLICY-DENIED if a step may send no request to `host`, or to `host:port`."""
    name = host.casefold().removesuffix(".")
    _admit(config, "http", [name, *([] if port is None else [f"{name}:{port}"])], str.casefold)


def admit_tool(config: Config, server: str, tool: str) -> None:
    """PolicyError PB-POLICY-DENIED if a step may not call `SERVER.TOOL`."""
    _admit(config, "mcp", [f"{server}.{tool}"])


def _admit(
    config: Config, kind: Kind, names: list[str], spelled: Callable[[str], str] = str
) -> None:
    def among(patterns: Iterable[str]) -> bool:
        return any(fnmatchcase(name, spelled(each)) for each in patterns for name in names)

    allow: tuple[str, ...] | None = getattr(config.allow, kind)
    deny: tuple[str, ...] | None = getattr(config.deny, kind)
    if among(deny or ()):
        raise _denied(kind, names[-1], f"`deny.{kind}` of the project's config forbids it")
    if allow is not None and not among(allow):
        raise _denied(kind, names[-1], f"`allow.{kind}` of the project's config does not name it")


def _refusal(config: Config, names: Sequence[str]) -> str:
    if any(_matches(names, pattern) for pattern in config.deny.cli or ()):
        return "`deny.cli` of the project's config forbids it"
    shells = [name for name in names if re.match(_SHELLS, _name(name))]
    if shells and not any(_matches(shells, each) for each in config.allow.cli or ()):
        return "it is a shell, and `allow.cli` does not name it"
    return ""


def _may_start(word: str, cwd: Path, path: str | None) -> bool:
    """True if an argument can name a program: not a folder `cmd`, nor a word that is none here."""
    if os.sep in word:
        return os.access(cwd / word, os.X_OK) and (cwd / word).is_file()
    return where_is(word, path=path) is not None or not re.match(_SHELLS, _name(word))


def _starts_nothing(program: str) -> bool:
    folder, name = os.path.split(program)
    return re.match(STARTS_NOTHING, name) is not None and folder in ("", "/bin", "/usr/bin")


def _loads_others(program: str, env: Mapping[str, str | None], path: str | None) -> bool:
    changed = (name for name, value in env.items() if value != os.environ.get(name))
    return where_is(program, path=path) != where_is(program) or any(map(_LOADS.match, changed))


def _path(env: Mapping[str, str | None], cwd: Path) -> str | None:
    folders = env.get("PATH")
    if folders is None or folders == os.environ.get("PATH"):
        return None
    return os.pathsep.join(str(cwd / each) for each in folders.split(os.pathsep))


def _denied(kind: Kind, name: str, why: str, guidance: str = "") -> PolicyError:
    used = {"cli": "run", "http": "send a request to", "mcp": "call"}[kind]
    message = f"a step may not {used} {first_line(name, 100)!r}: {why}"
    return PolicyError("PB-POLICY-DENIED", message, guidance=guidance)


def _matches(names: Iterable[str], pattern: str) -> bool:
    if os.sep in pattern:
        return any(fnmatchcase(name, os.path.normpath(pattern)) for name in names)
    return any(fnmatchcase(Path(name).name, pattern) for name in names)


def _names(program: str, cwd: Path, path: str | None) -> tuple[str, ...]:
    """The program as it is written, without `..`; where it is found; the file that a link names."""
    found = os.path.normpath(cwd / program) if os.sep in program else where_is(program, path=path)
    found = found or program
    names = (os.path.normpath(program), found, os.path.realpath(found))
    return tuple(dict.fromkeys(names))


def _name(program: str) -> str:
    return Path(program).name.casefold().removesuffix(".exe")


def _word(argument: str) -> str:
    option = _SPLIT.match(argument)
    words = argument[option.end() if option else 0 :].split()
    return next((each for each in words if each[0] != "-" and "=" not in each), "")
