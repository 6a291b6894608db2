"""What a report says against the work, in its own words."""

from __future__ import annotations

import pytest

from playbook_supervisor.sessions.gate.gate_context import faults_in

REPORT = """\
---
verdict: FAIL
---
# QA report: 3 failed criteria

## Results
- ✓ AC-1 greets by name
- ✅ AC-2 error handling
- [x] AC-3 no test fails
- ✗ AC-4 an empty name is accepted
- [ ] AC-5 Unicode names
| AC-6 | PASS | errors are logged |
| AC-7 | FAIL | the help is silent |

0 errors in the linter, no failures on Windows.
The work cannot be released.

**Verdict**: FAIL
"""


def test_the_lines_that_name_a_fault_are_quoted_in_their_order() -> None:
    assert list(faults_in(REPORT)) == [
        "- ✗ AC-4 an empty name is accepted",
        "- [ ] AC-5 Unicode names",
        "| AC-7 | FAIL | the help is silent |",
        "The work cannot be released.",
    ]


@pytest.mark.parametrize(
    ("text", "around"),
    [
        ("# QA\n\nVerdict: FAIL\n\nThe key is in the log.\n", ["The key is in the log."]),
        ("# QA\n\nThe key is in the log.\n\nVerdict: FAIL\n", ["# QA", "The key is in the log."]),
        ("verdict: STALE\nreason: the plan is newer\n", ["reason: the plan is newer"]),
        ("---\nverdict: FAIL\n---\n", []),
        ("", []),
    ],
)
def test_a_report_that_names_none_is_quoted_around_its_verdict(
    text: str, around: list[str]
) -> None:
    assert list(faults_in(text)) == around


def test_a_hostile_report_is_harmless() -> None:
    (line,) = faults_in("FAIL: \x1b[2Jgone\u202e\x07" + "x" * 5_000 + "\nverdict: FAIL\n")
    assert line.isprintable()
    assert len(line) <= 300


@pytest.mark.parametrize("text", ["fail " * 200_000, "not " * 200_000, "- [ ] x\n" * 100_000])
def test_a_huge_report_is_read_in_one_pass(text: str) -> None:
    assert next(faults_in(text[:200_000]))
