"""`.mcp.json` names the programs that `mcp` steps talk with (tyr 17)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from playbook_supervisor.errors import StepError, StorageError
from playbook_supervisor.executors.mcp import Server, declared


def of(root: Path, entry: Any, **variables: str) -> Server:
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": {"tracker": entry}}))
    return declared(root, "tracker", variables)


def refusal(root: Path, name: str = "tracker", **variables: str) -> StepError:
    with pytest.raises(StepError) as caught:
        declared(root, name, variables)
    assert caught.value.code == "PB-STEP-INPUT"
    assert caught.value.where == ".mcp.json"
    assert caught.value.guidance
    return caught.value


def test_a_server_is_a_program_with_variables(tmp_path: Path) -> None:
    entry = {"type": "stdio", "command": "npx", "args": ["-y", "tracker"], "env": {"A": "b"}}
    assert of(tmp_path, entry) == Server("tracker", ("npx", "-y", "tracker"), {"A": "b"})


def test_variables_are_replaced_as_in_claude_code(tmp_path: Path) -> None:
    entry = {
        "command": "${BIN:-/usr/bin}/tracker",
        "args": ["--token=${TOKEN}", "$TOKEN", "${EMPTY:-}"],
        "env": {"URL": "${URL:-http://localhost:1}/${TOKEN}"},
    }
    server = of(tmp_path, entry, TOKEN="abc", URL="http://there")
    assert server.argv == ("/usr/bin/tracker", "--token=abc", "$TOKEN", "")
    assert server.env == {"URL": "http://there/abc"}


def test_what_env_takes_from_variables_is_secret(tmp_path: Path) -> None:
    entry = {
        "command": "${BIN}",
        "env": {"A": "Bearer ${KEY}", "B": "${KEY}", "C": "${LEVEL:-info}", "D": "${X}", "E": "k"},
    }
    server = of(tmp_path, {**entry, "args": ["${HOME}"]}, BIN="/bin/x", KEY="k3y3", X="1", HOME="/")
    assert server.secrets == ("k3y3",)
    entry["env"] = {"PATH": "${PATH}"}
    assert of(tmp_path, entry, BIN="/bin/x", PATH="/usr/bin").secrets == ()


def test_a_missing_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(StepError, match="the MCP server 'tracker' needs the variable TOKEN"):
        of(tmp_path, {"command": "a", "args": ["${TOKEN}"]})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("tracker", "must be a mapping"),
        ({}, "has no `command`"),
        ({"command": ["tracker"]}, "has no `command`"),
        ({"command": "a", "args": [1]}, "needs a list of texts as `args`"),
        ({"command": "a", "env": {"A": 1}}, "needs texts as values of `env`"),
        ({"type": "http", "url": "https://example.com/mcp"}, "is no program"),
        ({"command": "a", "url": "https://example.com/mcp"}, "is no program"),
    ],
)
def test_each_part_must_be_as_it_should(entry: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(StepError, match=message):
        of(tmp_path, entry)


def test_without_the_file_there_are_no_servers(tmp_path: Path) -> None:
    error = refusal(tmp_path)
    assert error.message == ".mcp.json: the project declares no MCP servers"
    assert "claude mcp add" in error.guidance


def test_an_unknown_server_is_named_with_those_there_are(tmp_path: Path) -> None:
    of(tmp_path, {"command": "a"})
    error = refusal(tmp_path, "traker")
    assert error.message == (".mcp.json: there is no MCP server 'traker'; did you mean tracker?")
    assert error.guidance == "It has tracker."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "it is not JSON"),
        (b"\xff", "it is not UTF-8"),
        (b'{"mcpServers": []}', "`mcpServers` must map names to servers"),
        (b"\xef\xbb\xbf{}", "there is no MCP server 'tracker'"),
    ],
)
def test_a_broken_file_says_what_is_wrong(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_bytes(content)
    assert message in refusal(tmp_path).message


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    root.mkdir()
    (tmp_path / "outside.json").write_text("{}")
    (root / ".mcp.json").symlink_to(tmp_path / "outside.json")
    with pytest.raises(StorageError) as caught:
        declared(root, "tracker", {})
    assert caught.value.code == "PB-IO-ESCAPE"
