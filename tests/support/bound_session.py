"""A session that Claude Code drives, without the client: its hooks' payloads are written by hand.

`Conversation` is the process that stands for the client; what it starts has it as an ancestor.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from support.in_process import Result
from support.scratch_project import Project

CLIENT = "5c974b13-f8f2-4ecf-9b67-168674193201"

PROGRAM = (sys.executable, "-m", "playbook_supervisor")

# Runs what it is told, a line of JSON each, and answers with exit code and outputs.
STAND_IN = """\
import json, subprocess, sys
for line in sys.stdin:
    argv, env, given = json.loads(line)
    done = subprocess.run(argv, env=env, input=given, capture_output=True, text=True)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""


# Starts the command, and kills it half a second after that file has some content.
KILLED = """\
"$@" & until [ -s "$0" ]; do sleep 0.05; done; sleep 0.5; kill -KILL $!; wait $!
"""


class Conversation:
    """A stand-in for the client: a process in the project's root, and the hooks that it calls."""

    def __init__(self, project: Project, client: str = CLIENT) -> None:
        self.project, self.client = project, client
        self.process = subprocess.Popen(
            [sys.executable, "-c", STAND_IN],
            cwd=project.root,
            env=project.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def shell(self) -> dict[str, str]:
        """What the client gives to the shells that it runs."""
        return {
            "CLAUDECODE": "1",
            "CLAUDE_CODE_ENTRYPOINT": "cli",
            "CLAUDE_CODE_SESSION_ID": self.client,
            "CLAUDE_PID": str(self.pid),
        }

    def hook(self, event: str, env: Mapping[str, str] | None = None, **fields: Any) -> Any:
        """What `playbook hook` replies to this event; None where it says nothing."""
        payload = {"hook_event_name": event, "session_id": self.client}
        payload |= {"cwd": str(self.project.root), **fields}
        done = self.hears(json.dumps(payload), env)
        assert done.code == 0, done.err
        return done.json if done.out else None

    def hears(self, payload: str, env: Mapping[str, str] | None = None) -> Result:
        """`playbook hook` with any payload, as the client starts it."""
        around = self.shell | {"CLAUDE_PROJECT_DIR": str(self.project.root)} | dict(env or {})
        return self._run(*PROGRAM, "hook", given=payload, env=around)

    def types(self, command: str, args: str = "") -> Any:
        name = f"playbook.{command}"
        return self.hook("UserPromptExpansion", command_name=name, command_args=args)

    def works(self, attempt: str, skill: str, args: str = "", *, receipt: bool = True) -> Any:
        """An agent carries the attempt out; what the client is told when it comes back."""
        called: dict[str, Any] = {"tool_name": "Agent", "tool_use_id": f"use of {attempt}"}
        allowed = self.hook("PreToolUse", **called, tool_input={"prompt": attempt})
        given = allowed["hookSpecificOutput"]
        assert given["permissionDecision"] == "allow", given
        assert given["updatedInput"]["description"] == f"{attempt} /{skill}"
        assert not args or f"args `{args}`" in given["updatedInput"]["prompt"]
        ran: dict[str, Any] = {"tool_name": "Skill", "tool_response": {"success": True}}
        if receipt:
            named = {"skill": skill, "args": args}
            self.hook("PostToolUse", agent_id=attempt, tool_input=named, **ran)
        said = [{"type": "text", "text": f"{attempt} is done"}]
        back = {"status": "completed", "agentId": attempt, "content": said}
        return self.hook("PostToolUse", **called, tool_response=back)

    def runs(self, *argv: str, **env: str) -> Result:
        """A command as the model's shell runs it: with the client above it, and no terminal."""
        return self.starts(*PROGRAM, *argv, **{**self.shell, **env})

    def starts(self, *argv: str, **env: str) -> Result:
        """Any process that has the client as an ancestor, with an environment of its own."""
        return self._run(*argv, env=env)

    def kills(self, *argv: str, once: Path) -> Result:
        """The model's shell runs a command, which the client kills once that file is there."""
        return self.starts("sh", "-c", KILLED, str(once), *PROGRAM, *argv, **self.shell)

    def _run(self, *argv: str, env: Mapping[str, str], given: str = "") -> Result:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        job = [argv, {**self.project.environment, **env}, given]
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return Result(*json.loads(self.process.stdout.readline()))

    def dies(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait(120)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
