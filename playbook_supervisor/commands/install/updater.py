"""`playbook update`: bring what we own to the version that runs, and touch nobody's edits.

Ours is what still is as it was installed. What a person edited stays, with the new version beside
it as `FILE.new`; what a person deleted stays deleted; a file that is not ours stays as it is. As
with an installation: refuse first, then plan, then apply, and install.yaml comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.commands.install import file_actions, shipped_files
from playbook_supervisor.commands.install.file_actions import Action, obstacle, standing
from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project import library
from playbook_supervisor.project.install_record import (
    FILE,
    Installation,
    emit_installation,
    fingerprint,
)
from playbook_supervisor.records import Record
from playbook_supervisor.system import checkout
from playbook_supervisor.system.files import remove, sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.commands.install.file_actions import Merge

BESIDE = ".new"
"""What the new version of an edited file is called, behind the file's own name."""


class FileUpdate(Record):
    """What an update does to one file.

    `content` is what is written; `recorded` the fingerprint that install.yaml holds afterwards:
    of what we put there, or beside it, last. Empty where the file is none of ours.
    """

    action: Action
    content: bytes = b""
    recorded: str = ""


class UpdatePlan(Record):
    """What an update would do, file by file; `record` is the install.yaml that it leaves."""

    root: Path
    steps: tuple[FileUpdate, ...]
    merges: Mapping[str, Merge]
    record: Installation

    @property
    def actions(self) -> tuple[Action, ...]:
        """All of them, in the order in which they are done."""
        return tuple(step.action for step in self.steps)

    @property
    def changes(self) -> tuple[Action, ...]:
        """What is out of date: every file that would not stay as it is."""
        return tuple(action for action in self.actions if action.verb != "keep")


# ── planning ────────────────────────────────────────────────────────────────────────────────


def plan(
    root: Path, merges: Mapping[str, Merge] | None = None, *, no_hooks: bool | None = None
) -> UpdatePlan:
    """What is out of date in the repository that the folder `root` lies in. Writes nothing.

    `merges` and `no_hooks` as for an installation. StateError PB-STATE-NO-REPOSITORY outside of a
    repository, PB-STATE-NOT-INITIALISED where nothing of ours lies, PB-STATE-NEWER where a later
    version was at work; StorageError and CheckError as for an installation.
    """
    here = checkout.find(root).root
    past = file_actions.past(here)
    known = _Known(here, past)
    if not past.version and not known.anything():
        raise StateError(
            "PB-STATE-NOT-INITIALISED", "nothing of playbook is installed here", where=str(here)
        )
    steps = [*known.shipped(), *known.retired()]
    without = past.no_hooks if no_hooks is None else no_hooks
    steps += map(FileUpdate, file_actions.sharing(here, merges or {}, no_hooks=without))
    files = {step.action.path: step.recorded for step in steps if step.recorded}
    record = Installation(__version__, files, without)
    if (past.files, past.no_hooks) == (files, without) and past.version:
        record = past
    steps.append(FileUpdate(file_actions.indexing(here, [step.action for step in steps])))
    recording = file_actions.recording(here, changed=record != past)
    steps.append(FileUpdate(recording, emit_installation(record)))
    return UpdatePlan(here, tuple(steps), merges or {}, record)


class _Known:
    """What lies in a project, seen by what was recorded there and by what was ever released."""

    def __init__(self, root: Path, past: Installation) -> None:
        self._root, self._past = root, past
        self._shipped, self._released = shipped_files.files(root), shipped_files.released()

    def anything(self) -> bool:
        """Whether any file is one that we released."""
        return any(
            standing(self._root, path) in {fingerprint(content), *self._ours(path)}
            for path, content in self._shipped.items()
        )

    def shipped(self) -> Iterator[FileUpdate]:
        """What happens to each file that ships today, and to what lies beside it."""
        for path, content in self._shipped.items():
            if hindrance := obstacle(self._root, path):
                yield FileUpdate(Action(path, "conflict", hindrance))
            else:
                yield from self._one(path, content)

    def retired(self) -> Iterator[FileUpdate]:
        """What happens to files of ours that ship no more.

        Only what was released at that very place is removed: install.yaml alone is no licence.
        """
        besides = {path + BESIDE for path in self._shipped}
        for path in sorted({*self._past.files, *self._released} - {*self._shipped, *besides}):
            if path not in self._released or obstacle(self._root, path):
                shown = first_line(path, 200)
                yield FileUpdate(Action(shown, "keep", "no longer shipped; keep it or remove it"))
                continue
            there = standing(self._root, path)
            recorded = path in self._past.files
            if there in self._ours(path) and (recorded or not self._past.version):
                yield FileUpdate(
                    Action(path, "remove", "no longer shipped, and as it was installed")
                )
            elif there and recorded:
                yield FileUpdate(Action(path, "keep", "no longer shipped, and edited: yours now"))

    def _ours(self, path: str) -> frozenset[str]:
        """The fingerprints that the file has if nobody edited it."""
        return self._released.get(path, frozenset()) | {self._past.files.get(path, "")} - {""}

    def _one(self, path: str, content: bytes) -> Iterator[FileUpdate]:
        there, new, former = standing(self._root, path), fingerprint(content), self._recorded(path)
        if there == new:
            yield FileUpdate(Action(path, "keep", "up to date"), recorded=new)
        elif not there and (former or not self._past.version):
            # Where the record is lost nobody knows that it was not deleted.
            why = f"deleted by you; take it out of {FILE} to have it again"
            yield FileUpdate(Action(path, "keep", why), recorded=former or new)
        elif not there:
            yield FileUpdate(Action(path, "write", "new"), content, new)
        elif there in self._ours(path):
            yield FileUpdate(Action(path, "write", "the new version"), content, new)
        elif former:
            yield from self._edited(path, content)
            return
        else:  # what lies beside it may have been offered for an edit of which no record is left
            yield FileUpdate(Action(path, "keep", "not ours"))
            return
        yield from self._leftover(path)

    def _edited(self, path: str, content: bytes) -> Iterator[FileUpdate]:
        """The person's edit stays; what it is an edit of has a new version, or has not."""
        beside, new, former = path + BESIDE, fingerprint(content), self._recorded(path)
        there = standing(self._root, beside)
        if obstacle(self._root, beside) or (there and there not in self._ours_beside(path)):
            taken = f"edited by you; {beside} is yours, too: move it away for the new version"
            why = "edited by you" if former == new else taken
            yield FileUpdate(Action(path, "keep", why), recorded=former)
            return
        yield FileUpdate(Action(path, "keep", "edited by you"), recorded=new)
        if there == new:
            yield FileUpdate(Action(beside, "keep", f"{_COMPARE} {path} {beside}"), recorded=new)
        elif there or former != new:
            yield FileUpdate(Action(beside, "write", f"{_COMPARE} {path} {beside}"), content, new)

    def _leftover(self, path: str) -> Iterator[FileUpdate]:
        """A new version that lies beside a file which needs none any more."""
        beside = path + BESIDE
        if standing(self._root, beside) in self._ours_beside(path):
            yield FileUpdate(Action(beside, "remove", f"{path} needs it no more"))

    def _recorded(self, path: str) -> str:
        return self._past.files.get(path, "")

    def _ours_beside(self, path: str) -> frozenset[str]:
        """The fingerprints that a new version beside a file has if nobody edited it."""
        content = self._shipped[path]
        return frozenset({fingerprint(content), *self._released.get(path, ())}) | (
            self._ours(path + BESIDE)
        )


_COMPARE = "the new version beside yours; compare: diff"


# ── applying ────────────────────────────────────────────────────────────────────────────────


def apply(planned: UpdatePlan, now_ms: int) -> None:
    """Carry an update out, by what lies there now; `now_ms`, since the epoch, is for the index.

    Whoever edits a file between plan and deed loses nothing: it is judged again, and under the
    lock. One that is interrupted is simply repeated. StorageError as for an installation.
    """
    file_actions.refuse_conflicts(planned.root, planned.actions)
    if not planned.changes:
        return
    with library.changing(planned.root):
        now = plan(planned.root, planned.merges, no_hooks=planned.record.no_hooks)
        file_actions.refuse_conflicts(now.root, now.actions)
        for folder in {(now.root / path).parent for path in now.record.files}:
            sweep(folder)  # of a killed update that had nothing more to write there
        for step in now.steps:
            _do(now, step)
    library.write_index(planned.root, now_ms)


def _do(update: UpdatePlan, step: FileUpdate) -> None:
    path, verb = step.action.path, step.action.verb
    if path in update.merges and verb in ("write", "merge"):
        file_actions.merge_into(update.root, path, update.merges[path])
    elif verb == "write" and step.content:
        file_actions.put(update.root, path, step.content)
    elif verb == "remove":
        remove(update.root / path)
