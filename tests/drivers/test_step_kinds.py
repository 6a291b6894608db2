"""What `check`, a run and its plan say of steps of version 1.1 before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.scratch_project import Project

from playbook_supervisor.commands.checking import checking
from playbook_supervisor.executors.cli import CliExecutor

HEAD = """\
name: sample
description: Steps of several kinds
version: "1.1"
args: [{name: test, description: A program, required: false}]
steps:
"""


STEP = "  - {{{}, autonomy: auto, error_policy: stop}}\n"
CONFIG = "allow: {http: ['a.example*']}\ndeny: {mcp: [tracker.drop]}\n"
SERVERS = {"tracker": {"command": "tracker", "env": {"TOKEN": "${NOT_SET}"}}, "broken": {}}


def prepared(project: Project, *steps: str) -> str:
    """The playbook, in a project with settings, MCP servers and prompts."""
    project.write(".playbooks/config.yaml", CONFIG)
    project.write(".mcp.json", json.dumps({"mcpServers": SERVERS}))
    project.write("names.md", "Ask {{who}} about {{test}}.\n")
    project.write("empty.md", "\n")
    return write(project, *steps)


def write(project: Project, *steps: str) -> str:
    text = HEAD + "".join(map(STEP.format, steps))
    project.write(".playbooks/playbooks/sample.yaml", text)
    return ".playbooks/playbooks/sample.yaml"


def test_steps_of_every_kind_are_checked(project: Project) -> None:
    file = write(
        project,
        "id: a, command: 'cli make {{test}}', with: {env: {CI: '1'}}",
        "id: b, command: prompt, with: {text: 'Review it.'}",
    )
    done = project.playbook("check", file)
    assert done.code == 0, done.out
    assert "0 errors" in done.err


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            "command: 'cli true', with: {environment: {}}",
            "step: no key 'environment'; it has env, stdin",
        ),
        ("command: prompt", "`with` of the prompt step: `text` is missing"),
        ("command: 'cli \"open'", "cannot split"),
        (
            "command: 'cli true', output: json, output_schema: {type: strin}",
            "`output_schema` is not a JSON Schema: $.type: 'strin'",
        ),
        ("command: 'cli sh -c true'", "may not run 'sh': it is a shell"),
        ("command: 'cli true', cwd: ../x", "'../x' leads outside"),
        ("command: 'http GETT https://a.example/'", "no method 'GETT'; did you mean GET?"),
        ("command: 'http GET a.example/{{test}}'", "is not a URL of http or https with a host"),
        ("command: 'http GET https://b.example/{{test}}'", "may not send a request to 'b.example"),
        ("command: 'http GET https://a.example:x/'", "is not a URL: "),
        ("command: mcp search", "takes SERVER.TOOL, not 'search'"),
        ("command: mcp traker.find", "no MCP server 'traker'; did you mean tracker?"),
        ("command: mcp broken.find", "the MCP server 'broken' has no `command`"),
        ("command: mcp tracker.drop", "may not call 'tracker.drop'"),
        ("command: 'branch fix..{{test}}'", "'fix..{{test}}' is not a valid name of a branch"),
        ("command: commit all, with: {message: a, paths: [b]}", "a `commit` step has no words"),
        ("command: markdown ../a.md", "'../a.md' leads outside"),
        ("command: markdown names.md", "names.md: unknown arg {{who}}"),
        ("command: markdown empty.md", "empty.md: the prompt of a is empty"),
    ],
)
def test_a_fault_is_an_error_of_check_and_refused_before_a_session(
    project: Project, step: str, said: str
) -> None:
    """kai NFR3; cat NFR-2.3."""
    file = prepared(project, f"id: a, {step}")
    done = project.playbook("check", file)
    assert done.code == 1
    assert said in done.out
    assert f"{file}:6:" in done.out
    run = project.playbook("run", "sample", "--agent", "exec:echo done", "test=x")
    assert run.code == (3 if "PB-POLICY" in done.out else 1)
    assert said.replace("{{test}}", "x").partition(":")[0] in run.err
    assert project.sessions == []


@pytest.mark.parametrize(("value", "line"), [("{KEY: [1]}", 11), ("{}\n      environment: x", 12)])
def test_a_fault_of_an_option_is_reported_where_it_stands(
    project: Project, value: str, line: int
) -> None:
    file, step = write(project), ["id: a", "command: cli true", "autonomy: auto", "with:"]
    text = "\n    ".join([f"  - {step[0]}", "error_policy: stop", *step[1:], f"  env: {value}"])
    project.write(file, f"{HEAD}{text}\n")
    assert f"{file}:{line}:" in project.playbook("check", file).out


@pytest.mark.parametrize(
    "step",
    [
        "command: 'cli {{test}} -c true'",
        "command: 'http {{test}} https://{{test}}/'",
        "command: 'mcp tracker.{{test}}'",
        "command: 'branch {{test}}'",
        "command: 'markdown prompts/{{test}}.md'",
        "command: markdown names.md, with: {inputs: {who: Ada}}",
        "command: 'cli true', cwd: '{{test}}'",
    ],
)
def test_what_is_not_known_yet_is_let_through(project: Project, step: str) -> None:
    file = prepared(project, f"id: a, {step}")
    assert project.playbook("check", file).code == 0


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("command: 'branch {{test}}'", "'a..b' is not a valid name of a branch"),
        ("command: 'mcp {{test}}.find'", ".mcp.json: there is no MCP server 'a'"),
        ("command: 'markdown {{test}}'", "there is no file 'a..b'"),
    ],
)
def test_a_run_knows_more_than_check(project: Project, step: str, said: str) -> None:
    prepared(project, f"id: a, {step}")
    planned = project.playbook(
        "run", "sample", "test=a..b", "--dry-run", "--agent", "exec:echo done"
    )
    assert f"refused: step a: {said}" in planned.out.replace("'../a..b' ", "")
    ran = project.playbook("run", "sample", "test=a..b", "--agent", "exec:echo done")
    assert (ran.code, project.sessions) == (1, [])


@pytest.mark.parametrize("made", ["outputs: [b.md]"])
def test_a_prompt_may_be_what_an_earlier_step_makes(project: Project, made: str) -> None:
    file = prepared(project, f"id: a, command: 'cli make', {made}", "id: b, command: markdown b.md")
    assert project.playbook("check", file).code == 0


def test_outside_of_a_project_only_the_words_are_judged(tmp_path: Path) -> None:
    file = tmp_path / "sample.yaml"
    steps = ["mcp a.b", "cli sh", "markdown a.md", "http GET https://a.example", "branch a b"]
    file.write_text(
        HEAD + "".join(STEP.format(f"id: s{i}, command: {each}") for i, each in enumerate(steps))
    )
    (report,) = checking.check([str(file)])
    assert [each.message for each in report.problems if each.severity == "error"] == [
        "a `branch` step takes one name"
    ]


def test_a_plugin_that_raises_in_its_check_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(*_: object) -> None:
        raise ValueError("oops")

    monkeypatch.setattr(CliExecutor, "check", check)
    done = project.playbook("check", prepared(project, "id: a, command: cli true"))
    assert "the executor cli cannot check its words: ValueError: oops" in done.out


def test_a_playbook_without_agents_runs_where_there_is_none(project: Project) -> None:
    """A check that a program can make costs no model and needs no client."""
    project.gh("missing")
    write(project, "id: say, command: 'cli cat README.md'")
    plan = project.playbook("run", "sample", "--dry-run")
    assert plan.code == 0, plan.err
    assert "no agent" in plan.out
    assert "runs   cli, without an agent" in plan.out
    done = project.playbook("run", "sample")
    assert done.code == 0, done.err
    assert "say#1 start cli cat README.md" in done.err
    assert "output: # A project" in project.playbook("show").out
    (entry,) = project.journal()
    assert entry["output"] == "# A project"
    assert "agent" not in entry


def test_a_playbook_with_a_prompt_needs_an_agent(project: Project) -> None:
    project.gh("missing")
    write(project, "id: ask, command: prompt, with: {text: 'Review it.'}")
    assert "no agent was named" in project.playbook("run", "sample").err
    plan = project.playbook("run", "sample", "--dry-run", "--agent", "exec:echo done")
    assert "runs   a prompt, by an agent that may only read" in plan.out


def test_the_arguments_of_a_program_are_shown_with_their_values(project: Project) -> None:
    write(project, "id: say, command: 'cli echo {{test}}'")
    done = project.playbook("run", "sample", "test=a b")
    assert done.code == 0, done.err
    assert "say#1 start cli echo 'a b'" in done.err
    assert "cli echo 'a b'" in project.playbook("run", "sample", "test=a b", "--dry-run").out
    assert project.playbook("status", "--all").code == 0
