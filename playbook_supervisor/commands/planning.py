"""What a run would do, found out without doing any of it: `run --dry-run`.

Looks at the very things that `run` looks at, in its order; nothing is created or launched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy, Condition, Mode
from playbook_supervisor.project import conditions, features
from playbook_supervisor.project.references import interpolate
from playbook_supervisor.project.session_policy import Effect, Policy, effects
from playbook_supervisor.project.slash_commands import CommandIndex, InstalledCommand
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import creation
from playbook_supervisor.sessions.creation import RunRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.agents.protocol import Agent
    from playbook_supervisor.project.config import Config
    from playbook_supervisor.sessions.store import DiskStore

_SHOWN = 3  # changes that are named


class Need(Record):
    """A condition of a step as it is now, and the step before it that is to provide it, if any."""

    probed: Probed
    provider: str = ""

    @property
    def lacking(self) -> bool:
        """Whether it does not hold and nothing before will see to it."""
        return not self.probed.held and not self.provider


class PlannedStep(Record):
    """One step as it would run: `step` is as tight as the policies make it.

    `found` is its command as it is installed, None where it is not; `runs` is false for a step
    that is left out, by the playbook or by `--from`. `people` are those who may answer for it.
    """

    step: Step
    found: InstalledCommand | None
    args: str
    runs: bool
    preconditions: tuple[Need, ...]
    postconditions: tuple[Probed, ...]
    effects: tuple[Effect, ...]
    people: tuple[str, ...]


class RunPlan(Record):
    """What `run` would do here, phase by phase, and what it would refuse to do it for.

    `file` is shown from the repository's top. `agent` is a name or, where none can be used, what
    was asked for. `adopts` is a pending session that it would go on with. `missing` and `warnings`
    are sentences; `refusals` are the errors that `run` would end with, the first of them first.
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
        """0 where it could begin, else what `run` would end with."""
        return self.refusals[0].exit_code if self.refusals else 0


def plan(
    store: DiskStore,
    reference: str,
    args: Sequence[str],
    *,
    start: str,
    agent: str,
    mode: Mode,
    suits: Callable[[Agent], None],
    free: Callable[[str], None],
) -> RunPlan:
    """What `run` of the same would do; `agent` is what `--agent` says.

    `suits` raises if the agent cannot do what else is asked of it, `free` if somebody drives the
    session that would be gone on with. Raises what is wrong with the playbook and its arguments.
    """
    root = store.checkout.root
    wanted = creation.intend(store, reference, args, start=start, commands_elsewhere=True)
    settings = wanted.config
    refusals: list[PlaybookError] = []
    name, reads_claude_commands = _agent(agent, settings, root, suits, refusals)
    if reads_claude_commands:
        try:
            wanted = creation.intend(store, reference, args, start=start)
        except PlaybookError as error:
            refusals.append(error)
    adopts = _adopted(store, wanted, free, refusals)
    phases = _phases(store, wanted, settings, start)
    lost = _lost_to_speckit(phases, root, wanted.feature, settings, refusals)
    return RunPlan(
        playbook=wanted.runs,
        file=wanted.source,
        root=root,
        feature=wanted.feature,
        branch=store.checkout.branch,
        args=wanted.args,
        mode=mode,
        agent=name,
        phases=phases,
        adopts=adopts,
        missing=(*_missing(phases), *lost),
        warnings=(*wanted.warnings, *_unprovable(phases), *_uncommitted(root)),
        refusals=tuple(refusals),
    )


def _agent(
    wanted: str,
    settings: Config,
    root: Path,
    suits: Callable[[Agent], None],
    refusals: list[PlaybookError],
) -> tuple[str, bool]:
    """The agent's name, and whether it reads Claude Code's command files."""
    from playbook_supervisor.agents import protocol, registry

    name = wanted or settings.agent
    reads_claude_commands = name == registry.DEFAULT
    try:
        agent = registry.choose(wanted, settings, root)
        name, reads_claude_commands = agent.name, protocol.reads_claude_commands(agent)
        suits(agent)
    except PlaybookError as error:
        refusals.append(error)
    return name, reads_claude_commands


def _adopted(
    store: DiskStore, wanted: RunRequest, free: Callable[[str], None], refusals: list[PlaybookError]
) -> str:
    """The pending session that would be gone on with; where a new one could not be made, why."""
    adopts = ""
    try:
        adopts = creation.standing(store, wanted)
        if adopts:
            free(adopts)
        else:
            store.require_room()
    except PlaybookError as error:
        refusals.append(error)
    return adopts


def _lost_to_speckit(
    phases: tuple[tuple[PlannedStep, ...], ...],
    root: Path,
    feature: str,
    settings: Config,
    refusals: list[PlaybookError],
) -> tuple[str, ...]:
    """Where spec-kit would work on another feature: what runs first is refused, the rest waits."""
    running = [[each.step for each in phase if each.runs] for phase in phases]
    running = [phase for phase in running if phase]
    asking = [
        step for phase in running for step in phase if step.command.startswith(features.SPECKIT)
    ]
    if not asking:
        return ()
    try:
        features.require_speckit(root, feature, settings)
    except PlaybookError as error:
        if asking[0] in running[0]:
            refusals.append(error)
            return ()
        return (f"{asking[0].id} will not begin: {error.message}",)
    return ()


def _uncommitted(root: Path) -> Iterator[str]:
    from playbook_supervisor.commands.worktrees.start_point import changes

    try:
        changed = changes(root)
    except PlaybookError:  # `run` does not ask git
        return
    if changed:
        some = ", ".join(line.strip() for line in changed[:_SHOWN])
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        said = counted(len(changed), "change")
        yield f"{said} not committed ({some}{more}), which a step that commits may take along"


# ── the steps ───────────────────────────────────────────────────────────────────────────────


def _phases(
    store: DiskStore, wanted: RunRequest, settings: Config, start: str
) -> tuple[tuple[PlannedStep, ...], ...]:
    playbook, policy = wanted.runs, wanted.policy or Policy()
    root = store.checkout.root
    ids = [step.id for step in playbook.steps]
    runs = {
        step.id: step.autonomy is not Autonomy.SKIP
        for step in playbook.steps[ids.index(start) if start else 0 :]
    }
    world = conditions.Workspace(root, wanted.feature, store.checkout.branch, settings)
    asked = dict.fromkeys(
        condition
        for step in playbook.steps
        if runs.get(step.id)
        for condition in (*step.preconditions, *step.postconditions)
    )
    now = {condition: conditions.probe(condition, world) for condition in asked}
    tightenings = effects(wanted.playbook, policy)
    shelf = CommandIndex(root, home=Path.home())
    values = {arg.name: wanted.args.get(arg.name, "") for arg in playbook.args}

    def planned(step: Step) -> PlannedStep:
        goes = runs.get(step.id, False)
        before = [each for each in playbook.steps if _precedes(playbook, each, step)]
        return PlannedStep(
            step=step,
            found=shelf.resolve(step.command),
            args=interpolate(step.args, values).strip(),
            runs=goes,
            preconditions=tuple(
                Need(now[each], _provider(each, now, [s for s in before if runs.get(s.id)]))
                for each in (step.preconditions if goes else ())
            ),
            postconditions=tuple(now[each] for each in (step.postconditions if goes else ())),
            effects=tuple(effect for effect in tightenings if effect.step == step.id),
            people=tuple(" or ".join(demand.answered_by) for demand in policy.people(step.id)),
        )

    return tuple(tuple(map(planned, phase)) for phase in playbook.phases)


def _precedes(playbook: Playbook, one: Step, other: Step) -> bool:
    return playbook.phase_of[one.id] < playbook.phase_of[other.id]


def _provider(condition: Condition, now: Mapping[Condition, Probed], before: list[Step]) -> str:
    """The step that is to make hold what does not hold yet; empty where it does, or none will."""
    if now[condition].held:
        return ""
    return next((step.id for step in reversed(before) if condition in step.postconditions), "")


def _missing(phases: tuple[tuple[PlannedStep, ...], ...]) -> Iterator[str]:
    """What will keep a step from beginning, once for each condition."""
    told: set[str] = set()
    for planned in (each for phase in phases for each in phase):
        for need in planned.preconditions:
            probed = need.probed
            if need.lacking and probed.name not in told:
                told.add(probed.name)
                how = ", which cannot be checked" if probed.answer is Answer.ERROR else ""
                yield f"{planned.step.id} needs {probed.name}{how}: {probed.evidence}"


def _unprovable(phases: tuple[tuple[PlannedStep, ...], ...]) -> Iterator[str]:
    """What a step is to make and nobody can look for now: known before an hour's run, not after."""
    for planned in (each for phase in phases for each in phase):
        for probed in planned.postconditions:
            if probed.answer is Answer.ERROR:
                yield (
                    f"{planned.step.id} makes {probed.name}, which cannot be checked now: "
                    f"{probed.evidence}"
                )
