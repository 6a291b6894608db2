"""Our hook entries and permission rules in `.claude/settings.json`.

They are merged without changing any other byte. A hook is a few inline lines of shell, because a
script in the repository could be emptied unnoticed. Without a bound session they end at once, and
no process is started. With one they call the program; also if only the user's state folder still
knows of it, because the git directory was moved away.

If the program does not answer (it was uninstalled, for example), a person must still be able to
work: their words pass, and so do the tools of the turn that they begin. The tools of the playbook's
own turn are refused. `/playbook.pause` is then carried out here. A file beside the marker holds
which client was told, and whether its turn is a person's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from playbook_supervisor.drivers.claude_code.marker import CLIENTS, MARK, MARKER
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


def _entry(*lines: str, closed: bool = False) -> dict[str, object]:
    """A hook. `closed`: one that is killed, or that takes too long, refuses."""
    hook = {"type": "command", "command": f"{''.join(lines)}exit 0", "timeout": _TIMEOUT}
    return {**hook, "onFailure": "block"} if closed else hook


_TIMEOUT = 30  # seconds
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
_WITNESS = _entry(*_BOUND)

HOOKS: dict[str, tuple[str, dict[str, object]]] = {
    "UserPromptExpansion": (r"^playbook\.", _TYPED),
    "UserPromptSubmit": ("", _PROMPT),
    "PreToolUse": ("*", _TOOL),
    "PostToolUse": (_AGENTS, _TELLER),
    "PostToolUseFailure": (_AGENTS, _WITNESS),
    "PostToolBatch": ("", _WITNESS),
    "PermissionRequest": ("*", _WITNESS),
    "Stop": ("", _TELLER),
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


def read(data: bytes, source: str = FILE) -> JsonText:
    """The settings in `data`, empty if there is no file. CheckError if it is not JSON."""
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
    """The entries and rules of ours that are missing or altered. CheckError if it is not JSON."""
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
