"""`playbook init`: install playbooks, commands and settings in a project (kai FR42, NFR11).

Files of other origin are never overwritten, and files that a user deleted are not restored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.install import changes, shipped
from playbook_supervisor.commands.install.changes import Action, FileChange, InstallPlan, Merge
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.project import config, features, library
from playbook_supervisor.project.install_record import FILE, Installation, fingerprint
from playbook_supervisor.project.schema import read_playbook
from playbook_supervisor.project.slash_commands import CommandIndex
from playbook_supervisor.records import replace
from playbook_supervisor.system import checkout, templates
from playbook_supervisor.system.files import read_bytes


def plan(
    cwd: Path | None = None,
    merges: Mapping[str, Merge] = changes.SHARED,
    *,
    no_hooks: bool | None = None,
) -> InstallPlan:
    """What `init` would do in the repository of `cwd`. Writes nothing.

    `no_hooks` leaves the shared files in `merges` alone and is remembered; None means what was
    chosen last. StateError PB-STATE-NO-REPOSITORY outside of a repository; StorageError if
    `.playbooks` is not a folder or a symbolic link leads out; CheckError if install.yaml,
    config.yaml or a shared file cannot be read.
    """
    here = checkout.find(cwd or locate.current_folder())
    return replace(_plan(here.root, merges, no_hooks), next_command=_next_command(here))


def apply(planned: InstallPlan, now_ms: int | None = None) -> None:
    """Carry the plan out. Works in a repository without commits, too."""
    root, merges, no_hooks = planned.root, planned.merges, planned.record.no_hooks
    changes.apply(planned, lambda: _plan(root, merges, no_hooks), now_ms)


def _plan(root: Path, merges: Mapping[str, Merge], no_hooks: bool | None) -> InstallPlan:
    previous = changes.previous_installation(root)
    files = [_file(root, path, data, previous) for path, data in shipped.files(root).items()]
    recorded = {file.action.path: file.recorded for file in files if file.recorded}
    without = previous.no_hooks if no_hooks is None else no_hooks
    record = Installation(__version__, {**previous.files, **recorded}, without)
    if previous.version and (record.files, without) == (previous.files, previous.no_hooks):
        record = previous
    return changes.complete(root, files, merges, record, previous)


def _file(root: Path, path: str, content: bytes, previous: Installation) -> FileChange:
    if why := changes.obstacle(root, path):
        return FileChange(Action(path, "conflict", why))
    current, ours = changes.current_fingerprint(root, path), fingerprint(content)
    if current == ours:
        return FileChange(Action(path, "keep", changes.UP_TO_DATE), recorded=ours)
    if current and current == previous.files.get(path):
        why = "installed by an earlier version; see `playbook update`"
    elif current:
        why = "your version is kept"
    elif path in previous.files:
        why = f"you deleted it; to restore it, remove its line from {FILE}"
    else:
        return FileChange(Action(path, "write", "new"), content, ours)
    return FileChange(Action(path, "keep", why))


def _next_command(here: checkout.Checkout) -> str:
    """Run the shipped playbook that fits the installed commands, on an existing feature.

    If none fits, check the first, which reports the missing commands.
    """
    fitting = next(_fitting(here.root), "")
    if not fitting:
        return f"playbook check {library.FOLDER}/{shipped.PLAYBOOKS[0]}.yaml"
    return f"playbook run {fitting} {_feature(here)}"


def _fitting(root: Path) -> Iterator[str]:
    commands = CommandIndex(root, home=Path.home())
    for name in shipped.PLAYBOOKS:
        file = templates.folder() / "playbooks" / f"{name}.yaml"
        steps = read_playbook(read_bytes(file), file.name).steps
        found = [commands.resolve(step.command) for step in steps]
        if all(command is not None and not command.closed for command in found):
            yield name


def _feature(here: checkout.Checkout) -> str:
    """The branch's own feature, else the latest with a spec, as short as it can be typed."""
    settings = config.load(here.root)
    specified = [spec.parent.name for spec in (here.root / settings.specs).glob("*/spec.md")]
    names = sorted(name for name in specified if features.is_name(name))
    if not names:
        return "FEATURE"
    name = here.branch if here.branch in names else names[-1]
    number = name.partition("-")[0]
    with suppress(ArgumentError):
        if features.resolve(here.root, number, settings, tuple).name == name:
            return number
    return name
