"""The embedded agent, which performs a script deterministically. `--agent script:FILE.yaml`.

It serves dry runs, the demo and tests. All faults of its file are reported with their places.

    steps:
      plan:                                    # one action for every attempt
        write:
          specs/{{feature}}/plan.md: |         # whole files, inside the working directory
            # Plan of {{feature}}
        say: the plan is written               # a string or a list of lines
      implement:                               # one action for each attempt; the last one repeats
        - fail: two tests are red
        - {seconds: 0.5, write: {greet.py: "print('hello')"}}
      qa-run: {hang: true}                     # or {die: true}: SIGKILL, as in a crash
      commit:
        ask: {permission: {tool: Bash, input: {command: git commit}}}  # one, or a list
        denied: {fail: not allowed}            # in place of the action if a person denies it
      clarify:
        ask: {question: {question: "Which one?", options: [this, that]}}
        say: "the answer was {{reply}}"
    default: {say: nothing to do}              # for steps that are not listed

An action asks, prints its lines, waits, writes its files, and then succeeds, fails, hangs or dies.
`{{feature}}`, `{{step}}`, `{{attempt}}`, `{{args}}`, `{{feedback}}` and `{{reply}}` are replaced in
texts and in paths. `{{feedback}}` is what a retry is told about the attempt before it, `{{reply}}`
the reply to the last request.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Event
from typing import Any, NoReturn

from playbook_supervisor.agents.process import ended_early, launch, put_off
from playbook_supervisor.agents.protocol import (
    Call,
    Message,
    Reply,
    Running,
    failed,
    resolve_path,
)
from playbook_supervisor.agents.requests import QUESTION_TOOL, Asker, permission, question
from playbook_supervisor.agents.script_worker import ScriptAction, ScriptRequest, write_files
from playbook_supervisor.agents.tool_calls import described
from playbook_supervisor.errors import (
    AgentError,
    ArgumentError,
    CheckError,
    PlaybookError,
    StorageError,
)
from playbook_supervisor.formats import strict_yaml
from playbook_supervisor.formats.located import Data, Document, Plain, yaml_values
from playbook_supervisor.formats.sanitize import printable, suggestion
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.kernel.model import base_of
from playbook_supervisor.project.expressions import references
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import read_bytes

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
    filled = partial(references.interpolate, values=values)
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
        call, ask = self._call, wanted.input
        if wanted.kind == "question":
            request = question(call, ask, conversation=conversation)
        else:
            request = permission(call, wanted.tool, ask, conversation=conversation)
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


def _told(reply: Reply) -> str:
    if reply.resolution == "answer":
        return reply.text
    return f"{reply.resolution}: {reply.text}" if reply.text else str(reply.resolution)


# ── its file ────────────────────────────────────────────────────────────────────────────────

NAMES = ("feature", "step", "attempt", "args", "feedback", "reply")  # allowed between double braces
LONGEST = 86_400.0  # the most seconds that an action may take; `hang` never ends
ENDS = ("fail", "hang", "die")
ACTS = ("say", "seconds", "write", *ENDS)
KEYS = ("ask", "denied", *ACTS)

_UNLISTED = ScriptAction(listed=False)

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """Actions by step, one for each attempt, and the default for all other steps."""

    steps: Mapping[str, tuple[ScriptAction, ...]] = field(default_factory=dict)
    default: tuple[ScriptAction, ...] = (_UNLISTED,)

    def action(self, step: str, attempt: int) -> ScriptAction:
        """The action of that attempt (from 1), not yet interpolated.

        That of `build[2]` is the one of this item, else the one of its loop `build`.
        """
        actions = self.steps.get(step) or self.steps.get(base_of(step), self.default)
        return actions[min(attempt, len(actions)) - 1]


def read(path: Path) -> Script:
    """The script in that file. AgentError PB-AGENT-SCRIPT lists every fault in `details`."""
    source = str(path)
    try:
        document = strict_yaml.load(read_bytes(path, limit=strict_yaml.MAX_BYTES + 1), source)
    except FileNotFoundError:
        _refuse([(source, "there is no such file")])
    except StorageError as error:
        _refuse([(source, error.message)])
    except CheckError as error:
        _refuse([(error.where, error.message)])
    return _Reading(document).script()


class _Reading:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._faults: list[tuple[str, str]] = []

    def script(self) -> Script:
        data = self._mapping((), self._document.data, ("steps", "default"))
        steps = self._mapping(("steps",), data.get("steps", {}))
        script = Script(
            {step: self._actions(("steps", step), actions) for step, actions in steps.items()},
            self._actions(("default",), data["default"]) if "default" in data else (_UNLISTED,),
        )
        if self._faults:
            _refuse(self._faults)
        return script

    def _actions(self, at: Place, data: Data) -> tuple[ScriptAction, ...]:
        if not isinstance(data, list):
            return (self._action(at, data),)
        if not data:
            self._fault(at, "an attempt needs an action; `{}` does nothing")
        return tuple(self._action((*at, index), action) for index, action in enumerate(data))

    def _action(self, at: Place, data: Data, keys: Sequence[str] = KEYS) -> ScriptAction:
        action = self._mapping(at, data, keys)
        ends = [key for key in ENDS if key in action]
        if len(ends) > 1:
            message = f"an action takes only one of {' and '.join(ends)}"
            self._fault((*at, ends[1]), message, key=True)
        readers: Mapping[str, Callable[[Place, Data], Any]] = {
            "ask": self._requests,
            "denied": lambda place, each: self._action(place, each, ACTS),
            "say": self._lines,
            "seconds": self._seconds,
            "write": self._files,
            "fail": self._reason,
            "hang": self._flag,
            "die": self._flag,
        }
        given = {key: readers[key]((*at, key), action[key]) for key in keys if key in action}
        return ScriptAction(**given)

    def _requests(self, at: Place, data: Data) -> tuple[ScriptRequest, ...]:
        if isinstance(data, list):
            return tuple(self._request((*at, index), each) for index, each in enumerate(data))
        return (self._request(at, data),)

    def _request(self, at: Place, data: Data) -> ScriptRequest:
        asked = self._mapping(at, data, ("permission", "question"))
        if len(asked) != 1:
            self._fault(at, "a request is either a `permission` or a `question`")
        if "question" in asked:
            questions = asked["question"]
            listed = questions if isinstance(questions, list) else [questions]
            given = [self._question((*at, "question"), each) for each in listed]
            return ScriptRequest("question", QUESTION_TOOL, {"questions": given})
        place = (*at, "permission")
        wanted = self._mapping(place, asked.get("permission", {}), ("tool", "input"))
        tool = self._text((*place, "tool"), wanted.get("tool", ""))
        if not tool and "permission" in asked:
            self._fault(place, "a permission needs a `tool`")
        given_to_it = self._mapping((*place, "input"), wanted.get("input", {}))
        return ScriptRequest("permission", tool, yaml_values(given_to_it))

    def _question(self, at: Place, data: Data) -> Mapping[str, Any]:
        """The question as Claude Code's tool has it; an option may be its label alone."""
        asked = self._mapping(at, data, ("question", "header", "options", "multiple"))
        text = self._text(at, asked.get("question", ""))
        if not text:
            self._fault(at, "a question needs its text, `question`")
        options = asked.get("options", [])
        if not isinstance(options, list):
            self._fault(at, "`options` must be a list")
            options = []
        return {
            "question": text,
            "header": self._text(at, asked.get("header", "")),
            "options": [self._option(at, option) for option in options],
            "multiSelect": "multiple" in asked and self._flag(at, asked["multiple"]),
        }

    def _option(self, at: Place, data: Data) -> Mapping[str, Any]:
        if isinstance(data, str):
            return {"label": data, "description": ""}
        option = self._mapping(at, data, ("label", "description"))
        return {key: self._text(at, option.get(key, "")) for key in ("label", "description")}

    def _files(self, at: Place, data: Data) -> tuple[tuple[str, str], ...]:
        files = []
        for path, text in self._mapping(at, data).items():
            place = (*at, path)
            pure = PurePosixPath(path)
            if pure.is_absolute() or ".." in pure.parts or not pure.parts:
                message = f"{printable(path)!r} is not a path inside the working directory"
                self._fault(place, message, key=True)
            self._names(place, path, key=True)
            files.append((path, self._text(place, text)))
        return tuple(files)

    def _reason(self, at: Place, data: Data) -> str:
        text = self._text(at, data)
        if not text.strip():
            self._fault(at, "`fail` needs a reason")
        return text

    def _lines(self, at: Place, data: Data) -> tuple[str, ...]:
        if isinstance(data, list):
            return tuple(self._text((*at, index), line) for index, line in enumerate(data))
        return tuple(self._text(at, data).splitlines())

    def _text(self, at: Place, data: Data) -> str:
        if not isinstance(data, str):
            self._fault(at, "this must be a string")
            return ""
        self._names(at, data)
        return str(data)

    def _names(self, at: Place, text: str, *, key: bool = False) -> None:
        allowed = ", ".join(f"{{{{{name}}}}}" for name in NAMES)
        for name in references.names(text):
            if name not in NAMES:
                unknown = f"{{{{{printable(name)}}}}}"
                self._fault(at, f"unknown name {unknown}; the names are {allowed}", key=key)

    def _seconds(self, at: Place, data: Data) -> float:
        value = data.value if isinstance(data, Plain) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            value = -1.0
        if not 0 <= value <= LONGEST:
            self._fault(at, f"this must be a number of seconds from 0 to {LONGEST:.0f}")
        return float(value)

    def _flag(self, at: Place, data: Data) -> bool:
        value = data.value if isinstance(data, Plain) else None
        if not isinstance(value, bool):
            self._fault(at, "this must be true or false")
        return value is True

    def _mapping(
        self, at: Place, data: Data, allowed: Sequence[str] | None = None
    ) -> dict[str, Data]:
        if isinstance(data, Plain) and data.value is None:
            return {}
        if not isinstance(data, dict):
            self._fault(at, "this must be a mapping" + _keys(allowed))
            return {}
        for key in data:
            if allowed is not None and key not in allowed:
                hint = suggestion(key, allowed)
                message = f"unknown key {printable(key)!r}{hint}{_keys(allowed)}"
                self._fault((*at, key), message, key=True)
        return data

    def _fault(self, at: Place, message: str, *, key: bool = False) -> None:
        line, column = self._document.key_position(at) if key else self._document.position(at)
        self._faults.append((f"{self._document.source}:{line}:{column}", message))


def _keys(allowed: Sequence[str] | None) -> str:
    return f" ({', '.join(allowed)})" if allowed else ""


def _refuse(faults: Sequence[tuple[str, str]]) -> NoReturn:
    where, message = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    details = tuple(f"{place}: {fault}" for place, fault in faults)
    raise AgentError("PB-AGENT-SCRIPT", message + more, where=where, details=details)
