"""A repository as far as a submission reads it: a commit without history, and a few of its files.

A session is created in a clone in which the other files are missing, and count as unchanged: git
marks them in the index (skip-worktree), so that the first snapshot has them all. The files are
those at the places where settings, playbooks, commands and features are, and every one that these
name (docs/decisions/0226-a-clone-that-shares-the-mirrors-objects.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.fleet.engine.session_ref import (
    Mirror,
    SessionClone,
    making,
    require_branch,
)
from playbook_supervisor.fleet.engine.session_tip import HEADS
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project.settings import config
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.system.disk.files import (
    ensure_folder,
    read_bytes,
    remove,
    write_atomically,
)
from playbook_supervisor.system.git.git_plumbing import Plumbing, checked, git
from playbook_supervisor.system.git.git_process import SESSIONS_FOLDER

_ORIGIN = "refs/remotes/origin/"
_FILTER = "--filter=blob:none"
_OWN = ".playbooks"
_PLACES = (_OWN, ".specify", Config().specs)
"""Folders in which a session is created: git adds no file in a folder that was left out."""
_LARGEST = 1 << 20  # bytes of a file in which names of others are looked for
_MOST = 2_000  # files that are worth fetching because others name them
_WORD = r"[^\s'\"`,;:()\[\]{}<>|=]+"
_SPECIAL = r"([\\*?\[])"
_ATTRIBUTES = "/.gitattributes\0"
_CONVERTED = (
    ":(exclude,attr:!filter !ident !working-tree-encoding !eol)",
    ":(exclude,attr:!filter !ident !working-tree-encoding)",
    ":(attr:eol=crlf)",
)
"""Pathspecs of files that a checkout may write other than they are in the commit. Most repositories
have none of the first kind, which are all of the others and those with `eol=lf`."""
_SHA1 = 40  # digits
_SPARSE = "info/sparse-checkout"
_CONE = tuple(
    word
    for name in ("core.sparseCheckout", "core.sparseCheckoutCone", "index.sparse")
    for word in ("-c", f"{name}=true")
)
"""The index then has one entry for each folder that was left out, if git supports it."""
_LINE_ENDS = r"^core\.(autocrlf|eol)$"


class Excerpt(Mirror):
    """The newest commits of a few branches, whose files come when they are checked out.

    A server that knows no filters sends all files of those commits.
    """

    cloning = ("--depth=1", "--single-branch", "--no-tags", _FILTER)

    def base(self, revision: str = "") -> tuple[str, str]:
        if revision:
            require_branch(revision)
        self._prepare()
        branch = revision or self.default_branch()
        if commit := self.existing(branch) if revision else self.commit(HEADS + branch):
            return commit, branch
        shown = first_line(branch, 80) or "that its HEAD names"
        raise GitError("PB-GIT-BASE", f"{self.url} has no branch {shown}", where=self.url)

    def existing(self, branch: str) -> str:
        ref = HEADS + branch
        if not (there := self.remote.now(ref).get(ref, "")):
            return ""
        if self.commit(ref) != there:
            self.remote.fetch(f"+{ref}:{ref}", options=("--depth=1", _FILTER))
        return self.commit(ref)

    def clone_to(self, path: Path) -> None:
        """Make a repository by hand: git clones none that is shallow without copying it."""
        default = self.default_branch()
        commit = self.commit(HEADS + default)
        form = "sha256" if len(commit) > _SHA1 else "sha1"
        arguments = ("init", "--quiet", "--template=", f"--object-format={form}")
        checked(path, arguments, git(path.parent, *arguments, "--", str(path)))
        own = path / ".git"
        remote = f'[remote "origin"]\n\turl = "{self.url}"\n\tpromisor = true\n'
        made = {
            "config": read_bytes(own / "config") + remote.encode(),
            "objects/info/alternates": os.fsencode(self.folder / "objects") + b"\n",
            f"{_ORIGIN}HEAD": f"ref: {_ORIGIN}{default}\n".encode(),
        }
        with suppress(FileNotFoundError):  # the branch may have a single commit
            made["shallow"] = read_bytes(self.folder / "shallow")
        for name, data in made.items():
            ensure_folder((own / name).parent)
            write_atomically(own / name, data, durable=False)
        if commit:
            refs = (f"update {ref}{default} {commit}\n" for ref in (HEADS, _ORIGIN))
            Plumbing(own, path).ask("update-ref", "--stdin", stdin="".join(refs).encode())


class NarrowClone(SessionClone):
    """A clone with a few files of its commit; the others are marked in the index, as unchanged."""

    def __init__(self, mirror: Mirror, path: Path) -> None:
        super().__init__(mirror, path)
        self._own = Plumbing(self._own.git_dir, path, _CONE)

    def narrow(self, wholly: Collection[str], directly: Collection[str] = ()) -> None:
        """Check out folders of HEAD, before anything has changed: with all that is in them, or with
        their own files alone, as all folders above them."""
        ensure_folder(self._own.git_dir / "info")
        lines = "".join(f"{pattern}\n" for pattern in _cone(wholly, directly))
        write_atomically(self._own.git_dir / _SPARSE, os.fsencode(lines), durable=False)
        remove(self._own.git_dir / "index")  # git 2.39 cannot widen one that is sparse
        how = ("read-tree", "-u", "--reset", self.here().head)
        self._own.ask(*how, **self._mirror.remote.options)
        self._share_index()

    @cached_property
    def folders(self) -> list[str]:
        """The folders at the top of HEAD."""
        listing = ("ls-tree", "-d", "-z", "--name-only", self.here().head)
        return self._own.ask(*listing).split("\0")[:-1]

    @cached_property
    def names(self) -> str:
        """The paths of all files of HEAD, with a NUL before and after each: it is quicker to look
        for a few of them in one text than to take it apart."""
        listing = ("ls-tree", "-r", "-z", "--name-only", self.here().head)
        return "\0" + self._own.ask(*listing)

    def has_file(self, path: str) -> bool:
        return f"\0{path}\0" in self.names

    def has_folder(self, path: str) -> bool:
        return f"\0{path}/" in self.names

    def lacks(self, path: str) -> bool:
        """True if that file or folder is not here, although the commit has it."""
        place = os.path.normpath(path)
        known = self.has_file(place) or self.has_folder(place)
        return bool(path) and known and not os.path.lexists(self.path / place)

    def converts(self) -> bool:
        """True if git may write a file in another way than it is in the commit."""
        line_ends = self._its_git("config", "--get-regexp", _LINE_ENDS).stdout
        if re.search(r"(?m) (true|crlf)$", line_ends):
            return True
        if not self._its_git.ask("ls-files", "--", _CONVERTED[0]):
            return False
        return any(self._its_git.ask("ls-files", "--", each) for each in _CONVERTED[1:])


@contextmanager
def opened(mirror: Mirror) -> Iterator[Mirror]:
    """The mirror if this machine has it already, else an excerpt until the `with` ends."""
    if mirror.is_filled:
        yield mirror
        return
    with TemporaryDirectory(prefix="playbook-excerpt-") as scratch:
        folder = Path(scratch, "mirror.git")
        yield Excerpt(folder, mirror.url, mirror.remote.transports)


@contextmanager
def narrow_clone(mirror: Mirror, commit: str, branch: str) -> Iterator[NarrowClone]:
    """A clone as `Mirror.for_a_while`, without any file yet."""
    with TemporaryDirectory(prefix="playbook-clone-") as scratch:
        clone = NarrowClone(mirror, Path(scratch, "clone"))
        with making(clone):
            clone.head(branch, commit)
        yield clone


def choose(clone: NarrowClone, words: Sequence[str]) -> bool:
    """Let the clone have the files that a submission reads; False if that may be any of them.

    `words` are a person's, who may name files too.
    """
    try:
        return _Choice(clone, words).made()
    except GitError as error:
        if error.code != "PB-GIT-FAILED":
            raise
        return False


class _Choice:
    def __init__(self, clone: NarrowClone, words: Sequence[str]) -> None:
        self._clone, self._words = clone, words

    def made(self) -> bool:
        clone = self._clone
        own = {*_PLACES, *(path for path in clone.folders if path.startswith("."))}
        clone.narrow(own)
        wholly = own | {path for path in self._features() if clone.has_folder(path)}
        named = self._named(own)
        directly = {*map(self._folder_of, named), *self._folders_with_rules()} - {""}
        directly = {path for path in directly if not _is_within(path, wholly)}
        if directly and self._files_in(directly) > _MOST:
            return False
        if directly or wholly > own:
            clone.narrow(wholly, directly)
        if clone.converts():
            return False  # the work tree would differ from the commit
        return not any(map(self._leads_out, self._links(named, wholly)))

    def _features(self) -> Iterator[str]:
        """The folders of features, which the settings name. Errors as `config.load`."""
        with suppress(PlaybookError):  # it is reported when the session is created
            settings = config.load(self._clone.path)
            yield from (settings.specs, settings.agreements, settings.qa)

    def _named(self, own: Collection[str]) -> set[str]:
        """The files and folders that the words, or the files of playbooks and settings, name."""
        known = {*self._clone.folders} - {*own}
        found = set[str]()
        for text in (*self._words, *self._texts()):
            paths = (os.path.normpath(word).rstrip("/.") for word in re.findall(_WORD, text))
            found |= {path for path in paths if path.partition("/")[0] in known}
        return {
            path for path in found if self._clone.has_file(path) or self._clone.has_folder(path)
        }

    def _texts(self) -> Iterator[str]:
        for path in re.findall(rf"\0({re.escape(_OWN)}/[^\0]+)", self._clone.names):
            if not path.startswith(f"{SESSIONS_FOLDER}/"):
                with suppress(OSError, PlaybookError):  # a link
                    file = self._clone.path / path
                    if not file.is_symlink():
                        yield read_bytes(file, limit=_LARGEST).decode("utf-8", "replace")

    def _folder_of(self, path: str) -> str:
        """That of a file; of a folder without files, the first one in it that has some."""
        if self._clone.has_file(path):
            return _parent(path)
        inside = re.escape(path)
        first = re.search(rf"\0({inside})/[^/\0]+\0", self._clone.names)
        found = first or re.search(rf"\0({inside}/[^\0]*)/[^/\0]+\0", self._clone.names)
        return found[1] if found else ""

    def _folders_with_rules(self) -> Iterator[str]:
        for before in self._clone.names.split(_ATTRIBUTES)[:-1]:
            yield before.rpartition("\0")[2]

    def _files_in(self, folders: Collection[str]) -> int:
        return sum(_parent(path) in folders for path in self._clone.names.split("\0"))

    def _links(self, named: Collection[str], wholly: Collection[str]) -> Iterator[str]:
        """The links here that may be followed: at the top, where everything is looked at, and those
        that are named, also by their folder."""
        for folder, folders, files in os.walk(self._clone.path):
            up = os.path.relpath(folder, self._clone.path)
            for name in (*folders, *files):
                path = os.path.normpath(f"{up}/{name}")
                looked_at = up == "." or up in named or path in named or _is_within(up, wholly)
                if looked_at and (self._clone.path / path).is_symlink():
                    yield path

    def _leads_out(self, path: str) -> bool:
        """True if the target of a link is in the commit, and may not be here as a whole."""
        root = os.path.realpath(self._clone.path)
        target = os.path.relpath(os.path.realpath(self._clone.path / path), root)
        if self._clone.has_folder(target):
            return not target.startswith(".")
        return self._clone.lacks(target)


def _cone(wholly: Collection[str], directly: Collection[str]) -> Iterator[str]:
    """The patterns that git's cone mode has for these folders; it knows no patterns of files."""
    wholly = {path for path in wholly if not _is_within(_parent(path), wholly)}
    above = {*directly, *(str(up) for path in (*wholly, *directly) for up in Path(path).parents)}
    yield from ("/*", "!/*/")
    for path in sorted(above - {"", "."}):
        yield from (f"/{_escaped(path)}/", f"!/{_escaped(path)}/*/")
    yield from (f"/{_escaped(path)}/" for path in sorted(wholly))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _is_within(path: str, folders: Collection[str]) -> bool:
    return any(f"{path}/".startswith(f"{each}/") for each in folders)


def _escaped(path: str) -> str:
    return re.sub(_SPECIAL, r"\\\1", path)
