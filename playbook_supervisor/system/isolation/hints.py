"""What a program's output says of its isolation: the line of the settings that would help."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.isolation import profiles
from playbook_supervisor.system.isolation.profiles import Profile

_SETTINGS = ".playbooks/config.yaml"
_READ_ONLY = r"""(?xi)
    (?P<path>/[^\s:'"`]+)['"`]?:?\ [^\n/]{0,80}?read-only\ file\ system
    | read-only\ file\ system[^\n]{0,200}?['"`](?P<quoted>/[^'"`\n]+)['"`]
    | ENOENT:[^\n]{0,60}\ mkdir\ '(?P<made>/[^'\n]+)'
"""
"""Node says ENOENT where a folder and those above it cannot be made."""
_DOCKER = r"(?i)connect to the docker (?:daemon|API) at unix://(/\S+?)[.;,]?(?:\s|$)"
_SSH = (
    r"Permission denied \(publickey|Host key verification failed|"
    r"Could not open a connection to your authentication agent"
)
_GPG = r"gpg failed to sign the data|gpg: signing failed|gpg: decryption failed: No secret key"
_NAME = (
    r"(?:resolve host(?:name)?:? |resolve '|getaddrinfo (?:ENOTFOUND|EAI_AGAIN) )['\"]?"
    r"([A-Za-z0-9][\w.-]*\w)"
)
_GIT = r"could not (?:write|lock) config file (\S*\.git/\S*config\S*?):"
_NESTED = r"setting up uid map: Operation not permitted|/proc/self/uid_map: Operation not permitted"
_NO_SANDBOX = (
    "Root can make no sandbox inside of isolation: switch that one off, or be another user."
)


def hint(profile: Profile, output: str) -> str:
    """The line, or empty if the output complains about nothing that isolation keeps away."""
    return next(filter(None, _hints(profile, output)), "")


def hidden(profile: Profile, path: Path) -> Path | None:
    """What hides the path inside, if anything does."""
    seen = (*profile.shown, *profile.writable, *dict(profile.private))
    if profiles.inside(path, seen):
        return None
    return next((each for each in profile.hidden if profiles.inside(path, (each,))), None)


def line(key: str, *places: Path | str) -> str:
    """The line of the settings that allows these places."""
    home = profiles.home()
    words = [
        f"~/{place.relative_to(home)}"
        if isinstance(place, Path) and home in place.parents
        else str(place)
        for place in places
    ]
    return f"To allow it, add `isolation: {{{key}: [{', '.join(words)}]}}` to {_SETTINGS}."


def _hints(profile: Profile, output: str) -> Iterator[str]:
    ssh, keys = profiles.home() / ".ssh", profiles.home() / ".gnupg"
    if (found := re.search(_DOCKER, output)) and Path(found[1]).is_socket():
        yield line("show", Path(found[1]))
    if re.search(_SSH, output) and hidden(profile, ssh):
        yield line("show", *_for_ssh(ssh))
    if re.search(_GPG, output) and hidden(profile, keys) and keys.is_dir():
        yield line("write", keys)
    yield from _of_places(profile, output)
    if found := re.search(_GIT, output):
        yield _protected(found[1])
    if found := re.search(_READ_ONLY, output):
        path = Path(found["path"] or found["quoted"] or found["made"])
        if profiles.inside(path, profile.protected):
            yield _protected(path)
        elif there := next(
            (each for each in (path, *path.parents[:-1]) if os.path.lexists(each)), None
        ):
            yield line("write", there)
    if profile.network == "none" and (found := re.search(_NAME, output)):
        yield line("network: proxy, hosts", found[1])
    if os.geteuid() == 0 and re.search(_NESTED, output):
        yield _NO_SANDBOX


def _protected(path: Path | str) -> str:
    return f"Isolation protects {path}: a person can change it outside."


def _of_places(profile: Profile, output: str) -> Iterator[str]:
    """For places that the output names, and that are there outside alone."""
    ours = (user_state.path(""), user_state.cached(""))
    for place in (*profile.hidden, *dict(profile.private)):
        if place in (*ours, *profiles.TEMPORARY):
            continue
        for found in re.finditer(rf"{re.escape(str(place))}(?:/[^\s'\"`:,;)]+)?(?!\w)", output):
            path = Path(found[0].rstrip("."))
            if _kept_away(profile, path) and not profiles.inside(path, ours):
                yield line("show", path)


def _kept_away(profile: Profile, path: Path) -> bool:
    if profiles.inside(path, profile.shown):
        return False
    for place, folder in profile.private:
        if place in path.parents:
            return os.path.lexists(path) and not os.path.lexists(folder / path.relative_to(place))
    return hidden(profile, path) is not None


def _for_ssh(folder: Path) -> Iterator[Path | str]:
    """What git needs to reach another machine over ssh: the agent that holds the keys, or them."""
    if not os.environ.get("SSH_AUTH_SOCK"):
        yield folder
        return
    yield "$SSH_AUTH_SOCK"
    yield from (
        path for name in ("known_hosts", "config") if os.path.lexists(path := folder / name)
    )
