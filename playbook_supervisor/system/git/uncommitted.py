"""The uncommitted changes of a checkout, also those that are hidden from git.

The files are compared as they are. Only for one that differs git is asked whether it still does
once line ends and the person's filters are applied, with a copy of the index that has no flags.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.records import Record
from playbook_supervisor.system.disk.files import TEMPORARY, read_bytes, write_atomically
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import NOW, Checkout, Pinned
from playbook_supervisor.system.git.git_process import SESSIONS_FOLDER, ask, empty_tree
from playbook_supervisor.system.git.tree import Unreadable, tree_of
from playbook_supervisor.system.git.tree_git import TreeGit

_RAW = r":(\d{6}) (\d{6}) ([0-9a-f]+) ([0-9a-f]+) ([A-Z])"
_GITLINK = "160000"
_DIFFERING = ("-z", "--no-renames", "--ignore-submodules=none")
_STAGED = ("diff-index", "--cached", "--name-only", *_DIFFERING)


class Uncommitted(Record):
    """Paths that differ from HEAD, in order, and what cannot be read, in the tree of this id.

    `hidden` are those of the paths that a flag of the index keeps git from committing.
    """

    paths: tuple[str, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    hidden: tuple[str, ...] = ()
    tree: str = ""


def uncommitted(root: Path, pinned: Pinned = NOW) -> Uncommitted:
    """All that is not committed, but for the folders of sessions. Errors as `tree_of`.

    It names what is in submodules, too, and a submodule of which HEAD has another commit.
    """
    here = checkout.find(root)
    tree = tree_of(root, pinned)
    git = TreeGit.of(here, pinned.rules)
    head = here.head or empty_tree(root)
    compared = ("diff-tree", "-r", "--raw", "--no-abbrev", *_DIFFERING)
    fields = git.ask(*compared, head, tree.id).split("\0")[:-1]
    found, edited, modules = set[str](), list[str](), dict[str, str]()
    for field, path in zip(fields[::2], fields[1::2], strict=True):
        match = re.fullmatch(_RAW, field)
        if match is None or path.startswith(f"{SESSIONS_FOLDER}/"):
            continue
        if match[1] == _GITLINK:
            modules[path] = match[3]
        elif match[5] in "AD":
            found.add(path)
        else:
            edited.append(path)
    found = {path for path in found if modules.keys().isdisjoint(map(str, Path(path).parents))}
    for path, commit in modules.items():
        inner = _in_module(root / path, commit)
        found |= {f"{path}/{each}".rstrip("/") for each in inner.paths}
    flagged = _flagged(root, [*edited, *found])
    staged = ask(root, *_STAGED, head, "--").split("\0")[:-1]
    found |= {path for path in staged if not path.startswith(f"{SESSIONS_FOLDER}/")}
    found |= _differing(git, here, edited, flagged)
    hidden = tuple(path for path in flagged if path in found)
    return Uncommitted(tuple(sorted(found)), tree.unreadable, hidden, tree.id)


def _in_module(root: Path, commit: str) -> Uncommitted:
    if not root.is_dir():
        return Uncommitted(("",))
    if not os.path.lexists(root / ".git"):  # it was never fetched
        return Uncommitted(tuple(sorted(each.name for each in root.iterdir())))
    inner = uncommitted(root)
    moved = checkout.find(root).head != commit
    return Uncommitted((*([""] if moved else []), *inner.paths), inner.unreadable)


def _flagged(root: Path, paths: Sequence[str]) -> list[str]:
    if not paths:
        return []
    listed = ask(root, "ls-files", "-z", "-v").split("\0")[:-1]
    marked = {line[2:] for line in listed if line[0] == "S" or line[0].islower()}
    return sorted(marked.intersection(paths))


def _differing(
    git: TreeGit, here: Checkout, paths: Sequence[str], flagged: Sequence[str]
) -> set[str]:
    """Those of the paths whose content or mode git would commit."""
    if not paths:
        return set()
    with _copied_index(here) as index:
        for flag in ("--no-skip-worktree", "--no-assume-unchanged"):
            for path in flagged:
                ask(git.root, "update-index", flag, "--", path, index=index)
        names = index.with_name(f"{index.name}-paths")
        text = "".join(f":(top,literal){path}\0" for path in paths)
        try:
            write_atomically(names, text.encode("utf-8", "surrogateescape"), durable=False)
            listed = (f"--pathspec-from-file={names}", "--pathspec-file-nul")
            settings = [*("-c", "core.ignoreStat=false"), *("-c", "core.sparseCheckout=false")]
            if not (git.git_dir / "config").stat().st_mode & 0o111:  # the disk knows modes
                settings += ["-c", "core.fileMode=true"]
            adding = (*settings, "add", "--force", *listed)
            ask(git.root, *adding, index=index, objects=git.objects)
        finally:
            with suppress(OSError):
                names.unlink()
        differ = ask(git.root, *_STAGED, "HEAD", "--", index=index, objects=git.objects)
    return set(differ.split("\0")[:-1]).intersection(paths)


@contextmanager
def _copied_index(here: Checkout) -> Iterator[Path]:
    """A copy of the user's index with its time, in the git directory: git looks for parts there."""
    index = here.git_dir / f"{TEMPORARY}index-{os.urandom(8).hex()}"
    try:
        with suppress(FileNotFoundError, PlaybookError):
            at = (here.git_dir / "index").stat().st_mtime_ns
            write_atomically(index, read_bytes(here.git_dir / "index"), durable=False)
            os.utime(index, ns=(at, at))  # git reads again what changed at that time or later
        yield index
    finally:
        for left in (index, index.with_name(f"{index.name}.lock")):
            with suppress(OSError):
                left.unlink()
