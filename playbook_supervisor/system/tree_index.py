"""Brings our index of a checkout up to date, so that its tree follows from the files alone.

Git leaves four things to be settled: it takes a nested repository for one entry, remembers what was
not ignored before, ignores what a commit contains once it is not in an index, and does not show
ignore rules that ignore themselves.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.records import Record, as_mapping, replace
from playbook_supervisor.system.files import digest, read_bytes, write_atomically
from playbook_supervisor.system.git_process import SESSIONS_FOLDER, failure
from playbook_supervisor.system.tree_git import TreeGit

_ADD = ("add", "--all", "--ignore-errors", "--", ".", f":(exclude,top){SESSIONS_FOLDER}")
_MOST_ROUNDS = 100  # levels of nested repositories
_GITLINK = "160000"
_RULES = ".gitignore"
_BELOW = ".playbook-tmp-nested"  # an entry below a folder makes git look into it
_EMPTY = {
    40: "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    64: "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
}
_MEMO = "known.json"
_UNREADABLE = r"""(?xms)
    ^error:\ (?:open|readlink)\("(?P<file>.*?)"\):\ (?P<file_why>[^\n]*)$
    | ^warning:\ could\ not\ open\ directory\ '(?P<folder>.*?)/?':\ (?P<folder_why>[^\n]*)$
    | ^error:\ invalid\ path\ '(?P<invalid>.*?)'$
    | ^error:\ unable\ to\ (?:index\ file|add)\ '(?P<other>.*?)'(?:\ to\ index)?$
"""
_NESTED = r"(?ms)^error: '(.*?)/?' does not have a commit checked out$"
_IGNORED = "paths are ignored by one of your .gitignore files"  # the sessions' folder
_GONE = "No such file or directory"


class Unreadable(Record):
    """A path that git cannot read, and why; a folder, `data/`, stands for all that is in it."""

    path: str
    why: str

    @property
    def sentence(self) -> str:
        """`pgdata/ cannot be read (Permission denied); make it readable, …`."""
        from playbook_supervisor.formats.sanitize import first_line

        said = f"{first_line(self.path, 80)} cannot be read ({first_line(self.why, 80)})"
        return f"{said}; make it readable, remove it, or name it in .gitignore"


class Tree(Record):
    """The id of what is in a checkout, but for the paths that cannot be read."""

    id: str
    unreadable: tuple[Unreadable, ...] = ()


class _Known(Record):
    """A tree that was settled: nothing has to be done if it is the tree again.

    `rules` stands for what decides about what is ignored. `folders` are those with files in the
    tree, `rule_files` its `.gitignore` files, `forced` the files that count although they are
    ignored, and `absent` those of them that were not there. `index` says which file the index was:
    if it is the same, git need not be asked for its tree.
    """

    tree: str = ""
    heads: tuple[str, ...] = ()
    rules: str = ""
    folders: tuple[str, ...] = ()
    rule_files: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    index: str = ""

    def write(self, git: TreeGit) -> None:
        text = json.dumps(as_mapping(self), ensure_ascii=True)
        write_atomically(git.git_dir / _MEMO, text.encode(), durable=False)

    def hides(self, root: Path) -> bool:
        """Whether a file has come that git does not show, but that counts."""
        if any(_is_file(root, path) for path in self.absent):
            return True
        return bool(_hidden_rules(root, self.folders, self.rule_files))


def taken(git: TreeGit, heads: tuple[str, ...]) -> Tree:
    """The tree of the files that are there now; what the commits `heads` contain is not ignored.

    GitError PB-GIT-FAILED, StorageError.
    """
    known = _read(git.git_dir / _MEMO)
    with git.index() as index:
        tree, unreadable, entries = _added(git, index, known, heads)
        if (known.tree, known.heads) == (tree, heads) and not known.hides(git.root):
            if known.index != _stamp(index):  # git has read files again that had not changed
                replace(known, index=_stamp(index)).write(git)
            return Tree(tree, unreadable)
        entries = entries or _entries(git, index)
        forced, changed = _settle(git, index, entries, known, heads)
        if changed:
            tree = _written(git, index)
            entries = _entries(git, index)
        stamp = _stamp(index)
    settled = _Known(
        tree,
        heads,
        _rules(entries, heads),
        _folders(entries),
        tuple(path for _, _, path in entries if _is_rule_file(path)),
        tuple(sorted(forced)),
        tuple(sorted(forced - {path for _, _, path in entries})),
        stamp,
    )
    settled.write(git)
    return Tree(tree, unreadable)


def _added(
    git: TreeGit, index: Path, known: _Known, heads: tuple[str, ...]
) -> tuple[str, tuple[Unreadable, ...], list[_Entry]]:
    """Add all files, also those in nested repositories; the tree, and what cannot be read.

    With the entries of the index if they were needed.
    """
    for _ in range(_MOST_ROUNDS):
        ((status, _, said),) = git.run(_ADD, index=index)
        nested = re.findall(_NESTED, said)
        unreadable = tuple(_unreadable(said, nested))
        if status not in (0, 1) or (status and not (nested or unreadable or _IGNORED in said)):
            raise failure(git.root, _ADD, said)
        if not nested and known.tree and known.index == _stamp(index):
            return known.tree, unreadable, []
        tree = _written(git, index)
        if not nested and (tree, heads) == (known.tree, known.heads):
            return tree, unreadable, []
        entries = _entries(git, index)
        nested += [path for mode, _, path in entries if mode == _GITLINK]
        if not nested:
            return tree, unreadable, entries
        lines = (
            f"0 {'0' * len(tree)}\t{path}\x00100644 {_EMPTY[len(tree)]}\t{path}/{_BELOW}\0"
            for path in dict.fromkeys(nested)
        )
        git.feed("update-index", "-z", "--index-info", stdin="".join(lines), index=index)
    raise GitError("PB-GIT-FAILED", "too many repositories are nested", where=str(git.root))


def _written(git: TreeGit, index: Path) -> str:
    tree = git.ask("write-tree", "--missing-ok", index=index).strip()
    if not re.fullmatch(r"[0-9a-f]{40,64}", tree):
        raise ValueError(f"{tree[:80]!r} is not the id of a tree")
    return tree


def _unreadable(said: str, nested: Sequence[str]) -> Iterator[Unreadable]:
    found: dict[str, str] = {}
    for match in re.finditer(_UNREADABLE, said):
        folder = match["folder"] and f"{match['folder']}/"
        path = match["file"] or folder or match["invalid"] or match["other"] or ""
        why = match["file_why"] or match["folder_why"] or ""
        why = why or ("git allows no such name" if match["invalid"] else "git does not say why")
        found.setdefault(path, why)
    for path, why in found.items():
        if why != _GONE and path.rstrip("/") not in nested:
            yield Unreadable(path, why)


# ── what is ignored ─────────────────────────────────────────────────────────────────────────

_Entry = tuple[str, str, str]
"""Mode, id and path."""


def _settle(
    git: TreeGit, index: Path, entries: list[_Entry], known: _Known, heads: tuple[str, ...]
) -> tuple[set[str], bool]:
    """Take ignored files out of the index, and what counts all the same in.

    The paths that count although they are ignored, and whether the index was changed.
    """
    paths = {path for _, _, path in entries}
    forced, dropped = set(known.forced), set[str]()
    if known.rules != _rules(entries, heads):
        ignored, *committed = git.asked(
            ("ls-files", "--cached", "--ignored", "--exclude-standard", "-z"),
            *(("ls-tree", "-r", "-z", "--name-only", head) for head in heads),
            index=index,
        )
        hidden = set(_split(ignored))
        tracked = {path for listed in committed for path in _split(listed)}
        dropped = hidden - tracked
        forced = (tracked & hidden) | (tracked - paths)
        forced = {path for path in forced if not path.startswith(f"{SESSIONS_FOLDER}/")}
    left = [entry for entry in entries if entry[2] not in dropped]
    rule_files = set(_hidden_rules(git.root, _folders(left), ()))
    added = sorted((rule_files | {path for path in forced if _is_file(git.root, path)}) - paths)
    dropped -= rule_files
    _feed_paths(git, "--force-remove", sorted(dropped), index)
    _feed_paths(git, "--add", added, index)
    return forced, bool(dropped or added)


def _feed_paths(git: TreeGit, how: str, paths: Sequence[str], index: Path) -> None:
    if paths:
        text = "".join(f"{path}\0" for path in paths)
        git.feed("update-index", how, "-z", "--stdin", stdin=text, index=index)


def _hidden_rules(root: Path, folders: Iterable[str], known: Iterable[str]) -> list[str]:
    """The `.gitignore` files beside files of the tree that are not in the tree themselves."""
    there = set(known)
    top = os.fspath(root)  # a tree may have thousands of folders
    files = (f"{folder}/{_RULES}" if folder else _RULES for folder in folders)
    found = [file for file in files if os.path.lexists(f"{top}/{file}") and file not in there]
    return [file for file in found if _is_file(root, file)]


def _rules(entries: Iterable[_Entry], heads: tuple[str, ...]) -> str:
    texts = sorted(f"{id_} {path}" for _, id_, path in entries if _is_rule_file(path))
    return digest("\n".join((*heads, *texts)).encode("utf-8", "surrogateescape"))


def _is_rule_file(path: str) -> bool:
    return path == _RULES or path.endswith(f"/{_RULES}")


def _folders(entries: Iterable[_Entry]) -> tuple[str, ...]:
    """The folders that have files in the tree, at any depth."""
    found = {path.rpartition("/")[0] for _, _, path in entries if not _is_rule_file(path)}
    for folder in list(found):
        while folder:
            folder = folder.rpartition("/")[0]
            found.add(folder)
    return tuple(sorted(found))


def _is_file(root: Path, path: str) -> bool:
    """Whether git can add it: a file or a link, in no folder that is a symbolic link."""
    file = root / path
    try:
        mode = file.lstat().st_mode
    except OSError:
        return False
    plain = file.parent.resolve() == root.resolve() / Path(path).parent
    return plain and (stat.S_ISREG(mode) or stat.S_ISLNK(mode))


def _entries(git: TreeGit, index: Path) -> list[_Entry]:
    listed = _split(git.ask("ls-files", "--stage", "-z", index=index))
    return [
        (mode, id_, path)
        for line in listed
        for head, _, path in [line.partition("\t")]
        for mode, id_, _ in [head.split(" ")]
    ]


def _stamp(index: Path) -> str:
    """Stands for the file: git never writes one twice. Empty if there is none."""
    with suppress(FileNotFoundError):
        found = index.stat()
        return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"
    return ""


def _split(listed: str) -> list[str]:
    return listed.split("\0")[:-1]


def _read(file: Path) -> _Known:
    with suppress(OSError, PlaybookError, ValueError, TypeError, KeyError):
        shape = json.loads(read_bytes(file))
        names = ("heads", "folders", "rule_files", "forced", "absent")
        lists = {name: tuple(map(str, shape[name])) for name in names}
        tree, rules, index = (str(shape[name]) for name in ("tree", "rules", "index"))
        return _Known(tree, rules=rules, index=index, **lists)
    return _Known()
