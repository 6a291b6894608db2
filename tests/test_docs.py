"""The documents cannot lie: what they show is carried out, what they list is generated.

How a fenced block is carried out is said at the top of `document_examples.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import generate_docs
import pytest
from support.bubblewrap import needs_bubblewrap
from support.document_examples import (
    REPOSITORY,
    SHOWN_ONLY,
    Block,
    Stage,
    alike,
    blocks,
    is_bare,
    is_fresh,
    prompts,
)
from support.scratch_project import Project

from playbook_supervisor.fleet import worker_settings
from playbook_supervisor.formats import strict_yaml
from playbook_supervisor.kernel.answers import read_answer
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.project.conditions.verdicts import read_report
from playbook_supervisor.project.playbooks.schema import examine
from playbook_supervisor.project.settings import config
from playbook_supervisor.sessions.files import journal, manifest, portable_records

pytestmark = pytest.mark.unmeasured  # what the documents show is proven elsewhere, and measured

WRITTEN = [
    REPOSITORY / "README.md",
    *(
        REPOSITORY / "docs" / f"{name}.md"
        for name in ("README", "concepts", "conditions", "errors", "format", "gates")
    ),
    *(
        REPOSITORY / "templates" / f"{name}.md"
        for name in ("playbook-authoring", "playbooks-folder")
    ),
    *(REPOSITORY / "docs" / f"{name}.md" for name in ("pre-commit", "updating")),
    *(REPOSITORY / "docs" / f"{name}.md" for name in ("ci", "fleet", "sessions-in-git")),
    *(REPOSITORY / "docs" / f"{name}.md" for name in ("agents", "config", "pictures", "policies")),
    *(REPOSITORY / "docs" / f"{name}.md" for name in ("audit", "metrics", "watching")),
    *(
        REPOSITORY / "docs" / f"{name}.md"
        for name in ("dialects", "executors", "permissions", "probe-and-prove", "rpc", "worktrees")
    ),
]
"""Carried out from top to bottom."""
TOP = (REPOSITORY / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY"))
LINKED = sorted({*WRITTEN, *TOP, *(REPOSITORY / "docs").rglob("*.md")})

LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)


def name_of(document: Path) -> str:
    return str(document.relative_to(REPOSITORY))


def without_code(text: str) -> str:
    for block in reversed(list(blocks(text))):
        text = text[: block.span[0]] + text[block.span[1] :]
    return text


def anchors(document: Path) -> set[str]:
    """The names by which a forge links to the headings of a document."""
    headings = HEADING.findall(without_code(document.read_text("utf-8")))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {text.replace(" ", "-") for text in plain}


READERS: dict[str, Callable[[bytes], object]] = {
    "session": lambda data: manifest.read_manifest(data, "session.yaml"),
    "records": lambda data: portable_records.read(data, "records.yaml").launches,
    "journal": lambda data: journal.parse_journal(data, "journal.yaml"),
    "index": lambda data: strict_yaml.load(data, "_index.yaml").data,
}


def assert_readable(block: Block, project: Project) -> None:
    data = block.text.encode()
    match block.kind:
        case "playbook":
            playbook, problems, _ = examine(data, "example")
            assert playbook, [problem.message for problem in problems]
        case "worker":
            settings, problems = worker_settings.examine(data, "example")
            assert (settings.slots, problems) == (2, ())
        case "config":
            project.write(config.FILE, block.text)
            assert config.load(project.root)
        case "":
            assert strict_yaml.load(data, "example").data
        case kind:
            assert READERS[kind](data), f"a {kind} without content"


WORDS = (
    Resolution.CONTINUE,
    Resolution.RETRY,
    Resolution.ACCEPT,
    Resolution.SKIP,
    Resolution.ABORT,
)


def assert_means_what_it_says(block: Block) -> None:
    """Every shown verdict says PASS, and every shown answer means `continue`."""
    match block.kind:
        case "verdict":
            assert read_report(block.text, yaml=False).verdict == "PASS"
        case "verdicts":
            for line in block.text.splitlines():
                assert read_report(line, yaml=False).verdict == "PASS", line
        case kind:
            assert kind == "answers", f"nothing is done with {kind!r}"
            for line in block.text.splitlines():
                assert read_answer(line, WORDS).resolution == "continue", line


@pytest.mark.parametrize(
    "document",
    [*WRITTEN, pytest.param(REPOSITORY / "docs/isolation.md", marks=needs_bubblewrap)],
    ids=name_of,
)
def test_what_a_document_shows_is_what_happens(document: Path, project: Project) -> None:
    stage = Stage(project, bare=is_bare(document), fresh=is_fresh(document), quick=True)
    for block in blocks(document.read_text("utf-8")):
        place = f"{name_of(document)}:{block.line}"
        if block.file:
            project.write(block.file, block.text)
        match block.language:
            case "console":
                for command, shown in prompts(block.text):
                    printed = stage.type(command)
                    assert alike(shown, printed), f"{place}: $ {command}\n{printed}"
            case "yaml":
                assert_readable(block, project)
            case "python":
                assert not (said := stage.run(block.text)), f"{place}: {said}"
            case "text" if block.kind:
                assert_means_what_it_says(block)
            case language:
                assert language in SHOWN_ONLY, f"{place}: nothing is done with {language!r}"


def test_what_can_be_generated_is_generated(capsys: pytest.CaptureFixture[str]) -> None:
    """kai DOC-1: a table of words, codes or keys always is what the program knows."""
    assert generate_docs.main(["--check"]) == 0, capsys.readouterr().out
    reference = (REPOSITORY / "docs/format.md").read_text("utf-8")
    for thing in ("playbook", "arg", "step", "session", "entry", "gate"):
        assert f"<!-- generated: {thing}-keys -->" in reference


def test_every_link_within_the_repository_leads_somewhere() -> None:
    known = cache(anchors)
    broken = []
    for document in LINKED:
        for link in LINK.findall(without_code(document.read_text("utf-8"))):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (document.parent / path).resolve() if path else document
            if not target.exists() or (anchor and anchor not in known(target)):
                broken.append(f"{name_of(document)} links to {link}")
    assert broken == []


def test_every_document_is_in_the_index() -> None:
    index = (REPOSITORY / "docs/README.md").read_text("utf-8")
    linked = {link.partition("#")[0] for link in LINK.findall(index)}
    pages = (path for path in (REPOSITORY / "docs").glob("*.md") if not path.is_symlink())
    documents = {path.name for path in pages} - {"README.md"}
    assert documents <= linked


def test_every_code_of_a_warning_is_documented() -> None:
    source = (REPOSITORY / "playbook_supervisor/project/playbooks/lint.py").read_text("utf-8")
    lints = re.findall(r'"PB-CHECK-(LINT-[A-Z]+)"', source)
    documented = (REPOSITORY / "docs/format.md").read_text("utf-8")
    assert lints
    for lint in lints:
        assert f"`PB-CHECK-{lint}`" in documented


def test_every_subcommand_is_documented(project: Project) -> None:
    shown = project.playbook("help", "--all").out
    commands = re.findall(r"^  ([a-z]+) {2,}", shown, re.MULTILINE)
    assert len(commands) > 10
    reference = (REPOSITORY / "docs/cli.md").read_text("utf-8")
    for command in commands:
        assert f"playbook {command}" in reference


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_target_that_is_named_can_be_made(document: str) -> None:
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    text = (REPOSITORY / document).read_text("utf-8")
    targets = re.findall(r"^make (\w+)", text, re.MULTILINE)
    assert targets
    for target in targets:
        assert f"\n{target}:" in makefile


# ── the mechanism itself ────────────────────────────────────────────────────────────────────


def test_each_decision_stands_once_in_the_index_with_its_title() -> None:
    folder = REPOSITORY / "docs/decisions"
    titles = {
        (file.name, file.read_text("utf-8").partition("\n")[0].removeprefix("# "))
        for file in folder.glob("0*.md")
    }
    listed = re.findall(
        r"^- \[\d{4}\]\((.+?)\) (.+)$", (folder / "README.md").read_text("utf-8"), re.M
    )
    assert sorted(listed) == sorted(titles)


def test_output_that_differs_in_a_word_is_not_alike() -> None:
    assert not alike("plan#1 done 725.8s auto\n", "plan#1 failed 725.8s auto\n")
    assert not alike("one\n", "one\ntwo\n")
    assert not alike("one\ntwo\n", "one\n")


def test_no_output_is_alike_only_to_no_output() -> None:
    assert alike("", "")
    assert not alike("", "something\n")
