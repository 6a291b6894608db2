"""The offers of installed packages, as the library reads them, but without importing it."""

from __future__ import annotations

import json
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from playbook_supervisor import plugins

GROUP = "playbook_supervisor.test"


def install(site: Path, name: str, text: str) -> None:
    """A package on that path that offers something."""
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "entry_points.txt").write_text(text)


def offers() -> dict[str, str]:
    """Name → value, as both ways find them."""
    found = {name: each.value for name, each in plugins.offered(GROUP).items()}
    assert found == {each.name: each.value for each in sorted(entry_points(group=GROUP))}
    return found


def test_our_own_offers_are_those_that_the_library_finds() -> None:
    for group in (plugins.COMMANDS, plugins.DIALECTS, plugins.PLACES):
        found = plugins.offered(group)
        assert found
        assert {name: each.value for name, each in found.items()} == {
            each.name: each.value for each in entry_points(group=group)
        }


def test_the_first_version_of_a_package_on_the_path_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "later", "One.Package", f"[{GROUP}]\na = older\nb = older\n")
    install(tmp_path / "later", "two", f"[other]\nc = no\n[{GROUP}]\n# d = no\n\nc=json:dumps\n")
    install(tmp_path / "first", "one_package", f"[{GROUP}]\na = newer [extra]\n")
    for site in ("later", "missing", "first"):
        monkeypatch.syspath_prepend(str(tmp_path / site))
    assert offers() == {"a": "newer [extra]", "c": "json:dumps"}
    assert plugins.offered(GROUP)["c"].load() is json.dumps


def test_what_is_in_a_zip_file_is_found_by_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        packed.writestr("packed-1.0.dist-info/METADATA", "Name: packed\nVersion: 1.0\n")
        packed.writestr("packed-1.0.dist-info/entry_points.txt", f"[{GROUP}]\nzipped = json\n")
    monkeypatch.syspath_prepend(str(tmp_path / "packed.zip"))
    assert offers() == {"zipped": "json"}
    assert plugins.offered(GROUP)["zipped"].load() is json


def test_a_damaged_package_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "fine", f"[{GROUP}]\nfine = json\n")
    damaged = tmp_path / "damaged-1.0.dist-info"
    damaged.mkdir()
    (damaged / "entry_points.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "old-1.0.egg-info").write_text("Name: old\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(plugins.offered(GROUP)) == ["fine"]
