"""The index around a commit of named files alone, `git commit --only`.

Git gives its hooks an index of their own. What they format, add or generate there is committed, but
the user's index keeps what was there before, and the next plain commit would put it back. So the
index is made to agree with HEAD afterwards, for what was committed; if we are killed in between,
the next commit does it, by a record that is written before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from playbook_supervisor.errors import StateError
from playbook_supervisor.records import Record, replace
from playbook_supervisor.system.disk.files import (
    ensure_folder,
    read_bytes,
    remove,
    write_atomically,
)
from playbook_supervisor.system.disk.locks import locked
from playbook_supervisor.system.git.git_unattended import patiently
from playbook_supervisor.system.process.cancellation import uncancellable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.system.git.git_unattended import Git

_FOLDER = "commits"
_STAGED = ("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev")
_ABSENT = "0"
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"  # of a name that is not UTF-8


class _Taken(Record):
    """What a commit takes: `named` are files, and folders with a slash at the end.

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
    git: Git, runtime: Path, base: str, named: Sequence[str], new: Sequence[str]
) -> Iterator[None]:
    """The block commits the files named alone on `base`, having added the names of the `new` ones.

    Afterwards the index agrees with HEAD for all that was committed, and other files are staged as
    they were. If nothing was committed, it does not know the new names. `base` is the commit of
    HEAD, empty before the first one. `named` may have folders, with a slash at the end. `git` runs
    in the checkout whose `runtime` this is.
    """
    make_up(git, runtime)
    taken = _Taken(base, tuple(named), tuple(new), ())
    before = base or git("hash-object", "-t", "tree", "--stdin").stdout.strip()
    staged = tuple(path for _, path in _differing(git, before) if not taken.names(path))
    taken = replace(taken, staged=staged)
    record = runtime / _FOLDER / os.urandom(8).hex()
    ensure_folder(record.parent)
    with locked(record.with_suffix(".lock")):
        data = (taken.base, taken.named, taken.new, taken.staged)
        write_atomically(record, json.dumps(data).encode(), durable=False)
        try:
            yield
        finally:
            with uncancellable():
                if _settle(git, taken):
                    _discard(record)


def make_up(git: Git, runtime: Path) -> None:
    """Bring the index in order after commits whose process was killed.

    Only what agrees with HEAD in the checkout is made to agree in the index: a person may have
    staged something since.
    """
    folder = runtime / _FOLDER
    for record in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not record.suffix:
            with suppress(StateError), locked(record.with_suffix(".lock"), timeout=0):
                with suppress(ValueError, TypeError):  # it was cut
                    base, *names = json.loads(read_bytes(record))
                    _settle(git, _Taken(base, *map(tuple, names)), late=True)
                _discard(record)


def _discard(record: Path) -> None:
    remove(record)
    remove(record.with_suffix(".lock"))


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
        for path in _names(
            git, "diff", "--name-only", "-z", "--no-ext-diff", "HEAD", "--", *literal
        ):
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
