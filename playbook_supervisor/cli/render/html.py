"""HTML from our templates: all content is escaped, and control characters are left out.

`show --html` writes one page, the inbox serves several; both use the environment made here.
"""

from __future__ import annotations

import re
from functools import cache

import jinja2
from markupsafe import Markup, escape

from playbook_supervisor.cli.render import text
from playbook_supervisor.cli.render.timeline import child_line, failed_items, items_line, opens
from playbook_supervisor.commands.views.view import SessionView
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.model import Step, base_of
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.project.expressions.references import interpolate, names
from playbook_supervisor.sessions.steps.step_runs import is_round, step_runs
from playbook_supervisor.system.disk import templates

_FOLDER = "pages"
_SIGNS = {"done": "✓", "failed": "✗", "skipped": "–", "round": "↻", "in_progress": "…"}


def render(template: str, **values: object) -> str:
    """The template of that name, filled in."""
    return _environment().get_template(template).render(values)


@cache
def style(*names: str) -> Markup:
    """Style sheets of ours, one after the other, for a page or a response of its own."""
    folder = templates.folder() / _FOLDER
    return Markup("".join((folder / name).read_text("utf-8") for name in names))  # noqa: S704


def script(name: str) -> str:
    """A script of ours."""
    return (templates.folder() / _FOLDER / name).read_text("utf-8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates.folder() / _FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "agent": _agent,
        "child": lambda entry, view: view.children.get(entry.session),
        "child_line": child_line,
        "command": _command,
        "duration": lambda ms: text.duration(max(ms, 0)),
        "failed_items": failed_items,
        "is_round": is_round,
        "items": items_line,
        "opens": opens,
        "percent": "{:.2f}%".format,
        "place": text.path,
        "prose": _prose,
        "runs": lambda view: tuple(step_runs(view.entries)),
        "sign": lambda status: _SIGNS.get(status, "·"),
        "stamp": stamp,
        "title": lambda entry, view: getattr(_step(entry, view), "title", ""),
        "words": lambda word: word.replace("_", " "),
    }
    return environment


def stamp(ms: int) -> str:
    """`2026-02-19 10:20:26`, in UTC."""
    return text.stamp(ms).rstrip("Z").replace("T", " ")


def _printable(value: object) -> object:
    """Our own markup unchanged; other text without control characters."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value, keep_newlines=True)
    return value


def _prose(sentence: str) -> Markup:
    """A sentence, with the text between backticks as code."""
    shown = str(escape(printable(sentence, keep_newlines=True)))
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", shown))  # noqa: S704 - escaped above


def _step(entry: Entry, view: SessionView) -> Step | None:
    try:
        return view.playbook.step(base_of(entry.step_id)) if view.playbook is not None else None
    except KeyError:  # the journal names a step that the playbook does not have
        return None


def _command(entry: Entry, view: SessionView) -> str:
    """What was typed, with the values of the args and the item."""
    if (step := _step(entry, view)) is None:
        return ""
    typed, head = f"{step.command} {step.args}", view.seen.manifest
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
