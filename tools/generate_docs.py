"""Generates the tables and diagrams in the documents: words, keys, codes, choices, packages.

Each generated part is between `<!-- generated: NAME -->` and `<!-- end -->` and comes from the
program itself. A word that has no explanation here is an error.

    python tools/generate_docs.py            # writes them
    python tools/generate_docs.py --check    # names those that are out of date, and exits with 1
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tables_of_errors import codes, warnings
from tables_of_keys import keys, options
from tables_of_packages import graph, packages, rooms, way_down, way_to_disk
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
    REPOSITORY / "templates" / "playbook-authoring.md",
    *(REPOSITORY / "docs" / f"{name}.md" for name in ("architecture", "vocabulary")),
    *(REPOSITORY / "docs" / f"{name}.md" for name in ("audit", "concepts", "conditions", "errors")),
    *(REPOSITORY / "docs" / f"{name}.md" for name in ("executors", "format", "gates")),
    *(REPOSITORY / "docs" / f"{name}.md" for name in ("config", "policies")),
)
_PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

# ── putting them in ─────────────────────────────────────────────────────────────────────────

PARTS: Mapping[str, Callable[[], str]] = {
    "packages": packages,
    "package-graph": graph,
    "rooms": rooms,
    "way-down": way_down,
    "way-to-disk": way_to_disk,
    "vocabulary": vocabulary,
    "journal-words": journal_words,
    "conditions": condition_table,
    "triggers": trigger_table,
    "choices": choices,
    "resolutions": resolutions,
    "audit-rules": rules,
    "audit-journals": journals,
    "codes": codes,
    "warnings": warnings,
    "playbook-keys": keys("playbook"),
    "arg-keys": keys("playbook", "definitions", "arg"),
    "step-keys": keys("playbook", "definitions", "step"),
    "session-keys": keys("session"),
    "driver-keys": keys("session", "properties", "driver"),
    "records-keys": keys("records"),
    "output-keys": keys("outputs"),
    "launch-keys": keys("records", "definitions", "launch"),
    "entry-keys": keys("journal", "definitions", "entry"),
    "gate-keys": keys("journal", "definitions", "gate"),
    "agent-keys": keys("journal", "definitions", "agent"),
    "config-keys": keys("config"),
    "other-agent-keys": keys("config", "definitions", "agent"),
    "claude-keys": keys("config", "properties", "agents", "properties", "claude"),
    "artifacts-keys": keys("config", "properties", "artifacts"),
    "bounds-keys": keys("config", "definitions", "bounds"),
    "inbox-keys": keys("config", "properties", "inbox"),
    "isolation-keys": keys("config", "properties", "isolation", "anyOf", 1),
    "check-keys": keys("config", "definitions", "check"),
    "policy-keys": keys("policy", "definitions", "rule"),
    "match-keys": keys("policy", "definitions", "match"),
    "cli-options": options("cli"),
    "branch-options": options("branch"),
    "commit-options": options("commit"),
    "pr-options": options("pr"),
    "issue-options": options("issue"),
    "http-options": options("http"),
    "mcp-options": options("mcp"),
    "checkpoint-options": options("checkpoint"),
    "playbook-options": options("playbook"),
    "prompt-options": options("prompt"),
    "markdown-options": options("markdown"),
}


def regenerated(text: str) -> str:
    """The document with its parts generated again."""

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
