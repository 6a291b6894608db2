"""A session and its children as one: what is outstanding in all of them, and what follows.

A child is a session like any other, with a journal of its own. Its attempts and gates are known to
drivers by the attempt that it works for: `release#1/plan#1`. The end of a child is the return of
that attempt. No lock of one session is held while another one is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import (
    Ask,
    Attempt,
    Check,
    Directive,
    Failure,
    Finish,
    Outcome,
    Run,
)
from playbook_supervisor.kernel.vocabulary import Place, Resolution, SessionStatus
from playbook_supervisor.records import replace
from playbook_supervisor.sessions import children, session_branch
from playbook_supervisor.sessions.judge import Untold
from playbook_supervisor.sessions.principal import Principal
from playbook_supervisor.sessions.snapshot import Snapshot, at_work, running
from playbook_supervisor.sessions.supervisor import Supervisor

_NOT_CREATED = frozenset({"PB-STATE-NO-SESSION", "PB-STATE-REFUSED"})


# ── what is outstanding ─────────────────────────────────────────────────────────────────────


def seen(node: Supervisor, own: Snapshot) -> Snapshot:
    """The snapshot of the tree, from that of its top alone; nothing is answered or launched."""
    own = _told(node, own)
    for member in _children_due(own):
        try:
            node.tell(member.own_id, node.child(member.own_id).look())
        except StateError as error:
            if error.code not in _NOT_CREATED:
                raise
    return _composed(node, own)


def gone_on(node: Supervisor, own: Snapshot) -> Snapshot:
    """As `seen`, after the children were created and have gone on, and their ends are journaled."""
    own, went = _told(node, own), set[str]()
    while due := [each for each in _children_due(own) if each.own_id not in went]:
        ended: dict[str, Outcome] = {}
        for member in due:
            place = member.own_id
            went.add(place)
            child = _made(node, own, member)
            if isinstance(child, Failure):
                ended[place] = Outcome(child)
                continue
            below = _advanced(child)
            node.tell(place, below)
            if below.manifest.branch != own.manifest.branch:
                own = _on_branch_of(node, own, below)
            if isinstance(below.directive, Finish):
                if below.directive.status is SessionStatus.ABORTED:
                    return _aborted(node, below)
                ended[place] = children.outcome(child, below)
        for place, outcome in ended.items():
            own = _told(node, node.returned(place, outcome))
            node.children.pop(place, None)
    return _composed(node, own)


def _on_branch_of(node: Supervisor, own: Snapshot, below: Snapshot) -> Snapshot:
    with node.store.open(node.id) as opened:
        session_branch.follow_child(node.store, opened, below.manifest.branch)
        return replace(own, manifest=opened.manifest)


def _children_due(own: Snapshot) -> list[Attempt]:
    return [member for member in running(own) if member.step.has_child]


def _advanced(child: Supervisor) -> Snapshot:
    """Begin the child if no process has, else let it go on."""
    with child.store.open(child.id) as opened:
        begun = opened.runtime.begun is not None or not opened.state.pristine
    if not begun:
        try:
            return child.begin()
        except StateError as error:
            if error.code != "PB-STATE-REFUSED":  # another process has begun it meanwhile
                raise
    return child.advance()


def _composed(node: Supervisor, own: Snapshot) -> Snapshot:
    told, node.untold = node.untold, Untold()
    return replace(
        own,
        directive=_directive(own.directive, told.below),
        events=tuple(told.events),
        notices=tuple(told.notices),
        children=told.below,
    )


def _told(node: Supervisor, own: Snapshot) -> Snapshot:
    """The snapshot without its events and notices: that of the tree reports them in their order."""
    node.untold.events += own.events
    node.untold.notices += own.notices
    return own.without_events()


def _directive(own: Directive, known: Mapping[str, Snapshot]) -> Directive:
    """The first gate at which an agent waits, else all attempts that run, else the first gate of
    another kind, else the first check."""
    if isinstance(own, Ask) and own.meanwhile is not None:
        return replace(own, meanwhile=at_work(_directive(own.meanwhile, known)))
    if not isinstance(own, Run):
        return own
    runs: list[Attempt] = []
    continues = list(own.continues)
    waits: list[Ask | Check] = []
    for member in own.members:
        below = known.get(member.own_id)
        match below.directive if below else None:
            case Run(members=members, continues=ids):
                runs += [within(member.own_id, each) for each in members]
                continues += [f"{member.own_id}/{each}" for each in ids]
            case Ask() as ask:
                inside = within(member.own_id, ask.member)
                waits.append(replace(ask, id=f"{member.own_id}/{ask.id}", member=inside))
                if ask.meanwhile is not None:
                    runs += [within(member.own_id, each) for each in ask.meanwhile.members]
                    continues += [f"{member.own_id}/{each}" for each in ask.meanwhile.continues]
            case Check() as check:
                inside_all = tuple(within(member.own_id, each) for each in check.members)
                waits.append(replace(check, id=f"{member.own_id}/{check.id}", members=inside_all))
            case _:  # the step is no child, or its child is to be created, or has ended
                runs.append(member)
    run = Run(tuple(runs), tuple(continues)) if runs else None
    asked = min(waits, key=_rank, default=None)
    if run is not None and not (isinstance(asked, Ask) and asked.place is Place.DURING):
        return run
    assert asked is not None  # noqa: S101 - each member runs or waits
    return replace(asked, meanwhile=run) if isinstance(asked, Ask) else asked


def _rank(one: Ask | Check) -> int:
    if isinstance(one, Check):
        return 2
    return 0 if one.place is Place.DURING else 1


def within(place: str, attempt: Attempt) -> Attempt:
    """The attempt of a child as its parent knows it."""
    return replace(attempt, within=f"{place}/{attempt.within}".rstrip("/"))


def inner(attempt: Attempt) -> Attempt:
    """The attempt of a child as the child knows it."""
    return replace(attempt, within=attempt.within.partition("/")[2])


# ── calls that concern a child ──────────────────────────────────────────────────────────────


def below(node: Supervisor, path: str, act: Callable[[Supervisor, str], Snapshot]) -> None:
    """Let the child act on what it knows by the rest of the path.

    StateError PB-STATE-REFUSED if it is no attempt of this session. Nothing happens if the attempt
    that the child works for has returned: what the path names is settled.
    """
    place, _, rest = path.partition("/")
    with node.store.open(node.id) as opened:
        machine.require_known(opened.state, place)
        if machine.has_returned(opened.state, place):
            return
    node.tell(place, act(node.child(place), rest))


def require_known(node: Supervisor, path: str) -> None:
    """StateError PB-STATE-REFUSED if the path names no attempt that ever began."""
    place, _, rest = path.partition("/")
    with node.store.open(node.id) as opened:
        machine.require_known(opened.state, place)
        returned = machine.has_returned(opened.state, place)
    if rest and not returned:
        require_known(node.child(place), rest)


def abort_children(node: Supervisor, snapshot: Snapshot, text: str, by: Principal) -> None:
    """End the children that have not ended, each after its own children."""
    for place, below in snapshot.children.items():
        if not isinstance(below.directive, Finish):
            node.tell(place, node.child(place).abort(text, by))


def _aborted(node: Supervisor, below: Snapshot) -> Snapshot:
    """A person aborted a child: that ends the whole tree."""
    said = [entry for entry in below.state.entries if entry.resolution is Resolution.ABORT]
    text = said[-1].human_response if said else ""
    by = next((gate.by for entry in said for gate in reversed(entry.gates)), "")
    return node.abort(text, Principal(by))


def require_branch(node: Supervisor) -> None:
    """StateError PB-STATE-BRANCH unless the branch of what is under way is checked out."""
    if below := node.look().children:
        for place in below:
            require_branch(node.child(place))
        return
    with node.store.open(node.id) as opened:
        session_branch.require(node.store, opened)


def move_here(node: Supervisor, by: Principal) -> None:
    """Let the session and the children under way belong to the branch that is checked out."""
    for place in node.look().children:
        move_here(node.child(place), by)
    with node.store.open(node.id) as opened:
        session_branch.move(node.store, opened, by.name)


# ── making a child ──────────────────────────────────────────────────────────────────────────


def child_at(node: Supervisor, place: str) -> Supervisor:
    """The supervisor of the child that works for this attempt; it may still be to be created."""
    with node.store.open(node.id) as opened:
        sessions = {entry.id: entry.session for entry in opened.state.entries}
        max_depth = node.max_depth or opened.playbook.max_depth
    if not sessions.get(place):
        raise StateError("PB-STATE-REFUSED", f"no child session works for {place}")
    child = Supervisor(
        node.store,
        sessions[place],
        parent=node,
        place=place,
        exports=node.exports,
        runs_programs=node.runs_programs,
        runs_checks=node.runs_checks,
        copies=node.copies,
        commits=node.commits,
    )
    child.max_depth = max_depth
    child.watch = lambda attempt, check: node.watch(within(place, attempt), check)
    return child


def _made(node: Supervisor, own: Snapshot, member: Attempt) -> Supervisor | Failure:
    """The member's child, which exists from now on; or why there cannot be one."""
    if not own.entry(member).session:
        return children.too_deep(node.max_depth or own.state.playbook.max_depth)
    child = node.child(member.own_id)
    if not child.exists:
        if failure := children.create_missing(node, child, member):
            return failure
        child.exists = True
        if node.held:
            child.hold()
    return child
