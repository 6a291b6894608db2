"""The conditions of version 1.1 that look at one file of the author's choice, and at the tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.project.conditions.conditions import (
    Workspace,
    artifacts,
    probe,
    record,
    verdicts,
)
from playbook_supervisor.project.conditions.probes import LARGEST
from playbook_supervisor.project.conditions.tasks import read_tasks
from playbook_supervisor.project.expressions.requirement import requirement
from playbook_supervisor.project.settings.config import Config

HELD, NOT_HELD, ERROR = Answer.HELD, Answer.NOT_HELD, Answer.ERROR
TASKS = "specs/013-x/tasks.md"


@pytest.fixture
def world(tmp_path: Path) -> Workspace:
    root = tmp_path / "project"
    root.mkdir()
    return Workspace(root, "013-x", "013-x", Config())


def put(world: Workspace, path: str, text: str) -> Path:
    file = world.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def said(name: str, world: Workspace, **launch: Any) -> tuple[Answer, str]:
    probed = probe(name, world, **launch)
    assert (probed.name, "\n" in probed.evidence) == (requirement(name).name, False)
    return probed.answer, probed.evidence


# ── a file ──────────────────────────────────────────────────────────────────────────────────


def test_a_file_exists(world: Workspace) -> None:
    name = "file_exists='docs/a b.md'"
    assert said(name, world) == (NOT_HELD, "docs/a b.md is missing")
    put(world, "docs/a b.md", "one\ntwo\n")
    assert said(name, world) == (HELD, "docs/a b.md, 2 lines")
    since = record([name], world)
    assert said(name, world, since=since) == (HELD, "docs/a b.md, 2 lines, unchanged by this step")
    assert artifacts(name, world) == ("docs/a b.md",)


def test_a_folder_and_a_large_file_exist_too(world: Workspace) -> None:
    """cat FR-8.1: what a program makes is not always a text."""
    put(world, "dist/app/main.js", "x")
    with (world.root / "app.bin").open("wb") as file:
        file.truncate(LARGEST + 1)
    assert said("file_exists=dist", world) == (HELD, "dist, a folder that is not empty")
    assert said("file_exists=app.bin", world) == (HELD, "app.bin, 4,194,305 bytes")
    (world.root / "app.bin").chmod(0)
    assert said("file_exists=app.bin", world)[0] is HELD


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("file_exists=a.md", "a.md is empty"),
        ("file_exists=docs", "docs is a folder"),
        ("file_exists=out.md", "out.md leads out of the repository"),
        ("file_contains='out.md secret'", "write `file_contains=PATH TEXT`"),
        ("file_contains=out.md secret", "out.md leads out of the repository"),
        ("verdict_pass=out.md", "out.md leads out of the repository"),
        ("file_exists={feature}.md", "{feature}.md is missing"),
        ("file_exists={0.__class__}", "{0.__class__} is missing"),
    ],
)
def test_what_is_no_file_of_the_repository_does_not_hold(
    world: Workspace, tmp_path: Path, name: str, evidence: str
) -> None:
    put(world, "a.md", " \n")
    (world.root / "docs").mkdir()
    (tmp_path / "secret.md").write_text("verdict: PASS\nsecret\n")
    (world.root / "out.md").symlink_to("../secret.md")
    answer, told = said(name, world)
    assert (answer is HELD, told.removeprefix("could not be checked: ")) == (False, evidence)


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret.md", "~/x", ""])
def test_a_path_out_of_the_repository_is_not_looked_at(world: Workspace, path: str) -> None:
    put(world, "../secret.md", "secret\n")
    for name in (
        f"file_exists='{path}'",
        f"file_contains='{path}' secret",
        f"verdict_pass='{path}'",
    ):
        answer, evidence = said(name, world)
        assert (answer, evidence.startswith("could not be checked: ")) == (ERROR, True)


# ── a text in it ────────────────────────────────────────────────────────────────────────────


def test_a_file_contains_a_text(world: Workspace) -> None:
    put(world, "a.md", "# Title\n\nsee [a.*](b)\n")
    for text, line in (("[a.*]", 3), ("# Title\n\nsee", 1)):
        name = f"file_contains=a.md '{text}'"
        quoted = text.partition("\n")[0]
        assert said(name, world) == (HELD, f'a.md, line {line}: "{quoted}"')


def test_a_text_is_no_pattern(world: Workspace) -> None:
    put(world, "a.md", "abc\n")
    for text in ("a.c", "ABC", "abc "):
        evidence = f'a.md lacks "{text.strip()}"'
        assert said(f"file_contains=a.md '{text}'", world) == (NOT_HELD, evidence)


# ── a verdict ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["review.md", "out/review.yaml", "review.yml"])
def test_the_verdict_of_a_report_is_read(world: Workspace, path: str) -> None:
    name = f"verdict_pass={path}"
    assert said(name, world) == (NOT_HELD, f"{path} is missing")
    put(world, path, "verdict: PASS\n")
    assert said(name, world) == (HELD, f"{path} says PASS")
    since = record([name], world)
    answer, evidence = said(name, world, since=since)
    assert (answer, "not written since the launch" in evidence) == (NOT_HELD, True)
    put(world, path, "verdict: FAIL\n")
    assert said(name, world, since=since) == (NOT_HELD, f"{path} says FAIL")
    assert verdicts([name, "file_exists=x"]) == (name,)


# ── tasks ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "answer", "evidence"),
    [
        ("- [x] T001 a\n  * [X] T002 b\n1. [x] c\n", HELD, "3 tasks done"),
        ("- [x] T001\n- [ ] T002 **b**\n", NOT_HELD, "1 of 2 tasks not done: T002 **b** (line 2)"),
        (
            "- [ ] a\n" * 10,
            NOT_HELD,
            "10 of 10 tasks not done: a (lines 1, 2, 3, 4, 5, 6, 7, 8, 2 more)",
        ),
        ("- [x] a\n```\n- [ ] an example\n```\n", HELD, "1 task done"),
        ("- [x] a\n- [x](link)\n## Notes\n- [ab] c\n", HELD, "1 task done"),
        ("# Tasks\n\nAll done!\n", NOT_HELD, "has no task: no `- [ ]`"),
        ("- [ ] \x1b[2Jx\n", NOT_HELD, "1 of 1 task not done: x (line 1)"),
    ],
)
def test_tasks_are_done_if_every_box_is_ticked(
    world: Workspace, text: str, answer: Answer, evidence: str
) -> None:
    put(world, TASKS, text)
    found, told = said("tasks_done", world)
    assert (found, told.removeprefix(f"{TASKS}: ").removeprefix(f"{TASKS} ")) == (answer, evidence)


def test_tasks_belong_to_a_feature(world: Workspace) -> None:
    assert said("tasks_done", world) == (NOT_HELD, f"{TASKS} is missing")
    nowhere = Workspace(world.root, "", "", Config())
    assert said("tasks_done", nowhere)[0] is ERROR


def test_tasks_that_were_done_before_are_said_to_be(world: Workspace) -> None:
    put(world, TASKS, "- [x] a\n")
    since = record(["tasks_done"], world)
    evidence = f"{TASKS}: 1 task done, unchanged by this step"
    assert said("tasks_done", world, since=since) == (HELD, evidence)


@pytest.mark.parametrize(
    "line",
    [
        "-[ ] T002",
        "- [WIP] T002",
        "- [] T002",
        "- [ x ] T002",
        "- [x]T002",
        "- [\u0445] T002, with a Cyrillic letter",
        "- [\u2713] T002",
        "- [ T002, never closed",
        "- \\[ \\] T002",
        "- [&nbsp;] T002",
        "- \u2610 T002",
        "- \u2713 T002",
        "\u2717 T002",
        "\u25a1 T002",
        "[ ] T002",
        "1. [ ] T002",
        "a. [ ] T002",
        "      - [ ] T002",
        "- - [ ] T002",
        "> > 1. [ ] T002",
        "- \u200b[ ] T002",
        "- **[ ]** T002",
        "- T002 [ ] first the number",
        "- [x] T002 [ ] with a part",
        "| [ ] | T002 |",
        "| T002 | [WIP] |",
        "| T002 | \u274c |",
        "\uff3b \uff3d T002",
        "- \u3010 \u3011 T002",
        '- <input type="checkbox"> T002',
        "- <input disabled type=checkbox checked> T002",
        "<!-- a comment --> - [ ] T002",
        "- [US1] T002, among boxes",
        "```sh `make` ``` - [ ] T002",
    ],
)
def test_whatever_a_person_reads_as_a_box_is_a_task(line: str) -> None:
    tasks, unclosed = read_tasks(f"# Tasks\n- [x] T001\n{line}\n")
    assert [(task.done, task.line) for task in tasks] == [(True, 2), (False, 3)]
    assert not unclosed


@pytest.mark.parametrize(
    "line",
    [
        "- [text](https://example.org)",
        "- [the guide][x]",
        "[x]: https://example.org",
        "- [^1]: A note",
        "- [](#anchor)",
        "[guide] is a sentence.",
        "Use `- [ ]` for a task.",
        "- Return `[]` or list[x], never arr[] or [].",
        "\u2705 All is well",
        "| spec | \u2705 |",
        "---",
        "## Format: `[ID] [P?] [Story] Description`",
        "## Literature\n\n1. [1] A book",
    ],
)
def test_links_footnotes_and_tags_are_no_tasks(line: str) -> None:
    tasks, unclosed = read_tasks(f"# Tasks\n- [x] T001 [P] [US1] Write `src/a.py` [x]\n{line}\n")
    assert [(task.done, task.line) for task in tasks] == [(True, 2)]
    assert not unclosed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- [x] a\n\n```sh\nmake\n\n- [ ] b\n", "the code fence in line 3"),
        ("- [x] a\n<!-- later:\n- [ ] b\n", "the comment in line 2"),
        ("> - [x] a\n> ```\n> - [ ] b\n\nThe end.\n", "the code fence in line 2"),
    ],
)
def test_what_has_no_end_could_hide_tasks(world: Workspace, text: str, said: str) -> None:
    put(world, TASKS, text)
    evidence = f"could not be checked: {said} of {TASKS} has no end, and hides what follows"
    assert probe("tasks_done", world) == Probed("tasks_done", ERROR, evidence)


@given(st.lists(st.sampled_from([*"-*+>|[]()xX~`<!&#. \t\n", "- [ ] ", "```", "-->"]), max_size=40))
def test_any_text_can_be_read_for_tasks(pieces: list[str]) -> None:
    """A task that stands below any text is either seen, or hidden by what has no end."""
    tasks, unclosed = read_tasks("".join(pieces) + "\n\n# More\n- [ ] T9 the last\n")
    assert unclosed or (tasks[-1].text, tasks[-1].done) == ("T9 the last", False)
