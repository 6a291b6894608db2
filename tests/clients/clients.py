"""Each client as data: what points it at the model, where its commands lie, and how it names tools.

    with everyones(script) as model, seated("copilot", project, model): project.playbook("run", …)

Nothing of it reaches a network: a scratch home, dummy keys, and the model's private loopback.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from claude.client import kill, living, system_programs
from claude.conversation import Call, call
from claude.model import Model
from support.scratch_project import Project

from clients import installed

MARK = "PLAYBOOK_TESTS_CLIENT"
"""In the environment of everything that a client starts."""


@dataclass(frozen=True)
class Kind:
    """One client. In `env` and `files`, $URL is the model's, $ROOT the project's folder and $PLACE
    the client's.

    `command` is the file of a command in the project, $NAME its name, $SKILL the same with dashes.
    `write_tool` and `shell_tool` are the tools' names and their arguments'; `more` goes to the
    shell, too, and `asking` makes a client with a sandbox of its own ask before it runs something.
    """

    command: str
    write_tool: tuple[str, str, str]
    shell_tool: tuple[str, str]
    more: Mapping[str, object] = field(default_factory=dict)
    asking: Mapping[str, object] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def writes_by_shell(self) -> bool:
        return self.write_tool[0] == self.shell_tool[0]

    def writes(self, path: Path, content: str) -> Call:
        """The call that writes a file."""
        tool, where, what = self.write_tool
        if self.writes_by_shell:
            return self.prints(path, content)
        return call(tool, **{where: str(path), what: content})

    def prints(self, path: Path, content: str) -> Call:
        """The call that writes a file by the shell: some tools only make new ones."""
        folder, file = (shlex.quote(str(each)) for each in (path.parent, path))
        return self.runs(f"mkdir -p {folder}; printf %s {shlex.quote(content)} > {file}")

    def runs(self, line: str, *, asking: bool = False) -> Call:
        """The call that runs a command line."""
        tool, what = self.shell_tool
        return call(tool, **{what: line, **self.more, **(self.asking if asking else {})})


_SKILL = ".agents/skills/$SKILL/SKILL.md"
_OFF = {"disableAutoUpdate": True}
_QUIET = {"privacy": {"usageStatisticsEnabled": False}, "general": _OFF}
_UNTRUSTING = {"folderTrust": {"enabled": False}}
_OPENCODE = {
    "model": "s/m",
    "small_model": "s/m",
    "autoupdate": False,
    "share": "disabled",
    "provider": {
        "s": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "$URL/v1", "apiKey": "dummy"},
            "models": {"m": {"tool_call": True, "limit": {"context": 100_000, "output": 8_000}}},
        }
    },
}

KINDS: Mapping[str, Kind] = {
    "codex": Kind(
        command=_SKILL,
        write_tool=("exec_command", "", ""),
        shell_tool=("exec_command", "cmd"),
        asking={"sandbox_permissions": "require_escalated", "justification": "?"},
        env={"DUMMY": "dummy", "CODEX_HOME": "$PLACE/codex"},  # its sandbox hides /dev/shm
        files={
            "$PLACE/codex/config.toml": 'model = "gpt-5"\nmodel_provider = "s"\n'
            '[model_providers.s]\nname = "s"\nbase_url = "$URL/v1"\nwire_api = "responses"\n'
            'env_key = "DUMMY"\n'
            '[projects."$ROOT"]\ntrust_level = "trusted"\n'
        },
    ),
    "copilot": Kind(
        command=_SKILL,
        write_tool=("create", "path", "file_text"),
        shell_tool=("bash", "command"),
        more={"description": "d"},
        env={
            "COPILOT_PROVIDER_BASE_URL": "$URL/v1",
            "COPILOT_PROVIDER_API_KEY": "dummy",
            "COPILOT_OFFLINE": "true",
            "COPILOT_MODEL": "gpt-5",
        },
    ),
    "kimi": Kind(
        command=_SKILL,
        write_tool=("Write", "path", "content"),
        shell_tool=("Bash", "command"),
        files={
            ".kimi-code/config.toml": 'default_model = "s/m"\ntelemetry = false\n[providers.s]\n'
            'type = "openai"\nbase_url = "$URL/v1"\napi_key = "dummy"\n[models."s/m"]\n'
            'provider = "s"\nmodel = "m"\nmax_context_size = 100000\ncapabilities = ["tool_use"]\n'
        },
    ),
    "gemini": Kind(
        command=".gemini/commands/$NAME.toml",
        write_tool=("write_file", "file_path", "content"),
        shell_tool=("run_shell_command", "command"),
        env={
            "GEMINI_API_KEY": "dummy",
            "GEMINI_MODEL": "gemini-2.5-pro",  # else another model chooses one
            "GOOGLE_GEMINI_BASE_URL": "$URL",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        files={
            ".gemini/settings.json": json.dumps(
                {"security": {"auth": {"selectedType": "gemini-api-key"}, **_UNTRUSTING}, **_QUIET}
            )
        },
    ),
    "opencode": Kind(
        command=".opencode/commands/$NAME.md",
        write_tool=("write", "filePath", "content"),
        shell_tool=("bash", "command"),
        env={
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        },
        files={".config/opencode/opencode.json": json.dumps(_OPENCODE)},
    ),
    "qwen": Kind(
        command=".qwen/commands/$NAME.md",
        write_tool=("write_file", "file_path", "content"),
        shell_tool=("run_shell_command", "command"),
        more={"is_background": False},
        env={"OPENAI_BASE_URL": "$URL/v1", "OPENAI_API_KEY": "dummy", "OPENAI_MODEL": "m"},
        files={
            ".qwen/settings.json": json.dumps(
                {"security": {"auth": {"selectedType": "openai"}, **_UNTRUSTING}, **_QUIET}
            )
        },
    ),
    "vibe": Kind(
        command=_SKILL,
        write_tool=("write_file", "path", "content"),
        shell_tool=("bash", "command"),
        env={"DUMMY": "dummy"},
        files={
            ".vibe/config.toml": 'active_model = "m"\nenable_telemetry = false\n'
            "enable_update_checks = false\nenable_auto_update = false\n[[providers]]\n"
            'name = "s"\napi_base = "$URL/v1"\napi_key_env_var = "DUMMY"\napi_style = "openai"\n'
            'backend = "generic"\n[[models]]\nname = "m"\nprovider = "s"\nalias = "m"\n'
            "input_price = 1.0\noutput_price = 2.0\n",
            ".vibe/trusted_folders.toml": 'trusted = ["$ROOT"]\nuntrusted = []\n',
        },
    ),
}


def command_file(name: str, command: str) -> tuple[str, str]:
    """Where a client's command lies in the project, and its text."""
    path = KINDS[name].command.replace("$NAME", command)
    text = f"Do what {command} means.\n\n"
    if path.endswith(".toml"):
        return path, f'description = "d"\nprompt = """{text}{{{{args}}}}"""\n'
    skill = command.replace(".", "-")
    front = f"---\nname: {skill}\ndescription: d\n---\n"
    return path.replace("$SKILL", skill), f"{front}{text}$ARGUMENTS\n"


@contextmanager
def seated(project: Project, model: Model, *names: str) -> Iterator[Seat]:
    """Put these clients on the project's PATH, with this model behind them."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="client-"))).resolve()
        seat = Seat(place, project)
        stack.callback(seat.kill)
        (place / "bin").mkdir()
        (place / "tmp").mkdir()
        programs = os.pathsep.join(map(str, (place / "bin", *installed.path(), *system_programs())))
        asked = project.environment["PATH"].replace(os.environ["PATH"], "")
        project.env |= {"PATH": asked + programs, "TMPDIR": str(place / "tmp"), MARK: str(place)}
        project.env |= {"LANG": "C.UTF-8", "NO_COLOR": "1", "SHELL": "/bin/sh"}
        for name in names:
            program = installed.program(name)
            assert program, f"{name} is not installed"
            start = shlex.join([*model.network.enter, str(program)])
            made = place / "bin" / program.name
            made.write_text(f'#!/bin/sh\nexec {start} "$@"\n')
            made.chmod(0o755)
            kind = KINDS[name]
            meant = {"$URL": model.url, "$ROOT": str(project.root.resolve()), "$PLACE": str(place)}
            project.env |= {key: _filled(text, meant) for key, text in kind.env.items()}
            for path, text in kind.files.items():
                file = project.home / _filled(path, meant)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(_filled(text, meant))
        yield seat


def _filled(text: str, meant: Mapping[str, str]) -> str:
    for name, value in meant.items():
        text = text.replace(name, value)
    return text


@dataclass
class Seat:
    """Clients in the place of people: what lives of them, and an end to it."""

    place: Path
    project: Project

    @property
    def mark(self) -> str:
        return f"{MARK}={self.place}"

    def processes(self) -> list[int]:
        """The ids of everything that carries the mark and lives."""
        return living(self.mark)

    def kill(self) -> None:
        kill(self.mark)

    def described(self) -> list[str]:
        """The command lines of what lives."""
        files = (Path(f"/proc/{pid}/cmdline") for pid in self.processes())
        return [file.read_bytes().decode().replace("\0", " ") for file in files if file.exists()]
