"""`.playbooks/config.yaml`: the settings of a project. Every key is optional.

An unknown key is an error: otherwise a misspelt setting would be silently ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from playbook_supervisor.errors import CheckError, StorageError
from playbook_supervisor.formats.located import Data, Document
from playbook_supervisor.formats.problems import Problem, refusal
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import load as load_yaml
from playbook_supervisor.formats.versions import current
from playbook_supervisor.project.expressions.globs import flaw
from playbook_supervisor.project.expressions.references import HANDLE, handle, names
from playbook_supervisor.records import Record, field, replace
from playbook_supervisor.system.disk.files import contained, read_bytes

if TYPE_CHECKING:
    from playbook_supervisor.formats.checked_mapping import Problems, Section

Commits = Literal["publish", "step", "never"]
Orphans = Literal["end", "wait"]
Permissions = Literal["ask", "fail"]
Where = Literal["here", "clean"]
Mode = Literal["none", "auto", "required"]
Network = Literal["as_is", "proxy", "none"]

FILE = ".playbooks/config.yaml"
_MISNAMED = ".playbooks/config.yml"
PERMISSION_MODES = ("acceptEdits", "default", "plan", "auto", "dontAsk")
"""The modes for a headless client. Bypassing permissions is deliberately missing."""

CODE = "PB-CHECK-CONFIG"

CHECK_TIMEOUT = 1800.0
"""Seconds that a check may run unless the settings say otherwise."""
AUTO = "auto"
"""Among the witnesses of a check: those of its runner."""
ISOLATION: tuple[Mode, ...] = ("none", "auto", "required")
"""Whether programs are isolated."""
CLEAN: Where = "clean"
"""The room of a check that does not run in the checkout."""

_MOST_TRIES = 3  # of a check until it passes
_LARGEST = 1 << 20
_CURE = "`playbook schema config` describes every key."
_AGENT_NAME = r"[a-z0-9][a-z0-9_-]{0,63}\Z"
_URL = r"[A-Za-z0-9][A-Za-z0-9+.-]*://"
_ORIGIN = r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?\Z"
_URLS_ALONE = "List only URLs (`SCHEME://…`), or a program and its arguments, the program first."
_SECRET_FORM = "Write `{{secret:NAME}}`; nothing else may stand between double braces."  # noqa: S105
_DATABASE = (
    r"(?:postgres(?:ql)?://(?:[^\s:/?#@]+@)?[^\s/?#@]*/[^\s?#]+(?:\?[^\s#]*)?"
    r"|(?:sqlite://)?/[^\s?#]*[^\s?#/])\Z"
)
_CREDENTIALS = r"[a-z]+://[^/?#@]*:[^/?#@]*@|[^?#]*\?(?:[^#]*&)?(?:ssl)?password="
_DATABASES = "Write `postgresql://USER@HOST/DATABASE`, or `sqlite:///FILE` with an absolute path."
_ELSEWHERE = "Remove it: set PLAYBOOK_FLEET where the fleet is used, or use ~/.pgpass."
_PLACEHOLDER = r"\{([^{}]*)\}"


class Claude(Record):
    """The options with which the headless Claude Code client is called."""

    permission_mode: str = "acceptEdits"
    allowed_tools: tuple[str, ...] = ()
    wait_for_limit: bool = False


class AgentSettings(Record):
    """An agent other than Claude Code: a program that reads a prompt (`exec`), one that speaks the
    Agent Client Protocol (`acp`), or a known one (`profile`). `mode` and `model` are set
    before it works, by the names that the agent gives them. `allowed_tools` are rules for calls
    that it may make without asking, in the syntax of Claude Code.
    """

    exec: tuple[str, ...] = ()
    acp: tuple[str, ...] = ()
    profile: str = ""
    mode: str = ""
    model: str = ""
    allowed_tools: tuple[str, ...] = ()
    wait_for_limit: bool = False


class Bounds(Record):
    """Patterns of programs, hosts and tools; None if the project gives none."""

    cli: tuple[str, ...] | None = None
    http: tuple[str, ...] | None = None
    mcp: tuple[str, ...] | None = None


class Inbox(Record):
    """The inbox in the browser: whether an answer there may start `playbook resume`, and its URL.

    `url` is empty if people do not reach it by an address of its own; else it has no path.
    """

    resume: bool = False
    url: str = ""


class Isolation(Record):
    """What is kept from agents, programs of steps and checks. `mode`: whether they are isolated;
    `auto`: where the machine can. `write` and `show` are places that they may write or see beside
    the usual ones, `hide` what they may not see. `hosts` are for `network: proxy` alone."""

    mode: Mode = "none"
    network: Network = "as_is"
    hosts: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    show: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()


class CheckSpec(Record):
    """A program whose exit status proves something; `env` is added to its environment.

    It runs in the checkout (`here`) or in a clean room, which `setup` prepares: programs that run
    again when the files that match `setup_inputs` differ. `witnesses` are patterns of the files
    that say what the check expects, and `auto` for those of its runner. `report` is the JUnit XML
    that it writes, a path or a pattern, where its runner is not asked for one. It runs up to
    `tries` times until it passes. `also_here`: what a clean room says must hold in the checkout.
    `network` is that of its isolation; None for that of agents.
    """

    name: str
    argv: tuple[str, ...]
    timeout_seconds: float = CHECK_TIMEOUT
    env: Mapping[str, str] = field(default_factory=dict)
    room: Where = "here"
    setup: tuple[tuple[str, ...], ...] = ()
    setup_inputs: tuple[str, ...] = ()
    witnesses: tuple[str, ...] = (AUTO,)
    report: str = ""
    tries: int = 1
    also_here: bool = False
    network: Network | None = None


class Config(Record):
    """The settings of a project. The defaults apply without a file.

    `agents` are those other than Claude Code. `secrets` map a name to an argv, `checks` to a check.
    `specs`, `agreements` and `qa` are folders relative to the repository, without a trailing slash.
    `worktrees` is a path pattern with `{repo}` and `{session}`, relative to the main checkout.
    `orphans` says whether the agents of a runner that was killed are ended, or keep running and are
    waited for. `permissions` says whether a call that needs a permission, or a question, asks a
    person at a gate, or fails; a runner without a terminal waits there for `patience` seconds.
    `notify` is a program and its arguments, or URLs if `notifies_by_url`; a gate that still waits
    is notified again after each `remind_after` seconds, 0 for never. `fleet` is the address of the
    fleet's database, without a password; empty for the one of this machine.
    """

    agent: str = ""
    agents: Mapping[str, AgentSettings] = field(default_factory=dict)
    claude: Claude = field(default_factory=Claude)
    secrets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    commit_sessions: Commits = "publish"
    push_sessions: bool = True
    feedback: bool = True
    worktrees: str = "../{repo}-session-{session}"
    specs: str = "specs"
    agreements: str = ".agreements"
    qa: str = ".qa"
    allow: Bounds = field(default_factory=Bounds)
    deny: Bounds = field(default_factory=Bounds)
    checks: Mapping[str, CheckSpec] = field(default_factory=dict)
    notify: tuple[str, ...] = ()
    remind_after: float = 0.0
    inbox: Inbox = field(default_factory=Inbox)
    orphans: Orphans = "end"
    permissions: Permissions = "ask"
    patience: float = 0.0
    fleet: str = ""
    isolation: Isolation = field(default_factory=Isolation)

    def isolated(self, mode: str) -> Config:
        """With that mode of isolation, which a run was given; with its own if it is empty."""
        known = next((each for each in ISOLATION if each == mode), self.isolation.mode)
        if known == self.isolation.mode:
            return self
        return replace(self, isolation=replace(self.isolation, mode=known))

    @property
    def notifies_by_url(self) -> bool:
        """True if `notify` lists URLs, which may contain handles of secrets."""
        return bool(self.notify) and _is_url(self.notify[0])


def load(root: Path) -> Config:
    """The settings of the repository at `root`; the defaults if it has no file.

    CheckError PB-CHECK-CONFIG, or the YAML reader's, names the first problem and lists all.
    StateError PB-STATE-NEWER if the file needs a newer version of this program. Errors of `text`.
    """
    data = text(root)
    if data is None:
        return Config()
    config, problems = examine(data, FILE)
    if problems:
        raise refusal(CODE, problems)
    return config


def text(root: Path) -> bytes | None:
    """The file, or None if there is none.

    StorageError if it cannot be read or is a link out of the repository. A file `config.yml` is a
    CheckError, because it would be ignored.
    """
    try:
        return read_bytes(contained(root, FILE), limit=_LARGEST)
    except FileNotFoundError:
        if os.path.lexists(root / _MISNAMED):
            raise CheckError(
                CODE, f"the settings belong in {FILE}", where=_MISNAMED, guidance="Rename the file."
            ) from None
        return None
    except StorageError as error:
        if isinstance(error.__cause__, NotADirectoryError):
            return None
        raise


def examine(data: bytes, source: str) -> tuple[Config, tuple[Problem, ...]]:
    """The settings that could be read, and all problems. CheckError, StateError PB-STATE-NEWER."""
    from playbook_supervisor.formats.checked_mapping import (  # most projects have no file
        Problems,
        Section,
    )

    document = load_yaml(data, source)
    problems = Problems(document, CODE, _CURE)
    config = _read(Section(problems, _migrated(document, problems), (), _KEYS))
    _check_notify(config, problems)
    return config, problems.found()


def _migrated(document: Document, problems: Problems) -> Data:
    data = document.data
    if not isinstance(data, dict) or "schema" not in data:
        return data
    number = getattr(data["schema"], "value", None)  # an unquoted scalar
    if type(number) is not int or number < 1:
        problems.add(("schema",), "must be a whole number from 1, without quotes")
        return data

    return dict(current("config.yaml", number, data, FILE, document))


_KEYS = (
    *("schema", "agent", "agents", "secrets", "commit_sessions", "push_sessions", "feedback"),
    *("worktrees", "artifacts", "allow", "deny", "checks", "notify", "remind_after", "inbox"),
    *("orphans", "permissions", "patience", "fleet", "isolation"),
)
_COMMITS: tuple[Commits, ...] = ("publish", "step", "never")
_ORPHANS: tuple[Orphans, ...] = ("end", "wait")
_PERMISSIONS: tuple[Permissions, ...] = ("ask", "fail")
_WHERE: tuple[Where, ...] = ("here", CLEAN)
_NETWORKS: tuple[Network, ...] = ("as_is", "proxy", "none")
_HOST = r"(?:\*\.)?[A-Za-z0-9.-]+(?::[0-9]{1,5})?\Z|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?\Z"
_CHECK_KEYS = (
    *("run", "timeout_seconds", "env", "room", "setup", "setup_inputs"),
    *("witnesses", "report", "tries", "also_here", "network"),
)
_BOUNDS = ("cli", "http", "mcp")
_OWN_AGENTS = ("acp", "exec", "script")
_AGENT_KEYS = ("exec", "acp", "profile", "mode", "model", "allowed_tools", "wait_for_limit")
KNOWN_AGENTS = ("codex", "copilot", "gemini", "kimi", "opencode", "qwen", "vibe")
"""The agents beside Claude Code that need no `exec` or `acp`: `agents.profiles` describes them."""


def _read(top: Section) -> Config:
    default = Config()
    agents = top.section("agents")
    claude = agents.section("claude", ("permission_mode", "allowed_tools", "wait_for_limit"))
    others = {
        name: _agent(name, agents)
        for name in agents.names(_AGENT_NAME, "an agent name: lowercase letters, digits, - and _")
        if name != "claude"
    }
    for name in _OWN_AGENTS:
        if name in others:
            agents.report(name, f"`{name}` is a built-in agent; choose another name", at_key=True)
    secrets = top.section("secrets")
    folders = top.section("artifacts", ("specs", "agreements", "qa"))
    return Config(
        agent=top.line("agent", default.agent),
        agents=others,
        claude=Claude(
            claude.choice("permission_mode", PERMISSION_MODES, default.claude.permission_mode),
            claude.lines("allowed_tools") or (),
            claude.switch("wait_for_limit", default=default.claude.wait_for_limit),
        ),
        secrets={
            name: secrets.argv(name, needed=True)
            for name in secrets.names(HANDLE, "a handle: letters, digits and _")
        },
        commit_sessions=top.choice("commit_sessions", _COMMITS, default.commit_sessions),
        push_sessions=top.switch("push_sessions", default=default.push_sessions),
        feedback=top.switch("feedback", default=default.feedback),
        worktrees=_pattern(top, default.worktrees),
        specs=folders.folder("specs", default.specs),
        agreements=folders.folder("agreements", default.agreements),
        qa=folders.folder("qa", default.qa),
        allow=_bounds(top.section("allow", _BOUNDS)),
        deny=_bounds(top.section("deny", _BOUNDS)),
        checks=_checks(top.section("checks")),
        notify=top.argv("notify"),
        remind_after=top.seconds("remind_after", default.remind_after),
        inbox=_inbox(top.section("inbox", ("resume", "url"))),
        orphans=top.choice("orphans", _ORPHANS, default.orphans),
        permissions=top.choice("permissions", _PERMISSIONS, default.permissions),
        patience=top.seconds("patience", default.patience),
        fleet=_fleet(top, default.fleet),
        isolation=_isolation(top),
    )


def _agent(name: str, agents: Section) -> AgentSettings:
    section = agents.section(name, _AGENT_KEYS)
    kinds = [key for key in ("exec", "acp", "profile") if key in section.keys]
    if len(kinds) > 1:
        section.report(kinds[1], f"cannot stand beside `{kinds[0]}`", at_key=True)
    elif not kinds and name not in KNOWN_AGENTS:
        text = "needs `exec` or `acp`, a program and its arguments, or `profile`, a known agent"
        agents.report(name, text, f"The known ones are {', '.join(KNOWN_AGENTS)}.", at_key=True)
    if kinds == ["exec"]:
        for key in sorted(section.keys - {"exec"}):
            section.report(key, "has no effect on a program that reads a prompt", at_key=True)
    return AgentSettings(
        section.argv("exec", needed=kinds == ["exec"]),
        section.argv("acp", needed=kinds == ["acp"]),
        section.choice("profile", KNOWN_AGENTS, "" if kinds or name not in KNOWN_AGENTS else name),
        section.line("mode", ""),
        section.line("model", ""),
        section.lines("allowed_tools") or (),
        section.switch("wait_for_limit", default=False),
    )


def _check_notify(config: Config, problems: Problems) -> None:
    for index, item in enumerate(config.notify if config.notifies_by_url else ()):
        unknown = [name for name in names(item) if not handle(name)]
        if item and not _is_url(item):
            text, cure = "is not a URL, but the first item is", _URLS_ALONE
        elif unknown:
            text, cure = f"`{{{{{first_line(unknown[0], 60)}}}}}` is no secret", _SECRET_FORM
        else:
            continue
        problems.add(("notify", index), text, cure)


def _is_url(text: str) -> bool:
    return re.match(_URL, text) is not None


def _inbox(section: Section) -> Inbox:
    default = Inbox()
    url = section.line("url", default.url)
    if url and not re.match(_ORIGIN, url):
        text = "must be `https://HOST` or `http://HOST`, with `:PORT` if needed, and nothing else"
        section.report("url", text)
        url = default.url
    return Inbox(section.switch("resume", default=default.resume), url)


def _isolation(top: Section) -> Isolation:
    if top.is_text("isolation"):
        return Isolation(top.choice("isolation", ISOLATION, "none"))
    section = top.section("isolation", ("mode", "network", "hosts", "write", "show", "hide"))
    hosts = section.lines("hosts") or ()
    for host in hosts:
        if host and not re.match(_HOST, host):
            text = f"`{first_line(host, 60)}` is no `HOST`, `HOST:PORT` or `*.DOMAIN`"
            section.report("hosts", text)
    return Isolation(
        section.choice("mode", ISOLATION, "auto" if section.keys else "none"),
        section.choice("network", _NETWORKS, "as_is"),
        hosts,
        *(section.lines(key) or () for key in ("write", "show", "hide")),
    )


def _fleet(top: Section, default: str) -> str:
    text = top.line("fleet", default)
    if re.match(_CREDENTIALS, text):
        top.report("fleet", "must have no password, for this file is committed", _ELSEWHERE)
    elif text and not re.match(_DATABASE, text):
        top.report("fleet", "is no address of a database", _DATABASES)
    else:
        return text
    return default


def _bounds(section: Section) -> Bounds:
    return Bounds(section.lines("cli"), section.lines("http"), section.lines("mcp"))


def _checks(section: Section) -> dict[str, CheckSpec]:
    names = section.names(_AGENT_NAME, "a name of a check: lowercase letters, digits, - and _")
    return {name: _check(name, section.section(name, _CHECK_KEYS)) for name in names}


def _check(name: str, section: Section) -> CheckSpec:
    variables = section.section("env")
    env = {
        variable: variables.line(variable, "")
        for variable in variables.names(HANDLE, "an environment variable: letters, digits and _")
    }
    spec = CheckSpec(
        name,
        section.argv("run", needed=True),
        section.seconds("timeout_seconds", CHECK_TIMEOUT),
        env,
        room=section.choice("room", _WHERE, "here"),
        setup=section.argvs("setup"),
        setup_inputs=_globs(section, "setup_inputs"),
        witnesses=_globs(section, "witnesses") or (AUTO,),
        report=_report(section),
        tries=section.above_zero("tries", 1, "a whole number", whole=True),
        also_here=section.switch("also_here", default=False),
        network=section.maybe("network", _NETWORKS),
    )
    if spec.tries > _MOST_TRIES:
        section.report("tries", f"must be at most {_MOST_TRIES}")
    if spec.also_here and spec.room != CLEAN:
        section.report("also_here", "needs `room: clean`")
    return spec


def _globs(section: Section, key: str) -> tuple[str, ...]:
    patterns = section.words(key)
    for pattern in patterns:
        if pattern and (why := flaw(pattern)):
            section.report(key, f"`{first_line(pattern, 60)}` {why}")
    return patterns


def _report(section: Section) -> str:
    report = section.line("report", "")
    if report and (why := flaw(report)):
        section.report("report", f"`{first_line(report, 60)}` {why}")
    return report


def _pattern(top: Section, default: str) -> str:
    pattern = top.line("worktrees", default)
    unknown = set(re.findall(_PLACEHOLDER, pattern)) - {"repo", "session"}
    if unknown or "{session}" not in pattern:
        top.report(
            "worktrees", "must contain `{session}`, may contain `{repo}`, and no other braces"
        )
    return pattern
