"""Branches whose work has been merged, rebased, squashed, or merged by a pull request.

Trees are compared, not commits: if merging the branch once more would change nothing, all its work
is there. Changes in the sessions' folders do not count, since a session often ends after the merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playbook_supervisor.commands.worktrees.worktree import HEADS, REMOTES
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.system.git import github, gitpython

_SESSIONS = ".playbooks/sessions/"
_WORK = (":/", f":(exclude,top){_SESSIONS.rstrip('/')}")
_ORIGIN = f"{REMOTES}origin/"
_DEFAULT = f"{_ORIGIN}HEAD"
_CUSTOMARY = (f"{HEADS}main", f"{HEADS}master")
_CANDIDATES, _PATHS, _SHOWN = 50, 50, 10


@dataclass(frozen=True, slots=True)
class MergeTarget:
    """A branch that work is merged into; `here`: a reference here keeps its commit."""

    name: str
    commit: str
    here: bool = True


@dataclass(frozen=True, slots=True)
class MergeTargets:
    """Where a branch may have been merged, likeliest first; `kept` are local, never removed."""

    targets: tuple[MergeTarget, ...]
    kept: frozenset[str]


@dataclass(frozen=True, slots=True)
class Merged:
    """The way a branch's work was merged, in a few words, and a commit with all of it."""

    how: str
    into: MergeTarget


def find_targets(root: Path, branch: str, started_from: str, checked_out: str) -> MergeTargets:
    """The branch it started from, the default branch, the main checkout's, and what is fetched.

    `started_from` is a full reference or empty; `checked_out` is the main checkout's branch.
    """
    refs = _references(root)
    default = refs.get(_DEFAULT, {}).get("symref", "")
    own = f"{HEADS}{branch}"
    likely = [started_from if started_from != own else "", default, *_CUSTOMARY]
    local = [f"{HEADS}{default.removeprefix(_ORIGIN)}" if default else ""]
    kept = {ref.removeprefix(HEADS) for ref in (*likely, *local) if ref.startswith(HEADS)}
    names = []
    for ref in (*likely, *local, f"{HEADS}{checked_out}" if checked_out else ""):
        fetched = ref.replace(HEADS, _ORIGIN, 1) if ref.startswith(HEADS) else ""
        names += [ref, refs.get(ref, {}).get("upstream", ""), fetched]
    own_refs = {own, refs.get(own, {}).get("upstream", "")}
    targets = [
        MergeTarget(ref.removeprefix(HEADS).removeprefix(REMOTES), refs[ref]["commit"])
        for ref in dict.fromkeys(names)
        if ref in refs and ref not in own_refs
    ]
    return MergeTargets(tuple(targets), frozenset(kept))


def _references(root: Path) -> dict[str, Mapping[str, str]]:
    form = "%(refname)%00%(objectname)%00%(upstream)%00%(symref)"
    with gitpython.repository(root) as repo:
        listed = repo.git.for_each_ref("refs/heads", "refs/remotes", format=form)
    rows = (line.split("\0") for line in listed.splitlines())
    return {
        ref: {"commit": commit, "upstream": upstream, "symref": symref}
        for ref, commit, upstream, symref in rows
    }


# ── by git ──────────────────────────────────────────────────────────────────────────────────


def merged(root: Path, commit: str, target: MergeTarget) -> str:
    """The way of all work of the commit into the target, in a few words; empty if none."""
    with gitpython.repository(root) as repo:
        base = repo.git.merge_base(target.commit, commit, with_exceptions=False)
        if base == commit:
            return f"merged into {target.name}"
        if not base:
            return ""
        paths = _changed(repo, base, commit)
        if not paths:
            return f"no work that {target.name} lacks"
        for candidate in _candidates(repo, base, target.commit, paths):
            if _adds_nothing(repo, commit, candidate):
                return f"squashed or rebased into {target.name}, by {candidate[:7]}"
    return ""


def _changed(repo: gitpython.Repo, before: str, after: str) -> list[str]:
    listed = repo.git.diff_tree("-r", "--name-only", "-z", before, after, "--", *_WORK)
    return [path for path in listed.split("\0") if path]


def _candidates(repo: gitpython.Repo, base: str, target: str, paths: list[str]) -> Iterator[str]:
    """The target, then its state after each change to those files, the latest first."""
    yield target
    touched = [f":(top,literal){path}" for path in paths[:_PATHS]]
    listed = repo.git.rev_list(
        "--first-parent", f"--max-count={_CANDIDATES}", f"{base}..{target}", "--", *touched
    )
    yield from (commit for commit in listed.split() if commit != target)


def _adds_nothing(repo: gitpython.Repo, commit: str, candidate: str) -> bool:
    """True if merging the commit there would change nothing; False if git is too old to tell."""
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


def missing_commits(root: Path, commit: str, target: MergeTarget) -> tuple[str, ...]:
    """The commits with work that the target lacks, newest first, one printable line each."""
    with gitpython.repository(root) as repo:
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


# ── by the forge ────────────────────────────────────────────────────────────────────────────


def merged_pull_request(root: Path, branch: str, commit: str) -> Merged | None:
    """The merged pull request with all of the commit, asked through `gh`; None if that fails."""
    with gitpython.repository(root) as repo:
        if not github.is_plain(branch) or not repo.remotes:
            return None
        for pull in _merged_pulls(root, branch):
            head, number, url = pull.get("headRefOid"), pull.get("number"), pull.get("url")
            if not isinstance(head, str) or not head.isalnum():
                continue
            wanted = f"{head}^{{commit}}"
            known = repo.git.rev_parse("--verify", "--quiet", wanted, with_exceptions=False)
            if known and not _changed(repo, head, commit):
                how = first_line(f"pull request #{number} is merged: {url}")
                pull_request = first_line(f"pull request #{number}")
                return Merged(how, MergeTarget(pull_request, head, here=False))
    return None


def _merged_pulls(root: Path, branch: str) -> list[dict[str, Any]]:
    try:
        done = github.pull_requests(root, branch, "merged", "number", "url", "headRefOid")
    except PlaybookError:
        return []
    return github.parse_list(done.stdout) or [] if done.returncode == 0 else []
