"""Checks of a project: which one is meant, real programs that run, and what they prove."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.controlled_time import gone, shorten_grace
from support.git_repositories import with_a_commit

from playbook_supervisor.errors import CheckError, ConditionError, PolicyError, StorageError
from playbook_supervisor.project.proofs.proving import prove
from playbook_supervisor.project.settings.checks import (
    Checking,
    Proof,
    faults,
    find_check,
    run_check,
    telling_line,
)
from playbook_supervisor.project.settings.config import Bounds, CheckSpec, Config
from playbook_supervisor.system.git.tree import tree_id
from playbook_supervisor.system.process.cancellation import Interrupted, cancelled_by


class KeptProofs:
    def __init__(self) -> None:
        self.kept: list[Proof] = []

    def lookup(self, key: str, tree: str) -> Proof | None:
        found = [each for each in self.kept if (each.key, each.tree) == (key, tree)]
        return found[-1] if found else None

    def keep(self, proof: Proof) -> None:
        self.kept.append(proof)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return with_a_commit(tmp_path / "project")


def python(code: str, timeout_seconds: float = 60) -> CheckSpec:
    return CheckSpec("test", (sys.executable, "-I", "-S", "-c", code), timeout_seconds)


def shell(command: str, timeout_seconds: float = 60) -> tuple[CheckSpec, Config]:
    spec = CheckSpec("test", ("sh", "-c", command), timeout_seconds)
    return spec, Config(allow=Bounds(cli=("sh",)))


# ── which check ─────────────────────────────────────────────────────────────────────────────

MAKE = CheckSpec("test", ("make", "test"), 60, {"CI": "1"})
CONFIG = Config(checks={"test": MAKE, "lint": CheckSpec("lint", ("ruff",))})


def test_a_secret_that_a_check_prints_is_in_nothing_that_is_kept(root: Path) -> None:
    """By value; the line is quoted in the journal."""
    said: list[str] = []
    checking = Checking(say=said.append, secrets=("hunter2-of-ann",))
    ran = run_check(python("print('1 passed for hunter2-of-ann')"), root, Config(), checking)
    assert ran.line == "1 passed for [redacted]"
    assert not any("hunter2" in text for text in (ran.output, *said))


def test_a_check_is_found_by_its_name() -> None:
    assert find_check("test", CONFIG) == MAKE


def test_a_program_of_its_own_is_split_by_posix_quoting() -> None:
    assert find_check("cli make 'all tests' -k", CONFIG).argv == ("make", "all tests", "-k")
    assert find_check("cli make", CONFIG).name == "cli make"


@pytest.mark.parametrize(
    ("parameter", "told"),
    [
        ("tset", "the config defines no check 'tset'; did you mean test?"),
        ("everything", "the config defines no check 'everything'; there are test, lint"),
        ("cli make 'x", '"cli make \'x" is not a check: No closing quotation'),
        ("\x1b[2J", "the config defines no check ''; there are test, lint"),
    ],
)
def test_an_unknown_check_is_refused_with_those_that_there_are(parameter: str, told: str) -> None:
    with pytest.raises(CheckError) as caught:
        find_check(parameter, CONFIG)
    assert (caught.value.code, caught.value.message) == ("PB-CHECK-UNDEFINED", told)
    assert "under `checks`" in caught.value.guidance or "cli make" in caught.value.message


# ── the line that says most ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("..\n======== 312 passed, 2 skipped in 1s ========\n", "312 passed, 2 skipped in 1s"),
        ("1 failed, 3 passed\nmake: *** [Makefile:2: test] Error 1", "1 failed, 3 passed"),
        ("Ran 3 tests in 0.001s\n\nFAILED (failures=1)", "FAILED (failures=1)"),
        ("ℹ tests 3\nℹ pass 2\nℹ fail 1\nℹ duration_ms 45.2", "ℹ fail 1"),
        ("test result: ok. 5 passed; 0 failed\n", "test result: ok. 5 passed; 0 failed"),
        ("3 examples, 0 failures", "3 examples, 0 failures"),
        ("broken\nmake: *** [Makefile:2: test] Error 1", "broken"),
        ("\x1b[32m4 passed\x1b[0m\n", "4 passed"),
        ("x" * 500, "x" * 79 + "…"),
        ("\n \n", ""),
        ("", ""),
    ],
)
def test_the_line_that_says_most_is_quoted(output: str, line: str) -> None:
    assert telling_line(output.split("\n")) == line


@pytest.mark.parametrize(
    ("output", "named"),
    [
        (
            "F\n=====\nFAIL: test_a (test_a.A.test_a)\n-----\nTraceback:\n  File x\n"
            "AssertionError: 1 != 2\n\nRan 1 test in 0.001s\n\nFAILED (failures=1)",
            ["FAIL: test_a (test_a.A.test_a)", "AssertionError: 1 != 2"],
        ),
        ("ok 1 - a\nnot ok 2 - it greets\n# fail 1", ["not ok 2 - it greets"]),
        ("--- FAIL: TestA (0.00s)\n    a_test.go:3: bad\nFAIL", ["FAIL: TestA (0.00s)"]),
        ("a.c:3:1: error: expected ';'\n", ["a.c:3:1: error: expected ';'"]),
        ("FAIL: a\nmake: *** [Makefile:2: test] Error: 1\n", ["FAIL: a"]),
        ("no fault\nis\nnamed\nhere", ["named", "here"]),
        ("", []),
    ],
)
def test_the_lines_that_name_a_fault_come_before_the_last_ones(
    output: str, named: list[str]
) -> None:
    assert faults(output.split("\n"), 2) == named


# ── running ─────────────────────────────────────────────────────────────────────────────────


def test_a_check_runs_at_the_top_with_its_variables(root: Path) -> None:
    said: list[str] = []
    watched: list[str] = []
    shown: list[str] = []

    @contextmanager
    def watch(name: str) -> Iterator[Callable[[str], None]]:
        watched.append(name)
        yield shown.append
        watched.append("over")

    spec = CheckSpec(
        "test",
        (
            sys.executable,
            "-c",
            "import os; print(os.getcwd(), os.environ['CI']); print('3 passed')",
        ),
        env={"CI": "yes"},
    )
    run = run_check(spec, root, Config(), Checking(watch=watch, say=said.append))
    assert (run.status, run.line, run.timed_out) == (0, "3 passed", False)
    assert run.output == f"{root} yes\n3 passed\n"
    assert said == shown == [f"{root} yes", "3 passed"]
    assert watched == ["test", "over"]


def test_a_check_that_hangs_is_ended_at_its_deadline(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_grace(monkeypatch)
    spec, config = shell("trap '' TERM; echo begun; sleep 600", timeout_seconds=0.5)
    run = run_check(spec, root, config)
    assert run.timed_out
    assert run.line == "begun"
    assert run.seconds < 30


def test_what_a_check_leaves_behind_ends_with_it(root: Path, tmp_path: Path) -> None:
    spec, config = shell("sleep 600 & echo $!")
    run = run_check(spec, root, config, Checking(worker_file=tmp_path / "check.worker"))
    assert run.status == 0
    assert not (tmp_path / "check.worker").exists()
    assert gone(int(run.line))


def test_endless_output_is_capped(root: Path) -> None:
    code = "import os\nfor _ in range(2000): os.write(1, b'x' * 9_999 + b'\\n')\nprint('7 passed')"
    run = run_check(python(code), root, Config())
    assert (run.status, run.line) == (0, "7 passed")
    assert len(run.output) < 1_100_000
    assert "bytes left out" in run.output


def test_a_program_that_cannot_be_started_is_an_error(root: Path) -> None:
    with pytest.raises(StorageError) as caught:
        run_check(CheckSpec("test", ("./no-such-program",)), root, Config())
    assert caught.value.code == "PB-IO-PROGRAM"


def test_a_program_that_the_settings_refuse_does_not_run(root: Path) -> None:
    spec, _ = shell("touch ran")
    with pytest.raises(PolicyError) as caught:
        run_check(spec, root, Config())
    assert caught.value.code == "PB-POLICY-DENIED"
    assert not (root / "ran").exists()


def test_a_person_who_stops_it_is_not_a_result(root: Path) -> None:
    stopped = threading.Event()
    threading.Timer(0.3, stopped.set).start()
    with cancelled_by(stopped.is_set), pytest.raises(Interrupted):
        run_check(python("while True: pass"), root, Config())


# ── proving ─────────────────────────────────────────────────────────────────────────────────


def counted_check(root: Path, code: str = "") -> CheckSpec:
    """A check that counts its runs in a file that git does not see."""
    count = "open('.git/runs', 'a').write('x')"
    return python(f"{count}\n{code}\nprint('3 passed')")


def runs(root: Path) -> int:
    return len((root / ".git/runs").read_text())


def test_a_check_is_not_run_twice_on_one_tree(root: Path) -> None:
    proofs = KeptProofs()
    spec = counted_check(root)
    first, before = prove(spec, root, Config(), Checking(proofs, by="implement#2"))
    assert not before
    assert (first.status, first.tree, first.by) == (0, tree_id(root), "implement#2")
    assert first.evidence.endswith(f'"3 passed", tree {first.tree[:7]}')
    assert prove(spec, root, Config(), Checking(proofs, by="pr#1")) == (first, True)
    assert runs(root) == 1


def test_a_check_that_writes_files_the_first_time_proves_the_tree_with_them(root: Path) -> None:
    proofs = KeptProofs()
    proof, _ = prove(
        counted_check(root, "open('cache', 'w').write('x')"), root, Config(), Checking(proofs)
    )
    assert proof.tree == tree_id(root)
    assert (runs(root), proofs.kept) == (2, [proof])


def test_a_check_that_always_changes_the_tree_proves_nothing(root: Path) -> None:
    proofs = KeptProofs()
    code = "import time; open('report.xml', 'w').write(str(time.time_ns()))"
    with pytest.raises(ConditionError) as caught:
        prove(counted_check(root, code), root, Config(), Checking(proofs))
    assert caught.value.code == "PB-COND-CHECK"
    assert caught.value.message.endswith("it changes the tree that it is to prove: report.xml")
    assert ".gitignore" in caught.value.guidance
    assert (runs(root), proofs.kept) == (2, [])


def test_a_check_without_an_exit_status_proves_nothing(root: Path) -> None:
    with pytest.raises(ConditionError) as caught:
        prove(python("while True: pass", timeout_seconds=0.2), root, Config(), Checking())
    assert caught.value.message == "check test: it did not end within 0.2 s"
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(ConditionError, match="check test: SIGKILL ended it after"):
        prove(python(code), root, Config(), Checking())
