"""Reads a report: its verdict, and whether it names a breaking change.

A verdict counts only where reports state one, not in a sentence that mentions the word. All
patterns are anchored and bounded, so that a megabyte of hostile text takes one pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import load
from playbook_supervisor.records import Record

_WORDS = {"pass": "PASS", "passed": "PASS", "fail": "FAIL", "failed": "FAIL", "stale": "STALE"}
_STATED = re.compile(r"(\[?)(passed|pass|failed|fail|stale)(?!\w)", re.IGNORECASE)
_TERMINATORS = ".,;:!-\u2013\u2014([{)]}"
_ANOTHER = re.compile(r"[\W_]{0,9}(?:or\b)?[\W_]{0,9}(passed|pass|failed|fail|stale)\b")
_PREFIX = re.compile(r"\A(?:#{1,6}|[-+])[ \t]+(?:[0-9]{1,3}[.)][ \t]+)?")
_NUMBERED = re.compile(r"\A#{0,6}[ \t]*(?:[0-9]{1,3}[.)][ \t]+)?")
_LABEL = re.compile(r"(?:(?:final|overall|qa|agreement|check) ){0,3}verdict")
_SUBJECT = re.compile(r"([\w.]+(?:-[\w.]+){0,40}) (?:-|\u2013|\u2014) (.*)")
_UNDECIDED = frozenset(
    {"blocked", "conditional", "expected", "no", "none", "not", "partial", "pending", "tbd", "todo"}
)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_KEY = re.compile(r"[\w-]+[ \t]*:")
_COUNTS = frozenset({"breaking change", "breaking changes", "adr violation", "adr violations"})
_NUMBER = re.compile(r"[0-9]+")
_TAG = re.compile(r"(?<!\b[Nn]o )(?<!\b0 )\[(?:BREAKING|ADR_VIOLATION)\]")
_DRESSING = {ord(mark): None for mark in "*`\u2705\u274c\u2714\u2716\ufe0f"}
_EDGES = " \t_\"'"
_BOM = "\ufeff"

_KEY_ONLY = "the key `verdict` is missing"
_SHAPES = (
    "what is read: the key `verdict` in the front matter; a line `Verdict: PASS`, also with QA, "
    "Overall or Final before it; a line that begins with PASS below a heading `Verdict`"
)


class Reading(Record):
    """What a report says.

    `verdict` is PASS, FAIL, STALE or empty; if it is empty, `reason` says why, and "in PATH" can be
    appended to it. `hint` names the shapes that are read, if the report has none of them.
    `breaking` is the line that names a breaking change, or empty.
    """

    verdict: str
    reason: str = ""
    breaking: str = ""
    hint: str = ""


def read_report(text: str, *, yaml: bool) -> Reading:
    """Read a report (kai FR3, FR6; data model `agreement_pass`, `qa_verdict_pass`).

    `yaml`: the text is a YAML mapping; otherwise it is Markdown, which may have front matter. If
    the key `verdict` has no valid value, the body is not read: the report is unfinished.
    """
    try:
        front, body = (text, "") if yaml else _split(text.removeprefix(_BOM))
        keys = _mapping(front)
    except CheckError as error:
        what = "YAML" if yaml else "front matter"
        reason = f"{what} that does not parse ({first_line(error.message, 120)})"
        return Reading("", reason, _breaking_line(text))
    breaking = _breaking_key(keys) or _breaking_line(text if yaml else body)
    if "verdict" not in keys:
        verdict = _last_stated(body)
        if verdict:
            return Reading(verdict, "", breaking)
        return Reading("", "no verdict", breaking, _KEY_ONLY if yaml else _SHAPES)
    stated = keys["verdict"]
    verdict = _word(stated) if isinstance(stated, str) else ""
    shown = first_line(str(stated), 40)
    reason = "" if verdict else f"no PASS, FAIL or STALE but `verdict: {shown}`"
    return Reading(verdict, reason, breaking)


# ── front matter ────────────────────────────────────────────────────────────────────────────


def _split(text: str) -> tuple[str, str]:
    """Front matter and body. A first line of dashes without a key after it is just a rule."""
    first, _, rest = text.partition("\n")
    if first.rstrip() != "---":
        return "", text
    lines = rest.splitlines(keepends=True)
    for index, line in enumerate(lines):
        if line.rstrip() in ("---", "..."):
            return "".join(lines[:index]), "".join(lines[index + 1 :])
    if _KEY.match(rest):
        raise CheckError("PB-CHECK-YAML", "it is not closed by a line of three dashes")
    return "", rest


def _mapping(text: str) -> Mapping[str, object]:
    data = load(text.encode("utf-8", "replace"), "report").data
    if isinstance(data, dict):
        return data
    if data == "":
        return {}
    raise CheckError("PB-CHECK-YAML", "it is not a mapping of keys to values")


def _breaking_key(keys: Mapping[str, object]) -> str:
    for key in ("breaking_changes", "adr_violations", "breaking"):
        value = keys.get(key)
        if isinstance(value, list | dict):
            if value:
                return f"{key}: {len(value)}"
        elif isinstance(value, str) and _says_breaking(value):
            return f"{key}: {first_line(value, 40)}"
    return ""


def _says_breaking(value: str) -> bool:
    number = _NUMBER.match(value)
    return number[0].strip("0") != "" if number else value.casefold() in ("true", "yes")


# ── body ────────────────────────────────────────────────────────────────────────────────────


def _undressed(body: str) -> Iterator[str]:
    return (line.translate(_DRESSING) for line in visible_lines(body))


def visible_lines(body: str) -> Iterator[str]:
    """The lines outside code fences and comments."""
    fence, comment = "", False
    for line in body.splitlines():
        mark = _FENCE.match(line)
        if comment or (not fence and line.lstrip().startswith("<!--")):
            comment = "-->" not in line
        elif fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark:
            fence = mark[1]
        else:
            yield line


def _stated_pair(line: str) -> tuple[str, str]:
    """`Label: value`, or the cells of a table row; the label in lower case, "" without one."""
    row = line.strip()
    if row.startswith("|"):
        label, *cells = row.strip("|").split("|", 9)
        value = ", ".join(cells)
    else:
        label, colon, value = _PREFIX.sub("", row, count=1).partition(":")
        label = label if colon else ""
    return label.strip(_EDGES).replace("_", " ").casefold(), value.strip(_EDGES)


def _word(value: str) -> str:
    """The verdict at the start of `value`, if there is exactly one; it may be in brackets."""
    match = _STATED.match(value)
    if not match:
        return ""
    verdict, rest = _WORDS[match[2].lower()], value[match.end() :].lstrip(_EDGES)
    if (match[1] and not rest.startswith("]")) or (rest and rest[0] not in _TERMINATORS):
        return ""
    another = _ANOTHER.match(rest.lower())
    return "" if another and _WORDS[another[1]] != verdict else verdict


def _word_of_subject(value: str) -> str:
    """The verdict in `013-login — PASS`, where the subject is one name."""
    match = _SUBJECT.fullmatch(value)
    if not match or match[1].casefold() in _UNDECIDED or _STATED.fullmatch(match[1]):
        return ""
    return _word(match[2].strip(_EDGES))


def _last_stated(body: str) -> str:
    found, under_heading = "", False
    for line in _undressed(body):
        row = line.strip(_EDGES)
        if not row.strip("-="):
            continue
        if under_heading:
            found = _word(row) or found
        label, value = _stated_pair(line)
        if _LABEL.fullmatch(label):
            found = _word(value) or (row.startswith("#") and _word_of_subject(value)) or found
        heading = _NUMBERED.sub("", row, count=1).strip(_EDGES + ":")
        under_heading = _LABEL.fullmatch(heading.casefold()) is not None
    return found


def _breaking_line(body: str) -> str:
    for line in _undressed(body):
        label, value = _stated_pair(line)
        if (label in _COUNTS and _says_breaking(value)) or _TAG.search(line):
            return first_line(line, 120)
    return ""
