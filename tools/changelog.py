"""Says whether a version can be released, by the changelog.

python tools/changelog.py v0.1.0    # in its workflow: prints the notes, or says what is missing
"""

from __future__ import annotations

import os
import re
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_HEADING = re.compile(r"^## (\S+) – (\S+)$\n", re.MULTILINE)


def sections(changelog: str) -> dict[str, tuple[str, str]]:
    """For each version, in the order of the file: its date, or `unreleased`, and its text."""
    _, *parts = _HEADING.split(changelog)
    return {
        version: (when, text.strip())
        for version, when, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def notes(tag: str, version: str, changelog: str) -> str:
    """The notes of a release. ValueError if tag, package and changelog do not belong together."""
    if tag != f"v{version}":
        raise ValueError(
            f"the tag is {tag}, and the package has the version {version}: "
            f"tag it v{version}, or correct `__version__`"
        )
    found = sections(changelog)
    if next(iter(found), None) != version:
        raise ValueError(f"the first section of CHANGELOG.md is not `## {version} – DATE`: add it")
    when, text = found[version]
    try:
        date.fromisoformat(when)
    except ValueError:
        raise ValueError(
            f"CHANGELOG.md says `{version} – {when}`: write the day of the release, as YYYY-MM-DD"
        ) from None
    if not text:
        raise ValueError(f"the section of {version} in CHANGELOG.md is empty: say what is new")
    return text


def with_addresses(text: str, tree: str) -> str:
    """The text whose relative links lead to the files below this address."""
    return re.sub(r"\]\((?!https?:|#)", f"]({tree}/", text)


def package_version() -> str:
    """The version, read as text: nothing is installed where a release begins."""
    source = (ROOT / "playbook_supervisor/__init__.py").read_text("utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    return str(version)


def main(tag: str) -> int:
    """Print the notes; 1 if there is something to mend."""
    try:
        text = notes(tag, package_version(), (ROOT / "CHANGELOG.md").read_text("utf-8"))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    home = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}".format_map(os.environ)
    print(with_addresses(text, f"{home}/blob/{tag}"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
