"""macOS: a profile as a policy of `sandbox-exec`. It has not been tried on a Mac.

What no rule denies is allowed, and the last rule that matches decides, so the rules of deeper paths
come later. A rule holds for a path whether it exists or not; paths are parameters, never quoted.

Nothing can be mounted there. A private place is a folder elsewhere, to which a variable leads the
package manager; the caches that no variable moves, and files of which Linux gives a copy, are
read-only. Temporary files have a folder of their own, for those of the machine are hidden.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from playbook_supervisor.system.isolation.profiles import Profile

NAME = "sandbox-exec"
_ALONE = """(version 1)
(allow default)
(deny signal) (allow signal (target same-sandbox))
(deny mach-priv-task-port) (allow mach-priv-task-port (target same-sandbox))
(deny job-creation) (deny lsopen) (deny appleevent-send)
(deny mach-lookup (global-name "com.apple.coreservices.appleevents"))
(deny file-write*) (allow file-write* (subpath "/dev"))
(deny network-outbound (remote unix-socket))"""
_RESOLVER = '(allow network-outbound (literal "/private/var/run/mDNSResponder"))'
_HIDDEN = "(deny file-read* file-write* {0})"
_SHOWN = "(allow file-read* {0})"
_WRITABLE = "(allow file-read* file-write* {0}) (allow network-outbound (remote unix-socket {0}))"
_PROTECTED = "(deny file-write* {0})"
_TEMPORARY = ("TMPDIR", "CLAUDE_CODE_TMPDIR")
_PLACES = {
    "XDG_CACHE_HOME": (".cache", ""),
    "PIP_CACHE_DIR": (".cache", "pip"),
    "UV_CACHE_DIR": (".cache", "uv"),
    "GOCACHE": (".cache", "go-build"),
    "GOMODCACHE": ("go/pkg", "mod"),
    "NPM_CONFIG_CACHE": (".npm", ""),
    "NPM_CONFIG_STORE_DIR": (".local/share/pnpm/store", ""),
    "YARN_GLOBAL_FOLDER": (".yarn/berry", ""),
    "BUN_INSTALL_CACHE_DIR": (".bun/install/cache", ""),
    "NUGET_PACKAGES": (".nuget/packages", ""),
    "BUNDLE_USER_CACHE": (".bundle/cache", ""),
}
"""The variables that move a cache: the place below the home for which it stands, and a folder."""


def problem() -> tuple[str, str]:
    """Why it does not work here, and what helps; both empty if it works."""
    return ("", "") if which(NAME) else (f"{NAME} is not on PATH", "")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """For the temporary files of one program."""
    with TemporaryDirectory(prefix="playbook-") as folder:
        yield Path(folder)


def arguments(
    profile: Profile, argv: Iterable[str], port: int | None, temporary: Path | None
) -> list[str]:
    """The command that runs `argv` under the profile; `port` is that of its proxy."""
    paths: dict[str, str] = {}

    def named(kind: str, path: Path) -> str:
        return f'({kind} (param "{paths.setdefault(os.path.realpath(path), f"P{len(paths)}")}"))'

    rules = [_ALONE, *_of_network(profile, port)]
    rules += [rule.format(named("subpath", path)) for path, rule in _of_paths(profile, temporary)]
    rules += [f"(deny file-write-unlink {named('literal', path)})" for path in _above(profile)]
    parameters = (f"-D{name}={path}" for path, name in paths.items())
    return [NAME, "-p", "\n".join(rules), *parameters, *argv]


def variables(profile: Profile, temporary: Path | None) -> dict[str, str]:
    """The variables that lead programs to their private places and to their temporary folder."""
    private = dict(profile.private)
    found = {name: os.fspath(temporary) for name in _TEMPORARY} if temporary is not None else {}
    for name, (place, folder) in _PLACES.items():
        if (kept := private.get(profile.home / place)) is not None:
            found[name] = os.fspath(kept / folder)
    return found


def _of_network(profile: Profile, port: int | None) -> Iterator[str]:
    if profile.network == "as_is":
        yield _RESOLVER
        return
    yield "(deny network*)"
    if port is not None:
        yield f'(allow network-outbound (remote ip "localhost:{port}"))'


def _of_paths(profile: Profile, temporary: Path | None) -> list[tuple[Path, str]]:
    """Each path with its rule, parents first; of one path, the later one decides."""
    own = (temporary,) if temporary is not None else ()
    writable = (*profile.writable, *own, *(folder for _, folder in profile.private))
    found = [
        *((path, _HIDDEN) for path in profile.hidden),
        *((path, _SHOWN) for path in (*profile.shown, *(source for _, source in profile.lent))),
        *((path, _WRITABLE) for path in writable),
        *((path, _PROTECTED) for path in profile.protected if path not in profile.writable),
    ]
    return sorted(found, key=lambda each: len(Path(os.path.realpath(each[0])).parts))


def _above(profile: Profile) -> list[Path]:
    """The folders between what is writable and what is protected in it: none may be moved."""
    tops = set(profile.writable)
    return sorted(
        folder
        for folder in {parent for path in profile.protected for parent in path.parents}
        if tops & {folder, *folder.parents}
    )
