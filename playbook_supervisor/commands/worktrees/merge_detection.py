"""Whether a branch has come where it was to go: merged, rebased, squashed, or by a pull request.

Trees are compared, not commits: if merging it once more would have changed nothing, then all of it
is there. What happens in the sessions' folders does not count (an ending is often journaled last).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import Record
from playbook_supervisor.system import git, github

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SESSIONS = ".playbooks/sessions/"
_WORK = (":/", f":(exclude,top){_SESSIONS.rstrip('/')}")
_HEADS = "refs/heads/"
_ORIGIN = "refs/remotes/origin/HEAD"
_CUSTOMARY = ("refs/heads/main", "refs/heads/master")
_CANDIDATES, _PATHS, _SHOWN = 50, 50, 10


class Target(Record):
    """A branch into which things are merged, as people call it."""

    told: str
    commit: str


class Lines(Record):
    """The lines of development that a branch may have been merged into.

    `targets` are their commits, the likeliest first; `kept` the local branches that are such lines
    themselves, so that none of them is ever removed.
    """

    targets: tuple[Target, ...]
    kept: frozenset[str]


def lines(root: Path, branch: str, started_from: str, checked_out: str) -> Lines:
    """From where it started (a full reference, or nothing), the default branch, their upstreams.

    `checked_out` is the branch of the main checkout.
    """
    refs = _references(root)
    default = refs.get(_ORIGIN, {}).get("symref", "")
    own = f"{_HEADS}{branch}"
    likely = [started_from if started_from != own else "", default, *_CUSTOMARY]
    local = [f"{_HEADS}{default.removeprefix('refs/remotes/origin/')}" if default else ""]
    kept = {ref.removeprefix(_HEADS) for ref in (*likely, *local) if ref.startswith(_HEADS)}
    names = []
    for ref in (*likely, *local, f"{_HEADS}{checked_out}" if checked_out else ""):
        names += [ref, refs.get(ref, {}).get("upstream", "")]
    of_its_own = {own, refs.get(own, {}).get("upstream", "")}
    targets = [
        Target(ref.removeprefix(_HEADS).removeprefix("refs/remotes/"), refs[ref]["commit"])
        for ref in dict.fromkeys(names)
        if ref in refs and ref not in of_its_own
    ]
    return Lines(tuple(targets), frozenset(kept))


def _references(root: Path) -> dict[str, Mapping[str, str]]:
    form = "%(refname)%00%(objectname)%00%(upstream)%00%(symref)"
    with git.repository(root) as repo:
        listed = repo.git.for_each_ref("refs/heads", "refs/remotes", format=form)
    rows = (line.split("\0") for line in listed.splitlines())
    return {
        ref: {"commit": commit, "upstream": upstream, "symref": symref}
        for ref, commit, upstream, symref in rows
    }


# ── what git knows ──────────────────────────────────────────────────────────────────────────


def merged(root: Path, commit: str, target: Target) -> str:
    """How all work of the commit came into the target, a few words; empty if it did not."""
    with git.repository(root) as repo:
        base = repo.git.merge_base(target.commit, commit, with_exceptions=False)
        if base == commit:
            return f"merged into {target.told}"
        if not base:
            return ""
        paths = _changed(repo, base, commit)
        if not paths:
            return f"without work that {target.told} lacks"
        for candidate in _candidates(repo, base, target.commit, paths):
            if _adds_nothing(repo, commit, candidate):
                return f"squashed or rebased into {target.told}, by {candidate[:7]}"
    return ""


def _changed(repo: git.Repo, before: str, after: str) -> list[str]:
    listed = repo.git.diff_tree("-r", "--name-only", "-z", before, after, "--", *_WORK)
    return [path for path in listed.split("\0") if path]


def _candidates(repo: git.Repo, base: str, target: str, paths: list[str]) -> Iterator[str]:
    """The target as it is, then as it was after each change to those files, the latest first."""
    yield target
    touched = [f":(top,literal){path}" for path in paths[:_PATHS]]
    listed = repo.git.rev_list(
        "--first-parent", f"--max-count={_CANDIDATES}", f"{base}..{target}", "--", *touched
    )
    yield from (commit for commit in listed.split() if commit != target)


def _adds_nothing(repo: git.Repo, commit: str, candidate: str) -> bool:
    """Whether merging the commit would have changed nothing there; no, if git is too old to say."""
    status, answer, _ = repo.git.merge_tree(
        "--write-tree",
        "--name-only",
        "--no-messages",
        "-z",
        candidate,
        commit,
        with_extended_output=True,
        with_exceptions=False,
    )
    if status not in (0, 1):
        return False
    tree, *conflicts = answer.strip("\0").split("\0")
    if any(not path.startswith(_SESSIONS) for path in conflicts):
        return False
    return not _changed(repo, candidate, tree)


def lacking(root: Path, commit: str, target: Target) -> tuple[str, ...]:
    """The commits with work that the target lacks, newest first, one printable line each."""
    with git.repository(root) as repo:
        listed = repo.git.log(
            f"--max-count={_SHOWN}",
            "--no-color",
            "--no-show-signature",
            "--format=%h %s",
            f"{target.commit}..{commit}",
            "--",
            *_WORK,
        )
    return tuple(first_line(line) for line in listed.splitlines())


# ── what the forge knows ────────────────────────────────────────────────────────────────────


def pull_request(root: Path, branch: str, commit: str) -> str:
    """The merged pull request that holds all work of the commit; empty if none is known.

    Asked through `gh`, where there is a remote; that it cannot be had is no reason to fail.
    """
    with git.repository(root) as repo:
        if not github.can_be_asked(branch) or not repo.remotes:
            return ""
        for pull in _merged_pulls(root, branch):
            head, number, url = pull.get("headRefOid"), pull.get("number"), pull.get("url")
            if isinstance(head, str) and head.isalnum() and _equal(repo, head, commit):
                return first_line(f"pull request #{number} is merged: {url}")
    return ""


def _equal(repo: git.Repo, head: str, commit: str) -> bool:
    """Whether both hold the same work; no if the pull request's head is not known here."""
    known = repo.git.rev_parse("--verify", "--quiet", f"{head}^{{commit}}", with_exceptions=False)
    return bool(known) and not _changed(repo, head, commit)


def _merged_pulls(root: Path, branch: str) -> list[dict[str, Any]]:
    try:
        done = github.pull_requests(root, branch, "merged", "number", "url", "headRefOid")
    except PlaybookError:
        return []
    return github.listed(done.stdout) or [] if done.returncode == 0 else []
