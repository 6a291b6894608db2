"""Reads a report: its verdict, and whether it names a breaking change.

All that a report says of its outcome counts: its verdicts, and the keys and labels that say whether
something has failed. A report that contradicts itself has not passed. A sentence that mentions a
word states nothing, nor does a section or a key about an earlier run. All patterns are anchored and
bounded, so that a megabyte of hostile text takes one pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.located import Document, Path
from playbook_supervisor.formats.markdown_lines import Lines, visible_lines
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import load
from playbook_supervisor.project.outcome_words import (
    CLAUSES,
    EDGES,
    FAIL,
    LONGEST,
    NONE,
    OPEN,
    PASS,
    PAST,
    Said,
    decided,
    failures,
    is_some,
    quoted,
    stated,
)
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.formats.located import Data

_PREFIX = re.compile(r"\A(?:#{1,6}|[-+])[ \t]+(?:[0-9]{1,3}[.)][ \t]+)?")
_NUMBERED = re.compile(r"\A#{0,6}[ \t]*(?:[0-9]{1,3}[.)][ \t]+)?")
_SPEAKING = re.compile(
    r"(?i)#|pass|fail|stale|verdict|success|error|\bok\b|pending|blocked|conditional|partial|tbd|todo"
)
"""What a line contains that says something of the outcome, or begins a section."""
_HEADING = re.compile(r"(#{1,6})[ \t]")
_KEY = re.compile(r"[\w-]+[ \t]*:")

_PARTS = (
    r"(?:final |overall |qa |agreement |check |tests? |scenarios? |total |number of |blocking )"
)
_VERDICT = re.compile(r"(?:(?:final|overall|qa|agreement|check) ){0,3}verdict")
_OUTCOME = re.compile(rf"{_PARTS}{{0,3}}(?:status|results?|outcome|conclusion|summary|tests?)")
_FAILED = re.compile(
    rf"{_PARTS}{{0,3}}(?:failed|failing|failures?|errors?)(?: (?:tests?|scenarios?|checks?|count))?"
)
_PASSED = re.compile(rf"(?:all )?{_PARTS}{{0,3}}(?:pass|passed|passing|success|ok)")
"""The labels of a verdict, and of what can only contradict one: a word, a number, yes or no."""
_PAST_KEYS = frozenset({"runs", "attempts", "rounds", "iterations", "expected", "baseline"})

_COUNTS = frozenset(
    {"breaking", "breaking change", "breaking changes", "adr violation", "adr violations"}
)
_BREAKING = re.compile(r"(?i)breaking|adr")
_TAG = re.compile(r"(?<!\b[Nn]o )(?<!\b0 )\[(?:BREAKING|ADR_VIOLATION)\]")
_NAMED = re.compile(r"(?:\b(\w{1,40})\W{1,9})?(?:breaking changes?|adr violations?)")
_DRESSING = {ord(mark): None for mark in "*`\u2705\u274c\u2714\u2716\ufe0f"}
_BOM = "\ufeff"

_KEY_ONLY = "the key `verdict` is missing"
_SHAPES = (
    "what is read: the key `verdict` in the front matter; a line `Verdict: PASS`, also with QA, "
    "Overall or Final before it; a line that begins with PASS below a heading `Verdict`"
)


class Reading(Record):
    """What a report says.

    `verdict` is PASS, FAIL, STALE or empty; if it is empty, `reason` says why, and "in PATH" can be
    appended to it. `contradiction` is what speaks for PASS and what against it, with their lines;
    the verdict is never PASS then. `hint` names the shapes that are read, if the report has none of
    them. `breaking` is the line that names a breaking change, or empty.
    """

    verdict: str
    reason: str = ""
    breaking: str = ""
    hint: str = ""
    contradiction: str = ""

    @property
    def said(self) -> str:
        """What can follow "PATH says"; empty if there is a `reason`."""
        return self.contradiction or self.verdict


class _Statement(Record):
    """What a line says: `word` is empty for a verdict that is left open.

    `said` is what a person is shown of it. Only a statement that `decides` makes a verdict; the
    others can contradict one.
    """

    line: int
    word: str
    said: str
    decides: bool = False


def read_report(text: str, *, yaml: bool) -> Reading:
    """Read a report (kai FR3, FR6; data model `agreement_pass`, `qa_verdict_pass`).

    `yaml`: the text is a YAML mapping; otherwise it is Markdown, which may have front matter. If
    the key `verdict` has no valid value, the report is unfinished, whatever its body says.
    """
    text = text.removeprefix(_BOM)
    try:
        front, body, first = (text, "", 1) if yaml else _split(text)
        document = load(front.encode("utf-8", "replace"), "report")
        keys = _mapping(document)
    except CheckError as error:
        what = "YAML" if yaml else "front matter"
        reason = f"{what} that does not parse ({first_line(error.message, 120)})"
        return Reading("", reason, _breaking_line(visible_lines(text)[0]))
    lines, unclosed = visible_lines(body, first)
    breaking = _breaking_key(keys) or _breaking_line([*visible_lines(front)[0], *lines])
    verdict = keys.get("verdict")
    words = stated(verdict) if isinstance(verdict, str) else []
    if verdict is not None and not (words and words[0][0]):
        shown = first_line(str(verdict), 40)
        return Reading("", f"no PASS, FAIL or STALE but `verdict: {shown}`", breaking)
    found = [*_in_keys(document, keys, 0 if yaml else 1), *_in_body(lines)]
    return _reading(found, unclosed, breaking, _KEY_ONLY if yaml else _SHAPES)


def _reading(found: list[_Statement], unclosed: str, breaking: str, hint: str) -> Reading:
    words = {each.word for each in found if each.decides} - {OPEN}
    passing = next((each for each in found if each.decides and each.word == PASS), None)
    against = [each for each in found if each.word != PASS]
    if passing and against:
        worst = min(against, key=lambda each: (each.word != FAIL, not each.word, each.line))
        one, other = sorted((passing, worst), key=lambda each: each.line)
        place = f" in line {one.line}" if one.line != other.line else ""
        both = f"{one.said}{place} and {other.said} in line {other.line}"
        return Reading(worst.word, "", breaking, contradiction=both)
    if unclosed and FAIL not in words:
        return Reading("", f"{unclosed} has no end", breaking)
    if words:
        return Reading(min(words), "", breaking)
    return Reading("", "no verdict", breaking, hint)


# ── keys ────────────────────────────────────────────────────────────────────────────────────


def _split(text: str) -> tuple[str, str, int]:
    """Front matter, body, and the line of the body.

    A first line of dashes without a key after it is just a rule.
    """
    first, _, rest = text.partition("\n")
    if first.rstrip() != "---":
        return "", text, 1
    lines = rest.splitlines(keepends=True)
    for index, line in enumerate(lines):
        if line.rstrip() in ("---", "..."):
            return "".join(lines[:index]), "".join(lines[index + 1 :]), index + 3
    if _KEY.match(rest):
        raise CheckError("PB-CHECK-YAML", "it is not closed by a line of three dashes")
    return "", rest, 2


def _mapping(document: Document) -> Mapping[str, Data]:
    if isinstance(document.data, dict):
        return document.data
    if document.data == "":
        return {}
    raise CheckError("PB-CHECK-YAML", "it is not a mapping of keys to values")


def _in_keys(document: Document, keys: Mapping[str, Data], above: int) -> Iterator[_Statement]:
    """What the keys of all levels say; `above` is the number of lines before the first."""
    waiting: list[tuple[Path, str, Data]] = [((key,), key, keys[key]) for key in keys]
    while waiting:
        path, key, value = waiting.pop()
        label = key.replace("_", " ").replace("-", " ").casefold()
        if PAST.search(label) or label in _PAST_KEYS:
            continue
        line = document.position(path)[0] + above
        if isinstance(value, dict):
            waiting += [((*path, inner), inner, value[inner]) for inner in value]
        elif isinstance(value, list):
            if value and _FAILED.fullmatch(label):
                yield _Statement(line, FAIL, quoted(f"{key}: {len(value)}"))
            waiting += [((*path, index), "", value[index]) for index in range(len(value))]
        elif path == ("verdict",):
            yield from _statements(line, decided(value, titled=False), decides=True)
        else:
            yield from _contradicting(line, label, value)


# ── body ────────────────────────────────────────────────────────────────────────────────────


def _in_body(lines: Lines) -> Iterator[_Statement]:
    """What the lines say that do not stand below a heading about an earlier run."""
    past = 0  # the level of that heading
    section: list[_Statement] | None = None  # below a heading `Verdict`
    for number, line in lines:
        if not _SPEAKING.search(line):
            continue
        text = line.translate(_DRESSING)
        row = text.strip(EDGES)
        heading = _HEADING.match(row)
        if heading:
            past = 0 if len(heading[1]) <= past else past
            past = past or (len(heading[1]) if PAST.search(row.casefold()) else 0)
        title = _NUMBERED.sub("", row, count=1).strip(EDGES + ":").casefold()
        titled = _VERDICT.fullmatch(title) is not None
        if section is not None and (heading or titled):
            yield from _of_section(section)
            section = None
        if past:
            continue
        if titled:
            section = []
            continue
        label, value = _stated_pair(text)
        if _VERDICT.fullmatch(label):
            found = decided(value, titled=heading is not None)
            yield from _statements(number, found, decides=True)
            continue
        against = list(_contradicting(number, label, value))
        counted = _FAILED.fullmatch(label) or _PASSED.fullmatch(label)
        begun = [] if against or counted else stated(row, strict=True)
        if section is not None:
            section += _statements(number, begun, decides=True)
        elif begun and begun[0][0] not in (PASS, OPEN):
            against += _statements(number, begun, decides=False)
        yield from against
    yield from _of_section(section or [])


def _of_section(section: list[_Statement]) -> Iterator[_Statement]:
    """Two words below one heading are those of a template that was not filled in."""
    words = dict.fromkeys(each.said for each in section if each.said == each.word)
    if len(words) > 1:
        shown = f"`{' or '.join(words)}`"
        yield _Statement(section[0].line, OPEN, shown, decides=True)
    else:
        yield from section


def _statements(line: int, found: list[Said], *, decides: bool) -> Iterator[_Statement]:
    return (_Statement(line, word, said, decides) for word, said in found)


def _contradicting(line: int, label: str, value: str) -> Iterator[_Statement]:
    """What a key or a label other than the verdict says against PASS.

    A line can have several, as in `Passed: 10, Failed: 2`.
    """
    if PAST.search(label):
        return
    for part in CLAUSES.split(f"{label}: {value}"[:LONGEST]):
        name, _, said = (each.strip(EDGES).casefold() for each in part.partition(":"))
        failed = _FAILED.fullmatch(name) and is_some(said)
        if failed or (_PASSED.fullmatch(name) and said in ("false", "no")):
            yield _Statement(line, FAIL, quoted(part))
    if _OUTCOME.fullmatch(label) or _VERDICT.fullmatch(label):
        for word, _ in stated(value) or [(FAIL, said) for said in failures(value, counted=True)]:
            if word not in (PASS, OPEN):
                yield _Statement(line, word, quoted(f"{label}: {value}"))


def _stated_pair(line: str) -> tuple[str, str]:
    """`Label: value`, or the cells of a table row; the label in lower case, "" without one."""
    row = line.strip()
    if row.startswith("|"):
        label, *cells = row.strip("|").split("|", 9)
        value = ", ".join(cells)
    else:
        label, colon, value = _PREFIX.sub("", row, count=1).partition(":")
        label = label if colon else ""
    return label.strip(EDGES).replace("_", " ").casefold(), value.strip(EDGES)


# ── breaking ────────────────────────────────────────────────────────────────────────────────


def _breaking_key(keys: Mapping[str, Data]) -> str:
    for key in ("breaking_changes", "adr_violations", "breaking"):
        value = keys.get(key)
        if isinstance(value, list | dict):
            if value:
                return f"{key}: {len(value)}"
        elif isinstance(value, str) and is_some(value):
            return f"{key}: {first_line(value, 40)}"
    return ""


def _breaking_line(lines: Lines) -> str:
    for _, line in lines:
        if not _BREAKING.search(line):
            continue
        text = line.translate(_DRESSING)
        label, value = _stated_pair(text)
        if (
            (label in _COUNTS and is_some(value))
            or _TAG.search(text)
            or _fails_by(label, value, text)
        ):
            return first_line(text, 120)
    return ""


def _fails_by(label: str, value: str, text: str) -> bool:
    """Whether a line says FAIL and names breaking changes: `[FAIL] 2 breaking changes`."""
    said = value if _VERDICT.fullmatch(label) else text.strip(EDGES)
    if not any(word == FAIL for word, _ in stated(said)):
        return False
    named = _NAMED.search(said[:LONGEST].casefold())
    return named is not None and named[1] not in NONE
