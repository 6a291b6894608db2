"""What a commit holds of all that a session rests on, laid out in a scratch folder.

So every room can look at a commit as it looks at a checkout, before anything is checked out. It
is gone with the `with`. The sessions' own folders are left out, and a file that is too large to be
looked at is only as large as it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playbook_supervisor.project import config
from playbook_supervisor.project.conditions import LARGEST
from playbook_supervisor.records import Record
from playbook_supervisor.system import git
from playbook_supervisor.system.files import write_atomically

_FOLDERS = (".playbooks", ".claude", ".specify", ".features")
_SESSIONS = ".playbooks/sessions/"
_LINK = "120000"


class _Blob(Record):
    """A file of a commit: its kind, the name of its content, how large that is, and its path."""

    mode: str
    name: str
    size: int
    path: str


@contextmanager
def laid_out(root: Path, commit: str, also: Sequence[str] = ()) -> Iterator[Path]:
    """The folder in which playbooks, commands and artifacts of a commit stand, and files `also`.

    Which folders hold artifacts is for the commit's own config.yaml to say. GitError, and what
    reading that file raises.
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="playbook-base-") as scratch:
        tree = Path(os.path.realpath(scratch))
        _lay(root, commit, (*_FOLDERS, *also), tree)
        settings = config.load(tree)
        artifacts = {settings.specs, settings.agreements, settings.qa}
        _lay(root, commit, sorted(artifacts - {*_FOLDERS}), tree)
        yield tree


def _lay(root: Path, commit: str, paths: Sequence[str], tree: Path) -> None:
    with git.repository(root) as repo:
        blobs = list(_blobs(repo, commit, paths))
        small = [blob.name for blob in blobs if blob.size <= LARGEST]
        contents = git.contents(repo, small)
    for blob in blobs:
        file = tree / blob.path
        file.parent.mkdir(parents=True, exist_ok=True)
        if blob.size > LARGEST:
            write_atomically(file, b"", durable=False)
            os.truncate(file, blob.size)
        elif blob.mode == _LINK:
            os.symlink(next(contents), os.fsencode(file))  # noqa: PTH211 - it leads to bytes
        else:
            write_atomically(file, next(contents), durable=False)


def _blobs(repo: git.Repo, commit: str, paths: Sequence[str]) -> Iterator[_Blob]:
    listed = repo.git.ls_tree("-r", "-z", "--long", "--full-tree", commit, "--", *paths)
    for line in filter(None, listed.split("\0")):
        about, _, path = line.partition("\t")
        mode, _, name, size = about.split()
        if size.isdecimal() and not path.startswith(_SESSIONS):  # a submodule has no size
            yield _Blob(mode, name, int(size), path)
