"""Trees and files in our own git objects: read them, and make trees of others' parts.

Nothing in the checkout is read or written.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.system.disk import files
from playbook_supervisor.system.git import git_process
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.git.tree_git import TreeGit

Entry = tuple[str, str]
"""The mode and the id of a file."""
Entries = Mapping[str, Entry]
"""The files of a tree, by path."""

FILE = "100644"
"""The mode of a plain file."""
LINK = "120000"

_GITLINK = "160000"
_AT_ONCE = 16  # files that one process reads: their size together is bounded


class TreeObjects:
    """The objects of a checkout. GitError PB-GIT-FAILED if git lacks what is asked for."""

    def __init__(self, here: Checkout) -> None:
        self._git = TreeGit.for_objects(here)

    def entries(self, tree: str) -> dict[str, Entry]:
        """The files of a tree or commit, but for those of sessions and for submodules."""
        listed = self._git.ask("ls-tree", "-r", "-z", tree).split("\0")[:-1]
        fields = (line.replace("\t", " ", 1).split(" ", 3) for line in listed)
        ours = f"{git_process.SESSIONS_FOLDER}/"
        return {
            path: (mode, id_)
            for mode, _, id_, path in fields
            if mode != _GITLINK and not path.startswith(ours)
        }

    def contents(self, ids: Iterable[str]) -> dict[str, bytes]:
        """The contents of files, by id."""
        wanted = list(dict.fromkeys(ids))
        found: dict[str, bytes] = {}
        for first in range(0, len(wanted), _AT_ONCE):
            some = wanted[first : first + _AT_ONCE]
            said = io.BytesIO(self._fed(("cat-file", "--batch"), some))
            for id_ in some:
                header = said.readline().decode(errors="replace")
                if " blob " not in header:
                    why = first_line(header, 80)
                    raise git_process.failure(self._git.root, ("cat-file", id_), why)
                found[id_] = said.read(int(header.split()[2]) + 1)[:-1]
        return found

    def keep(self, *texts: bytes) -> list[str]:
        """The ids of files with these contents, which are written."""
        with tempfile.TemporaryDirectory(dir=self._git.git_dir, prefix=files.TEMPORARY) as folder:
            paths = [Path(folder, str(number)) for number in range(len(texts))]
            for path, text in zip(paths, texts, strict=True):
                files.write_atomically(path, text, durable=False)
            asked = ("hash-object", "-w", "--no-filters", "--stdin-paths")
            return self._fed(asked, map(str, paths)).decode().split()

    def tree(self, entries: Entries) -> str:
        """The id of a tree with these files, which is written."""
        lines = (f"{mode} {id_}\t{path}\0" for path, (mode, id_) in entries.items())
        with self._scratch() as index:
            if entries:
                asked = ("update-index", "-z", "--index-info")
                self._git.feed(*asked, stdin="".join(lines), index=index)
            else:
                self._git.ask("read-tree", "--empty", index=index)
            return self._git.ask("write-tree", "--missing-ok", index=index).strip()

    def _fed(self, arguments: tuple[str, ...], lines: Iterable[str]) -> bytes:
        with self._scratch() as file:
            text = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
            files.write_atomically(file, text, durable=False)
            ((status, said, why),) = self._git.run(arguments, stdin=file)
        if status != 0:
            raise git_process.failure(self._git.root, arguments, why)
        return said.encode("utf-8", "surrogateescape")

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        file = self._git.git_dir / f"{files.TEMPORARY}{os.urandom(8).hex()}"
        try:
            yield file
        finally:
            files.remove(file)
