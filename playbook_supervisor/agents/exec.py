"""Any other coding agent, as an argv: the prompt on stdin, the call in the environment, no shell.

A retry reads what is known of the attempt before it on stdin, after the prompt and an empty line.

Exit status 0 means success; stdout is the output.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from shutil import which

from playbook_supervisor.agents.process import launch
from playbook_supervisor.agents.protocol import Call, Running, resolve_path
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.project.settings.config import Config


def create(argument: str, config: Config, root: Path) -> ExecAgent:
    """`--agent "exec:./my-agent --flag"`: split by POSIX quoting. ArgumentError PB-ARG-AGENT."""
    del config
    try:
        argv = shlex.split(argument)
    except ValueError as error:
        raise ArgumentError(
            "PB-ARG-AGENT",
            f"cannot parse the command after exec: {error}",
            guidance="Close every quotation mark: --agent \"exec:my-agent 'one argument'\".",
        ) from error
    if not argv or not argv[0]:
        raise ArgumentError("PB-ARG-AGENT", "no program follows exec:")
    if os.sep in argv[0]:
        argv[0] = str(resolve_path(argv[0], root))
    return ExecAgent("exec", argv, root)


class ExecAgent:
    """A program that reads a prompt from stdin; a relative path starts at the repository's top."""

    def __init__(self, name: str, argv: Sequence[str], root: Path) -> None:
        program = str(root / argv[0]) if os.sep in argv[0] else argv[0]
        self.name = name
        self._argv = (program, *argv[1:])

    def available(self) -> str | None:
        program = self._argv[0]
        if which(program) is not None:
            return None
        wrong = "is not an executable file" if os.sep in program else "is not on PATH"
        return f"{printable(program)} {wrong}"

    def run(self, call: Call) -> Running:
        stdin = f"{call.prompt}\n\n{call.feedback}\n" if call.feedback else call.prompt
        return launch(self._argv, call, stdin.encode("utf-8", "replace"), name=self.name)
