"""The embedded agent: it does what a file says, the same every time. `--agent script:FILE.yaml`.

For trying a playbook out, for the demonstration and for tests. `script_format` documents the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from playbook_supervisor.agents.process import launch
from playbook_supervisor.agents.protocol import Call, Message, Running, failed, resolve_path
from playbook_supervisor.agents.script_format import Script, read
from playbook_supervisor.agents.script_worker import ScriptAction, write_files
from playbook_supervisor.errors import ArgumentError, PlaybookError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.project.references import interpolate
from playbook_supervisor.records import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.project.config import Config

NAME = "script"
# -P: what lies in the working directory is no module of ours.
WORKER = (sys.executable, "-P", "-m", "playbook_supervisor.agents.script_worker")


def create(argument: str, config: Config, root: Path) -> ScriptAgent:
    """`--agent script:FILE.yaml`. ArgumentError PB-ARG-AGENT, AgentError PB-AGENT-SCRIPT."""
    del config
    if not argument:
        raise ArgumentError("PB-ARG-AGENT", "script: names no file")
    return ScriptAgent(read(resolve_path(argument, root)))


class ScriptAgent:
    """Carries a script out. It is read once, before the first step."""

    name = NAME

    def __init__(self, script: Script) -> None:
        self._script = script

    def available(self) -> str | None:
        """It always is."""
        return None

    def run(self, call: Call) -> Running:
        deed = _filled_in(self._script.deed(call.step, call.attempt), call)
        if not deed.needs_a_process:
            return Running(_perform(deed, call), stop=_too_late)
        running = launch(WORKER, call, deed.as_json(), name=NAME)
        return replace(running, messages=_ending(running.messages, deed))


def _filled_in(deed: ScriptAction, call: Call) -> ScriptAction:
    values = {
        "feature": call.feature,
        "step": call.step,
        "attempt": str(call.attempt),
        "args": call.args,
    }
    return replace(
        deed,
        say=tuple(interpolate(line, values) for line in deed.say),
        write=tuple(
            (interpolate(path, values), interpolate(text, values)) for path, text in deed.write
        ),
        fail=interpolate(deed.fail, values),
    )


def _perform(deed: ScriptAction, call: Call) -> Iterator[Message]:
    """In this process: nothing of it takes time."""
    for line in deed.say:
        yield Message(printable(line))
    try:
        write_files(deed, call.cwd)
    except PlaybookError as error:
        said = f"{NAME} could not write: {error.message}"
        yield Message(outcome=failed("PB-AGENT-FAILED", said, name=NAME, cause=error.code))
        return
    done = Outcome(output="\n".join(map(printable, deed.say)), agent={"name": NAME})
    yield from _ending(iter((Message(outcome=done),)), deed)


def _ending(messages: Iterator[Message], deed: ScriptAction) -> Iterator[Message]:
    """A deed that came to its end fails if the script says so."""
    for message in messages:
        outcome = message.outcome
        if deed.fail and outcome is not None and outcome.ok:
            said = printable(deed.fail)
            outcome = failed("PB-AGENT-FAILED", said, name=NAME, output=outcome.output)
            yield Message(message.text, outcome)
        else:
            yield message


def _too_late() -> None:
    """What has no process of its own is over before anyone could stop it."""
