"""Every requirement is listed with the tests that prove it."""

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
        "    def test_it_does_of_1_1_s(self) -> None:\n"
        '        """kai FR5."""\n'
        "def helper():\n"
        '    """kai FR1 is not proved by a helper."""\n'
    )
    return folder


def test_every_requirement_has_a_test_and_the_page_names_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = requirements.main(["--check"])
    assert code == 0, capsys.readouterr().out


def test_a_requirement_is_proved_by_tests_whose_docstrings_name_it(tests: Path) -> None:
    page = requirements.page(GROUPS, requirements.mentions(GROUPS, tests))
    file = "(../tests/test_one.py)"
    assert "| `FR1` | It does 1 | *without a test* |" in page
    for each in ("FR2", "FR3", "FR4"):
        assert f"| `{each}` | It does {each[2]} | [all]{file} |" in page
    assert f"| `FR5` | It does 5 | [all]{file}<br>[all: it does of 1.1's]{file} |" in page
    assert "| `1` | One | *planned* |" in page
    assert "| `2` | Two (instead: two halves) | *met in another way* |" in page
    assert f"| `3` | Three | [all of test_one.py]{file}<br>*the rest is planned* |" in page
    assert "| `4` | Four | Measured by `make bench` |" in page


def test_a_row_without_a_test_and_a_page_that_is_out_of_date_are_faults(
    tests: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    committed = tests.parent / "requirements.md"
    committed.write_text("of last week")
    monkeypatch.setattr(requirements, "TARGET", committed)
    monkeypatch.setattr(requirements, "groups", lambda: GROUPS)
    every = requirements.mentions(GROUPS, tests)
    monkeypatch.setattr(requirements, "mentions", lambda _: every)
    assert requirements.main(["--check"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "Functions: no test names FR1",
        "requirements.md is out of date; run python tools/generate_requirements.py",
    ]
    assert requirements.main([]) == 0
    assert committed.read_text() == requirements.page(GROUPS, every)
    assert requirements.main(["--check"]) == 1
    assert capsys.readouterr().out == "Functions: no test names FR1\n"


def test_a_docstring_that_names_no_requirement_is_an_error(tests: Path) -> None:
    (tests / "test_two.py").write_text('"""kai FR99."""\n')
    with pytest.raises(ValueError, match=r"tests/test_two\.py: `kai FR99` is no requirement"):
        requirements.mentions(GROUPS, tests)
