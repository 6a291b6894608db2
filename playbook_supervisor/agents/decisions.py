"""Decides the calls of an agent that asks before it acts: by the rules, else by a person.

What is refused is remembered: a turn may end as if nothing had been, and then only we know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from playbook_supervisor.agents.protocol import Call
from playbook_supervisor.agents.requests import QUESTION_TOOL, Asker, answers, permission, question
from playbook_supervisor.agents.rulings import ruling
from playbook_supervisor.agents.tool_calls import described, rules_for
from playbook_supervisor.agents.verdicts import failure, not_permitted
from playbook_supervisor.kernel.directives import Failure

_MOST_TURNS = 5  # turns that follow refusals by rules alone: an agent may ask again and again
_REFUSED = "This call was not permitted: {call}. Do not repeat it; go on without it."
_DENIED = "A person has denied this call: {call}. Do not repeat it; go on without it."
_LIMITED = "See what it did (`git status`), and let an agent do this step that asks before it acts."
_SAID = "A person has denied this call: {call}. They said: {words}"


class Decisions:
    """The decisions on the calls of one process; `allowed` are the rules of the settings.

    `who` is the agent's name, and that of its settings.
    """

    def __init__(self, call: Call, allowed: Sequence[str], asker: Asker, who: str) -> None:
        self._call, self._allowed, self._asker, self._who = call, allowed, asker, who
        self._always: list[str] = []  # rules that hold for the rest of the process
        self._unruled: list[tuple[str, Mapping[str, Any]]] = []
        self._told: list[str] = []
        self._turns = 0

    def allow(
        self,
        tool: str,
        given: Mapping[str, Any],
        *,
        description: str = "",
        conversation: str = "",
    ) -> bool | None:
        """Whether the call may be made; None if a person is to decide later. May block.

        The call has the name and the input of a tool of Claude Code. `conversation` is the one that
        can be continued with the answer.
        """
        shown = described(tool, given, str(self._call.cwd))
        ruled = ruling(self._call, (*self._allowed, *self._always), tool, given)
        if ruled == "allow":
            return True
        if ruled == "deny":
            self._told.append(_REFUSED.format(call=shown))
            return False
        if self._call.ask is None:
            self._unruled.append((tool, given))
            return False
        request = permission(
            self._call,
            tool,
            given,
            who=self._who,
            description=description,
            conversation=conversation,
        )
        reply = self._asker.reply(request)
        if reply is None:
            return None
        if reply.resolution == "deny":
            words = _SAID if reply.text else _DENIED
            self._told.append(words.format(call=shown, words=reply.text))
            return False
        if reply.resolution == "always":
            rules = list(rules_for(tool, given, str(self._call.cwd)))
            self._always += rules if len(rules) == 1 else []
        return True

    def answer(self, given: Mapping[str, Any], conversation: str) -> str | None:
        """The answer to the question of a call of `AskUserQuestion`: a label, or other words.

        Empty if there is no person to ask, None if one is to answer later. May block.
        """
        if self._call.ask is None:
            self._unruled.append((QUESTION_TOOL, given))
            return ""
        asked = question(self._call, given, who=self._who, conversation=conversation)
        reply = self._asker.reply(asked)
        if reply is None:
            return None
        answer = next(iter(answers(given, reply.text).values()), "")
        labels = [each["label"] for each in given["questions"][0]["options"]]
        if answer not in labels:
            self._told.append(f"You asked: {asked.shape['subject']} The person said: {answer}")
        return answer

    def unasked(self, tool: str, given: Mapping[str, Any]) -> Failure | None:
        """The failure if a call that the agent makes without asking changes what it may not."""
        if tool not in ("Edit", "Bash") or ruling(self._call, (), tool, given) != "deny":
            return None
        shown = described(tool, given, str(self._call.cwd))
        said = f"{self._who} did what this step may not do, without asking: {shown}"
        return failure("PB-AGENT-PERMISSION", said, guidance=_LIMITED, lasts=True)

    def words(self) -> list[str]:
        """What the agent is told about the refusals of a turn that has ended: many stop there.

        Empty if there are none, or if it goes on asking for what it may not do.
        """
        told, self._told = self._told, []
        self._turns += bool(told)
        return told if self._turns <= _MOST_TURNS and not self._unruled else []

    def failure(self) -> Failure | None:
        """The failure if a call that no rule covers was refused, for no person could be asked."""
        if not self._unruled:
            return None
        return not_permitted(self._who, self._unruled, self._allowed, str(self._call.cwd))
