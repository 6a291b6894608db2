"""Reports of tests as JUnit XML, and what the tests of the beginning say of the code of now. Pure.

A test that agreed with the beginning and does not agree now is either as it was, which is a
refusal, or it has changed, which is a question to a person.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from junitparser import Error, Failure, JUnitXml, JUnitXmlError, Skipped, TestCase

from playbook_supervisor.errors import ConditionError
from playbook_supervisor.formats.sanitize import first_line

Cause = Literal["", "assertion", "name", "other"]

_UNTOLD = ("collection failure", "internal error")  # messages of pytest that tell nothing
_SAID = 120  # characters of a message
_DECLARATION = rb"<!(?:DOCTYPE|ENTITY)"
_SCRIPT = r"\.[cm]?[jt]sx?\Z"
_PARAMETERS = r"\[.*\]\Z"
_NAME = r"""(?x)
    NameError | ImportError | ModuleNotFoundError | AttributeError | ReferenceError
    | is\ not\ a\ function | is\ not\ defined | has\ no\ attribute | [Cc]annot\ find
"""
_ASSERTION = r"(?i)assert|expected|\bequal"
_RERUN = {"rerunFailure", "rerunError", "flakyFailure", "flakyError"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What reports say of one test: a function with all its cases, as numbers of cases.

    `skipped` counts expected failures, too. `message` is the first line of the first failure, and
    `cause` its kind: an assertion, a name that does not exist, or another. `file` is where the
    report says that the test is; empty if it does not. `retried`: a case needed more than one try.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    message: str = ""
    cause: Cause = ""
    file: str = ""
    retried: bool = False

    @property
    def ran(self) -> bool:
        return self.passed + self.failed > 0

    @property
    def holds(self) -> bool:
        """True if it ran and no case failed."""
        return self.passed > 0 and self.failed == 0


def read_reports(texts: Iterable[bytes]) -> dict[str, Verdict]:
    """The verdicts of all tests by `CLASS::FUNCTION`, without the parameters of their cases.

    A module that cannot be loaded is the failed test `MODULE::`. ConditionError PB-COND-CHECK if a
    text is no report.
    """
    found: dict[str, Verdict] = {}
    for text in texts:
        for case in _cases(text):
            name, verdict = _verdict(case)
            found[name] = _sum(found[name], verdict) if name in found else verdict
    return found


def _cases(text: bytes) -> Iterator[TestCase]:
    """The test cases, in test suites or not: runners differ in that."""
    if re.search(_DECLARATION, text):
        raise _no_report("it declares entities")
    try:
        top = JUnitXml.fromstring(text)
    except (JUnitXmlError, SyntaxError, ValueError, LookupError, RecursionError) as error:
        raise _no_report(first_line(str(error), _SAID)) from error
    case: Any = TestCase  # its own loop over cases needs suites
    for element in top._elem.iter("testcase"):
        yield case.fromelem(element)


def _no_report(why: str) -> ConditionError:
    cure = "Let the check write JUnit XML, or remove `report` from its settings."
    return ConditionError("PB-COND-CHECK", f"its report is no JUnit XML: {why}", guidance=cure)


def _verdict(case: TestCase) -> tuple[str, Verdict]:
    group, name = (case.classname or "").strip(), (case.name or "").strip()
    results = list(case.result)
    failed = [each for each in results if isinstance(each, Failure | Error)]
    is_script = re.search(_SCRIPT, name) and (name[0] == "/" or name == group)
    if is_script or (failed and not group):
        group, name = name, ""
    function = re.sub(_PARAMETERS, "", name)
    retried = any(each.tag in _RERUN for each in case._elem)
    file = str(case._elem.get("file") or "")
    if failed:
        said = _said(str(failed[0].message or ""), str(failed[0].text or ""))
        message = first_line(said, _SAID)
        kind = f"{failed[0].type or ''} {said}"
        return f"{group}::{function}", Verdict(0, 1, 0, message, _cause(kind), file, retried)
    if any(isinstance(each, Skipped) for each in results):
        return f"{group}::{function}", Verdict(skipped=1, file=file, retried=retried)
    return f"{group}::{function}", Verdict(passed=1, file=file, retried=retried)


def _said(message: str, text: str) -> str:
    """The message, or what the text says where pytest could not load a file."""
    if message and message not in _UNTOLD:
        return message
    told = re.findall(r"(?m)^E +(\S.*)$", text) or [text or message]
    return str(told[-1])


def _cause(said: str) -> Cause:
    if re.search(_NAME, said):
        return "name"
    return "assertion" if re.search(_ASSERTION, said) else "other"


def _sum(one: Verdict, other: Verdict) -> Verdict:
    first = one if one.failed else other
    return Verdict(
        one.passed + other.passed,
        one.failed + other.failed,
        one.skipped + other.skipped,
        first.message,
        first.cause,
        one.file or other.file,
        one.retried or other.retried,
    )


_PYTHON = ".py"
_AROUND = 1  # lines around a change that are shown


class TestChange(StrEnum):
    """How a test has changed since the beginning."""

    SAME = "unchanged"
    SURROUNDINGS = "same test, changed surroundings"
    CHANGED = "changed"
    RENAMED = "renamed"
    REMOVED = "removed"
    SKIPPED = "skipped now"
    FEWER = "fewer cases"


@dataclass(frozen=True, slots=True)
class Function:
    """A test function: its code without layout and comments, its text, and the first line."""

    code: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Concern:
    """A test of the beginning that a person may have to judge: how it changed, and what it said.

    `moved_to` is the name of a test with the same body. `said` is the message of its failure with
    the code of now; empty if it passes.
    """

    test: str
    change: TestChange
    said: str = ""
    moved_to: str = ""

    @property
    def line(self) -> str:
        """`test_calc::test_add: changed (as it was, it fails: assert 5 == -1)`."""
        said = f" (as it was, it fails: {self.said})" if self.said else ""
        return f"{self.title}{said}"

    @property
    def title(self) -> str:
        """`test_calc::test_add: renamed to test_calc.py::test_sum`."""
        return f"{self.test}: {self.change}" + (f" to {self.moved_to}" if self.moved_to else "")


class TestSources:
    """The test files of both sides, by path, and the ids of all witnesses that differ.

    `texts` has the content of the changed test files before and now; an unchanged file need not be
    read. `paths` are the witnesses of the beginning.
    """

    __test__ = False

    def __init__(
        self,
        paths: Sequence[str],
        changed: Sequence[str],
        texts: Mapping[str, tuple[bytes, bytes]],
    ) -> None:
        self._paths, self._changed, self._texts = paths, frozenset(changed), texts

    @property
    def differ(self) -> bool:
        """True if any witness differs."""
        return bool(self._changed)

    def place(self, test: str, verdict: Verdict) -> tuple[str, str]:
        """The file of a test at the beginning and the name there; empty where that is unknown."""
        group, _, name = test.rpartition("::")
        parts = group.split(".")
        if verdict.file in self._by_path:
            return verdict.file, self._inner(verdict.file, parts, name)
        if group in self._by_path:
            return group, name
        for end in range(len(parts), 0, -1):
            module = "/".join(parts[:end]) + _PYTHON
            ending = f"/{module}"
            for path in [module] if module in self._by_path else self._ending(ending):
                return path, ".".join([*parts[end:], name])
        return "", name

    def change(self, test: str, verdict: Verdict) -> tuple[TestChange, str]:
        """How a test has changed in its file, and the name of one with the same body."""
        path, name = self.place(test, verdict)
        if not path:
            return (TestChange.CHANGED if self._changed else TestChange.SAME), ""
        if path not in self._changed:
            return TestChange.SAME, ""
        before, now = (self.functions(path, side) for side in (0, 1))
        if name not in before:  # another language, or a test that is made while it runs
            is_there = bool(self._texts.get(path, (b"", b""))[1])
            return (TestChange.CHANGED if is_there else TestChange.REMOVED), ""
        if name in now:
            same = now[name].code == before[name].code
            return (TestChange.SAME if same else TestChange.CHANGED), ""
        if other := self._moved.get(_body(before[name])):
            return TestChange.RENAMED, other
        return TestChange.REMOVED, ""

    def shown(self, concern: Concern, verdict: Verdict) -> Iterator[str]:
        """The difference of a test's function, as lines of a unified diff."""
        path, name = self.place(concern.test, verdict)
        before = self.functions(path, 0).get(name)
        now = self.functions(path, 1).get(name) or self._named.get(concern.moved_to)
        if before is None and now is None:
            sides = self._texts.get(path, (b"", b""))
            old, new = (each.decode("utf-8", "replace") for each in sides)
        else:
            old, new = (each.text if each else "" for each in (before, now))
        changed = difflib.unified_diff(old.splitlines(), new.splitlines(), n=_AROUND, lineterm="")
        yield from list(changed)[2:]

    def functions(self, path: str, side: int) -> Mapping[str, Function]:
        """The functions of a changed Python file, before (0) or now (1), by dotted name."""
        return self._functions.get((path, side), {})

    @cached_property
    def _by_path(self) -> frozenset[str]:
        return frozenset(self._paths)

    def _ending(self, ending: str) -> list[str]:
        found = [path for path in self._paths if path.endswith(ending)]
        return found if len(found) == 1 else []

    def _inner(self, path: str, parts: Sequence[str], name: str) -> str:
        stem = path.removesuffix(_PYTHON).rpartition("/")[2]
        inner = parts[parts.index(stem) + 1 :] if stem in parts else []
        return ".".join([*inner, name])

    @cached_property
    def _functions(self) -> dict[tuple[str, int], dict[str, Function]]:
        return {
            (path, side): functions(text)
            for path, sides in self._texts.items()
            for side, text in enumerate(sides)
            if path.endswith(_PYTHON)
        }

    @cached_property
    def _named(self) -> dict[str, Function]:
        found: dict[str, Function] = {}
        for (path, side), named in self._functions.items():
            if side == 1:
                old = self._functions.get((path, 0), {})
                found |= {
                    f"{path}::{name}": each for name, each in named.items() if name not in old
                }
        return found

    @cached_property
    def _moved(self) -> dict[str, str]:
        return {_body(function): name for name, function in self._named.items()}


def functions(text: bytes) -> dict[str, Function]:
    """The functions of a Python file by dotted name; none if it cannot be parsed."""
    try:
        source = text.decode("utf-8-sig")
        top = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    lines = source.splitlines()
    return dict(_functions(top, "", lines))


def _functions(node: ast.AST, within: str, lines: list[str]) -> Iterator[tuple[str, Function]]:
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([each.lineno, *(line.lineno for line in each.decorator_list)])
            text = "\n".join(lines[first - 1 : each.end_lineno])
            yield f"{within}{each.name}", Function(ast.dump(each), text, first)
        elif isinstance(each, ast.ClassDef):
            yield from _functions(each, f"{within}{each.name}.", lines)
        elif isinstance(each, ast.If | ast.Try):
            yield from _functions(each, within, lines)


def _body(function: Function) -> str:
    return function.code.partition(", args=")[2]


# ── the comparison ──────────────────────────────────────────────────────────────────────────


def concerns(
    base: Mapping[str, Verdict],
    old: Mapping[str, Verdict],
    now: Mapping[str, Verdict],
    sources: TestSources,
) -> list[Concern]:
    """The tests that ran at the beginning and do not agree now, or are missing among those of now.

    `base` is what the tests of the beginning said of its code, `old` what they say of the code of
    now, and `now` what the tests of now say.
    """
    found = []
    for test, verdict in base.items():
        if verdict.ran and test.rpartition("::")[2]:
            concern = _concern(test, verdict, old, now, sources)
            found += [concern] if concern is not None else []
    return found


def _concern(
    test: str,
    verdict: Verdict,
    old: Mapping[str, Verdict],
    now: Mapping[str, Verdict],
    sources: TestSources,
) -> Concern | None:
    then, later = old.get(test), now.get(test)
    change, moved_to = sources.change(test, verdict)
    if then is not None and then.holds and _ran(then) >= _ran(verdict):
        if later is not None and _ran(later) >= _ran(verdict):
            return None
        if later is not None:
            return Concern(test, TestChange.FEWER if later.ran else TestChange.SKIPPED)
        if change is TestChange.RENAMED and _runs(moved_to, now):
            return None
        return Concern(test, TestChange.REMOVED)
    if change is TestChange.SAME and sources.differ and (later is None or later.holds):
        change = TestChange.SURROUNDINGS
    return Concern(test, change, _failure(test, verdict, old), moved_to)


def _failure(test: str, verdict: Verdict, old: Mapping[str, Verdict]) -> str:
    then = old.get(test) or old.get(f"{test.rpartition('::')[0]}::")  # or of its whole module
    if then is None:
        return "it does not run"
    if then.failed:
        return then.message or "no message"
    return f"{_ran(then)} of {_ran(verdict)} cases run"


def _ran(verdict: Verdict) -> int:
    return verdict.passed + verdict.failed


def _runs(moved_to: str, now: Mapping[str, Verdict]) -> bool:
    name = moved_to.rpartition("::")[2].rpartition(".")[2]
    return any(test.rpartition("::")[2] == name and each.ran for test, each in now.items())
