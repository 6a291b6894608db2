"""A failure by chance does not cost the whole run, and is never passed over in silence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ONCE = """
from pathlib import Path

def test_fails_once_{name}():
    mark = Path(__file__).with_suffix(".{name}")
    failed_before = mark.exists()
    mark.touch()
    assert failed_before, "the first time"
"""


@pytest.fixture
def tried(tmp_path: Path, unmeasured: None) -> Tried:
    return Tried(tmp_path)


class Tried:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, text: str, *options: str) -> tuple[int, str]:
        """The exit code, and what pytest prints, of a run of this test file."""
        (self._folder / "test_it.py").write_text(text)
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "second_try",
                *options,
                "-p",
                "no:cacheprovider",
            ],
            cwd=self._folder,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return ran.returncode, ran.stdout


@pytest.mark.parametrize("workers", [[], ["-n1"]])
def test_what_fails_once_passes_and_is_named_with_its_failure(
    tried: Tried, workers: list[str]
) -> None:
    code, out = tried(ONCE.format(name="a"), "--second-tries=1", *workers)
    assert code == 0
    assert "1 passed, 1 failed once" in out
    assert "failed once: test_it.py::test_fails_once_a" in out
    assert "AssertionError: the first time" in out


@pytest.mark.parametrize("workers", [[], ["-n1"]])
def test_what_fails_twice_fails(tried: Tried, workers: list[str]) -> None:
    code, out = tried("def test_it(): assert 1 == 2", "--second-tries=1", *workers)
    assert code == 1
    assert "1 failed, 1 failed once" in out


def test_a_process_has_so_many_and_no_more(tried: Tried) -> None:
    code, out = tried(ONCE.format(name="a") + ONCE.format(name="b"), "--second-tries=1")
    assert code == 1
    assert "1 failed, 1 passed, 1 failed once" in out


def test_whoever_does_not_ask_gets_none(tried: Tried) -> None:
    assert tried(ONCE.format(name="a"))[0] == 1


@pytest.mark.parametrize(("before", "after"), [("fail_once()", ""), ("", "fail_once()")])
def test_a_fixture_that_fails_once_costs_no_more(tried: Tried, before: str, after: str) -> None:
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
    code, out = tried(text, "--second-tries=1")
    assert code == 0
    assert "1 passed, 1 failed once" in out
