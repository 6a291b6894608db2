"""Puts the files of a checkout, and its branch, back to what they were at an earlier moment.

What stood there is kept first, as a commit behind a reference of ours: nothing is lost. Files that
git ignores, submodules and the sessions' folders are not touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.errors import GitError
from playbook_supervisor.system.git import checkout, tree
from playbook_supervisor.system.git.checkout import NOW, Checkout, Pinned
from playbook_supervisor.system.git.git_plumbing import Plumbing
from playbook_supervisor.system.git.git_process import (
    SESSIONS,
    commit_of,
    commits_between,
    is_ancestor,
)
from playbook_supervisor.system.git.tree_git import TreeGit

REFERENCES = "refs/playbook/undone"


@dataclass(frozen=True, slots=True)
class Undone:
    """What was put back: files, and commits that are no longer on the branch. `kept` is the
    reference behind which all that stood there is; empty if nothing had changed."""

    files: int = 0
    commits: int = 0
    kept: str = ""

    @property
    def said(self) -> str:
        if not self.kept:
            return "nothing had changed"
        counts = {"file": self.files, "commit": self.commits}
        parts = [f"{n} {word}{'s' * (n != 1)}" for word, n in counts.items() if n]
        return f"{' and '.join(parts) or 'all'} put back; what stood there is kept: {self.kept}"


def undo(root: Path, before: str, head: str, name: str, pinned: Pinned = NOW) -> Undone:
    """Put back the tree `before` and the commit `head`; `name` names what is kept.

    GitError PB-GIT-FAILED, and nothing is changed, if they are not known, if the branch no longer
    has that commit, or if a commit that would go is on a remote.
    """
    if not before:
        raise GitError("PB-GIT-FAILED", "what was there at its launch is not known")
    here = checkout.find(root)
    tree.require(root, before, head)
    git, ours = Plumbing(here.git_dir, root), TreeGit.of(here, pinned.rules)
    commits = _commits(git, here, head)
    now, reference = tree.tree_id(root, pinned), f"{REFERENCES}/{name}"
    stood = commit_of(root, reference)  # by a process that did not end
    if not stood:
        if now == before and not commits:
            return Undone()
        stood = _keep(git, ours, here, now, reference)
    with ours.index("undone") as index:
        ours.ask("read-tree", now, index=index)
        ours.run(("update-index", "-q", "--refresh"), index=index)
        ours.ask("read-tree", "-m", "-u", now, before, index=index)
    if commits:
        git.ask("update-ref", "-m", f"playbook: undo {name}", "HEAD", head, here.head)
    was, _, tip = git.ask("rev-parse", f"{stood}^{{tree}}", f"{stood}^@").strip().partition("\n")
    paths = {file.path for file in tree.changes(root, was, before).files}
    since = (f"{head}..{tip}", "--", SESSIONS) if tip and head else ()
    committed = git.ask("diff", "--name-only", "-z", since[0]).split("\0") if since else []
    _unstage(git, paths.union(committed) - {""})
    number = int(git.ask("rev-list", "--count", *since)) if since else 0
    return Undone(len(paths), number, reference)


def _commits(git: Plumbing, here: Checkout, head: str) -> list[str]:
    if here.head == head:
        return []
    if not head or not is_ancestor(here.root, head, here.head):
        said = "the branch no longer has the commit that was checked out at its launch"
        raise GitError("PB-GIT-FAILED", said)
    if not commits_between(here.root, head):
        return []
    commits = git.ask("rev-list", f"{head}..{here.head}").split()
    asked = ("--count=1", "--format=%(refname:lstrip=2)", "--contains", commits[-1])
    if where := git.ask("for-each-ref", *asked, "refs/remotes").strip():
        said = f"its commit {tree.short(commits[-1])} is already on {where}"
        raise GitError("PB-GIT-FAILED", said, guidance="`git revert` takes it back.")
    return commits


def _keep(git: Plumbing, ours: TreeGit, here: Checkout, now: str, reference: str) -> str:
    """Keep the tree of now, with its files, as a commit after the last one, whose id this is."""
    folder = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(ours.objects)}
    known = (f"^{here.head}",) if here.head else ()
    names = git.ask("rev-list", "--objects", "--no-object-names", now, *known, env=folder)
    if names:
        pack = str(here.common_dir / "objects" / "pack" / "pack")
        git.ask("pack-objects", "--quiet", pack, stdin=names.encode(), env=folder)
    parents = ("-p", here.head) if here.head else ()
    commit = git.ask("commit-tree", now, *parents, "-m", "What an undone step left").strip()
    git.ask("update-ref", reference, commit, "0" * len(commit))
    return commit


def _unstage(git: Plumbing, paths: set[str]) -> None:
    if not paths:
        return
    listed = "\0".join(sorted(paths)).encode("utf-8", "surrogateescape")
    literal = {"GIT_LITERAL_PATHSPECS": "1"}
    asked = ("reset", "-q", "--pathspec-from-file=-", "--pathspec-file-nul")
    git.ask(*asked, stdin=listed, env=literal)
