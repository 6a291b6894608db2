"""What a shell may complete: playbooks, sessions, steps, words. Never an error, never a word."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from playbook_supervisor.errors import PlaybookError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _beginning(words: Callable[[click.Context], Iterable[str]]) -> Complete:
    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        del parameter
        try:
            return [word for word in words(ctx) if word.startswith(incomplete)]
        except (PlaybookError, OSError):
            return []

    return complete


def _playbooks(ctx: click.Context) -> Iterable[str]:
    del ctx
    from playbook_supervisor.commands import view

    return [each.name for each in view.playbooks() if not each.problem]


def _sessions(ctx: click.Context) -> Iterable[str]:
    del ctx
    from playbook_supervisor.commands import view

    return [each.session_id for each in view.status()]


def _steps(ctx: click.Context) -> Iterable[str]:
    from playbook_supervisor.commands import view

    # An option that still wants its value keeps click from sorting out the arguments before it.
    named: list[Any] = [ctx.params.get("playbook"), *ctx.args]
    reference = next((str(word) for word in named if word), "")
    return [step.id for step in view.load_playbook(reference).steps] if reference else []


def _conditions(ctx: click.Context) -> Iterable[str]:
    del ctx
    from playbook_supervisor.commands import view

    return view.words()


def _schemas(ctx: click.Context) -> Iterable[str]:
    del ctx
    from playbook_supervisor.commands import view

    return view.schema_names()


playbooks = _beginning(_playbooks)
sessions = _beginning(_sessions)
steps = _beginning(_steps)
conditions = _beginning(_conditions)
schemas = _beginning(_schemas)
