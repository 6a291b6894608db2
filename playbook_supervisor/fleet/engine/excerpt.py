"""A repository as far as a submission reads it: a commit without history, and a few of its files.

A session is created in a clone in which the other files are missing, and count as unchanged: git
marks them in the index (skip-worktree), so that the first snapshot has them all. The files are
those at the places where settings, playbooks, commands and features are, and every one that these
name (docs/decisions/0226-a-clone-that-shares-the-mirrors-objects.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
from playbook_supervisor.system.disk.files import ensure_folder, read_bytes, write_atomically
from playbook_supervisor.system.git.git_plumbing import Plumbing, checked, git
from playbook_supervisor.system.git.git_process import SESSIONS_FOLDER

_ORIGIN = "refs/remotes/origin/"
_FILTER = "--filter=blob:none"
_SPECS = Config().specs
_TOP = ("/*", "!/*/", "/.*/", f"/{_SPECS}/", ".gitattributes", ".gitignore")
"""The files of the root, all folders there whose names begin with a dot, and the rules of git."""
_OWN = ".playbooks"
_LARGEST = 1 << 20  # bytes of a file in which names of others are looked for
_MOST = 2_000  # files that are worth choosing
_WORD = r"[^\s'\"`,;:()\[\]{}<>|=]+"
_SPECIAL = r"([\\*?\[])"
_LINK = "120000"
_CONVERTED = (
    ":(exclude,attr:!filter !ident !working-tree-encoding !eol)",
    ":(exclude,attr:!filter !ident !working-tree-encoding)",
    ":(attr:eol=crlf)",
)
"""Pathspecs of files that a checkout may write other than they are in the commit. Most repositories
have none of the first kind, which are all of the others and those with `eol=lf`."""
_SHA1 = 40  # digits
_SPARSE = "info/sparse-checkout"
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

    def narrow(self, patterns: Sequence[str]) -> None:
        """Have the files of HEAD that match these patterns of gitignore, and no others. Only before
        anything has changed."""
        ensure_folder(self._own.git_dir / "info")
        lines = "".join(f"{pattern}\n" for pattern in patterns)
        write_atomically(self._own.git_dir / _SPARSE, os.fsencode(lines), durable=False)
        how = ("-c", "core.sparseCheckout=true", "read-tree", "-u", "--reset", self.here().head)
        self._own.ask(*how, **self._mirror.remote.options)
        self._share_index()

    def listed(self) -> dict[str, tuple[bool, str]]:
        """Path → whether it is here, and mode, of all that the next snapshot has unchanged."""
        entries = self._own.ask("ls-files", "-t", "--stage", "-z").split("\0")[:-1]
        split = (entry.partition("\t") for entry in entries)
        return {path: (about[0] != "S", about[2:8]) for about, _, path in split}

    def lacks(self, path: str) -> bool:
        """True if that file or folder is not here, although the commit has it."""
        place = os.path.normpath(path)
        if not path or os.path.lexists(self.path / place):
            return False
        return any(f"{each}/".startswith(f"{place}/") for each in self.listed())

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
        self._listed: dict[str, tuple[bool, str]] = {}
        self._folders: set[str] = set()

    def made(self) -> bool:
        self._clone.narrow(_TOP)
        if self._clone.converts():
            return False  # the work tree would differ from the commit
        self._listed = self._clone.listed()
        for path in self._listed:
            while (path := path.rpartition("/")[0]) and path not in self._folders:
                self._folders.add(path)
        more = [f"{each}/" for each in self._features() if each in self._folders]
        more = [path for path in (*more, *self._named()) if not _is_at_top(path)]
        if len(more) > _MOST:
            return False
        if more:
            self._clone.narrow((*_TOP, *(f"/{_escaped(path)}" for path in more)))
            self._listed = self._clone.listed()
        return not any(map(self._leads_out, self._links()))

    def _features(self) -> Iterator[str]:
        """The folders of features, which the settings name. Errors as `config.load`."""
        with suppress(PlaybookError):  # it is reported when the session is created
            settings = config.load(self._clone.path)
            yield from (settings.specs, settings.agreements, settings.qa)

    def _named(self) -> list[str]:
        """The files that the words name, or the files of playbooks and settings; of a folder, the
        files directly in it, and one at least."""
        texts = [*self._words, *self._texts()]
        found = dict[str, None]()
        folders = set[str]()
        for text in texts:
            for word in re.findall(_WORD, text):
                path = os.path.normpath(word).rstrip("/.")
                if path in self._listed:
                    found[path] = None
                elif path in self._folders:
                    folders.add(path)
        inner = [path for path in self._listed if path.rpartition("/")[0] in folders]
        found |= dict.fromkeys(inner)
        for folder in folders - {path.rpartition("/")[0] for path in inner}:
            found[next(path for path in self._listed if path.startswith(f"{folder}/"))] = None
        return list(found)

    def _texts(self) -> Iterator[str]:
        for path in self._listed:
            if path.startswith(f"{_OWN}/") and not path.startswith(f"{SESSIONS_FOLDER}/"):
                with suppress(OSError, PlaybookError):  # a link
                    file = self._clone.path / path
                    if not file.is_symlink():
                        yield read_bytes(file, limit=_LARGEST).decode("utf-8", "replace")

    def _links(self) -> Iterator[str]:
        return (path for path, (here, mode) in self._listed.items() if here and mode == _LINK)

    def _leads_out(self, path: str) -> bool:
        """True if the target of a link is in the commit, and may not be here as a whole."""
        root = os.path.realpath(self._clone.path)
        target = os.path.relpath(os.path.realpath(self._clone.path / path), root)
        if target in self._listed:
            return not os.path.lexists(self._clone.path / target)
        return not target.startswith(".") and target in self._folders


def _is_at_top(path: str) -> bool:
    return "/" not in path or path.startswith((".", f"{_SPECS}/"))


def _escaped(path: str) -> str:
    return re.sub(_SPECIAL, r"\\\1", path)
