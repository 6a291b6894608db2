"""The loops of a session: which items they have, and the steps that their items are.

The list of a loop is settled before the loop begins: it is an arg, or the output of a step that
never runs again. So the items are looked up when they are needed, and kept nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Answer, Attempt, Check, Probed
from playbook_supervisor.kernel.model import Loop, Step, base_of, item_number
from playbook_supervisor.kernel.state import ITEMS, State
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.expressions import loop_items
from playbook_supervisor.project.expressions.bound_conditions import bound_step
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.steps import step_data
from playbook_supervisor.sessions.steps.attempt_log import secret_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.kernel.when import Facts
    from playbook_supervisor.sessions.steps.open_session import OpenSession

_SHOWN = 200  # characters of an item in the journal
_KEPT = 64  # bound steps; more than run at once


def bind_items(opened: OpenSession) -> None:
    """Let the items of the session have the values of their item in conditions and texts."""
    opened.bind_steps(_Items(opened).bind)


class _Items:
    """Looks up the items of the loops of one session, each list once."""

    def __init__(self, opened: OpenSession) -> None:
        self._opened, self._playbook = opened, opened.playbook
        self._values = opened.playbook.values(opened.manifest.args)
        self._lists: dict[str, list[Any]] = {}
        self._bound: dict[str, Step] = {}

    def bind(self, item: Step) -> Step:
        """The step of an item; as it is if its list is lost, so that nothing it needs is known."""
        if item.id not in self._bound:
            loop = self._playbook.step(base_of(item.id)).for_each
            assert loop is not None  # noqa: S101 - only items are bound
            try:
                found = self._list(base_of(item.id), loop)[item_number(item.id) - 1]
            except LookupError:
                return item
            if len(self._bound) >= _KEPT:
                self._bound.clear()
            values = loop_items.values(loop, found)
            bound = bound_step(replace(item, item=values), self._values | dict(values))
            self._bound[item.id] = bound
        return self._bound[item.id]

    def _list(self, name: str, loop: Loop) -> list[Any]:
        if name not in self._lists:
            facts = step_data.facts(self._opened)
            self._lists[name] = loop_items.items(loop, self._values, facts)
        return self._lists[name]


# ── the check of a loop ─────────────────────────────────────────────────────────────────────


def due(check: Check) -> Step | None:
    """The loop whose items the check is to tell; None if it is about something else."""
    step = check.members[0].step
    return step if step.for_each and step.autonomy is not Autonomy.SKIP else None


def found(step: Step, values: Mapping[str, str], facts: Facts) -> tuple[int, str, Probed | None]:
    """How many items a loop has; without any, why it is passed over, or what is wrong."""
    loop = step.for_each
    assert loop is not None  # noqa: S101 - see `due`
    try:
        listed = loop_items.items(loop, values, facts)
        wrong = loop_items.fault(loop, step, listed)
    except LookupError as missing:
        listed, wrong = [], str(missing.args[0])
    if wrong:
        return 0, "", Probed("for_each", Answer.ERROR, wrong, code=ITEMS)
    return len(listed), "" if listed else f"for_each: no items in {loop.source}", None


def of_items(check: Check, state: State, items: int) -> Check:
    """The check of the items that run first, under the id of the check of their loop."""
    members = tuple(Attempt(step, 1) for step in state.expanded(items).phase or ())
    return replace(check, members=members, untried=tuple(each.step.id for each in members))


def shown(step: Step) -> str:
    """What the journal says of an item: its first line, without secrets; empty for other steps."""
    if not step.item:
        return ""
    from playbook_supervisor.system.process.capture import redact

    (_, text), *_ = step.item
    return first_line(redact(text, secret_values(os.environ)), _SHOWN)
