"""Linux: a profile as arguments of bubblewrap, which makes namespaces for one program.

The disk is read-only but for what a profile lists. A mount protects a path, not its parents, which
could be renamed; so each folder between a writable place and what is protected in it is a mount of
its own, which is busy. What does not exist cannot be protected by a mount: `sandbox` looks for it
afterwards.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from shutil import which

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.system.isolation.profiles import Profile, inside, real
from playbook_supervisor.system.process.child_process import read_outputs

NAME = "bwrap"
_ALONE = (
    *("--die-with-parent", "--unshare-user-try", "--unshare-pid", "--unshare-ipc"),
    *("--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"),
)
_SYSTEM = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *("--ro-bind", os.devnull, "/dev/console"),  # else it is our terminal
)
_OF_KERNEL = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
"""In /proc: root could write there even without capabilities, and some reach the whole machine.
Others cannot, and a sandbox inside mounts a /proc of its own only where nothing covers ours."""
_OF_ROOT = Path("/etc/ssh/ssh_config.d")
"""Inside, a user sees the files of root as files of another user, and ssh refuses to read these."""
_DEVICES, _MEMORY = Path("/dev"), Path("/dev/shm")  # noqa: S108 - a file system, no device
_RESOLVER = Path("/etc/resolv.conf")
_COPIES = Path("/run/playbook")
_COPY = 'cp -- "$1" "$2" && shift 2 && exec "$@"'
_MOST_SHOWN = 256
"""Entries of a folder in the home: a start takes longer with each. Of a larger one, its files are
left out but for those whose name begins with a dot."""
_LISTENING = 0x10000  # __SO_ACCEPTCON, among the flags in /proc/net/unix
_DATAGRAMS = 2  # SOCK_DGRAM, as the type there
_SECONDS, _MOST = 10.0, 1 << 16  # of a trial
_CURE = "Install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`)."
_FORBIDDEN = (
    "The system forbids user namespaces. On Ubuntu, an AppArmor profile allows them to bwrap; "
    "elsewhere, look at `sysctl user.max_user_namespaces kernel.unprivileged_userns_clone`."
)


def problem() -> tuple[str, str]:
    """Why bubblewrap does not work here, and what helps; both empty if it works."""
    return _problem(os.environ.get("PATH", os.defpath))


@cache
def _problem(path: str) -> tuple[str, str]:
    if which(NAME, path=path) is None:
        return "bubblewrap (bwrap) is not installed", _CURE
    argv = [NAME, *_ALONE, *_SYSTEM, "--", "true"]
    try:
        ((status, _, stderr),) = read_outputs([argv], os.environ, timeout=_SECONDS, cap=_MOST)
    except (PlaybookError, OSError) as error:  # TimeoutError is an OSError
        return f"bubblewrap does not start: {error}", ""
    if status == 0:
        return "", ""
    said = first_line(stderr.decode("utf-8", "replace").removeprefix("bwrap: "), 200)
    return f"bubblewrap does not work here: {said}", _FORBIDDEN


def arguments(profile: Profile, argv: Iterable[str], folder: Path) -> list[str]:
    """The command that runs `argv` under the profile, in that folder inside."""
    words = [NAME, *_ALONE, *_SYSTEM]
    for name in _OF_KERNEL if os.geteuid() == 0 else ():
        words += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    if profile.network != "as_is":
        words.append("--unshare-net")
    mounts = _Mounts(profile)
    for place, (kind, source) in sorted(mounts.all.items(), key=lambda each: len(each[0].parts)):
        words += [kind, source, str(place)] if source else [kind, str(place)]
    command = list(argv)
    for number, file in enumerate(mounts.copied):
        kept = str(_COPIES / str(number))
        words += ["--ro-bind", str(file), kept]
        command = ["sh", "-c", _COPY, "sh", kept, str(file), *command]
    words += ["--setenv", "PLAYBOOK_ISOLATION", NAME]
    return [*words, "--chdir", str(folder), "--", *command]


class _Mounts:
    """What is mounted where: the option of bubblewrap, and its source; a later one replaces."""

    def __init__(self, profile: Profile) -> None:
        self.all: dict[Path, tuple[str, str]] = {}
        self.profile = profile
        self.copied = [file for file in profile.copied if os.path.isfile(file)]  # noqa: PTH113 - as below
        private = dict(profile.private)
        self.kept = {*profile.writable, *private}
        self.hidden = {form for path in profile.hidden for form in (path, real(path))}
        self._open_home()
        for path in sorted(self.hidden):
            if path not in self.all and path not in self.kept and not inside(path, private):
                self._hide(path)
        allowed = (*profile.shown, *(each for each in profile.writable if each != profile.folder))
        for path in _sockets():
            if not inside(path, (*self.hidden, *allowed)):
                self._hide(path)
        for path in (*map(_plain, profile.shown), real(_RESOLVER)):
            covered = inside(path, (_DEVICES, *self.hidden, *private))
            if covered and _is_there(path) and not inside(path, profile.writable):
                self.all[path] = ("--ro-bind", str(path))
        for path in profile.writable:
            if _is_there(path):
                self.all[path] = ("--bind", str(path))
        for path in (*profile.shown, *profile.writable):
            if inside(path, [_DEVICES]) and not inside(path, [_MEMORY]) and _is_there(path):
                self.all[path] = ("--dev-bind", str(path))
        if os.geteuid() and _is_folder(_OF_ROOT):
            self.all[_OF_ROOT] = ("--tmpfs", "")
        for place, folder in private.items():
            if not _is_there(folder):  # it may be a file
                folder.mkdir(parents=True)
            self.all[place] = ("--bind", str(folder))
        for place, folder in profile.lent:
            self.all[place] = ("--ro-bind", str(folder))
        for path in profile.protected:
            self._protect(path)

    def _open_home(self) -> None:
        """The home, where anything may be made that is gone afterwards, with all that was there."""
        self.opened = set(filter(_is_folder, self.profile.opened))
        for place, _ in self.profile.private:
            above = (each for each in place.parents if self.profile.home in each.parents)
            between = [each for each in above if os.path.lexists(each)]
            if all(map(_is_folder, between)):
                self.opened.update(between)
        for folder in sorted(self.opened):
            self.all[folder] = ("--tmpfs", "")
            entries = sorted(_entries(folder))
            for entry in entries:
                if len(entries) <= _MOST_SHOWN or entry.name[0] == "." or _is_folder(entry):
                    self._show(entry)

    def _show(self, entry: Path) -> None:
        if entry in self.opened or entry in self.hidden or entry in self.copied:
            return
        mode = entry.lstat().st_mode
        if stat.S_ISLNK(mode):
            self.all[entry] = ("--symlink", os.readlink(entry))  # noqa: PTH115 - as it is
        elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            self.all[entry] = ("--ro-bind", str(entry))

    def _hide(self, path: Path) -> None:
        if path.parent in self.opened or _is_link(path):
            return  # it was left out; what a link leads to is hidden itself
        if _is_folder(path):
            self.all[path] = ("--tmpfs", "")
        elif _is_there(path):
            self.all[path] = ("--ro-bind", os.devnull)

    def _protect(self, path: Path) -> None:
        """Make it read-only, and each folder above it busy."""
        if not _is_there(path) or _is_link(path):
            return
        writable = [each for each in self.profile.writable if each in path.parents]
        if path in self.profile.writable or not writable:
            return
        top = min(writable, key=lambda each: len(each.parts))
        for folder in path.parents:
            if folder == top:
                break
            self.all.setdefault(folder, ("--bind", str(folder)))
        self.all[path] = ("--ro-bind", str(path))


def _sockets() -> Iterator[Path]:
    """The sockets in the file system at which something listens, or that take datagrams."""
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[7].startswith("/") and _takes_others(fields):
            yield Path(fields[7])


def _takes_others(fields: list[str]) -> bool:
    return bool(int(fields[3], 16) & _LISTENING) or int(fields[4], 16) == _DATAGRAMS


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


# Those of `Path` raise an error where a folder above cannot be entered.


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path) and not _is_link(path)  # noqa: PTH112


def _is_link(path: Path) -> bool:
    return os.path.islink(path)  # noqa: PTH114


def _is_there(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110


def _plain(path: Path) -> Path:
    """The path whose folders are no links: `/run/docker.sock` for `/var/run/docker.sock`."""
    return real(path.parent) / path.name
