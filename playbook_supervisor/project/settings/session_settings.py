"""The settings that apply to one session: those of the project when the session began.

They are stored with the session, because they name programs and grant permissions: an agent that
changes the project's settings must not change what the session may do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from playbook_supervisor.formats.problems import refusal
from playbook_supervisor.formats.yaml_writer import flow
from playbook_supervisor.project.settings import config
from playbook_supervisor.project.settings.config import (
    AgentSettings,
    Bounds,
    CheckSpec,
    Claude,
    Config,
    Inbox,
    Isolation,
)
from playbook_supervisor.records import Record, as_mapping

FILE = "config.yaml"
_NONE = b"# The project had no settings when this session began: the defaults apply.\n"
_NESTED = {
    "claude": Claude,
    "allow": Bounds,
    "deny": Bounds,
    "inbox": Inbox,
    "isolation": Isolation,
}
_KEYS = {
    "claude": "agents.claude",
    "specs": "artifacts.specs",
    "agreements": "artifacts.agreements",
    "qa": "artifacts.qa",
}
"""Field of `Config` → key of the file, where they differ."""


def text(root: Path) -> bytes:
    """The settings that a session stores when it begins: the project's file as it is."""
    found = config.text(root)
    return _NONE if found is None else found


def read_settings(data: bytes, source: str) -> Config:
    """The settings in a session's file. CheckError with its place, StateError PB-STATE-NEWER."""
    found, problems = config.examine(data, source)
    if problems:
        raise refusal(config.CODE, problems)
    return found


def settings_to_json(settings: Config) -> dict[str, Any]:
    """The settings as JSON, which is read faster than the file."""
    data = {
        name: as_mapping(value) if isinstance(value, Record) else value
        for name, value in as_mapping(settings).items()
    }
    return data | {
        "agents": {name: as_mapping(agent) for name, agent in settings.agents.items()},
        "checks": [as_mapping(check) for check in settings.checks.values()],
    }


def settings_from_json(data: Mapping[str, Any]) -> Config:
    """The inverse of `settings_to_json`."""
    values = {name: _tuples(value) for name, value in data.items()}
    checks = (CheckSpec(**check) for check in values.get("checks", ()))
    values["checks"] = {check.name: check for check in checks}
    agents = values.get("agents", {})
    values["agents"] = {name: AgentSettings(**each) for name, each in agents.items()}
    return Config(**values | {name: kind(**values.get(name, {})) for name, kind in _NESTED.items()})


def changes(before: Config, after: Config) -> Iterator[tuple[str, str, str]]:
    """Each key that differs, with its YAML before and after."""
    old, new = _flat(before), _flat(after)
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            yield key, _yaml(old, key), _yaml(new, key)


def _flat(settings: Config) -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in as_mapping(settings).items():
        key = _KEYS.get(name, name)
        if name == "checks":
            flat |= {
                f"{key}.{check.name}": _as_written(check) for check in settings.checks.values()
            }
        elif name == "agents":
            flat |= {f"{key}.{each}": _said(agent) for each, agent in settings.agents.items()}
        elif isinstance(value, (Record, Mapping)):
            inner = as_mapping(value) if isinstance(value, Record) else value
            flat |= {f"{key}.{part}": each for part, each in inner.items()}
        else:
            flat[key] = value
    return flat


def _as_written(check: CheckSpec) -> dict[str, object]:
    usual = as_mapping(CheckSpec(check.name, check.argv))
    other = {key: value for key, value in as_mapping(check).items() if value != usual[key]}
    return {"run": check.argv, "timeout_seconds": check.timeout_seconds, **other}


def _said(agent: AgentSettings) -> dict[str, object]:
    usual = as_mapping(AgentSettings())
    return {key: value for key, value in as_mapping(agent).items() if value != usual[key]}


def _yaml(flat: Mapping[str, object], key: str) -> str:
    value = flat.get(key)
    return "nothing" if value in (None, "", ()) else flow(value)


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    if isinstance(value, dict):
        return {key: _tuples(each) for key, each in value.items()}
    return value
