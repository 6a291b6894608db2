"""What the runner is tried with: two playbooks, and a model that does what a command is for."""

from __future__ import annotations

import re
from collections.abc import Callable

from claude.client import Client
from claude.conversation import Reply, Request, call, text
from claude.model import Script
from claude.scripts import FILES

Headless = Callable[..., Client]
"""Put the client on the project's PATH as `claude`, with this model behind it."""

ONE = """\
name: one
description: For a test
version: "1.0"
args: []
steps:
  - id: plan
    command: /speckit.plan
    autonomy: auto
    model: haiku
    postconditions: [plan_exists]
    error_policy: stop
"""
TWO = f"""\
{ONE.replace("name: one", "name: two")}\
  - id: tasks
    command: /speckit.tasks
    args: "--all of 'it'"
    autonomy: gate_always
    postconditions: [tasks_exists]
    error_policy: stop
"""
STRAIGHT = TWO.replace("name: two", "name: straight").replace("gate_always", "auto")


def command_of(request: Request) -> str:
    """The command that the client expanded; empty where it expanded none."""
    found = re.search(r"<command-name>/(.*?)</command-name>", request.prompt)
    return found[1] if found else ""


def works(request: Request) -> Reply:
    """A model that does what a command is for."""
    name = command_of(request)
    if name in FILES and not request.calls:
        path, content = FILES[name]
        return [text(f"I do {name}."), call("Write", file_path=path, content=content)]
    return [text(f"{name} is done.\nReally.")]


def after(first: Reply, *, times: int = 1) -> Script:
    """One that works once it has said this."""
    return lambda request: first if request.number <= times else works(request)
