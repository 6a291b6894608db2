"""`worker.yaml`: what a worker of this machine may fetch and run, and how much of it.

The file belongs to the user, not to a repository: `$XDG_CONFIG_HOME/playbook/worker.yaml`. Every
key is optional, and an unknown key is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from playbook_supervisor.errors import ArgumentError, FleetError, PlaybookError, PolicyError
from playbook_supervisor.fleet.storage.rows import POOL
from playbook_supervisor.formats.checked_mapping import Problems, Section
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import load as load_yaml
from playbook_supervisor.project.expressions import globs
from playbook_supervisor.project.settings.config import ISOLATION, Mode
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import read_bytes
from playbook_supervisor.system.isolation import sandbox

CODE = "PB-FLEET-SETTINGS"
DEFAULT_TRANSPORTS = ("https", "ssh")
"""The transports of a worker unless its settings say otherwise."""
KNOWN_TRANSPORTS = (*DEFAULT_TRANSPORTS, "file")
"""Those that settings can allow. No other is used, least of all `ext`, which starts programs."""

_WITHOUT = (
    "Or write `isolation: none` into worker.yaml: agents can then read and change what the account "
    "of the worker can, such as clones and credentials of other repositories."
)
_CURE = "`playbook schema worker` describes every key."
_LARGEST = 1 << 20
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*\Z"
_AGENT = r"[a-z0-9][a-z0-9_-]{0,63}\Z"
_KEYS = (
    *("repositories", "transports", "agents", "max_cost_usd", "pools", "slots", "lease"),
    *("isolation", "environment"),
)
_SHORTEST_LEASE = 1.0  # seconds
_MOST_SLOTS = 1_000
_WHOLE, _WHOLE_CURE = r"[a-z]+://|[^/]+:", "Write whole URLs, as in `https://github.com/acme/*`."
_SCP = r"(?P<host>[^/:]+):(?!//)/*(?P<path>.+)"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a worker. The defaults apply without a file.

    `repositories` are globs of URLs and `agents` kinds of agents, None for all. `max_cost_usd` is
    the highest cost of a session here, None without a limit. `lease` is in seconds. `isolation` is
    the least that sessions have here. `environment` has globs of URLs, and the variables that
    sessions of other repositories do not get.
    """

    repositories: tuple[str, ...] | None = None
    transports: tuple[str, ...] = DEFAULT_TRANSPORTS
    agents: tuple[str, ...] | None = None
    max_cost_usd: float | None = None
    pools: tuple[str, ...] = ("default",)
    slots: int = 2
    lease: float = 90.0
    isolation: Mode = "none"
    environment: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def admits(self, url: str) -> bool:
        """True if one of `repositories` means a repository, whose URL is `normalised`.

        In a glob, `*` stays within one part between slashes and `**` is any number of parts.
        `git@host:path` and `ssh://git@host/path` are one place.
        """
        return self.repositories is None or _means(self.repositories, url)

    def require_admitted(self, url: str) -> None:
        """FleetError PB-FLEET-REPOSITORY unless `admits`."""
        if not self.admits(url):
            raise FleetError(
                "PB-FLEET-REPOSITORY",
                f"{first_line(url, 200)} is not among the repositories of worker.yaml",
                where=str(path()),
                guidance="Add it to `repositories` there, if its sessions may run here.",
            )

    def withheld(self, url: str) -> frozenset[str]:
        own = (names for glob, names in self.environment.items() if _means((glob,), url))
        return frozenset(chain(*self.environment.values())).difference(*own)

    def admits_agent(self, kind: str) -> bool:
        return self.agents is None or kind in self.agents


def isolated(settings: WorkerSettings, option: str) -> WorkerSettings:
    """With the isolation of `--isolation`. PolicyError PB-POLICY-ISOLATION if it cannot be."""
    mode = next((each for each in ISOLATION if each == option), settings.isolation)
    try:
        sandbox.in_force(mode)
    except PolicyError as error:
        cure = f"{error.guidance} {_WITHOUT}".strip()
        raise PolicyError(error.code, error.message, guidance=cure) from error
    return replace(settings, isolation=mode)


def path() -> Path:
    """`$XDG_CONFIG_HOME/playbook/worker.yaml`, by default in `~/.config`; it may not exist."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not base.startswith("/"):  # the specification ignores a relative path
        base = os.path.expanduser("~/.config")  # noqa: PTH111 - Path.expanduser may raise
    return Path(base) / "playbook" / "worker.yaml"


def load(*, shared: bool = False) -> WorkerSettings:
    """The settings of this user's workers; the defaults without a file. Workers of a `shared`
    database isolate unless the file says otherwise.

    FleetError PB-FLEET-SETTINGS names the first problem and lists all, and refuses settings without
    `repositories` if the database is `shared`: anyone who can write there chooses what a
    worker runs. StorageError PB-IO-READ.
    """
    file, settings = path(), WorkerSettings(isolation="required" if shared else "none")
    with suppress(FileNotFoundError):
        settings = _of(read_bytes(file, limit=_LARGEST), str(file), settings)
    if shared and settings.repositories is None:
        said = "the database is shared, and `repositories` does not say which ones a worker may run"
        cure = "List them there, as in `repositories: [https://github.com/acme/*]`."
        raise FleetError(CODE, said, where=str(file), guidance=cure)
    return settings


def pool_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of pools, each once. ArgumentError PB-ARG-INVALID if one is no such name."""
    for name in names:
        if not re.match(POOL, name):
            said = f"{first_line(name, 40)!r} is no name of a pool"
            cure = "Use up to 32 of a-z, 0-9 and -, as in `default`."
            raise ArgumentError("PB-ARG-INVALID", said, guidance=cure)
    return tuple(dict.fromkeys(names))


def examine(
    data: bytes, source: str, default: WorkerSettings | None = None
) -> tuple[WorkerSettings, tuple[Problem, ...]]:
    """The settings that could be read, and all problems. CheckError of the YAML reader."""
    document = load_yaml(data, source)
    problems = Problems(document, CODE, _CURE)
    settings = _read(Section(problems, document.data, (), _KEYS), default or WorkerSettings())
    return settings, problems.found()


def _of(data: bytes, source: str, default: WorkerSettings) -> WorkerSettings:
    try:
        settings, problems = examine(data, source, default)
    except PlaybookError as error:
        raise FleetError(
            CODE,
            error.message,
            where=error.source,
            position=error.position,
            guidance=error.guidance,
            cause=error.cause,
        ) from error
    if problems:
        first, more = problems[0], len(problems) - 1
        raise FleetError(
            CODE,
            first.message + (f" (and {more} more)" if more else ""),
            where=source,
            position=first.position,
            guidance=first.guidance,
            details=tuple(f"{each.place}: {each.sentences}" for each in problems),
        )
    return settings


def _read(top: Section, default: WorkerSettings) -> WorkerSettings:
    transports = top.lines("transports")
    for word in transports or ():
        if word and word not in KNOWN_TRANSPORTS:
            top.report("transports", f"`{word}` is none of {', '.join(KNOWN_TRANSPORTS)}")
    slots = top.above_zero("slots", default.slots, "a whole number", whole=True)
    if slots > _MOST_SLOTS:
        top.report("slots", f"must be at most {_MOST_SLOTS}")
    lease = top.seconds("lease", default.lease)
    if lease < _SHORTEST_LEASE:
        top.report("lease", "must be at least a second")
    return WorkerSettings(
        repositories=_repositories(top),
        transports=default.transports if transports is None else transports,
        agents=_named(top, "agents", _AGENT, "a kind of agent, such as claude or exec"),
        max_cost_usd=top.above_zero("max_cost_usd", default.max_cost_usd, "an amount"),
        pools=_named(top, "pools", POOL, "a pool: a-z, 0-9 and -, at most 32") or default.pools,
        slots=slots,
        lease=lease,
        isolation=top.choice("isolation", ISOLATION, default.isolation),
        environment=_environment(top.section("environment")),
    )


def _repositories(top: Section) -> tuple[str, ...] | None:
    patterns = top.lines("repositories")
    for pattern in patterns or ():
        if pattern and not re.match(_WHOLE, pattern):
            top.report("repositories", f"`{pattern}` begins with no transport", _WHOLE_CURE)
    return patterns


def _environment(section: Section) -> dict[str, tuple[str, ...]]:
    read = {}
    for glob in section.keys:
        if not re.match(_WHOLE, glob):
            section.report(glob, "begins with no transport", _WHOLE_CURE, at_key=True)
        read[glob] = _named(section, glob, _VARIABLE, "the name of a variable") or ()
    return read


def _named(top: Section, key: str, form: str, what: str) -> tuple[str, ...] | None:
    words = top.lines(key)
    if words == ():
        top.report(key, "must name at least one")
    for word in words or ():
        if word and not re.match(form, word):
            top.report(key, f"`{word}` is not {what}")
    return words


def _means(patterns: Sequence[str], url: str) -> bool:
    return globs.matches_any(map(_place, patterns), _place(url))


def _place(url: str) -> str:
    """A URL or a glob of URLs as parts with one slash between them, the transport first."""
    if scp := re.fullmatch(_SCP, url):
        return f"ssh/{scp['host']}/{scp['path']}"
    transport, _, rest = url.partition("://")
    return f"{transport}/{rest.lstrip('/') if transport == 'file' else rest}".removesuffix("/")
