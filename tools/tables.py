"""Markdown tables, as the generated parts of the documents use them."""

from __future__ import annotations

from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a bar within a cell is escaped."""
    head = tuple(head)
    lines = [head, ("---",) * len(head), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines
    )


def code(words: Iterable[str]) -> str:
    """Words as code, in a row."""
    return ", ".join(f"`{word}`" for word in words)
