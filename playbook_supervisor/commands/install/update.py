"""`playbook update`: bring our files to the running version, and keep everybody's edits.

A file is ours as long as it is unchanged since it was installed. An edited file is kept, and the
new version is written beside it as `FILE.new`. A deleted file is not restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.install import changes, shipped
from playbook_supervisor.commands.install.changes import (
    UP_TO_DATE,
    Action,
    FileChange,
    InstallPlan,
    current_fingerprint,
    obstacle,
)
from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.drivers.claude_code.marker import SCRIPT
from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project.install_record import Installation, fingerprint
from playbook_supervisor.system.git import checkout

BESIDE = ".new"
"""The suffix of a new version that is written beside an edited file."""

_COMPARE = "new version beside your edit; compare: diff"


def plan(
    cwd: Path | None = None, *, shared: bool = True, no_hooks: bool | None = None
) -> InstallPlan:
    """The plan of `update` in the repository of `cwd`. Writes nothing.

    `shared` and `no_hooks` as for `init`. If install.yaml is lost, hooks that are installed are
    updated and missing ones are not added. StateError PB-STATE-NOT-INITIALISED if nothing of ours
    is installed; otherwise errors as for `init`.
    """
    root = checkout.find(cwd or locate.current_folder()).root
    previous = changes.previous_installation(root)
    again = partial(plan, root, shared=shared, no_hooks=no_hooks)
    plugin = changes.hooks_by_plugin(root, previous, no_hooks)
    if plugin:
        no_hooks = False
    known = _KnownFiles(root, previous)
    if not previous.version and not known.any_is_ours():
        raise StateError(
            "PB-STATE-NOT-INITIALISED", "playbook is not installed here", where=str(root)
        )
    if no_hooks is None:
        no_hooks = previous.no_hooks
        if shared and not previous.version:
            no_hooks = not settings.holds_ours(changes.current_content(root, settings.FILE))
    files = [*known.shipped(no_hooks=no_hooks, plugin=plugin), *known.retired()]
    recorded = {file.action.path: file.recorded for file in files if file.recorded}
    record = Installation(__version__, recorded, no_hooks)
    if (previous.files, previous.no_hooks) == (recorded, no_hooks) and previous.version:
        record = previous
    merge = changes.merge_of(plugin=plugin) if shared else None
    return changes.complete(root, files, merge, record, previous, again)


apply = changes.apply


class _KnownFiles:
    """A project's files, compared with install.yaml and with every release."""

    def __init__(self, root: Path, previous: Installation) -> None:
        self._root, self._previous = root, previous
        self._released = shipped.released()
        self._shipped = {
            path: content
            for path, content in shipped.files().items()
            if path not in shipped.OPTIONAL or self._is_installed(path, content)
        }

    def any_is_ours(self) -> bool:
        return any(self._equals_ours(*each) for each in self._shipped.items())

    def _is_installed(self, path: str, content: bytes) -> bool:
        if self._recorded(path) or self._equals_ours(path, content):
            return True
        return path in shipped.PLAYBOOK_FILES and (self._root / path).exists()

    def _equals_ours(self, path: str, content: bytes) -> bool:
        known = {fingerprint(content), *self._unedited(path)}
        return current_fingerprint(self._root, path) in known

    def shipped(self, *, no_hooks: bool, plugin: bool) -> Iterator[FileChange]:
        for path, content in self._shipped.items():
            if path == SCRIPT:
                given = self._root, content, self._previous
                yield from changes.script(*given, no_hooks=no_hooks, plugin=plugin)
            elif why := obstacle(self._root, path):
                yield FileChange(Action(path, "conflict", why))
            else:
                yield from self._one(path, content)

    def retired(self) -> Iterator[FileChange]:
        """The changes to files that are no longer shipped.

        Only a file that we ship no more is removed: install.yaml alone does not suffice.
        """
        beside = {path + BESIDE for path in self._shipped}
        for path in sorted({*self._previous.files, *self._released} - {*self._shipped, *beside}):
            known = path in self._released or path in shipped.RETIRED
            if not known or obstacle(self._root, path):
                shown = first_line(path, 200)
                yield FileChange(Action(shown, "keep", "no longer shipped; keep it or remove it"))
                continue
            current = current_fingerprint(self._root, path)
            recorded = path in self._previous.files
            if current in self._unedited(path) and (recorded or not self._previous.version):
                yield FileChange(Action(path, "remove", "no longer shipped, and not edited"))
            elif current and recorded:
                yield FileChange(Action(path, "keep", "no longer shipped, but you edited it"))

    def _unedited(self, path: str) -> frozenset[str]:
        return self._released.get(path, frozenset()) | {self._recorded(path)} - {""}

    def _one(self, path: str, content: bytes) -> Iterator[FileChange]:
        current, new = current_fingerprint(self._root, path), fingerprint(content)
        recorded = self._recorded(path)
        if current == new:
            yield FileChange(Action(path, "keep", UP_TO_DATE), recorded=new)
        elif not current and (recorded or not self._previous.version):
            # without a record, a missing file may have been deleted
            why = changes.deleted(path)
            yield FileChange(Action(path, "keep", why), recorded=recorded or new)
        elif not current:
            yield FileChange(Action(path, "write", "new"), content, new)
        elif current in self._unedited(path):
            yield FileChange(Action(path, "write", "new version"), content, new)
        elif recorded:
            yield from self._edited(path, content)
            return
        else:  # a new version beside it may belong to an edit that is no longer recorded
            yield FileChange(Action(path, "keep", "not installed by playbook"))
            return
        yield from self._leftover(path)

    def _edited(self, path: str, content: bytes) -> Iterator[FileChange]:
        beside, new, recorded = path + BESIDE, fingerprint(content), self._recorded(path)
        current = current_fingerprint(self._root, beside)
        if obstacle(self._root, beside) or (current and current not in self._offered(path)):
            taken = f"edited by you; move {beside} away to get the new version"
            why = "edited by you" if recorded == new else taken
            yield FileChange(Action(path, "keep", why), recorded=recorded)
            return
        yield FileChange(Action(path, "keep", "edited by you"), recorded=new)
        if current == new:
            yield FileChange(Action(beside, "keep", f"{_COMPARE} {path} {beside}"), recorded=new)
        elif current or recorded != new:
            yield FileChange(Action(beside, "write", f"{_COMPARE} {path} {beside}"), content, new)

    def _leftover(self, path: str) -> Iterator[FileChange]:
        beside = path + BESIDE
        if current_fingerprint(self._root, beside) in self._offered(path):
            yield FileChange(Action(beside, "remove", f"{path} is up to date without it"))

    def _offered(self, path: str) -> frozenset[str]:
        """The fingerprints that a new version beside the file may have if it was not edited."""
        released = {fingerprint(self._shipped[path]), *self._released.get(path, ())}
        return frozenset(released) | self._unedited(path + BESIDE)

    def _recorded(self, path: str) -> str:
        return self._previous.files.get(path, "")
