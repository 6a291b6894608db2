"""`playbook start`: a session in a worktree of its own.

Everything is checked before anything is created, in an export of the commit. If a later step
fails, what was created is removed again.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from playbook_supervisor.agents import registry
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving.preflight import preflight
from playbook_supervisor.commands.install.shipped import COMMANDS, command_file
from playbook_supervisor.commands.worktrees import worktree
from playbook_supervisor.commands.worktrees.worktree import (
    HEADS,
    REMOTES,
    Base,
    Branch,
    WorktreePlan,
)
from playbook_supervisor.drivers.claude_code import hook_script, settings
from playbook_supervisor.drivers.claude_code.marker import SCRIPT
from playbook_supervisor.drivers.claude_code.permissions import plugin_enabled
from playbook_supervisor.drivers.run_agents import require_known
from playbook_supervisor.drivers.step_kinds import require_executable, run_needs_client
from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import MAX_BYTES
from playbook_supervisor.kernel.directives import Answer
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.conditions.conditions import Workspace, artifacts, probe
from playbook_supervisor.project.conditions.probes import LARGEST
from playbook_supervisor.project.install_record import read_installation
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.child_playbooks import Children
from playbook_supervisor.project.settings import config
from playbook_supervisor.project.settings import isolation as isolated
from playbook_supervisor.project.slash_commands import CommandIndex
from playbook_supervisor.sessions.files.manifest import Driver
from playbook_supervisor.sessions.store import creation
from playbook_supervisor.sessions.store.creation import RunRequest
from playbook_supervisor.sessions.store.disk_store import SESSIONS, DiskStore
from playbook_supervisor.system.disk.files import contained, read_bytes, write_atomically
from playbook_supervisor.system.git import checkout, gitpython

_RUN = "playbook.run"
_INSTALL = "Run `playbook init`, commit what it writes, then repeat."
_FOLDERS = (".playbooks", ".claude", ".specify", ".features")
_LINK = "120000"
_HOOKS = frozenset({settings.FILE, SCRIPT})


@dataclass(frozen=True, slots=True)
class StartResult:
    """A pending session in its own worktree.

    `typed` is the slash command that begins it, empty if Claude Code lacks commands for it.
    `headless` is the command that runs it with the agent of the settings, which is `own_agent` if
    they name one. `notices` are sentences for the user.
    """

    session_id: str
    root: Path
    branch: Branch
    base: Base
    typed: str
    headless: str
    own_agent: bool
    notices: tuple[str, ...]


def start(
    reference: str,
    args: Sequence[str] = (),
    *,
    base: str = "",
    branch: str = "",
    client: bool = False,
    agent: str = "",
    isolation: str = "",
    cwd: Path | None = None,
) -> StartResult:
    """Create a pending session in a new worktree and branch; nothing remains after an error.

    `agent` and `isolation` are what the options of `run` take; `run` and `resume` in the worktree
    use them.
    """
    store = locate.store(cwd)
    here = store.checkout
    driver = Driver(agent=registry.with_portable_path(agent, here.root), isolation=isolation)
    reference = _from_top_level(here.root, reference)
    with ExitStack() as cleanup:
        cleanup.enter_context(_exiting_on_signals())
        with worktree.locked_worktrees(here):
            notices = worktree.clean_up(here)
            worktree.require_clean(here.root)
            from_base = worktree.base(here.root, base)
            session_id = cleanup.enter_context(_reserved_id(store))
            asked = _Asked(branch, driver.agent, client=client)
            run, on_branch, in_client = _check(store, reference, args, from_base, session_id, asked)
            isolated.admit(isolation, run.config)
            require_known(run, driver.agent)
            if driver.agent:
                there = registry.with_absolute_path(driver.agent, here.root)
                registry.choose(there, run.config, here.root)
            path = worktree.path(here, config.load(here.root).worktrees, session_id)
            plan = _plan(session_id, path, on_branch, from_base)
            cleanup.enter_context(worktree.created(here, plan))
        words = _words(reference, run)
        notices += (*run.warnings, *_begin(store, plan, words, from_base, driver))
    needs = preflight(run.all_playbooks, here.root, run.config, push=True)
    arguments = shlex.join(words)
    return StartResult(
        session_id,
        path,
        on_branch,
        from_base,
        typed=f"/playbook.run {arguments}" if in_client else "",
        headless=f"playbook run {arguments}",
        own_agent=not registry.is_default(driver.agent or run.config.agent),
        notices=tuple(dict.fromkeys((*notices, *needs))),
    )


def _plan(session_id: str, path: Path, branch: Branch, base: Base) -> WorktreePlan:
    tracks = branch.new and base.ref.startswith(REMOTES)
    source = base.ref if tracks else branch.commit
    return WorktreePlan(session_id, str(path), branch.name, branch.new, branch.commit, source)


@contextmanager
def _reserved_id(store: DiskStore) -> Iterator[str]:
    session_id = store.reserve()
    try:
        yield session_id
    except BaseException:
        with suppress(OSError):
            (store.checkout.ids / session_id).rmdir()
        raise


def _exiting_on_signals() -> AbstractContextManager[None]:
    """Let SIGTERM and SIGHUP unwind the stack as Ctrl-C does, so that cleanup runs."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    return worktree.handling(end, signal.SIGTERM, signal.SIGHUP)


# ── before anything is created ───────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Asked:
    """The branch and the agent that a person named, and whether Claude Code is to be opened."""

    branch: str
    agent: str
    client: bool


def _check(
    store: DiskStore,
    reference: str,
    given: Sequence[str],
    base: Base,
    session_id: str,
    asked: _Asked,
) -> tuple[RunRequest, Branch, bool]:
    """The run, its branch, and whether Claude Code has the commands for it.

    The feature determines the branch, unless a person names one. If that branch exists,
    everything is checked at its tip instead of at the base.
    """

    def ready(preflight: _Preflight, branch: Branch) -> tuple[RunRequest, Branch, bool]:
        run = preflight.request(reference, given, branch.name)
        preflight.require(run, branch.name)
        return run, branch, not (run.missing or run.closed) and preflight.has_command(_RUN)

    root, named = store.checkout.root, asked.branch
    looks = partial(_Preflight, store, agent=asked.agent, client=asked.client)
    extra = [reference] if _is_path(reference) else []
    heads = worktree.heads(root)
    tip = _tip(named, heads[named]) if named in heads else base
    with _exported(root, tip.commit, extra) as tree:
        preflight = looks(tree, tip, own_tip=tip is not base)
        first = preflight.request(reference, given, named or store.checkout.branch)
        branch = worktree.branch(root, first.feature, session_id, base, named)
        if branch.new or branch.commit == tip.commit:
            return ready(preflight, branch)
    with _exported(root, branch.commit, extra) as tree:
        tip = _tip(branch.name, branch.commit)
        return ready(looks(tree, tip, own_tip=True), branch)


def _tip(name: str, commit: str) -> Base:
    return Base(commit, f"{HEADS}{name}", name)


def _from_top_level(root: Path, reference: str) -> str:
    file = Path.cwd() / reference
    if _is_path(reference) and os.path.lexists(file):
        return os.path.relpath(file, root)
    return reference


def _is_path(reference: str) -> bool:
    return "/" in reference or "." in reference


def _words(reference: str, run: RunRequest) -> list[str]:
    words, positional = [reference], True
    for name, value in run.args.items():
        positional = positional and value != "" and value.partition("=")[0] not in run.args
        if value:
            words.append(value if positional else f"{name}={value}")
    return words


# ── in the new worktree ──────────────────────────────────────────────────────────────────────


def _begin(
    store: DiskStore, plan: WorktreePlan, words: Sequence[str], base: Base, driver: Driver
) -> tuple[str, ...]:
    there = DiskStore(checkout.find(Path(plan.path)), clock=store.clock)
    root = there.checkout.root
    run = _request_there(there, *words)
    worktree.save(there.runtime(plan.session_id), base)
    creation.point_speckit(root, run)
    creation.begin(there, run, reserved=plan.session_id, driver=driver)
    if (root / ".gitmodules").is_file():
        return ("submodules are not checked out there: `git submodule update --init`",)
    return ()


def _request_there(there: DiskStore, reference: str, *given: str) -> RunRequest:
    try:
        return creation.prepare(there, reference, given)
    except PlaybookError as error:
        raise GitError(
            "PB-GIT-FAILED",
            f"git checks out too little into a new worktree: {first_line(error.message, 300)}",
            guidance="In a sparse checkout, run `git sparse-checkout add .playbooks .claude`.",
        ) from error


# ── what the commit has ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Preflight:
    """The checks of one commit, which is exported to the folder `tree`.

    `own_tip`: the commit is the tip of the worktree's own branch, so a new commit there helps.
    `client`: Claude Code is to drive the session, not the `agent` or that in the settings.
    """

    store: DiskStore
    tree: Path
    base: worktree.Base
    own_tip: bool = False
    agent: str = ""
    client: bool = False

    def request(self, reference: str, given: Sequence[str], branch: str) -> RunRequest:
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
        missing = list(self._missing_files()) if self.client or run_needs_client(run) else []
        committed = (self.tree / settings.FILE).is_file()
        outdated = committed and _lacking_hooks(self.store.checkout.root)
        if missing and {*missing} <= _HOOKS and outdated:
            files = " and ".join(missing)
            message = f"hooks in {files} are missing or changed on {self.base.name}"
            raise self._error(message, missing, _INSTALL)
        if missing:
            more = f" and {len(missing) - 2} more" if len(missing) > 2 else ""
            installable = "" if any(map(self._usable, missing)) else _INSTALL
            raise self._not_committed(", ".join(missing[:2]) + more, missing, installable)
        failing = dict.fromkeys(self._failing_preconditions(run, branch))
        if failing:
            raise self._error("; ".join(failing), [*failing])

    # ── what is missing ─────────────────────────────────────────────────────────────────────

    def _commands_elsewhere(self) -> bool:
        """True if the session's agent keeps its commands outside `.claude/`."""
        agent = self.agent or config.load(self.tree).agent
        return not self.client and not registry.is_default(agent)

    def _in_checkout(self, reference: str) -> bool:
        try:
            return bool(library.find(self.store.checkout.root, reference))
        except PlaybookError:
            return False

    def _complete_in_checkout(self, reference: str) -> bool:
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
                    _export(self.store.checkout.root, self.base.commit, absent, self.tree)

    def _missing_files(self) -> Iterator[str]:
        here, elsewhere = self.store.checkout.root, self._commands_elsewhere()
        for name in COMMANDS:
            file = command_file(name)
            needed = (here / file).is_file() or (name == _RUN and not elsewhere)
            if needed and not self.has_command(name):
                yield file
        if not read_installation(self.tree).no_hooks and not (elsewhere and _lacking_hooks(here)):
            yield from _lacking_hooks(self.tree)

    def has_command(self, name: str) -> bool:
        return CommandIndex(self.tree, home=Path.home()).resolve(f"/{name}") is not None

    def _usable(self, path: str) -> bool:
        root = self.store.checkout.root
        return not _lacking_hooks(root) if path in _HOOKS else (root / path).exists()

    def _failing_preconditions(self, run: RunRequest, branch: str) -> Iterator[str]:
        world = Workspace(self.tree, run.feature, branch, run.config)
        asked = [name for step in _first(run.tightened) for name in step.preconditions]
        looked_at = {path for name in asked for path in artifacts(name, world)}
        outside = sorted(path for path in looked_at if not os.path.lexists(self.tree / path))
        if outside:
            _export(self.store.checkout.root, self.base.commit, outside, self.tree)
        for condition in asked:
            if not artifacts(condition, world):  # no commit contains that
                continue
            probed = probe(condition, world)
            paths = artifacts(condition, world)
            alone = len(paths) == 1 and not os.path.lexists(self.tree / paths[0])
            absent = paths[0] if alone else ""
            if probed.answer is Answer.NOT_HELD and absent:
                yield f"{absent} is not committed on {self.base.name}"
            elif not probed.held:
                yield f"{probed.evidence} (on {self.base.name})"

    # ── errors ──────────────────────────────────────────────────────────────────────────────

    def _not_committed(self, what: str, missing: Sequence[str], guidance: str = "") -> GitError:
        verb = "is" if len(missing) == 1 else "are"
        return self._error(f"{what} {verb} not committed on {self.base.name}", missing, guidance)

    def _error(self, message: str, details: Sequence[str], guidance: str = "") -> GitError:
        if self.own_tip and not guidance:
            guidance = f"Commit it on {self.base.name}, or take another branch: --branch NAME."
        return GitError("PB-GIT-BASE", message, guidance=guidance, details=tuple(details))

    def _of_this_commit(self, error: PlaybookError) -> PlaybookError:
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


def _lacking_hooks(root: Path) -> list[str]:
    if plugin_enabled(root, Path.home()):
        return []
    try:
        data = read_bytes(contained(root, settings.FILE), limit=MAX_BYTES)
    except FileNotFoundError:
        data = b""
    found = {settings.FILE: settings.lacking(data), SCRIPT: hook_script.problem(root)}
    return [file for file, problem in found.items() if problem]


def _first(playbook: Playbook) -> list[Step]:
    due = [step for step in playbook.steps if step.autonomy is not Autonomy.SKIP]
    group = due[0].parallel_group if due else ""
    return [step for step in due if group and step.parallel_group == group] or due[:1]


# ── the export ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Blob:
    mode: str
    name: str
    size: int
    path: str


@contextmanager
def _exported(root: Path, commit: str, extra: Sequence[str] = ()) -> Iterator[Path]:
    """A folder with a commit's playbooks, commands and artifacts, and the files `extra`.

    The commit's own config.yaml names the artifact folders. GitError, or the errors of reading
    that file.
    """
    with TemporaryDirectory(prefix="playbook-base-") as scratch:
        tree = Path(os.path.realpath(scratch))
        _export(root, commit, (*_FOLDERS, *extra), tree)
        settings = config.load(tree)
        artifacts = {settings.specs, settings.agreements, settings.qa}
        _export(root, commit, sorted(artifacts - {*_FOLDERS}), tree)
        yield tree


def _export(root: Path, commit: str, paths: Sequence[str], tree: Path) -> None:
    """Add these files and folders of the commit, as far as it has them, to the folder. GitError."""
    with gitpython.repository(root) as repo:
        blobs = list(_blobs(repo, commit, paths))
        contents = gitpython.contents(repo, [blob.name for blob in blobs if blob.size <= LARGEST])
    for blob in blobs:
        file = tree / blob.path
        file.parent.mkdir(parents=True, exist_ok=True)
        if blob.size > LARGEST:
            write_atomically(file, b"", durable=False)
            os.truncate(file, blob.size)
        elif blob.mode == _LINK:
            os.symlink(next(contents), os.fsencode(file))  # noqa: PTH211 - the target is bytes
        else:
            write_atomically(file, next(contents), durable=False)


def _blobs(repo: gitpython.Repo, commit: str, paths: Sequence[str]) -> Iterator[_Blob]:
    listed = repo.git.ls_tree("-r", "-z", "--long", "--full-tree", commit, "--", *paths)
    for line in filter(None, listed.split("\0")):
        about, _, path = line.partition("\t")
        mode, _, name, size = about.split()
        if size.isdecimal() and not path.startswith(f"{SESSIONS}/"):  # a submodule has no size
            yield _Blob(mode, name, int(size), path)
