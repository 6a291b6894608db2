"""Fires the installed hooks, as the client does, to see whether they work."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from shutil import which

from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.system.files import ensure_folder, write_atomically
from playbook_supervisor.system.processes import Completed, run

_TIMEOUT = 30.0  # seconds for each hook


def problem(root: Path, data: bytes) -> str:
    """What the installed hooks do wrong; empty if they pass, block and answer as they should.

    They run in a scratch folder, and in the repository with an event that changes no session.
    """
    guard = settings.command_of(data, "PreToolUse")
    with tempfile.TemporaryDirectory(prefix="playbook-doctor-") as scratch:
        folder = Path(scratch)
        idle = _fire(guard, folder, {"hook_event_name": "PreToolUse"})
        if idle.returncode or idle.stdout:
            return f"a hook interferes although no session is bound: {_output(idle)}"
        marker = folder / ".git" / settings.MARKER
        ensure_folder(marker.parent)
        write_atomically(marker, b"/nowhere/playbook\nnone\nnone\n", durable=False)
        lost = _fire(guard, folder, {"hook_event_name": "PreToolUse"}, path="/nowhere")
        if '"deny"' not in lost.stdout:
            return f"a tool may run although a bound session's program is gone: {_output(lost)}"
    event = {
        "hook_event_name": "UserPromptExpansion",
        "expansion_type": "slash_command",
        "command_name": "playbook.status",
        "command_args": "",
        "prompt": "/playbook.status",
        "session_id": "doctor",
        "cwd": str(root),
    }
    answered = _fire(settings.command_of(data, "UserPromptExpansion"), root, event)
    failed = answered.returncode or answered.stdout  # this command gets no reply
    return f"`playbook hook` fails: {_output(answered)}" if failed else ""


def _fire(command: str, root: Path, event: dict[str, str], path: str | None = None) -> Completed:
    env = {**os.environ, "CLAUDE_PROJECT_DIR": str(root), "CLAUDE_PID": "0"}  # of no client
    if path is not None:
        env["PATH"] = path
    argv = [which("sh") or "/bin/sh", "-c", command]
    return run(argv, cwd=root, env=env, stdin=json.dumps(event).encode(), timeout=_TIMEOUT)


def _output(done: Completed) -> str:
    refused = done.stdout.startswith('{"decision"')
    text = done.stderr or (json.loads(done.stdout)["reason"] if refused else done.stdout)
    return first_line(text) or f"exit status {done.returncode}"
