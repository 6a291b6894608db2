"""A test that fails by chance is repeated, and the failure is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support import second_try

pytest_plugins = ["pytester"]

ONCE = """
from pathlib import Path

def test_fails_once_{name}():
    mark = Path(__file__).with_suffix(".{name}")
    failed_before = mark.exists()
    mark.touch()
    assert failed_before, "the first time"
"""


TWICE = "def test_fails(): assert 1 == 2"

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """The exit code, and what pytest prints, of a run of a file with these tests."""

    def run(text: str, *options: str, workers: bool = False) -> tuple[int, str]:
        pytester.makepyfile(test_it=text)
        argv = ("-p", "no:cacheprovider", *options)
        if workers:
            done = pytester.runpytest_subprocess("-p", "support.second_try", *argv)
        else:
            done = pytester.runpytest_inprocess(*argv, plugins=[second_try])
        return int(done.ret), done.stdout.str()

    return run


def test_what_fails_once_passes_and_is_named_with_its_failure(run: Run) -> None:
    code, out = run(ONCE.format(name="a"), "--second-tries=1")
    assert code == 0
    assert "1 passed, 1 failed once" in out
    assert "failed once: test_it.py::test_fails_once_a" in out
    assert "AssertionError: the first time" in out


def test_what_fails_twice_fails(run: Run) -> None:
    code, out = run(TWICE, "--second-tries=1")
    assert code == 1
    assert "1 failed, 1 failed once" in out


def test_both_hold_in_workers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    text = f"{ONCE.format(name='a')}\n{TWICE}"
    code, out = run(text, "--second-tries=2", "-n1", workers=True)
    assert code == 1
    assert "1 failed, 1 passed, 2 failed once" in out
    assert "failed once: test_it.py::test_fails_once_a" in out
    assert "AssertionError: the first time" in out


def test_a_process_has_so_many_and_no_more(run: Run) -> None:
    code, out = run(ONCE.format(name="a") + ONCE.format(name="b"), "--second-tries=1")
    assert code == 1
    assert "1 failed, 1 passed, 1 failed once" in out


def test_there_is_none_by_default(run: Run) -> None:
    assert run(ONCE.format(name="a"))[0] == 1


@pytest.mark.parametrize(("before", "after"), [("fail_once()", ""), ("", "fail_once()")])
def test_a_fixture_that_fails_once_needs_one_second_try(run: Run, before: str, after: str) -> None:
    text = f"""
import pytest
{ONCE.format(name="a").replace("def test_fails_once_a", "def fail_once")}

@pytest.fixture
def frail():
    {before}
    yield
    {after}

def test_it(frail): pass
"""
    code, out = run(text, "--second-tries=1")
    assert code == 0
    assert "1 passed, 1 failed once" in out
