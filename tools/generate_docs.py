"""Makes the parts of the documents that can be generated: tables of words, keys, codes, choices.

Each stands between `<!-- generated: NAME -->` and `<!-- end -->`, and comes from the program's own
tables, so that a document cannot say anything else. A word without an explanation here is an error.

    python tools/generate_docs.py            # writes them
    python tools/generate_docs.py --check    # names those that are out of date, and exits with 1
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tables import table
from tables_of_errors import codes, warnings
from tables_of_keys import keys
from tables_of_rules import journals, rules
from tables_of_words import (
    choices,
    condition_table,
    journal_words,
    resolutions,
    trigger_table,
    vocabulary,
)

REPOSITORY = Path(__file__).resolve().parent.parent
DOCUMENTS = (
    REPOSITORY / "README.md",
    REPOSITORY / "templates" / "playbook-authoring.md",
    *(REPOSITORY / "docs" / f"{name}.md" for name in ("audit", "concepts", "conditions", "errors")),
    *(REPOSITORY / "docs" / f"{name}.md" for name in ("format", "gates", "config", "policies")),
)
_PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

# ── commands ────────────────────────────────────────────────────────────────────────────────

_SECTION = re.compile(r"([A-Z][^:\n]*):")
_COMMAND = re.compile(r"  ([a-z]+) {2,}(\S.*)")


def commands() -> str:
    """Every subcommand by group, with its line of `playbook --help`."""
    from click import Context

    from playbook_supervisor.cli.app import program

    rows: list[list[str]] = []
    group = ""
    for line in program.get_help(Context(program, info_name="playbook")).splitlines():
        if section := _SECTION.fullmatch(line):
            group = section[1]
        elif group not in ("", "Options") and (found := _COMMAND.fullmatch(line)):
            rows.append([group, f"`playbook {found[1]}`", found[2]])
        elif rows and line.startswith("   ") and group != "Options":
            rows[-1][2] += f" {line.strip()}"
    return table(("", "command", "does"), _named_once(rows))


def _named_once(rows: list[list[str]]) -> Iterator[tuple[str, str, str]]:
    """The group stands only in its first row."""
    former = ""
    for group, command, does in rows:
        yield "" if group == former else f"**{group}**", command, does
        former = group


# ── putting them in ─────────────────────────────────────────────────────────────────────────

PARTS: Mapping[str, Callable[[], str]] = {
    "vocabulary": vocabulary,
    "journal-words": journal_words,
    "conditions": condition_table,
    "triggers": trigger_table,
    "choices": choices,
    "resolutions": resolutions,
    "audit-rules": rules,
    "audit-journals": journals,
    "codes": codes,
    "commands": commands,
    "warnings": warnings,
    "playbook-keys": keys("playbook"),
    "arg-keys": keys("playbook", "definitions", "arg"),
    "step-keys": keys("playbook", "definitions", "step"),
    "session-keys": keys("session"),
    "entry-keys": keys("journal", "definitions", "entry"),
    "gate-keys": keys("journal", "definitions", "gate"),
    "agent-keys": keys("journal", "definitions", "agent"),
    "config-keys": keys("config"),
    "claude-keys": keys("config", "properties", "agents", "properties", "claude"),
    "artifacts-keys": keys("config", "properties", "artifacts"),
    "bounds-keys": keys("config", "definitions", "bounds"),
    "policy-keys": keys("policy", "definitions", "rule"),
    "match-keys": keys("policy", "definitions", "match"),
}


def regenerated(text: str) -> str:
    """The document with its generated parts made anew."""

    def made(part: re.Match[str]) -> str:
        return f"{part[1]}\n{PARTS[part[2]]()}\n{part[3]}"

    return _PART.sub(made, text)


def main(arguments: list[str]) -> int:
    """Exit 1 if `--check` finds a document out of date."""
    stale = []
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        made = regenerated(text)
        if made != text:
            stale.append(str(document.relative_to(REPOSITORY)))
            if "--check" not in arguments:
                document.write_text(made, "utf-8")
    if "--check" in arguments and stale:
        print(f"out of date: {', '.join(stale)}; run python tools/generate_docs.py")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
