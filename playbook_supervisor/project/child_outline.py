"""The steps of a tree of playbooks as a list, for people: bounded, whatever runs what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.records import Record

MOST = 100
"""How many steps an outline has; what is behind them is left out."""


class OutlinedStep(Record):
    """A step of a child: its id behind those of the steps that lead to it, as in `ship/deploy`.

    `again`: it runs a playbook that is being run on the way to it, so what is below is not said.
    """

    id: str
    step: Step
    again: bool

    @property
    def depth(self) -> int:
        """1 for a step of the child itself, 2 for one of its child, and so on."""
        return 1 + self.id.count("/")


def outline(
    playbook: Playbook, step: Step, children: Mapping[str, Playbook]
) -> tuple[OutlinedStep, ...]:
    """The steps below a step of the playbook, in the order in which they run, at most `MOST`.

    `children` are the playbooks that it can reach, by name.
    """
    return tuple(islice(_below(step, children, "", (playbook.name,)), MOST))


def _below(
    step: Step, children: Mapping[str, Playbook], prefix: str, path: tuple[str, ...]
) -> Iterator[OutlinedStep]:
    child = children.get(step.child)
    path = (*path, step.child)
    for each in child.steps if child else ():
        again = each.child in path
        yield OutlinedStep(f"{prefix}{each.id}", each, again)
        if each.child and not again:
            yield from _below(each, children, f"{prefix}{each.id}/", path)
