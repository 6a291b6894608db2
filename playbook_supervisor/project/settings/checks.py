"""Checks: programs of the project whose exit status proves something about a tree.

A check is named in the settings (`checks`), or is a program of its own: `cli make test`. It runs
without a shell and ends with all that it has started.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.sanitize import first_line, printable, some, suggestion
from playbook_supervisor.project.settings.config import CLEAN, CheckSpec, Config
from playbook_supervisor.records import Record, field
from playbook_supervisor.system.disk.files import digest
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.process.cancellation import Interrupted, ending_on_signals
from playbook_supervisor.system.process.capture import Capture, redact

if TYPE_CHECKING:
    from playbook_supervisor.system.process.processes import Isolation


class Proofs(Protocol):
    """Where proofs are kept. Safe to call without a session's lock."""

    def lookup(self, key: str, tree: str) -> Proof | None:
        """The last proof of the check with this key for this tree."""

    def keep(self, proof: Proof) -> None:
        """Keep it. When this returns, a killed process does not lose it."""


CLI = "cli"
"""The first word of a check that is a program of its own."""
NOT_STARTED = (126, 127)
"""The exit statuses of shells, `env` and the like for a program that they cannot start (POSIX)."""
CAP = 1_000_000
"""Bytes of a check's output that are kept."""

_INSTEAD = "Define it under `checks` in .playbooks/config.yaml, or write `cli PROGRAM ARGUMENTS`."
_QUOTED = 80  # characters of the line that evidence quotes
_LONGEST_FAULT = 160  # characters
_LOOKED_AT = 200  # lines at the end of the output
_MOST_LEFT_OUT = 2  # paths that cannot be read
_EDGES = " \t=-_*#|"
_RESULT = r"""(?ix)
    \b[1-9]\d*\ (?:\w+\ ){0,2}
      (?:passed|failed|passing|failing|tests?|examples?|specs?|failures?|errors?|problems?)\b
    | \b(?:pass|fail|failures|errors|tests|tests\ run:|total:)[ =]+[1-9]\d*\b
    | \A(?:ok|fail)\s+\S+\s+[0-9.]+s
"""
"""Results as test programs and linters state them: a count that is not 0."""
_FAULT = r"""(?x)
    (?:FAIL(?:ED)?|ERROR|not\ ok|E|\d+\)|[✖✗✕×●])[:\s]+\S
    | .*(?:Error|Exception|\berror(?:\[\w+\])?):\s
    | .*\ FAILED\Z
"""
"""Single faults as test programs, compilers and linters name them."""
_NOISE = r"(?:make(?:\[\d+\])?: |npm (?:ERR!|error)|error Command failed|ELIFECYCLE)"


class CheckRun(Record):
    """A check that has run.

    `status` is None if it was ended at its deadline, and negative if a signal ended it. `seconds`
    is how long it ran, and the deadline if that ended it. `line` is the line of its output that
    says most. `output` is stdout and stderr as they came, capped.
    """

    status: int | None
    seconds: float
    line: str = ""
    output: str = ""

    @property
    def timed_out(self) -> bool:
        return self.status is None


class Proof(Record):
    """A check that has run to its end on a tree: its exit status is proved for that tree alone.

    `key` stands for the program, its arguments and its variables. `at` is when it ended, in ms
    since the epoch, and `by` what asked for it: `implement#2`. `without` are the paths that could
    not be read, and are not part of the tree. `clean`: it ran in a clean room, `also_here`: in the
    checkout, too. `tries` is how often it ran.
    """

    check: str
    key: str
    tree: str
    status: int
    seconds: float
    line: str
    at: int
    by: str
    without: tuple[str, ...] = ()
    clean: bool = False
    also_here: bool = False
    tries: int = 1

    @property
    def evidence(self) -> str:
        """`check test: exit 0 in 41 s, "312 passed", tree 9f31c2a`."""
        from playbook_supervisor.system.git.tree import short

        quoted = f', "{self.line}"' if self.line else ""
        took = duration(self.seconds)
        said = f"check {self.check}: exit {self.status} in {took}{quoted}, tree {short(self.tree)}"
        places = ((" in a clean room", self.clean), (" in the checkout", self.also_here))
        said += " and".join(place for place, known in places if known)
        if self.without:
            said += f" without {some(self.without, _MOST_LEFT_OUT)} (unreadable)"
        return f"{said}, needed a retry" if self.tries > 1 and self.status == 0 else said


class Checking(Record):
    """The way in which conditions run checks, and where their proofs are kept.

    `by` is what asks: `implement#2`. `watch` is given the name of a check and is open while it
    runs; what it returns is given each line to show it, and `say` to keep it. All processes of a
    check hold the `worker_file` and end with us; a check without one may leave processes behind.
    `wall` is the most seconds for each check. The values in `secrets` leave it neither in lines nor
    in what it proves. `search_path` is PATH in clean rooms; empty for ours.
    """

    proofs: Proofs | None = None
    by: str = ""
    watch: Callable[[str], AbstractContextManager[Callable[[str], None]]] = lambda _: nullcontext(
        lambda _: None
    )
    say: Callable[[str], None] = lambda _: None
    worker_file: Path | None = None
    wall: float | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    search_path: str = ""


# ── which check ─────────────────────────────────────────────────────────────────────────────


def find_check(parameter: str, config: Config) -> CheckSpec:
    """The check of that name, or `cli PROGRAM ARGUMENTS` itself. CheckError PB-CHECK-UNDEFINED."""
    if parameter in config.checks:
        return config.checks[parameter]
    shown = first_line(parameter, 60)
    word, _, rest = parameter.partition(" ")
    if word == CLI:
        try:
            argv = tuple(shlex.split(rest))
        except ValueError as error:
            message = f"{shown!r} is not a check: {error}"
            raise CheckError("PB-CHECK-UNDEFINED", message) from error
        if argv:
            return CheckSpec(shown, argv)
    known = ", ".join(config.checks)
    among = f"; there {'is' if len(config.checks) == 1 else 'are'} {known}" if known else ""
    near = suggestion(parameter, config.checks) or among
    raise CheckError(
        "PB-CHECK-UNDEFINED", f"the config defines no check {shown!r}{near}", guidance=_INSTEAD
    )


def key(spec: CheckSpec) -> str:
    """Stands for what the check does: proofs of another program say nothing about it."""
    what: list[object] = [spec.argv, sorted(spec.env.items())]
    if spec.room == CLEAN:
        what += [CLEAN, spec.setup, spec.setup_inputs]
    if spec.tries > 1:
        what += [spec.tries]
    return digest(json.dumps(what).encode())


# ── running one ─────────────────────────────────────────────────────────────────────────────


def run_check(
    spec: CheckSpec,
    root: Path,
    config: Config,
    checking: Checking | None = None,
    environment: Mapping[str, str] | None = None,
    isolation: Isolation | None = None,
) -> CheckRun:
    """Run a check in the folder `root`, to its end or to its deadline.

    Its `env` is added to the environment, ours by default. Without an `isolation` it has that of
    the settings, for the checkout.

    PolicyError PB-POLICY-DENIED if the settings do not admit its program; StorageError
    PB-IO-PROGRAM if it cannot be started; Interrupted if a person asked to stop.
    """
    from playbook_supervisor.project.settings.bounds import admit_program
    from playbook_supervisor.system.process.processes import Worker

    checking = checking or Checking()
    if isolation is None and config.isolation.mode != "none":
        from playbook_supervisor.project.settings.isolation import of_check

        isolation = of_check(config, spec, checkout.find(root))
    variables = {**(os.environ if environment is None else environment), **spec.env}
    admit_program(config, spec.argv, root, by="settings", env=variables)
    deadline = min(wall for wall in (spec.timeout_seconds, checking.wall) if wall is not None)
    began = time.monotonic()
    output, last = Capture(CAP), deque[str](maxlen=_LOOKED_AT)

    def keep(line: str) -> None:
        line = redact(printable(line), checking.secrets)
        output.add(f"{line}\n".encode())
        last.append(line)
        checking.say(line)
        show(line)

    with ending_on_signals(), checking.watch(spec.name) as show:
        worker = Worker(
            spec.argv,
            cwd=root,
            env=variables,
            worker_file=checking.worker_file,
            isolation=isolation,
            wall=deadline,
            cap=CAP,
        )
        try:
            for line in worker.lines(keep):
                keep(line)
        finally:
            worker.stop()
        if worker.stopped_by == "stop":
            raise Interrupted
    if hint := worker.hint:
        checking.say(hint)
    if worker.stopped_by:  # to be ended may take some seconds more
        return CheckRun(None, deadline, telling_line(last), output.text())
    took = time.monotonic() - began
    return CheckRun(worker.returncode, took, telling_line(last), output.text())


def telling_line(lines: Iterable[str]) -> str:
    """The last of the lines that states a result, else the last that says anything."""
    said = [line for each in lines if (line := first_line(each, _QUOTED).strip(_EDGES))]
    stated = [line for line in said if states_result(line)]
    others = [line for line in said if not re.match(_NOISE, line)]
    return [*said, *others, *stated][-1] if said else ""


def states_result(line: str) -> bool:
    """True if the line counts tests, or the like."""
    return re.search(_RESULT, line) is not None


def faults(lines: Iterable[str], most: int) -> list[str]:
    """The first lines of what a failed check has printed that name a fault, else the last ones."""
    said = [line for each in lines if (line := first_line(each, _LONGEST_FAULT).strip(_EDGES))]
    named = [line for line in said if re.match(_FAULT, line) and not re.match(_NOISE, line)]
    return list(dict.fromkeys(named))[:most] or said[-most:]


def duration(seconds: float) -> str:
    """`0.3 s`, `41 s`."""
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
