"""The client in isolation, started by `playbook claude`, and what is done for it outside.

Inside, our records can only be read. So the client's hooks, and the commands with which a model
drives a session without hooks, are carried out by the process that has started the client. What
comes from inside is believed as far as the kernel vouches for it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from playbook_supervisor.errors import StorageError
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import write_atomically
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.isolation import profiles, sandbox
from playbook_supervisor.system.isolation.profiles import Profile, Wishes
from playbook_supervisor.system.isolation.sandbox import Sandbox
from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.broker import Broker, Request, become
from playbook_supervisor.system.process.forwarding import VARIABLE

_CLIENT = "claude"
_SETTINGS = ".claude.json"
_PID, _PROJECT = "CLAUDE_PID", "CLAUDE_PROJECT_DIR"
_TAKEN = frozenset(
    {
        *("AI_AGENT", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID"),
        *("CLAUDE_PLUGIN_ROOT", _PID, _PROJECT, "PLAYBOOK_SESSION"),
        *("COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TERM"),
    }
)
"""Variables that a caller inside may set: they lead to no program and to no file of ours."""
_READS = "--output"
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
    mode, wishes = _wanted(here)
    backend, why = sandbox.in_force(mode)
    if not backend:
        if why:
            notice(why)
        become([_CLIENT, *words])
    with TemporaryDirectory(prefix="playbook-", dir="/tmp") as folder:
        kept = Path(folder) / _SETTINGS
        isolated = Sandbox(_profile(here, wishes, Path(folder) / "broker", kept), backend)
        before = isolated.unprotected()
        broker = Broker(partial(_answer, here, carry_out))
        broker.listen(socket_of := Path(folder) / "broker/socket")
        env = {**os.environ, VARIABLE: str(socket_of)}
        status = broker.run(*isolated.command([_CLIENT, *words], cwd, env), warm)
        _keep_choices(kept, here.root)
    if planted := isolated.removed(before):
        notice(f"{planted.message}\n{planted.guidance}")
    return status


def _wanted(here: Checkout) -> tuple[str, Wishes]:
    del here
    return "auto", Wishes()


def _profile(here: Checkout, wishes: Wishes, broker: Path, kept: Path) -> Profile:
    """An agent's profile. The client's own settings are a copy, of which little is kept."""
    broker.mkdir()
    settings = profiles.home() / _SETTINGS
    kept.write_bytes(settings.read_bytes() if settings.is_file() else b"{}")
    for name in profiles.CLIENT_STATE:
        if not Path(name).suffix:
            (profiles.home() / ".claude" / name).mkdir(parents=True, exist_ok=True)
    profile = profiles.of_agent(here, wishes)
    return replace(
        profile,
        copied=(),
        private=(*profile.private, (settings, kept)),
        lent=(*profile.lent, (broker, broker)),
    )


# ── what is done for programs inside ────────────────────────────────────────────────────────


def _answer(here: Checkout, carry_out: Callable[[list[str]], int], request: Request) -> int:
    """Carry out the request as its caller, at the root of the checkout: below, there may be a
    repository that an agent has made."""
    os.chdir(here.root)
    environment = _environment(here, request.environment)
    os.environ.clear()
    os.environ.update(environment)
    argv = list(request.argv)
    if argv[0] == "hook":
        if request.sender != int(environment.get(_PID, "0")):
            sys.stderr.write("playbook hook: this input is not from Claude Code\n")
            return 1
    elif any(word.startswith(_READS) for word in argv):  # we could read what its caller cannot
        sys.stderr.write(f"playbook {argv[0]}: {_READS} cannot be used in isolation\n")
        return 1
    return carry_out(argv)


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
