"""`run --dry-run`: what `run` would do, looked at in its order; nothing is created or launched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.agents import registry
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving.driving import DriveOptions, as_started
from playbook_supervisor.commands.driving.preflight import preflight
from playbook_supervisor.drivers import run_agents
from playbook_supervisor.drivers.claude_code import authorization
from playbook_supervisor.drivers.run_agents import Agents
from playbook_supervisor.drivers.step_kinds import require_executable
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel import tools
from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy, Mode
from playbook_supervisor.project.conditions import conditions, features
from playbook_supervisor.project.expressions.loop_items import with_references
from playbook_supervisor.project.expressions.references import interpolate, shown
from playbook_supervisor.project.playbooks.child_playbooks import OutlinedStep, given, outline
from playbook_supervisor.project.policies.session_policy import Effect, Policy, effects
from playbook_supervisor.project.settings import isolation
from playbook_supervisor.project.slash_commands import InstalledCommand
from playbook_supervisor.sessions.store import creation
from playbook_supervisor.sessions.store.creation import RunRequest
from playbook_supervisor.sessions.store.disk_store import DiskStore

_SHOWN = 3  # changes that are named


@dataclass(frozen=True, slots=True)
class Need:
    """A condition of a step as it is now, and the earlier step that is to provide it, if any."""

    probed: Probed
    provider: str = ""

    @property
    def lacking(self) -> bool:
        """True if it does not hold and no earlier step provides it, as far as that is known now."""
        later = _known_later(self.probed.name)
        return not (self.probed.held or self.provider or later)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step as it would run: `step` is as tight as the policies make it, and `agent` the name
    of its agent, empty for that of the run.

    `command` is what a person would type, without its arguments; `found` is that slash command as
    it is installed, if it is one and it is there; `runs` is false for a step that the playbook
    or `--from` leaves out. `skip_if` are the conditions that skip it if all hold when it is due.
    `people` are those who may answer for it, `below` the steps of the playbook that it runs,
    `asks_for` the tools that a person is asked to allow.
    """

    step: Step
    agent: str
    command: str
    found: InstalledCommand | None
    args: str
    runs: bool
    preconditions: tuple[Need, ...]
    postconditions: tuple[Probed, ...]
    skip_if: tuple[Probed, ...]
    effects: tuple[Effect, ...]
    people: tuple[str, ...]
    below: tuple[OutlinedStep, ...]
    asks_for: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan of `run` here, phase by phase, and why it would refuse.

    `file` is relative to the repository's top. `agent` is a name or, where none can be used, what
    was asked for; it is empty if each step that needs one names its own, or none does. `adopts` is
    a pending session that it would continue. `missing` and `warnings` are sentences; `refusals` are
    the errors that `run` would end with, in its order.
    """

    playbook: Playbook
    file: str
    root: Path
    feature: str
    branch: str
    args: Mapping[str, str]
    mode: Mode
    agent: str
    phases: tuple[tuple[PlannedStep, ...], ...]
    adopts: str
    missing: tuple[str, ...]
    warnings: tuple[str, ...]
    refusals: tuple[PlaybookError, ...]

    @property
    def exit_code(self) -> int:
        """0 if it could begin, else the exit code of `run`."""
        return self.refusals[0].exit_code if self.refusals else 0


def plan(
    reference: str,
    args: Sequence[str] = (),
    *,
    start: str = "",
    drive: DriveOptions | None = None,
    cwd: Path | None = None,
) -> RunPlan:
    """The plan of the same `run` here. Raises what is wrong with the playbook and arguments."""
    drive = drive or DriveOptions()
    store = locate.store(cwd)
    root = store.checkout.root
    request = creation.prepare(store, reference, args, start=start)
    drive = as_started(drive, store, request)
    refusals: list[PlaybookError] = []
    shares = run_agents.shares_of(request, drive.agent)
    agents = _chosen(shares, drive, request, root, refusals)
    with _noting(refusals):
        isolation.admit(drive.isolation, request.config)
    with _noting(refusals):
        require_executable(request, root, start=start, machine=root)
    own = ""
    if "" in shares:
        own = agents.named("").name if agents else drive.agent or request.config.agent
    index = run_agents.Commands(shares, agents, drive.agent, request.config, root)
    with _noting(refusals):
        if agents is not None:
            run_agents.admit(agents, shares, request, root, drive.limits)
        elif own == registry.DEFAULT:
            request.require_commands(root)
    pending = _pending_session(store, request, refusals)
    phases = _phases(store, request, start, index)
    needs = preflight(request.all_playbooks, root, request.config, start)
    held_up = _speckit_elsewhere(phases, root, request, refusals)
    return RunPlan(
        playbook=request.tightened,
        file=request.source,
        root=root,
        feature=request.feature,
        branch=store.checkout.branch,
        args=request.args,
        mode=drive.mode or Mode.MANUAL,
        agent=own,
        phases=phases,
        adopts=pending,
        missing=(*_missing(phases), *held_up),
        warnings=tuple(dict.fromkeys((*request.warnings, *needs, *_unprovable(phases)))),
        refusals=tuple(refusals),
    )


@contextmanager
def _noting(refusals: list[PlaybookError]) -> Iterator[None]:
    try:
        yield
    except PlaybookError as error:
        refusals.append(error)


def _chosen(
    shares: run_agents.Shares,
    drive: DriveOptions,
    request: RunRequest,
    root: Path,
    refusals: list[PlaybookError],
) -> Agents | None:
    try:
        return run_agents.chosen(shares, drive.agent, request.config, root)
    except PlaybookError as error:
        refusals.append(error)
        return None


def _pending_session(store: DiskStore, request: RunRequest, refusals: list[PlaybookError]) -> str:
    pending = ""
    with _noting(refusals):
        pending = creation.pending_session(store, request)
        if pending:
            authorization.refuse_living_client(store.runtime(pending))
            locate.client_tree(store, pending)
        else:
            store.require_room()
    return pending


def _speckit_elsewhere(
    phases: tuple[tuple[PlannedStep, ...], ...],
    root: Path,
    request: RunRequest,
    refusals: list[PlaybookError],
) -> tuple[str, ...]:
    """Where spec-kit would work on another feature: a refusal if it is asked first, else a warning.

    The warning says which step will not begin.
    """
    running = [steps for phase in phases if (steps := [each.step for each in phase if each.runs])]
    steps = [step for phase in running for step in phase]
    speckit = [step for step in steps if step.command.startswith(features.SPECKIT)]
    if not speckit:
        return ()
    try:
        features.require_speckit(root, request.feature, request.config)
    except PlaybookError as error:
        if speckit[0] in running[0]:
            refusals.append(error)
            return ()
        return (f"{speckit[0].id} will not begin: {error.message}",)
    return ()


# ── the steps ───────────────────────────────────────────────────────────────────────────────


def _phases(
    store: DiskStore, request: RunRequest, start: str, index: run_agents.Commands
) -> tuple[tuple[PlannedStep, ...], ...]:
    playbook, policy = request.tightened, request.policy or Policy()
    root = store.checkout.root
    ids = [step.id for step in playbook.steps]
    runs = {
        step.id: step.autonomy is not Autonomy.SKIP
        for step in playbook.steps[ids.index(start) if start else 0 :]
    }
    workspace = conditions.Workspace(root, request.feature, store.checkout.branch, request.config)
    asked = dict.fromkeys(
        condition for step in playbook.steps if runs.get(step.id) for condition in step.conditions
    )
    now = {condition: _now(condition, workspace) for condition in asked}
    tightenings = effects(request.playbook, policy)
    asks_for = tools.lacking_in(step for step in playbook.steps if runs.get(step.id))
    values, children = playbook.values(request.args), request.tightened_children

    def planned(step: Step) -> PlannedStep:
        goes = runs.get(step.id, False)
        phase = playbook.phase_of[step.id]
        earlier = [
            each
            for each in playbook.steps
            if runs.get(each.id) and playbook.phase_of[each.id] < phase
        ]
        return PlannedStep(
            step=step,
            agent=index.agent_of(step),
            command=shown(step.command, with_references(values, step)),
            found=index.resolve(step),
            args=_args(step, values),
            runs=goes,
            preconditions=tuple(
                Need(now[each], _provider(each, now, earlier))
                for each in (step.preconditions if goes else ())
            ),
            postconditions=tuple(now[each] for each in (step.postconditions if goes else ())),
            skip_if=tuple(now[each] for each in (step.skip_if if goes else ())),
            effects=tuple(effect for effect in tightenings if effect.step == step.id),
            people=tuple(" or ".join(demand.answered_by) for demand in policy.people(step.id)),
            below=outline(playbook, step, children),
            asks_for=asks_for.get(step.id, ()),
        )

    return tuple(tuple(map(planned, phase)) for phase in playbook.phases)


def _args(step: Step, values: Mapping[str, str]) -> str:
    if step.child:
        pairs = given(step, values).items()
        return ", ".join(f"{name}={value}" for name, value in pairs if value)
    return interpolate(step.args, with_references(values, step)).strip()


def _known_later(condition: str) -> str:
    """Why nothing is said of a condition before its step runs; empty if something is."""
    if "{{" in condition:
        return "known for each item"
    if conditions.run_checks([condition]):
        return "not run by a dry run"
    return "seen once the step has run" if conditions.need_tree([condition]) else ""


def _now(condition: str, workspace: conditions.Workspace) -> Probed:
    if later := _known_later(condition):
        return Probed(condition, Answer.NOT_HELD, later)
    return conditions.probe(condition, workspace)


def _provider(condition: str, now: Mapping[str, Probed], earlier: list[Step]) -> str:
    if now[condition].held:
        return ""
    return next((step.id for step in reversed(earlier) if condition in step.postconditions), "")


def _missing(phases: tuple[tuple[PlannedStep, ...], ...]) -> Iterator[str]:
    reported: set[str] = set()
    for planned in (each for phase in phases for each in phase):
        for need in planned.preconditions:
            probed = need.probed
            if need.lacking and probed.name not in reported:
                reported.add(probed.name)
                how = ", which cannot be checked" if probed.answer is Answer.ERROR else ""
                yield f"{planned.step.id} needs {probed.name}{how}: {probed.evidence}"


def _unprovable(phases: tuple[tuple[PlannedStep, ...], ...]) -> Iterator[str]:
    for planned in (each for phase in phases for each in phase):
        for probed in planned.postconditions:
            if probed.answer is Answer.ERROR:
                yield (
                    f"{planned.step.id} makes {probed.name}, which cannot be checked now: "
                    f"{probed.evidence}"
                )
