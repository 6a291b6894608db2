"""The agents that there are, and the one that `--agent`, the config or the machine selects."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from shutil import which

from playbook_supervisor import plugins
from playbook_supervisor.agents.exec import ExecAgent
from playbook_supervisor.agents.profiles import PROFILES, Profile
from playbook_supervisor.agents.protocol import Agent, Factory, command_layout, resolve_path
from playbook_supervisor.errors import AgentError, ArgumentError, PlaybookError
from playbook_supervisor.formats.sanitize import first_line, printable, suggestion
from playbook_supervisor.plugins import Offer
from playbook_supervisor.project.command_layouts import CLAUDE
from playbook_supervisor.project.settings.config import AgentSettings, Config

BUILT_IN: dict[str, str] = {
    "acp": "playbook_supervisor.agents.acp:create",
    "claude": "playbook_supervisor.agents.claude.headless:create",
    "exec": "playbook_supervisor.agents.exec:create",
    "script": "playbook_supervisor.agents.script:create",
}
"""Name → its factory, imported when it is chosen."""

_WITH_ARGUMENT = ("acp", "exec", "script")
DEFAULT = "claude"  # the agent that is tried first where none is named


def choose(spec: str, config: Config, root: Path) -> Agent:
    """The selected agent, ready for use.

    `spec` is the value of `--agent`: `exec:./my-agent --flag`, `script:FILE.yaml`, a name from the
    project's config or an installed package, or empty: then the config's `agent`, then the first
    agent found on the machine. ArgumentError PB-ARG-AGENT lists the known agents; PB-AGENT-NONE
    says why none can be used; PB-AGENT-SCRIPT comes from a faulty script file.
    """
    wanted = spec.strip() or config.agent
    if not wanted:
        return _first_available(config, root)
    agent = _create(wanted, config, root)
    if (reason := agent.available()) is not None:
        raise AgentError(
            "PB-AGENT-NONE",
            f"the agent {printable(wanted)} cannot be used: {reason}",
            guidance="Fix that, or name another agent: --agent exec:PROGRAM.",
        )
    return agent


def known(config: Config) -> tuple[str, ...]:
    """The values that `--agent` accepts here."""
    others = sorted({*PROFILES, *config.agents, *plugins.offered(plugins.AGENTS)})
    return ("claude", "acp:PROGRAM", "exec:PROGRAM", "script:FILE.yaml", *others)


def kind_of(spec: str, config: Config) -> str:
    """The kind of an agent that a worker of a fleet may admit: `claude`, `exec`, `acp`, `codex`."""
    settings = config.agents.get(spec, AgentSettings())
    if settings.exec or settings.acp:
        return "exec" if settings.exec else "acp"
    kind, _, argument = spec.partition(":")
    return settings.profile or (argument if kind == "acp" and argument in PROFILES else kind)


def names(config: Config) -> tuple[str, ...]:
    """The names by which a step can name its agent here."""
    built_in = (name for name in BUILT_IN if name not in _WITH_ARGUMENT)
    others = {*PROFILES, *config.agents, *plugins.offered(plugins.AGENTS)}
    return tuple(dict.fromkeys((*built_in, *sorted(others))))


def on_this_machine() -> dict[str, str]:
    """The known agents whose program is on PATH, Claude Code first: name → program."""
    programs = {DEFAULT: DEFAULT, **{name: each.program for name, each in PROFILES.items()}}
    return {name: program for name, program in programs.items() if which(program)}


def is_default(spec: str) -> bool:
    """True if a config's `agent` selects Claude Code, by name or by selecting none."""
    return spec in ("", DEFAULT)


def profile_of(spec: str, config: Config) -> Profile | None:
    """That of a known agent, by what `--agent` takes; None for Claude Code and all others."""
    settings = config.agents.get(spec)
    return PROFILES.get(settings.profile if settings else spec.removeprefix("acp:"))


def layout_of(spec: str, config: Config, root: Path) -> str:
    """The `command_layout` of the agent that a value of `--agent` means, available or not.

    An empty `spec` means Claude Code; an empty layout, that it is not known.
    """
    if is_default(spec):
        return CLAUDE
    if profile := profile_of(spec, config):
        return profile.layout
    if spec in config.agents or spec.partition(":")[0] not in plugins.offered(plugins.AGENTS):
        return ""
    try:
        return command_layout(_create(spec, config, root))
    except PlaybookError:  # said where the agent is chosen
        return ""


def with_portable_path(spec: str, root: Path) -> str:
    """The value of `--agent` to keep: a file of the repository is named from its top level."""

    def portable(path: str) -> str:
        found = os.path.realpath(resolve_path(path, root))
        inside = os.path.relpath(found, root)
        return found if inside.startswith(os.pardir) else f"./{inside}"

    return _with_path(spec, portable)


def with_absolute_path(spec: str, root: Path) -> str:
    """The kept value of `--agent`, for any working directory of this checkout."""
    return _with_path(spec, lambda path: os.path.normpath(root / path))


def _with_path(spec: str, change: Callable[[str], str]) -> str:
    name, _, argument = spec.strip().partition(":")
    if name == "script":
        return f"{name}:{change(argument)}"
    if name in ("acp", "exec"):
        program, *others = shlex.split(argument)
        whole = change(program) if os.sep in program else program
        return f"{name}:{shlex.join([whole, *others])}"
    return spec


def _create(wanted: str, config: Config, root: Path) -> Agent:
    name, _, argument = wanted.partition(":")
    if name in BUILT_IN:
        factory: Factory = resolve_name(BUILT_IN[name])
        return factory(argument, config, root)
    if wanted in config.agents or wanted in PROFILES:
        return _of_settings(wanted, config.agents.get(wanted, AgentSettings(profile=wanted)), root)
    offered = plugins.offered(plugins.AGENTS)
    if name in offered:
        return _load(offered[name])(argument, config, root)
    near = suggestion(name, [*BUILT_IN, *PROFILES, *config.agents, *offered])
    raise ArgumentError(
        "PB-ARG-AGENT",
        f"there is no agent {printable(name)}{near}; there are {', '.join(known(config))}",
        details=known(config),
    )


def _of_settings(name: str, settings: AgentSettings, root: Path) -> Agent:
    """An agent of the settings, or a known one that they do not mention."""
    if settings.exec:
        return ExecAgent(name, settings.exec, root)
    profile = PROFILES.get(settings.profile) or Profile(program=settings.acp[0], acp=())
    made: Agent = resolve_name(profile.made_by)(name, profile, settings, root)
    return made


def _first_available(config: Config, root: Path) -> Agent:
    """Claude Code, else the first available agent of an installed package, or a known one."""
    reasons = []
    for name in dict.fromkeys((DEFAULT, *plugins.offered(plugins.AGENTS), *PROFILES)):
        try:
            agent = _create(name, config, root)
            reason = agent.available()
        except PlaybookError as error:
            reason = error.message
        else:
            if reason is None:
                return agent
        reasons.append(f"{name}: {reason}")
    raise AgentError(
        "PB-AGENT-NONE",
        "no agent was named, none is configured and none is found on this machine",
        guidance="Install Claude Code (`claude` on PATH), or name another: --agent exec:PROGRAM or"
        " script:FILE.yaml, or `agent:` in .playbooks/config.yaml.",
        details=tuple(reasons),
    )


def _load(offer: Offer) -> Factory:
    try:
        factory: Factory = offer.load()
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        what = f"the agent {offer.name} of {offer.value} cannot be loaded"
        raise AgentError(
            "PB-AGENT-NONE",
            f"{what}: {first_line(cause, 200)}",
            cause=cause,
            guidance="Reinstall the package that provides it, or name another agent.",
        ) from error
    return factory
