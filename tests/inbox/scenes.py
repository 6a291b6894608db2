"""Projects in which something waits, runs or has ended, for the pages of the inbox."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from support.scratch_project import Process, Project

_PATIENCE = 60.0
_HEAD = """\
name: {name}
description: Do the {name}
version: "1.1"
args: {args}
defaults: {{autonomy: auto, error_policy: gate}}
steps:
"""
_PARTS = "[{name: parts, description: The parts, required: false, default: a b c}]"

SHIP = """\
  - {id: build, command: /do.build}
  - {id: publish, command: /do.publish, autonomy: gate_always}
  - {id: tell, command: /do.tell}
"""
SHIP_ACTIONS = """\
  build:
    say: [building, the package is built]
    write: {greet.py: "def greet(name):\\n    return f'Hello, {name}!'\\n"}
  publish: {say: published}
  tell: {say: told}
"""
FAILS = """\
  - {id: build, command: /do.build}
"""
FAILS_ACTIONS = """\
  build:
    - say: [building greet.py, running the tests]
      fail: "1 of 2 tests is red: greet() raises TypeError"
    - {say: both tests are green}
"""
ALLOW = """\
  - {id: build, command: /do.build}
"""
ALLOW_ACTIONS = """\
  build:
    ask:
      permission:
        tool: Bash
        input: {command: "npm test -- --watch=false", description: Run the tests}
    say: "the person said {{reply}}"
"""
ASKS = """\
  - {id: clarify, command: /do.clarify}
"""
ASKS_ACTIONS = """\
  clarify:
    ask:
      question:
        - question: "Which shell is it for?"
          options: [bash, {label: zsh, description: the default on macOS}]
        - {question: "Which systems?", multiple: true, options: [Linux, macOS, BSD]}
        - {question: "What is the tool called?"}
    say: "the person said {{reply}}"
"""


def book(project: Project, name: str, steps: str) -> None:
    head = _HEAD.format(name=name, args=_PARTS if "$parts" in steps else "[]")
    project.write(f".playbooks/playbooks/{name}.yaml", head + steps)
    for each in ("build", "publish", "tell", "clarify", "list"):
        project.write(f".claude/commands/do.{each}.md", "Do it.\n")


def settings(project: Project, actions: str, further: str = "") -> None:
    """Write the project's settings: an embedded agent that does this, and what else is given."""
    agent = project.script(f"steps:\n{actions}")
    project.write(".playbooks/config.yaml", f'agent: "{agent}"\n{further}')


def waits(
    project: Project, name: str, steps: str, actions: str, further: str = "", *, code: int = 4
) -> Project:
    """Run a playbook until its gate opens; nothing drives it then."""
    book(project, name, steps)
    settings(project, actions, further)
    project.commit(f"Add the playbook {name}")
    done = project.playbook("run", name)
    assert done.code == code, done.err
    return project


def ship(project: Project, further: str = "") -> Project:
    return waits(project, "ship", SHIP, SHIP_ACTIONS, further)


def answered(project: Project) -> list[tuple[str, str, str, str]]:
    """Of each gate of the only session: its id, what was decided, with which words, and how."""
    return [
        (gate["id"], gate.get("resolution", ""), gate.get("text", ""), gate.get("via", ""))
        for entry in project.journal()
        for gate in entry.get("gates", [])
    ]


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.02)


@contextmanager
def running(project: Project, *args: str) -> Iterator[Process]:
    """`playbook ARGS` in a process of its own, ended with the block."""
    with project.spawn(*args) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
