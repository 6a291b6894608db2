"""Our hook entries and permission rules in `.claude/settings.json`.

They are merged into what is there, whose order and indentation stay. Each entry runs the script
`hook_script` with the event's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from playbook_supervisor.drivers.claude_code.marker import CLIENTS, MARK, SCRIPT
from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats import strict_yaml
from playbook_supervisor.formats.located import Document, yaml_values

FILE = ".claude/settings.json"
LOCAL_FILE = ".claude/settings.local.json"
PLUGIN = "playbook@"  # what names our plugin, before the name of a marketplace
_CODE = "PB-CHECK-SETTINGS"

ALLOW = tuple(
    f"Bash(playbook {command} *)"
    for command in ("begin", "next", "report", "status", "show", "list", "probe", "prove")
)
"""Our commands that a model may run without permission; none of them decides anything."""

DENY = ("Edit(/.playbooks/sessions/**)", f"Edit(/{SCRIPT})")
"""Protects the journal and the script of the hooks.

`Edit` rules also apply to Write and to shell redirections.
"""

_RULES = {"allow": ALLOW, "deny": DENY}

# ── the entries ─────────────────────────────────────────────────────────────────────────────

_COMMAND = (
    f'{MARK} set -- EVENT; b="${{XDG_STATE_HOME:-$HOME/.local/state}}/{CLIENTS}/'
    f'${{CLAUDE_PID:-$PPID}}"; for h in "$b.sh" "${{CLAUDE_PROJECT_DIR:-.}}/{SCRIPT}"; do '
    '[ ! -s "$h" ] || . "$h"; done; '
    'command -v playbook >/dev/null || [ -f "$b" ] || exit 0; exec playbook hook'
)
"""Runs the script: that with which the client was bound, else the project's. Both end the shell. If
it is gone, the program decides; without that, a bound session fails closed.

A colleague who has neither works as usual: nothing in the user's state says that one is bound.
"""
_TIMEOUT = 30  # seconds
_CHECKING = 7_200  # seconds: the checks of a goal have bounds of their own
_CLOSED = frozenset({"UserPromptExpansion", "PreToolUse", "PreSkillShellCommand", "ConfigChange"})
"""Events whose hook refuses if it fails, is killed or takes too long."""
_AGENTS = "Agent|Task|Skill|AskUserQuestion"


def _entry(event: str) -> dict[str, object]:
    timeout = _CHECKING if event == "Stop" else _TIMEOUT
    hook = {"type": "command", "command": _COMMAND.replace("EVENT", event), "timeout": timeout}
    return {**hook, "onFailure": "block"} if event in _CLOSED else hook


_MATCHERS = {
    "UserPromptExpansion": "^playbook[.:]",  # a plugin's command is called playbook:run
    "UserPromptSubmit": "",
    "PreToolUse": "*",
    "PostToolUse": _AGENTS,
    "PostToolUseFailure": _AGENTS,
    "PostToolBatch": "",
    "PermissionRequest": "*",
    "Stop": "",
    "StopFailure": "",
    "SubagentStart": "",
    "SubagentStop": "",
    "SessionStart": "",
    "SessionEnd": "",
    "ConfigChange": "",
}

HOOKS = {event: (matcher, _entry(event)) for event, matcher in _MATCHERS.items()}
"""Event → the matcher, possibly empty, and the entry."""

_PLUGIN = f'{MARK} set -- EVENT plugin; . "${{CLAUDE_PLUGIN_ROOT}}/hooks/playbook.sh"'


def plugin_hooks() -> dict[str, list[dict[str, object]]]:
    """The hooks of our plugin for Claude Code, which brings the script itself."""
    found: dict[str, list[dict[str, object]]] = {}
    for event, (matcher, entry) in HOOKS.items():
        hook = {**entry, "command": _PLUGIN.replace("EVENT", event)}
        found[event] = [{**({"matcher": matcher} if matcher else {}), "hooks": [hook]}]
    return found


OPTIONAL = {"PreSkillShellCommand": ("*", _entry("PreSkillShellCommand"))}
"""The same for events that are kept up to date where a person has added them.

Terminals of clients before 2.1.332 warn of an event that they do not know, at every start.
"""


# ── the settings ────────────────────────────────────────────────────────────────────────────


def value(data: bytes, source: str, *keys: str) -> Any:
    """What these settings have under the keys; None if nothing. CheckError PB-CHECK-SETTINGS."""
    return _below(yaml_values(_document(data, source).data), *keys)


def _below(found: Any, *keys: str) -> Any:
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _document(data: bytes, source: str) -> Document:
    try:
        return strict_yaml.load(data or b"{}\n", source)
    except CheckError as error:
        raise CheckError(
            _CODE,
            error.message,
            where=error.source,
            position=error.position,
            guidance=error.guidance,
        ) from error


def with_rules(data: bytes) -> bytes:
    """As `merged`, for a project whose hooks a plugin brings: entries of ours are not added."""
    return merged(data, hooks=False)


def merged(data: bytes, *, hooks: bool = True) -> bytes:
    """The settings with our entries and rules added; their order and indentation are kept.

    An entry that another version wrote is replaced in its place; missing rules and entries are
    appended. CheckError PB-CHECK-SETTINGS, with the place, if `data` is not JSON, if a key is
    there twice, or if a list or an object is expected and something else is there.
    """
    from playbook_supervisor.formats.strict_json import write_json  # which no hook needs

    document = _document(data, FILE)
    for kind, rules in _RULES.items():
        listed = _list(document, "permissions", kind)
        listed += [rule for rule in rules if rule not in listed]
    for event in HOOKS if hooks else ():
        _list(document, "hooks", event)
    entries = _below(document.data, "hooks") if hooks else {}
    for event in [*entries]:
        _merge_entry(entries, event)
    unchanged = document.data == _document(data, FILE).data
    return data if unchanged else write_json(document.data, data or b"{}\n")


def _list(document: Document, *path: str) -> list[Any]:
    """The list at that path, made if it is missing. CheckError if something else is there."""
    holder: Any = document.data
    for depth, key in enumerate(path):
        if not isinstance(holder, dict):
            raise _unfit(document, path[:depth], "an object")
        holder = holder.setdefault(key, [] if depth == len(path) - 1 else {})
    if not isinstance(holder, list):
        raise _unfit(document, path, "a list")
    return holder


def _unfit(document: Document, path: tuple[str, ...], wanted: str) -> CheckError:
    return CheckError(
        _CODE,
        f"{'.'.join(path) or 'the document'} must be {wanted}",
        where=document.source,
        position=document.position(path),
        guidance=f"Make it {wanted}, or remove it; nothing was written.",
    )


def _merge_entry(hooks: dict[str, Any], event: str) -> None:
    """Leave exactly one entry of ours at that event, or none if it needs none."""
    matcher, wanted = {**HOOKS, **OPTIONAL}.get(event, (None, {}))
    ours = list(_ours(hooks, event))
    kept = next((entry for group, entry in ours if _matcher(group) == matcher), None)
    for group, entry in ours:
        if entry is not kept:
            group["hooks"] = [each for each in group["hooks"] if each is not entry]
    emptied = [group for group, _ in ours if not group["hooks"]]
    if emptied:
        hooks[event] = [each for each in hooks[event] if not any(each is old for old in emptied)]
    if kept is not None and yaml_values(kept) != wanted:
        kept.clear()
        kept.update(wanted)
    elif kept is None and event in HOOKS:
        hooks[event].append({**({"matcher": matcher} if matcher else {}), "hooks": [wanted]})
    elif not hooks[event] and emptied:
        del hooks[event]


def lacking(data: bytes, source: str = FILE) -> tuple[str, ...]:
    """The entries and rules of ours that are missing or altered. CheckError if it is not JSON."""
    settings = value(data, source)
    hooks = _below(settings, "hooks")
    entries = [
        event
        for event, (matcher, wanted) in HOOKS.items()
        if not any(_matcher(group) == matcher and it == wanted for group, it in _ours(hooks, event))
    ]
    rules = [
        f"permissions.{kind} {rule}"
        for kind, wanted in _RULES.items()
        for rule in wanted
        if rule not in _items(_below(settings, "permissions", kind))
    ]
    return (*(f"hooks.{event}" for event in entries), *rules)


def holds_ours(data: bytes) -> bool:
    """True if any hook entry in these settings is ours. CheckError if they are not JSON."""
    hooks = value(data, FILE, "hooks")
    return any(True for event in HOOKS for _ in _ours(hooks, event))


def runs_script(data: bytes) -> bool:
    """True if an entry of ours runs the script; those of earlier versions do not."""
    hooks = value(data, FILE, "hooks")
    return any(SCRIPT in entry["command"] for event in HOOKS for _, entry in _ours(hooks, event))


def disables_hooks(data: bytes, source: str) -> bool:
    """True if these settings, of any scope, disable all hooks."""
    return value(data, source, "disableAllHooks") is True


def plugin_switch(data: bytes, source: str) -> bool | None:
    """True if these settings, of any scope, enable our plugin, False if they disable it."""
    switches = value(data, source, "enabledPlugins")
    named = switches.items() if isinstance(switches, dict) else ()
    return next((on is True for name, on in named if str(name).startswith(PLUGIN)), None)


def command_of(data: bytes, event: str) -> str:
    """The command of our entry at that event; empty if there is none."""
    hooks = value(data, FILE, "hooks")
    return next((str(entry["command"]) for _, entry in _ours(hooks, event)), "")


def _ours(hooks: Any, event: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for group in _items(hooks.get(event) if isinstance(hooks, dict) else None):
        for entry in _items(group.get("hooks") if isinstance(group, dict) else None):
            command = entry.get("command") if isinstance(entry, dict) else None
            if isinstance(command, str) and command.startswith(MARK):
                yield group, entry


def _matcher(group: dict[str, Any]) -> object:
    return group.get("matcher") or ""


def _items(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []
