"""Every condition and trigger of the vocabulary, probed exactly.

An answer depends on the file system, the record made at the launch and nothing else (kai NFR4);
`pr_created` alone asks the world. What cannot be checked is an error and never a quiet no.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from playbook_supervisor.errors import ConditionError, StorageError
from playbook_supervisor.formats.sanitize import first_line, suggestion
from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.kernel.vocabulary import Condition, Trigger
from playbook_supervisor.project.features import of_branch
from playbook_supervisor.records import Record
from playbook_supervisor.system.files import Stamp, contained, digest, read_bytes, stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.project.config import Config
    from playbook_supervisor.project.verdicts import Reading
    from playbook_supervisor.system.processes import Completed

LARGEST = 4 * 1024 * 1024
"""Bytes; an artifact beyond that was not written for people, and is not read."""

Since = Mapping[str, Stamp | None]
"""The artifacts as they were at the launch: path → stamp, or None for what was absent."""

_MISSING = "is missing"
_NO_REPORT = ", and no report is no verdict"
_GH_LOGGED_OUT = 4
_STATES = {"OPEN": "open", "MERGED": "merged", "CLOSED": "closed"}  # the best one first
_VERDICTS = (Condition.AGREEMENT_PASS, Condition.QA_VERDICT_PASS)


class Workspace(Record):
    """Where conditions look: the repository, its feature and branch (empty when detached)."""

    root: Path
    feature: str
    branch: str
    config: Config


class _Look(Record):
    """One artifact as it is: readable content, or why there is none."""

    path: str
    flaw: str = ""
    error: bool = False
    data: bytes = b""
    inode: int = 0
    mtime_ns: int = 0

    @property
    def told(self) -> str:
        return f"{self.path} {self.flaw}"


class _Launch(Record):
    """What is known of the time before; both None where freshness is not asked for."""

    since: Since | None
    since_ms: int | None

    def written_since(self, look: _Look) -> bool | None:
        """Whether inode, time or content differ from the record; without one, the time decides.

        True where nobody asks, None where nothing is known.
        """
        if self.since is None and self.since_ms is None:
            return True
        if self.since is not None and look.path in self.since:
            return self.since[look.path] != Stamp(look.inode, look.mtime_ns, digest(look.data))
        return None if self.since_ms is None else look.mtime_ns // 1_000_000 >= self.since_ms

    def remark(self, look: _Look) -> str:
        """What `written_since` rests on, where that is not the record."""
        asked = self.since is not None or self.since_ms is not None
        if not asked or look.path in (self.since or ()):
            return ""
        return " (no record of it)" if self.since_ms is None else " (by its time alone)"


# ── the public face ─────────────────────────────────────────────────────────────────────────


def artifacts(name: str, world: Workspace) -> tuple[str, ...]:
    """The paths that a condition or trigger looks at, relative to the repository.

    None for `pr_created`, `subagent_error` and `postcondition_fail`. ConditionError
    PB-COND-UNKNOWN for a word that is neither a condition nor a trigger.
    """
    config, feature = world.config, world.feature
    specs = f"{config.specs}/{feature}"
    agreement = f"{config.agreements}/{feature}"
    qa = f"{config.qa}/{feature}"
    places: dict[str, tuple[str, ...]] = {
        Condition.SPEC_EXISTS: (f"{specs}/spec.md",),
        Condition.PLAN_EXISTS: (f"{specs}/plan.md",),
        Condition.TASKS_EXISTS: (f"{specs}/tasks.md",),
        Condition.AGREEMENT_EXISTS: (f"{agreement}/agreement.yaml",),
        Condition.AGREEMENT_PASS: (f"{agreement}/check-report.md",),
        Condition.QA_PLAN_EXISTS: (f"{qa}/test-plan.md", f"{qa}/_index.yaml"),
        Condition.QA_VERDICT_PASS: (f"{qa}/verdict.md", f"{qa}/verdict.yaml"),
        Condition.PR_CREATED: (),
        Trigger.AGREEMENT_BREAKING: (f"{agreement}/check-report.md",),
        Trigger.VERDICT_FAIL: (f"{qa}/verdict.md", f"{qa}/verdict.yaml"),
        Trigger.SUBAGENT_ERROR: (),
        Trigger.POSTCONDITION_FAIL: (),
    }
    if name not in places:
        said = f"no condition {first_line(name, 60)!r}{suggestion(name, places)}"
        raise ConditionError("PB-COND-UNKNOWN", said)
    return places[name]


def probe(
    name: Condition, world: Workspace, *, since: Since | None = None, since_ms: int | None = None
) -> Probed:
    """What a condition says now, with one line of evidence (kai FR3, FR4, FR18, FR19).

    `since` and `since_ms` (milliseconds since the epoch) describe the launch. With either, a
    *verdict* counts only if its report was written since, and an artifact that merely *exists*
    says so if it was not. Where the record does not know a file, its time of change decides.
    """
    if name is Condition.PR_CREATED:
        return _pull_request(world)
    if not of_branch(world.feature):
        shown = first_line(world.feature, 60)
        what = f"{shown!r} is no feature" if shown else "no feature is named"
        return Probed(name, Answer.ERROR, f"{what}: give one, or be on a feature's branch")
    launch = _Launch(since, since_ms)
    looks = [_look(path, world.root) for path in artifacts(name, world)]
    if name in _VERDICTS:
        return _verdict(name, looks, launch)
    for look in looks:
        if not look.flaw:
            return Probed(
                name, Answer.HELD, f"{look.path}, {_size(look)}{_untouched(look, launch)}"
            )
    answer = Answer.ERROR if any(look.error for look in looks) else Answer.NOT_HELD
    return Probed(name, answer, _flaws(looks))


def finding(
    trigger: Trigger, world: Workspace, *, since: Since | None = None, since_ms: int | None = None
) -> tuple[str, str] | None:
    """Evidence and the report's digest, if a report written since then fires the trigger (kai FR6).

    Only `agreement_breaking` and `verdict_fail` look at reports; the others are None here.
    """
    launch = _Launch(since, since_ms)
    for path in artifacts(trigger, world):
        look = _look(path, world.root)
        if look.flaw or not launch.written_since(look):
            continue
        reading = _read(look)
        said = reading.breaking
        if trigger is Trigger.VERDICT_FAIL:
            said = reading.verdict if reading.verdict != "PASS" else ""
        if said:
            return f"{path}: {said}", digest(look.data)
    return None


def record(names: Iterable[str], world: Workspace) -> dict[str, Stamp | None]:
    """A stamp of every artifact that these conditions and triggers look at, to compare with later.

    None for what is absent, cannot be read or lies outside the repository.
    """
    paths = dict.fromkeys(path for name in names for path in artifacts(name, world))
    return {path: _stamp(path, world.root) for path in paths}


# ── files ───────────────────────────────────────────────────────────────────────────────────


def _look(path: str, root: Path) -> _Look:
    try:
        file = contained(root, path)
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "is a folder" if stat.S_ISDIR(status.st_mode) else "is no regular file"
            return _Look(path, kind)
        if status.st_size > LARGEST:
            return _Look(path, f"is larger than {LARGEST:,} bytes", error=True)
        data = read_bytes(file)
    except (FileNotFoundError, NotADirectoryError):
        return _Look(path, _MISSING)
    except StorageError as error:
        if error.code == "PB-IO-ESCAPE":
            return _Look(path, "leads out of the repository")
        return _Look(path, f"cannot be read ({error.cause})", error=True)
    except OSError as error:
        return _Look(path, f"cannot be read ({error.strerror})", error=True)
    if not data.strip():
        return _Look(path, "is empty")
    template = f".specify/templates/{PurePosixPath(path).stem}-template.md"
    if data == _content(template, root):
        return _Look(path, f"is still {template}, word for word")
    return _Look(path, data=data, inode=status.st_ino, mtime_ns=status.st_mtime_ns)


def _content(path: str, root: Path) -> bytes | None:
    try:
        return read_bytes(contained(root, path), limit=LARGEST)
    except (OSError, StorageError):
        return None


def _stamp(path: str, root: Path) -> Stamp | None:
    try:
        return stamp(contained(root, path))
    except StorageError:
        return None


def _flaws(looks: list[_Look]) -> str:
    """Why none of them will do; two places where nothing is are told in one breath."""
    if len(looks) > 1 and all(look.flaw == _MISSING for look in looks):
        return f"neither {' nor '.join(look.path for look in looks)} is there"
    return "; ".join(look.told for look in looks)


def _size(look: _Look) -> str:
    lines = look.data.count(b"\n") + (not look.data.endswith(b"\n"))
    return "1 line" if lines == 1 else f"{lines} lines"


def _untouched(look: _Look, launch: _Launch) -> str:
    if launch.written_since(look) is False:
        return f", unchanged by this step{launch.remark(look)}"
    return ""


# ── verdicts ────────────────────────────────────────────────────────────────────────────────


def _read(look: _Look) -> Reading:
    from playbook_supervisor.project.verdicts import read_report

    return read_report(look.data.decode("utf-8", "replace"), yaml=look.path.endswith(".yaml"))


def _verdict(name: Condition, looks: list[_Look], launch: _Launch) -> Probed:
    """All reports that exist must say PASS, and one of them must be the launch's own."""
    flawed = [look for look in looks if look.flaw and look.flaw != _MISSING]
    there = [look for look in looks if not look.flaw]
    if flawed or not there:
        answer = Answer.ERROR if any(look.error for look in flawed) else Answer.NOT_HELD
        return Probed(name, answer, _flaws(flawed) if flawed else _flaws(looks) + _NO_REPORT)
    readings = [_read(look) for look in there]
    said = [
        f"{look.path} says {reading.verdict}"
        if reading.verdict
        else f"{reading.reason} in {look.path}"
        for look, reading in zip(there, readings, strict=True)
    ]
    if len({reading.verdict for reading in readings}) > 1:
        return Probed(name, Answer.NOT_HELD, f"the two verdicts differ: {'; '.join(said)}")
    fresh = [look for look in there if launch.written_since(look)]
    remark = launch.remark((fresh or there)[0])
    if not fresh:
        old = f"{'; '.join(said)}; not written since the launch{remark}"
        return Probed(name, Answer.NOT_HELD, old)
    answer = Answer.HELD if readings[0].verdict == "PASS" else Answer.NOT_HELD
    return Probed(name, answer, "; ".join(said) + remark)


# ── the forge ───────────────────────────────────────────────────────────────────────────────


def _pull_request(world: Workspace) -> Probed:
    """Whether the forge knows an open or merged pull request of the branch (kai FR4)."""
    from playbook_supervisor.system import github

    branch = world.branch
    if not branch:
        return _unasked("no branch is checked out", "switch to the one of the pull request")
    if not github.can_be_asked(branch):
        return _unasked(f"{first_line(branch, 60)!r} is no branch", "rename it")
    try:
        done = github.pull_requests(world.root, branch, "all", "number", "url", "state")
    except StorageError as error:
        return _unasked(first_line(error.message), "install GitHub's gh and put it on PATH")
    if done.timed_out:
        return _unasked(f"gh did not answer within {github.DEADLINE:g} s", "look at the network")
    if done.returncode != 0:
        return _refused(done)
    told = _by_state(github.listed(done.stdout))
    if told is None:
        return _unasked("gh answered with no list of pull requests", "update gh")
    for state in _STATES.values():
        if state in told:
            answered = Answer.NOT_HELD if state == "closed" else Answer.HELD
            return Probed(Condition.PR_CREATED, answered, told[state])
    return Probed(Condition.PR_CREATED, Answer.NOT_HELD, f"no pull request of branch {branch}")


def _refused(done: Completed) -> Probed:
    said = first_line(done.stderr) or first_line(done.stdout) or "it said nothing"
    logged_out = done.returncode == _GH_LOGGED_OUT or "gh auth login" in done.stderr
    cure = "run `gh auth login`" if logged_out else "run `gh pr list` here to see why"
    return _unasked(f"gh failed ({said})", cure)


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


def _unasked(why: str, cure: str) -> Probed:
    return Probed(
        Condition.PR_CREATED, Answer.ERROR, f"cannot ask for pull requests: {why}; {cure}"
    )
