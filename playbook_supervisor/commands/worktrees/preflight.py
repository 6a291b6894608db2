"""Check whether a commit contains what a session needs (kai NFR3), in an export of the commit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.agents import registry
from playbook_supervisor.commands.install.shipped import COMMANDS
from playbook_supervisor.commands.worktrees import start_point
from playbook_supervisor.commands.worktrees.git_export import export
from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.drivers.step_kinds import require_executable, run_needs_agent
from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.formats.strict_yaml import MAX_BYTES
from playbook_supervisor.kernel.directives import Answer
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project import config, library
from playbook_supervisor.project.child_playbooks import Children
from playbook_supervisor.project.conditions import Workspace, artifacts, probe
from playbook_supervisor.project.install_record import read_installation
from playbook_supervisor.project.slash_commands import CommandIndex
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import creation
from playbook_supervisor.sessions.creation import RunRequest
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.system.files import contained, read_bytes

_RUN = "playbook.run"
_INSTALL = "Run `playbook init`, commit what it writes, then repeat."


class Preflight(Record):
    """The checks of one commit, which is exported to the folder `tree`.

    `own_tip`: the commit is the tip of the worktree's own branch, so a new commit there helps.
    `client`: Claude Code is to drive the session, not the agent in the settings.
    """

    store: DiskStore
    tree: Path
    base: start_point.Base
    own_tip: bool = False
    client: bool = False

    def request(self, reference: str, given: Sequence[str], branch: str) -> RunRequest:
        """What would run there on that branch. Errors as for `creation.prepare`."""
        elsewhere = self._commands_elsewhere()
        self._export_children(reference)
        try:
            request = creation.prepare(self.store, reference, given, tree=self.tree, branch=branch)
            if not elsewhere:
                request.require_commands(self.tree, inside=self.client)
            require_executable(request, self.tree, machine=self.store.checkout.root)
        except PlaybookError as error:
            unknown = error.code in ("PB-ARG-PLAYBOOK", "PB-STATE-NOT-INITIALISED")
            if unknown and self._in_checkout(reference):
                raise self._not_committed(f"the playbook {reference}", [reference]) from error
            if error.code == "PB-CHECK-CHILD" and self._complete_in_checkout(reference):
                cure = "" if self.own_tip else "Commit the playbooks that its steps run."
                raise self._error(f"{error.message} on {self.base.name}", [], cure) from error
            raise self._of_this_commit(error) from error
        return request

    def require(self, run: RunRequest, branch: str) -> None:
        """GitError PB-GIT-BASE if commands, settings or the first step's needs are missing."""
        missing = list(self._missing_files()) if self.client or run_needs_agent(run) else []
        if missing == [settings.FILE] and self._settings_outdated():
            message = f"hooks in {settings.FILE} are missing or changed on {self.base.name}"
            raise self._error(message, missing, _INSTALL)
        if missing:
            more = f" and {len(missing) - 2} more" if len(missing) > 2 else ""
            installable = "" if any(map(self._usable, missing)) else _INSTALL
            raise self._not_committed(", ".join(missing[:2]) + more, missing, installable)
        failing = dict.fromkeys(self._failing_preconditions(run, branch))
        if failing:
            raise self._error("; ".join(failing), [*failing])

    def runs_in_client(self, run: RunRequest) -> bool:
        """Whether Claude Code has there our commands and those of the playbook."""
        return not (run.missing or run.closed) and self._has_command(_RUN)

    # ── what is missing ─────────────────────────────────────────────────────────────────────

    def _commands_elsewhere(self) -> bool:
        """Whether the session's agent keeps its commands outside `.claude/`."""
        return not self.client and not registry.is_default(config.load(self.tree).agent)

    def _in_checkout(self, reference: str) -> bool:
        try:
            return bool(library.find(self.store.checkout.root, reference))
        except PlaybookError:
            return False

    def _complete_in_checkout(self, reference: str) -> bool:
        """Whether the checkout has all playbooks that the steps run."""
        root = self.store.checkout.root
        try:
            found = library.find(root, reference)
            Children(root).required(found.playbook, found)
        except PlaybookError:
            return False
        return True

    def _export_children(self, reference: str) -> None:
        """Add the playbooks that steps name by a path: they may lie anywhere in the commit."""
        due = [reference]
        for each in due:
            with suppress(PlaybookError):  # what is wrong with it is reported with the rest
                steps = library.find(self.tree, each).playbook.steps
                below = dict.fromkeys(step.child_reference for step in steps if step.child)
                due += [name for name in below if name not in due]
                paths = [name for name in below if "/" in name and ".." not in Path(name).parts]
                if absent := [path for path in paths if not (self.tree / path).exists()]:
                    export(self.store.checkout.root, self.base.commit, absent, self.tree)

    def _missing_files(self) -> Iterator[str]:
        """Our commands and settings that the checkout has, or that the client needs."""
        here, elsewhere = self.store.checkout.root, self._commands_elsewhere()
        for name in COMMANDS:
            file = f".claude/commands/{name}.md"
            needed = (here / file).is_file() or (name == _RUN and not elsewhere)
            if needed and not self._has_command(name):
                yield file
        if read_installation(self.tree).no_hooks or not _lacks_hooks(self.tree):
            return
        if not elsewhere or not _lacks_hooks(here):
            yield settings.FILE

    def _has_command(self, name: str) -> bool:
        return CommandIndex(self.tree, home=Path.home()).resolve(f"/{name}") is not None

    def _settings_outdated(self) -> bool:
        """Whether the settings are committed, but insufficient there as in the checkout."""
        committed = (self.tree / settings.FILE).is_file()
        return committed and _lacks_hooks(self.store.checkout.root)

    def _usable(self, path: str) -> bool:
        """Whether the checkout has the file, so that committing it is enough."""
        root = self.store.checkout.root
        return not _lacks_hooks(root) if path == settings.FILE else (root / path).exists()

    def _failing_preconditions(self, run: RunRequest, branch: str) -> Iterator[str]:
        world = Workspace(self.tree, run.feature, branch, run.config)
        asked = [name for step in _first(run.tightened) for name in step.preconditions]
        looked_at = {path for name in asked for path in artifacts(name, world)}
        outside = sorted(path for path in looked_at if not os.path.lexists(self.tree / path))
        if outside:
            export(self.store.checkout.root, self.base.commit, outside, self.tree)
        for condition in asked:
            if not artifacts(condition, world):  # no commit contains that
                continue
            probed = probe(condition, world)
            absent = self._absent_artifact(condition, world)
            if probed.answer is Answer.NOT_HELD and absent:
                yield f"{absent} is not committed on {self.base.name}"
            elif not probed.held:
                yield f"{probed.evidence} (on {self.base.name})"

    def _absent_artifact(self, condition: str, world: Workspace) -> str:
        """The condition's only artifact if the commit does not contain it; else empty."""
        paths = artifacts(condition, world)
        return paths[0] if len(paths) == 1 and not os.path.lexists(self.tree / paths[0]) else ""

    # ── errors ──────────────────────────────────────────────────────────────────────────────

    def _not_committed(self, what: str, missing: Sequence[str], guidance: str = "") -> GitError:
        verb = "is" if len(missing) == 1 else "are"
        return self._error(f"{what} {verb} not committed on {self.base.name}", missing, guidance)

    def _error(self, message: str, details: Sequence[str], guidance: str = "") -> GitError:
        if self.own_tip and not guidance:
            guidance = f"Commit it on {self.base.name}, or take another branch: --branch NAME."
        return GitError("PB-GIT-BASE", message, guidance=guidance, details=tuple(details))

    def _of_this_commit(self, error: PlaybookError) -> PlaybookError:
        """The same error, without the path of the scratch folder."""
        scratch = str(self.tree)

        def plain(text: str) -> str:
            return text.replace(f"{scratch}/", "").replace(scratch, self.base.name)

        where = f"{plain(error.where)} on {self.base.name}" if error.where else self.base.name
        return type(error)(
            error.code,
            plain(error.message),
            where=where,
            guidance=error.guidance,
            cause=plain(error.cause),
            details=tuple(map(plain, error.details)),
        )


def _lacks_hooks(root: Path) -> bool:
    try:
        data = read_bytes(contained(root, settings.FILE), limit=MAX_BYTES)
    except FileNotFoundError:
        return True
    return bool(settings.lacking(data))


def _first(playbook: Playbook) -> list[Step]:
    """The steps that run first: one, or a parallel group."""
    due = [step for step in playbook.steps if step.autonomy is not Autonomy.SKIP]
    group = due[0].parallel_group if due else ""
    return [step for step in due if group and step.parallel_group == group] or due[:1]
