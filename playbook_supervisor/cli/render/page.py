"""One session as an HTML page that loads nothing and runs no script.

Its Content-Security-Policy forbids scripts, requests, and every style but its own (by digest).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256

from playbook_supervisor import __version__
from playbook_supervisor.cli.render import html, text
from playbook_supervisor.cli.render.gantt import chart
from playbook_supervisor.cli.render.timeline import not_begun
from playbook_supervisor.commands.view import SessionView
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.sessions import gate_text
from playbook_supervisor.sessions.manifest import Manifest


def page(shown: SessionView, now: int) -> str:
    """The whole page. `now` in ms since the epoch."""
    style = html.style("page.css")
    return html.render(
        "show.html",
        digest=b64encode(sha256(style.encode()).digest()).decode(),
        style=style,
        context=gate_text.lines(shown.seen.gate_context()),
        version=__version__,
        **session_values(shown, now),
    )


def session_values(shown: SessionView, now: int) -> dict[str, object]:
    """What the templates show of a session, wherever they do."""
    seen, head = shown.seen, shown.seen.manifest
    everything = [entry for each in _family(shown) for entry in each.entries]
    return {
        "session": seen.session_id,
        "head": head,
        "view": shown,
        "facts": (*_facts(head, everything, now), *_people(shown)) if head else (),
        "problem": shown.problem,
        "gate": seen.gate,
        "effects": shown.effects,
        "chart": chart(shown.entries, head.started_at if head else 0, now),
        "not_begun": not_begun(shown.entries, shown.playbook),
        "now": now,
    }


def _people(shown: SessionView) -> Iterator[tuple[str, str]]:
    if shown.playbook is not None and shown.playbook.owner:
        yield "Owner", shown.playbook.owner
    if shown.playbook is not None and (named := text.reviewers(shown.playbook.reviewers)):
        yield "Reviewers", named


def _facts(head: Manifest, entries: Sequence[Entry], now: int) -> Iterator[tuple[str, str]]:
    yield "Began", html.stamp(head.started_at)
    if head.completed_at is not None:
        yield "Ended", html.stamp(head.completed_at)
        yield "Duration", text.duration(max(head.completed_at - head.started_at, 0))
    else:
        yield "Open for", text.duration(max(now - head.started_at, 0))
    if waited := text.waited_ms(entries, now):
        yield "At gates", text.duration(waited)
    if head.branch:
        yield "Branch", head.branch
    if head.worktree:
        yield "Worktree", head.worktree
    if args := ", ".join(f"{name}={value}" for name, value in head.args.items() if value):
        yield "Arguments", args
    if cost := text.cost(entries):
        yield "Cost", cost
    if tokens := text.tokens(entries):
        yield "Tokens", tokens


def _family(shown: SessionView) -> Iterator[SessionView]:
    """The session and all sessions below it."""
    yield shown
    for child in shown.children.values():
        yield from _family(child)
