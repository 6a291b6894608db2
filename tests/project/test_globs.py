"""Patterns of paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.project.expressions.globs import flaw, matches, matches_any


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a.txt", "a.txt"),
        ("./a.txt", "a.txt"),
        ("src/?.py", "src/a.py"),
        ("src/**", "src/a.py"),
        ("src/", "src/deep/a.py"),
        ("**", "a"),
        ("", "a"),
        ("**/*.md", "read.md"),
        ("a/**/b", "a/b"),
        ("a/**/b", "a/x/y/b"),
        ("[ab]", "[ab]"),
        ("größe *", "größe 1"),
    ],
)
def test_what_a_pattern_means(pattern: str, path: str) -> None:
    assert matches(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*.md", "docs/read.md"),
        ("a?c", "a/c"),
        ("src/*", "src/deep/a.py"),
        ("src", "src/a.py"),
        ("A.txt", "a.txt"),
        ("a/**/b", "a/x/y/c"),
        ("src/**", "srcs/a.py"),
    ],
)
def test_what_a_pattern_does_not_mean(pattern: str, path: str) -> None:
    assert not matches(pattern, path)


def test_one_pattern_of_several_is_enough() -> None:
    assert matches_any(["docs/**", "src/**"], "src/a.py")
    assert not matches_any([], "src/a.py")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 500 + "b", "a" * 1000),
        ("**/a/" * 300 + "b", "/".join("a" * 1000)),
        ("**/*a*/" * 100 + "b", "/".join(["aa"] * 500)),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    """Exponential time would exceed the limit of a test."""
    assert not matches(pattern, path)


PARTS = st.lists(st.sampled_from(["a", "b", "ab", "aab"]), min_size=1, max_size=5)
GLOBS = st.lists(st.sampled_from(["a", "b", "*", "**", "a*", "?b", "*b*"]), min_size=1, max_size=5)


@given(PARTS, GLOBS)
def test_patterns_mean_what_a_regular_expression_means(parts: list[str], glob: list[str]) -> None:
    import re

    meant = ""
    for part in [*glob, *(["*"] if glob[-1] == "**" else [])]:
        one = part.replace("*", "[^/]*").replace("?", "[^/]")
        meant += "(?:[^/]+/)*" if part == "**" else f"{one}/"
    path = "/".join(parts)
    assert matches("/".join(glob), path) == bool(re.fullmatch(meant, f"{path}/"))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("src/**", ""),
        ("a..b/c", ""),
        (" ", "is empty"),
        ("/etc/passwd", "is not relative to the repository"),
        ("a/../../b", "leads out of the repository"),
        ("..", "leads out of the repository"),
    ],
)
def test_a_pattern_stays_in_the_repository(path: str, why: str) -> None:
    assert flaw(path) == why
