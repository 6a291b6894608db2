"""The client's control protocol: it asks on its standard output, and reads on its standard input.

One object per line. Its standard input stays open until its result, because replies follow the
prompt there. A client that is put off is interrupted: closing its input would deny what it asks,
and the model would go on without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from playbook_supervisor.agents.process import InputPipe
from playbook_supervisor.agents.protocol import Call, Reply
from playbook_supervisor.agents.requests import QUESTION_TOOL, Asker, answers, permission, question
from playbook_supervisor.agents.tool_calls import rules_for
from playbook_supervisor.formats.fields import json_object

OPTIONS = ("--input-format=stream-json", "--permission-prompt-tool=stdio")
"""The options that make a client speak this protocol."""
_WHO = "Claude"
_DENIED = "A person has denied this call."
_ERROR = "the supervisor does not support this request"
_INTERRUPT = {
    "type": "control_request",
    "request_id": "put-off",
    "request": {"subtype": "interrupt"},
}


def prompted(prompt: str) -> InputPipe:
    """The input of a client that is given that prompt first."""
    pipe = InputPipe()
    message = {"role": "user", "content": prompt}
    pipe.send({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""})
    return pipe


class Dialogue:
    """Replies to what one client process asks; `denied` are the ids of calls that were denied."""

    def __init__(self, call: Call, asker: Asker, client: InputPipe) -> None:
        self._call, self._asker, self._client = call, asker, client
        self.denied: set[str] = set()

    def hear(self, line: str, conversation: str) -> None:
        """Reply to a request of the client, which is asked to end if that is put off. May block."""
        if '"control_request"' not in line:
            return
        event = json_object(line)
        if event.get("type") != "control_request":
            return
        id_, asked = event.get("request_id"), event.get("request")
        if not (
            isinstance(asked, dict)
            and asked.get("subtype") == "can_use_tool"
            and isinstance(asked.get("input"), dict)
        ):
            self._respond({"subtype": "error", "request_id": id_, "error": _ERROR})
        elif (decision := self._decision(asked, conversation)) is not None:
            self._respond({"subtype": "success", "request_id": id_, "response": decision})

    def _decision(self, asked: Mapping[str, Any], conversation: str) -> Mapping[str, Any] | None:
        tool, given = str(asked.get("tool_name") or ""), asked["input"]
        already = self._asker.put_off
        if tool == QUESTION_TOOL:
            request = question(self._call, given, who=_WHO, conversation=conversation)
        else:
            request = permission(
                self._call,
                tool,
                given,
                who=_WHO,
                description=asked.get("description") or "",
                path=asked.get("blocked_path") or "",
                agent=asked.get("agent_id") or "",
                conversation=conversation,
            )
        reply = self._asker.reply(request)
        if reply is None:
            if not already:
                self._client.send(_INTERRUPT)
            return None
        if reply.resolution == "deny":
            self.denied.add(str(asked.get("tool_use_id") or ""))
            return {"behavior": "deny", "message": reply.text or _DENIED}
        if tool == QUESTION_TOOL:
            told = {**given, "answers": answers(given, reply.text)}
            return {"behavior": "allow", "updatedInput": told}
        return {"behavior": "allow", "updatedInput": given, **self._rule(reply, tool, given)}

    def _rule(self, reply: Reply, tool: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The update that makes `always` hold for the rest of the process."""
        rules = list(rules_for(tool, given, str(self._call.cwd)))
        if reply.resolution != "always" or len(rules) != 1:
            return {}
        name, _, content = rules[0].partition("(")
        rule = {"toolName": name} | ({"ruleContent": content[:-1]} if content else {})
        update = {
            "type": "addRules",
            "rules": [rule],
            "behavior": "allow",
            "destination": "session",
        }
        return {"updatedPermissions": [update]}

    def _respond(self, response: Mapping[str, Any]) -> None:
        self._client.send({"type": "control_response", "response": response})
