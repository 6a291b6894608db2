"""Creating a session: everything that can be wrong is reported before anything is created."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.errors import ArgumentError, CheckError, StateError
from playbook_supervisor.formats.sanitize import first_line, suggestion
from playbook_supervisor.kernel.model import SLASH, Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy, SessionStatus
from playbook_supervisor.project.command_layouts import LAYOUTS
from playbook_supervisor.project.commit_files import left_alone
from playbook_supervisor.project.conditions import conditions, features
from playbook_supervisor.project.conditions.conditions import Workspace
from playbook_supervisor.project.expressions import arguments
from playbook_supervisor.project.expressions.bound_conditions import bound, without_absent_checks
from playbook_supervisor.project.expressions.references import is_known
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.child_playbooks import Children
from playbook_supervisor.project.playbooks.playbook_file import PlaybookFile
from playbook_supervisor.project.playbooks.step_needs import lacking
from playbook_supervisor.project.policies import policy_files
from playbook_supervisor.project.policies.session_policy import Policy, tightened
from playbook_supervisor.project.settings import config, secrets
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.project.slash_commands import CommandIndex, InstalledCommand, index_of
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import principal
from playbook_supervisor.sessions.files.manifest import NO_DRIVER, Driver
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.selection import open_here
from playbook_supervisor.sessions.store.session_changes import never_committed
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.git.git_process import branches, default_branch


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that a person asked for, checked: it can begin. `warnings` are sentences for them.
    `playbook` is as its author wrote it, `source` the path of its file for messages, `text` what a
    session keeps of it. `policy` is what the project asks of its steps, None if it has no policies.
    Of the commands whose steps name no other agent, `missing` are not installed here, `closed` do
    not run inside the client, and `hidden` do not run headless. `children` are the playbooks that
    its steps can reach, by name; their commands and policies count, too."""

    playbook: Playbook
    source: str
    text: bytes
    config: Config
    feature: str
    args: dict[str, str]
    warnings: tuple[str, ...]
    missing: tuple[str, ...]
    closed: tuple[str, ...]
    hidden: tuple[str, ...]
    policy: Policy | None
    children: Mapping[str, PlaybookFile]

    @property
    def tightened(self) -> Playbook:
        return bound(tightened(self.playbook, self.policy or Policy()), self.args)

    @property
    def tightened_children(self) -> dict[str, Playbook]:
        """The children by name, as their sessions will run them, but for the values of args."""
        policy = self.policy or Policy()
        return {
            name: tightened(child.playbook, policy.child(name))
            for name, child in self.children.items()
        }

    @property
    def all_playbooks(self) -> tuple[Playbook, ...]:
        return (self.tightened, *self.tightened_children.values())

    def require_commands(self, root: Path, *, inside: bool = False) -> None:
        """CheckError PB-CHECK-COMMAND for Claude Code. `inside`: models call them in the client;
        else it is given them as if typed."""
        lacking, what, guidance = self.missing, "commands that are not installed", ""
        if not lacking and inside:
            lacking = self.closed
            what = "commands that models cannot call (disable-model-invocation)"
            guidance = f"Run it headless, in a terminal: playbook run {self.playbook.name}"
        elif not lacking:
            lacking, what = self.hidden, "commands that people cannot type (user-invocable: false)"
            guidance = f"Run it inside Claude Code: /playbook.run {self.playbook.name}"
        if lacking:
            raise CheckError(
                "PB-CHECK-COMMAND",
                f"{self.playbook.name} needs {what}: {', '.join(lacking)}",
                where=str(root / ".claude"),
                guidance=guidance,
                details=lacking,
            )


def prepare(
    store: DiskStore,
    reference: str | PlaybookFile,
    given: Sequence[str],
    *,
    start: str = "",
    tree: Path | None = None,
    branch: str | None = None,
    fresh: bool = False,
) -> RunRequest:
    """Read and check everything (kai NFR3, cat FR-2). Raises a CheckError or ArgumentError.
    Commands that are not installed are only a warning: call `require_commands` where they must be.
    `tree` and `branch` are those of a worktree that is still to be made; else the checkout's. In a
    `fresh` clone nothing is uncommitted."""
    here = store.checkout.root
    root = tree or here
    settings = config.load(root)
    found_file = library.find(root, reference) if isinstance(reference, str) else reference
    playbook = found_file.playbook
    if start and start not in playbook:
        raise _unknown_step(playbook, start)
    has_children = any(step.child for step in playbook.steps)
    children = Children(root).required(playbook, found_file) if has_children else {}
    below = [child.playbook for child in children.values()]
    policy = policy_files.in_force(root, playbook, settings, below)
    if policy is not None:
        policy.admit_start(playbook, start, lambda: principal.local(here).name)
    args = arguments.bind(playbook, given, is_secret=lambda name: secrets.known(name, settings))
    steps = [*playbook.steps, *(step for each in children.values() for step in each.playbook.steps)]
    below_steps = (step for each in children.values() for step in each.playbook.steps)
    named = [*bound(playbook, args).steps, *below_steps]
    commands = _commands([step for step in named if step.by_client], root)
    missing = tuple(name for name, found in commands.items() if found is None)
    warnings = []
    if nowhere := [name for name in missing if not _is_anywhere(name, root)]:
        warnings.append(f"not installed as slash commands here: {', '.join(nowhere)}")
    if tree is None and not any(step.namespace == "branch" for step in steps):
        warnings = [*_on_default_branch(store.checkout), *warnings]
    if tree is None:
        warnings += [] if fresh else left_alone(here, steps)
        vain = never_committed(here, settings)
        warnings += [". ".join(vain)] if vain else []
    branch = store.checkout.branch if branch is None else branch
    found = features.current(root, branch, settings)
    if args.get("feature"):
        found = features.resolve(root, args["feature"], settings, lambda: branches(here))
        if found.warning and tree is not None:  # the feature may be here, and not committed
            found = features.resolve(here, args["feature"], settings, lambda: branches(here))
        args = arguments.changed(playbook, args, "feature", found.name)
    feature = found.name
    warnings += [found.warning] if found.warning else []
    args = without_absent_checks(playbook, args, settings.checks)
    runs = bound(tightened(playbook, policy or Policy()), args)
    conditions.require_answerable(_asked(runs), settings)
    for child in children.values():
        conditions.require_answerable(filter(is_known, _asked(child.playbook)), settings)
    warnings += [lack.sentence for lack in lacking(runs, here, start) if not lack.fatal]
    warnings += _result_exists(runs, start, Workspace(root, feature, branch, settings))
    return RunRequest(
        playbook=playbook,
        source=found_file.source,
        text=found_file.kept,
        config=settings,
        feature=feature,
        args=args,
        warnings=tuple(warnings),
        missing=missing,
        closed=tuple(found.name for found in commands.values() if found and found.closed),
        hidden=tuple(found.name for found in commands.values() if found and found.hidden),
        policy=policy,
        children=children,
    )


def begin(
    store: DiskStore,
    request: RunRequest,
    *,
    start: str = "",
    exports: bool = True,
    reserved: str = "",
    driver: Driver = NO_DRIVER,
) -> str:
    """The id of a session for this request: a pending one that matches it, else a new one, and
    always so with a `reserved` id. `start` is the step to begin at. `exports`: the driver gives its
    workers variables. Nothing is created where this raises StateError: `PB-STATE-OPEN` if another
    session is open here, `PB-STATE-SPECKIT` if what would run first could not be launched."""
    with store.creating():
        if pending := pending_session(store, request, reserved=reserved):
            return pending
        _require_speckit(store.checkout.root, request, start, exports=exports)
        return store.create(
            playbook=request.playbook.name,
            text=request.text,
            feature=request.feature,
            args=request.args,
            definition=request.playbook,
            policy=request.policy,
            children={name: child.kept for name, child in request.children.items()},
            session_id=reserved,
            driver=replace(driver, start=start),
        )


def pending_session(store: DiskStore, request: RunRequest, *, reserved: str = "") -> str:
    """The pending session that matches the request; empty where there is none. StateError
    `PB-STATE-OPEN` if this checkout has another open session."""
    for session_id in open_here(store):
        if not reserved and _matches(store, session_id, request):
            return session_id
        raise another_is_open(store, session_id)
    return ""


def point_speckit(root: Path, request: RunRequest) -> None:
    """Let spec-kit work on the feature. StateError if a step needs that, and it cannot be."""
    try:
        features.point_speckit(root, request.feature, request.config)
    except StateError:
        if any(step.command.startswith(features.SPECKIT) for step in request.playbook.steps):
            raise


def _require_speckit(root: Path, request: RunRequest, start: str, *, exports: bool) -> None:
    phase_of = request.tightened.phase_of
    steps = _running(request.tightened, start)
    first = [step for step in steps if phase_of[step.id] == phase_of[steps[0].id]]
    if any(step.command.startswith(features.SPECKIT) for step in first):
        features.require_speckit(root, request.feature, request.config, exported=exports)


def _running(playbook: Playbook, start: str) -> list[Step]:
    ids = [step.id for step in playbook.steps]
    steps = playbook.steps[ids.index(start) if start else 0 :]
    return [step for step in steps if step.autonomy is not Autonomy.SKIP]


def _matches(store: DiskStore, session_id: str, request: RunRequest) -> bool:
    known = store.manifest(session_id)
    return (
        known.status is SessionStatus.PENDING
        and known.playbook == request.playbook.name
        and known.feature == request.feature
        and dict(known.args) == request.args
    )


def another_is_open(store: DiskStore, session_id: str) -> StateError:
    """The error that names the open session, and what can be done with it."""
    known = store.manifest(session_id)
    name = f"{known.playbook} on {known.subject}" if known.subject else known.playbook
    at = f" at {known.current_step}" if known.current_step else ""
    ways = f"`playbook resume {session_id}`, end it with `playbook abort {session_id}`"
    cure = f"Continue with {ways}, or begin in a second worktree with `playbook start`."
    said = f"session {session_id} ({name}) is open here{at}"
    return StateError("PB-STATE-OPEN", said, guidance=cure)


def _on_default_branch(here: Checkout) -> tuple[str, ...]:
    if not here.branch or here.branch != default_branch(here.root):
        return ()
    cure = "`playbook start` makes a branch and a worktree of its own"
    return (f"this runs on {here.branch}, the repository's default branch; {cure}",)


def require_installed(commands: Iterable[str], root: Path, layout: str, where: str) -> None:
    """CheckError PB-CHECK-COMMAND if the agent with that `command_layout` lacks one of them, or
    would not let it be typed. `where` is what needs them."""
    index = index_of(root, home=Path.home(), layout=layout)
    found = {each: index.resolve(each) for each in commands} if index else {}
    lacking = tuple(each for each, command in found.items() if command is None)
    hidden = tuple(each.name for each in found.values() if each and each.hidden)
    if index is None or not (lacking or hidden):
        return
    what = f"that are not installed for {layout}: {', '.join(lacking)}"
    if not lacking:
        what = f"that {layout} keeps from people (user-invocable: false): {', '.join(hidden)}"
    raise CheckError(
        "PB-CHECK-COMMAND",
        f"{where} needs commands {what}",
        where=str(root),
        guidance=f"Put them into one of these folders: {index.layout.folders}; spec-kit's are there"
        f" after `specify init --here --integration {layout}`.",
        details=lacking or hidden,
    )


def _commands(steps: Sequence[Step], root: Path) -> dict[str, InstalledCommand | None]:
    index = CommandIndex(root, home=Path.home())
    commands = dict.fromkeys(step.command for step in steps if step.namespace == SLASH)
    return {command: index.resolve(command) for command in commands}


def _is_anywhere(command: str, root: Path) -> bool:
    """True if any agent has the command: which one is asked is not known yet."""
    indexes = (CommandIndex(root, home=Path.home(), layout=each) for each in LAYOUTS)
    return any(index.resolve(command) for index in indexes)


def _asked(playbook: Playbook) -> Iterator[str]:
    for step in playbook.steps:
        if step.autonomy is not Autonomy.SKIP:
            yield from step.conditions


def _result_exists(playbook: Playbook, start: str, workspace: Workspace) -> tuple[str, ...]:
    steps = _running(playbook, start)
    if not steps or not steps[0].postconditions:
        return ()
    first = steps[0]
    if conditions.run_checks(first.postconditions) or conditions.need_tree(first.postconditions):
        return ()  # that is not known, or would take long to find out
    probed = [conditions.probe(condition, workspace) for condition in first.postconditions]
    if not all(each.held for each in probed):
        return ()
    there = "; ".join(each.line for each in probed)
    return (f"the result of {first.id} is there; {first.command} may replace it ({there})",)


def _unknown_step(playbook: Playbook, start: str) -> ArgumentError:
    names = [step.id for step in playbook.steps]
    said = f"{playbook.name} has no step {first_line(start, 60)!r}{suggestion(start, names)}"
    return ArgumentError("PB-ARG-STEP", said, guidance=f"Its steps are {', '.join(names)}.")
