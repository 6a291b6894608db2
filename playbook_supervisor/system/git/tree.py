"""The state of a working tree as one id, and what differs between two of them.

The id is that of a git tree object with the files as they are: untracked files included, ignored
ones and the folders of sessions not. The user's index is neither read nor written.

Our index of a checkout is brought up to date so that its tree follows from the files alone. Git
leaves four things to be settled: it takes a nested repository for one entry, remembers what was
not ignored before, ignores what a commit contains once it is not in an index, and does not show
ignore rules that ignore themselves.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISLNK, S_ISREG

from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.formats.sanitize import counted, first_line, printable
from playbook_supervisor.records import Record, as_mapping, replace
from playbook_supervisor.system.disk.files import digest, read_bytes, write_atomically
from playbook_supervisor.system.git import checkout, git_process
from playbook_supervisor.system.git.checkout import NOW, Pinned
from playbook_supervisor.system.git.tree_git import TreeGit

_ID = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_MOST_LINES = 12
_ADD = ("add", "--all", "--ignore-errors", "--", ".", git_process.SESSIONS)
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


class Unreadable(Record):
    """A path that git cannot read, and why; a folder, `data/`, stands for all that is in it."""

    path: str
    why: str

    @property
    def sentence(self) -> str:
        """`pgdata/ cannot be read (Permission denied); make it readable, …`."""
        said = f"{first_line(self.path, 80)} cannot be read ({first_line(self.why, 80)})"
        return f"{said}; make it readable, remove it, or name it in .gitignore"


class Tree(Record):
    """The id of what is in a checkout, but for the paths that cannot be read."""

    id: str
    unreadable: tuple[Unreadable, ...] = ()


class Changed(Record):
    """A file that differs, with the lines added and removed; none are counted in a binary file."""

    path: str
    added: int = 0
    removed: int = 0


class TreeChanges(Record):
    """The files that differ between two trees, by path; a renamed file counts as two."""

    files: tuple[Changed, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)

    @property
    def added(self) -> int:
        return sum(file.added for file in self.files)

    @property
    def removed(self) -> int:
        return sum(file.removed for file in self.files)

    @property
    def summary(self) -> str:
        """`3 files, +120 −8`."""
        return f"{counted(len(self.files), 'file')}, +{self.added} \N{MINUS SIGN}{self.removed}"

    def those(self, wanted: Callable[[str], bool]) -> TreeChanges:
        return TreeChanges(tuple(file for file in self.files if wanted(file.path)))


def pinned_now(root: Path) -> Pinned:
    """The ignore rules, the commit and PATH of this moment, for a session that begins. Errors as
    `tree_of`."""
    here = checkout.find(root)
    git = TreeGit.of(here)
    git.tidy()
    return Pinned(git.rules, here.head, search_path=os.environ.get("PATH", ""))


def tree_of(root: Path, pinned: Pinned = NOW) -> Tree:
    """The tree that is in the checkout at `root` now: a function of the content of its files.

    Submodules and nested repositories are folders like any other; `.git` and the sessions' folders
    are left out. Files that are known to be unchanged are not read. GitError PB-GIT-FAILED;
    StorageError if our own files cannot be written; errors of `checkout.find`.
    """
    here = checkout.find(root)
    git = TreeGit.of(here, pinned.rules)
    heads = tuple(sorted({here.head, pinned.head} - {""}))
    with git_process.understood(root):
        try:
            return _taken(git, heads)
        except GitError:  # something has damaged our index
            git.forget_index()
            return _taken(git, heads)


def tree_id(root: Path, pinned: Pinned = NOW) -> str:
    """The id of the tree of `tree_of`, in full."""
    return tree_of(root, pinned).id


def changes(root: Path, before: str, after: str) -> TreeChanges:
    """The changes between two trees.

    GitError PB-GIT-FAILED if git lacks one of them, as in a clone or after git has removed it.
    """
    for tree in (before, after):
        if not re.fullmatch(_ID, tree):
            raise GitError("PB-GIT-FAILED", f"{tree[:80]!r} is not the id of a tree")
    if before == after:
        return TreeChanges()
    git = TreeGit.for_objects(checkout.find(root))
    compared = ("diff-tree", "-r", "-z", "--no-renames", "--ignore-submodules=none")
    try:
        listed = git.ask(*compared, "--numstat", before, after)
    except GitError:  # the content of a file is gone: it is named all the same
        git.forget_index()
        names = git.ask(*compared, "--name-only", before, after).split("\0")
        return TreeChanges(tuple(Changed(name) for name in names[:-1]))
    with git_process.understood(root):
        return TreeChanges(tuple(_counted(listed)))


def require(root: Path, tree: str, head: str) -> None:
    """GitError with the cure if git does not have a tree of ours, or the commit below it.

    A tree that is gone, or was made by another machine, is made again if the commit has its files.
    """
    require_commit(root, head)
    git = TreeGit.for_objects(checkout.find(root))
    if git.has(f"{tree}^{{tree}}"):
        return
    if head and re.fullmatch(_ID, head):
        with git.index("rebuilt") as index:
            git.ask("read-tree", head, index=index)
            sessions = (git_process.SESSIONS_FOLDER, "--cached", "--quiet", "--ignore-unmatch")
            git.ask("rm", "-r", *sessions, index=index)
            if git.ask("write-tree", "--missing-ok", index=index).strip() == tree:
                return
    message = "what was here when the session began is not known to git"
    cure = f"`git diff {short(head)}` shows what differs from the commit at which it began."
    raise GitError("PB-GIT-FAILED", message, guidance=cure if head else "")


def require_commit(root: Path, commit: str) -> None:
    """GitError with the cure if the repository does not have the commit; none is empty."""
    here = checkout.find(root)
    if not commit or TreeGit.for_objects(here).has(f"{commit}^{{commit}}"):
        return
    message = f"the commit at which the session began, {short(commit)}, is not "
    if (here.common_dir / "shallow").exists():
        where, cure = "in this shallow clone", "`git fetch --unshallow` brings it."
    else:
        where, cure = "in this repository", "`git fetch` brings it if the remote has it."
    raise GitError("PB-GIT-FAILED", message + where, guidance=cure)


def stat(root: Path, since: str, now: str) -> tuple[str, ...]:
    """The changes between two trees, for people: at most twelve lines, the totals last.

    `since` may also be a commit, or empty for no files; sessions are left out. Errors: `changes`.
    """
    git = TreeGit.for_objects(checkout.find(root))
    asked = ("diff", "--stat=80", "--compact-summary", "--find-renames", f"-O{os.devnull}")
    trees = (since or git_process.empty_tree(root), now, "--", git_process.SESSIONS)
    lines = list(map(printable, git.ask(*asked, "--end-of-options", *trees).splitlines()))
    if len(lines) > _MOST_LINES:
        left = len(lines) - _MOST_LINES + 1
        lines[_MOST_LINES - 2 : -1] = [f" … and {left} more"]
    return tuple(lines)


def short(tree: str) -> str:
    """An id as people read it: `9f31c2a`."""
    return tree[:7]


def _counted(listed: str) -> Iterator[Changed]:
    for line in filter(None, listed.split("\0")):
        added, removed, path = line.split("\t", 2)
        yield Changed(path, *(0 if lines == "-" else int(lines) for lines in (added, removed)))


# ── our index ───────────────────────────────────────────────────────────────────────────────


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
        """True if a file has come that git does not show, but that counts."""
        if any(_is_file(root, path) for path in self.absent):
            return True
        return bool(_hidden_rules(root, self.folders, self.rule_files))


def _taken(git: TreeGit, heads: tuple[str, ...]) -> Tree:
    """The tree of the files that are there now; what the commits `heads` contain is not ignored."""
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
    """Add all files, also of nested repositories: tree, what is unreadable, entries if known."""
    for _ in range(100):  # levels of nested repositories
        ((status, _, said),) = git.run(_ADD, index=index)
        nested = re.findall(_NESTED, said)
        unreadable = tuple(_unreadable(said, nested))
        if status not in (0, 1) or (status and not (nested or unreadable or _IGNORED in said)):
            raise git_process.failure(git.root, _ADD, said)
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
        if why != "No such file or directory" and path.rstrip("/") not in nested:
            yield Unreadable(path, why)


# ── what is ignored ─────────────────────────────────────────────────────────────────────────

_Entry = tuple[str, str, str]  # mode, id and path


def _settle(
    git: TreeGit, index: Path, entries: list[_Entry], known: _Known, heads: tuple[str, ...]
) -> tuple[set[str], bool]:
    """Take ignored files out of the index, and what counts all the same in.

    The paths that count although they are ignored, and whether the index was changed.
    """
    paths = {path for _, _, path in entries}
    forced, dropped = set(known.forced), set[str]()
    if known.rules != _rules(entries, heads):
        in_index = ("ls-files", "--cached", "--ignored", "--exclude-standard", "-z")
        in_heads = (("ls-tree", "-r", "-z", "--name-only", head) for head in heads)
        ignored, *committed = git.asked(in_index, *in_heads, index=index)
        hidden = set(_split(ignored))
        tracked = {path for listed in committed for path in _split(listed)}
        dropped = hidden - tracked
        forced = (tracked & hidden) | (tracked - paths)
        forced = {path for path in forced if not path.startswith(f"{git_process.SESSIONS_FOLDER}/")}
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
    found = {path.rpartition("/")[0] for _, _, path in entries if not _is_rule_file(path)}
    for folder in list(found):
        while folder:
            folder = folder.rpartition("/")[0]
            found.add(folder)
    return tuple(sorted(found))


def _is_file(root: Path, path: str) -> bool:
    """True if git can add it: a file or a link, in no folder that is a symbolic link."""
    file = root / path
    try:
        mode = file.lstat().st_mode
    except OSError:
        return False
    plain = file.parent.resolve() == root.resolve() / Path(path).parent
    return plain and (S_ISREG(mode) or S_ISLNK(mode))


def _entries(git: TreeGit, index: Path) -> list[_Entry]:
    listed = _split(git.ask("ls-files", "--stage", "-z", index=index))
    fields = (line.replace("\t", " ", 1).split(" ", 3) for line in listed)
    return [(mode, id_, path) for mode, id_, _, path in fields]


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
