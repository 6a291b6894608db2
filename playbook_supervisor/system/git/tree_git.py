"""Git in a git directory of ours, for which the files of the checkout are bytes and nothing else.

It has its own settings, attributes and ignore rules, and an index and objects of its own; it reads
the objects of the repository as well. So no setting, flag, filter, hook or attribute of the user's
or of the repository's has a say in what it sees. All of it is written again where it is not ours.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.records import Record
from playbook_supervisor.system.disk import files
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.git.git_process import ask, failure, outputs
from playbook_supervisor.system.git.git_programs import Runs, command, environment

_FOLDER = "tree"
_NO_RULES = "none"  # in place of their digest
_RULES = 24  # digits of the digest of ignore rules
_SHA256 = 64  # digits of an id
_SECONDS = 120.0  # for git to read what is new
_ABANDONED = 3600.0  # seconds after which the index of a killed process is removed
_KEPT = "2.weeks.ago"  # objects that nothing refers to
_MANY = 27  # loose objects in one of 256 folders, as in git's own `gc --auto`
_CONFIG = f"""\
[core]
	repositoryFormatVersion = {{version}}
	bare = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	protectHFS = false
	protectNTFS = false
	autoCRLF = false
	safeCRLF = false
	untrackedCache = false
	splitIndex = false
	sparseCheckout = false
	excludesFile = {os.devnull}
	attributesFile = {os.devnull}
	compression = 1
	bigFileThreshold = 8m
[advice]
	addIgnoredFile = false
{{extensions}}"""
_EXTENSIONS = "[extensions]\n\tobjectFormat = sha256\n"
_ATTRIBUTES = "* -text -crlf !eol -filter -ident !working-tree-encoding !diff !merge !whitespace\n"


class TreeGit(Record):
    """Git for the files of a checkout; `git_dir` is named for the ignore rules that hold there."""

    root: Path
    git_dir: Path
    objects: Path

    @property
    def rules(self) -> str:
        """The digest of the ignore rules."""
        return self.git_dir.name

    @classmethod
    def of(cls, here: Checkout, rules: str = "") -> TreeGit:
        """That with these ignore rules, or with those that hold now.

        GitError PB-GIT-FAILED if the rules are gone; StorageError if it cannot be written.
        """
        folder = here.runtime / _FOLDER
        git = cls(here.root, folder / (rules or _NO_RULES), folder / "objects")
        excluded = _text(git.git_dir / "info" / "exclude") if rules else ""
        if not rules or _name(excluded) != rules:
            excluded = _rules_now(here)
            if rules and _name(excluded) != rules:
                said = "the ignore rules that held when the session began are gone"
                raise GitError("PB-GIT-FAILED", said, where=str(git.git_dir))
            git = cls(here.root, folder / _name(excluded), folder / "objects")
        git._furnish(here, excluded)
        return git

    @classmethod
    def apart(cls, here: Checkout, root: Path, git_dir: Path) -> TreeGit:
        """That for another folder, `root`, with the objects of a checkout, and no ignore rules."""
        git = cls(root, git_dir, here.runtime / _FOLDER / "objects")
        git._furnish(here, "")
        return git

    @classmethod
    def for_objects(cls, here: Checkout) -> TreeGit:
        """That for questions about objects, in which ignore rules have no say."""
        return cls.apart(here, here.root, here.runtime / _FOLDER / _NO_RULES)

    def _furnish(self, here: Checkout, excluded: str) -> None:
        if not (self.objects / "info" / "alternates").exists():
            self.forget_index()
        sha256 = _is_sha256(here)
        config = _CONFIG.format(version=int(sha256), extensions=_EXTENSIONS if sha256 else "")
        for file, text in (
            (self.objects / "info" / "alternates", f"{here.common_dir / 'objects'}\n"),
            (self.git_dir / "info" / "attributes", _ATTRIBUTES),
            (self.git_dir / "info" / "exclude", excluded),
            (self.git_dir / "config", config),
            (self.git_dir / "HEAD", "ref: refs/heads/none\n"),
        ):
            if _text(file) != text:
                files.ensure_folder(file.parent)
                files.write_atomically(file, text.encode("utf-8", "surrogateescape"), durable=False)
        files.ensure_folder(self.git_dir / "refs")

    def run(
        self, *commands: Sequence[str], index: Path | None = None, stdin: Path = Path(os.devnull)
    ) -> list[tuple[int, str, str]]:
        """Run commands at the same time: exit status, stdout, stderr of each. Errors as `ask`."""
        argvs = [[*self.argv, *arguments] for arguments in commands]
        variables = self.environment | ({"GIT_INDEX_FILE": str(index)} if index else {})
        asked = (self.root, argvs, commands[0], variables)
        done = outputs(*asked, seconds=_SECONDS, stdin=str(stdin))
        return [(status, _decoded(stdout), _decoded(stderr)) for status, stdout, stderr in done]

    def ask(self, *arguments: str, index: Path | None = None) -> str:
        """The output of a command. GitError PB-GIT-FAILED with git's own words."""
        return self.asked(arguments, index=index)[0]

    def asked(self, *commands: Sequence[str], index: Path | None = None) -> list[str]:
        """The outputs of several commands, run at the same time. Errors as `ask`."""
        done = self.run(*commands, index=index)
        for arguments, (status, _, stderr) in zip(commands, done, strict=True):
            if status != 0:
                raise failure(self.root, arguments, stderr)
        return [stdout for _, stdout, _ in done]

    def has(self, name: str) -> bool:
        """True if there is an object of that name and kind: `9f31c2a…^{tree}`."""
        ((status, _, _),) = self.run(("cat-file", "-e", "--end-of-options", name))
        return status == 0

    def feed(self, *arguments: str, stdin: str, index: Path) -> None:
        """Run a command that reads what to change in an index. Errors as `ask`."""
        file = index.with_name(f"{index.name}-stdin")
        try:
            files.write_atomically(file, stdin.encode("utf-8", "surrogateescape"), durable=False)
            ((status, _, stderr),) = self.run(arguments, index=index, stdin=file)
        finally:
            files.remove(file)
        if status != 0:
            raise failure(self.root, arguments, stderr)

    @property
    def argv(self) -> list[str]:
        where = (f"--git-dir={self.git_dir}", f"--work-tree={self.root}")
        return [*command(None, Runs.NOTHING), "-C", str(self.root), *where]

    @property
    def environment(self) -> dict[str, str]:
        ours = {
            "GIT_COMMON_DIR": str(self.git_dir),
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "HOME": str(self.git_dir),  # git before 2.32 knows no GIT_CONFIG_GLOBAL
            "XDG_CONFIG_HOME": str(self.git_dir),
        }
        return environment(Runs.NOTHING) | ours

    @contextmanager
    def index(self, name: str = "index") -> Iterator[Path]:
        """An index to work with, which takes the place of the last one if all goes well.

        It begins as a link to that: git renames what it writes. So processes do not wait for each
        other, and one that is killed leaves the last index as it was.
        """
        self._remove_abandoned()
        kept, own = self.git_dir / name, self.git_dir / f"{files.TEMPORARY}{os.urandom(8).hex()}"
        try:
            with suppress(FileNotFoundError):
                os.link(kept, own)
            before = _inode(own)
            yield own
            if _inode(own) != before:
                try:
                    own.replace(kept)
                except OSError as error:
                    raise files.unwritable("cannot write", kept, error) from error
        finally:
            for left in (own, own.with_name(f"{own.name}.lock")):
                with suppress(OSError):
                    left.unlink()

    def forget_index(self) -> None:
        """Remove the index: all files are read again, and objects that are gone are written."""
        for index in self.objects.parent.glob("*/index"):
            files.remove(index)

    def tidy(self) -> None:
        """Remove objects that nothing has needed for two weeks, if there are many."""
        with suppress(OSError, PlaybookError):
            if sum(1 for _ in (self.objects / "17").iterdir()) > _MANY:
                self.run(("prune", f"--expire={_KEPT}"))

    def _remove_abandoned(self) -> None:
        before = time.time() - _ABANDONED
        with suppress(OSError):
            for left in self.git_dir.glob(f"{files.TEMPORARY}*"):
                if left.lstat().st_ctime < before:
                    left.unlink()


def _rules_now(here: Checkout) -> str:
    """The person's own ignore rules, then those of the repository that no commit contains."""
    try:
        named = ask(here.root, "config", "--type=path", "--get", "core.excludesFile").strip("\n")
    except PlaybookError:  # it is not set
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        named = f"{base}/git/ignore"
    both = (here.root / named, here.common_dir / "info" / "exclude")
    lines = [line for file in both for line in _text(file).splitlines()]
    return "".join(f"{line}\n" for line in lines if line.strip() and not line.startswith("#"))


def _name(rules: str) -> str:
    return files.digest(rules.encode("utf-8", "surrogateescape"))[:_RULES]


def _text(file: Path) -> str:
    try:
        return _decoded(files.read_bytes(file))
    except (OSError, PlaybookError):
        return ""


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _is_sha256(here: Checkout) -> bool:
    if here.head:
        return len(here.head) == _SHA256
    config = _text(here.common_dir / "config")
    return bool(re.search(r"(?im)^\s*objectformat\s*=\s*sha256\s*$", config))


def _inode(file: Path) -> int:
    try:
        return file.lstat().st_ino
    except FileNotFoundError:
        return 0
