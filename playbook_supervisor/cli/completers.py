"""Shell completion of names in the project. An error completes nothing and prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from playbook_supervisor.commands import places
from playbook_supervisor.commands.views import queries
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.vocabulary import ArgType
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.schema import schema_names
from playbook_supervisor.project.settings import config
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.system.git import checkout

_WORDS = {ArgType.BOOLEAN: ("true", "false")}

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def completer(words: Callable[[click.Context], Iterable[str]]) -> Completer:
    """Make a completer of a function that returns all words."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [word for word in words(ctx) if _begins(word, incomplete)]
        except (PlaybookError, OSError):
            return []

    return complete


def _begins(word: str, incomplete: str) -> bool:
    """An id of a session is also completed from its end: `20260219-a7k` from `a7`."""
    return word.startswith(incomplete) or (
        SESSION_ID.match(word) is not None and word.partition("-")[2].startswith(incomplete)
    )


def _root() -> Path:
    return checkout.find(Path.cwd()).root


def _playbook(reference: str) -> Playbook:
    return library.find(_root(), reference).playbook


@completer
def playbooks(_: click.Context) -> Iterable[str]:
    """Names of the playbooks that can run."""
    return [each.name for each in library.playbooks(_root()) if not each.problem]


@completer
def sessions(_: click.Context) -> Iterable[str]:
    """Ids of the sessions of all worktrees, also by their last three characters."""
    return [each.session_id for each in queries.status()]


@completer
def sessions_anywhere(_: click.Context) -> Iterable[str]:
    """Ids of the sessions of all worktrees, and of open ones elsewhere."""
    found = []
    with suppress(PlaybookError):  # no repository
        found += [each.session_id for each in queries.status()]
    return [*found, *places.session_ids()]


@completer
def steps(ctx: click.Context) -> Iterable[str]:
    """Ids of the steps of the playbook that was given."""
    # While an option still lacks its value, click leaves the arguments before it unparsed.
    named: list[Any] = [ctx.params.get("playbook"), *ctx.args]
    reference = next((str(word) for word in named if word), "")
    return [step.id for step in _playbook(reference).steps] if reference else []


@completer
def arguments(ctx: click.Context) -> Iterable[str]:
    """`name=` for each arg that is not given yet, with its values if it has only a few."""
    reference = ctx.params.get("playbook")
    if not reference:
        return []
    given = ctx.params.get("args") or ()
    playbook = _playbook(str(reference))
    named = {str(word).partition("=")[0] for word in given}
    positional = sum("=" not in str(word) for word in given)
    return [
        f"{arg.name}={value}"
        for arg in playbook.args[positional:]
        if arg.name not in named
        for value in (arg.values if arg.type is ArgType.ENUM else _WORDS.get(arg.type, ("",)))
    ]


@completer
def conditions(_: click.Context) -> Iterable[str]:
    """Names of conditions and of the triggers that can be probed."""
    return queries.words()


@completer
def checks(_: click.Context) -> Iterable[str]:
    """Names of the checks that the project's settings define."""
    return config.load(_root()).checks


@completer
def schemas(_: click.Context) -> Iterable[str]:
    """Names of the JSON Schemas."""
    return schema_names()
