"""The embedded agent, which performs a script deterministically. `--agent script:FILE.yaml`.

It serves dry runs, the demo and tests. `script_format` documents the file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event

from playbook_supervisor.agents.process import ended_early, launch, put_off
from playbook_supervisor.agents.protocol import (
    Call,
    Message,
    Reply,
    Request,
    Running,
    failed,
    resolve_path,
)
from playbook_supervisor.agents.requests import Asker, permission, question
from playbook_supervisor.agents.script_format import Script, read
from playbook_supervisor.agents.script_worker import ScriptAction, ScriptRequest, write_files
from playbook_supervisor.agents.tool_calls import described
from playbook_supervisor.errors import ArgumentError, PlaybookError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.project.expressions.references import interpolate
from playbook_supervisor.project.settings.config import Config
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
        return _asked_before(call) > 0

    def run(self, call: Call) -> Running:
        action = self._script.action(call.step, call.attempt)
        if not action.ask:
            return _begun(action, call)
        asking = _AskingScript(action, call)
        return Running(asking.messages(), stop=asking.stop)


def _begun(action: ScriptAction, call: Call, reply: str = "") -> Running:
    action = _interpolated(action, call, reply)
    if not action.needs_a_process and call.isolation is None:
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


# ── a script that asks ────────────────────────────────────────────────────────────────────────
#
# What it has asked before is in the name of its conversation, `script-2`: the number of the request
# for which it waits. So it keeps no transcript.


def _asked_before(call: Call) -> int:
    """The number of the request, from 1, at which the conversation continues; 0 for a new one."""
    found = re.fullmatch(r"script-([1-9][0-9]{0,5})", call.conversation)
    return int(found[1]) if found else 0


class _AskingScript:
    """Asks, then performs the action; `stop` is that of a `Running`."""

    def __init__(self, action: ScriptAction, call: Call) -> None:
        self._action, self._call = action, call
        self._asker = Asker(call)
        self._stopped = Event()
        self._running: Running | None = None

    def stop(self) -> None:
        self._stopped.set()
        if self._running is not None:
            self._running.stop()

    def messages(self) -> Iterator[Message]:
        action, told = self._action, ""
        first = max(_asked_before(self._call), 1)
        for number, wanted in list(enumerate(action.ask, 1))[first - 1 :]:
            yield Message(printable(described(wanted.tool, wanted.input)))
            reply = self._reply(wanted, f"{NAME}-{number}")
            if self._stopped.is_set():
                yield Message(outcome=ended_early("stop", self._call, NAME))
                return
            if reply is None:
                yield Message(outcome=self._unanswered(wanted))
                return
            told = _told(reply)
            if reply.resolution == "deny" and action.denied is not None:
                action = action.denied
                break
        self._running = _begun(action, self._call, told)
        if self._stopped.is_set():
            self._running.stop()
        yield from self._running

    def _reply(self, wanted: ScriptRequest, conversation: str) -> Reply | None:
        request = _request(wanted, self._call, conversation)
        rule = request.shape.get("rule")
        if rule in self._call.forbidden_rules:
            return Reply("deny", "a policy forbids it")
        if rule in self._call.allowed_rules:
            return Reply("allow")
        return self._asker.reply(request)

    def _unanswered(self, wanted: ScriptRequest) -> Outcome:
        if self._call.ask is not None:
            return put_off(NAME)
        message = f"{NAME} was not permitted: {described(wanted.tool, wanted.input)}"
        return failed("PB-AGENT-PERMISSION", printable(message), name=NAME)


def _request(wanted: ScriptRequest, call: Call, conversation: str) -> Request:
    if wanted.kind == "question":
        return question(call, wanted.input, conversation=conversation)
    return permission(call, wanted.tool, wanted.input, conversation=conversation)


def _told(reply: Reply) -> str:
    if reply.resolution == "answer":
        return reply.text
    return f"{reply.resolution}: {reply.text}" if reply.text else str(reply.resolution)
