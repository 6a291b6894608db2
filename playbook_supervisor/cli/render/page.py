"""One session as an HTML page that loads nothing and runs no script; all content is escaped.

Its Content-Security-Policy forbids scripts, requests, and every style but its own (by digest).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from playbook_supervisor import __version__
from playbook_supervisor.cli.render import text
from playbook_supervisor.cli.render.gantt import chart
from playbook_supervisor.cli.render.timeline import (
    child_line,
    failed_items,
    items_line,
    not_begun,
    opens,
)
from playbook_supervisor.commands.view import SessionView
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.model import Step, base_of
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.project.references import interpolate, names
from playbook_supervisor.sessions import gate_text
from playbook_supervisor.sessions.manifest import Manifest
from playbook_supervisor.sessions.step_runs import is_round, step_runs
from playbook_supervisor.system import templates

_SIGNS = {"done": "✓", "failed": "✗", "skipped": "–", "round": "↻", "in_progress": "…"}


def page(shown: SessionView, now: int) -> str:
    """The whole page. `now` in ms since the epoch."""
    from base64 import b64encode
    from hashlib import sha256

    import jinja2
    from markupsafe import Markup

    folder = templates.folder() / "show"
    style = (folder / "page.css").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        keep_trailing_newline=True,
    )
    seen, head = shown.seen, shown.seen.manifest
    tree = tuple(_family(shown))
    everything = [entry for each in tree for entry in each.entries]
    steps = {(id(each), step.id): step for each in tree for step in _steps(each)}
    environment.filters |= {
        "agent": _agent,
        "child": lambda entry, view: view.children.get(entry.session),
        "child_line": child_line,
        "command": lambda entry, view: _command(
            steps.get((id(view), base_of(entry.step_id))), entry, view.seen.manifest
        ),
        "failed_items": failed_items,
        "is_round": is_round,
        "items": items_line,
        "opens": opens,
        "runs": lambda view: tuple(step_runs(view.entries)),
        "title": lambda entry, view: getattr(
            steps.get((id(view), base_of(entry.step_id))), "title", ""
        ),
        "duration": lambda ms: text.duration(max(ms, 0)),
        "percent": "{:.2f}%".format,
        "prose": _prose,
        "sign": lambda status: _SIGNS.get(status, "·"),
        "stamp": _stamp,
        "words": lambda word: word.replace("_", " "),
    }
    return environment.get_template("page.html").render(
        digest=b64encode(sha256(style.encode()).digest()).decode(),
        style=Markup(style),  # noqa: S704 - a file of our own
        session=seen.session_id,
        head=head,
        view=shown,
        facts=(*_facts(head, everything, now), *_people(shown)) if head else (),
        problem=shown.problem,
        gate=seen.gate,
        context=gate_text.lines(seen.gate_context()),
        effects=shown.effects,
        chart=chart(shown.entries, head.started_at if head else 0, now),
        not_begun=not_begun(shown.entries, shown.playbook),
        now=now,
        version=__version__,
    )


def _printable(value: object) -> object:
    """Our own markup unchanged; other text without control characters."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value, keep_newlines=True)
    return value


def _prose(sentence: str) -> str:
    """A sentence, with the text between backticks as code."""
    from markupsafe import Markup, escape

    shown = str(escape(printable(sentence, keep_newlines=True)))
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", shown))  # noqa: S704 - escaped above


def _people(shown: SessionView) -> Iterator[tuple[str, str]]:
    if shown.playbook is not None and shown.playbook.owner:
        yield "Owner", shown.playbook.owner
    if shown.playbook is not None and (named := text.reviewers(shown.playbook.reviewers)):
        yield "Reviewers", named


def _facts(head: Manifest, entries: Sequence[Entry], now: int) -> Iterator[tuple[str, str]]:
    yield "Began", _stamp(head.started_at)
    if head.completed_at is not None:
        yield "Ended", _stamp(head.completed_at)
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


def _stamp(ms: int) -> str:
    """`2026-02-19 10:20:26`, in UTC."""
    return text.stamp(ms).rstrip("Z").replace("T", " ")


def _family(shown: SessionView) -> Iterator[SessionView]:
    """The session and all sessions below it."""
    yield shown
    for child in shown.children.values():
        yield from _family(child)


def _steps(shown: SessionView) -> Sequence[Step]:
    return shown.playbook.steps if shown.playbook is not None else ()


def _command(step: Step | None, entry: Entry, head: Manifest | None) -> str:
    """What was typed, with the values of the args and the item."""
    if step is None:
        return ""
    typed = f"{step.command} {step.args}"
    if head is None:
        return typed
    values = {name: head.args.get(name, "") for name in names(typed)}
    if (loop := step.for_each) is not None:
        values |= {name: f"{{{{{name}}}}}" for name in values if name.startswith(f"{loop.name}.")}
        values[loop.name] = entry.item
    return interpolate(typed, values)


def _agent(entry: Entry) -> str:
    """`claude, claude-opus-4-6, 0.61 USD, 26.6k tokens in, 4.3k out, 14 turns`."""
    agent = entry.agent
    words = [str(agent.get("name", "")), str(agent.get("model", ""))]
    words += [text.cost((entry,)), text.tokens((entry,))]
    words += [f"{agent[name]} {name}" for name in ("turns", "retries") if name in agent]
    return ", ".join(word for word in words if word)
