"""`playbook doctor`: does what is installed do what it is for? Tried, not concluded from versions.

Every finding that is not fine comes with its cure. Nothing is changed: hooks are fired in a scratch
folder, and at this repository only with an event that no session can be moved by.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.agents import registry
from playbook_supervisor.commands.install import updater
from playbook_supervisor.commands.install.installer import COMMANDS
from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.errors import CheckError, PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.vocabulary import Condition
from playbook_supervisor.project import config, library
from playbook_supervisor.project.install_record import read_installation
from playbook_supervisor.project.schema import read_playbook
from playbook_supervisor.records import Record
from playbook_supervisor.system import checkout
from playbook_supervisor.system.files import ensure_folder, read_bytes, write_atomically
from playbook_supervisor.system.processes import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from playbook_supervisor.system.processes import Completed

_PATIENCE = 30.0  # seconds for any one program
_EDITING = frozenset({"acceptEdits", "auto", "bypassPermissions"})
"""Modes of the client in which a worker's edits wait for nobody."""
_INSTALL = "Install it: uv tool install playbook-supervisor."


class Diagnosis(Record):
    """What was looked at, how it is, what was found, and how to mend or better it.

    `advice` works, but not as well as it could; `cure` is empty where all is fine.
    """

    name: str
    state: Literal["fine", "advice", "wrong"]
    found: str
    cure: str = ""


def examine(start: Path, *, home: Path) -> Iterator[Diagnosis]:
    """Look at the repository that the folder `start` lies in, in the order in which one mends.

    `home` is the person's, where the client keeps settings, too. StateError
    PB-STATE-NO-REPOSITORY outside of a repository.
    """
    here = checkout.find(start)
    yield _git(here.root)
    yield Diagnosis("python", "fine", f"{sys.version.partition(' ')[0]}, {sys.executable}")
    yield _program(here.root)
    yield from _each("commands", _commands, here)
    yield from _each("files", _files, here)
    yield from _each("hooks", _hooks, here, home)
    yield from _each("bound", _bound, here)
    yield from _each("walking away", _walking_away, here, home)
    yield from _each("headless", _headless, here, home)
    yield from _notify(here)
    yield from _each("gh", _gh, here)
    yield _client(here.root)


def _each(
    name: str, look: Callable[..., Iterator[Diagnosis]], *places: checkout.Checkout | Path
) -> Iterator[Diagnosis]:
    """What `look` finds; a file that cannot be read is a finding, too."""
    try:
        yield from look(*places)
    except PlaybookError as error:
        place = f"{error.where}: " if isinstance(error, CheckError) else ""
        yield Diagnosis(name, "wrong", place + error.message, error.guidance)


# ── programs ────────────────────────────────────────────────────────────────────────────────


def _git(root: Path) -> Diagnosis:
    done = _asked(root, "git", "--version")
    if done is None or done.returncode:
        return Diagnosis("git", "wrong", "does not run", "Install git, or put it on PATH.")
    return Diagnosis("git", "fine", first_line(done.stdout))


def _program(root: Path) -> Diagnosis:
    path = _which("playbook")
    done = _asked(root, path, "--version") if path else None
    if done is None:
        found = "is not on PATH; slash commands and hooks look for it there"
        folder = Path(sys.executable).parent
        return Diagnosis("playbook", "wrong", found, f"{_INSTALL} This one lies in {folder}.")
    said = first_line(done.stdout or done.stderr)
    if done.returncode or said != f"playbook {__version__}":
        found = f"{path} says {said or 'nothing'!r}, and this is playbook {__version__}"
        return Diagnosis("playbook", "wrong", found, "Upgrade that one, or take it off PATH.")
    return Diagnosis("playbook", "fine", f"{__version__}, {path}")


def _gh(here: checkout.Checkout) -> Iterator[Diagnosis]:
    wanting = [each.name for each in library.playbooks(here.root) if _wants_gh(each)]
    if not wanting:
        return
    done = _asked(here.root, "gh", "auth", "status")
    why = f"{', '.join(wanting)} looks for a pull request"
    if done is None:
        yield Diagnosis("gh", "wrong", f"does not run, and {why}", "Install GitHub's gh.")
    elif done.returncode:
        said = first_line(done.stderr or done.stdout)
        yield Diagnosis("gh", "wrong", f"{said} ({why})", "Run `gh auth login`.")
    else:
        yield Diagnosis("gh", "fine", "runs, and is logged in")


def _wants_gh(shelved: library.PlaybookFile) -> bool:
    if shelved.problem:
        return False
    playbook = read_playbook(read_bytes(shelved.file), shelved.file.name)
    return any(
        Condition.PR_CREATED in (*step.preconditions, *step.postconditions)
        for step in playbook.steps
    )


def _client(root: Path) -> Diagnosis:
    path = _which("claude")
    done = _asked(root, path, "--version") if path else None
    if done is None or done.returncode:
        found = "Claude Code does not run from here"
        cure = "Install it, or say in .playbooks/config.yaml which `agent` `playbook run` calls."
        return Diagnosis("claude", "advice", found, cure)
    return Diagnosis("claude", "fine", first_line(done.stdout))


def _which(name: str) -> str | None:
    import shutil

    return shutil.which(name)


def _asked(root: Path, *argv: str) -> Completed | None:
    """What a program says; None where it cannot be started, or says nothing in time."""
    try:
        done = run(argv, cwd=root, timeout=_PATIENCE)
    except PlaybookError:
        return None
    return None if done.timed_out else done


# ── what is installed here ──────────────────────────────────────────────────────────────────


def _commands(here: checkout.Checkout) -> Iterator[Diagnosis]:
    if not read_installation(here.root).version:
        yield Diagnosis("commands", "wrong", "nothing is installed here", "Run `playbook init`.")
        return
    files = [f".claude/commands/{name}.md" for name in COMMANDS]
    gone = [file for file in files if not (here.root / file).is_file()]
    if gone:
        cure = "Take their lines out of .playbooks/install.yaml, then run `playbook init`."
        yield Diagnosis("commands", "advice", f"deleted here: {', '.join(gone)}", cure)
    else:
        yield Diagnosis("commands", "fine", f"/{COMMANDS[0]} and {len(COMMANDS) - 1} more")


def _files(here: checkout.Checkout) -> Iterator[Diagnosis]:
    if not read_installation(here.root).version:
        return
    old = [change.path for change in updater.plan(here.root).changes]
    if old:
        found = f"out of date: {', '.join(old)}"
        yield Diagnosis("files", "advice", found, "Run `playbook update`; edits of yours stay.")
    else:
        yield Diagnosis("files", "fine", f"as playbook {__version__} has them, or yours")


def _hooks(here: checkout.Checkout, home: Path) -> Iterator[Diagnosis]:
    if read_installation(here.root).no_hooks:
        found = "left out (--no-hooks): a model is asked to follow the playbook, not held to it"
        yield Diagnosis("hooks", "advice", found, "`playbook init --hooks` installs them.")
        return
    data = _read(here.root / settings.FILE)
    if missing := settings.lacking(data):
        found = f"missing or altered in {settings.FILE}: {', '.join(missing)}"
        yield Diagnosis("hooks", "wrong", found, "Run `playbook init`.")
        return
    for file in _settings_files(here.root, home):
        if settings.disables_hooks(_read(file), str(file)):
            cure = f"Take `disableAllHooks` out of {file}."
            yield Diagnosis("hooks", "wrong", "every hook is switched off", cure)
            return
    if trouble := _tried(here.root, data):
        marker = here.git_dir / settings.MARKER
        way_out = f" Or remove {marker}, to let go of its session." if marker.is_file() else ""
        yield Diagnosis("hooks", "wrong", trouble, f"Mend what is named.{way_out}")
    else:
        yield Diagnosis(
            "hooks", "fine", f"{len(settings.HOOKS)} events; idle, holding and answering"
        )


def _tried(root: Path, data: bytes) -> str:
    """What the hooks that stand there do wrong; empty where they do what they are for."""
    import tempfile

    holding = settings.command_of(data, "PreToolUse")
    with tempfile.TemporaryDirectory(prefix="playbook-doctor-") as scratch:
        folder = Path(scratch)
        idle = _fired(holding, folder, {"hook_event_name": "PreToolUse"})
        if idle.returncode or idle.stdout:
            return f"no session is bound, and a hook does something: {_said(idle)}"
        marker = folder / ".git" / settings.MARKER
        ensure_folder(marker.parent)
        write_atomically(marker, b"/nowhere/playbook\nnone\nnone\n", durable=False)
        lost = _fired(holding, folder, {"hook_event_name": "PreToolUse"}, path="/nowhere")
        if lost.returncode != 2:
            return f"a session is bound, its program is gone, and a tool may run: {_said(lost)}"
    event = {
        "hook_event_name": "UserPromptExpansion",
        "expansion_type": "slash_command",
        "command_name": "playbook.status",
        "command_args": "",
        "prompt": "/playbook.status",
        "session_id": "doctor",
        "cwd": str(root),
    }
    answered = _fired(settings.command_of(data, "UserPromptExpansion"), root, event)
    failed = answered.returncode or answered.stdout  # to that command there is no reply
    return f"the program does not answer its hook: {_said(answered)}" if failed else ""


def _fired(command: str, root: Path, event: dict[str, str], path: str | None = None) -> Completed:
    env = {**os.environ, "CLAUDE_PROJECT_DIR": str(root)}
    if path is not None:
        env["PATH"] = path
    argv = [_which("sh") or "/bin/sh", "-c", command]
    return run(argv, cwd=root, env=env, stdin=json.dumps(event).encode(), timeout=_PATIENCE)


def _said(done: Completed) -> str:
    refused = done.stdout.startswith('{"decision"')
    said = json.loads(done.stdout)["reason"] if refused else done.stderr or done.stdout
    return first_line(said) or f"exit status {done.returncode}"


def _bound(here: checkout.Checkout) -> Iterator[Diagnosis]:
    marker = here.git_dir / settings.MARKER
    lines = _read(marker).decode("utf-8", "replace").splitlines()
    if not lines:
        return
    program, session = lines[0], first_line(lines[1] if len(lines) > 1 else "")
    if os.access(program, os.X_OK) or _which("playbook"):
        yield Diagnosis("bound", "fine", f"session {session} is bound to a client here")
        return
    found = f"session {session} is bound to a client here, and {first_line(program)} is gone"
    yield Diagnosis("bound", "wrong", found, f"{_INSTALL} Or remove {marker}, to let go of it.")


def _walking_away(here: checkout.Checkout, home: Path) -> Iterator[Diagnosis]:
    """Whether a step can do its work while nobody is there to be asked."""
    mode, allowed = _permissions(here.root, home)
    waits = _wanting(mode, allowed)
    if not waits:
        yield Diagnosis("walking away", "fine", f"permission mode {mode}, {len(allowed)} rules")
        return
    found = (
        f"Claude Code asks you at a step's first {' and first '.join(waits)}, "
        "and the playbook stands still until you answer"
    )
    cure = (
        f'Allow beforehand what your commands need, in {settings.LOCAL_FILE}: {{"permissions": '
        '{"defaultMode": "acceptEdits", "allow": ["Bash(git commit *)"]}}, '
        "with a rule for each program that they run."
    )
    yield Diagnosis("walking away", "advice", found, cure)


def _headless(here: checkout.Checkout, home: Path) -> Iterator[Diagnosis]:
    """Whether a step that `playbook run` gives to Claude Code can do its work: it asks nobody."""
    kept = config.load(here.root)
    if not registry.is_default(kept.agent):
        yield Diagnosis("headless", "fine", f"`playbook run` calls the agent {kept.agent}")
        return
    mode = kept.claude.permission_mode
    allowed = [*kept.claude.allowed_tools, *_permissions(here.root, home)[1]]
    if not (denied := _wanting(mode, allowed)):
        yield Diagnosis("headless", "fine", f"permission mode {mode}, {len(allowed)} rules")
        return
    found = f"with `playbook run` a worker's every {' and every '.join(denied)} is denied"
    cure = (
        f"In {config.FILE}: agents: {{claude: {{permission_mode: acceptEdits, allowed_tools: "
        '["Bash(git commit *)"]}}, with a rule for each program that your commands run.'
    )
    yield Diagnosis("headless", "advice", found, cure)


def _notify(here: checkout.Checkout) -> Iterator[Diagnosis]:
    """Whether the program that calls people can be started; it is not: it would call somebody."""
    try:
        argv = config.load(here.root).notify
    except PlaybookError:  # which has been found before
        return
    if not argv:
        return
    program = argv[0] if "/" not in argv[0] else str(here.root / argv[0])
    if path := _which(program):
        yield Diagnosis("notify", "fine", f"calls {first_line(path)}")
        return
    found = f"{first_line(argv[0])} is no program that runs here: nobody is called to a gate"
    cure = f"Install it, make it executable, or correct `notify` in {config.FILE}."
    yield Diagnosis("notify", "wrong", found, cure)


def _wanting(mode: str, allowed: list[str]) -> list[str]:
    """What a worker may not do of itself."""
    wanting = []
    if mode not in _EDITING and not any(rule.startswith(("Edit", "Write")) for rule in allowed):
        wanting.append("edit")
    shell = [rule for rule in allowed if rule.startswith("Bash") and rule not in settings.ALLOW]
    if mode not in _EDITING - {"acceptEdits"} and not shell:
        wanting.append("command in a shell")
    return wanting


def _permissions(root: Path, home: Path) -> tuple[str, list[str]]:
    """The client's mode and the rules that allow something, from all settings that it reads."""
    mode, allowed = "default", list[str]()
    for file in _settings_files(root, home):
        kept = settings.read(_read(file), str(file))
        said, rules = kept.get("permissions", "defaultMode"), kept.get("permissions", "allow")
        mode = said if isinstance(said, str) else mode
        allowed += [str(rule) for rule in rules] if isinstance(rules, list) else []
    return mode, allowed


def _settings_files(root: Path, home: Path) -> tuple[Path, ...]:
    """Those that the client reads, the one that has the last word last."""
    return (home / settings.FILE, root / settings.FILE, root / settings.LOCAL_FILE)


def _read(file: Path) -> bytes:
    try:
        return read_bytes(file, limit=1 << 20)
    except FileNotFoundError:
        return b""
