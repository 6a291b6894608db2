"""Make `docs/requirements.md`: each requirement with the tests whose docstrings name it.

    python tools/generate_requirements.py            # writes the page
    python tools/generate_requirements.py --check    # names what no test proves, exits with 1

A docstring names ids behind their source: `kai FR24, FR32`, `kai FR1 to FR7`, `cat FR-4.11`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml
from tables import table

from playbook_supervisor.records import Record, field

REPOSITORY = Path(__file__).resolve().parent.parent
DATA = REPOSITORY / "tools" / "requirements.yaml"
TARGET = REPOSITORY / "docs" / "requirements.md"

SOURCES = {
    "kai": "kai",
    "cat": "cat",
    "Catalyst": "cat",
    "tyr": "tyr",
    "Tyrum": "tyr",
    "own": "own",
}
"""How a docstring may write each source."""

_ID = r"[A-Z]+[0-9]*(?:-[A-Z]*[0-9]*)?(?:\.[0-9]+)?|[0-9]+"
_NAMED = re.compile(rf"\b({'|'.join(SOURCES)}) ((?:{_ID})(?:(?:,? and|,| to) (?:{_ID}))*)\b")
_MEMBER = re.compile(rf"( to )?({_ID})")

PAGE = """\
# Requirements

<!-- Made by tools/generate_requirements.py from tools/requirements.yaml and the tests. -->

Three earlier designs are the source of these requirements: kai, Catalyst and Tyrum. Each row links
to the tests whose docstrings name it. The names of tests are written as sentences: `a gate opens`
is `test_a_gate_opens`, and `a gate: opens` is `TestAGate.test_opens`.

{summary}{sections}"""


class Group(Record):
    """Requirements of one kind: id → sentence.

    `differs` maps ids to what is done instead, `shown` to what shows a row other than a test. What
    is `planned` may have tests already, of the part that is done.
    """

    title: str
    source: str
    rows: Mapping[str, str]
    planned: Sequence[str] = ()
    differs: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)


class Mention(Record):
    """A test that names an id: `test_it`, `TestAll.test_it`, `TestAll`, or empty for a file."""

    file: str
    name: str


STATES = ("with a test", "met in another way", "without a test", "planned")

Mentions = Mapping[tuple[str, str], Sequence[Mention]]
"""(source, id) → the tests that name it."""


def groups() -> list[Group]:
    return [Group(**each) for each in yaml.safe_load(DATA.read_bytes())]


def mentions(every: Sequence[Group], tests: Path = REPOSITORY / "tests") -> Mentions:
    """Read the docstrings of all tests. ValueError for an id that is no requirement."""
    known: dict[str, list[str]] = {}
    for group in every:
        known.setdefault(group.source, []).extend(group.rows)
    found: dict[tuple[str, str], list[Mention]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        file = str(path.relative_to(tests.parent))
        for name, docstring in docstrings(path.read_text("utf-8")):
            for source, each in named(docstring, known):
                if each not in known[source]:
                    raise ValueError(f"{file}: `{source} {each}` is no requirement")
                mention = Mention(file, name)
                if mention not in found.setdefault((source, each), []):
                    found[source, each].append(mention)
    return found


def docstrings(code: str) -> Iterator[tuple[str, str]]:
    """The docstrings of a module, its classes and its tests, each with the name of its owner."""
    module = ast.parse(code)
    yield "", _docstring(module)
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, _docstring(node)
            for test in _tests(node):
                yield f"{node.name}.{test.name}", _docstring(test)
    for test in _tests(module):
        yield test.name, _docstring(test)


def _tests(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_"):
            yield each


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    return " ".join((ast.get_docstring(node) or "").split())


def named(docstring: str, known: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Each source and id that a docstring names, ranges included."""
    for word, listed in _NAMED.findall(docstring):
        source, before = SOURCES[word], ""
        for to, each in _MEMBER.findall(listed):
            ids = known[source]
            if to and before in ids and each in ids:
                for between in ids[ids.index(before) + 1 : ids.index(each)]:
                    yield source, between
            yield source, each
            before = each


# ── the page ────────────────────────────────────────────────────────────────────────────────


def page(every: Sequence[Group], found: Mentions) -> str:
    sections = [f"\n## {group.title}\n\n{_table(group, found)}" for group in every]
    return PAGE.format(summary=_summary(every, found), sections="".join(sections))


def _summary(every: Sequence[Group], found: Mentions) -> str:
    count = sum(len(group.rows) for group in every)
    states = [_state(group, each, found) for group in every for each in group.rows]
    rows = [(each, str(states.count(each))) for each in STATES if each in states]
    return table(("requirements", str(count)), rows)


def _state(group: Group, each: str, found: Mentions) -> str:
    if each in group.planned:
        return "planned"
    if found.get((group.source, each)):
        return "with a test"
    otherwise = each in group.differs or each in group.shown
    return "met in another way" if otherwise else "without a test"


def _table(group: Group, found: Mentions) -> str:
    rows = [
        (f"`{each}`", _sentence(group, each), _proof(group, each, found)) for each in group.rows
    ]
    return table(("id", "requirement", "tests"), rows)


def _sentence(group: Group, each: str) -> str:
    instead = group.differs.get(each)
    return group.rows[each] + (f" (instead: {instead})" if instead else "")


def _proof(group: Group, each: str, found: Mentions) -> str:
    lines = [_link(mention) for mention in found.get((group.source, each), ())]
    if each in group.planned:
        lines.append("*the rest is planned*" if lines else "*planned*")
    return "<br>".join(lines) or group.shown.get(each) or f"*{_state(group, each, found)}*"


def _link(mention: Mention) -> str:
    said = _as_sentence(mention.name) or f"all of {Path(mention.file).name}"
    return f"[{said}](../{mention.file})"


def _as_sentence(name: str) -> str:
    """`TestAGate.test_opens` → `a gate: opens`: a name with underscores would not wrap."""
    parts = [
        re.findall("[A-Z][a-z0-9]*", part.removeprefix("Test"))
        if part.startswith("Test")
        else part.removeprefix("test_").split("_")
        for part in name.split(".")
    ]
    sentence = ": ".join(" ".join(words) for words in parts).lower()
    return re.sub(r"\b(\d) (?=\d\b)", r"\1.", re.sub(r" s\b", "'s", sentence))


def main(arguments: Sequence[str]) -> int:
    """Write the page, or with `--check`: 1 if a row has no test, or if the page is out of date."""
    every = groups()
    found = mentions(every)
    made = page(every, found)
    if "--check" not in arguments:
        TARGET.write_text(made, "utf-8")
        return 0
    faults = [
        f"{group.title}: no test names {each}"
        for group in every
        for each in group.rows
        if _state(group, each, found) == "without a test"
    ]
    if TARGET.read_text("utf-8") != made:
        faults.append(f"{TARGET.name} is out of date; run python tools/generate_requirements.py")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
