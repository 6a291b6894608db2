"""What the real client says in its stream, kept in tests/streams for tests that need no client.

    python tests/claude/streams.py          # records them anew, with the pinned client
    python tests/claude/streams.py limit    # only these

Each is the client's own output, line by line. Long lists that no test reads are left out, and the
scratch folders it ran in are called /project and /home.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support import isolation_guard
from support.scratch_project import Project

from claude.client import Client
from claude.conversation import OVERLOADED, Ended, Failure, Reply, Request, call, text
from claude.model import Model

FOLDER = Path(__file__).resolve().parent.parent / "streams"
RESET = 1_950_000_000
"""When a usage limit ends: a second in 2031."""
SUBSCRIBED = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-dummy", "ANTHROPIC_API_KEY": ""}
"""Only who has a subscription has a usage limit."""
AT_ONCE = {"CLAUDE_CODE_MAX_RETRIES": "0"}
"""The client tries nothing again by itself."""
_LONG = frozenset(
    {"agents", "capabilities", "mcp_servers", "memory_paths", "messaging_socket_path", "plugins"}
    | {"skills", "subagent_stats", "terminal_slash_commands", "tools"}
)
_OWN = ("agreement.", "bang", "feature.", "qa.", "speckit.")


def limit(reset: int) -> Failure:
    """How the model's server says that a subscription is used up until then."""
    return Failure(
        429,
        "rate_limit_error",
        headers={
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(reset),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
        },
    )


@dataclass(frozen=True)
class Scene:
    """What the model says, and how the client is called; `files` are the project's on top."""

    script: Callable[[Request], Reply]
    prompt: str = "/speckit.plan 013"
    args: tuple[str, ...] = ("--permission-mode", "acceptEdits")
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def _works(request: Request) -> Reply:
    if not request.calls:
        return [text("I write it."), call("Write", file_path="plan.md", content="plan\n")]
    return [text("The plan is written.\nAnd more.")]


def _tries(*calls: Any) -> Callable[[Request], Reply]:
    return lambda request: [text("I could not.")] if request.calls else list(calls)


def _fails_after_a_tool(request: Request) -> Reply:
    return OVERLOADED if request.calls else [call("Read", file_path="README.md")]


def _delegates(request: Request) -> Reply:
    if request.agent:
        return [text("done")] if request.calls else [call("Bash", command="npm test")]
    if request.calls:
        return [text(f"turn {request.number}")]
    told = {"description": "look", "prompt": "go", "subagent_type": "general-purpose"}
    return [call("Agent", run_in_background=True, **told)]


def _recovers(request: Request) -> Reply:
    return OVERLOADED if request.number == 1 else [text("fine")]


_REFUSING = {
    "permissions": {"deny": ["Bash(curl *)", "Edit(/secret/**)"]},
    "hooks": {"PreToolUse": [{"matcher": "Read", "hooks": [{"type": "command"}]}]},
}
_REFUSING["hooks"]["PreToolUse"][0]["hooks"][0]["command"] = "echo no >&2; exit 2"  # type: ignore[index]


def stopping(event: str) -> dict[str, str]:
    """Settings with a hook that ends the work when that happens."""
    said = json.dumps({"continue": False, "stopReason": "policy stop"})
    hook = {"type": "command", "command": f"echo '{said}'"}
    hooks = {event: [{"hooks": [hook]}]}
    return {".claude/settings.json": json.dumps({"hooks": hooks})}


FORKED = {
    ".claude/skills/forked/SKILL.md": (
        "---\nname: forked\ndescription: d\ncontext: fork\n---\nWrite out.txt.\n"
    )
}
"""A skill that runs in a context of its own."""


def writes(request: Request) -> Reply:
    """A model that writes one file."""
    if request.calls:
        return [text("It is written.")]
    return [call("Write", file_path="out.txt", content="x\n")]


SCENES: dict[str, Scene] = {
    "works": Scene(_works),
    "unknown-command": Scene(lambda request: [text("I see.")], prompt="/nosuch 013"),
    "denied": Scene(
        _tries(
            call("Bash", command="npm test -- --watch"),
            call("Write", file_path="/etc/x.md", content="x"),
            call("Write", file_path=".git/x.md", content="x"),
            call("WebFetch", url="https://example.org/a", prompt="x"),
        )
    ),
    "refused-by-the-project": Scene(
        _tries(
            call("Bash", command="curl x"),
            call("Write", file_path="secret/a", content="x"),
            call("Read", file_path="README.md"),
        ),
        files={".claude/settings.json": json.dumps(_REFUSING)},
    ),
    "plan-mode": Scene(
        _tries(call("Write", file_path="plan.md", content="x")), args=("--permission-mode=plan",)
    ),
    "command-that-fails": Scene(
        lambda request: [], prompt="/bang 013", files={".claude/commands/bang.md": "!`npm test`\n"}
    ),
    "turns": Scene(_works, args=("--max-turns=1",)),
    "dollars": Scene(
        _tries(call("Read", file_path="README.md")), args=("--max-budget-usd=0.000001",)
    ),
    "model-refuses": Scene(lambda request: [text("No."), Ended("refusal")]),
    "overloaded": Scene(lambda request: OVERLOADED, env=AT_ONCE),
    "overloaded-after-a-tool": Scene(_fails_after_a_tool, env=AT_ONCE),
    "overloaded-and-tried-again": Scene(_recovers),
    "logged-out": Scene(lambda request: Failure(401, "authentication_error"), env=AT_ONCE),
    "never-logged-in": Scene(lambda request: [], env={"ANTHROPIC_API_KEY": ""}),
    "unreachable": Scene(
        lambda request: [], env={**AT_ONCE, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    ),
    "limit": Scene(lambda request: limit(RESET), env=SUBSCRIBED),
    "background-agent": Scene(_delegates),
    "stopped-by-a-hook": Scene(_works, files=stopping("PostToolUse")),
    "stopped-at-its-end": Scene(_works, files=stopping("Stop")),
    "stopped-at-the-prompt": Scene(_works, files=stopping("UserPromptSubmit")),
    "forked": Scene(writes, prompt="/forked", files=FORKED),
    "forked-overloaded": Scene(lambda request: OVERLOADED, "/forked", env=AT_ONCE, files=FORKED),
    "output-limit": Scene(lambda request: [text("long"), Ended("max_tokens")]),
    "malformed": Scene(lambda request: [text("hm"), Ended("tool_use")]),
    "nothing": Scene(lambda request: []),
}


def record(scene: Scene, folder: Path) -> str:
    """The stream of a scene, played in a new project below `folder`."""
    home = folder / "home"
    home.mkdir()
    root = Project.found(folder / "project", FOLDER.parent.parent / "templates")
    project = Project(root, home)
    for path, content in scene.files.items():
        project.write(path, content)
    with Model(scene.script) as model, Client(project, model, env=dict(scene.env)) as client:
        events = client.run(scene.prompt, *scene.args).events
        places = {str(root): "/project", str(home): "/home", str(client.scratch): "/scratch"}
    said = "".join(f"{json.dumps(_shortened(event))}\n" for event in events)
    for place, name in places.items():
        said = said.replace(place, name)
    return said


def _shortened(event: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in event.items() if key not in _LONG}
    if "slash_commands" in kept:
        kept["slash_commands"] = [name for name in kept["slash_commands"] if name.startswith(_OWN)]
    return kept


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        environment = isolation_guard.clean_environment(Path(scratch))
        os.environ.clear()
        os.environ.update(environment)
        for name, scene in SCENES.items():
            if sys.argv[1:] and name not in sys.argv:
                continue
            folder = Path(scratch) / name
            folder.mkdir()
            (FOLDER / f"{name}.jsonl").write_text(record(scene, folder))


if __name__ == "__main__":
    main()
