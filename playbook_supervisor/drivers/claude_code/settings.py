"""Our hook entries and permission rules in `.claude/settings.json`.

They are merged into what is there, whose order and indentation stay. A hook is a few inline lines
of shell, because a script in the repository could be emptied unnoticed. Without a bound session
they end at once, and no process is started. With one they call the program; also if only the user's
state folder still knows of it, because the git directory was moved away.

If the program does not answer (it was uninstalled, for example), a person must still be able to
work: their words pass, and so do the tools of the turn that they begin. The tools of the playbook's
own turn are refused. `/playbook.pause` is then carried out here. A file beside the marker holds
which client was told, and whether its turn is a person's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from playbook_supervisor.drivers.claude_code.marker import CLIENTS, GOALS, MARK, MARKER
from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats import strict_yaml
from playbook_supervisor.formats.located import yaml_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.formats.located import Document

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

# ── the lines of shell ──────────────────────────────────────────────────────────────────────

_SILENT = "playbook does not answer here: it is not installed, not on PATH, or broken."
_INSTALL = "install it again (uv tool install playbook-supervisor)"
_TOLD = (
    "playbook does not answer here, so nothing supervises its session: "
    f"{_INSTALL}, or type /playbook.pause."
)
_REFUSED = (
    f"{_SILENT} The turn of the playbook may use no tool. A person can {_INSTALL}, type "
    "/playbook.pause, or send a message, after which tools may be used."
)
_PAUSED = (
    "The session is paused: its hooks do nothing any more. To continue it, "
    f"{_INSTALL} and type /playbook.resume."
)
_NOT_CARRIED_OUT = (
    f"{_SILENT} Install it (uv tool install playbook-supervisor), then type the command again. "
    "To release a session that is bound here, type /playbook.pause."
)


def _deny(event: str) -> dict[str, object]:
    permission = {"permissionDecision": "deny", "permissionDecisionReason": _REFUSED}
    return {"hookSpecificOutput": {"hookEventName": event, **permission}}


def _block(reason: str) -> dict[str, object]:
    return {"decision": "block", "reason": reason}


def _print(document: dict[str, object]) -> str:
    """JSON and exit status 0, because the client shows all lines of a hook that exits with 2."""
    return f"echo '{json.dumps(document)}'"


_FIND = f"""\
{MARK} d=${{CLAUDE_PROJECT_DIR:-.}}; g=$d/.git; l=; p=; t=; j=
if [ -f "$g" ]; then IFS= read -r l <"$g"; l=${{l#gitdir: }}
case $l in /*) g=$l;; *) g=$d/$l;; esac; fi
case $XDG_STATE_HOME in /*) s=$XDG_STATE_HOME;; *) s=$HOME/.local/state;; esac
c=${{CLAUDE_PID:-$PPID}}; s=$s/{CLIENTS}/$c; b=$g/{MARKER}
[ -f "$b" ] || b=$s; f=$b.told
"""
"""Looks in the git directory, and then for the client in the user's state folder."""
_OR_A_GOAL = f"""\
[ -f "$b" ] || {{ b=${{s%{CLIENTS}/*}}{GOALS}/$c; f=$b.told; }}
"""
# An empty file runs as a script that does nothing, and would let everything pass.
_PROGRAM = """[ -x "$p" ] || p=playbook; [ -s "$p" ] || [ "$p" = playbook ] || p=\n"""
_IF_BOUND = f"""\
[ -f "$b" ] || exit 0
IFS= read -r p <"$b"; {_PROGRAM}"""
_ALWAYS = f"""\
[ -f "$b" ] && IFS= read -r p <"$b"; {_PROGRAM}"""
_CALL = """\
command -v "$p" >/dev/null && o=$("$p" hook) && {
printf %s "$o"; [ ! -s "$f" ] || printf '' >"$f"; exit 0; }
"""

# The rest runs only if the program has failed. It has then not read the event.

_WHOM = """\
[ ! -f "$f" ] || IFS= read -r t <"$f"
"""
_READ = """\
IFS= read -r j
"""
_PAUSE = f"""\
case $j in *'"prompt":"/playbook.pause'*) [ ! -f "$b" ] || {{
rm -f "$b" "$s" "$s.turn"; {_print(_block(_PAUSED))}; exit 0; }};; esac
"""
_LEAVE_COMMANDS = """\
case $j in *'"prompt":"/playbook.'*) exit 0;; esac
"""
_TELL = f"""\
case $t in "$c"|"$c person") ;; *) {_print({"systemMessage": _TOLD})}
echo "$c" 2>/dev/null >"$f";; esac
"""
_LEAVE_WORKERS = """\
case $j in *'"agent_id":'*) exit 0;; esac
"""
"""The client shows people nothing that a hook says to a subagent."""
_PERSON = """\
case $j in *'"prompt":"<'*) ;; ?*) c="$c person";; *) [ "$t" != "$c person" ] || c=$t;; esac
"""
_REMEMBER = """\
echo "$c" 2>/dev/null >"$f"
"""


def _unless_a_person(document: dict[str, object]) -> str:
    return f"""[ "$t" = "$c person" ] || {_print(document)}\n"""


_TIMEOUT = 30  # seconds
_CHECKING = 7_200  # seconds: the checks of a goal have bounds of their own


def _entry(*lines: str, closed: bool = False, timeout: int = _TIMEOUT) -> dict[str, object]:
    """A hook. `closed`: one that is killed, or that takes too long, refuses."""
    hook = {"type": "command", "command": f"{''.join(lines)}exit 0", "timeout": timeout}
    return {**hook, "onFailure": "block"} if closed else hook


_AGENTS = "Agent|Task|Skill|AskUserQuestion"
_BOUND = (_FIND, _IF_BOUND, _CALL)
_TYPED = _entry(
    *(_FIND, _ALWAYS, _CALL, _READ, _PAUSE, f"{_print(_block(_NOT_CARRIED_OUT))}\n"), closed=True
)
_PROMPT = _entry(*_BOUND, _WHOM, _READ, _PAUSE, _LEAVE_COMMANDS, _TELL, _PERSON, _REMEMBER)
_TOOL, _SHELL = (
    _entry(*_BOUND, _WHOM, _unless_a_person(_deny(event)), closed=True)
    for event in ("PreToolUse", "PreSkillShellCommand")
)
_CHANGE = _entry(*_BOUND, _WHOM, _unless_a_person(_block(_REFUSED)), closed=True)
_TELLER = _entry(*_BOUND, _WHOM, _READ, _LEAVE_WORKERS, _TELL)
_STOP = _entry(
    *(_FIND, _OR_A_GOAL, _IF_BOUND, _CALL, _WHOM, _READ, _LEAVE_WORKERS, _TELL), timeout=_CHECKING
)
_WITNESS = _entry(*_BOUND)

HOOKS: dict[str, tuple[str, dict[str, object]]] = {
    "UserPromptExpansion": (r"^playbook\.", _TYPED),
    "UserPromptSubmit": ("", _PROMPT),
    "PreToolUse": ("*", _TOOL),
    "PostToolUse": (_AGENTS, _TELLER),
    "PostToolUseFailure": (_AGENTS, _WITNESS),
    "PostToolBatch": ("", _WITNESS),
    "PermissionRequest": ("*", _WITNESS),
    "Stop": ("", _STOP),
    "StopFailure": ("", _WITNESS),
    "SubagentStart": ("", _WITNESS),
    "SubagentStop": ("", _WITNESS),
    "SessionStart": ("", _TELLER),
    "SessionEnd": ("", _WITNESS),
    "ConfigChange": ("", _CHANGE),
}
"""Event → the matcher, possibly empty, and the entry."""

OPTIONAL: dict[str, tuple[str, dict[str, object]]] = {"PreSkillShellCommand": ("*", _SHELL)}
"""The same for events that are kept up to date where a person has added them.

Terminals of clients before 2.1.332 warn of an event that they do not know, at every start.
"""


# ── the settings ────────────────────────────────────────────────────────────────────────────


def read(data: bytes, source: str = FILE) -> Settings:
    """The settings in `data`, empty if there is no file. CheckError PB-CHECK-SETTINGS."""
    return Settings(yaml_values(_document(data, source).data))


class Settings:
    """The settings of a file as plain data."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def get(self, *keys: str) -> Any:
        """The value under these keys; None if there is none."""
        value = self._data
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value


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


def merged(data: bytes) -> bytes:
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
    for event in HOOKS:
        _list(document, "hooks", event)
    hooks = Settings(document.data).get("hooks")
    for event in [*hooks]:
        _merge_entry(hooks, event)
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
    settings = read(data, source)
    hooks = settings.get("hooks")
    entries = [
        event
        for event, (matcher, wanted) in HOOKS.items()
        if not any(_matcher(group) == matcher and it == wanted for group, it in _ours(hooks, event))
    ]
    rules = [
        f"permissions.{kind} {rule}"
        for kind, wanted in _RULES.items()
        for rule in wanted
        if rule not in _items(settings.get("permissions", kind))
    ]
    return (*(f"hooks.{event}" for event in entries), *rules)


def holds_ours(data: bytes) -> bool:
    """True if any hook entry in these settings is ours. CheckError if they are not JSON."""
    hooks = read(data).get("hooks")
    return any(True for event in HOOKS for _ in _ours(hooks, event))


def disables_hooks(data: bytes, source: str) -> bool:
    """True if these settings, of any scope, disable all hooks."""
    return read(data, source).get("disableAllHooks") is True


def command_of(data: bytes, event: str) -> str:
    """The shell lines of our entry at that event; empty if there is none."""
    return next((str(entry["command"]) for _, entry in _ours(read(data).get("hooks"), event)), "")


def _ours(hooks: Any, event: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Our entries at that event, each with the group that it is in."""
    for group in _items(hooks.get(event) if isinstance(hooks, dict) else None):
        for entry in _items(group.get("hooks") if isinstance(group, dict) else None):
            command = entry.get("command") if isinstance(entry, dict) else None
            if isinstance(command, str) and command.startswith(MARK):
                yield group, entry


def _matcher(group: dict[str, Any]) -> object:
    return group.get("matcher") or ""


def _items(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []
