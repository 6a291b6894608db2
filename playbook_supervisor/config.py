"""`.playbooks/config.yaml`: the project's settings, every key checked, every key optional.

A misspelt setting is an error: one that is silently ignored would be believed to hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from playbook_supervisor.errors import CheckError, StorageError
from playbook_supervisor.files import contained, read_bytes
from playbook_supervisor.plain_text import did_you_mean, first_line, printable
from playbook_supervisor.records import Record, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal, TypeVar

    from playbook_supervisor.document import Data, Document

    Commits = Literal["publish", "step", "never"]
    Word = TypeVar("Word", bound=str)
    _Place = tuple[str | int, ...]

FILE: Final = ".playbooks/config.yaml"
PERMISSION_MODES: Final = ("acceptEdits", "default", "plan", "auto", "dontAsk")
"""What a headless client may be told; bypassing permissions is not among them, ever."""

_LARGEST: Final = 1 << 20
_AGENT_NAME: Final = r"[a-z0-9][a-z0-9_-]{0,63}\Z"
_HANDLE: Final = r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z"
_PLACEHOLDER: Final = r"\{([^{}]*)\}"


class Claude(Record):
    """How the headless Claude Code client is called."""

    permission_mode: str = "acceptEdits"
    allowed_tools: tuple[str, ...] = ()
    wait_for_limit: bool = False


class Bounds(Record):
    """Patterns of programs, hosts and tools; None where the project says nothing (tyr 27)."""

    cli: tuple[str, ...] | None = None
    http: tuple[str, ...] | None = None
    mcp: tuple[str, ...] | None = None


class Config(Record):
    """The settings of a project; each default is what holds without a file.

    `agents_exec` and `secrets` map a name to an argv. `specs`, `agreements` and `qa` are folders
    relative to the repository, without a trailing slash. `worktrees` is a path pattern with
    `{repo}` and `{session}`, relative to the main checkout.
    """

    agent: str = ""
    agents_exec: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    claude: Claude = field(default_factory=Claude)
    secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    commit_sessions: Commits = "publish"
    push_sessions: bool = True
    worktrees: str = "../{repo}-session-{session}"
    specs: str = "specs"
    agreements: str = ".agreements"
    qa: str = ".qa"
    allow: Bounds = field(default_factory=Bounds)
    deny: Bounds = field(default_factory=Bounds)
    notify: tuple[str, ...] = ()


def load(root: Path) -> Config:
    """The settings of the repository at `root`; the defaults where it has no file.

    Raises CheckError PB-CHECK-CONFIG (or the YAML reader's) that names the first fault's place
    and lists every fault, StorageError where the file cannot be read or is a link that leads out.
    """
    try:
        data = read_bytes(contained(root, FILE), limit=_LARGEST)
    except FileNotFoundError:
        return Config()
    except StorageError as error:
        if isinstance(error.__cause__, NotADirectoryError):
            return Config()
        raise
    from playbook_supervisor.strict_yaml import load as load_yaml  # most projects have no file

    document = load_yaml(data, FILE)
    faults = _Faults(document)
    config = _read(_Section(faults, document.data, (), _KEYS))
    faults.tell()
    return config


_KEYS: Final = (
    "agent",
    "agents",
    "secrets",
    "commit_sessions",
    "push_sessions",
    "worktrees",
    "artifacts",
    "allow",
    "deny",
    "notify",
)
_COMMITS: Final[tuple[Commits, ...]] = ("publish", "step", "never")
_BOUNDS: Final = ("cli", "http", "mcp")
_OWN_AGENTS: Final = ("exec", "script")


def _read(top: _Section) -> Config:
    default = Config()
    agents = top.section("agents")
    claude = agents.section("claude", ("permission_mode", "allowed_tools", "wait_for_limit"))
    others = {
        name: agents.section(name, ("exec",)).argv("exec", needed=True)
        for name in agents.names(_AGENT_NAME, "an agent's name: lower case, digits, - and _")
        if name != "claude"
    }
    for name in _OWN_AGENTS:
        if name in others:
            agents.fault(
                name, f"`{name}` is an agent of its own; choose another name", key_itself=True
            )
    secrets = top.section("secrets")
    folders = top.section("artifacts", ("specs", "agreements", "qa"))
    return Config(
        agent=top.line("agent", default.agent),
        agents_exec=others,
        claude=Claude(
            claude.choice("permission_mode", PERMISSION_MODES, default.claude.permission_mode),
            claude.lines("allowed_tools") or (),
            claude.switch("wait_for_limit", default=default.claude.wait_for_limit),
        ),
        secrets={
            name: secrets.argv(name, needed=True)
            for name in secrets.names(_HANDLE, "a handle: letters, digits and _")
        },
        commit_sessions=top.choice("commit_sessions", _COMMITS, default.commit_sessions),
        push_sessions=top.switch("push_sessions", default=default.push_sessions),
        worktrees=_pattern(top, default.worktrees),
        specs=folders.folder("specs", default.specs),
        agreements=folders.folder("agreements", default.agreements),
        qa=folders.folder("qa", default.qa),
        allow=_bounds(top.section("allow", _BOUNDS)),
        deny=_bounds(top.section("deny", _BOUNDS)),
        notify=top.argv("notify"),
    )


def _bounds(section: _Section) -> Bounds:
    return Bounds(section.lines("cli"), section.lines("http"), section.lines("mcp"))


def _pattern(top: _Section, default: str) -> str:
    pattern = top.line("worktrees", default)
    unknown = set(re.findall(_PLACEHOLDER, pattern)) - {"repo", "session"}
    if unknown or "{session}" not in pattern:
        top.fault("worktrees", "needs `{session}`, may hold `{repo}`, and knows no other braces")
    return pattern


class _Faults:
    """Everything that is wrong with the file, told together."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._found: list[tuple[int, int, str]] = []

    def add(self, place: _Place, text: str, *, key: bool = False) -> None:
        find = self._document.key_place if key else self._document.place
        name = ".".join(first_line(str(part), 60) for part in place)
        self._found.append((*find(place), f"{name}: {text}" if name else text))

    def tell(self) -> None:
        if not self._found:
            return
        lines = [f"{FILE}:{line}:{col}: {text}" for line, col, text in sorted(self._found)]
        line, col, first = min(self._found)
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        raise CheckError(
            "PB-CHECK-CONFIG", first + more, where=f"{FILE}:{line}:{col}", details=tuple(lines)
        )


class _Section:
    """One mapping of the file. A key that is absent, or wrong and told, reads as its default.

    `keys` are those that it may have; without them the keys are the author's own.
    """

    def __init__(
        self, faults: _Faults, data: Data, place: _Place, keys: Sequence[str] = ()
    ) -> None:
        self._faults, self._place = faults, place
        self._data: dict[str, Data] = data if isinstance(data, dict) else {}
        if not isinstance(data, dict) and not _is_empty(data):
            faults.add(place, "must be a mapping of keys to values")
        for key in self._data:
            if keys and key not in keys:
                near = did_you_mean(key, keys)
                hint = f"did you mean `{near}`?" if near else f"known are {', '.join(keys)}"
                self.fault(key, f"unknown key; {hint}", key_itself=True)

    def fault(self, key: str, text: str, *, key_itself: bool = False) -> None:
        self._faults.add((*self._place, key), text, key=key_itself)

    def names(self, form: str, what: str) -> list[str]:
        """The keys of a mapping whose keys are the author's own, those of the right form."""
        for name in self._data:
            if not re.match(form, name):
                self.fault(name, f"is not {what}", key_itself=True)
        return [name for name in self._data if re.match(form, name)]

    def section(self, key: str, keys: Sequence[str] = ()) -> _Section:
        return _Section(self._faults, self._data.get(key, {}), (*self._place, key), keys)

    def line(self, key: str, default: str) -> str:
        if key not in self._data:
            return default
        return self._line(self._data[key], (*self._place, key)) or default

    def lines(self, key: str) -> tuple[str, ...] | None:
        """A list of one-line texts; None if the key is absent."""
        if key not in self._data:
            return None
        items, place = self._data[key], (*self._place, key)
        if not isinstance(items, list):
            self.fault(key, "must be a list of texts (`[]` for none)")
            return None
        return tuple(self._line(item, (*place, index)) for index, item in enumerate(items))

    def argv(self, key: str, *, needed: bool = False) -> tuple[str, ...]:
        """A program and its arguments, one text each: nothing here is split by a shell."""
        argv = self.lines(key)
        if needed and not argv and (argv is not None or key not in self._data):
            self.fault(key, "is missing: a list, the program first, then its arguments")
        return argv or ()

    def switch(self, key: str, *, default: bool) -> bool:
        if key not in self._data:
            return default
        value = getattr(self._data[key], "value", None)  # of what has no quotes
        if not isinstance(value, bool):
            self.fault(key, "must be true or false, without quotes")
            return default
        return value

    def choice(self, key: str, allowed: Sequence[Word], default: Word) -> Word:
        if key not in self._data:
            return default
        text = self.line(key, default)
        for word in allowed:
            if text == word:
                return word
        near = did_you_mean(text, allowed)
        hint = f"; did you mean `{near}`?" if near else ""
        self.fault(key, f"must be one of {', '.join(allowed)}{hint}")
        return default

    def folder(self, key: str, default: str) -> str:
        text = self.line(key, default)
        path = PurePosixPath(text)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            self.fault(key, "must be a folder inside the repository")
        return str(path)

    def _line(self, data: Data, place: _Place) -> str:
        if not isinstance(data, str):
            self._faults.add(place, "must be a text")
        elif _is_empty(data) or not data.strip():
            self._faults.add(place, "is empty; take the key out, or give it a value")
        elif printable(data) != data:
            self._faults.add(place, "must be one line without control characters")
        else:
            return str(data)
        return ""


def _is_empty(data: Data) -> bool:
    return getattr(data, "value", data) is None
