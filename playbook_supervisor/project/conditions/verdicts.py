"""Reads a report: its verdict, and whether it names a breaking change.

All that a report says of its outcome counts: its verdicts, and the keys and labels that say whether
something has failed. A report that contradicts itself has not passed. A sentence that mentions a
word states nothing, nor does a section or a key about an earlier run. What says that nothing failed
speaks against no PASS. All patterns are anchored and bounded, so that a megabyte of hostile text
takes one pass. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.located import Data, Document, Path
from playbook_supervisor.formats.markdown_lines import Lines, visible_lines
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import load

_PREFIX = re.compile(r"\A(?:(?:#{1,6}|[-+])[ \t]+)?(?:[0-9]{1,3}[.)][ \t]+)?")
_ITEM = re.compile(r"[ \t]*(?:[-+*]|[0-9]{1,3}[.)])[ \t]+")
_RULE = re.compile(r"[ \t]*\|[ \t:|-]*-[ \t:|-]*\Z")
_NUMBERED = re.compile(r"\A#{0,6}[ \t]*(?:[0-9]{1,3}[.)][ \t]+)?")
_SPEAKING = re.compile(
    r"(?i)#|pass|fail|stale|verdict|success|error|\bok\b|pending|blocked|conditional|partial|tbd|todo"
    r"|[|\u274c\u2716\u2718]"
)
"""The words of a line that says something of the outcome, or begins a section."""
_HEADING = re.compile(r"(#{1,6})[ \t]")
_KEY = re.compile(r"[\w-]+[ \t]*:")

_PARTS = (
    r"(?:final |overall |qa |agreement |check |tests? |scenarios? |total |number of |blocking )"
)
_VERDICT = re.compile(r"(?:(?:final|overall|qa|agreement|check) ){0,3}verdict")
_OUTCOME = re.compile(
    rf"{_PARTS}{{0,3}}(?:status|state|results?|outcome|conclusion|summary|tests?)"
)
_FAILED = re.compile(
    rf"{_PARTS}{{0,3}}(?:failed|failing|failures?|errors?)"
    r"(?: count|( (?:tests?|scenarios?|checks?|cases|criteria)))?"
)
_COUNT = re.compile(
    r"[0-9]+(?:\s?(?:/|of|out of)\s?[0-9]+)?(?: \w+){0,2} (?:fail|fails|failed|failing|failures?)"
)
_CROSS = re.compile(r"(?<=[:|])[ *_]{0,9}[\u274c\u2716\u2718]\ufe0f?[ *_]{0,9}(?=\||\Z)")
_SUBJECT = re.compile(r"(.{1,80}) (?:-|\u2013|\u2014) (\[?fail(?:ed)?\]?)\Z", re.IGNORECASE)
_SENTENCE = re.compile(r"(?i)(?:the )?([a-z ]{1,40}) is:? (.*)")
_PASSED = re.compile(rf"(?:all )?{_PARTS}{{0,3}}(?:pass|passed|passing|success|ok)")
"""The labels of a verdict, and of what can only contradict one: a word, a number, yes or no."""
_ELSEWHERE = re.compile(
    r"(?:runs?|attempts?|rounds?|iterations?)(?: ?#?[0-9]+)?\Z"
    r"|.*\b(?:expected|baseline|if|when|any|otherwise)\b"
)
"""The labels of what is said of another run, of what was expected, and of rules."""

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


@dataclass(frozen=True, slots=True)
class Reading:
    """The statements of a report.

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
        """The end of "PATH says …"; empty if there is a `reason`."""
        return self.contradiction or self.verdict


@dataclass(frozen=True, slots=True)
class _Statement:
    """The statement of a line: `word` is empty for a verdict that is left open.

    `said` is what a person is shown of it. Only a statement that `decides` makes a verdict; the
    others can contradict one.
    """

    line: int
    word: str
    said: str
    decides: bool = False


def read_report(text: str, *, yaml: bool) -> Reading:
    """Read a report.

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
    """Front matter, body and its line; a first line of dashes without a key after it is a rule."""
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
    waiting: list[tuple[Path, str, Data]] = [((key,), key, keys[key]) for key in keys]
    while waiting:
        path, key, value = waiting.pop()
        label = key.replace("_", " ").replace("-", " ").casefold()
        if PAST.search(label) or _ELSEWHERE.match(label):
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
    """The statements of the lines that do not stand below a heading about an earlier run."""
    past = 0  # the level of that heading
    section: list[_Statement] | None = None  # below a heading `Verdict`
    failed = ""  # the heading of a list of what failed
    for number, line, columns in _with_columns(lines):
        if not _SPEAKING.search(line) and not (failed and _ITEM.match(line)):
            continue
        text = _CROSS.sub(" failing ", line).translate(_DRESSING)
        row = text.strip(EDGES)
        heading = _HEADING.match(row)
        title = _NUMBERED.sub("", row, count=1).strip(EDGES + ":").casefold()
        titled = _VERDICT.fullmatch(title) is not None
        if heading:
            past = 0 if len(heading[1]) <= past else past
            past = past or (len(heading[1]) if PAST.search(row.casefold()) else 0)
            failed = title if _FAILED.fullmatch(title) and "fail" in title else ""
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
        against = list(_in_row(number, text, columns) if columns else _in_line(number, text))
        if failed and not heading and (marker := _ITEM.match(text)):
            item = text[marker.end() :]
            if not is_none(item) and not is_settled(item):
                against.append(_Statement(number, FAIL, quoted(f"{failed}: {item}")))
        tally = label != "pass" and (_FAILED.fullmatch(label) or _PASSED.fullmatch(label))
        counted = tally and (is_some(value) or is_none(value))
        begun = [] if against or counted else stated(row, strict=True)
        if section is not None:
            section += _statements(number, begun, decides=True)
        elif begun and begun[0][0] not in (PASS, OPEN):
            against += _statements(number, begun, decides=False)
        yield from against
    yield from _of_section(section or [])


def _with_columns(lines: Lines) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """The lines, but not those of a table's head; those of its body have the names of columns."""
    columns: tuple[str, ...] = ()
    for index, (number, line) in enumerate(lines):
        following = lines[index + 1][1] if index + 1 < len(lines) else ""
        if not line.lstrip().startswith("|"):
            columns = ()
        elif _RULE.match(following) and not _RULE.match(line):
            columns = tuple(_label(cell) for cell in _cells(line.translate(_DRESSING)))
            if not _VERDICT.fullmatch(columns[0]):
                continue
        yield number, line, columns


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


def _in_line(line: int, text: str) -> Iterator[_Statement]:
    if text.lstrip().startswith(">"):
        return
    label, value = _stated_pair(text)
    yield from _contradicting(line, label, value)
    row = _PREFIX.sub("", text.strip(), count=1).strip(EDGES)
    sentence = _SENTENCE.match(row)
    if sentence and stated(sentence[2], strict=True):
        yield from _contradicting(line, sentence[1].casefold(), sentence[2])
    subject = _SUBJECT.match(row) if text.strip() != row else None
    if subject and not label:
        yield from _contradicting(line, subject[1].casefold(), subject[2])
    if is_settled(row):
        return
    if row.startswith("[") and text.strip() != row:
        found = [each for each in stated(row, strict=True) if each[0] != PASS]
        yield from _statements(line, found, decides=False)
    if row[:1].isdigit():
        for clause in CLAUSES.split(row[:LONGEST]):
            if _COUNT.fullmatch(clause.strip().casefold()) and is_some(clause.strip()):
                yield _Statement(line, FAIL, quoted(clause))


def _in_row(line: int, text: str, columns: tuple[str, ...]) -> Iterator[_Statement]:
    cells = _cells(text)
    another = [_ELSEWHERE.match(each) or PAST.search(each) for each in columns]
    if another[0] or any(past and stated(cell) for past, cell in zip(another, cells, strict=False)):
        return
    label, value = _stated_pair(text)
    if _FAILED.fullmatch(label) or _PASSED.fullmatch(label) or _OUTCOME.fullmatch(label):
        yield from _contradicting(line, label, value)
    for index, column in enumerate(columns[: len(cells)]):
        if index or cells[0][:1].isdigit():
            yield from _contradicting(line, column, ", ".join(cells[index:]))


def _contradicting(line: int, label: str, value: str) -> Iterator[_Statement]:
    if not label or PAST.search(label) or _ELSEWHERE.match(label):
        return
    for part in CLAUSES.split(f"{label}: {value}"[:LONGEST]):
        name, _, said = (each.strip(EDGES).casefold() for each in part.partition(":"))
        failed, passed = _FAILED.fullmatch(name), _PASSED.fullmatch(name)
        some = failed and (is_some(said) or (failed[1] and not is_none(said)))
        if some or (passed and said in ("false", "no")):
            yield _Statement(line, FAIL, quoted(part))
    if _OUTCOME.fullmatch(label) or _VERDICT.fullmatch(label):
        found = stated(value) or [(FAIL, said) for said in unsuccessful(value)]
        against = [word for word, _ in found if word not in (PASS, OPEN)]
    else:
        found = [] if is_settled(value) else stated(value, strict=True)
        against = [word for word, _ in found if word == FAIL]
    for word in against:
        yield _Statement(line, word, quoted(f"{label}: {value}"))


def _stated_pair(line: str) -> tuple[str, str]:
    """`Label: value`, or the cells of a table row; the label in lower case, "" without one."""
    row = line.strip()
    if row.startswith("|"):
        label, *cells = _cells(row)
        value = ", ".join(cells)
    else:
        label, colon, value = _PREFIX.sub("", row, count=1).partition(":")
        label = label if colon else ""
    return _label(label), value.strip(EDGES)


def _label(text: str) -> str:
    return text.strip(EDGES).replace("_", " ").casefold()


def _cells(row: str) -> list[str]:
    return [cell.strip(EDGES) for cell in row.strip().strip("|").split("|", 9)]


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
    said = value if _VERDICT.fullmatch(label) else text.strip(EDGES)
    if not any(word == FAIL for word, _ in stated(said)):
        return False
    named = _NAMED.search(said[:LONGEST].casefold())
    return named is not None and named[1] not in NONE


# ── the words that state an outcome ─────────────────────────────────────────────────────────

PASS, FAIL, OPEN = "PASS", "FAIL", ""
"""Two outcomes, and a verdict that is left open; STALE is the third."""
EDGES = " \t_\"'"
"""Characters that may stand around a word."""
CLAUSES = re.compile(r"[.;,()|\u00b7\u2013\u2014]|\s-\s")
LONGEST = 400
"""Characters of a line that are looked at for what speaks against it."""
NONE = frozenset({"0", "no", "none", "zero", "nothing", "never", "without", "not"})
PAST = re.compile(r"\b(?:previous(?:ly)?|former(?:ly)?|earlier|prior|past|older|history|log)\b")
"""Of a heading, a label or a clause that is about another run than the last."""

_WORDS = {"pass": PASS, "passed": PASS, "fail": FAIL, "failed": FAIL, "stale": "STALE"}
_WORD = r"(passed|pass|failed|fail|stale)"
_STATED = re.compile(rf"(\[?){_WORD}(?!\w|-\w)", re.IGNORECASE)
_TERMINATORS = ".,;:!-\u2013\u2014([{)]}"
_ANOTHER = re.compile(rf"[\W_]{{0,9}}(?:or\b)?[\W_]{{0,9}}{_WORD}\b|.{{0,400}}?\[{_WORD}\]")
_UNDECIDED = frozenset(
    {"blocked", "conditional", "expected", "no", "none", "not", "partial", "pending", "tbd", "todo"}
)
_AFTER_SUBJECT = re.compile(r"([\w.]+(?:-[\w.]+){0,40}) (?:-|\u2013|\u2014) (.*)")
_FAILING = re.compile(r"\b(?:fail(?:s|ed|ing|ures?)?|not pass(?:ed)?)\b(?!-)\s?[:=]?\s?([0-9]*)")
_QUANTITY = re.compile(r"[0-9]+(?:\s?(?:/|of)\s?[0-9]+)?|\w+")
_SETTLED = re.compile(
    r"\b(?:was|were|had|before|last|first|fix(?:ed|es)?|mended|resolved|repaired|expected|should"
    r"|must|correctly|intended|non)\b|\u2192|->"
)
_UNSUCCESSFUL = re.compile(
    r"\W*(?:fail|failing|failure|error|errored|blocked|rejected|incomplete|broken|red"
    r"|not (?:ok|passed|successful|accepted))\W*",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\W*(?:blocked|conditional(?:ly)?|partial(?:ly)?|pending|tbd|todo)"
    r"(?: (?:on|until|review|approval|by|to|for)\b.*)?\W*",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(r"\w*")

Said = tuple[str, str]
"""An outcome, and what a person is shown of it."""


def stated(value: str, *, strict: bool = False) -> list[Said]:
    """The statements of a value, its verdict first: two for `PASS (2 failed)`.

    `PASS or FAIL` is open. A PASS, and if it is `strict` each word, must be followed by
    punctuation, a dash, a bracket or nothing.
    """
    match = _STATED.match(value)
    if not match:
        return []
    word, rest = _WORDS[match[2].lower()], value[match.end() :].lstrip(EDGES)
    another = _ANOTHER.match(rest[: 2 * LONGEST].lower())
    if another and _WORDS[another[1] or another[2]] != word:
        return [(OPEN, quoted(value))]
    if match[1] and not rest.startswith("]"):
        return []
    if rest and rest[0] not in _TERMINATORS:
        tolerated = word != PASS and not strict and not _SETTLED.search(rest[:LONGEST])
        return [(word, word)] if tolerated else []
    if word != PASS:
        return [(word, word)]
    open_ = [each for each in CLAUSES.split(rest[:LONGEST]) if _CONDITION.fullmatch(each)]
    against = [
        *((FAIL, said) for said in failures(rest)),
        *((OPEN, quoted(each)) for each in open_),
    ]
    return [(word, word), *against]


def decided(value: str, *, titled: bool) -> list[Said]:
    """The statements of a verdict's value; in a title it may follow its subject: `013-x — PASS`."""
    first = _word(value)
    if (found := stated(value)) or first in _UNDECIDED:
        return found or [(OPEN, quoted(value))]
    subject = _AFTER_SUBJECT.fullmatch(value) if titled else None
    return stated(subject[2].strip(EDGES), strict=True) if subject else []


def failures(text: str, *, counted: bool = False) -> Iterator[str]:
    """The first clause that says that something failed: `2 tests failed`, not `0 failed`.

    `counted`: only one with a number, because others can be about what should fail.
    """
    for clause in CLAUSES.split(text[:LONGEST]):
        lowered = clause.casefold()
        if _SETTLED.search(lowered) or PAST.search(lowered):
            continue
        for found in _FAILING.finditer(lowered):
            before = _QUANTITY.findall(lowered[: found.start()])[-4:]
            amounts = [each for each in before if each[0].isdigit() or each in NONE]
            amount = (amounts or [found[1]])[-1]
            if not _is_none(amount) and (amount or not counted):
                yield quoted(clause)
                return


def unsuccessful(value: str) -> Iterator[str]:
    """The words of an outcome that are no success: `failing`, `10 passed, 2 failed`."""
    if _UNSUCCESSFUL.fullmatch(CLAUSES.split(value[:LONGEST], maxsplit=1)[0]):
        yield quoted(value)
    else:
        yield from failures(value, counted=True)


def is_settled(text: str) -> bool:
    """True if a text says that what failed was mended, or should fail."""
    return _SETTLED.search(text[:LONGEST].casefold()) is not None


def is_none(value: str) -> bool:
    """True if what failed is nothing: `none`, `0 of 9`, `n/a`, `-`."""
    word = _word(value.lstrip("( "))
    return _is_none(word) or word in ("", "n", "nil", "null", "all", "false")


def is_some(value: str) -> bool:
    """True if a value begins with a number that is not 0, or says yes."""
    word = _word(value)
    return word in ("true", "yes") or (word[:1].isdigit() and not _is_none(word))


def quoted(value: str) -> str:
    """A value as a person is shown it."""
    return f"`{first_line(value.strip(), 40)}`"


def _word(value: str) -> str:
    match = _FIRST_WORD.match(value.casefold())
    return match[0] if match else ""


def _is_none(amount: str) -> bool:
    number = re.match("[0-9]+", amount)
    return amount in NONE or (number is not None and not number[0].strip("0"))
