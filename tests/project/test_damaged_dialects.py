"""Files of other systems with any one value replaced: read, or refused with an error."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from playbook_supervisor.project.dialects import registry
from playbook_supervisor.project.schema import examine

TYRUM = {
    "name": "inbox-triage",
    "description": "Sort the inbox",
    "args": {"tag": {"default": "family", "required": False}, "day": {"type": "string"}},
    "steps": [
        {"id": "collect", "command": "cli inbox list", "output": "json", "timeoutMs": 1500},
        {"id": "apply", "command": "cli inbox apply", "stdin": "$collect.stdout"},
        {"id": "end", "command": "cli true", "condition": "!$apply.skipped", "maxOutputBytes": 9},
    ],
}
CATALYST = {
    "id": "start-rollout",
    "description": "Plan a rollout",
    "reviewers": {"required": ["Architect"]},
    "inputs": [{"name": "kind", "type": "enum", "values": ["a", "b"], "default": "a"}],
    "steps": [
        {"id": "a", "type": "markdown", "config": {"markdown": "a.md", "tools": ["Read"]}},
        {"name": "b", "type": "commit", "config": {"message": "m", "files": ["a"], "noPush": True}},
        {
            "id": "c",
            "type": "bash",
            "config": {"command": "ls"},
            "errorPolicy": {"default": "fail"},
        },
    ],
    "outputs": ["a.md"],
}
FRONT = {
    "name": "entry",
    "inputs": [{"name": "topic"}],
    "tools": ["Read"],
    "limits": {"max_turns": 3},
}
WHOLE = {
    "tyrum.json": (TYRUM, "{}"),
    "catalyst.json": (CATALYST, "{}"),
    "entry.md": (FRONT, "---\n{}\n---\nDo {{{{topic}}}}.\n"),
}
STRANGE: list[Any] = [[], {}, "", None, 1, "x", [[]], {"a": {}}, "{{x"]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield (*path, key)
        yield from paths(value[key], (*path, key))


def damaged(whole: Any) -> Iterator[Any]:
    for path in paths(whole):
        for strange in STRANGE:
            copied = copy.deepcopy(whole)
            holder = copied
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = strange
            yield copied


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_file_is_a_playbook(name: str) -> None:
    data, form = WHOLE[name]
    playbook, problems, _ = examine(form.format(json.dumps(data)).encode(), name)
    assert playbook is not None, problems


@pytest.mark.parametrize("name", WHOLE)
def test_a_damaged_file_is_refused_or_kept_as_what_it_is_read_as(name: str) -> None:
    """cat NFR-2.3."""
    whole, form = WHOLE[name]
    for data in damaged(whole):
        text = form.format(json.dumps(data)).encode()
        playbook, problems, _ = examine(text, name)
        if playbook is None:
            assert any(each.severity == "error" for each in problems), data
            continue
        kept = registry.read(text, name).text.encode()
        assert examine(kept, "playbook.yaml")[0] == playbook, data
