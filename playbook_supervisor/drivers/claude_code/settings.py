"""Our hook entries and permission rules in `.claude/settings.json`.

They are merged without changing any other byte.
"""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.drivers.claude_code.marker import MARK as MARK
from playbook_supervisor.drivers.claude_code.marker import MARKER as MARKER
from playbook_supervisor.drivers.claude_code.shell_lines import HOOKS as HOOKS
from playbook_supervisor.drivers.claude_code.shell_lines import OPTIONAL as OPTIONAL
from playbook_supervisor.formats.json_edit import JsonText

FILE = ".claude/settings.json"
LOCAL_FILE = ".claude/settings.local.json"
_CODE = "PB-CHECK-SETTINGS"

ALLOW = tuple(
    f"Bash(playbook {command} *)"
    for command in ("begin", "next", "report", "status", "show", "list", "probe", "prove")
)
"""Our commands that a model may run without permission; none of them decides anything."""

DENY = ("Edit(/.playbooks/sessions/**)",)
"""Protects the journal. `Edit` rules also apply to Write and to shell redirections."""

_RULES = {"allow": ALLOW, "deny": DENY}


def read(data: bytes, source: str = FILE) -> JsonText:
    """The settings in `data`, which is empty if there is no file.

    CheckError PB-CHECK-SETTINGS, with the place, if they are not JSON.
    """
    return JsonText(data or b"{}\n", source, _CODE)


def merged(data: bytes) -> bytes:
    """The settings with our entries and rules added; everything else is kept.

    An entry that another version wrote is replaced in its place; missing rules and entries are
    appended. CheckError PB-CHECK-SETTINGS, with the place, if `data` is not JSON or if a list or
    an object is expected and something else is there.
    """
    settings = read(data)
    for kind, rules in _RULES.items():
        for rule in rules:
            present = settings.get("permissions", kind)
            if not isinstance(present, list) or rule not in present:
                settings = settings.append(("permissions", kind), rule)
    for event in [*HOOKS, *_events(settings)]:
        settings = _with_entry(settings, event)
    return settings.encode()


def _with_entry(settings: JsonText, event: str) -> JsonText:
    """The settings with exactly one entry of ours at that event, or none if it needs none."""
    matcher, wanted = {**HOOKS, **OPTIONAL}.get(event, (None, {}))
    ours = list(_ours(settings, event))
    right = [each for each in ours if _matcher(settings, event, each[0]) == matcher][:1]
    for group, entry in reversed(ours):
        if (group, entry) not in right:
            settings = _without(settings, event, group, entry)
    if right:
        ((group, entry),) = _ours(settings, event)
        path = ("hooks", event, group, "hooks", entry)
        return settings if settings.get(*path) == wanted else settings.replace(path, wanted)
    if event not in HOOKS:
        return settings
    named = {"matcher": matcher} if matcher else {}
    return settings.append(("hooks", event), {**named, "hooks": [wanted]})


def _without(settings: JsonText, event: str, group: int, entry: int) -> JsonText:
    alone = len(_items(settings.get("hooks", event, group, "hooks"))) == 1
    within = () if alone else ("hooks", entry)
    return settings.remove(("hooks", event, group, *within))


def lacking(data: bytes, source: str = FILE) -> tuple[str, ...]:
    """Which entries and rules of ours are missing or altered, a few words each.

    CheckError, with the place, if the settings are not JSON.
    """
    settings = read(data, source)
    entries = [event for event in HOOKS if not _is_current(settings, event)]
    rules = [
        f"permissions.{kind} {rule}"
        for kind, wanted in _RULES.items()
        for rule in wanted
        if rule not in _items(settings.get("permissions", kind))
    ]
    return (*(f"hooks.{event}" for event in entries), *rules)


def holds_ours(data: bytes) -> bool:
    """Whether any hook entry in these settings is ours. CheckError if they are not JSON."""
    settings = read(data)
    return any(True for event in HOOKS for _ in _ours(settings, event))


def disables_hooks(data: bytes, source: str) -> bool:
    """Whether these settings, of any scope, disable all hooks."""
    return read(data, source).get("disableAllHooks") is True


def command_of(data: bytes, event: str) -> str:
    """The shell lines of our entry at that event; empty if there is none."""
    settings = read(data)
    for group, entry in _ours(settings, event):
        return str(settings.get("hooks", event, group, "hooks", entry, "command"))
    return ""


# ── reading ─────────────────────────────────────────────────────────────────────────────────


def _is_current(settings: JsonText, event: str) -> bool:
    matcher, wanted = HOOKS[event]
    return any(
        _matcher(settings, event, group) == matcher
        and settings.get("hooks", event, group, "hooks", entry) == wanted
        for group, entry in _ours(settings, event)
    )


def _ours(settings: JsonText, event: str) -> Iterator[tuple[int, int]]:
    """The positions of our entries at that event: the group, and the entry in it."""
    for group, holder in enumerate(_items(settings.get("hooks", event))):
        entries = holder.get("hooks") if isinstance(holder, dict) else None
        for number, entry in enumerate(_items(entries)):
            command = entry.get("command") if isinstance(entry, dict) else None
            if isinstance(command, str) and command.startswith(MARK):
                yield group, number


def _matcher(settings: JsonText, event: str, group: int) -> object:
    return settings.get("hooks", event, group, "matcher") or ""


def _events(settings: JsonText) -> list[str]:
    """The events with hooks other than those of `HOOKS`."""
    hooks = settings.get("hooks")
    return [event for event in hooks if event not in HOOKS] if isinstance(hooks, dict) else []


def _items(data: object) -> list[object]:
    return data if isinstance(data, list) else []
