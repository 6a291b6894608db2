"""The permissions in the client's settings: allowed without a question, and denied to a playbook.

A deny rule of any scope beats whatever we or a hook allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.errors import CheckError, PlaybookError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.model import SLASH, Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.system.disk import files

_MANAGED: tuple[Path, ...] = (
    Path("/etc/claude-code"),
    Path("/Library/Application Support/ClaudeCode"),
)
"""Where an organisation keeps the settings that override all others."""
_BY_CONVERSATION = ("playbook next", "playbook next --wait")
_AGENT = "general-purpose"  # the type of a step's agent
_DENIED = "PB-CHECK-DENIED"

_EDITING = frozenset({"acceptEdits", "auto", "bypassPermissions"})
"""The permission modes in which workers edit without asking."""
_IN_FORCE = ("defaultMode", "allow")
_LARGEST = 1 << 20


def settings_files(root: Path, home: Path) -> tuple[Path, ...]:
    """The files that the client reads; later ones take precedence."""
    return (home / settings.FILE, *project_files(root), *_managed_files())


def project_files(root: Path) -> tuple[Path, ...]:
    """The settings of the project, those that are committed and those of this checkout."""
    return (root / settings.FILE, root / settings.LOCAL_FILE)


def _managed_files() -> Iterator[Path]:
    for folder in _MANAGED:
        yield folder / "managed-settings.json"
        yield from sorted(folder.glob("managed-settings.d/*.json"))


def content(file: Path) -> bytes:
    """The file's content; empty if there is none."""
    return files.content(file, limit=_LARGEST)


def in_force(root: Path, home: Path) -> tuple[str, list[str]]:
    """The permission mode, and the rules that allow something."""
    mode, allowed = "default", list[str]()
    for file in settings_files(root, home):
        read = settings.value(content(file), str(file), "permissions")
        own, rules = (read.get(key) if isinstance(read, dict) else None for key in _IN_FORCE)
        mode = own if isinstance(own, str) else mode
        allowed += [str(rule) for rule in rules] if isinstance(rules, list) else []
    return mode, allowed


def not_allowed(mode: str, allowed: list[str]) -> list[str]:
    """Which kinds of work need a person's permission: "edit", "shell command"."""
    missing = []
    if mode not in _EDITING and not any(rule.startswith(("Edit", "Write")) for rule in allowed):
        missing.append("edit")
    shell = [rule for rule in allowed if rule.startswith("Bash") and rule not in settings.ALLOW]
    if mode not in _EDITING - {"acceptEdits"} and not shell:
        missing.append("shell command")
    return missing


# ── what is denied ──────────────────────────────────────────────────────────────────────────


def hooks_disabled(root: Path, home: Path) -> str:
    """The setting that keeps our hooks from running, and its file; empty if none does."""
    managed = set(_managed_files())
    for file in settings_files(root, home):
        data = content(file)
        if settings.disables_hooks(data, str(file)):
            return f"`disableAllHooks` in {file}"
        if file in managed and settings.value(data, str(file), "allowManagedHooksOnly") is True:
            return f"`allowManagedHooksOnly` in {file}"
    return ""


def plugin_enabled(root: Path, home: Path) -> bool:
    """True if the settings enable our plugin, and the project has none of our hooks itself.

    What cannot be read enables nothing, for the client does not read it either.
    """
    enabled = False
    for file in settings_files(root, home):
        with suppress(PlaybookError):
            switch = settings.plugin_switch(content(file), str(file))
            enabled = enabled if switch is None else switch
    return enabled and not settings.holds_ours(content(root / settings.FILE))


def deny_rules(files: Iterable[Path]) -> tuple[tuple[str, Path], ...]:
    """The rules of these settings that deny something, and their files.

    None of a file that cannot be read: the client does not read it, and `doctor` says so.
    """
    return tuple((rule, file) for file in files for rule in _rules(file))


def denied(
    rules: Sequence[tuple[str, Path]], steps: Iterable[Step], *, conversation: bool
) -> Iterator[tuple[Step, str]]:
    """The steps that one of these rules keeps from working, and `Agent in FILE`.

    In a conversation, agents are started as tools, and run their command as one; a headless agent
    is a process that gets the command as its prompt, and needs the step's own `tools` alone.
    """
    for step in steps if rules else ():
        if step.autonomy is Autonomy.SKIP:
            continue
        needed = _needed(step, conversation=conversation)
        for rule, file in rules:
            if _denies(rule, needed):
                yield step, f"`{printable(rule)}` in {file}"


def require_allowed(
    playbooks: Iterable[Playbook], root: Path, *, conversation: bool, home: Path | None = None
) -> None:
    """CheckError PB-CHECK-DENIED if the settings keep a step of these playbooks from working."""
    rules = deny_rules(settings_files(root, home or Path.home()))
    for playbook in playbooks:
        for step, rule in denied(rules, playbook.steps, conversation=conversation):
            message = f"the client's settings deny what step {step.id} needs: {rule}"
            raise CheckError(_DENIED, message, where=playbook.name)


def _rules(file: Path) -> list[str]:
    try:
        rules = settings.value(content(file), str(file), "permissions", "deny")
    except PlaybookError:
        return []
    return [rule for rule in rules if isinstance(rule, str)] if isinstance(rules, list) else []


def _needed(step: Step, *, conversation: bool) -> Mapping[str, tuple[str, ...]]:
    own = {rule.partition("(")[0].strip(): ("",) for rule in step.tools or ()}
    if not conversation:
        return own
    if not step.by_client:
        return {"Bash": _BY_CONVERSATION}
    command = step.command.removeprefix("/").partition(" ")[0]
    skill = {"Skill": (command,), "Bash": ("",)} if step.namespace == SLASH else {}
    return {**own, **skill, "Agent": (_AGENT,)}


def _denies(rule: str, needed: Mapping[str, tuple[str, ...]]) -> bool:
    """`Task` is another name of `Agent`; `Bash(git:*)` means `Bash(git*)`."""
    tool, _, rest = rule.strip().partition("(")
    pattern = rest.removesuffix(")").strip().replace(":*", "*").removeprefix("/") or "*"
    called = needed.get("Agent" if tool == "Task" else tool, ())
    return any(fnmatchcase(each, pattern) for each in called)
