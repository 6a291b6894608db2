"""Any other coding agent, as an argv: the prompt on stdin, the call in the environment, no shell.

A retry reads what is known of the attempt before it on stdin, after the prompt and an empty line.

Exit status 0 means success; stdout is the output.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.agents.process import launch
from playbook_supervisor.agents.protocol import Call, Running, argv_of, missing_program
from playbook_supervisor.project.settings.config import Config


def create(argument: str, config: Config, root: Path) -> ExecAgent:
    """`--agent "exec:./my-agent --flag"`: split by POSIX quoting. ArgumentError PB-ARG-AGENT."""
    del config
    return ExecAgent("exec", argv_of("exec", argument, root), root)


class ExecAgent:
    """A program that reads a prompt from stdin; a relative path starts at the repository's top."""

    def __init__(self, name: str, argv: Sequence[str], root: Path) -> None:
        program = str(root / argv[0]) if os.sep in argv[0] else argv[0]
        self.name = name
        self._argv = (program, *argv[1:])

    def available(self) -> str | None:
        return missing_program(self._argv[0])

    def run(self, call: Call) -> Running:
        stdin = f"{call.prompt}\n\n{call.feedback}\n" if call.feedback else call.prompt
        return launch(self._argv, call, stdin.encode("utf-8", "replace"), name=self.name)
