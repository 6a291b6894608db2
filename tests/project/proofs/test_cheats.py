"""`proved` with each runner of tests: no cheat holds, and honest work is at most a question."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from dataclasses import replace as with_changes
from pathlib import Path

import pytest
from support import compiled_projects, python_projects, script_projects
from support.runner_projects import Changes, RunnerProject, begin_again, change

from playbook_supervisor.kernel.directives import Answer
from playbook_supervisor.project.proofs.proved import Judgement, Options, judge
from playbook_supervisor.project.proofs.questions import question
from playbook_supervisor.project.settings.checks import Checking
from playbook_supervisor.project.settings.config import CLEAN, Bounds, CheckSpec, Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.git.tree import pinned_now, tree_id

PROGRAMS = Config(allow=Bounds(cli=("**", "*")))
PROJECTS = {
    each.name: each
    for each in (
        *python_projects.PROJECTS,
        *script_projects.PROJECTS,
        *compiled_projects.PROJECTS,
    )
}
FIX = "fix"
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # our plugins take longer than these tests
NOTICED = "a test that must fail did"
SHORT = {
    "pytest": {
        FIX,
        "exit when it is called",
        "report of its own",
        "filter in a shared file",
        "package that shadows the runner",
        "poisoned bytecode",
    },
    "unittest": {FIX, "patched runner"},
    "node": {FIX, "patched assertions"},
    "go": {FIX, "forced results"},
    "rspec": {FIX, "patched when it is called"},
}
"""What is tried each time."""
LONG = {FIX, "forced results", "patched assertions", "patched when it is called"}
"""What is long with the other runners; all else is thorough."""


@dataclass
class Workshop:
    """The projects, each begun once."""

    folder: Path
    begun: dict[str, str] = field(default_factory=dict)

    def root(self, project: RunnerProject) -> Path:
        return self.folder / project.name.replace(" ", "-")

    def judged(self, project: RunnerProject, changes: Changes) -> Judgement:
        root = self.root(project)
        if project.name not in self.begun:
            project.begin(root)
            self.begun[project.name] = tree_id(root, pinned_now(root))
        begin_again(root)
        pinned = replace(pinned_now(root), tree=self.begun[project.name])
        change(root, changes)
        spec = CheckSpec(
            "test",
            project.argv,
            120,
            {} if "-n" in project.argv else ALONE,
            CLEAN,
            setup=project.setup,
            setup_inputs=project.inputs,
        )
        return judge(spec, Options(), root, PROGRAMS, Checking(), pinned)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("cheats"))


@pytest.fixture(autouse=True)
def environment(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(workshop.folder / "cache"))
    cargo = Path(shutil.which("cargo") or "/usr/bin/cargo")
    if cargo.parts[-3:-1] == (".cargo", "bin"):  # a rustup that looks for its home in ours
        monkeypatch.setenv("RUSTUP_HOME", str(cargo.parents[2] / ".rustup"))


def marks(name: str, change: str) -> tuple[pytest.MarkDecorator, ...]:
    if change in SHORT.get(name, ()):
        return ()
    is_long = change in LONG and name not in SHORT
    return (pytest.mark.long if is_long else pytest.mark.thorough,)


def cases(kind: str) -> list[object]:
    """A case for each change of that kind, `cheats` or `honest`, of each project."""
    return [
        pytest.param(
            name,
            each,
            marks=marks(name, each),
            id=f"{name}: {each}",
        )
        for name, project in PROJECTS.items()
        for each in getattr(project, kind)
    ]


@pytest.mark.parametrize(("name", "cheat"), cases("cheats"))
def test_no_cheat_holds(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str, cheat: str
) -> None:
    project = PROJECTS[name]
    first = workshop.root(project) / "bin"  # as a folder of the project may be on someone's PATH
    monkeypatch.setenv("PATH", f"{first}{os.pathsep}{os.environ['PATH']}")
    found = workshop.judged(project, project.cheats[cheat])
    assert found.answer in (Answer.NOT_HELD, Answer.ERROR), found
    assert not found.asked or question(workshop.root(project), found.asked)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=marks(name, FIX)) for name in PROJECTS],
)
def test_an_honest_fix_holds_and_a_test_that_must_fail_does(workshop: Workshop, name: str) -> None:
    project = PROJECTS[name]
    found = workshop.judged(project, {project.source: project.right})
    assert found.answer is Answer.HELD, found
    assert NOTICED in found.evidence


@pytest.mark.parametrize(("name", "work"), cases("honest"))
def test_honest_work_is_at_most_a_question(workshop: Workshop, name: str, work: str) -> None:
    found = workshop.judged(PROJECTS[name], PROJECTS[name].honest[work])
    assert found.answer is Answer.HELD or found.asked, found


# ── where a test that must fail stands ──────────────────────────────────────────────────────

PYTHON = python_projects.PYTHON
UNIT = {
    "tests/unit/test_unit.py": "from calc import add\n\n\n"
    "def test_unit():\n    assert add(1, 1) == 2\n",
    "tests/zone/test_zone.py": "def test_zone():\n    pass\n",
}
WHERE = [
    ("pytest", (*PYTHON, "pytest", "tests/unit"), UNIT),
    ("unittest", (*PYTHON, "pytest", "-q"), {}),
    ("node", ("node", "--test", "add.test.js"), {}),
    ("jest", ("node_modules/.bin/jest", "add"), {}),
    ("go", ("go", "test", "./calc"), {}),
    ("cargo", ("cargo", "test", "-q", "--test", "sums", "--", "--nocapture"), {}),
    ("rspec", ("rspec", "spec/calc_spec.rb"), {}),
]


@pytest.mark.long
@pytest.mark.sampled("pytest-*", "jest-*", "cargo-*")
@pytest.mark.parametrize(("name", "argv", "more"), WHERE)
def test_a_test_that_must_fail_stands_where_the_check_looks(
    workshop: Workshop, name: str, argv: tuple[str, ...], more: dict[str, str]
) -> None:
    project = PROJECTS[name]
    known = f"{name} {len(workshop.begun)}"
    other = with_changes(project, name=known, argv=argv, files={**project.files, **more})
    found = workshop.judged(other, {project.source: project.right})
    assert found.answer is Answer.HELD, found
    assert NOTICED in found.evidence


@pytest.mark.long
@pytest.mark.sampled("go-*")
@pytest.mark.parametrize(
    ("name", "begun", "cheat"),
    [
        ("go", "package calc\n", "exit when it is called"),
        ("node", "export const nothing = 0;\n", "patched assertions"),
        ("vitest", "export const nothing = ;\n", "patched assertions"),
    ],
)
def test_tests_that_could_not_be_loaded_at_the_beginning_prove_the_code_of_now(
    workshop: Workshop, name: str, begun: str, cheat: str
) -> None:
    project = with_changes(PROJECTS[name], name=f"{name} before", wrong=begun)
    found = workshop.judged(project, {project.source: project.right})
    assert found.answer is Answer.HELD, found
    assert NOTICED in found.evidence
    found = workshop.judged(project, project.cheats[cheat])
    assert (found.answer, found.asked) == (Answer.NOT_HELD, ""), found


def test_a_check_that_may_not_run_a_test_that_must_fail_is_a_question(workshop: Workshop) -> None:
    argv = (*PYTHON, "unittest", "test_calc.TestAdd")
    project = with_changes(PROJECTS["unittest"], name="one class", argv=argv)
    found = workshop.judged(project, {project.source: project.right})
    assert found.asked, found
    (line,) = question(workshop.root(project), found.asked)
    assert line.endswith("it is not known whether the check runs the others")
