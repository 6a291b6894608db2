"""The command that adds an extra fits the way in which the program was installed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from playbook_supervisor.system.installation import command_for

NAMED = "playbook-supervisor[fleet]"
FORGE = "https://forge.example/us/it"
Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Leave the records of an installation; the command for the extra `fleet`."""

    def leave(installer: str, *traces: str, origin: dict[str, Any] | None = None) -> str:
        prefix = tmp_path / "our environment"
        package = prefix / "playbook_supervisor-1.0.dist-info"
        package.mkdir(parents=True)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: playbook-supervisor\n")
        (package / "INSTALLER").write_text(f"{installer}\n")
        for trace in traces:
            (prefix / trace).write_text("")
        if origin is not None:
            (package / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.syspath_prepend(prefix)
        monkeypatch.setattr(sys, "prefix", str(prefix))
        monkeypatch.setattr(sys, "executable", "/our env/python")
        return command_for("fleet")

    return leave


def test_of_a_tool_of_uv(install: Install) -> None:
    assert install("uv", "uv-receipt.toml") == f"uv tool install '{NAMED}'"


def test_of_pipx_whichever_program_it_installs_with(install: Install) -> None:
    assert install("uv", "pipx_metadata.json") == f"pipx install --force '{NAMED}'"


def test_of_an_environment_that_uv_made_and_that_has_no_pip(install: Install) -> None:
    assert install("uv") == f"uv pip install --python '/our env/python' '{NAMED}'"


def test_of_pip(install: Install) -> None:
    assert install("pip") == f"'/our env/python' -m pip install '{NAMED}'"


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        ({"url": "file:///our%20it", "dir_info": {}}, "'/our it[fleet]'"),
        ({"url": "file:///it", "dir_info": {"editable": True}}, "--editable '/it[fleet]'"),
        ({"url": "file:///it.whl", "archive_info": {}}, f"'{NAMED} @ file:///it.whl'"),
        (
            {"url": FORGE, "vcs_info": {"vcs": "git", "commit_id": "01"}},
            f"'{NAMED} @ git+{FORGE}@01'",
        ),
        (
            {
                "url": FORGE,
                "vcs_info": {"vcs": "git", "commit_id": "01", "requested_revision": "v1"},
            },
            f"'{NAMED} @ git+{FORGE}@v1'",
        ),
    ],
)
def test_of_something_else_than_the_index(
    origin: dict[str, Any], requirement: str, install: Install
) -> None:
    command = install("uv", "uv-receipt.toml", origin=origin)
    assert command == f"uv tool install {requirement}"


def test_of_a_source_tree_that_was_never_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "python")
    assert command_for("mcp") == "python -m pip install 'playbook-supervisor[mcp]'"
