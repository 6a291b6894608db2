"""What accompanies a directive on its way to a client: work, context, and who is at work."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.model import SLASH
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.files.serialize import WorkItem
from playbook_supervisor.sessions.store.snapshot import Snapshot, for_agents
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.disk.files import ensure_folder, read_bytes, write_atomically
from playbook_supervisor.system.disk.locks import locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.sessions.gate.gate_context import GateContext

_MARK = "mark"
_LENGTH = 12  # digits of a mark


class DirectiveDetails(Record):
    """What a client needs to know beside the directive.

    `work_items` says for each attempt that an agent is to run what it gets, by the attempt's id.
    `context` helps to answer the open gate. `given` are the attempts that agents of a
    living client work on; None where no hook knows. `mark` is that of the session's directives.
    """

    work_items: Mapping[str, WorkItem]
    context: GateContext | None
    given: frozenset[str] | None
    mark: str


def mark_of(private: Path) -> str:
    """The mark of the session's directives: 12 random hexadecimal digits, kept in that folder."""
    if mark := _kept_mark(private):
        return mark
    ensure_folder(private)
    with locked(private / f"{_MARK}.lock"):
        if not (mark := _kept_mark(private)):
            mark = os.urandom(_LENGTH // 2).hex()
            write_atomically(private / _MARK, mark.encode(), durable=False)
    return mark


def _kept_mark(private: Path) -> str:
    try:
        mark = read_bytes(private / _MARK).decode("ascii", "replace")
    except FileNotFoundError:
        return ""
    return mark if len(mark) == _LENGTH and mark.isalnum() else ""


def prepared(tree: SessionTree, snapshot: Snapshot) -> Snapshot:
    """What is outstanding once each prompt that cannot be made has failed its attempt."""
    prompts = [attempt for attempt in for_agents(snapshot) if attempt.step.namespace != SLASH]
    for attempt in prompts:
        try:
            tree.work(snapshot, attempt)
        except PlaybookError as error:
            from playbook_supervisor.drivers.jobs import without_prompt

            outcome = without_prompt(error, "claude-code")
            return prepared(tree, tree.report(attempt.id, outcome).after(snapshot))
    return snapshot


def directive_details(
    tree: SessionTree, snapshot: Snapshot, given: frozenset[str] | None
) -> DirectiveDetails:
    """The details of the directive; also points the project's own tools at the feature."""
    mark = mark_of(tree.private)
    if isinstance(snapshot.directive, Ask):
        from playbook_supervisor.sessions.gate.gate_context import gate_context

        return DirectiveDetails({}, gate_context(snapshot), given, mark)
    work_items = {}
    for attempt in for_agents(snapshot):
        work = tree.work(snapshot, attempt)
        tree.environment(snapshot, work)
        work_items[attempt.id] = WorkItem(work.command, work.args, work.prompt)
    return DirectiveDetails(work_items, None, given, mark)
