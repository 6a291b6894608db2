"""Sees every hook that the client runs, and answers by a table.

    recorder = Recorder(folder)
    recorder.answer("PreToolUse", deny("not now"), tool="Agent")
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
from collections.abc import Mapping
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
import fcntl, json, re, sys
from pathlib import Path

payload = json.load(sys.stdin)
folder = Path(__file__).parent
with (folder / "events.jsonl").open("a+") as log:
    fcntl.flock(log, fcntl.LOCK_EX)
    log.seek(0)
    used = [json.loads(line)["rule"] for line in log]
    for number, rule in enumerate(json.loads((folder / "answers.json").read_text())):
        if rule["event"] != payload["hook_event_name"]:
            continue
        if not re.fullmatch(rule["tool"], payload.get("tool_name", "")):
            continue
        if not re.search(rule["saying"], json.dumps(payload, ensure_ascii=False)):
            continue
        if rule["times"] is None or used.count(number) < rule["times"]:
            break
    else:
        number, rule = None, None
    log.write(json.dumps({"rule": number, "payload": payload}) + "\\n")
if rule:
    sys.stdout.write(rule["out"])
    sys.stderr.write(rule["err"])
    sys.exit(rule["exit"])
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
        self._rules: list[dict[str, Any]] = []
        self._write_rules()
        self._log.touch()
        command = f"'{sys.executable}' -I -S '{script}'"
        hook = {"type": "command", "command": command, "timeout": 60}
        self.hooks = {name: [{"matcher": "*", "hooks": [hook]}] for name in self.events_seen}
        self.settings = self.folder / "settings.json"
        self.settings.write_text(json.dumps({"hooks": self.hooks}))

    def allow(self, *rules: str, **settings: Any) -> None:
        """Also give permission rules, and further settings, by the same file."""
        data = json.loads(self.settings.read_text())
        data.setdefault("permissions", {}).setdefault("allow", []).extend(rules)
        self.settings.write_text(json.dumps(data | settings))

    def answer(
        self,
        event: str,
        reply: Mapping[str, Any] | str = "",
        *,
        tool: str = ".*",
        saying: str = "",
        times: int | None = None,
        exit: int = 0,  # noqa: A002
        err: str = "",
    ) -> None:
        """From now on answer `event` (of this tool, with a payload matching `saying`) so.

        The first rule that applies answers; one with `times` applies so often at most.
        """
        out = reply if isinstance(reply, str) else json.dumps(reply)
        self._rules.append(
            {"event": event, "tool": tool, "saying": saying, "times": times}
            | {"out": out, "err": err, "exit": exit}
        )
        self._write_rules()

    def forget(self) -> None:
        """Answer nothing any more."""
        self._rules.clear()
        self._write_rules()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The input of every hook so far, in order."""
        lines = self._log.read_text().splitlines(keepends=True)
        return [json.loads(line)["payload"] for line in lines if line.endswith("\n")]

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

    def _write_rules(self) -> None:
        new = self.folder / "answers.new"
        new.write_text(json.dumps(self._rules))
        new.replace(self.folder / "answers.json")


def specific(event: str, **fields: Any) -> dict[str, Any]:
    """`hookSpecificOutput`, as most events want it."""
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def deny(reason: str) -> dict[str, Any]:
    return specific("PreToolUse", permissionDecision="deny", permissionDecisionReason=reason)


def allow(**fields: Any) -> dict[str, Any]:
    return specific("PreToolUse", permissionDecision="allow", **fields)


def ask(reason: str = "", **fields: Any) -> dict[str, Any]:
    return specific(
        "PreToolUse", permissionDecision="ask", permissionDecisionReason=reason, **fields
    )


def block(reason: str) -> dict[str, Any]:
    """For Stop, UserPromptSubmit, UserPromptExpansion, ConfigChange."""
    return {"decision": "block", "reason": reason}
