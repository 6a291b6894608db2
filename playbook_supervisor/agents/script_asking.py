"""A script that asks a person before it acts, and goes on with the replies.

What it has asked before is in the name of its conversation, `script-2`: the number of the request
for which it waits. So it keeps no transcript.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from threading import Event

from playbook_supervisor.agents.process import ended_early, put_off
from playbook_supervisor.agents.protocol import Call, Message, Reply, Request, Running, failed
from playbook_supervisor.agents.requests import Asker, permission, question
from playbook_supervisor.agents.script_worker import ScriptAction, ScriptRequest
from playbook_supervisor.agents.tool_calls import described
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Outcome

_NAME = "script"


def asked_before(call: Call) -> int:
    """The number of the request, from 1, at which the conversation continues; 0 for a new one."""
    found = re.fullmatch(r"script-([1-9][0-9]{0,5})", call.conversation)
    return int(found[1]) if found else 0


class AskingScript:
    """Asks, then performs the action; `stop` is that of a `Running`."""

    def __init__(
        self,
        action: ScriptAction,
        call: Call,
        perform: Callable[[ScriptAction, Call, str], Running],
    ) -> None:
        self._action, self._call, self._perform = action, call, perform
        self._asker = Asker(call)
        self._stopped = Event()
        self._running: Running | None = None

    def stop(self) -> None:
        self._stopped.set()
        if self._running is not None:
            self._running.stop()

    def messages(self) -> Iterator[Message]:
        """What it wants to do, and then what the action says."""
        action, told = self._action, ""
        first = max(asked_before(self._call), 1)
        for number, wanted in list(enumerate(action.ask, 1))[first - 1 :]:
            yield Message(printable(described(wanted.tool, wanted.input)))
            reply = self._reply(wanted, f"{_NAME}-{number}")
            if self._stopped.is_set():
                yield Message(outcome=ended_early("stop", self._call, _NAME))
                return
            if reply is None:
                yield Message(outcome=self._unanswered(wanted))
                return
            told = _told(reply)
            if reply.resolution == "deny" and action.denied is not None:
                action = action.denied
                break
        self._running = self._perform(action, self._call, told)
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
            return put_off(_NAME)
        message = f"{_NAME} was not permitted: {described(wanted.tool, wanted.input)}"
        return failed("PB-AGENT-PERMISSION", printable(message), name=_NAME)


def _request(wanted: ScriptRequest, call: Call, conversation: str) -> Request:
    if wanted.kind == "question":
        return question(call, wanted.input, conversation=conversation)
    return permission(call, wanted.tool, wanted.input, conversation=conversation)


def _told(reply: Reply) -> str:
    """The reply in words: `allow`, `deny: use pnpm`, or an answer."""
    if reply.resolution == "answer":
        return reply.text
    return f"{reply.resolution}: {reply.text}" if reply.text else str(reply.resolution)
