"""The hooks of a conversation without the client: payloads in, replies out, in this process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from playbook_supervisor.drivers.claude_code import binding, fast_path
from playbook_supervisor.drivers.claude_code.binding import Binding
from playbook_supervisor.drivers.claude_code.hooks import handle
from playbook_supervisor.system.git import checkout
from support.scratch_project import Project

HANDED_IN = """\
name: handed-in
description: A step whose condition asks the forge
version: "1.0"
args: []
steps:
  - id: pr
    command: /feature.pr
    autonomy: auto
    postconditions: [pr_created]
    error_policy: stop
"""


class Hooked:
    """A conversation whose client is the process that started this one.

    Where a hook says nothing, the reply is None, and what a test expects of it fails there.
    """

    def __init__(self, project: Project, client: str = "conversation") -> None:
        self.project, self.client = project, client
        self.environment = {
            "CLAUDE_PROJECT_DIR": str(project.root),
            "CLAUDE_CODE_ENTRYPOINT": "cli",
            "CLAUDE_PID": str(os.getppid()),
        }
        self._lines = 0
        self.transcript = project.root.parent / f"{client}.jsonl"

    def __call__(self, event: str, **fields: Any) -> Any:
        payload = {
            "hook_event_name": event,
            "session_id": self.client,
            "cwd": str(self.project.root),
            "transcript_path": str(self.transcript),
        }
        return handle(payload | fields, self.environment)

    # ── what a person does ──────────────────────────────────────────────────────────────────

    def says(self, prompt: str) -> Any:
        return self("UserPromptSubmit", prompt=prompt)

    def types(self, line: str) -> Any:
        """`types("/playbook.run two 013")`: both hooks, as the client calls them."""
        self.says(line)
        name, _, args = line.removeprefix("/").partition(" ")
        reply = self("UserPromptExpansion", command_name=name, command_args=args, prompt=line)
        assert reply is not None
        return reply

    def presses_escape(self, words: str = "[Request interrupted by user]") -> None:
        self.writes("user", [{"type": "text", "text": words}])

    def writes(self, kind: str, content: Any, **more: Any) -> None:
        self._lines += 1
        line: dict[str, Any] = {"type": kind, "isSidechain": False, "message": {"content": content}}
        line |= {"uuid": f"line {self._lines}"} | more
        with self.transcript.open("a") as transcript:
            transcript.write(json.dumps(line, separators=(",", ":")) + "\n")

    # ── what a model does ───────────────────────────────────────────────────────────────────

    def calls(self, tool: str, **given: Any) -> Any:
        use = str(given.get("prompt", tool))
        return self("PreToolUse", tool_name=tool, tool_input=given, tool_use_id=f"use of {use}")

    def launches(self, attempt: str, *, agent: str = "") -> Any:
        """Let the agent of an attempt go to work in the background."""
        reply = self.calls("Agent", description=attempt, prompt=attempt)
        response = {"status": "async_launched", "agentId": agent or f"agent of {attempt}"}
        self.returned(attempt, **response, resolvedModel="claude-x")
        return reply

    def returned(self, attempt: str, **response: Any) -> Any:
        """What the call of an attempt's agent returns."""
        return self(
            "PostToolUse",
            tool_name="Agent",
            tool_use_id=f"use of {attempt}",
            tool_response=response,
        )

    def ran(self, attempt: str, skill: str, args: str = "") -> None:
        self(
            "PostToolUse",
            agent_id=f"agent of {attempt}",
            tool_name="Skill",
            tool_input={"skill": skill, "args": args},
            tool_response={"success": True},
        )

    def ended(self, attempt: str, said: str = "done", **more: str) -> Any:
        """The notification that the attempt's agent has come to its end."""
        return self.says(self.notice(attempt, said, **more))

    def notice(self, attempt: str, said: str = "done", **more: str) -> str:
        """That notification as the client writes it."""
        fields = {"task-id": f"agent of {attempt}", "status": "completed", "note": "", **more}
        fields |= {"result": said, "usage": "<tool_uses>2</tool_uses>"}
        inner = "\n".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
        return f"<task-notification>\n{inner}\n</task-notification>"

    def queues(self, prompt: str) -> None:
        """The client writes down that this prompt waits until the turn is over."""
        self._writes_queue(operation="enqueue", content=prompt)

    def takes_from_queue(self) -> None:
        """The client writes down that the first one no longer waits."""
        self._writes_queue(operation="dequeue")

    def _writes_queue(self, **line: str) -> None:
        with self.transcript.open("a") as transcript:
            line = {"type": "queue-operation", **line}
            transcript.write(json.dumps(line, separators=(",", ":")) + "\n")

    def does(self, attempt: str, skill: str, path: str = "", args: str = "") -> Any:
        """All of it: launch, the command, what it writes, the end."""
        self.launches(attempt)
        self.ran(attempt, skill, args)
        if path:
            self.project.write(path, "x\n")
        return self.ended(attempt)

    def asks(self, times: int = 1, *, agent: str = "") -> Any:
        """So many rounds of calls, of which no other hook need have told; the last reply."""
        reply = None
        for _ in range(times):
            given = {
                "hook_event_name": "PostToolBatch",
                "session_id": self.client,
                "tool_calls": [],
            }
            given |= {"cwd": str(self.project.root)} | ({"agent_id": agent} if agent else {})
            passed = fast_path.at_once(given, self.environment)
            reply = None if passed else handle(given, self.environment)
        return reply

    def stops(self, *tasks: str) -> Any:
        return self("Stop", background_tasks=[{"id": task} for task in tasks])

    # ── what is known ───────────────────────────────────────────────────────────────────────

    @property
    def private(self) -> Path:
        return self.private_of(self.project.session.name)

    def private_of(self, session: str) -> Path:
        return checkout.find(self.project.root).runtime / session

    @property
    def bound(self) -> Binding:
        found = binding.load(self.private)
        assert found is not None
        return found

    @property
    def steps(self) -> list[str]:
        """Each entry as `attempt status`."""
        return [
            f"{entry['step_id']}#{entry.get('attempt', 1)} {entry['status']}"
            for entry in self.project.journal()
        ]
