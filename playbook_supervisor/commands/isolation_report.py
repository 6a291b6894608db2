"""`playbook doctor --isolation`: what an agent can write, see and reach here, found by trials."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playbook_supervisor.commands import locate
from playbook_supervisor.project.settings import config, isolation
from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.isolation import probing, profiles, sandbox
from playbook_supervisor.system.isolation.probing import GONE, Trial

SWITCH_ON = f"To isolate agents, programs and checks, write `isolation: auto` to {config.FILE}."
_OLD_KERNEL = "Linux 6.12 keeps them away, or `network: proxy` or `none`."
_KEYS = tuple(name for name in profiles.HIDDEN if name != ".ssh")

State = Literal["fine", "allowed", "advice", "wrong"]


@dataclass(frozen=True, slots=True)
class Row:
    """What was tried, what is expected, and what was found. `allowed`: the settings say so;
    `advice`: it could be better on another machine."""

    what: str
    expected: str
    found: str
    state: State
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """`mode` and `network` of the settings; what isolates here, or the `problem` and its `cure`.

    The rows are those of `auto` if the mode is `none`; there are none where nothing can isolate.
    """

    mode: str
    network: str
    backend: str
    problem: str
    cure: str
    rows: tuple[Row, ...]

    @property
    def wrong(self) -> bool:
        impossible = self.mode == "required" and bool(self.problem)
        return impossible or any(row.state == "wrong" for row in self.rows)


def examine(cwd: Path | None = None) -> Report:
    """Try it in the checkout of `cwd`. StateError PB-STATE-NO-REPOSITORY outside of one;
    CheckError for the settings; StorageError PB-IO-PROGRAM if the probe cannot run."""
    here = checkout.find(cwd or locate.current_folder())
    defined = config.load(here.root)
    mode, network = defined.isolation.mode, defined.isolation.network
    problem, cure = sandbox.problem()
    if problem:
        return Report(mode, network, "", problem, cure, ())
    chosen = defined.isolated("auto") if mode == "none" else defined
    within = isolation.of_step(chosen, here.root)
    if within is None:
        raise AssertionError(mode)
    trials = [*_of_checkout(here), *_of_home(), *_of_machine(network)]
    wishes = (*defined.isolation.write, *defined.isolation.show)
    allowed = profiles.wished(here.root, wishes)
    found = probing.findings(within, here.root, trials)
    rows = tuple(_row(trial, word, allowed) for trial, word in zip(trials, found, strict=True))
    return Report(mode, network, within.backend, "", "", rows)


def _row(trial: Trial, found: str, allowed: tuple[Path, ...]) -> Row:
    def row(state: State, cure: str = "") -> Row:
        return Row(trial.what, trial.expected, found, state, cure)

    less = trial.expected == "read-only" and found in ("separate", "hidden")
    if less or found in (trial.expected, GONE):
        return row("fine")
    pairs = [(path, each) for path in trial.places for each in allowed]
    if any(path.is_relative_to(each) or each.is_relative_to(path) for path, each in pairs):
        return row("allowed")
    return row("advice", _OLD_KERNEL) if trial.kind == "abstract" else row("wrong")


# ── what is tried ───────────────────────────────────────────────────────────────────────────


def _of_checkout(here: checkout.Checkout) -> Iterator[Trial]:
    git = here.common_dir
    yield Trial("the checkout", "writable", places=(here.root,))
    yield Trial("git's objects and branches", "writable", places=(git / "objects", git / "refs"))
    settings = dict.fromkeys(folder / "config" for folder in (git, here.git_dir))
    yield Trial(".git/config", "read-only", places=tuple(settings))
    yield Trial(".git/hooks, .git/info", "read-only", places=(git / "hooks", git / "info"))
    local = dict.fromkeys(folder / "playbook" for folder in (git, here.git_dir))
    yield Trial(".git/playbook", "read-only", places=tuple(local))
    yield Trial(".playbooks", "read-only", places=(here.root / ".playbooks",))
    client = (".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".mcp.json")
    yield Trial("Claude Code's settings here", "read-only", places=_below(here.root, client))


def _of_home() -> Iterator[Trial]:
    home = profiles.home()
    yield Trial("new files in the home", "separate", "scratch", (home,))
    shells = (".bashrc", ".profile", ".bash_profile", ".zshrc", ".config/fish", ".local/bin")
    yield Trial("~/.bashrc and the like", "read-only", places=_below(home, shells))
    gits = (".gitconfig", ".config/git")
    yield Trial("~/.gitconfig", "read-only", places=_below(home, gits))
    client = ("settings.json", "CLAUDE.md", "commands", "agents", "skills", "plugins", "hooks")
    yield Trial("~/.claude/settings.json", "read-only", places=_below(home / ".claude", client))
    yield Trial("~/.claude.json", "separate", "scratch", (home / ".claude.json",))
    yield Trial("~/.ssh", "hidden", places=(home / ".ssh",))
    yield Trial("~/.aws, ~/.gnupg and other keys", "hidden", places=_below(home, _KEYS))
    yield Trial("clean rooms", "hidden", places=(user_state.cached(""),))
    own = (user_state.path(""), home / ".config/playbook/fleet")
    yield Trial("state and fleet of playbook", "hidden", places=own)
    yield Trial("caches", "separate", "scratch", _below(home, profiles.CACHES))


def _of_machine(network: str) -> Iterator[Trial]:
    yield Trial("/tmp", "separate", "scratch", profiles.TEMPORARY[:1])  # noqa: S108
    yield Trial("/etc, /usr", "read-only", places=(Path("/etc"), Path("/usr")))
    yield Trial("/proc/sys", "read-only", places=(Path("/proc/sys/kernel/core_pattern"),))
    yield Trial("root's powers", "none", "powers")
    yield Trial("processes outside", "not seen", "process")
    for what, places in _sockets().items():
        yield Trial(what, "hidden", "socket", tuple(Path(path) for path in places if path))
    yield Trial("sockets without a path", "not reached", "abstract")
    yield Trial("the network", network, "network")


def _sockets() -> dict[str, tuple[str, ...]]:
    given = os.environ.get
    runtime = given("XDG_RUNTIME_DIR", "") or f"/run/user/{os.getuid()}"
    bus = given("DBUS_SESSION_BUS_ADDRESS", "").partition("unix:path=")[2].partition(",")[0]
    tmux = given("TMUX", "").partition(",")[0]
    docker = given("DOCKER_HOST", "").partition("unix://")[2]
    return {
        "ssh-agent": (given("SSH_AUTH_SOCK", ""),),
        "docker, podman": (docker, "/run/docker.sock", f"{runtime}/podman/podman.sock"),
        "tmux": (tmux, f"/tmp/tmux-{os.getuid()}/default"),  # noqa: S108 - there it is
        "D-Bus": (bus, f"{runtime}/bus", "/run/dbus/system_bus_socket"),
    }


def _below(folder: Path, names: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(folder / name for name in names)
