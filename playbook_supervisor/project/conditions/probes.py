"""The probes of conditions: by files, the verdicts of reports, the forge, checks and git.

The evidence strings are stored in journals and read again by the audit. Nothing is written but
objects of git that no commit contains. What cannot be told is an error, never a "no".
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from playbook_supervisor.errors import PlaybookError, StorageError
from playbook_supervisor.formats.sanitize import counted, first_line, some
from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.kernel.state import WITNESSES
from playbook_supervisor.kernel.vocabulary import Condition
from playbook_supervisor.project.expressions.globs import matches_any
from playbook_supervisor.project.expressions.requirement import Requirement
from playbook_supervisor.project.settings.checks import NOT_STARTED, Checking, find_check
from playbook_supervisor.records import Record
from playbook_supervisor.system.disk.files import Stamp, contained, digest, read_bytes, rewritten
from playbook_supervisor.system.git.checkout import NOW, Pinned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.project.conditions.verdicts import Reading
    from playbook_supervisor.project.settings.config import Config
    from playbook_supervisor.system.git.tree import TreeChanges, Unreadable

    Ask = Callable[["Requirement", "Workspace", "LaunchRecord"], tuple[bool, str]]
    Probe = Callable[["Requirement", Sequence[str], "Workspace", "LaunchRecord"], Probed]

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


# ── files ───────────────────────────────────────────────────────────────────────────────────


def exists(
    required: Requirement, paths: Sequence[str], workspace: Workspace, launch: LaunchRecord
) -> Probed:
    """Held if one of the artifacts is there."""
    found = [look(path, workspace.root) for path in paths]
    for artifact in found:
        if not artifact.flaw:
            lines = artifact.data.count(b"\n") + (not artifact.data.endswith(b"\n"))
            evidence = f"{artifact.path}, {counted(lines, 'line')}{_unchanged(artifact, launch)}"
            return Probed(required.name, Answer.HELD, evidence)
    if required.condition is Condition.FILE_EXISTS and (made := _product(paths[0], workspace.root)):
        return Probed(required.name, Answer.HELD, made)
    return _flawed(required, found)


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


def contains(
    required: Requirement, paths: Sequence[str], workspace: Workspace, launch: LaunchRecord
) -> Probed:
    """Held if a file has a text in it, character by character."""
    (path,) = paths
    artifact = look(path, workspace.root)
    if artifact.flaw:
        return _flawed(required, [artifact])
    text = required.parameters[1]
    quoted = f'"{first_line(text, 60)}"'
    before, found, _ = artifact.data.partition(text.encode())
    if not found:
        return Probed(required.name, Answer.NOT_HELD, f"{artifact.path} lacks {quoted}")
    line = before.count(b"\n") + 1
    evidence = f"{artifact.path}, line {line}: {quoted}{_unchanged(artifact, launch)}"
    return Probed(required.name, Answer.HELD, evidence)


def tasks_done(
    required: Requirement, paths: Sequence[str], workspace: Workspace, launch: LaunchRecord
) -> Probed:
    """Held if every task in the list is ticked, and there is one at least."""
    from playbook_supervisor.project.conditions.tasks import read_tasks

    (path,) = paths
    artifact = look(path, workspace.root)
    if artifact.flaw:
        return _flawed(required, [artifact])
    tasks, unclosed = read_tasks(artifact.data.decode("utf-8", "replace"))
    if unclosed:
        evidence = f"could not be checked: {unclosed} of {path} has no end, and hides what follows"
        return Probed(required.name, Answer.ERROR, evidence)
    if not tasks:
        return Probed(required.name, Answer.NOT_HELD, f"{path} has no task: no `- [ ]`")
    left = [task for task in tasks if not task.done]
    if left:
        lines = [str(task.line) for task in left[:_LINES]]
        lines += [f"{len(left) - _LINES} more"] * (len(left) > _LINES)
        where = f"line{'s' * (len(lines) > 1)} {', '.join(lines)}"
        first = f"{first_line(left[0].text, 60)} ({where})".lstrip()
        evidence = f"{path}: {len(left)} of {counted(len(tasks), 'task')} not done: {first}"
        return Probed(required.name, Answer.NOT_HELD, evidence)
    all_done = f"{path}: {counted(len(tasks), 'task')} done{_unchanged(artifact, launch)}"
    return Probed(required.name, Answer.HELD, all_done)


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


def _flawed(required: Requirement, found: list[Artifact]) -> Probed:
    answer = Answer.ERROR if any(artifact.error for artifact in found) else Answer.NOT_HELD
    return Probed(required.name, answer, _flaws(found))


def _flaws(found: list[Artifact]) -> str:
    if len(found) > 1 and all(artifact.flaw == _MISSING for artifact in found):
        return f"neither {' nor '.join(artifact.path for artifact in found)} is there"
    return "; ".join(f"{artifact.path} {artifact.flaw}" for artifact in found)


# ── reports ─────────────────────────────────────────────────────────────────────────────────


def reading_of(report: Artifact) -> Reading:
    """The statements of a report."""
    from playbook_supervisor.project.conditions.verdicts import read_report

    return read_report(
        report.data.decode("utf-8", "replace"), yaml=report.path.endswith((".yaml", ".yml"))
    )


def passes(
    required: Requirement, paths: Sequence[str], workspace: Workspace, launch: LaunchRecord
) -> Probed:
    """Held if all reports that exist say PASS, and at least one was written since the launch."""
    found = [look(path, workspace.root) for path in paths]
    flawed = [report for report in found if report.flaw and report.flaw != _MISSING]
    readable = [report for report in found if not report.flaw]
    if flawed or not readable:
        answer = Answer.ERROR if any(report.error for report in flawed) else Answer.NOT_HELD
        return Probed(required.name, answer, _flaws(flawed or found))
    readings = [reading_of(report) for report in readable]
    stated = "; ".join(
        f"{report.path} says {reading.said}"
        if reading.said
        else f"{reading.reason} in {report.path}" + (reading.hint and f" ({reading.hint})")
        for report, reading in zip(readable, readings, strict=True)
    )
    if len({reading.verdict for reading in readings}) > 1:
        return Probed(required.name, Answer.NOT_HELD, f"the two verdicts differ: {stated}")
    fresh = [report for report in readable if launch.changed(report)]
    remark = launch.remark((fresh or readable)[0])
    if not fresh:
        return Probed(
            required.name, Answer.NOT_HELD, f"{stated}; not written since the launch{remark}"
        )
    verdict = readings[0].verdict
    answer = Answer.HELD if verdict == "PASS" else Answer.NOT_HELD
    blames = bool(verdict) and answer is Answer.NOT_HELD
    return Probed(required.name, answer, stated + remark, blames=blames)


# ── the forge ───────────────────────────────────────────────────────────────────────────────


def pull_request(
    required: Requirement, _paths: Sequence[str], workspace: Workspace, _launch: LaunchRecord
) -> Probed:
    """Held if the forge knows an open or merged pull request of the branch."""
    from playbook_supervisor.system.git import github

    branch = workspace.branch
    if not branch:
        return _unasked(
            required, "no branch is checked out", "switch to the one of the pull request"
        )
    if not github.is_plain(branch):
        return _unasked(required, f"{first_line(branch, 60)!r} is no branch", "rename it")
    try:
        done = github.pull_requests(workspace.root, branch, "all", "number", "url", "state")
    except StorageError as error:
        return _unasked(
            required, first_line(error.message), "install GitHub's gh and put it on PATH"
        )
    if done.timed_out:
        return _unasked(
            required, f"gh did not answer within {github.DEADLINE:g} s", "look at the network"
        )
    if done.returncode != 0:
        output = first_line(done.stderr) or first_line(done.stdout) or "it said nothing"
        logged_out = github.is_logged_out(done)
        cure = "run `gh auth login`" if logged_out else "run `gh pr list` here to see why"
        return _unasked(required, f"gh failed ({output})", cure)
    pulls = _by_state(github.parse_list(done.stdout))
    if pulls is None:
        return _unasked(required, "gh answered with no list of pull requests", "update gh")
    for state in _STATES.values():
        if state in pulls:
            answer = Answer.NOT_HELD if state == "closed" else Answer.HELD
            return Probed(required.name, answer, pulls[state])
    return Probed(required.name, Answer.NOT_HELD, f"no pull request of branch {branch}")


def _by_state(pulls: list[dict[str, Any]] | None) -> dict[str, str] | None:
    """One line of evidence for each state among them; None if they lack what was asked for."""
    if pulls is None:
        return None
    try:
        return {
            (state := _STATES[pull["state"]]): first_line(
                f"pull request #{pull['number']} is {state}: {pull['url']}"
            )
            for pull in pulls
        }
    except (TypeError, KeyError):
        return None


def _unasked(required: Requirement, why: str, cure: str) -> Probed:
    return Probed(required.name, Answer.ERROR, f"cannot ask for pull requests: {why}; {cure}")


# ── checks ──────────────────────────────────────────────────────────────────────────────────


def check_succeeds(
    required: Requirement, _paths: Sequence[str], workspace: Workspace, _launch: LaunchRecord
) -> Probed:
    """Held if the check ends with exit status 0."""
    return _of_check(required, workspace, lambda status: status == 0)


def check_fails(
    required: Requirement, _paths: Sequence[str], workspace: Workspace, _launch: LaunchRecord
) -> Probed:
    """Held if the check runs and ends with another exit status: red before green."""
    return _of_check(required, workspace, lambda status: status not in (0, *NOT_STARTED))


def _of_check(required: Requirement, workspace: Workspace, wanted: Callable[[int], bool]) -> Probed:
    from playbook_supervisor.project.proofs.proving import prove  # most processes run no check

    (parameter,) = required.parameters
    root, config, checking = workspace.root, workspace.config, workspace.checking
    try:
        proof, before = prove(
            find_check(parameter, config), root, config, checking, wanted, workspace.pinned
        )
    except PlaybookError as error:
        said = f"could not be checked: {first_line(error.message)}"
        return Probed(required.name, Answer.ERROR, f"{said}. {error.guidance}".rstrip())
    evidence = f"{proof.evidence}, proved before" if before else proof.evidence
    if before and proof.by:
        evidence += f", by {proof.by}"
    answer = Answer.HELD if wanted(proof.status) else Answer.NOT_HELD
    if answer is Answer.NOT_HELD and proof.status in NOT_STARTED:
        return Probed(required.name, Answer.ERROR, f"could not be checked: {evidence}")
    return Probed(required.name, answer, evidence)


def proved(
    required: Requirement, _paths: Sequence[str], workspace: Workspace, _launch: LaunchRecord
) -> Probed:
    """Held if the check's tests of the beginning and of now agree; a person decides where tests
    have changed."""
    from playbook_supervisor.project.proofs.proved import Options, judge  # as for `prove`

    check, *options = required.parameters
    stated = dict(each.partition("=")[::2] for each in options)
    wanted = Options(
        frozenset(filter(None, stated.get("without", "").split(","))),
        new_tests="new_tests" in stated,
        red="red" in stated,
    )
    root, config = workspace.root, workspace.config
    try:
        spec = find_check(check, config)
        found = judge(spec, wanted, root, config, workspace.checking, workspace.pinned)
    except PlaybookError as error:
        said = f"could not be checked: {first_line(error.message)}"
        return Probed(required.name, Answer.ERROR, f"{said}. {error.guidance}".rstrip())
    code = WITNESSES if found.asked else ""
    return Probed(required.name, found.answer, found.evidence, code=code, asked=found.asked)


# ── git ─────────────────────────────────────────────────────────────────────────────────────


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


# ── git, since the launch ────────────────────────────────────────────────────────────────────────


def _changes(
    workspace: Workspace, launch: LaunchRecord
) -> tuple[TreeChanges, tuple[Unreadable, ...]]:
    from playbook_supervisor.system.git.tree import changes, tree_of

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
    from playbook_supervisor.system.git import checkout, git_process

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


# ── git, now ─────────────────────────────────────────────────────────────────────────────────────


def _clean(_: Requirement, workspace: Workspace, _launch: LaunchRecord) -> tuple[bool, str]:
    from playbook_supervisor.system.git.uncommitted import uncommitted

    found = uncommitted(workspace.root, workspace.pinned)
    if paths := found.paths:
        return False, f"{counted(len(paths), 'file')} not committed: {some(paths, _NAMED)}"
    for each in found.unreadable:
        raise _Unknown(each.sentence)
    return True, "everything is committed"


def _exists(kind: str, folder: str) -> Ask:
    def ask(required: Requirement, workspace: Workspace, _: LaunchRecord) -> tuple[bool, str]:
        from playbook_supervisor.system.git.git_process import commit_of

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
