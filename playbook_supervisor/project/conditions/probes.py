"""The probes of conditions: by files, the verdicts of reports, the forge, checks and git.

The evidence strings are stored in journals and read again by the audit. Nothing is written but
objects of git that no commit contains. What cannot be told is an error, never a "no".
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from playbook_supervisor.errors import PlaybookError, StorageError
from playbook_supervisor.formats.sanitize import counted, first_line, some
from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.kernel.state import WITNESSES
from playbook_supervisor.kernel.vocabulary import Condition
from playbook_supervisor.project.expressions.globs import matches_any
from playbook_supervisor.project.expressions.requirement import Requirement
from playbook_supervisor.project.settings.checks import NOT_STARTED, Checking, find_check
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import Record, replace
from playbook_supervisor.system.disk.files import Stamp, contained, digest, read_bytes, rewritten
from playbook_supervisor.system.git.checkout import NOW, Pinned

if TYPE_CHECKING:
    from playbook_supervisor.project.conditions.verdicts import Reading
    from playbook_supervisor.system.git.tree import TreeChanges, Unreadable

Probe = Callable[["Asked"], Probed]

LARGEST = 4 * 1024 * 1024
"""Bytes; a larger artifact is not read."""

Since = Mapping[str, Stamp | None]
"""The artifacts as they were at the launch: path → stamp, or None for what was absent."""

_MISSING = "is missing"
_LINES = 8  # lines of open tasks that are named
_NAMED = 3  # paths, commits
_SHORT = 7  # digits of a commit id
_STATES = {"OPEN": "open", "MERGED": "merged", "CLOSED": "closed"}  # the best one first


class Workspace(Record):
    """Where conditions look: the repository, its feature and branch (empty if detached).

    `checking` says how they run checks, and which proofs there are, `pinned` what of the files
    there counts.
    """

    root: Path
    feature: str
    branch: str
    config: Config
    checking: Checking = Checking()
    pinned: Pinned = NOW


class Artifact(Record):
    """One file: its content, or what is wrong with it."""

    path: str
    flaw: str = ""
    error: bool = False
    data: bytes = b""
    inode: int = 0
    mtime_ns: int = 0


class LaunchRecord(Record):
    """The time before a launch as it is known; `since`, `since_ms` None if it does not matter.

    `tree` is the id of what was there, empty if it is not known; `head` is a commit, empty before
    the first one, None if it is not known.
    """

    since: Since | None
    since_ms: int | None
    tree: str = ""
    head: str | None = None

    def changed(self, artifact: Artifact) -> bool | None:
        """True if inode, time or content differ from the record; without a record, by time.

        A record from another machine is of the content alone. True if the launch does not matter,
        None if nothing is known.
        """
        if self.since is None and self.since_ms is None:
            return True
        if self.since is not None and artifact.path in self.since:
            now = Stamp(artifact.inode, artifact.mtime_ns, digest(artifact.data))
            return rewritten(self.since[artifact.path], now)
        return None if self.since_ms is None else artifact.mtime_ns // 1_000_000 >= self.since_ms

    def remark(self, artifact: Artifact) -> str:
        """The basis of `changed`, unless that is the record."""
        matters = self.since is not None or self.since_ms is not None
        if not matters:
            return ""
        if artifact.path in (self.since or ()):
            known = (self.since or {})[artifact.path]
            by_content = known is not None and known.portable and not self.changed(artifact)
            return " (by its content alone)" if by_content else ""
        return " (no record of it)" if self.since_ms is None else " (by its time alone)"


class Asked(Record):
    """A question to a probe: what is required, and the artifacts that it looks at."""

    required: Requirement
    paths: Sequence[str]
    workspace: Workspace
    launch: LaunchRecord

    def found(self) -> list[Artifact]:
        """The artifacts as they are now."""
        return [look(path, self.workspace.root) for path in self.paths]

    def says(self, held: bool, evidence: str) -> Probed:
        """Yes or no."""
        return Probed(self.required.name, Answer.HELD if held else Answer.NOT_HELD, evidence)

    def unknown(self, why: str) -> Probed:
        """An answer that is neither."""
        return Probed(self.required.name, Answer.ERROR, why)


class UncheckedError(Exception):
    """A condition could not be checked, with the reason."""


# ── files ───────────────────────────────────────────────────────────────────────────────────


def exists(asked: Asked) -> Probed:
    """Held if one of the artifacts is there."""
    found = asked.found()
    for artifact in found:
        if not artifact.flaw:
            lines = artifact.data.count(b"\n") + (not artifact.data.endswith(b"\n"))
            unchanged = _unchanged(artifact, asked.launch)
            return asked.says(True, f"{artifact.path}, {counted(lines, 'line')}{unchanged}")
    is_file = asked.required.condition is Condition.FILE_EXISTS
    if is_file and (made := _product(asked.paths[0], asked.workspace.root)):
        return asked.says(True, made)
    return _flawed(asked, found)


def _product(path: str, root: Path) -> str:
    """A product that is no report: a folder with content, or a large file."""
    try:
        place = contained(root, path)
        if place.is_dir():
            return f"{path}, a folder that is not empty" if any(place.iterdir()) else ""
        size = place.stat().st_size if place.is_file() else 0
    except (OSError, StorageError):
        return ""
    return f"{path}, {size:,} bytes" if size > LARGEST else ""


def contains(asked: Asked) -> Probed:
    """Held if a file has a text in it, character by character."""
    (artifact,) = asked.found()
    if artifact.flaw:
        return _flawed(asked, [artifact])
    text = asked.required.parameters[1]
    quoted = f'"{first_line(text, 60)}"'
    before, found, _ = artifact.data.partition(text.encode())
    if not found:
        return asked.says(False, f"{artifact.path} lacks {quoted}")
    line = before.count(b"\n") + 1
    where = f"{artifact.path}, line {line}"
    return asked.says(True, f"{where}: {quoted}{_unchanged(artifact, asked.launch)}")


def tasks_done(asked: Asked) -> Probed:
    """Held if every task in the list is ticked, and there is one at least."""
    from playbook_supervisor.project.conditions.tasks import read_tasks

    (artifact,) = asked.found()
    path = artifact.path
    if artifact.flaw:
        return _flawed(asked, [artifact])
    tasks, unclosed = read_tasks(artifact.data.decode("utf-8", "replace"))
    if unclosed:
        raise UncheckedError(f"{unclosed} of {path} has no end, and hides what follows")
    if not tasks:
        return asked.says(False, f"{path} has no task: no `- [ ]`")
    left = [task for task in tasks if not task.done]
    if left:
        lines = [str(task.line) for task in left[:_LINES]]
        lines += [f"{len(left) - _LINES} more"] * (len(left) > _LINES)
        where = f"line{'s' * (len(lines) > 1)} {', '.join(lines)}"
        first = f"{first_line(left[0].text, 60)} ({where})".lstrip()
        number = f"{len(left)} of {counted(len(tasks), 'task')}"
        return asked.says(False, f"{path}: {number} not done: {first}")
    unchanged = _unchanged(artifact, asked.launch)
    return asked.says(True, f"{path}: {counted(len(tasks), 'task')} done{unchanged}")


def look(path: str, root: Path) -> Artifact:
    """The file at that path, as it is now. Raises nothing."""
    try:
        file = contained(root, path)
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "is a folder" if stat.S_ISDIR(status.st_mode) else "is no regular file"
            return Artifact(path, kind)
        if status.st_size > LARGEST:
            return Artifact(path, f"is larger than {LARGEST:,} bytes", error=True)
        data = read_bytes(file)
    except (FileNotFoundError, NotADirectoryError):
        return Artifact(path, _MISSING)
    except StorageError as error:
        if error.code == "PB-IO-ESCAPE":
            return Artifact(path, "leads out of the repository")
        return Artifact(path, f"cannot be read ({error.cause})", error=True)
    except OSError as error:
        return Artifact(path, f"cannot be read ({error.strerror})", error=True)
    if not data.strip():
        return Artifact(path, "is empty")
    template = f".specify/templates/{PurePosixPath(path).stem}-template.md"
    if data == _content(template, root):
        return Artifact(path, f"is still {template}, word for word")
    return Artifact(path, data=data, inode=status.st_ino, mtime_ns=status.st_mtime_ns)


def _content(path: str, root: Path) -> bytes | None:
    try:
        return read_bytes(contained(root, path), limit=LARGEST)
    except (OSError, StorageError):
        return None


def _unchanged(artifact: Artifact, launch: LaunchRecord) -> str:
    if launch.changed(artifact) is not False:
        return ""
    return f", unchanged by this step{launch.remark(artifact)}"


def _flawed(asked: Asked, found: list[Artifact]) -> Probed:
    if len(found) > 1 and all(artifact.flaw == _MISSING for artifact in found):
        flaws = f"neither {' nor '.join(artifact.path for artifact in found)} is there"
    else:
        flaws = "; ".join(f"{artifact.path} {artifact.flaw}" for artifact in found)
    is_error = any(artifact.error for artifact in found)
    return asked.unknown(flaws) if is_error else asked.says(False, flaws)


# ── reports ─────────────────────────────────────────────────────────────────────────────────


def reading_of(report: Artifact) -> Reading:
    """The statements of a report."""
    from playbook_supervisor.project.conditions.verdicts import read_report

    return read_report(
        report.data.decode("utf-8", "replace"), yaml=report.path.endswith((".yaml", ".yml"))
    )


def passes(asked: Asked) -> Probed:
    """Held if all reports that exist say PASS, and at least one was written since the launch."""
    found, launch = asked.found(), asked.launch
    flawed = [report for report in found if report.flaw and report.flaw != _MISSING]
    readable = [report for report in found if not report.flaw]
    if flawed or not readable:
        return _flawed(asked, flawed or found)
    readings = [reading_of(report) for report in readable]
    stated = "; ".join(
        f"{report.path} says {reading.said}"
        if reading.said
        else f"{reading.reason} in {report.path}" + (reading.hint and f" ({reading.hint})")
        for report, reading in zip(readable, readings, strict=True)
    )
    if len({reading.verdict for reading in readings}) > 1:
        return asked.says(False, f"the two verdicts differ: {stated}")
    fresh = [report for report in readable if launch.changed(report)]
    remark = launch.remark((fresh or readable)[0])
    if not fresh:
        return asked.says(False, f"{stated}; not written since the launch{remark}")
    verdict = readings[0].verdict
    return replace(
        asked.says(verdict == "PASS", stated + remark), blames=verdict not in ("", "PASS")
    )


# ── the forge ───────────────────────────────────────────────────────────────────────────────


def pull_request(asked: Asked) -> Probed:
    """Held if the forge knows an open or merged pull request of the branch."""
    from playbook_supervisor.system.git import github

    root, branch = asked.workspace.root, asked.workspace.branch
    if not branch:
        return _unasked(asked, "no branch is checked out", "switch to the one of the pull request")
    if not github.is_plain(branch):
        return _unasked(asked, f"{first_line(branch, 60)!r} is no branch", "rename it")
    try:
        done = github.pull_requests(root, branch, "all", "number", "url", "state")
    except StorageError as error:
        why = first_line(error.message)
        return _unasked(asked, why, "install GitHub's gh and put it on PATH")
    if done.timed_out:
        why = f"gh did not answer within {github.DEADLINE:g} s"
        return _unasked(asked, why, "look at the network")
    if done.returncode != 0:
        output = first_line(done.stderr) or first_line(done.stdout) or "it said nothing"
        logged_out = github.is_logged_out(done)
        cure = "run `gh auth login`" if logged_out else "run `gh pr list` here to see why"
        return _unasked(asked, f"gh failed ({output})", cure)
    listed = github.parse_list(done.stdout)
    try:
        pulls = {
            (state := _STATES[pull["state"]]): first_line(
                f"pull request #{pull['number']} is {state}: {pull['url']}"
            )
            for pull in listed or ()
        }
    except (TypeError, KeyError):
        listed = None
    if listed is None:
        return _unasked(asked, "gh answered with no list of pull requests", "update gh")
    for state in _STATES.values():
        if state in pulls:
            return asked.says(state != "closed", pulls[state])
    return asked.says(False, f"no pull request of branch {branch}")


def _unasked(asked: Asked, why: str, cure: str) -> Probed:
    return asked.unknown(f"cannot ask for pull requests: {why}; {cure}")


# ── checks ──────────────────────────────────────────────────────────────────────────────────


def check_succeeds(asked: Asked) -> Probed:
    """Held if the check ends with exit status 0."""
    return _of_check(asked, lambda status: status == 0)


def check_fails(asked: Asked) -> Probed:
    """Held if the check runs and ends with another exit status: red before green."""
    return _of_check(asked, lambda status: status not in (0, *NOT_STARTED))


def _of_check(asked: Asked, wanted: Callable[[int], bool]) -> Probed:
    from playbook_supervisor.project.proofs.proving import prove  # most processes run no check

    workspace = asked.workspace
    root, config, checking = workspace.root, workspace.config, workspace.checking
    try:
        spec = find_check(asked.required.parameters[0], config)
        proof, before = prove(spec, root, config, checking, wanted, workspace.pinned)
    except PlaybookError as error:
        raise _with_cure(error) from error
    evidence = f"{proof.evidence}, proved before" if before else proof.evidence
    if before and proof.by:
        evidence += f", by {proof.by}"
    if not wanted(proof.status) and proof.status in NOT_STARTED:
        raise UncheckedError(evidence)
    return asked.says(wanted(proof.status), evidence)


def proved(asked: Asked) -> Probed:
    """Held if the check's tests of the beginning and of now agree; a person decides where tests
    have changed."""
    from playbook_supervisor.project.proofs.proved import Options, judge  # as for `prove`

    check, *options = asked.required.parameters
    stated = dict(each.partition("=")[::2] for each in options)
    without = frozenset(filter(None, stated.get("without", "").split(",")))
    wanted = Options(without, new_tests="new_tests" in stated, red="red" in stated)
    workspace = asked.workspace
    root, config, checking = workspace.root, workspace.config, workspace.checking
    try:
        spec = find_check(check, config)
        found = judge(spec, wanted, root, config, checking, workspace.pinned)
    except PlaybookError as error:
        raise _with_cure(error) from error
    name, code = asked.required.name, WITNESSES if found.asked else ""
    return Probed(name, found.answer, found.evidence, code=code, asked=found.asked)


def _with_cure(error: PlaybookError) -> UncheckedError:
    return UncheckedError(f"{first_line(error.message)}. {error.guidance}".rstrip())


# ── git, since the launch ────────────────────────────────────────────────────────────────────────


def _changes(asked: Asked) -> tuple[TreeChanges, tuple[Unreadable, ...]]:
    from playbook_supervisor.system.git.tree import changes, tree_of

    workspace, launch = asked.workspace, asked.launch
    if not launch.tree:
        raise UncheckedError("nothing is known of the tree at the launch")
    now = tree_of(workspace.root, workspace.pinned)
    return changes(workspace.root, launch.tree, now.id), now.unreadable


def changes_made(asked: Asked) -> Probed:
    """Held if a file of the patterns has changed."""
    globs = asked.required.parameters
    found, unreadable = _changes(asked)
    found = found.those(lambda path: matches_any(globs, path))
    if found.files:
        return asked.says(True, f"{found.summary}: {some(found.paths, _NAMED)}")
    for each in unreadable:
        if each.path.endswith("/") or matches_any(globs, each.path):
            raise UncheckedError(each.sentence)
    return asked.says(False, f"nothing in {' '.join(globs)} has changed since the launch")


def changes_within(asked: Asked) -> Probed:
    """Held if no file outside of the patterns has changed."""
    globs = asked.required.parameters
    found, unreadable = _changes(asked)
    if outside := found.those(lambda path: not matches_any(globs, path)).paths:
        number = counted(len(outside), "file")
        where = f"outside {' '.join(globs)}: {some(outside, _NAMED)}"
        return asked.says(False, f"{number} changed {where}")
    for each in unreadable:
        if not matches_any(globs, f"{each.path}any" if each.path.endswith("/") else each.path):
            raise UncheckedError(each.sentence)
    said = found.summary if found.files else "nothing has changed since the launch"
    return asked.says(True, said)


def commits_made(asked: Asked) -> Probed:
    """Held if HEAD has moved on from the commit at the launch."""
    from playbook_supervisor.system.git import checkout, git_process

    root, head = asked.workspace.root, asked.launch.head
    if head is None:
        raise UncheckedError("nothing is known of the commit at the launch")
    now = checkout.find(root).head
    if head and not git_process.is_ancestor(root, head, now or "HEAD"):
        here = f"HEAD is at {now[:_SHORT]}"
        return asked.says(False, f"{here}, which does not follow {head[:_SHORT]} of the launch")
    commits = git_process.commits_between(root, head) if now else ()
    if not commits:
        return asked.says(False, "no commit since the launch")
    number = counted(len(commits), "commit")
    return asked.says(True, f"{number} since the launch: {some(commits, _NAMED)}")


# ── git, now ─────────────────────────────────────────────────────────────────────────────────────


def git_clean(asked: Asked) -> Probed:
    """Held if everything is committed."""
    from playbook_supervisor.system.git.uncommitted import uncommitted

    found = uncommitted(asked.workspace.root, asked.workspace.pinned)
    if paths := found.paths:
        number = counted(len(paths), "file")
        return asked.says(False, f"{number} not committed: {some(paths, _NAMED)}")
    for each in found.unreadable:
        raise UncheckedError(each.sentence)
    return asked.says(True, "everything is committed")


def branch_exists(asked: Asked) -> Probed:
    """Held if there is a branch of that name."""
    return _exists(asked, "branch", "refs/heads")


def tag_exists(asked: Asked) -> Probed:
    """Held if there is a tag of that name."""
    return _exists(asked, "tag", "refs/tags")


def _exists(asked: Asked, kind: str, folder: str) -> Probed:
    from playbook_supervisor.system.git.git_process import commit_of

    (name,) = asked.required.parameters
    if commit := commit_of(asked.workspace.root, f"{folder}/{name}"):
        return asked.says(True, f"{kind} {name} is at {commit[:_SHORT]}")
    return asked.says(False, f"there is no {kind} {name}")
