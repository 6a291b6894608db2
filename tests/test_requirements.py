"""Every requirement is listed with its tests, and none loses its last one unnoticed."""

from __future__ import annotations

from pathlib import Path

import generate_requirements as requirements
import pytest

GROUPS = [
    requirements.Group("Functions", "kai", {f"FR{n}": f"It does {n}" for n in range(1, 6)}),
    requirements.Group(
        "Playbooks",
        "tyr",
        {"1": "One", "2": "Two", "3": "Three", "4": "Four"},
        planned=["1", "3"],
        differs={"2": "two halves"},
        shown={"4": "Measured by `make bench`"},
    ),
]


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_one.py").write_text(
        '"""Tyrum 3."""\n'
        "class TestAll:\n"
        '    """kai FR2 to FR4,\n    and FR5: all of it."""\n'
        "    def test_it_does_of_1_1(self) -> None:\n"
        '        """kai FR5."""\n'
        "def helper():\n"
        '    """kai FR1 is not proved by a helper."""\n'
    )
    return folder


def test_the_committed_page_claims_no_test_that_is_gone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """After a change on purpose: `python tools/generate_requirements.py`."""
    code = requirements.main(["--check"])
    assert code == 0, capsys.readouterr().out


def test_a_requirement_is_proved_by_tests_whose_docstrings_name_it(tests: Path) -> None:
    page = requirements.page(GROUPS, requirements.mentions(GROUPS, tests))
    file = "(../tests/test_one.py)"
    assert "| `FR1` | It does 1 | *without a test* |" in page
    for each in ("FR2", "FR3", "FR4"):
        assert f"| `{each}` | It does {each[2]} | [all]{file} |" in page
    assert f"| `FR5` | It does 5 | [all]{file}<br>[all it does of 1.1]{file} |" in page
    assert "| `1` | One | *planned* |" in page
    assert "| `2` | Two (instead: two halves) | *met in another way* |" in page
    assert f"| `3` | Three | [all of test_one.py]{file}<br>*the rest is planned* |" in page
    assert "| `4` | Four | Measured by `make bench` |" in page


def test_the_page_counts_them(tests: Path) -> None:
    page = requirements.page(GROUPS, requirements.mentions(GROUPS, tests))
    assert "| requirements | 9 |" in page
    assert "| with a test | 4 |" in page
    assert "| met in another way | 2 |" in page
    assert "| planned | 2 |" in page


def test_a_docstring_that_names_no_requirement_is_an_error(tests: Path) -> None:
    (tests / "test_two.py").write_text('"""kai FR99."""\n')
    with pytest.raises(ValueError, match=r"tests/test_two\.py: `kai FR99` is no requirement"):
        requirements.mentions(GROUPS, tests)


def test_a_requirement_that_loses_its_last_test_is_named(
    tests: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = requirements.page(GROUPS, requirements.mentions(GROUPS, tests))
    committed = tests.parent / "requirements.md"
    monkeypatch.setattr(requirements, "TARGET", committed)
    committed.write_text(page.replace("*without a test*", "[gone](../tests/test_gone.py)"))
    monkeypatch.setattr(requirements, "groups", lambda: GROUPS)
    every = requirements.mentions(GROUPS, tests)
    monkeypatch.setattr(requirements, "mentions", lambda _: every)
    assert requirements.main(["--check"]) == 1
    assert capsys.readouterr().out == "Functions: no test names FR1 any more\n"
    assert requirements.main([]) == 0
    assert committed.read_text() == page
