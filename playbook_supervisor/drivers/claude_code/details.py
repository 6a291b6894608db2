"""What accompanies a directive on its way to a client: work, context, and who is at work."""

from __future__ import annotations

from collections.abc import Mapping

from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.model import SLASH
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.serialize import WorkItem
from playbook_supervisor.sessions.snapshot import Snapshot, for_agents
from playbook_supervisor.sessions.supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.sessions.gate_context import GateContext


class DirectiveDetails(Record):
    """What a client needs to know beside the directive.

    `work_items` says for each attempt that an agent is to run what it gets, by the attempt's id.
    `context` helps to answer the open gate (kai FR24). `given` are the attempts that agents of a
    living client work on; None where no hook knows.
    """

    work_items: Mapping[str, WorkItem]
    context: GateContext | None
    given: frozenset[str] | None


def prepared(supervisor: Supervisor, snapshot: Snapshot) -> Snapshot:
    """What is outstanding once each prompt that cannot be made has failed its attempt."""
    from playbook_supervisor.errors import PlaybookError

    prompts = [attempt for attempt in for_agents(snapshot) if attempt.step.namespace != SLASH]
    for attempt in prompts:
        try:
            supervisor.work(snapshot, attempt)
        except PlaybookError as error:
            from playbook_supervisor.drivers.jobs import without_prompt

            outcome = without_prompt(error, "claude-code")
            return prepared(supervisor, supervisor.report(attempt.id, outcome).after(snapshot))
    return snapshot


def directive_details(
    supervisor: Supervisor, snapshot: Snapshot, given: frozenset[str] | None
) -> DirectiveDetails:
    """The details of the directive; also points the project's own tools at the feature."""
    if isinstance(snapshot.directive, Ask):
        from playbook_supervisor.sessions.gate_context import gate_context

        return DirectiveDetails({}, gate_context(snapshot), given)
    work_items = {}
    for attempt in for_agents(snapshot):
        work = supervisor.work(snapshot, attempt)
        supervisor.environment(snapshot, work)
        work_items[attempt.id] = WorkItem(work.command, work.args, work.prompt)
    return DirectiveDetails(work_items, None, given)
