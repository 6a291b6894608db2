"""The client in isolation, started by `playbook claude`, and what is done for it outside.

Inside, our records can only be read. So the client's hooks, and the commands with which a model
drives a session without hooks, are carried out by the process that has started the client. What
comes from inside is believed as far as the kernel vouches for it.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from playbook_supervisor.agents.claude.headless import hosts
from playbook_supervisor.drivers.claude_code import settings as client_settings
from playbook_supervisor.errors import PlaybookError, PolicyError, StorageError
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.settings import isolation
from playbook_supervisor.project.settings.config import load
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.disk.files import ensure_folder, write_atomically
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.isolation import bubblewrap, profiles
from playbook_supervisor.system.isolation.profiles import Profile
from playbook_supervisor.system.isolation.sandbox import Sandbox
from playbook_supervisor.system.process import ancestry, leash_process
from playbook_supervisor.system.process.broker import Broker, Request, become
from playbook_supervisor.system.process.forwarding import VARIABLE

_CLIENT = "claude"
_SETTINGS = ".claude.json"
_PID, _PROJECT = "CLAUDE_PID", "CLAUDE_PROJECT_DIR"
_PREFIX = "CLAUDE_CODE_SHELL_PREFIX"
_TAKEN = frozenset(
    {
        *("AI_AGENT", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID"),
        *("CLAUDE_PLUGIN_ROOT", _PID, _PROJECT, "PLAYBOOK_SESSION"),
        *("COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TERM"),
    }
)
"""Variables that a caller inside may set: they lead to no program and to no file of ours."""
_FILES = ("--html", "--output")
"""Options that name a file: outside, it could be one that the caller cannot reach."""

_ONCE = (
    *("hasCompletedOnboarding", "lastOnboardingVersion", "theme", "oauthAccount"),
    "customApiKeyResponses",
)
"""What the client asks a person once, or learns when they log in. It is kept if it is new."""


def start(
    words: Sequence[str],
    cwd: Path,
    *,
    carry_out: Callable[[list[str]], int],
    warm: Callable[[], None],
    notice: Callable[[str], None],
) -> int:
    """Run the client with these arguments in this terminal; its exit status.

    `carry_out` runs a command of ours, and `warm` imports what that needs. `notice` is told why the
    client runs without isolation. StateError PB-STATE-NO-REPOSITORY, StorageError PB-IO-PROGRAM
    without a client, PolicyError PB-POLICY-ISOLATION if isolation is required and impossible.
    """
    if which(_CLIENT) is None:
        said = f"cannot start {_CLIENT!r}: it is not on PATH"
        raise StorageError("PB-IO-PROGRAM", said, guidance="Install Claude Code.")
    here = checkout.find(cwd)
    config = load(here.root)
    if missing := isolation.admit("", config):
        notice(missing)
    isolated = isolation.of_step(config, here.root, _written(here.root))
    if isolated is None:
        become([_CLIENT, *words])
    with TemporaryDirectory(prefix="playbook-", dir="/tmp") as folder:
        kept = Path(folder) / _SETTINGS
        door = Path(folder) / "broker"
        isolated = replace(isolated, profile=_of_client(isolated.profile, door, kept))
        for made in isolated.profile.made:  # what is not there cannot be protected
            ensure_folder(made)
        before = isolated.unprotected()
        broker = Broker(partial(_answer, here, isolated, before, carry_out), isolated.backend)
        broker.listen(door / "socket")
        _program(door / "playbook", "-m", "playbook_supervisor")  # what the hooks call
        env = {**os.environ, VARIABLE: str(door / "socket")}
        if isolated.backend == bubblewrap.NAME:
            # It takes from shells the power to trace the client, and so to speak in its name.
            env.setdefault(_PREFIX, _program(door / "shell", "-S", leash_process.__file__))
        with isolated.reaching(hosts(env)).opened() as running:
            status = broker.run(*running.command([_CLIENT, *words], cwd, env), warm)
        _keep_choices(kept, here.root)
        planted = _planted(here, isolated, before)
    if planted is not None:
        notice(f"{planted.message}\n{planted.guidance}")
    return status


def _written(root: Path) -> list[str]:
    """What the steps of the playbooks here are to write: which of them will run is not known."""
    with suppress(PlaybookError):
        known = [each.playbook for each in library.playbooks(root) if not each.problem]
        return [path for each in known for step in each.steps for path in isolation.written(step)]
    return []


def _of_client(profile: Profile, door: Path, kept: Path) -> Profile:
    """An agent's profile for the client, with the folder of the broker's socket. The client's own
    settings are a copy, of which little is kept."""
    door.mkdir()
    settings = profiles.home() / _SETTINGS
    write_atomically(kept, settings.read_bytes() if settings.is_file() else b"{}")
    ensure_folder(state := user_state.path(""))
    ensure_folder(nothing := door / "state")
    lent = [(door, door), (state, nothing)]  # the hooks run a script that lies there
    if not (users := profiles.home() / client_settings.FILE).exists():
        write_atomically(empty := door / "settings.json", b"{}")
        lent.append((users, empty))  # so that nothing inside makes it
    for name in profiles.CLIENT_STATE:
        if not Path(name).suffix:
            (profiles.home() / ".claude" / name).mkdir(parents=True, exist_ok=True)
    return replace(
        profile,
        copied=(),
        private=(*profile.private, (settings, kept)),
        lent=(*profile.lent, *lent),
    )


def _program(file: Path, *words: str) -> str:
    command = shlex.join([sys.executable, "-I", *words])
    text = f'#!/bin/sh\nexec {command} "$@"\n'
    write_atomically(file, os.fsencode(text), permissions=0o700)
    return str(file)


# ── what is done for programs inside ────────────────────────────────────────────────────────


def _answer(
    here: Checkout,
    isolated: Sandbox,
    before: Mapping[Path, str],
    carry_out: Callable[[list[str]], int],
    request: Request,
) -> int:
    """Carry out the request as its caller, at the root of the checkout: below, there may be a
    repository that an agent has made."""
    if planted := _planted(here, isolated, before):
        sys.stderr.write(f"playbook: {planted.message}\n{planted.guidance}\n")
        return 1
    os.chdir(here.root)
    environment = _environment(here, request.environment)
    os.environ.clear()
    os.environ.update(environment)
    argv = list(request.argv)
    if argv[0] == "hook":
        if request.sender == 0 or str(request.sender) != environment.get(_PID):
            sys.stderr.write("playbook hook: this input is not from Claude Code\n")
            return 1
    elif any(word.startswith(_FILES) for word in argv):
        sys.stderr.write(
            f"playbook {argv[0]}: {' and '.join(_FILES)} cannot be used in isolation\n"
        )
        return 1
    return carry_out(argv)


def _planted(here: Checkout, isolated: Sandbox, before: Mapping[Path, str]) -> PolicyError | None:
    settings = (here.root / client_settings.FILE, here.root / client_settings.LOCAL_FILE)
    kept = {file for file in settings if _object(file).keys() == {"permissions"}}
    return isolated.removed({path: link for path, link in before.items() if path not in kept})


def _environment(here: Checkout, given: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _TAKEN}
    kept |= {name: value for name, value in given.items() if name in _TAKEN}
    number = kept.pop(_PID, "")
    if number.isdecimal():
        kept[_PID] = str(ancestry.numbered_inside(int(number)))
    return {**kept, "CLAUDECODE": "1", _PROJECT: str(here.root)}


# ── what is kept of the client's own settings ───────────────────────────────────────────────


def _keep_choices(changed: Path, root: Path) -> None:
    """Keep what a person has answered once; nothing that names a program, and no changed value."""
    file = Path(os.path.realpath(profiles.home() / _SETTINGS))
    now, then = _object(file), _object(changed)
    kept = {name: then[name] for name in _ONCE if name in then and name not in now}
    if sys.stdin.isatty() and _trusts(then, root) and not _trusts(now, root):
        projects = now.get("projects")
        known = projects if isinstance(projects, dict) else {}
        project = {**known.get(str(root), {}), "hasTrustDialogAccepted": True}
        kept["projects"] = {**known, str(root): project}
    if kept:
        text = json.dumps({**now, **kept}, indent=2, ensure_ascii=False)
        write_atomically(file, text.encode(), permissions=0o600)


def _trusts(settings: Mapping[str, Any], root: Path) -> bool:
    with suppress(KeyError, TypeError):
        return settings["projects"][str(root)]["hasTrustDialogAccepted"] is True
    return False


def _object(file: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(file.read_bytes())
        return found if isinstance(found, dict) else {}
    return {}
