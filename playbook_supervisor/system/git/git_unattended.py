"""Commits and pushes where no person can be asked.

A caller passes a function that runs git in the checkout, so that it decides about deadlines.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import last_words, printable
from playbook_supervisor.records import Record, replace
from playbook_supervisor.system.disk import files
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.git.git_programs import Runs, command, environment
from playbook_supervisor.system.process.cancellation import uncancellable
from playbook_supervisor.system.process.processes import Completed, run


class Git(Protocol):
    """Runs `git ARGUMENTS` in the checkout, with `env` added to its environment."""

    def __call__(
        self, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> Completed: ...


SAY_WHO = "Tell git who you are: `git config user.name NAME` and `git config user.email ADDRESS`"

PUSH = ("push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no")
"""A push of what is named, and of nothing else."""

_LAST_LINES, _LAST_WORDS, _CAUSE = 3, 300, 2000  # lines, characters, characters
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds, while another git holds a lock
_LOCK = r"'(/[^'\n]{1,4096}\.lock)'"  # a hook may mention a `yarn.lock`
_WHO = "git config --global user.email"  # what git advises in any language
_OF_PUSH = r"(?m)^(?:To .*|[ +*=!-]\t.*|Done)$"
"""The lines of `git push --porcelain` itself on stdout."""
_CREDENTIALS = r"//[^/@\s]{1,1000}@"
UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
}
"""The file in git's directory → the operation that a person has not finished."""


def dates(ms: int) -> dict[str, str]:
    """The variables that let a commit be of this time, in ms since the epoch."""
    at = f"@{ms // 1000} +0000"
    return {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}


def under_way(git_dir: Path) -> str:
    """The operation in this checkout that a person has not finished; empty if there is none."""
    return next((what for name, what in UNDER_WAY.items() if os.path.lexists(git_dir / name)), "")


def push_remote(git: Git, branch: str) -> str:
    """The remote that git would push the branch to, else the only one or `origin`; or nothing."""
    asked = git("for-each-ref", "--format=%(push:remotename)", "--count=1", f"refs/heads/{branch}")
    if named := asked.stdout.strip():
        return "" if named == "." else named
    remotes = git("remote").stdout.split()
    if len(remotes) == 1:
        return remotes[0]
    return "origin" if "origin" in remotes else ""


def follow_pushed(here: Checkout) -> None:
    """Let the branch follow the one that was pushed under its name, if it follows none: isolated
    programs cannot write that into the settings of git."""
    remotes = here.common_dir / "refs" / "remotes"
    if not here.branch or not remotes.is_dir():
        return
    pushed = [each.name for each in remotes.iterdir() if (each / here.branch).is_file()]
    around = environment(Runs.NOTHING)

    def git(*arguments: str) -> Completed:
        return run([*command(here.root, Runs.NOTHING), *arguments], cwd=here.root, env=around)

    if pushed and git("config", "--get", f"branch.{here.branch}.remote").returncode != 0:
        remote = "origin" if "origin" in pushed else pushed[0]
        git("branch", "--quiet", f"--set-upstream-to={remote}/{here.branch}", "--", here.branch)


def push_address(git: Git, remote: str) -> str:
    """Where git pushes to, for commands that fetch: the remote, or its other address."""
    return git("config", "--get", f"remote.{remote}.pushurl").stdout.strip() or remote


def quiet_ssh(git: Git) -> dict[str, str]:
    """Keep ssh from asking questions, and end it after 30 seconds without a sign of the other end;
    a person's own ssh command stays as it is."""
    own = {"GIT_SSH", "GIT_SSH_COMMAND"} & os.environ.keys()
    if own or git("config", "--get", "core.sshCommand").returncode == 0:
        return {}
    bounds = "-o ConnectTimeout=30 -o ServerAliveInterval=10 -o ServerAliveCountMax=3"
    return {"GIT_SSH_COMMAND": f"ssh -o BatchMode=yes {bounds}"}


def fetch(root: Path) -> None:
    """Fetch from every remote as a person does; from one that cannot be reached, nothing comes."""

    def git(*arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Completed:
        argv = [*command(root, Runs.ALL), *arguments]
        around = {**environment(Runs.ALL), **(env or {})}
        return run(argv, cwd=root, env=around, stdin=stdin, timeout=60.0)  # for each remote

    quietly = quiet_ssh(git)
    for remote in git("remote").stdout.splitlines():
        git("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--", remote, env=quietly)


def patiently(git: Git, *arguments: str, stdin: bytes = b"") -> Completed:
    """The result of a command that takes locks; while another git holds one, it is repeated."""
    pauses = list(_PAUSES)
    while lock_held(done := git(*arguments, stdin=stdin)) and pauses:
        time.sleep(pauses.pop(0))
    return done


def lock_held(done: Completed) -> str:
    """The lock of another git that a command failed because of; empty if that is not why."""
    if done.returncode == 0 or done.timed_out:
        return ""
    held = re.search(_LOCK, done.stderr)
    return printable(held[1]) if held else ""


class Refusal(Record):
    """The words of git or its hooks when they refused: at least one line, without credentials."""

    lines: tuple[str, ...]

    @property
    def lacks_identity(self) -> bool:
        return any(_WHO in line for line in self.lines)

    @property
    def words(self) -> str:
        last = self.lines[-1 if self.lacks_identity else -_LAST_LINES :]
        return " / ".join(last)[-_LAST_WORDS:]

    @property
    def cause(self) -> str:
        return last_words("\n".join(self.lines), _CAUSE)


def refusal(done: Completed) -> Refusal:
    """The words of a command that failed."""
    told = f"{re.sub(_OF_PUSH, '', done.stdout)}\n{done.stderr}"
    said = re.sub(_CREDENTIALS, "//", printable(told, keep_newlines=True))
    lines = tuple(line.strip() for line in said.splitlines() if line.strip())
    return Refusal(lines or ("no message",))


def remote_tip(
    git: Git, address: str, branch: str, env: Mapping[str, str]
) -> tuple[str, Completed]:
    """The commit of the branch that the remote has now, empty if it has no such branch; and the
    command that asked for it, which may have failed."""
    ref = f"refs/heads/{branch}"
    listed = git("ls-remote", "--quiet", "--", address, ref, env=env)
    tips = dict(line.split("\t")[::-1] for line in listed.stdout.splitlines() if "\t" in line)
    return tips.get(ref, ""), listed


# Commits of named files alone, `git commit --only`: git gives its hooks an index of their own. What
# they format, add or generate there is committed, but the user's index keeps what was there before,
# and the next plain commit would put it back. So the index is made to agree with HEAD afterwards,
# for what was committed; if we are killed in between, the next commit does it, by a record that is
# written before.

_FOLDER = "commits"
_STAGED = ("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev")
_ABSENT = "0"
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"  # of a name that is not UTF-8


class _Taken(Record):
    """The content of a commit: `named` are files, and folders with a slash at the end.

    `base` is HEAD before, empty before the first commit. Git did not know the `new` ones. `staged`
    are others that a person had staged.
    """

    base: str
    named: tuple[str, ...]
    new: tuple[str, ...]
    staged: tuple[str, ...]

    def names(self, path: str) -> bool:
        folders = tuple(each for each in self.named if each.endswith("/"))
        return path in self.named or path.startswith(folders)


@contextmanager
def committing(
    git: Git,
    runtime: Path,
    base: str,
    named: Sequence[str],
    new: Sequence[str],
    *,
    hooked: bool = True,
) -> Iterator[None]:
    """The block commits the files named alone on `base`, having added the names of the `new` ones.

    Afterwards the index agrees with HEAD for all that was committed, and other files are staged as
    they were. If nothing was committed, it does not know the new names. `base` is the commit of
    HEAD, empty before the first one. `named` may have folders, with a slash at the end. `git` runs
    in the checkout whose `runtime` this is. Where no hook runs (`hooked`), git itself leaves the
    index in order unless it fails.
    """
    make_up(git, runtime)
    taken = _Taken(base, tuple(named), tuple(new), ())
    if hooked:
        before = base or git("hash-object", "-t", "tree", "--stdin").stdout.strip()
        staged = tuple(path for _, path in _differing(git, before) if not taken.names(path))
        taken = replace(taken, staged=staged)
    record = runtime / _FOLDER / os.urandom(8).hex()
    files.ensure_folder(record.parent)
    with files.locked(record.with_suffix(".lock")):
        data = (taken.base, taken.named, taken.new, taken.staged)
        files.write_atomically(record, json.dumps(data).encode(), durable=False)
        in_order = False
        try:
            yield
            in_order = not hooked
        finally:
            with uncancellable():
                if in_order or _settle(git, taken):
                    _discard(record)


def make_up(git: Git, runtime: Path) -> None:
    """Bring the index in order after commits whose process was killed.

    A person may have staged something since, so only what agrees with HEAD is made to agree.
    """
    folder = runtime / _FOLDER
    for record in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not record.suffix:
            with suppress(StateError), files.locked(record.with_suffix(".lock"), timeout=0):
                with suppress(ValueError, TypeError):  # it was cut
                    base, *names = json.loads(files.read_bytes(record))
                    _settle(git, _Taken(base, *map(tuple, names)), late=True)
                _discard(record)


def _discard(record: Path) -> None:
    files.remove(record)
    files.remove(record.with_suffix(".lock"))


def _settle(git: Git, taken: _Taken, *, late: bool = False) -> bool:
    """Bring the index in order; whether git did that."""
    since = (f"^{taken.base}",) if taken.base else ()
    listed = git("rev-list", "--first-parent", "--parents", "HEAD", *since).stdout.splitlines()
    if not listed:
        added = set(_names(git, "diff-files", "--name-only", "--diff-filter=A", "-z"))
        left = "".join(f"{name}\0" for name in taken.new if name in added)
        return _updated(git, ("--force-remove", "-z", "--stdin"), left)
    made, *parents = listed[-1].split() or [""]  # the first commit after the base, if it is that
    differing = [each for each in _differing(git, "HEAD") if each[1] not in taken.staged]
    if parents[:1] != ([taken.base] if since else []) or not differing:
        return True
    compared = (taken.base, made) if since else ("--root", "--no-commit-id", made)
    committed = set(_names(git, "diff-tree", "-r", "--name-only", "-z", *compared))
    wrong = {path: blob for blob, path in differing if path in committed or taken.names(path)}
    if late and wrong:
        literal = (f":(top,literal){path}" for path in wrong)
        asked = ("diff", "--name-only", "-z", "--no-ext-diff", "HEAD", "--", *literal)
        for path in _names(git, *asked):
            wrong.pop(path, None)
    lines = (f"{blob}\t{path}\0" for path, blob in wrong.items())
    return _updated(git, ("-z", "--index-info"), "".join(lines))


def _updated(git: Git, how: Sequence[str], lines: str) -> bool:
    if not lines:
        return True
    done = patiently(git, "update-index", *how, stdin=lines.encode())
    return done.returncode == 0


def _differing(git: Git, base: str) -> Iterator[tuple[str, str]]:
    """Paths whose index entry is not that of `base`, each after its mode (or 0) and id there."""
    fields = iter(_names(git, *_STAGED, base))
    for about, path in zip(fields, fields, strict=False):
        mode, _, blob, *_ = about.removeprefix(":").split()
        if _UNREADABLE not in path:
            yield f"{mode if mode.strip('0') else _ABSENT} {blob}", path


def _names(git: Git, *arguments: str) -> list[str]:
    return git(*arguments).stdout.split("\0")[:-1]
