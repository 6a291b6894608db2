"""One program in isolation: whether that is possible here, how it starts, what it left behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from playbook_supervisor.errors import PlaybookError, PolicyError, StorageError
from playbook_supervisor.formats.sanitize import some
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import ensure_folder
from playbook_supervisor.system.git import checkout, gitlinks
from playbook_supervisor.system.isolation import bubblewrap, hints, profiles, seatbelt
from playbook_supervisor.system.isolation.network_proxy import Proxy
from playbook_supervisor.system.isolation.profiles import Profile

CODE = "PB-POLICY-ISOLATION"
_SIGNALS = frozenset({4, 6, 7, 8, 9, 11, 15})
"""Of a program that a signal has ended; bubblewrap reports them as a shell does, as 128 + N."""
_SHELL = 128
_REFUSED = ".refused"
_NAMED = 3
_OBEYED = "commondir"
_IS_THERE = "/"  # which is no link's target here


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Isolation under a profile. `backend` enforces it: `bwrap` or `sandbox-exec`. `opened` gives
    it a `proxy`, without which `network: proxy` reaches nothing, and on macOS a `temporary` folder.
    """

    profile: Profile
    backend: str
    proxy: Proxy | None = None
    temporary: Path | None = None

    @contextmanager
    def opened(self) -> Iterator[Sandbox]:
        """The same for one program, with what has to be there outside while it runs."""
        with ExitStack() as stack:
            running = self
            if self.profile.network == "proxy":
                # takes 5 ms, and few profiles have one
                from playbook_supervisor.system.isolation.network_proxy import Proxy

                proxy = stack.enter_context(closing(Proxy(self.profile.hosts)))
                lent = (*self.profile.lent, *proxy.lent())
                running = replace(self, profile=replace(self.profile, lent=lent), proxy=proxy)
            if self.backend == seatbelt.NAME:
                folder = stack.enter_context(seatbelt.temporary_folder())
                running = replace(running, temporary=folder)
            yield running

    def reaching(self, hosts: Iterable[str]) -> Sandbox:
        """The same, whose `network: proxy` lets these hosts through, too."""
        return replace(self, profile=replace(self.profile, hosts=(*self.profile.hosts, *hosts)))

    def keeping(self, opened: Iterable[Path], written: Iterable[Path]) -> Sandbox:
        """The same for a program that keeps files in the home: what it makes in the folders that
        are `opened` is gone afterwards, and what is `written` stays."""
        inside = self.profile
        profile = replace(
            inside,
            opened=(*inside.opened, *opened),
            writable=(*inside.writable, *written),
        )
        return replace(self, profile=profile)

    def command(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        """What to start instead, and in which environment.

        StorageError PB-IO-PROGRAM if there is no such program, or if it is hidden inside.
        """
        for path in self.profile.made:
            ensure_folder(path)
        variables = profiles.environment(env, self.profile)
        program = self._program(argv, cwd, variables)
        if self.proxy is not None:
            argv, variables = self.proxy.command(argv), variables | self.proxy.environment()
        if self.backend == seatbelt.NAME:
            port = self.proxy.port if self.proxy is not None else None
            variables |= seatbelt.variables(self.profile, self.temporary)
            return seatbelt.arguments(self.profile, argv, port, self.temporary), variables
        folder = self.inside(cwd)
        on_path = profiles.on_path(variables.get("PATH", ""))
        shown = (*self.profile.shown, *on_path, program)
        profile = replace(self.profile, shown=shown)
        return bubblewrap.arguments(profile, argv, folder), {**variables, "PWD": str(folder)}

    def inside(self, path: Path) -> Path:
        """The path inside of a path outside."""
        for place, folder in self.profile.private if self.backend == bubblewrap.NAME else ():
            if path == folder or folder in path.parents:
                return place / path.relative_to(folder)
        return path

    def _program(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Path:
        program = (*argv, "")[0]
        found = which(program, path=env.get("PATH")) if "/" not in program else cwd / program
        if found is None:
            said = f"cannot start {program!r}: No such file or directory"
            raise StorageError("PB-IO-PROGRAM", said, cause="No such file or directory")
        real = Path(os.path.realpath(found))
        hidden = hints.hidden(self.profile, real)
        if hidden and hidden not in profiles.TEMPORARY:
            said = f"cannot start {program!r}: isolation hides {hidden}"
            raise StorageError("PB-IO-PROGRAM", said, guidance=hints.line("show", hidden))
        return real

    def status(self, returned: int) -> int:
        """The exit status of the program; negative if a signal has ended it."""
        number = returned - _SHELL
        return -number if self.backend == bubblewrap.NAME and number in _SIGNALS else returned

    def hint(self, output: str) -> str:
        """The line of the settings that lets a program do what it complains about; or empty."""
        if known := hints.hint(self.profile, output):
            return known
        return self.proxy.hint() if self.proxy is not None else ""

    # ── what no mount can protect ───────────────────────────────────────────────────────────

    def unprotected(self) -> dict[Path, str]:
        """What is to be protected and does not exist (""), or is a link, with where it leads."""
        states = {path: _state(path) for path in self.profile.protected}
        return {path: state or "" for path, state in states.items() if state != _IS_THERE}

    def removed(self, before: Mapping[Path, str], *, runs: bool = False) -> PolicyError | None:
        """Move away what was made where nothing may be made: git or the client would read it as
        settings. `before` is what was `unprotected` before the program ran; the error names what
        was made. While it `runs`, only what git itself never makes, and obeys at once."""
        if runs:
            before = {path: link for path, link in before.items() if path.name == _OBEYED}
        planted = [path for path, link in before.items() if _state(path) not in (None, link)]
        entered = (path for path in self._entered(runs) if os.path.lexists(path))
        planted += [path for path in entered if path not in before]
        for path in planted:
            os.replace(path, path.with_name(f"{path.name}{_REFUSED}"))  # noqa: PTH105
        if not planted:
            return None
        names = [os.path.relpath(path, self.profile.folder) for path in planted]
        said = f"it made {some(names, _NAMED)}, which would be read as settings"
        cure = f"It was moved to `{names[0]}{_REFUSED}`; look at it, and remove it."
        return PolicyError(CODE, said, where=str(planted[0]), guidance=cure)

    def _entered(self, runs: bool) -> list[Path]:
        """The git directories of what a git in the checkout newly takes for submodules."""
        if runs or self.profile.folder not in self.profile.writable:
            return []
        with suppress(PlaybookError):
            found = gitlinks.entered(checkout.find(self.profile.folder))
            ours = {each for path in self.profile.protected for each in (path, path.parent)}
            return [folder / ".git" for folder in found if folder / ".git" not in ours]
        return []


def _state(path: Path) -> str | None:
    """Where the link leads, `_IS_THERE` if it is none, None if there is nothing."""
    if path.is_symlink():
        return os.readlink(path)  # noqa: PTH115 - as it is
    return _IS_THERE if os.path.lexists(path) else None


def backend() -> str:
    """What isolates on this system, if it is there."""
    return seatbelt.NAME if sys.platform == "darwin" else bubblewrap.NAME


def problem() -> tuple[str, str]:
    """Why programs cannot be isolated on this machine, and what helps; both empty if they can."""
    found = seatbelt.problem() if sys.platform == "darwin" else bubblewrap.problem()
    if not found[0] and profiles.home() == Path("/"):
        return "the home is the root of the disk", "Set HOME."
    return found


def in_force(mode: str) -> tuple[str, str]:
    """What isolates in that mode, empty for nothing, and a notice where `auto` finds nothing.

    PolicyError PB-POLICY-ISOLATION if the mode is `required` and nothing can.
    """
    if mode == "none":
        return "", ""
    why, cure = problem()
    if not why:
        return backend(), ""
    if mode == "required":
        raise PolicyError(CODE, f"isolation is required, but {why}", guidance=cure)
    return "", f"agents run without isolation: {why}"
