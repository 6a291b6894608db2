"""What a session would find in a commit, if that were checked out: its playbook, commands, spec.

Nothing is made to find out. What the commit lacks is said with what to do about it (kai NFR3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from playbook_supervisor.agents import registry
from playbook_supervisor.commands.install import installer
from playbook_supervisor.commands.worktrees import start_point
from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.formats.strict_yaml import MAX_BYTES
from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy, Condition
from playbook_supervisor.project import config, library
from playbook_supervisor.project.conditions import Workspace, probe
from playbook_supervisor.project.install_record import read_installation
from playbook_supervisor.project.slash_commands import CommandIndex
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import creation
from playbook_supervisor.sessions.creation import RunRequest
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.system.files import contained, read_bytes

_RUN = "playbook.run"
_MISSING = " is missing"
_INSTALL = "Run `playbook init`, commit what it writes, then repeat."


class Preflight(Record):
    """A commit, laid out in the folder `tree`, that a worktree of this store's repository gets.

    `own` says that it is the tip of the branch that the worktree is going to have.
    """

    store: DiskStore
    tree: Path
    at: start_point.Base
    own: bool = False

    def intention(self, reference: str, given: Sequence[str], branch: str) -> RunRequest:
        """What would begin there on that branch. Raises what `beginning` does, of that commit."""
        elsewhere = self._commands_elsewhere()
        try:
            return creation.intend(
                self.store,
                reference,
                given,
                commands_elsewhere=elsewhere,
                tree=self.tree,
                branch=branch,
            )
        except PlaybookError as error:
            if error.code in ("PB-ARG-PLAYBOOK", "PB-STATE-NOT-INITIALISED") and self._is_here(
                reference
            ):
                raise self._lacks(f"the playbook {reference}", [reference], "") from error
            raise self._of_this_commit(error) from error

    def judge(self, wanted: RunRequest, branch: str) -> None:
        """GitError PB-GIT-BASE if commands, settings or what the first step needs are not there."""
        missing = list(self._ours_missing())
        if missing == [settings.FILE] and self._outdated():
            told = f"hooks in {settings.FILE} are missing or altered on {self.at.told}"
            raise self._error(told, missing, _INSTALL)
        if missing:
            more = f" and {len(missing) - 2} more" if len(missing) > 2 else ""
            raise self._lacks(", ".join(missing[:2]) + more, missing, _INSTALL)
        world = Workspace(self.tree, wanted.feature, branch, config.load(self.tree))
        failing = [
            self._told(probed)
            for step in _first(wanted.playbook)
            for condition in step.preconditions
            if condition is not Condition.PR_CREATED  # which no commit can hold
            and not (probed := probe(condition, world)).held
        ]
        if failing:
            failing = list(dict.fromkeys(failing))
            raise self._error("; ".join(failing), failing)

    # ── what is missing ─────────────────────────────────────────────────────────────────────

    def _commands_elsewhere(self) -> bool:
        """Whether the project's agent keeps its commands outside `.claude/`."""
        return not registry.is_default(config.load(self.tree).agent)

    def _is_here(self, reference: str) -> bool:
        try:
            return bool(library.find(self.store.checkout.root, reference))
        except PlaybookError:
            return False

    def _ours_missing(self) -> Iterator[str]:
        """Of our own commands and settings, those that stand here, or that a client cannot miss."""
        here, elsewhere = self.store.checkout.root, self._commands_elsewhere()
        shelf = CommandIndex(self.tree, home=Path.home())
        for name in installer.COMMANDS:
            file = f".claude/commands/{name}.md"
            needed = (here / file).is_file() or (name == _RUN and not elsewhere)
            if needed and shelf.resolve(f"/{name}") is None:
                yield file
        if read_installation(self.tree).no_hooks or not _unhooked(self.tree):
            return
        if not elsewhere or not _unhooked(here):
            yield settings.FILE

    def _outdated(self) -> bool:
        """Whether settings are committed that will not do, as here: nothing waits for a commit."""
        return (self.tree / settings.FILE).is_file() and _unhooked(self.store.checkout.root)

    def _told(self, probed: Probed) -> str:
        path = probed.evidence.removesuffix(_MISSING)
        if path == probed.evidence or probed.answer is Answer.ERROR:
            return f"{probed.evidence} (on {self.at.told})"
        return f"{path} is not committed on {self.at.told}"

    # ── saying so ───────────────────────────────────────────────────────────────────────────

    def _lacks(self, told: str, missing: Sequence[str], absent: str) -> GitError:
        """`absent` is what to do if none of it stands in the checkout, either."""
        root = self.store.checkout.root
        here = any(
            not _unhooked(root) if each == settings.FILE else (root / each).exists()
            for each in missing
        )
        verb = "is" if len(missing) == 1 else "are"
        return self._error(
            f"{told} {verb} not committed on {self.at.told}", missing, "" if here else absent
        )

    def _error(self, message: str, details: Sequence[str], guidance: str = "") -> GitError:
        if self.own and not guidance:
            guidance = f"Commit it on {self.at.told}, or take another branch: --branch NAME."
        return GitError("PB-GIT-BASE", message, guidance=guidance, details=tuple(details))

    def _of_this_commit(self, error: PlaybookError) -> PlaybookError:
        """The same error, which names no folder that is gone by now."""
        place = str(self.tree)

        def plain(text: str) -> str:
            return text.replace(f"{place}/", "").replace(place, self.at.told)

        where = f"{plain(error.where)} on {self.at.told}" if error.where else self.at.told
        return type(error)(
            error.code,
            plain(error.message),
            where=where,
            guidance=error.guidance,
            cause=plain(error.cause),
            details=tuple(map(plain, error.details)),
        )


def _unhooked(root: Path) -> bool:
    """Whether the client's settings lack any of ours."""
    try:
        data = read_bytes(contained(root, settings.FILE), limit=MAX_BYTES)
    except FileNotFoundError:
        return True
    return bool(settings.lacking(data))


def _first(playbook: Playbook) -> list[Step]:
    """The steps that run first: those of a group together."""
    due = [step for step in playbook.steps if step.autonomy is not Autonomy.SKIP]
    group = due[0].parallel_group if due else ""
    return [step for step in due if group and step.parallel_group == group] or due[:1]
