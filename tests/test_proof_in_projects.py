"""Real projects with real tests, and an agent that lies: the evidence is on the gate's first lines.

`init` finds out how the tests run. The agent is scripted, all the rest is as for a user.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from support.in_process import Result
from support.scratch_project import FEATURE, Project

pytestmark = pytest.mark.unmeasured


class Language(NamedTuple):
    """A small package: its files, the code that is right, and code that breaks a test."""

    name: str
    files: dict[str, str]
    code: str
    right: str
    wrong: str
    test: str


PYTHON = Language(
    "python",
    {
        "src/greet.py": 'def greet(name):\n    return f"Hello, {name}!"\n',
        "tests/test_greet.py": (
            "import sys\nimport unittest\n\nsys.path.insert(0, 'src')\n\nfrom greet import greet\n"
            "\n\nclass TestGreet(unittest.TestCase):\n    def test_it_greets(self):\n"
            '        self.assertEqual(greet("Ada"), "Hello, Ada!")\n'
        ),
        ".gitignore": "__pycache__/\n",
    },
    "src/greet.py",
    'def greet(name="world"):\n    return f"Hello, {name}!"\n',
    'def greet(name):\n    return f"Hi, {name}!"\n',
    "tests/test_greet.py",
)
NODE = Language(
    "node",
    {
        "package.json": '{"name": "greet", "type": "module", "scripts": {"test": "node --test"}}\n',
        "src/greet.js": "export const greet = (name) => `Hello, ${name}!`;\n",
        "test/greet.test.js": (
            'import assert from "node:assert";\nimport test from "node:test";\n'
            'import { greet } from "../src/greet.js";\n\n'
            'test("it greets", () => assert.equal(greet("Ada"), "Hello, Ada!"));\n'
        ),
    },
    "src/greet.js",
    'export const greet = (name = "world") => `Hello, ${name}!`;\n',
    "export const greet = (name) => `Hi, ${name}!`;\n",
    "test/greet.test.js",
)

PASS = "verdict: PASS\n\nNothing to say.\n"
TICKED = "# Tasks\n\n- [x] T1 a default name\n"
OPEN = "# Tasks\n\n- [ ] T1 a default name\n"
REVIEW = ".playbooks/reviews/greet-the-world-without-a-name.md"
TASKS = f"specs/{FEATURE}/tasks.md"


class Lie(NamedTuple):
    """What the agent of a step does while it claims success, and the evidence against it.

    `writes` maps files to text; `CODE` and `TEST` stand for those of the language, `RIGHT` and
    `WRONG` for code.
    """

    name: str
    step: str
    writes: dict[str, str]
    evidence: str


CHANGES = (
    Lie("breaks a test", "change", {"CODE": "WRONG"}, "proved=test: exit 1 in "),
    Lie("does nothing", "change", {}, "changes_made=**: nothing in ** has changed"),
    Lie(
        "makes the test agree with broken code",
        "change",
        {"CODE": "WRONG", "TEST": ""},
        "changes_within=src/**: 1 file changed outside src/**: ",
    ),
    Lie("reviews without a verdict", "review", {}, f"verdict_pass: {REVIEW} "),
    Lie(
        "mends what it reviews",
        "review",
        {REVIEW: PASS, "CODE": "WRONG"},
        f"changes_within={REVIEW}: 1 file changed outside {REVIEW}: src/",
    ),
)
FEATURES = (
    Lie("breaks a test", "implement", {"CODE": "WRONG", TASKS: TICKED}, "proved=test: exit 1 in "),
    Lie(
        "empties the test that broken code fails",
        "implement",
        {"CODE": "WRONG", "TEST": "", TASKS: TICKED},
        "implement has changed tests, or what they rest on: proved: test",
    ),
    Lie("does nothing", "implement", {}, "tasks_done: "),
)


def built(root: Path, home: Path, language: Language) -> Project:
    """A project on a branch of its own, after `playbook init`."""
    project = Project(root, home)
    for path, text in language.files.items():
        project.write(path, text)
    for command in ("speckit.implement", "qa.plan", "qa.run", "feature.pr"):
        project.write(f".claude/commands/{command}.md", "Do it.\n\n$ARGUMENTS\n")
    project.write(TASKS, OPEN)
    project.git("init", "-q")
    project.commit("Begin")
    done = project.playbook("init", "--yes")
    assert done.code == 0, done.err
    project.commit("Install playbooks")
    project.git("switch", "-q", "-c", FEATURE)
    return project


@pytest.fixture(
    params=[PYTHON, pytest.param(NODE, marks=pytest.mark.thorough)],
    ids=lambda language: language.name,
)
def language(request: pytest.FixtureRequest) -> Language:
    found: Language = request.param
    return found


@pytest.fixture
def project(tmp_path: Path, home: Path, language: Language) -> Project:
    return built(tmp_path / "project", home, language)


def script(project: Project, language: Language, lie: Lie | None = None) -> str:
    """The scripted agent: it works as it should, but for one step."""
    words = {"CODE": language.code, "TEST": language.test}
    texts = {"RIGHT": language.right, "WRONG": language.wrong}
    honest = {
        "change": {"CODE": "RIGHT"},
        "review": {REVIEW: PASS},
        "implement": {"CODE": "RIGHT", TASKS: TICKED},
        "qa-plan": {".qa/{{feature}}/test-plan.md": "# Plan\n"},
        "qa-run": {".qa/{{feature}}/verdict.md": PASS},
    }
    steps = honest | ({lie.step: lie.writes} if lie else {})
    lines = ["steps:"]
    for step, writes in steps.items():
        named = {words.get(path, path): texts.get(text, text) for path, text in writes.items()}
        pairs = ", ".join(f"{json.dumps(path)}: {json.dumps(text)}" for path, text in named.items())
        lines.append(f"  {step}: {{say: done and all tests pass, write: {{{pairs}}}}}")
    return project.script("\n".join(lines) + "\n")


def change(project: Project, agent: str) -> Result:
    """The run after a person has allowed the agents their tools, which is asked once."""
    said = "greet the world without a name"
    first = project.playbook("run", "auto-change", said, "within=src/**", "--agent", agent)
    assert "change is going to use Edit, Write" in asked(first)
    assert project.playbook("answer", "continue").code == 0
    return project.playbook("resume", "--agent", agent)


def asked(done: Result) -> str:
    """The question of the gate."""
    (line,) = [line for line in done.err.splitlines() if "WAITS FOR A HUMAN" in line]
    return line


@pytest.mark.parametrize("lie", CHANGES, ids=lambda lie: lie.name)
def test_auto_change_catches_an_agent_that(lie: Lie, project: Project, language: Language) -> None:
    """kai RK-1; cat FR-8.4; tyr 29: what an agent says about its work counts for nothing."""
    done = change(project, script(project, language, lie))
    assert done.code == 4, done.err
    question = asked(done)
    assert f"{lie.step}#1 WAITS FOR A HUMAN" in question
    assert lie.evidence in question
    assert len(question) < 500  # a person reads it in seconds
    entry = project.journal()[-1]
    assert (entry["step_id"], entry["decision"]) == (lie.step, "escalated")
    assert entry["trigger"] == "postcondition_fail"


def test_a_review_that_finds_a_fault_goes_back_to_the_change_whatever_its_agent_says(
    project: Project, language: Language
) -> None:
    """The agent that changes nothing then is not believed either."""
    fault = "src: no test for the default."
    finds = Lie("finds", "review", {REVIEW: f"verdict: FAIL\n\n{fault}\n"}, "")
    done = change(project, script(project, language, finds))
    assert done.code == 4, done.err
    review, again = project.journal()[-2:]
    assert (review["error"], review["back_to"]) == (f"verdict_pass: {REVIEW} says FAIL", "change")
    assert "change#2 WAITS FOR A HUMAN" in asked(done)
    assert again["failing"] == ["changes_made=**"]


@pytest.mark.parametrize("lie", FEATURES, ids=lambda lie: lie.name)
def test_a_feature_is_not_done_because_an_agent_that(
    lie: Lie, project: Project, language: Language
) -> None:
    """kai J1: a step that is not proved raises a gate."""
    agent = script(project, language, lie)
    done = project.playbook("run", "auto-hotfix", "013", "--agent", agent)
    assert done.code == 4, done.err
    assert "implement#1 WAITS FOR A HUMAN" in asked(done)
    assert lie.evidence in asked(done)


def test_honest_work_goes_to_the_gate_before_the_pull_request(
    project: Project, language: Language
) -> None:
    done = change(project, script(project, language))
    assert done.code == 4, done.err
    assert "pr#1 WAITS FOR A HUMAN" in asked(done)
    assert project.git("log", "-1", "--format=%s", "--", "src") == "greet the world without a name"
    assert project.git("branch", "--show-current") == "greet-the-world-without-a-name"
    made = project.git("diff", "--name-only", FEATURE, "--", ".", ":!.playbooks/sessions")
    assert REVIEW in made.splitlines()
    changed = next(each for each in project.journal() if each["step_id"] == "change")
    proof = next(line for line in changed["evidence"] if line.startswith("proved"))
    assert proof.startswith("proved=test: exit 0 in ")
    assert " in a clean room; " in proof
    assert proof.endswith("a test that must fail did; the tests of the beginning agree")


def test_a_broken_test_is_mended_by_a_person_and_the_run_goes_on(
    project: Project, language: Language
) -> None:
    """kai J1: the gate shows the broken test, the person mends it and says continue."""
    agent = script(project, language, FEATURES[0])
    assert project.playbook("run", "auto-hotfix", "013", "--agent", agent).code == 4
    project.write(language.code, language.right)
    assert project.playbook("answer", "mended the greeting, continue").code == 0
    done = project.playbook("resume", "--agent", agent)
    assert done.code == 4, done.err
    assert "pr#1 WAITS FOR A HUMAN" in asked(done)
    entry = project.journal()[0]
    assert entry["human_response"] == "mended the greeting, continue"
    assert (entry["status"], entry["resolution"]) == ("done", "continue")


def test_a_project_without_the_check_is_not_asked_for_it(
    project: Project, language: Language
) -> None:
    """An arg names the check of `auto-hotfix`; `auto-change` demands it and is refused."""
    project.write(".playbooks/config.yaml", "checks: {}\n")
    project.commit("Without checks")
    agent = script(project, language, Lie("", "implement", {"CODE": "WRONG", TASKS: TICKED}, ""))
    refused = project.playbook("run", "auto-change", "greet the world", "--agent", agent)
    assert refused.code == 1
    assert "PB-CHECK-UNDEFINED" in refused.err
    assert project.sessions == []
    done = project.playbook("run", "auto-hotfix", "013", "--agent", agent)
    assert "pr#1 WAITS FOR A HUMAN" in asked(done)
    assert project.manifest()["args"] == {"feature": FEATURE, "test": ""}
    assert not any("proved" in line for line in project.journal()[0]["evidence"])
