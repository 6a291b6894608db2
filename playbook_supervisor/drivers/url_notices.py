"""Notices to URLs, sent by the library apprise in a process of its own.

The process can be ended at the deadline, and what the library prints or logs is not shown: it may
contain secrets. A message names a URL by its scheme.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project.expressions.references import handle, interpolate, names
from playbook_supervisor.project.settings.config import FILE, Config
from playbook_supervisor.project.settings.secrets import known, value_of
from playbook_supervisor.system.installation import command_for
from playbook_supervisor.system.process.processes import run

SENDER = (sys.executable, "-P", "-m", "playbook_supervisor.drivers.apprise_process")
_REPORT = r"(\d+) (sent|failed|unknown|\d{3})"
_LOOKING = 30.0  # seconds to look at schemes


def send_to_urls(config: Config, title: str, body: str, root: Path, deadline: float) -> str:
    """Send a notice to all URLs at once; why that failed in a sentence, or empty.

    It may take `deadline` seconds once the secrets are there. Interrupted as `processes.run`.
    """
    if not installed():
        return f"the notification failed: apprise is not installed (`{command_for('notify')}`)"
    urls, problems = _with_secrets(config, root)
    labels = _labels(config.notify)
    if urls:
        data = {"title": title, "body": body}
        reports = _reports(urls, data, root, deadline)
        problems |= {
            index: _failure(labels[index], reports.get(index, ""), deadline)
            for index in urls
            if reports.get(index) != "sent"
        }
    failures = dict.fromkeys(problems[index] for index in sorted(problems))
    return f"the notification failed: {'; '.join(failures)}" if failures else ""


def examined(config: Config, root: Path) -> tuple[Literal["fine", "wrong"], str, str]:
    """True if notices could be sent, without sending any: the state, what was found, the cure."""
    if not installed():
        found = "`notify` has URLs, and apprise, which sends to them, is not installed"
        return "wrong", found, f"Install it: {command_for('notify')}"
    named = [handle(name) for url in config.notify for name in names(url)]
    if missing := [each for each in named if not known(each, config)]:
        found = f"`notify` names the secret {missing[0]}, which is not there"
        return "wrong", found, f"Set the variable {missing[0]}, or add it to `secrets` in {FILE}."
    schemes = [_scheme(url) for url in config.notify]
    bare = {index: f"{each}://" for index, each in enumerate(schemes)}
    for index, report in _reports(bare, {}, root, _LOOKING).items():
        if report == "unknown":
            return "wrong", f"apprise knows no service {bare[index]}", f"Correct it in {FILE}."
    return "fine", f"sends to {', '.join(schemes)}", ""


def installed() -> bool:
    """True if apprise, an optional dependency, can be imported; it is not imported."""
    return find_spec("apprise") is not None


def _with_secrets(config: Config, root: Path) -> tuple[dict[int, str], dict[int, str]]:
    urls, problems = dict[int, str](), dict[int, str]()
    for index, url in enumerate(config.notify):
        try:
            values = {
                name: quote(value_of(handle(name), config, root), safe="") for name in names(url)
            }
            urls[index] = interpolate(url, values)
        except PlaybookError as error:
            problems[index] = first_line(error.message)
    return urls, problems


def _reports(
    urls: Mapping[int, str], data: Mapping[str, str], root: Path, deadline: float
) -> dict[int, str]:
    """The outcome of each URL. One without a report was not finished when the process ended."""
    stdin = json.dumps({**data, "urls": dict(urls)}).encode()
    try:
        done = run(SENDER, cwd=root, stdin=stdin, timeout=deadline, cap=100_000)
    except PlaybookError as error:
        return dict.fromkeys(urls, first_line(error.message))
    reports = dict(_read(done.stdout))
    if done.timed_out:
        return reports
    return dict.fromkeys(urls, "failed") | reports


def _read(stdout: str) -> Iterator[tuple[int, str]]:
    for line in stdout.splitlines():
        if found := re.fullmatch(_REPORT, line):
            yield int(found[1]), found[2]


def _failure(label: str, report: str, deadline: float) -> str:
    match report:
        case "":
            return f"{label} took longer than {deadline:.0f} s"
        case "failed":
            return f"{label} could not be reached, or refused it"
        case "unknown":
            return f"apprise does not understand the {label} URL"
        case status if status.isdecimal():
            return f"{label} answered with HTTP status {status}"
        case why:
            return why


def _labels(urls: tuple[str, ...]) -> tuple[str, ...]:
    schemes = [_scheme(url) for url in urls]
    return tuple(
        each if schemes.count(each) == 1 else f"{each} (URL {number})"
        for number, each in enumerate(schemes, 1)
    )


def _scheme(url: str) -> str:
    """`ntfy`: the only part of a URL that is shown."""
    return first_line(url.partition("://")[0], 40)
