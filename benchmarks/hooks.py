"""What hooks and templates cost: `python benchmarks/hooks.py`, after `make test` has installed all.

A hook is measured as the client calls it, a shell with the installed line, in turn with
`python -c pass`, as processor time. Tokens are words times 1.3, which is near enough for prose.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import sample

from playbook_supervisor import checkout
from playbook_supervisor.drivers.claude_code import binding, settings
from playbook_supervisor.drivers.claude_code.binding import Binding

ROUNDS = 31
TEMPLATES = Path(__file__).resolve().parent.parent / "templates" / "commands"
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
PASS = (sys.executable, "-c", "pass")

WORKER = {"hook_event_name": "PreToolUse", "agent_id": "a1", "tool_name": "Write"}
CALLS: Mapping[str, dict[str, object]] = {
    "a worker writes a file": {**WORKER, "tool_input": {"file_path": "x", "content": "y" * 4000}},
    "a worker runs a command": {**WORKER, "tool_name": "Bash", "tool_input": {"command": "make"}},
    "the main thread reads": {
        "hook_event_name": "PreToolUse",
        "tool_name": "Read",
        "tool_input": {"file_path": "x"},
    },
    "the main thread is refused": {
        "hook_event_name": "PreToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": "x", "content": "y"},
    },
    "the model would stop": {"hook_event_name": "Stop"},
    "a subagent stops": {"hook_event_name": "SubagentStop", "agent_id": "a1"},
}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="playbook-bench-") as folder:
        root = sample.repository(Path(folder) / "project")
        _say("no session is bound", "PreToolUse", CALLS["a worker writes a file"], root, 0.25)
        supervisor = sample.part_of_the_way(root, 3, 10)
        bound = Binding(supervisor.id, "c1", os.getpid())
        for what, payload in CALLS.items():
            binding.bind(checkout.find(root), supervisor.private, bound)
            bar = 2.0 if payload.get("agent_id") and "tool_name" in payload else None
            _say(what, str(payload["hook_event_name"]), payload, root, bar)
    for file in sorted(TEMPLATES.glob("*.md")):
        print(f"{file.stem}: {round(len(file.read_text('utf-8').split()) * 1.3)} tokens")


def _say(
    what: str, event: str, payload: Mapping[str, object], root: Path, bar: float | None
) -> None:
    line = str(settings.HOOKS[event][1]["command"])
    given = json.dumps({"session_id": "c1", "cwd": str(root), **payload}).encode()
    around = {**ENVIRONMENT, "CLAUDE_PID": str(os.getpid()), "CLAUDE_PROJECT_DIR": str(root)}
    hook, nothing = [], []
    _processor(["sh", "-c", line], given, around)
    for _ in range(ROUNDS):
        nothing.append(_processor(PASS, b"", ENVIRONMENT))
        hook.append(_processor(["sh", "-c", line], given, around))
    ratio = median(hook) / median(nothing)
    wanted = f" (bar: {bar:.2f} ×)" if bar else ""
    print(f"{what}: {ratio:.2f} ×{wanted}, {median(hook):.1f} ms", flush=True)


def _processor(argv: list[str] | tuple[str, ...], given: bytes, env: Mapping[str, str]) -> float:
    """Milliseconds of processor time of a whole process and all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, input=given, env=env, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


if __name__ == "__main__":
    main()
