"""What a program in isolation may write, see and reach, as data; other modules enforce it.

The rule is that nothing may be written. A profile lists what may be, what is not even there, and
what stays protected inside of what may be written.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.disk.files import digest, read_bytes
from playbook_supervisor.system.git import clean_room, gitlinks
from playbook_supervisor.system.git.checkout import Checkout

Network = Literal["as_is", "proxy", "none"]

HIDDEN = (".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".pgpass", ".config/gcloud")
"""In the home: keys, and what leads to other machines. `gh` and git's own remain, to push."""

_PUSHING = (
    *(".git-credentials", ".git-credential-cache", ".netrc"),
    *(".config/gh", ".config/git/credentials"),
)
"""In the home: what `gh` and git keep for pushing. A worker of the fleet pushes itself, and what it
has may open other repositories, so the agents of its sessions do not see it."""

CACHES = (
    *(".cache", ".npm", ".yarn/berry", ".bun/install/cache", ".cargo/registry", ".cargo/git"),
    *("go/pkg", ".gradle/caches", ".m2/repository", ".nuget/packages", ".ivy2/cache"),
    *(".local/share/pnpm/store", ".bundle/cache"),
)
"""In the home: caches of package managers. What an agent puts there must not reach a check, nor
the person, so isolated programs have their own."""

BROWSERS = (".cache/ms-playwright", ".cache/puppeteer", ".cache/Cypress", ".cache/selenium")
"""In the home: what tests start. They lie among the caches, and are shown."""

CLIENT_STATE = (
    *("projects", "todos", "tasks", "plans", "sessions", "session-env", "shell-snapshots"),
    *("file-history", "paste-cache", "debug", "statsig", "telemetry", "history.jsonl"),
    *(".credentials.json", "cache", "backups", "teams", "ide"),
)
"""In `~/.claude`: what the client writes itself. Its settings, hooks, commands and plug-ins, which
a person's own conversations read, are not among it."""

_KEYS_OF_MACHINE = (
    *(Path("/etc/shadow"), Path("/etc/gshadow"), Path("/etc/shadow-"), Path("/etc/gshadow-")),
    *(Path("/etc/ssl/private"), Path("/etc/krb5.keytab"), Path("/etc/wireguard")),
)
_BINARIES = frozenset({"bin", ".bin"})
TEMPORARY = (Path("/tmp"), Path("/var/tmp"), Path("/run"))  # noqa: S108 - also sockets are there
_GIT = ("config", "config.worktree", "hooks", "info", "playbook", "commondir", "gitdir")
_MADE = ("hooks", "info")
_SNAPSHOTS = "playbook-snapshots"  # of a session of the fleet
_GIT_OBJECTS = ("objects/info/alternates", "rebase-merge/git-rebase-todo")
"""Also what an unfinished rebase is yet to do, which may be to run programs."""
_MODULE = ("config", "config.worktree", "hooks", "info", "commondir", "objects/info/alternates")
_CLIENT = (".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".mcp.json")
_PLAYBOOKS, _NEVER_WRITTEN = ".playbooks", ("sessions", "policies")
_FILES = (
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CONFIG_FILE"),
    *("NPM_CONFIG_USERCONFIG", "npm_config_userconfig"),
)
_ADDRESS = r"(?m)^\s*(?:push)?url\s*=\s*\"?((?:file://)?\.{0,2}/[^\"\n]+?)\"?\s*$"
_LARGEST = 1 << 20
_DROPPED = (
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "TMUX"),
    *("TMUX_PANE", "STY", "XDG_RUNTIME_DIR", "PLAYBOOK_FLEET"),
)
"""Variables that lead to sockets which are not there, or to the fleet's database."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a program may do; paths are absolute.

    `home` is the user's, `folder` the one where it works. What is made in a folder that is `opened`
    is gone afterwards. `writable` stays as it is, `protected` is read-only inside of it, and `made`
    are folders that are made, so that they can be protected. `hidden` is not there; `shown` is,
    read-only, although it lies in what is hidden. `private` and `lent` are pairs: a place, and the
    folder that stands there, which only the former may write. `copied` are files whose changes are
    dropped. `hosts` are those that `network: proxy` lets through.
    """

    home: Path
    folder: Path
    opened: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    made: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    private: tuple[tuple[Path, Path], ...] = ()
    lent: tuple[tuple[Path, Path], ...] = ()
    copied: tuple[Path, ...] = ()
    network: Network = "as_is"
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the settings add, as they write it: paths may begin with `~` or be relative to the
    checkout. `hosts` are `HOST` or `HOST:PORT`, with `*.` for all below one."""

    write: tuple[str, ...] = ()
    show: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    network: Network = "as_is"
    hosts: tuple[str, ...] = ()


def of_agent(here: Checkout, wishes: Wishes, outputs: Iterable[str] = ()) -> Profile:
    """The profile of an agent or of a program of a step, which works in the checkout.

    `outputs` are the paths that the step is to write; those below `.playbooks/` are not protected.
    """
    remotes, written = tuple(_local_remotes(here)), tuple(output_folders(here.root, outputs))
    protected = (
        *git_protected(here),
        *(remote / name for remote in remotes for name in (*_GIT, *_GIT_OBJECTS)),
        *(here.root / path for path in _CLIENT),
        *_programs_within(here.root),
    )
    return _with_wishes(
        Profile(
            home=home(),
            folder=here.root,
            opened=(home(), _client_folder()),
            writable=(
                *(here.root, here.common_dir, here.git_dir, *remotes),
                *written,
                *(_client_folder() / name for name in CLIENT_STATE),
            ),
            protected=(*protected, here.root / _PLAYBOOKS, Path(sys.prefix)),
            made=(*(here.common_dir / name for name in _MADE), *written),
            hidden=(*_hidden_in_home(here.root), *_keys_of_others(), *TEMPORARY),
            shown=(*_programs(), *_named_files(), *_borrowed_objects(here), *_in_home(BROWSERS)),
            private=tuple(_caches("agents", here)),
            copied=(home() / ".claude.json", _client_folder() / ".claude.json"),
        ),
        here,
        wishes,
    )


def of_check(
    here: Checkout, wishes: Wishes, room: Path | None = None, temporary: Path | None = None
) -> Profile:
    """The profile of a check. It works in its clean room, which stands at the checkout's place, or
    without one in the checkout itself. `temporary` is its own folder for temporary files."""
    agent = of_agent(here, wishes)
    client = {_client_folder() / name for name in CLIENT_STATE}
    profile = replace(
        agent,
        writable=tuple(each for each in agent.writable if each not in client),
        private=tuple(_caches("checks", here)),
        copied=(),
    )
    if room is None:
        return profile
    asked = (path for path in _allowed(here.root, wishes.write) if not inside(path, [here.root]))
    return replace(
        profile,
        writable=(*asked, *((temporary,) if temporary is not None else ())),
        protected=(),
        made=(),
        private=(*profile.private, (here.root, room)),
        lent=(*clean_room.lent_objects(here, room), *_environments(here.root, room)),
    )


def output_folders(root: Path, outputs: Iterable[str]) -> Iterator[Path]:
    """The folders below `.playbooks/` of what a step is to write: programs write a file by renaming
    another one, which its folder must allow."""
    for output in outputs:
        below = Path(output).parts
        inside = len(below) > 2 and below[0] == _PLAYBOOKS and ".." not in below
        if inside and below[1] not in _NEVER_WRITTEN:
            yield (root / output).parent


def with_keys(profile: Profile) -> Profile:
    """The profile with the keys of the home, and the agent that holds them."""
    keys = tuple(_keys())
    hidden = tuple(each for each in profile.hidden if each not in keys)
    return replace(profile, hidden=hidden, shown=(*profile.shown, *keys))


def _environments(root: Path, room: Path) -> Iterator[tuple[Path, Path]]:
    """What programs on PATH need that lies in the checkout and is not in the room: `.venv`."""
    for program in _programs():
        if root in program.parents:
            top = program.parent if program.name in _BINARIES else program
            top = top if root in top.parents else program
            if not (room / top.relative_to(root)).exists():
                yield top, top


def environment(given: Mapping[str, str], profile: Profile) -> dict[str, str]:
    """The environment inside: without what leads to hidden sockets, and with a TMPDIR there."""
    kept = {name: value for name, value in given.items() if name not in _DROPPED}
    shown = [*profile.shown, *profile.writable]
    if (socket := given.get("SSH_AUTH_SOCK")) and inside(Path(socket), shown):
        kept["SSH_AUTH_SOCK"] = socket
    temporary = kept.get("TMPDIR", "")
    if temporary and not inside(Path(temporary), profile.writable):
        kept["TMPDIR"] = os.fspath(TEMPORARY[0])
    return kept


def git_protected(here: Checkout) -> Iterator[Path]:
    """What git reads as its configuration, and our own local state; some may not exist."""
    for folder in dict.fromkeys((here.common_dir, here.git_dir)):
        yield from (folder / name for name in (*_GIT, *_GIT_OBJECTS))
        if (snapshots := folder / _SNAPSHOTS).is_dir():
            yield snapshots
    if here.git_dir != here.common_dir:
        yield here.root / ".git"
    worktrees = here.common_dir / "worktrees"
    for other in sorted(worktrees.iterdir()) if worktrees.is_dir() else ():
        if other != here.git_dir:
            yield other
    for module in _modules(here.common_dir / "modules"):
        yield from (module / name for name in _MODULE)
    for folder in gitlinks.entered(here):
        own = folder / ".git"
        yield from (own / name for name in _MODULE) if own.is_dir() else (own,)


def _borrowed_objects(here: Checkout) -> Iterator[Path]:
    objects = here.common_dir / "objects"
    try:
        text = read_bytes(objects / "info/alternates", limit=_LARGEST).decode("utf-8", "replace")
    except (OSError, PlaybookError):
        return
    yield from (objects / line for line in text.splitlines() if line and line[0] not in '#"')


def _local_remotes(here: Checkout) -> Iterator[Path]:
    try:
        text = read_bytes(here.common_dir / "config", limit=_LARGEST).decode("utf-8", "replace")
    except (OSError, PlaybookError):
        return
    for address in re.findall(_ADDRESS, text):
        path = here.root / address.removeprefix("file://")
        if (path / "HEAD").is_file():
            yield path.resolve()
        elif (path / ".git" / "HEAD").is_file():
            yield (path / ".git").resolve()


def _modules(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for each in sorted(folder.iterdir()):
        if (each / "HEAD").is_file():
            yield each
            yield from _modules(each / "modules")
        elif each.is_dir() and not each.is_symlink():
            yield from _modules(each)


def home() -> Path:
    """The user's home."""
    return Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home may raise


def _client_folder() -> Path:
    named = os.environ.get("CLAUDE_CONFIG_DIR", "")
    return Path(named) if named.startswith("/") else home() / ".claude"


def is_of_fleet(root: Path) -> bool:
    """True if a worker of the fleet has made that checkout: nothing in it, which an agent could
    change, says so, but its place."""
    return inside(real(root), [real(user_state.path("fleet"))])


def _settings() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(base) if base.startswith("/") else home() / ".config"


def _for_pushing() -> Iterator[Path]:
    yield from _in_home(_PUSHING)
    yield from (_settings() / "gh", _settings() / "git/credentials")
    if (folder := os.environ.get("GH_CONFIG_DIR", "")).startswith("/"):
        yield Path(folder)


def _keys() -> Iterator[Path]:
    yield from _in_home(HIDDEN)
    yield from _for_pushing()
    if agent := os.environ.get("SSH_AUTH_SOCK"):
        yield Path(agent)


def _hidden_in_home(root: Path) -> Iterator[Path]:
    yield from _in_home(HIDDEN)
    if is_of_fleet(root):
        yield from _for_pushing()
    yield user_state.path("")
    yield user_state.cached("")
    yield _settings() / "playbook" / "fleet"


def _keys_of_others() -> Iterator[Path]:
    """What root could read: keys in other homes, and those of the machine."""
    for other in (Path("/root"), *Path("/home").glob("*")):
        if other != home() and os.access(other, os.R_OK | os.X_OK):
            yield from (other / name for name in HIDDEN)
    yield from (path for path in _KEYS_OF_MACHINE if os.access(path, os.R_OK))
    yield from Path("/etc/ssh").glob("ssh_host_*_key")


def _in_home(names: Iterable[str]) -> Iterator[Path]:
    top = home()
    return (top / name for name in names)


def _caches(whose: str, here: Checkout) -> Iterator[tuple[Path, Path]]:
    top, kept = home(), user_state.cached("isolated") / _repository(here) / whose
    for name in CACHES:
        yield top / name, kept / name
    if (base := os.environ.get("XDG_CACHE_HOME", "")).startswith("/"):
        yield Path(base), kept / ".cache"


def _repository(here: Checkout) -> str:
    """A short id of the repository, the same for all clones in which the fleet works for it: each
    is there for minutes, and caches are to serve the next one."""
    if is_of_fleet(here.root):
        for objects in _borrowed_objects(here):
            return digest(os.fsencode(os.path.realpath(objects)))[: len(here.key)]
    return here.key


def _programs() -> Iterator[Path]:
    """Where programs and this interpreter are: they may lie in what is hidden."""
    yield from (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[3])
    yield from on_path(os.environ.get("PATH", ""))


def _programs_within(root: Path) -> Iterator[Path]:
    """What of PATH lies in the checkout: a program there could stand for one that we start."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        place = Path(os.path.normpath(root / folder))
        if root in place.parents:
            yield place


def on_path(path: str) -> Iterator[Path]:
    """The folders of a PATH."""
    for folder in dict.fromkeys(path.split(os.pathsep)):
        if folder.startswith("/") and folder != "/":
            yield Path(folder)


def _named_files() -> Iterator[Path]:
    for variable in _FILES:
        if (name := os.environ.get(variable, "")).startswith("/"):
            yield Path(name)


def wished(root: Path, words: Iterable[str]) -> tuple[Path, ...]:
    """The paths that the settings of that checkout mean."""
    known = (os.path.expandvars(word) for word in words)
    return tuple(root / os.path.expanduser(word) for word in known)  # noqa: PTH111


def _allowed(root: Path, words: Iterable[str]) -> Iterator[Path]:
    """The same without what is ours: a repository's settings show neither the clones of others nor,
    in a session of the fleet, keys, which open more than this repository."""
    ours = [real(each) for each in (user_state.path(""), user_state.cached(""))]
    ours += map(real, _keys()) if is_of_fleet(root) else ()
    for path in wished(root, words):
        if not inside(real(path), ours) or inside(real(path), [real(root)]):
            yield path


def real(path: Path) -> Path:
    """The path without links."""
    return Path(os.path.realpath(path))


def _with_wishes(profile: Profile, here: Checkout, wishes: Wishes) -> Profile:
    return replace(
        profile,
        writable=(*profile.writable, *_allowed(here.root, wishes.write)),
        shown=(*profile.shown, *_allowed(here.root, wishes.show)),
        hidden=(*profile.hidden, *wished(here.root, wishes.hide)),
        network=wishes.network,
        hosts=wishes.hosts,
    )


def inside(path: Path, folders: Iterable[Path]) -> bool:
    """True if it is one of the folders, or below one."""
    return any(path == folder or folder in path.parents for folder in folders)
