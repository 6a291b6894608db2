"""How the conditions about git are probed: what has changed, what is committed, what exists.

Nothing is written but objects that no commit contains. What git cannot tell is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import counted, first_line, some
from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.project.globs import matches_any
from playbook_supervisor.project.probes import LaunchRecord, Workspace
from playbook_supervisor.project.requirement import Requirement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.system.tree import TreeChanges, Unreadable

    Ask = Callable[[Requirement, Workspace, LaunchRecord], tuple[bool, str]]
    Probe = Callable[[Requirement, Sequence[str], Workspace, LaunchRecord], Probed]

_NAMED = 3  # paths, commits
_SHORT = 7  # digits of a commit id


class _Unknown(Exception):  # noqa: N818 - the probe's answer, not an error of ours
    """The condition could not be checked, with the reason."""


def _asking(ask: Ask) -> Probe:
    def probe(
        required: Requirement, _paths: Sequence[str], workspace: Workspace, launch: LaunchRecord
    ) -> Probed:
        try:
            held, evidence = ask(required, workspace, launch)
        except PlaybookError as error:
            said = first_line(error.message)
            return Probed(required.name, Answer.ERROR, f"could not be checked: {said}")
        except _Unknown as reason:
            return Probed(required.name, Answer.ERROR, f"could not be checked: {reason}")
        return Probed(required.name, Answer.HELD if held else Answer.NOT_HELD, evidence)

    return probe


# ── since the launch ────────────────────────────────────────────────────────────────────────


def _changes(
    workspace: Workspace, launch: LaunchRecord
) -> tuple[TreeChanges, tuple[Unreadable, ...]]:
    """What has changed since the launch, and what cannot be read now."""
    from playbook_supervisor.system.tree import changes, tree_of

    if not launch.tree:
        raise _Unknown("nothing is known of the tree at the launch")
    now = tree_of(workspace.root, workspace.pinned)
    return changes(workspace.root, launch.tree, now.id), now.unreadable


def _made(required: Requirement, workspace: Workspace, launch: LaunchRecord) -> tuple[bool, str]:
    globs = required.parameters
    found, unreadable = _changes(workspace, launch)
    found = found.those(lambda path: matches_any(globs, path))
    if found.files:
        return True, f"{found.summary}: {some(found.paths, _NAMED)}"
    for each in unreadable:
        if each.path.endswith("/") or matches_any(globs, each.path):
            raise _Unknown(each.sentence)
    return False, f"nothing in {' '.join(globs)} has changed since the launch"


def _within(required: Requirement, workspace: Workspace, launch: LaunchRecord) -> tuple[bool, str]:
    globs = required.parameters
    found, unreadable = _changes(workspace, launch)
    outside = found.those(lambda path: not matches_any(globs, path)).paths
    if outside:
        number = counted(len(outside), "file")
        return False, f"{number} changed outside {' '.join(globs)}: {some(outside, _NAMED)}"
    for each in unreadable:
        if not matches_any(globs, f"{each.path}any" if each.path.endswith("/") else each.path):
            raise _Unknown(each.sentence)
    return True, found.summary if found.files else "nothing has changed since the launch"


def _committed(_: Requirement, workspace: Workspace, launch: LaunchRecord) -> tuple[bool, str]:
    from playbook_supervisor.system import checkout, git_process

    if launch.head is None:
        raise _Unknown("nothing is known of the commit at the launch")
    now = checkout.find(workspace.root).head
    if launch.head and not git_process.is_ancestor(workspace.root, launch.head, now or "HEAD"):
        here = f"HEAD is at {now[:_SHORT]}"
        return False, f"{here}, which does not follow {launch.head[:_SHORT]} of the launch"
    commits = git_process.commits_between(workspace.root, launch.head) if now else ()
    if not commits:
        return False, "no commit since the launch"
    return True, f"{counted(len(commits), 'commit')} since the launch: {some(commits, _NAMED)}"


# ── now ─────────────────────────────────────────────────────────────────────────────────────


def _clean(_: Requirement, workspace: Workspace, _launch: LaunchRecord) -> tuple[bool, str]:
    from playbook_supervisor.system.uncommitted import uncommitted

    found = uncommitted(workspace.root, workspace.pinned)
    if paths := found.paths:
        return False, f"{counted(len(paths), 'file')} not committed: {some(paths, _NAMED)}"
    for each in found.unreadable:
        raise _Unknown(each.sentence)
    return True, "everything is committed"


def _exists(kind: str, folder: str) -> Ask:
    def ask(required: Requirement, workspace: Workspace, _: LaunchRecord) -> tuple[bool, str]:
        from playbook_supervisor.system.git_process import commit_of

        (name,) = required.parameters
        commit = commit_of(workspace.root, f"{folder}/{name}")
        if commit:
            return True, f"{kind} {name} is at {commit[:_SHORT]}"
        return False, f"there is no {kind} {name}"

    return ask


changes_made = _asking(_made)
changes_within = _asking(_within)
commits_made = _asking(_committed)
git_clean = _asking(_clean)
branch_exists = _asking(_exists("branch", "refs/heads"))
tag_exists = _asking(_exists("tag", "refs/tags"))
