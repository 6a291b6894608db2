"""Reports of tests as JUnit XML, read test by test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
