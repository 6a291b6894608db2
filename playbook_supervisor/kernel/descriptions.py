"""Directives and observations in a few words, for messages."""

from __future__ import annotations

from playbook_supervisor.kernel.directives import (
    Ask,
    Begun,
    Cancelled,
    Check,
    Checked,
    Directive,
    Observation,
    Run,
    TakenUp,
)


def describe(asked: Directive) -> str:
    """The outstanding directive: `the gate pr#1?1`."""
    match asked:
        case Check(id=id_):
            return f"the check {id_}"
        case Run(members=members):
            return "the work of " + ", ".join(member.id for member in members)
        case Ask(id=id_):
            return f"the gate {id_}"
        case _:
            return f"nothing: the session is {asked.status}"


def in_words(observation: Observation) -> str:
    """The report: `the result of before:plan#1.0`."""
    match observation:
        case Begun():
            return "a beginning"
        case TakenUp():
            return "a retry of the session"
        case Cancelled(how=how):
            return f"an {how}"
        case Checked(id=id_):
            return f"the result of {id_[:60]}"
        case _:
            return observation.id[:60]
