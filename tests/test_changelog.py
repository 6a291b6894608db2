"""A release has its section in the changelog, with its day, before anything is built."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys

import changelog
import pytest

from playbook_supervisor import __version__

TEXT = """\
# Changelog

## 1.1.0 – 2026-12-01

- `new`: a word

## 1.0.0 – 2026-11-01

The first release.
"""


def test_a_release_has_the_notes_of_its_own_section() -> None:
    assert changelog.notes("v1.1.0", "1.1.0", TEXT) == "- `new`: a word"


def test_notes_lead_to_the_files_of_the_release() -> None:
    text = "[a](docs/a.md) and [b](https://b.example)"
    said = changelog.with_addresses(text, "https://forge.example/us/it/blob/v1.1.0")
    assert (
        said == "[a](https://forge.example/us/it/blob/v1.1.0/docs/a.md) and [b](https://b.example)"
    )


@pytest.mark.parametrize(
    ("tag", "version", "text", "why"),
    [
        ("v1.1.0", "1.0.0", TEXT, "the tag is v1.1.0, and the package has the version 1.0.0"),
        ("1.1.0", "1.1.0", TEXT, "tag it v1.1.0"),
        ("v1.2.0", "1.2.0", TEXT, "the first section of CHANGELOG.md is not `## 1.2.0 – DATE`"),
        ("v1.0.0", "1.0.0", TEXT, "the first section of CHANGELOG.md is not `## 1.0.0 – DATE`"),
        ("v1.1.0", "1.1.0", TEXT.replace("2026-12-01", "unreleased"), "write the day"),
        ("v1.1.0", "1.1.0", TEXT.replace("- `new`: a word", ""), "is empty"),
        ("v1.1.0", "1.1.0", "", "the first section"),
    ],
)
def test_a_release_without_its_section_is_refused(
    tag: str, version: str, text: str, why: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        changelog.notes(tag, version, text)


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    found = changelog.sections((changelog.ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert next(iter(found)) == __version__
    for when, text in found.values():
        assert when == "unreleased" or datetime.date.fromisoformat(when)
        assert text


def test_a_refused_tag_ends_the_workflow_before_it_builds() -> None:
    argv = [sys.executable, "-I", str(changelog.__file__), "v0.0.0"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"has the version {__version__}" in done.stderr
