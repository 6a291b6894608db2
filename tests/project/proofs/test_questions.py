"""The questions about changed tests, as they are kept and read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.git_repositories import git

from playbook_supervisor.project.proofs.questions import keep_question, question
from playbook_supervisor.system.git import checkout

LINES = ("tests/test_a.py:", "  -    assert f(1) == 2", "", "  +    assert f(1) == 3")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    return tmp_path


def folder(root: Path) -> Path:
    return checkout.find(root).runtime / "questions"


def test_the_lines_are_read_by_the_digest_under_which_they_were_kept(root: Path) -> None:
    digest = keep_question(root, LINES)
    assert len(digest) == 24
    assert question(root, digest) == LINES
    assert keep_question(root, LINES) == digest
    assert question(root, keep_question(root, ())) == ()


def test_lines_that_are_not_there_or_were_changed_are_none(root: Path) -> None:
    digest = keep_question(root, LINES)
    file = folder(root) / digest
    for wrong in ("0" * 24, "", "../../config", f"{digest}\n"):
        assert question(root, wrong) == ()
    for data in (file.read_bytes().replace(b"3", b"2"), b"\xff", b"x" * (2 << 20)):
        file.write_bytes(data)
        assert question(root, digest) == ()


def test_kept_lines_are_harmless(root: Path) -> None:
    hostile = ("\x1b[2J+ gone\u202e\x07", "+ two\nlines", "\ud800")
    shown = question(root, keep_question(root, hostile))
    assert shown == ("+ gone", "+ two lines", "")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["+ a\u202eb"], ["+ ab"]),
        (["+ a\nb"], ["+ a b"]),
        (["a", "b"], ["a\nb"]),
        (["x" * 9_000 + "1"], ["x" * 9_000 + "2"]),
    ],
    ids=["unseen", "a line break", "two lines", "a long line"],
)
def test_changes_that_look_alike_have_different_digests(
    root: Path, one: list[str], other: list[str]
) -> None:
    assert keep_question(root, one) != keep_question(root, other)


def test_a_large_change_is_cut_and_counted(root: Path) -> None:
    shown = question(root, keep_question(root, ["\u20ac" * 9_000] * 9_000))
    assert len(shown) == 501
    assert shown[-1] == "… 8500 more lines"
    assert {len(line) for line in shown[:-1]} == {400}


def test_the_newest_64_are_kept(root: Path) -> None:
    digests = []
    for number in range(70):
        digests.append(keep_question(root, [str(number)]))
        os.utime(folder(root) / digests[-1], ns=(number, number))
    kept = [digest for digest in digests if question(root, digest)]
    assert kept == digests[-64:]
    assert len(list(folder(root).iterdir())) == 64
