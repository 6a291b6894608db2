"""Generates docs/cli.md from `--help`, and docs/json.md from the JSON Schemas.

python tools/generate_reference.py            # writes them
python tools/generate_reference.py --check    # names those that are out of date, exits with 1
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from playbook_supervisor.cli.app import invoke, load
from playbook_supervisor.project.playbooks.schema import schema_text

REPOSITORY = Path(__file__).resolve().parent.parent
SHAPES = (
    "directive",
    "outcome",
    "run",
    "request",
    "plan",
    "status",
    "fleet",
    "show",
    "list",
    "check",
    "probe",
    "prove",
    "isolation",
    "audit",
    "metrics",
    "update",
    "error",
)
WIDTH = 92

Schema = Mapping[str, Any]

CLI = """\
# The `playbook` command

Results go to stdout; messages, questions and progress go to stderr. With `--json`, stdout
contains exactly one object ([json.md](json.md)). Commands work from any folder of the repository
and in any worktree. The help texts below are the output of `playbook help COMMAND`.

| exit code | meaning |
| --- | --- |
| 0 | completed, or done as requested |
| 1 | invalid input: arguments, a playbook, usage |
| 2 | the session failed or was aborted, or has no agent; `probe`, `prove`: one does not hold |
| 3 | not possible in this state: corrupt, changed, locked, not a repository |
| 4 | `run` and `resume`: a gate waits for a human, or a person has paused the run |
| 130, 143, 129 | interrupted by Ctrl-C, by SIGTERM, or by a closed terminal |
| 70 | an internal error; the message names a report that you can paste into an issue |

The exit code says what the command did. It stays the same if the reader of the output leaves
(`playbook status | head -1`), or if the output cannot be written; a note on stderr tells of a full
disk.

If stderr is not a terminal, progress is a log with one line for each event; the line of a waiting
gate contains `WAITS FOR A HUMAN`. `NO_COLOR`, `FORCE_COLOR` and `TERM=dumb` are respected.
`$PLAYBOOK_SESSION` names the session if no argument does.

**Completion.** Add the line for your shell to its start-up file. Tab then completes commands,
options, playbooks, sessions and steps:

```sh
eval "$(playbook completion bash)"   # ~/.bashrc
eval "$(playbook completion zsh)"    # ~/.zshrc, after `compinit`
playbook completion fish | source    # ~/.config/fish/config.fish
```

"""

JSON = """\
# What `--json` prints

Each command prints exactly one object. `protocol` is the version of the shapes. New keys may be
added without a new version; existing keys never change their meaning. Times are UTC in ISO 8601.
Keys without a value are omitted. `playbook schema NAME` prints the JSON Schema of each shape.
"""


def cli() -> str:
    """The page of the commands."""
    every = printed("help", "--all")
    parts = [CLI, "## playbook\n\n", block(printed("--help"), "text")]
    parts += ["\n`playbook help --all` lists all commands:\n\n", block(every, "text")]
    for name in re.findall(r"^  ([a-z]+)  ", every, re.MULTILINE):
        parts += [f"\n## playbook {name}\n\n", block(printed("help", name), "text")]
        for below in getattr(load(name), "commands", ()):
            parts += [
                f"\n### playbook {name} {below}\n\n",
                block(printed("help", name, below), "text"),
            ]
    return "".join(parts)


def printed(*words: str) -> str:
    """What `playbook WORD…` prints on a terminal of some width."""
    output = io.StringIO()
    with patch.dict(os.environ, {"COLUMNS": str(WIDTH)}), redirect_stdout(output):
        invoke(words)
    return output.getvalue()


def shapes() -> str:
    """The page of the JSON shapes."""
    parts = [JSON]
    for name in SHAPES:
        schema = json.loads(schema_text(name))
        parts.append(f"\n## {schema['title']}\n\n{schema['description']} Schema: `{name}`.\n\n")
        parts.append("| key | is | always |\n| --- | --- | --- |\n")
        parts += [f"| `{key}` | {said} | {always} |\n" for key, said, always in keys(schema)]
        for example in schema["examples"]:
            text = json.dumps(example, indent=2, ensure_ascii=False)
            parts += ["\n", block(text, "text")]
    return "".join(parts)


def keys(schema: Schema) -> Iterator[tuple[str, str, str]]:
    """Every key with its path, what is said of it, and whether it is always there."""
    yield from _keys(schema, schema, "", everywhere=True)


def _keys(
    top: Schema, schema: Schema, path: str, *, everywhere: bool
) -> Iterator[tuple[str, str, str]]:
    for key, value in schema.get("properties", {}).items():
        value = _resolved(top, value)
        there = everywhere and key in schema.get("required", ())
        is_list = value.get("type") == "array"
        name = f"{path}{key}{'[]' if is_list else ''}"
        yield name, _said(top, value), "yes" if there else ""
        inner = _resolved(top, value["items"]) if is_list and "items" in value else value
        yield from _keys(top, inner, f"{name}.", everywhere=there)


def _resolved(top: Schema, schema: Schema) -> Schema:
    if "$ref" not in schema:
        return schema
    resolved: Schema = top["definitions"][schema["$ref"].rpartition("/")[2]]
    return resolved


def _said(top: Schema, value: Schema) -> str:
    inner = _resolved(top, value["items"]) if "items" in value else value
    words = [json.dumps(word) for word in inner.get("enum", ())]
    said = [str(value.get("description", "") or inner.get("description", ""))]
    if words:
        said.append(f"One of {', '.join(f'`{word}`' for word in words)}.")
    return " ".join(part for part in said if part).replace("|", r"\|")


def block(text: str, language: str) -> str:
    """A fenced block."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def main(*, check: bool) -> int:
    """Write the pages; with `check` only name those that are out of date."""
    stale = 0
    for name, text in (("cli", cli()), ("json", shapes())):
        page = REPOSITORY / "docs" / f"{name}.md"
        if page.is_file() and page.read_text("utf-8") == text:
            continue
        stale += 1
        if check:
            print(f"docs/{name}.md is out of date: python tools/generate_reference.py")
        else:
            page.write_text(text, "utf-8")
            print(f"docs/{name}.md written")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
