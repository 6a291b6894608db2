"""The documents as data: their fenced blocks, and a scratch project in which they are carried out.

What follows the language of a fence says what is done with the block:

    ```console               each `$ command` is run; what it prints is compared
    ```yaml playbook         must be a playbook without faults
    ```yaml session          must be readable as that file: session, journal, config or index
    ```python                is run, and must end well
    ```text verdict          must be read as PASS; `verdicts`: each line
    ```text answers          each line must be taken for `continue`
    ```text                  is shown and nothing else; `sh`, `sql` and `mermaid` likewise
    … file=PATH              is also written to PATH, for the blocks that follow

A document tells one story: its blocks share one project, from top to bottom. Times, durations,
ids and runs of blanks are compared as such; `…` stands for anything, alone on a line for any lines.

Write what is really printed into the document:

    python tests/support/document_examples.py README.md
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.commands.install import shipped
from support import in_process
from support.scratch_project import Project

REPOSITORY = Path(__file__).resolve().parents[2]
TEMPLATES = REPOSITORY / "templates"
SHOWN_ONLY = frozenset({"text", "sh", "sql", "mermaid"})
ANY_LINES = "…"

_FENCE = re.compile(r"^(```+)([^`\n]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_PLAIN = re.compile(r"playbook [^$`&|;<>()*?~\n]*\Z")
"""What needs no shell."""
_WORKER = re.compile(r"playbook fleet worker\b")
"""What needs a process of its own."""
_ANSWER = re.compile(r"playbook (answer|abort)\b")
_THOUGHT = 0.15
"""Seconds before an answer: a summary does not mention a wait at gates of less than 0.1 s."""
_VARIABLE = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "TIME"),
    (re.compile(r"^\d\d:\d\d:\d\d ", re.MULTILINE), "TIME "),
    (re.compile(r"\b\d{8}-[a-z0-9]{3}\b"), "SESSION"),
    (re.compile(r"(?<=duration_seconds: )\d+(?:\.\d+)?"), "NUMBER"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b"), "HASH"),  # 573693d is no days
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|min|h|d)\b(?: \d+ (?:s|min|h)\b)?"), "DURATION"),
    (re.compile(r"(?<=\S)[ ]{2,}"), " "),
)

AGENT = """\
#!{python}
# Stands in for Claude Code, or for any coding agent that is given a prompt on stdin: it does what
# the script of the embedded agent says.
import json, os, sys
from pathlib import Path
from playbook_supervisor.agents.protocol import Call, carry_out
from playbook_supervisor.agents.script import create
from playbook_supervisor.project.settings.config import Config

told = {{key: os.environ["PLAYBOOK_" + key.upper()] for key in
        ("session", "directive", "step", "command", "args", "feature")}}
attempt = int(told["directive"].rpartition("#")[2])
streams = "--output-format=stream-json" in sys.argv
prompt = sys.argv[-1] if streams else sys.stdin.read()
call = Call(**told, attempt=attempt, prompt=prompt, cwd=Path.cwd())

def tell(line, **event):
    print(json.dumps(event) if streams else line)

def say(line):
    content = [{{"type": "text", "text": line}}]
    message = {{"id": line, "model": "claude-opus-5-5", "content": content}}
    tell(line, type="assistant", message=message)

commands = [told["command"].removeprefix("/")]
if streams:
    tell("", type="system", subtype="init", session_id="3f2c", slash_commands=commands)
outcome = carry_out(create("{script}", Config(), Path.cwd()), call, say)
error = outcome.error.message if outcome.error else ""
if not told["command"].startswith("/"):
    say("First to the team, then to one in ten, then to all.")
if streams:
    used = {{"inputTokens": 21000, "outputTokens": 1800}}
    tell(
        "", type="result", subtype="error_during_execution" if error else "success",
        is_error=bool(error), num_turns=4, result=error or outcome.output,
        total_cost_usd=0.12, modelUsage={{"claude-opus-5-5": used}},
    )
if error:
    sys.exit(error)
"""

CONFIG = "agent: headless\nagents:\n  headless:\n    exec: [claude, -p]\n"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words behind it, its text, and where it stands."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int
    span: tuple[int, int]

    @property
    def file(self) -> str:
        """The path behind `file=`, or empty."""
        return next((w.removeprefix("file=") for w in self.words if w.startswith("file=")), "")

    @property
    def kind(self) -> str:
        """The word that is not `file=`, or empty."""
        return next((word for word in self.words if not word.startswith("file=")), "")


def blocks(text: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        language, *words = found[2].split() or [""]
        line = text.count("\n", 0, found.start()) + 1
        yield Block(language, tuple(words), found[3], line, found.span(3))


def prompts(transcript: str) -> Iterator[tuple[str, str]]:
    """(command, output) of a console block; a command continues where its line ends in a `\\`."""
    command, output = "", ""
    for line in transcript.splitlines(keepends=True):
        if command.endswith("\\\n"):
            command += line.removeprefix("> ")
        elif line.startswith("$ "):
            if command:
                yield command.rstrip("\n"), output
            command, output = line.removeprefix("$ "), ""
        else:
            output += line
    if command:
        yield command.rstrip("\n"), output


def alike(shown: str, printed: str) -> bool:
    """Whether a document shows what was printed, but for what is never twice the same."""
    pattern = "".join(
        "(?:.*\n)*?" if line.strip() == ANY_LINES else f"{_line(line)}\n"
        for line in timeless(shown).splitlines()
    )
    return re.fullmatch(pattern, f"{timeless(printed)}\n" if printed.strip() else "") is not None


def _line(shown: str) -> str:
    return ".*".join(re.escape(piece) for piece in shown.split(ANY_LINES))


def timeless(text: str) -> str:
    """The text with a word for each time, duration, id and hash."""
    for pattern, name in _VARIABLE:
        text = pattern.sub(name, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


class Stage:
    """A scratch project in which a document's commands are typed, without a terminal.

    On PATH: `playbook` itself, an agent called `claude` and a `gh` that know the story of the
    demonstration. The project has playbooks and names that agent. A `bare` one has only
    spec-kit's commands, a `fresh` one a file and no more. In a `quick` one the agent does not take
    the time that the story says.
    """

    def __init__(
        self, project: Project, *, bare: bool = False, fresh: bool = False, quick: bool = False
    ) -> None:
        self.project = project
        tools = project.root.with_name("tools")
        tools.mkdir()
        script = TEMPLATES / "demo/script.yaml"
        if quick:
            story = re.sub(r"(?m)^ *seconds: .*\n", "", script.read_text("utf-8"))
            script = tools / "script.yaml"
            script.write_text(story, "utf-8")
        self._program(tools / "playbook", f'exec "{sys.executable}" -m playbook_supervisor "$@"')
        (tools / "claude").write_text(AGENT.format(python=sys.executable, script=script))
        (tools / "claude").chmod(0o755)
        path = os.pathsep.join([str(tools), str(TEMPLATES / "demo/bin"), os.environ["PATH"]])
        project.env |= {"PATH": path, "COLUMNS": "96"}
        if fresh:
            project.git("rm", "-r", "-q", ".")
            project.write("README.md", "# Widgets\n")
            project.commit("Begin")
            return
        project.write(".gitignore", ".demo/\n")
        if bare:
            beyond = [f".claude/commands/{name}.md" for name in shipped.FEATURE_COMMANDS]
            project.git("rm", "-r", "-q", ".playbooks", *beyond)
        else:
            project.write(".playbooks/config.yaml", CONFIG)
            feature = (TEMPLATES / "playbooks/auto-feature.yaml").read_text("utf-8")
            project.write(".playbooks/playbooks/auto-feature.yaml", feature)
        project.commit("Prepare")

    def type(self, command: str) -> str:
        """What the terminal shows, both streams in the order in which they were written.

        A command that needs no shell is run in this process.
        """
        if _ANSWER.search(command):
            time.sleep(_THOUGHT)
        plain = _PLAIN.match(command) and not _WORKER.match(command)
        printed = self._ours(command) if plain else self._in_a_shell(command)
        for folder, name in ((self.project.root, "~/project"), (self.project.home, "~")):
            printed = printed.replace(str(folder), name)
        return printed

    def _ours(self, command: str) -> str:
        argv, env = shlex.split(command)[1:], self.project.environment
        return in_process.run(argv, cwd=self.project.root, env=env, merged=True).out

    def _in_a_shell(self, command: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.project.root,
            env=self.project.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            timeout=120,
            check=False,
        )
        return done.stdout.decode()

    def run(self, code: str) -> str:
        """What a piece of Python prints; a failing one says why."""
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.project.root,
            env=self.project.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stderr if done.returncode else ""

    @staticmethod
    def _program(file: Path, line: str) -> None:
        file.write_text(f"#!/bin/sh\n{line}\n")
        file.chmod(0o755)


def rewritten(text: str, stage: Stage) -> str:
    """The document with what its commands really print, if anywhere it shows something else.

    Then all of it is new, so that its times tell one story; only what is cut short by `…` stays.
    """
    found = list(blocks(text))
    played = [_played(block, stage) for block in found]
    if all(alike(shown, printed) for block in played for _, shown, printed in block):
        return text
    for block, commands in reversed(list(zip(found, played, strict=True))):
        if commands:
            told = "\n\n".join(
                f"$ {command}\n{_kept(*both)}".strip() for command, *both in commands
            )
            text = f"{text[: block.span[0]]}{told}\n{text[block.span[1] :]}"
    return text


def _played(block: Block, stage: Stage) -> list[tuple[str, str, str]]:
    """(command, what is shown, what was printed) of a console block; a file is written."""
    if block.file:
        stage.project.write(block.file, block.text)
    if block.language == "python":
        stage.run(block.text)
    if block.language != "console":
        return []
    played = [(command, shown, stage.type(command)) for command, shown in prompts(block.text)]
    for command, _, printed in played:
        if "PB-BUG" in printed or "Traceback" in printed:
            raise SystemExit(f"$ {command}\n{printed}")
    return played


def _kept(shown: str, printed: str) -> str:
    return (shown if ANY_LINES in shown and alike(shown, printed) else printed).strip("\n")


def is_bare(document: Path) -> bool:
    """Whether the document's story begins before `playbook init`: the README's does."""
    return document.name == "README.md" and document.parent == REPOSITORY


def is_fresh(document: Path) -> bool:
    """Whether the document's story begins in a repository that has nothing for playbooks."""
    return document.name == "fleet.md"


def main(names: list[str]) -> None:
    """Write what is really printed into the documents named."""
    from support import isolation_guard

    for name in names:
        document = (Path.cwd() / name).resolve()
        with tempfile.TemporaryDirectory(prefix="documents-") as folder:
            scratch = Path(folder).resolve()
            os.environ.update(isolation_guard.clean_environment(scratch))
            root = Project.found(scratch / "project", TEMPLATES)
            story = {"bare": is_bare(document), "fresh": is_fresh(document)}
            stage = Stage(Project(root, scratch), **story)
            text = document.read_text("utf-8")
            document.write_text(rewritten(text, stage), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
