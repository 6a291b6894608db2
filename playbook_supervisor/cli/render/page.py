"""One session as an HTML page that loads nothing and runs no script; all content is escaped.

Its Content-Security-Policy forbids scripts, requests, and every style but its own (by digest).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from playbook_supervisor import __version__
from playbook_supervisor.cli.render import text
from playbook_supervisor.cli.render.gantt import chart
from playbook_supervisor.commands.overview import SessionOverview
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.project.references import interpolate, names
from playbook_supervisor.project.session_policy import Effect
from playbook_supervisor.sessions import gate_text
from playbook_supervisor.sessions.manifest import Manifest
from playbook_supervisor.system import templates

_SIGNS = {"done": "✓", "failed": "✗", "skipped": "–", "in_progress": "…"}


def page(
    seen: SessionOverview,
    entries: Sequence[Entry],
    playbook: Playbook | None,
    problem: PlaybookError | None,
    now: int,
    effects: Sequence[Effect] = (),
) -> str:
    """The whole page. `problem`: why part of the session could not be read. `now` in ms."""
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
    head = seen.manifest
    steps = playbook.steps if playbook else ()
    commands = {step.id: _command(step, head) for step in steps}
    titles = {step.id: step.title for step in steps}
    environment.filters |= {
        "agent": _agent,
        "command": lambda step_id: commands.get(step_id, ""),
        "title": lambda step_id: titles.get(step_id, ""),
        "duration": lambda ms: text.duration(max(ms, 0)),
        "percent": "{:.2f}%".format,
        "prose": _prose,
        "sign": lambda status: _SIGNS.get(status, "·"),
        "stamp": _stamp,
        "words": lambda word: word.replace("_", " "),
    }
    begun = {entry.step_id for entry in entries}
    return environment.get_template("page.html").render(
        digest=b64encode(sha256(style.encode()).digest()).decode(),
        style=Markup(style),  # noqa: S704 - a file of our own
        session=seen.session_id,
        head=head,
        facts=tuple(_facts(head, entries, now)) if head else (),
        problem=problem,
        context=gate_text.lines(seen.gate_context()),
        effects=effects,
        entries=entries,
        chart=chart(entries, head.started_at if head else 0, now),
        not_begun=[step.id for step in steps if step.id not in begun],
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


def _command(step: Step, head: Manifest | None) -> str:
    typed = f"{step.command} {step.args}"
    if head is None:
        return typed
    return interpolate(typed, {name: head.args.get(name, "") for name in names(typed)})


def _agent(entry: Entry) -> str:
    """`claude, claude-opus-4-6, 0.61 USD, 26.6k tokens in, 4.3k out, 14 turns`."""
    agent = entry.agent
    words = [str(agent.get("name", "")), str(agent.get("model", ""))]
    words += [text.cost((entry,)), text.tokens((entry,))]
    words += [f"{agent[name]} {name}" for name in ("turns", "retries") if name in agent]
    return ", ".join(word for word in words if word)
