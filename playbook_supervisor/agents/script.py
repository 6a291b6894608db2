"""The embedded agent, which performs a script deterministically. `--agent script:FILE.yaml`.

It serves dry runs, the demo and tests. `script_format` documents the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from playbook_supervisor.agents.process import launch
from playbook_supervisor.agents.protocol import Call, Message, Running, failed, resolve_path
from playbook_supervisor.agents.script_asking import AskingScript, asked_before
from playbook_supervisor.agents.script_format import Script, read
from playbook_supervisor.agents.script_worker import ScriptAction, write_files
from playbook_supervisor.errors import ArgumentError, PlaybookError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.project.config import Config
from playbook_supervisor.project.references import interpolate
from playbook_supervisor.records import replace

NAME = "script"
# -P keeps the working directory off the module search path.
WORKER = (sys.executable, "-P", "-m", "playbook_supervisor.agents.script_worker")


def create(argument: str, config: Config, root: Path) -> ScriptAgent:
    """`--agent script:FILE.yaml`. ArgumentError PB-ARG-AGENT, AgentError PB-AGENT-SCRIPT."""
    del config
    if not argument:
        raise ArgumentError("PB-ARG-AGENT", "no file follows script:")
    return ScriptAgent(read(resolve_path(argument, root)))


class ScriptAgent:
    """Performs a script, which is read once, before the first step."""

    name = NAME
    asks = True

    def __init__(self, script: Script) -> None:
        self._script = script

    def available(self) -> str | None:
        return None

    def can_continue(self, call: Call) -> bool:
        """A script goes on behind any request of its own."""
        return asked_before(call) > 0

    def run(self, call: Call) -> Running:
        action = self._script.action(call.step, call.attempt)
        if not action.ask:
            return _begun(action, call)
        asking = AskingScript(action, call, _begun)
        return Running(asking.messages(), stop=asking.stop)


def _begun(action: ScriptAction, call: Call, reply: str = "") -> Running:
    """Perform the action, whose requests have been replied to."""
    action = _interpolated(action, call, reply)
    if not action.needs_a_process:
        return Running(_perform(action, call), stop=lambda: None)
    running = launch(WORKER, call, action.as_json(), name=NAME)
    return replace(running, messages=_ending(running.messages, action))


def _interpolated(action: ScriptAction, call: Call, reply: str) -> ScriptAction:
    values = {
        "feature": call.feature,
        "step": call.step,
        "attempt": str(call.attempt),
        "args": call.args,
        "feedback": call.feedback,
        "reply": reply,
    }
    filled = partial(interpolate, values=values)
    write = tuple((filled(path), filled(text)) for path, text in action.write)
    return replace(
        action, say=tuple(map(filled, action.say)), write=write, fail=filled(action.fail)
    )


def _perform(action: ScriptAction, call: Call) -> Iterator[Message]:
    for line in action.say:
        yield Message(printable(line))
    try:
        write_files(action, call.cwd)
    except PlaybookError as error:
        message = f"{NAME} could not write: {error.message}"
        yield Message(outcome=failed("PB-AGENT-FAILED", message, name=NAME, cause=error.code))
        return
    done = Outcome(output="\n".join(map(printable, action.say)), agent={"name": NAME})
    yield from _ending(iter((Message(outcome=done),)), action)


def _ending(messages: Iterator[Message], action: ScriptAction) -> Iterator[Message]:
    """The messages; a successful outcome becomes the failure that the script wants, if any."""
    for message in messages:
        outcome = message.outcome
        if action.fail and outcome is not None and outcome.ok:
            reason = printable(action.fail)
            outcome = failed("PB-AGENT-FAILED", reason, name=NAME, output=outcome.output)
            yield Message(message.text, outcome)
        elif outcome is not None and outcome.ok:
            silent = action.listed and not (action.say or action.write or action.ask)
            yield Message(message.text, replace(outcome, silent=silent))
        else:
            yield message
