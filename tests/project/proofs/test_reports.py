"""Reports of tests as runners write them, and as code under test may forge them."""

from __future__ import annotations

import pytest

from playbook_supervisor.errors import ConditionError
from playbook_supervisor.project.proofs.judgement import Verdict, read_reports

PYTEST = b"""<?xml version="1.0"?><testsuites><testsuite name="pytest">
<testcase classname="tests.test_a.TestA" name="test_one[1-x]" time="0.1"/>
<testcase classname="tests.test_a.TestA" name="test_one[2]" time="?">
  <failure message="assert 1 == 2">def test_one(): ...</failure></testcase>
<testcase classname="tests.test_a" name="test_two">
  <skipped type="pytest.xfail" message="later"/></testcase>
<testcase classname="tests.test_a" name="test_three">
  <error message="NameError: name 'x' is not defined">...</error></testcase>
<testcase classname="" name="tests.test_b"><error message="collection failure">no</error></testcase>
</testsuite></testsuites>"""

NODE = b"""<testsuites>
<testcase name="adds" classname="test" file="add.test.js"/>
<testsuite name="outer"><testsuite name="inner"><testcase name="deep" classname="test">
  <failure type="TypeError" message="boom"/><rerunFailure/></testcase></testsuite></testsuite>
</testsuites>"""


def test_cases_of_one_function_are_counted_together() -> None:
    found = read_reports([PYTEST])
    one = found["tests.test_a.TestA::test_one"]
    assert (one.passed, one.failed, one.message, one.cause) == (1, 1, "assert 1 == 2", "assertion")
    assert found["tests.test_a::test_two"] == Verdict(skipped=1)
    assert not found["tests.test_a::test_two"].ran
    assert found["tests.test_a::test_three"].cause == "name"


def test_a_module_that_cannot_be_loaded_is_a_failed_test_without_a_name() -> None:
    assert read_reports([PYTEST])["tests.test_b::"].failed == 1


def test_a_script_that_cannot_be_loaded_is_one_too() -> None:
    failed = '<testcase classname="{}" name="{}"><failure message="no"/></testcase>'
    node, vitest = ("test", "/tmp/room/a.test.mjs"), ("src/a.test.ts", "src/a.test.ts")
    for group, name in (node, vitest):
        text = f"<testsuites>{failed.format(group, name)}</testsuites>".encode()
        assert [*read_reports([text])] == [f"{name}::"]
    plain = f"<testsuites>{failed.format('adds', 'adds')}</testsuites>".encode()
    assert [*read_reports([plain])] == ["adds::adds"]


def test_tests_are_found_in_suites_of_suites_and_in_none() -> None:
    found = read_reports([NODE])
    assert found["test::adds"] == Verdict(passed=1, file="add.test.js")
    deep = found["test::deep"]
    assert (deep.failed, deep.cause, deep.retried) == (1, "other", True)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"no xml",
        b"<testsuites><testcase>",
        b"<html/>",
        b'<!DOCTYPE x [<!ENTITY a "b">]><testsuites/>',
        b"<?xml version='1.0' encoding='no-such'?><testsuites/>",
    ],
)
def test_what_is_no_report_is_an_error_that_says_so(text: bytes) -> None:
    with pytest.raises(ConditionError, match="its report is no JUnit XML"):
        read_reports([text])


def test_a_file_that_could_not_be_loaded_says_why() -> None:
    report = (
        "<testsuite><testcase classname='' name='test_a'><error message='collection failure'>"
        "ImportError while importing\ntest_a.py:1: in &lt;module&gt;\n"
        "E   ModuleNotFoundError: No module named 'made'</error></testcase></testsuite>"
    )
    ((_, verdict),) = read_reports([report.encode()]).items()
    assert verdict.message == "ModuleNotFoundError: No module named 'made'"
    assert verdict.cause == "name"
