"""Measures hooks and command templates: `python benchmarks/hooks.py`.

Each hook runs as the client calls it, through a shell with the installed line, alternating with
`python -c pass`. Figures are processor time. Tokens are estimated as words times 1.3.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

import sample

from playbook_supervisor.drivers.claude_code import binding, hook_script, settings
from playbook_supervisor.drivers.claude_code.binding import Binding
from playbook_supervisor.drivers.claude_code.marker import MARKER, SCRIPT
from playbook_supervisor.system.git import checkout

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
    "a round of calls is counted": {"hook_event_name": "PostToolBatch", "tool_calls": []},
    "the model would stop": {"hook_event_name": "Stop"},
    "a subagent stops": {"hook_event_name": "SubagentStop", "agent_id": "a1"},
    "a prompt is typed": {"hook_event_name": "UserPromptSubmit", "prompt": "How far is it?"},
    "a step is started": {
        "hook_event_name": "PreToolUse",
        "tool_name": "Agent",
        "tool_use_id": "t1",
        "tool_input": {"prompt": "s3#1", "description": "s3#1"},
    },
}
OPENS = {
    "the main thread is refused",
    "the model would stop",
    "a subagent stops",
    "a prompt is typed",
    "a step is started",
}
"""Hooks that open the session: a few for each step."""
LAUNCHER = """\
#!{python}
import sys
from playbook_supervisor.__main__ import program
if __name__ == '__main__':
    sys.argv[0] = sys.argv[0].removesuffix('.exe')
    sys.exit(program())
"""
"""As pip writes it. The launcher in this environment may be from an older installation."""


class Figures(NamedTuple):
    """Processor time of a hook in milliseconds and, like its bar, relative to `python -c pass`."""

    what: str
    ms: float
    ratio: float
    bar: float


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="playbook-bench-") as folder:
        for found in measured(Path(folder)):
            print(f"{found.what}: {found.ratio:.2f} × (bar: {found.bar:.2f} ×), {found.ms:.1f} ms")
    for file in sorted(TEMPLATES.glob("*.md")):
        print(f"{file.stem}: {round(len(file.read_text('utf-8').split()) * 1.3)} tokens")


def measured(folder: Path) -> Iterator[Figures]:
    """Figures for a project without a session, then for one that a conversation drives."""
    root, launcher = sample.repository(folder / "project"), folder / "playbook"
    script = root / SCRIPT
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_bytes(hook_script.shipped())
    launcher.write_text(LAUNCHER.format(python=sys.executable))
    launcher.chmod(0o755)
    yield _figures("no session is bound", CALLS["a worker writes a file"], root, 0.25)
    tree = sample.part_of_the_way(root, 3, 10)
    bound = Binding(tree.id, "c1", os.getpid())
    here = checkout.find(root)
    for what, payload in CALLS.items():
        binding.bind(here, tree.private, bound)
        marker = here.git_dir / MARKER
        _, *others = marker.read_text().splitlines(keepends=True)
        marker.write_text("".join([f"{launcher}\n", *others]))
        yield _figures(what, payload, root, 5.0 if what in OPENS else 2.0)


def _figures(what: str, payload: Mapping[str, object], root: Path, bar: float) -> Figures:
    line = str(settings.HOOKS[str(payload["hook_event_name"])][1]["command"])
    given = json.dumps({"session_id": "c1", "cwd": str(root), **payload}).encode()
    around = {**ENVIRONMENT, "CLAUDE_PID": str(os.getpid()), "CLAUDE_PROJECT_DIR": str(root)}
    hook, nothing = [], []
    _processor(["sh", "-c", line], given, around)
    for _ in range(ROUNDS):
        nothing.append(_processor(PASS, b"", ENVIRONMENT))
        hook.append(_processor(["sh", "-c", line], given, around))
    return Figures(what, median(hook), median(hook) / median(nothing), bar)


def _processor(argv: list[str] | tuple[str, ...], given: bytes, env: Mapping[str, str]) -> float:
    """Milliseconds of processor time of a whole process and all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, input=given, env=env, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


if __name__ == "__main__":
    main()
