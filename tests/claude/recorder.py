"""Sees every hook that the client runs.

    recorder = Recorder(folder)
    client = Client(project, model, settings=recorder.settings)
    ...
    recorder.of("PostToolUse", tool="Skill")

Its hooks come by `--settings`, beside those that the project installs.
"""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVENTS = (
    "ConfigChange",
    "Notification",
    "PermissionRequest",
    "PostCompact",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "PreToolUse",
    "SessionEnd",
    "SessionStart",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "UserPromptExpansion",
    "UserPromptSubmit",
)

SCRIPT = """\
import fcntl, json, sys
from pathlib import Path

payload = json.load(sys.stdin)
with Path(__file__).with_name("events.jsonl").open("a") as log:
    fcntl.flock(log, fcntl.LOCK_EX)
    log.write(json.dumps(payload) + "\\n")
"""


@dataclass
class Recorder:
    """`folder` is new and outside the project."""

    folder: Path
    events_seen: tuple[str, ...] = EVENTS

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        script = self.folder / "record.py"
        script.write_text(SCRIPT)
        self._log.touch()
        command = f"'{sys.executable}' -I -S '{script}'"
        hook = {"type": "command", "command": command, "timeout": 60}
        self.hooks = {name: [{"matcher": "*", "hooks": [hook]}] for name in self.events_seen}
        self.settings = self.folder / "settings.json"
        self.settings.write_text(json.dumps({"hooks": self.hooks}))

    @property
    def events(self) -> list[dict[str, Any]]:
        """The input of every hook so far, in order."""
        lines = self._log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def names(self) -> list[str]:
        return [event["hook_event_name"] for event in self.events]

    def of(self, event: str, *, tool: str | None = None) -> list[dict[str, Any]]:
        return [
            seen
            for seen in self.events
            if seen["hook_event_name"] == event and tool in (None, seen.get("tool_name"))
        ]

    def wait_for(
        self, event: str, *, saying: str = "", count: int = 1, timeout: float = 60
    ) -> dict[str, Any]:
        """The first such event (or the `count`th), already there or to come.

        `saying` is a pattern to be found in its payload.
        """
        deadline = time.monotonic() + timeout
        while True:
            found = [
                seen
                for seen in self.of(event)
                if re.search(saying, json.dumps(seen, ensure_ascii=False))
            ]
            if len(found) >= count:
                return found[count - 1]
            assert time.monotonic() < deadline, f"no such {event} in {timeout} s: {self.names}"
            time.sleep(0.05)

    @property
    def _log(self) -> Path:
        return self.folder / "events.jsonl"
