"""Export the files of a commit that a session needs into a scratch folder.

All checks can then read a commit as they read a checkout. Sessions are left out, and a file that
is too large to read is only given its size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playbook_supervisor.project import config
from playbook_supervisor.project.probes import LARGEST
from playbook_supervisor.records import Record
from playbook_supervisor.system import git
from playbook_supervisor.system.files import write_atomically

_FOLDERS = (".playbooks", ".claude", ".specify", ".features")
_SESSIONS = ".playbooks/sessions/"
_LINK = "120000"


class _Blob(Record):
    """A file of a commit: its mode, object name, size and path."""

    mode: str
    name: str
    size: int
    path: str


@contextmanager
def exported(root: Path, commit: str, extra: Sequence[str] = ()) -> Iterator[Path]:
    """A folder with a commit's playbooks, commands and artifacts, and the files `extra`.

    The commit's own config.yaml names the artifact folders. GitError, or the errors of reading
    that file.
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="playbook-base-") as scratch:
        tree = Path(os.path.realpath(scratch))
        export(root, commit, (*_FOLDERS, *extra), tree)
        settings = config.load(tree)
        artifacts = {settings.specs, settings.agreements, settings.qa}
        export(root, commit, sorted(artifacts - {*_FOLDERS}), tree)
        yield tree


def export(root: Path, commit: str, paths: Sequence[str], tree: Path) -> None:
    """Add these files and folders of the commit, as far as it has them, to the folder. GitError."""
    with git.repository(root) as repo:
        blobs = list(_blobs(repo, commit, paths))
        contents = git.contents(repo, [blob.name for blob in blobs if blob.size <= LARGEST])
    for blob in blobs:
        file = tree / blob.path
        file.parent.mkdir(parents=True, exist_ok=True)
        if blob.size > LARGEST:
            write_atomically(file, b"", durable=False)
            os.truncate(file, blob.size)
        elif blob.mode == _LINK:
            os.symlink(next(contents), os.fsencode(file))  # noqa: PTH211 - the target is bytes
        else:
            write_atomically(file, next(contents), durable=False)


def _blobs(repo: git.Repo, commit: str, paths: Sequence[str]) -> Iterator[_Blob]:
    listed = repo.git.ls_tree("-r", "-z", "--long", "--full-tree", commit, "--", *paths)
    for line in filter(None, listed.split("\0")):
        about, _, path = line.partition("\t")
        mode, _, name, size = about.split()
        if size.isdecimal() and not path.startswith(_SESSIONS):  # a submodule has no size
            yield _Blob(mode, name, int(size), path)
