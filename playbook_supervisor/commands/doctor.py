"""`playbook doctor`: run what is installed and report what does not work, with its cure.

Nothing is changed: hooks run in a scratch folder, and in this repository only with an event that
changes no session.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import which
from typing import Literal

from playbook_supervisor import __version__
from playbook_supervisor.agents import registry
from playbook_supervisor.agents.claude.headless import TESTED
from playbook_supervisor.agents.profiles import Profile
from playbook_supervisor.agents.protocol import asks
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving.preflight import asks_forge, without_forge
from playbook_supervisor.commands.install import update
from playbook_supervisor.commands.install.shipped import COMMANDS, command_file
from playbook_supervisor.commands.install.survey import foreign_commands
from playbook_supervisor.commands.isolation_report import SWITCH_ON
from playbook_supervisor.drivers import url_notices
from playbook_supervisor.drivers.claude_code import (
    client_register,
    hook_script,
    permissions,
    settings,
)
from playbook_supervisor.drivers.claude_code.marker import MARKER, SCRIPT
from playbook_supervisor.drivers.step_kinds import Site, findings
from playbook_supervisor.errors import CODES, CheckError, PlaybookError
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.formats.versions import is_newer
from playbook_supervisor.kernel.model import SLASH
from playbook_supervisor.project.conditions.conditions import checks
from playbook_supervisor.project.install_record import read_installation
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.step_needs import running
from playbook_supervisor.project.settings import config
from playbook_supervisor.project.settings.checks import CLI
from playbook_supervisor.project.slash_commands import CommandIndex, index_of
from playbook_supervisor.sessions.store import session_changes
from playbook_supervisor.system.disk.files import ensure_folder, read_bytes, write_atomically
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.isolation import sandbox
from playbook_supervisor.system.process.processes import Completed, run

_TIMEOUT = 30.0  # seconds for each program that is run
_INSTALL = "Install it: uv tool install playbook-supervisor."
_NO_SHELL_LINES = "2.1.331"  # the last client without the event PreSkillShellCommand
_UNSEEN = "no hook of ours sees the shell lines in a command's text"


_UNASKED = {
    "nothing": "asks no one: a call that needs a permission is not put to you",
    "commands": "asks before commands alone: other calls are not put to you",
    "outside": "asks before what its sandbox forbids: other calls are not put to you",
}
"""By what an agent's profile says that it asks."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One check: its name, its state, what was found, and the cure (empty if fine).

    `advice` means that it works, but could work better.
    """

    name: str
    state: Literal["fine", "advice", "wrong"]
    found: str
    cure: str = ""


def examine(cwd: Path | None = None, *, home: Path | None = None) -> Iterator[Diagnosis]:
    """Check the repository of `cwd`, in the order in which problems are best fixed.

    `home` is the folder with the user's own client settings. StateError PB-STATE-NO-REPOSITORY
    outside of a repository.
    """
    here, home = checkout.find(cwd or locate.current_folder()), home or Path.home()
    yield _git(here.root)
    yield Diagnosis("python", "fine", f"{sys.version.partition(' ')[0]}, {sys.executable}")
    yield _program(here.root)
    yield from _checked("commands", _commands, here)
    yield from _checked("files", _files, here)
    yield from _checked("hooks", _hooks, here, home)
    yield from _checked("denied", _denied, here, home)
    yield from _checked("bound", _bound, here)
    yield from _checked("walking away", _walking_away, here, home)
    yield from _checked("headless", _headless, here, home)
    yield from _checked("isolation", _isolation, here)
    yield from _notify(here)
    yield from _checked("checks", _named_checks, here)
    yield from _checked("playbooks", _playbooks, here)
    yield from _checked("slash commands", _slash_commands, here)
    yield from _checked("sessions", _sessions, here)
    yield from _checked("forge", _forge, here)
    yield from _checked("claude", _client, here)
    yield from _checked("agents", _agents, here)


def _checked(
    name: str, check: Callable[..., Iterator[Diagnosis]], *folders: checkout.Checkout | Path
) -> Iterator[Diagnosis]:
    try:
        yield from check(*folders)
    except PlaybookError as error:
        where = f"{error.where}: " if isinstance(error, CheckError) else ""
        yield Diagnosis(name, "wrong", where + error.message, error.guidance)


# ── programs ────────────────────────────────────────────────────────────────────────────────


def _program_path(root: Path, program: str) -> str:
    return which(program if "/" not in program else str(root / program)) or ""


def _completed(root: Path, *argv: str) -> Completed | None:
    try:
        done = run(argv, cwd=root, timeout=_TIMEOUT)
    except PlaybookError:
        return None
    return None if done.timed_out else done


def _git(root: Path) -> Diagnosis:
    done = _completed(root, "git", "--version")
    if done is None or done.returncode:
        return Diagnosis("git", "wrong", "does not run", "Install git, or put it on PATH.")
    return Diagnosis("git", "fine", first_line(done.stdout))


def _program(root: Path) -> Diagnosis:
    path = which("playbook")
    done = _completed(root, path, "--version") if path else None
    if done is None:
        found = "not on PATH, where slash commands and hooks look for it"
        folder = Path(sys.executable).parent
        return Diagnosis("playbook", "wrong", found, f"{_INSTALL} The running one is in {folder}.")
    said = first_line(done.stdout or done.stderr)
    if done.returncode or said != f"playbook {__version__}":
        found = f"{path} reports {said or 'nothing'!r}, but this is playbook {__version__}"
        return Diagnosis("playbook", "wrong", found, "Upgrade it, or remove it from PATH.")
    return Diagnosis("playbook", "fine", f"{__version__}, {path}")


def _client(here: checkout.Checkout) -> Iterator[Diagnosis]:
    path = which("claude")
    if not path and not registry.is_default(config.load(here.root).agent):
        return
    done = _completed(here.root, path, "--version") if path else None
    if done is None or done.returncode:
        cure = "Install it, or set another `agent` in .playbooks/config.yaml."
        yield Diagnosis("claude", "advice", "Claude Code does not run from here", cure)
        return
    found = f"{first_line(done.stdout)}; tested with {' and '.join(TESTED)}"
    version = done.stdout.partition(" ")[0].strip()
    if is_newer(version, TESTED[-1]):
        yield Diagnosis("claude", "advice", found, f"If something is odd, use {TESTED[-1]}.")
    elif is_newer(version, _NO_SHELL_LINES) and _lacks_shell_lines(here.root):
        cure = "See PreSkillShellCommand in docs/claude-code.md."
        yield Diagnosis("claude", "advice", f"{found}; {_UNSEEN}", cure)
    else:
        yield Diagnosis("claude", "fine", found)


def _lacks_shell_lines(root: Path) -> bool:
    data = permissions.content(root / settings.FILE)
    return settings.holds_ours(data) and not any(
        settings.command_of(data, event) for event in settings.OPTIONAL
    )


def _agents(here: checkout.Checkout) -> Iterator[Diagnosis]:
    project, there = config.load(here.root), registry.on_this_machine()
    others = ", ".join(there) or "none"
    try:
        taken = registry.choose("", project, here.root)
    except PlaybookError as error:
        state: Literal["wrong", "advice"] = "wrong" if project.agent else "advice"
        found = f"{error.message}; known ones that are here: {others}"
        yield Diagnosis("agents", state, found, error.guidance)
        return
    ours = {project.agent or taken.name: taken}
    for name in project.agents:
        with suppress(PlaybookError):  # a run that needs it says why it cannot be used
            ours.setdefault(name, registry.choose(name, project, here.root))
    programs = {name: registry.profile_of(name, project) for name in ours}
    versions = [name + _version(here.root, each) for name, each in programs.items()]
    found = f"`playbook run` takes {versions[0]} if no other is named"
    found += f"; in the settings: {', '.join(versions[1:])}" if versions[1:] else ""
    found += f"; known ones that are here: {others}"
    unasked = [
        f"{name} {_UNASKED[profile.asks if profile else 'nothing']}"
        for name, profile in programs.items()
        if (profile.asks != "all" if profile else not asks(ours[name]))
    ]
    if unasked:
        found = "; ".join([found, *unasked])
        cure = "Isolate it or use another agent, if you want to be asked: see docs/agents.md."
        yield Diagnosis("agents", "advice", found, cure)
    else:
        yield Diagnosis("agents", "fine", found)


def _version(root: Path, profile: Profile | None) -> str:
    path = which(profile.program) if profile else ""
    if not path:
        return ""
    done = _completed(root, path, "--version")
    said = first_line(done.stdout or done.stderr, 60) if done and not done.returncode else ""
    return f" ({said or 'its version is not known'})"


# ── what is installed here ──────────────────────────────────────────────────────────────────


def _commands(here: checkout.Checkout) -> Iterator[Diagnosis]:
    foreign = [f"/{name}" for name in foreign_commands(here.root)]
    gone = [file for file in map(command_file, COMMANDS) if not (here.root / file).is_file()]
    if foreign:
        found = f"not ours, and may let a model supervise: {', '.join(foreign)}"
        cure = "`playbook init --replace` installs ours, and keeps the old files as *.old."
        yield Diagnosis("commands", "wrong", found, cure)
    elif not read_installation(here.root).version:
        yield Diagnosis("commands", "wrong", "not installed here", "Run `playbook init`.")
    elif gone:
        cure = f"`playbook init {' '.join(f'--restore {file}' for file in gone)}`"
        yield Diagnosis("commands", "advice", f"deleted here: {', '.join(gone)}", cure)
    else:
        yield Diagnosis("commands", "fine", f"/{COMMANDS[0]} and {len(COMMANDS) - 1} more")


def _files(here: checkout.Checkout) -> Iterator[Diagnosis]:
    if not read_installation(here.root).version:
        return
    old = [change.path for change in update.plan(here.root, shared=False).changes]
    if old:
        found = f"out of date: {', '.join(old)}"
        yield Diagnosis("files", "advice", found, "Run `playbook update`; it keeps your edits.")
    else:
        yield Diagnosis("files", "fine", f"from playbook {__version__}, or your own")


def _hooks(here: checkout.Checkout, home: Path) -> Iterator[Diagnosis]:
    if read_installation(here.root).no_hooks:
        found = (
            "not installed (--no-hooks): models are asked, but not forced, to follow the playbook"
        )
        yield Diagnosis("hooks", "advice", found, "`playbook init --hooks` installs them.")
        return
    plugin = permissions.plugin_enabled(here.root, home)
    data = permissions.content(here.root / settings.FILE)
    if not plugin and (missing := settings.lacking(data)):
        found = f"missing or changed in {settings.FILE}: {', '.join(missing)}"
        yield Diagnosis("hooks", "wrong", found, "Run `playbook init`.")
        return
    if not plugin and (changed := hook_script.problem(here.root)):
        yield Diagnosis("hooks", "wrong", changed, "Run `playbook update`, and commit the script.")
        return
    if disabled := permissions.hooks_disabled(here.root, home):
        yield Diagnosis("hooks", "wrong", "all hooks are disabled", f"Remove {disabled}.")
        return
    if plugin:
        yield Diagnosis("hooks", "fine", "your plugin of Claude Code brings them")
        return
    if problem := _problem_of_hooks(here.root, data):
        marker = here.git_dir / MARKER
        release = f" Or remove {marker} to release its session." if marker.is_file() else ""
        yield Diagnosis("hooks", "wrong", problem, f"Fix what is named.{release}")
    elif not client_register.can_register():
        found = "a session whose git directory is moved away would not be noticed"
        cure = "Make the user's state folder writable, $XDG_STATE_HOME or ~/.local/state."
        yield Diagnosis("hooks", "advice", found, cure)
    else:
        found = f"{len(settings.HOOKS)} events; they pass, block and answer as they should"
        yield Diagnosis("hooks", "fine", found)


def _bound(here: checkout.Checkout) -> Iterator[Diagnosis]:
    marker = here.git_dir / MARKER
    lines = permissions.content(marker).decode("utf-8", "replace").splitlines()
    if not lines:
        return
    program, session = lines[0], first_line(lines[1] if len(lines) > 1 else "")
    if os.access(program, os.X_OK) or which("playbook"):
        yield Diagnosis("bound", "fine", f"session {session} is bound to a client here")
        return
    found = f"session {session} is bound to a client here, but {first_line(program)} is gone"
    yield Diagnosis("bound", "wrong", found, f"{_INSTALL} Or remove {marker} to release it.")


def _denied(here: checkout.Checkout, home: Path) -> Iterator[Diagnosis]:
    found: dict[str, str] = {}
    rules = permissions.deny_rules(permissions.settings_files(here.root, home))
    for each in library.playbooks(here.root):
        steps = () if each.problem else each.playbook.steps
        for step, rule in permissions.denied(rules, steps, conversation=True):
            found.setdefault(rule, f"{rule} (step {step.id} of {each.name} needs it)")
    if found:
        cure = CODES["PB-CHECK-DENIED"]
        yield Diagnosis("denied", "wrong", "; ".join(found.values()), cure)


def _walking_away(here: checkout.Checkout, home: Path) -> Iterator[Diagnosis]:
    mode, allowed = permissions.in_force(here.root, home)
    asked = permissions.not_allowed(mode, allowed)
    if not asked:
        found = f"permission mode {mode}, {counted(len(allowed), 'rule')}"
        yield Diagnosis("walking away", "fine", found)
        return
    found = (
        f"Claude Code asks you before a step's first {' and first '.join(asked)}, "
        "and the playbook waits until you answer"
    )
    cure = (
        f'Allow in advance what your commands need, in {settings.LOCAL_FILE}: {{"permissions": '
        '{"defaultMode": "acceptEdits", "allow": ["Bash(git commit *)"]}}, '
        "with a rule for each program that they run."
    )
    yield Diagnosis("walking away", "advice", found, cure)


def _taken(project: config.Config, root: Path) -> str:
    if project.agent or which(registry.DEFAULT):
        return project.agent
    with suppress(PlaybookError):
        return registry.choose("", project, root).name
    return ""


def _headless(here: checkout.Checkout, home: Path) -> Iterator[Diagnosis]:
    project = config.load(here.root)
    if not registry.is_default(agent := _taken(project, here.root)):
        yield Diagnosis("headless", "fine", f"`playbook run` uses the agent {agent}")
        return
    mode = project.claude.permission_mode
    allowed = [*project.claude.allowed_tools, *permissions.in_force(here.root, home)[1]]
    if not (denied := permissions.not_allowed(mode, allowed)):
        found = f"permission mode {mode}, {counted(len(allowed), 'rule')}"
        yield Diagnosis("headless", "fine", found)
        return
    asks = project.permissions == "ask"
    fate = "becomes a gate, where you are asked" if asks else "is denied (`permissions: fail`)"
    found = f"under `playbook run`, every {' and every '.join(denied)} of a worker {fate}"
    cure = (
        f"In {config.FILE}: agents: {{claude: {{permission_mode: acceptEdits, allowed_tools: "
        '["Bash(git commit *)"]}}, with a rule for each program that your commands run.'
    )
    yield Diagnosis("headless", "advice", found, cure)


def _isolation(here: checkout.Checkout) -> Iterator[Diagnosis]:
    asked = config.load(here.root).isolation
    problem, cure = sandbox.problem()
    if asked.mode == "none":
        found = "none: agents, programs and checks can do all that you can"
        if problem:
            yield Diagnosis("isolation", "fine", found)
        else:
            yield Diagnosis("isolation", "advice", found, SWITCH_ON)
    elif problem:
        state: Literal["wrong", "advice"] = "wrong" if asked.mode == "required" else "advice"
        yield Diagnosis("isolation", state, f"{asked.mode}, but {problem}", cure)
    else:
        found = f"{asked.mode}, by {sandbox.backend()}; `playbook doctor --isolation` tries it"
        yield Diagnosis("isolation", "fine", found)


def _sessions(here: checkout.Checkout) -> Iterator[Diagnosis]:
    if found := session_changes.never_committed(here.root, config.load(here.root)):
        yield Diagnosis("sessions", "wrong", *found)


def _notify(here: checkout.Checkout) -> Iterator[Diagnosis]:
    try:
        defined = config.load(here.root)
    except PlaybookError:  # reported by another check
        return
    if defined.notifies_by_url:
        yield Diagnosis("notify", *url_notices.examined(defined, here.root))
    elif defined.notify and (path := _program_path(here.root, defined.notify[0])):
        yield Diagnosis("notify", "fine", f"runs {first_line(path)}")
    elif program := first_line("".join(defined.notify[:1])):
        found = f"{program} is not an executable program: gates cannot notify you"
        cure = f"Install it, make it executable, or correct `notify` in {config.FILE}."
        yield Diagnosis("notify", "wrong", found, cure)


# ── what playbooks need ─────────────────────────────────────────────────────────────────────


def _forge(here: checkout.Checkout) -> Iterator[Diagnosis]:
    steps = {
        f"{each.name}/{step.id}": step
        for each in library.playbooks(here.root)
        for _, step in (() if each.problem else running(each.playbook))
    }
    lacks = list(without_forge(steps, here.root))
    for lack in lacks:
        yield Diagnosis("forge", "wrong", lack.message, lack.guidance)
    if not lacks and any(map(asks_forge, steps.values())):
        yield Diagnosis("forge", "fine", "gh runs and is logged in")


def _named_checks(here: checkout.Checkout) -> Iterator[Diagnosis]:
    defined = config.load(here.root).checks
    named = {check: playbook for playbook, check in _demanded(here.root)}
    if not (defined or named):
        return
    problems = [
        f"{first_line(named[name])} asks for the check `{first_line(name)}`, which is not there"
        for name in sorted(named.keys() - defined.keys())
    ] + [
        f"{first_line(spec.argv[0])}, the program of the check `{name}`, is not found"
        for name, spec in defined.items()
        if not _program_path(here.root, spec.argv[0])
    ]
    if problems:
        cure = f"Correct `checks` in {config.FILE}, or install the program."
        yield Diagnosis("checks", "wrong", "; ".join(problems), cure)
    else:
        yield Diagnosis("checks", "fine", ", ".join(defined))


def _playbooks(here: checkout.Checkout) -> Iterator[Diagnosis]:
    site = Site(here.root, config.load(here.root))
    for each in library.playbooks(here.root):
        for one in findings(each.playbook, site) if not each.problem else ():
            step = each.playbook.steps[one.step].id if one.step is not None else ""
            where = f"{each.name}, step {step}" if step else each.name
            state: Literal["wrong", "advice"] = "wrong" if one.fatal else "advice"
            yield Diagnosis("playbooks", state, f"{where}: {one.error.message}", one.error.guidance)


def _slash_commands(here: checkout.Checkout) -> Iterator[Diagnosis]:
    project = config.load(here.root)
    agent = _taken(project, here.root)
    missing: dict[str, dict[str, str]] = {}

    @cache
    def commands_of(agent: str) -> CommandIndex | None:
        layout = registry.layout_of(agent, project, here.root)
        return index_of(here.root, home=Path.home(), layout=layout)

    for each in library.playbooks(here.root):
        for _, step in () if each.problem else running(each.playbook):
            index = commands_of(step.agent or agent) if step.namespace == SLASH else None
            if index and index.resolve(step.command) is None:
                said = f"{step.command} (for {each.name})"
                missing.setdefault(index.looked, {}).setdefault(step.command, said)
    if missing:
        found = "; ".join(
            f"{', '.join(lacking.values())}: not found {looked}"
            for looked, lacking in missing.items()
        )
        cure = "Install them for that agent, or use another one."
        yield Diagnosis("slash commands", "advice", found, cure)


def _demanded(root: Path) -> Iterator[tuple[str, str]]:
    for each in library.playbooks(root):
        for step in () if each.problem else each.playbook.steps:
            for check in checks(step.conditions):
                if "{{" not in check and check.partition(" ")[0] != CLI:
                    yield each.name, check


# ── firing the installed hooks, as the client does ───────────────────────────────────────────


def _problem_of_hooks(root: Path, data: bytes) -> str:
    """The fault of the installed hooks; empty if they pass, block and answer as they should.

    They run in a scratch folder, and in the repository with an event that changes no session.
    """
    guard = settings.command_of(data, "PreToolUse")
    with tempfile.TemporaryDirectory(prefix="playbook-doctor-") as scratch:
        folder = Path(scratch)
        ensure_folder((folder / SCRIPT).parent)
        write_atomically(folder / SCRIPT, read_bytes(root / SCRIPT), durable=False)
        idle = _fire(guard, folder, {"hook_event_name": "PreToolUse"})
        if idle.returncode or idle.stdout:
            return f"a hook interferes although no session is bound: {_output(idle)}"
        marker = folder / ".git" / MARKER
        ensure_folder(marker.parent)
        write_atomically(marker, b"/nowhere/playbook\nnone\nnone\n", durable=False)
        lost = _fire(guard, folder, {"hook_event_name": "PreToolUse"}, path="/nowhere")
        if '"deny"' not in lost.stdout:
            return f"a tool may run although a bound session's program is gone: {_output(lost)}"
    event = {
        "hook_event_name": "UserPromptExpansion",
        "expansion_type": "slash_command",
        "command_name": "help",  # none of ours: those need a client
        "command_args": "",
        "prompt": "/help",
        "session_id": "doctor",
        "cwd": str(root),
    }
    answered = _fire(settings.command_of(data, "UserPromptExpansion"), root, event)
    failed = answered.returncode or answered.stdout  # this command gets no reply
    return f"`playbook hook` fails: {_output(answered)}" if failed else ""


def _fire(command: str, root: Path, event: dict[str, str], path: str | None = None) -> Completed:
    env = {**os.environ, "CLAUDE_PROJECT_DIR": str(root), "CLAUDE_PID": "0"}  # of no client
    if path is not None:
        env["PATH"] = path
    argv = [which("sh") or "/bin/sh", "-c", command]
    return run(argv, cwd=root, env=env, stdin=json.dumps(event).encode(), timeout=_TIMEOUT)


def _output(done: Completed) -> str:
    refused = done.stdout.startswith('{"decision"')
    text = done.stderr or (json.loads(done.stdout)["reason"] if refused else done.stdout)
    return first_line(text) or f"exit status {done.returncode}"
