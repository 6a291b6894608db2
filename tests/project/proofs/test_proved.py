"""`proved`: what an agent does to the tests, and what a check says of it then."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal, cast

import pytest
from support.git_repositories import git, put

from playbook_supervisor.kernel.directives import Answer
from playbook_supervisor.project.proofs.proved import Judgement, Options, judge
from playbook_supervisor.project.proofs.questions import question
from playbook_supervisor.project.settings.checks import Checking, Proof
from playbook_supervisor.project.settings.config import CLEAN, Bounds, CheckSpec, Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.git.tree import pinned_now, tree_id

if TYPE_CHECKING:
    from playbook_supervisor.project.settings.checks import Proofs

PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # our plugins take longer than these tests
UNITTEST = (sys.executable, "-m", "unittest", "-q")
PROGRAMS = Config(allow=Bounds(cli=("**", "*")))

WRONG, RIGHT = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
TESTS = """\
from calc import add


def test_add():
    assert add(2, 3) == 5


def test_zero():
    assert add(0, 0) == 0
"""
CASES = """\
import unittest
from calc import add


class TestAdd(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)
"""

ALL = Options()

Change = Callable[[Path], object]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def project(tmp_path: Path, **files: str) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q")
    for name, text in ({"calc.py": WRONG, "test_calc.py": TESTS} | files).items():
        put(root, name, text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "begin")
    return root


def judged(
    root: Path,
    change: Change,
    argv: tuple[str, ...] = PYTEST,
    options: Options = ALL,
    said: list[str] | None = None,
) -> Judgement:
    pinned = pinned_now(root)
    begun = tree_id(root, pinned)
    change(root)
    pinned = replace(pinned, tree=begun)
    spec = CheckSpec("test", argv, 60, ALONE, CLEAN)
    checking = Checking(say=(said if said is not None else []).append)
    return judge(spec, options, root, PROGRAMS, checking, pinned)


def fix(root: Path) -> None:
    put(root, "calc.py", RIGHT)


def names_its_runner(root: Path) -> None:
    put(root, "calc.py", RIGHT + "\n\ndef under_test():\n    import pytest\n")
    put(root, "sitecustomize.py", "")


def test_an_honest_fix_is_proved_and_the_evidence_says_by_what(tmp_path: Path) -> None:
    root, said = project(tmp_path), list[str]()
    found = judged(root, fix)
    assert found.answer is Answer.HELD, found
    assert found.evidence.startswith("2 tests passed in ")
    assert "a test that must fail did" in found.evidence
    assert "2 tests of the beginning agree (1 of them failed then)" in found.evidence
    spec = CheckSpec("test", PYTEST, 60, ALONE, CLEAN)
    again = judge(spec, ALL, root, PROGRAMS, Checking(say=said.append), pinned_now(root))
    assert (again, said) == (found, [])  # the last commit is the beginning, and no run is made


def test_required_new_tests_that_prove_nothing_are_refused(tmp_path: Path) -> None:
    def change(root: Path) -> None:
        fix(root)
        put(root, "test_more.py", "def test_nothing():\n    pass\n")

    found = judged(project(tmp_path), change, options=Options(new_tests=True))
    assert (found.answer, found.asked) == (Answer.NOT_HELD, "")
    assert "no new or changed test failed with the code of the beginning" in found.evidence


def test_layout_comments_and_another_name_of_a_test_are_no_question(tmp_path: Path) -> None:
    def change(root: Path) -> None:
        fix(root)
        moved = TESTS.replace("== 5", "==    5").replace("def test_zero", "def test_nought")
        put(root, "test_calc.py", f"# tests\n{moved}")

    assert judged(project(tmp_path), change).answer is Answer.HELD


ASKED: dict[str, tuple[Change, str]] = {
    "deleted": (
        lambda root: put(root, "test_calc.py", "def test_other():\n    pass\n"),
        "test_calc::test_add: removed",
    ),
    "selected": (
        lambda root: put(root, "pytest.ini", "[pytest]\naddopts = -k test_zero\n"),
        "test_calc::test_add: same test, changed surroundings",
    ),
    "code that names its runner, and a file that loads by itself": (
        names_its_runner,
        "calc.py:6: import pytest\nsitecustomize.py: new, and it may load by itself",
    ),
}


def test_code_that_is_as_wrong_as_before_is_refused(tmp_path: Path) -> None:
    found = judged(project(tmp_path), lambda root: None)
    assert (found.answer, found.asked) == (Answer.NOT_HELD, "")


@pytest.mark.parametrize("cheat", ASKED)
def test_a_change_of_what_the_tests_say_is_a_question(tmp_path: Path, cheat: str) -> None:
    change, line = ASKED[cheat]
    root = project(tmp_path)
    found = judged(root, change)
    assert (found.answer, bool(found.asked)) == (Answer.NOT_HELD, True), found
    assert set(line.splitlines()) <= {*question(root, found.asked)}


FORMS = """\
from pathlib import Path

import pytest
from calc import CASES, add


class TestSums:
    def test_method(self):
        assert add(0, 0) == 0


if len(CASES) > 1:

    def test_under_a_condition():
        assert add(0, 0) == 0


@pytest.mark.parametrize("case", CASES)
def test_cases(case):
    assert case


@pytest.mark.parametrize("line", Path("tests/lines.txt").read_text().split())
def test_lines(line):
    assert line
"""
CASES_OF_CODE = "CASES = [1, 2]\n\n\n"
SKIPPING = "import pytest\n\n\ndef pytest_collection_modifyitems(items):\n"
SKIPPING += "    [each.add_marker(pytest.mark.skip) for each in items if 'cases' in each.name]\n"


def shifted(root: Path) -> None:
    put(root, "calc.py", CASES_OF_CODE + RIGHT.replace("a + b", "a + b + 1"))
    put(root, "test_calc.py", FORMS.replace("== 0", "== 1"))
    put(root, "conftest.py", SKIPPING)
    put(root, "tests/lines.txt", "one\n")


FORMED: dict[str, tuple[Change, bool, tuple[str, ...]]] = {
    "a method, a function under a condition, a skip from outside and fewer lines of data": (
        shifted,
        True,
        (
            "test_calc.TestSums::test_method: changed",
            "test_calc::test_under_a_condition: changed",
            "test_calc::test_cases: skipped now",
            "test_calc::test_lines: fewer cases",
        ),
    ),
    "code that makes fewer cases": (
        lambda root: put(root, "calc.py", "CASES = [1]\n\n\n" + RIGHT),
        False,
        (
            "test_calc::test_cases: unchanged (as it was, it fails: 1 of 2 cases run)",
            "test_calc::test_under_a_condition: unchanged (as it was, it fails: it does not",
        ),
    ),
}


@pytest.mark.parametrize("work", FORMED)
def test_each_form_of_a_test_is_compared(tmp_path: Path, work: str) -> None:
    change, is_question, lines = FORMED[work]
    begun = {"calc.py": CASES_OF_CODE + RIGHT, "test_calc.py": FORMS, "tests/lines.txt": "one two"}
    root = project(tmp_path, **begun)
    found = judged(root, change)
    assert (found.answer, bool(found.asked)) == (Answer.NOT_HELD, is_question), found
    said = question(root, found.asked) if is_question else found.evidence
    assert all(line in said for line in lines), said


def test_tests_that_could_not_be_read_at_the_beginning_are_new(tmp_path: Path) -> None:
    def change(root: Path) -> None:
        fix(root)
        put(root, "test_calc.py", TESTS)

    found = judged(project(tmp_path, **{"test_calc.py": "def test_add(:\n"}), change)
    assert found.answer is Answer.HELD, found
    assert "2 new or changed tests" in found.evidence


def test_parts_are_left_out_by_name_and_the_evidence_says_so(tmp_path: Path) -> None:
    root = project(tmp_path)
    options = Options(frozenset({"alarm", "old_tests", "as_many"}))
    found = judged(root, ASKED["deleted"][0], options=options)
    assert found.answer is Answer.HELD
    assert "without old_tests, as_many, alarm" in found.evidence


CASES_OF_ONE = """\
import pytest
from calc import add


@pytest.mark.parametrize(("one", "sum"), [(0, 3), (3, 0), (4, 1)])
def test_add(one, sum):
    assert add(one, 3) == sum
"""
RED_CHANGES: dict[str, tuple[str, bool]] = {
    WRONG.replace("a - b", "None"): ("calc.py", False),  # more of its cases fail
    CASES_OF_ONE.replace("(0, 3), ", ""): ("test_calc.py", True),  # it has fewer cases
    "def test_it():\n    pass\n": ("test_calc.py", True),  # it is removed
}


@pytest.mark.long
def test_what_failed_at_the_beginning_may_fail_as_it_did_and_no_other_way(tmp_path: Path) -> None:
    root = project(tmp_path, **{"test_calc.py": CASES_OF_ONE})
    assert judged(root, lambda root: put(root, "more.py")).answer is Answer.NOT_HELD
    red = Options(red=True)
    found = judged(root, lambda root: put(root, "more.py", "VALUE = 1\n"), options=red)
    assert found.answer is Answer.HELD, found
    assert "1 failed as at the beginning" in found.evidence
    for text, (file, is_question) in RED_CHANGES.items():
        git(root, "checkout", "-q", ".")
        begun = replace(pinned_now(root), tree=tree_id(root))
        put(root, file, text)
        spec = CheckSpec("test", PYTEST, 60, ALONE, CLEAN)
        found = judge(spec, red, root, PROGRAMS, Checking(), begun)
        assert (found.answer, bool(found.asked)) == (Answer.NOT_HELD, is_question), found


def test_without_tests_of_the_beginning_the_evidence_says_so(tmp_path: Path) -> None:
    def change(root: Path) -> None:
        put(root, "calc.py", RIGHT)
        put(root, "test_calc.py", TESTS)

    root = project(tmp_path)
    git(root, "rm", "-q", "-r", ".")
    found = judged(root, change)
    assert found.answer is Answer.HELD, found
    assert "no test is known from the beginning" in found.evidence


NODE_TEST = """\
const test = require('node:test');
const assert = require('node:assert');
const calc = require('./calc.js');
test('NAME', () => assert.strictEqual(calc.NAME(2), 4));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_tests_in_files_that_have_not_changed_are_not_new(tmp_path: Path) -> None:
    def change(root: Path) -> None:
        put(root, "calc.js", f"{doubled}exports.square = (a) => a * a;\n")
        put(root, "square.test.js", NODE_TEST.replace("NAME", "square"))

    doubled = "exports.double = (a) => 2 * a;\n"
    begun = {"calc.js": doubled, "double.test.js": NODE_TEST.replace("NAME", "double")}
    found = judged(project(tmp_path, **begun), change, (shutil.which("node") or "node", "--test"))
    assert found.answer is Answer.HELD, found
    assert "; 1 new or changed test: 1 failed with the code of the beginning" in found.evidence


# ── other runners ───────────────────────────────────────────────────────────────────────────


def test_where_only_the_exit_status_is_known_the_tests_of_the_beginning_decide(
    tmp_path: Path,
) -> None:
    root = project(tmp_path, **{"test_calc.py": CASES})
    found = judged(root, fix, UNITTEST)
    assert found.answer is Answer.HELD, found
    assert "only the exit status is known" in found.evidence
    assert "the tests of the beginning agree" in found.evidence


def test_a_new_test_file_that_ends_the_run_is_refused_there(tmp_path: Path) -> None:
    root = project(tmp_path, **{"test_calc.py": CASES})
    found = judged(root, lambda root: put(root, "test_a.py", "import os\nos._exit(0)\n"), UNITTEST)
    assert (found.answer, found.asked) == (Answer.NOT_HELD, ""), found
    assert found.evidence.startswith("with the tests of the beginning: exit 1, ")


def test_changed_tests_are_a_question_there_too(tmp_path: Path) -> None:
    root = project(tmp_path, **{"test_calc.py": CASES})
    put(root, "test_other.py", CASES.replace("add(2, 3), 5", "add(0, 0), 0"))

    found = judged(root, lambda root: put(root, "test_calc.py", "VALUE = 1\n"), UNITTEST)
    assert found.asked, found
    assert "test_calc.py: changed" in question(root, found.asked)


# ── other ways to run ───────────────────────────────────────────────────────────────────────

JUNIT = (
    "<testsuites><testsuite><testcase classname='test_calc' name='test_add'/>{}"
    "</testsuite></testsuites>"
)
FAILED = "<testcase classname='test_calc' name='test_b'><failure message='no'/></testcase>"


def told(
    root: Path,
    script: str,
    *,
    room: Literal["here", "clean"] = CLEAN,
    report: str = "",
    keep: Callable[[Proof], None] | None = None,
) -> Judgement:
    """The judgement of a check that is a shell script, on a changed file."""
    pinned = replace(pinned_now(root), tree=tree_id(root))
    put(root, "calc.py", RIGHT)
    spec = CheckSpec("test", ("sh", "-c", script), 60, {}, room, report=report)
    kept = SimpleNamespace(keep=keep, lookup=None) if keep else None
    checking = Checking(proofs=cast("Proofs | None", kept))
    return judge(spec, ALL, root, PROGRAMS, checking, pinned)


def test_in_the_checkout_each_change_of_tests_is_a_question(tmp_path: Path) -> None:
    root = project(tmp_path)
    pinned = replace(pinned_now(root), tree=tree_id(root))
    put(root, "test_calc.py", TESTS.replace("== 5", "== -1"))
    put(root, "tests/data.bin", "a\0b")
    spec = CheckSpec("test", PYTEST, 60, {"PYTHONDONTWRITEBYTECODE": "1", **ALONE})
    found = judge(spec, ALL, root, PROGRAMS, Checking(), pinned)
    assert found.asked, found
    lines = question(root, found.asked)
    assert "test_calc.py: changed" in lines
    assert any(line.startswith("tests/data.bin: new, 0 to 3 bytes, ") for line in lines)


@pytest.mark.parametrize(
    ("script", "answer", "said"),
    [
        ("exit 3", Answer.NOT_HELD, "exit 3"),
        ("true", Answer.ERROR, "it wrote no report at out.xml"),
        (f'echo "{JUNIT.format("")}" > out.xml; exit 2', Answer.ERROR, "no failed test, but ended"),
        (f'echo "{JUNIT.format(FAILED)}" > out.xml', Answer.ERROR, "but ended with exit status 0"),
    ],
)
def test_a_report_and_an_exit_status_have_to_agree(
    tmp_path: Path, script: str, answer: Answer, said: str
) -> None:
    found = told(project(tmp_path), script, report="out.xml")
    assert (found.answer, found.asked) == (answer, ""), found
    assert said in found.evidence


def test_a_check_for_which_no_test_can_fail_says_so_and_needed_retries_are_named(
    tmp_path: Path,
) -> None:
    retried = FAILED.replace("failure", "rerunFailure")
    script = f'echo "{JUNIT.format(retried)}" > out.xml'
    proofs: list[Proof] = []
    found = told(project(tmp_path), script, report="*.xml", keep=proofs.append)
    assert found.answer is Answer.HELD, found
    assert "no test that must fail could be added" in found.evidence
    assert "test_calc::test_b needed a retry" in found.evidence
    assert [(proof.status, proof.clean) for proof in proofs] == [(0, True)]


FLAKY = """\
from pathlib import Path


def test_flaky():
    runs = Path({runs!r})
    runs.write_text((runs.read_text() if runs.exists() else "") + "x")
    assert len(runs.read_text()) % 2 == 0
"""


@pytest.mark.long
def test_what_passes_at_the_second_try_is_said_to_have_needed_it(tmp_path: Path) -> None:
    root = project(tmp_path, **{"test_flaky.py": FLAKY.format(runs=str(tmp_path / "runs"))})
    fix(root)
    spec = CheckSpec("test", PYTEST, 60, ALONE, CLEAN, tries=2)
    found = judge(spec, ALL, root, PROGRAMS, Checking(), pinned_now(root))
    assert found.answer is Answer.HELD, found
    assert "; the check needed a retry; " in found.evidence
    assert "3 tests of the beginning agree (1 of them failed then), after a retry" in found.evidence
    assert "a test that must fail did" in found.evidence


@pytest.mark.parametrize("left", ["", "ignored.log"])
def test_a_check_may_have_to_pass_in_the_checkout_too(tmp_path: Path, left: str) -> None:
    root = project(tmp_path, **{".gitignore": "*.log\n"})
    put(root, left or "calc.py", RIGHT)
    spec = CheckSpec("test", ("sh", "-c", "[ ! -e ignored.log ]"), 60, {}, CLEAN, also_here=True)
    found = judge(spec, ALL, root, PROGRAMS, Checking(), pinned_now(root))
    if left:
        assert found.answer is Answer.NOT_HELD
        assert found.evidence.startswith("in the checkout: check test: exit 1 in ")
    else:
        assert found.answer is Answer.HELD
        assert found.evidence.endswith("; it passes in the checkout, too")


def test_tests_that_make_the_old_code_pass_are_refused(tmp_path: Path) -> None:
    def change(root: Path) -> None:
        put(root, "test_calc.py", TESTS.replace("== 5", "== -1"))
        put(root, "other.py", "VALUE = 1\n")

    found = judged(project(tmp_path), change)
    assert (found.answer, found.asked) == (Answer.NOT_HELD, ""), found
    assert "the tests and not the code made these pass: test_calc::test_add" in found.evidence
