"""Beginning a session: everything that can be wrong is said before anything is created."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.errors import ArgumentError, CheckError, StateError
from playbook_supervisor.formats.sanitize import first_line, suggestion
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.vocabulary import Autonomy, SessionStatus
from playbook_supervisor.project import arguments, config, features, library
from playbook_supervisor.project.conditions import Workspace, probe
from playbook_supervisor.project.session_policy import Policy, emit_policy, tightened
from playbook_supervisor.project.slash_commands import CommandIndex
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.local_state import Runtime
from playbook_supervisor.sessions.selection import open_here
from playbook_supervisor.system.files import ensure_folder, locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.project.config import Config
    from playbook_supervisor.sessions.session_store import SessionStore


class RunRequest(Record):
    """What a person asked for, checked: it can begin. `warnings` are sentences for them.

    `playbook` is as its author wrote it, `source` the path of its file for messages, `text` what
    is pinned of it; `policy` is what the project asks of its steps, None if it has no policies.
    """

    playbook: Playbook
    source: str
    text: bytes
    config: Config
    feature: str
    args: dict[str, str]
    warnings: tuple[str, ...]
    policy: Policy | None = None

    @property
    def runs(self) -> Playbook:
        """The playbook as tight as the policies make it."""
        return tightened(self.playbook, self.policy or Policy())


def intend(
    store: SessionStore,
    reference: str,
    given: Sequence[str],
    *,
    start: str = "",
    commands_elsewhere: bool = False,
    tree: Path | None = None,
    branch: str | None = None,
) -> RunRequest:
    """Read and check all of it (kai NFR3, cat FR-2). Raises a CheckError or ArgumentError.

    `commands_elsewhere`: the agent keeps its commands in its own place, so that one that is not
    installed here is only worth a warning. `tree` and `branch`: where the files of a worktree
    stand that is still to be made, and its branch; else they are those of the checkout.
    """
    here = store.checkout.root
    root = tree or here
    settings = config.load(root)
    found_file = library.find(root, reference)
    playbook = found_file.playbook
    if start and start not in playbook:
        raise _no_step(playbook, start)
    policy = in_force(root, playbook)
    if policy is not None:
        policy.admit_start(playbook, start, lambda: _identity(here))
    args = arguments.bind(playbook, given)
    warnings = list(_missing_commands(playbook, root, commands_elsewhere=commands_elsewhere))
    branch = store.checkout.branch if branch is None else branch
    feature = features.of_branch(branch)
    if "feature" in args:
        found = features.resolve(root, args["feature"], settings, lambda: _branches(here))
        if found.warning and tree is not None:  # what is meant may be here, and not committed
            found = features.resolve(here, args["feature"], settings, lambda: _branches(here))
        feature = args["feature"] = found.name
        warnings += [found.warning] if found.warning else []
    warnings += _made_already(
        tightened(playbook, policy or Policy()), start, Workspace(root, feature, branch, settings)
    )
    return RunRequest(
        playbook=playbook,
        source=found_file.source,
        text=_as_yaml(found_file.data) if found_file.file.suffix == ".json" else found_file.data,
        config=settings,
        feature=feature,
        args=args,
        warnings=tuple(warnings),
        policy=policy,
    )


def in_force(root: Path, playbook: Playbook) -> Policy | None:
    """What the project's policies ask of a playbook; None where it has none.

    CheckError PB-CHECK-POLICY where one of them is none.
    """
    from playbook_supervisor.project import policy_files

    rules = policy_files.project_rules(root)
    return policy_files.merged(rules, playbook) if rules else None


def begin(
    store: SessionStore,
    wanted: RunRequest,
    *,
    start: str = "",
    exports: bool = True,
    reserved: str = "",
    runtime: Runtime | None = None,
) -> str:
    """The id of the session that carries it out: a new one, or the pending one of the same kind.

    `start` is the step that it is to begin at, if not the first; `exports`: the driver gives its
    workers variables. `reserved` is the id that a new one is to have; then it is none but a new
    one; `runtime` knows with what that is going to be driven. StateError `PB-STATE-OPEN` if this
    checkout has another open session, `PB-STATE-SPECKIT` if what would run first could not be
    launched: then nothing is created.
    """
    ensure_folder(store.checkout.runtime)
    with locked(store.checkout.runtime / "begin.lock"):
        if pending := standing(store, wanted, reserved=reserved):
            return pending
        _require_speckit(store.checkout.root, wanted, start, exports=exports)
        return store.create(
            playbook=wanted.playbook.name,
            text=wanted.text,
            feature=wanted.feature,
            args=wanted.args,
            policy=b"" if wanted.policy is None else emit_policy(wanted.policy),
            session_id=reserved,
            runtime=runtime,
        )


def standing(store: SessionStore, wanted: RunRequest, *, reserved: str = "") -> str:
    """The pending session of the same kind that is to be gone on with; empty where there is none.

    StateError `PB-STATE-OPEN` if this checkout has another open session.
    """
    for session_id in open_here(store):
        if not reserved and _same(store, session_id, wanted):
            return session_id
        raise occupied(store, session_id)
    return ""


def _require_speckit(root: Path, wanted: RunRequest, start: str, *, exports: bool) -> None:
    """StateError PB-STATE-SPECKIT where what runs first would be made for another feature."""
    playbook = wanted.runs
    ids = [step.id for step in playbook.steps]
    running = [
        step
        for step in playbook.steps[ids.index(start) if start else 0 :]
        if step.autonomy is not Autonomy.SKIP
    ]
    first = [
        step for step in running if playbook.phase_of[step.id] == playbook.phase_of[running[0].id]
    ]
    if any(step.command.startswith(features.SPECKIT) for step in first):
        features.require_speckit(root, wanted.feature, wanted.config, exported=exports)


def _as_yaml(text: bytes) -> bytes:
    """A JSON playbook as it is pinned: JSON without tabs and escapes is YAML, too."""
    import json

    return json.dumps(json.loads(text.decode("utf-8-sig")), indent=2, ensure_ascii=False).encode()


def _same(store: SessionStore, session_id: str, wanted: RunRequest) -> bool:
    known = store.manifest(session_id)
    return (
        known.status is SessionStatus.PENDING
        and known.playbook == wanted.playbook.name
        and known.feature == wanted.feature
        and dict(known.args) == wanted.args
    )


def occupied(store: SessionStore, session_id: str) -> StateError:
    """The refusal that names the open session, and the ways out."""
    known = store.manifest(session_id)
    at = f" at {known.current_step}" if known.current_step else ""
    return StateError(
        "PB-STATE-OPEN",
        f"session {session_id} ({known.playbook} {known.feature}) is open here{at}",
        guidance=f"Go on with `playbook resume {session_id}`, end it with `playbook abort "
        f"{session_id}`, or begin in a second worktree with `playbook start`.",
    )


def _missing_commands(
    playbook: Playbook, root: Path, *, commands_elsewhere: bool
) -> tuple[str, ...]:
    shelf = CommandIndex(root, home=Path.home())
    commands = dict.fromkeys(step.command for step in playbook.steps)
    found = {command: shelf.resolve(command) for command in commands}
    missing = [command for command, file in found.items() if file is None]
    closed = [command for command, file in found.items() if file is not None and file.closed]
    if missing and not commands_elsewhere:
        raise CheckError(
            "PB-CHECK-COMMAND",
            f"{playbook.name} needs commands that are not installed: {', '.join(missing)}",
            where=str(root / ".claude"),
            details=tuple(missing),
        )
    said = [f"not installed as slash commands here: {', '.join(missing)}"] if missing else []
    if closed:
        said.append(f"closed to models (disable-model-invocation): {', '.join(closed)}")
    return tuple(said)


def _made_already(playbook: Playbook, start: str, world: Workspace) -> tuple[str, ...]:
    """What the first step that runs is to make may be there already, and be done by hand."""
    ids = [step.id for step in playbook.steps]
    steps = playbook.steps[ids.index(start) if start else 0 :]
    first = next((step for step in steps if step.autonomy is not Autonomy.SKIP), None)
    if first is None or not first.postconditions:
        return ()
    probed = [probe(condition, world) for condition in first.postconditions]
    if not all(each.held for each in probed):
        return ()
    there = "; ".join(f"{each.name}: {each.evidence}" for each in probed)
    return (f"the result of {first.id} is there; {first.command} may replace it ({there})",)


def _no_step(playbook: Playbook, start: str) -> ArgumentError:
    names = [step.id for step in playbook.steps]
    return ArgumentError(
        "PB-ARG-STEP",
        f"{playbook.name} has no step {first_line(start, 60)!r}{suggestion(start, names)}",
        guidance=f"Its steps are {', '.join(names)}.",
    )


def _identity(root: Path) -> str:
    from playbook_supervisor.system.git_process import identity

    return identity(root)


def _branches(root: Path) -> Sequence[str]:
    from playbook_supervisor.system.git_process import branches

    return branches(root)
