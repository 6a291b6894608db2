"""Everything that is said of child playbooks before one runs."""

from __future__ import annotations

import json
import shutil
from typing import Any

import jsonschema
import pytest
from support.scratch_project import Project

from playbook_supervisor.project.playbooks.schema import schema_text

FOLDER = ".playbooks/playbooks"
STEP = "  - {{id: {}, command: {}, autonomy: auto, error_policy: stop{}}}\n"
PROVED = ", postconditions: [{file_exists: README.md}]"


def write(
    project: Project, name: str, *steps: str, args: str = "[]", more: str = "", file: str = ""
) -> None:
    """A playbook; a step is `COMMAND` or `COMMAND, KEY: VALUE…`, and its id is `s1`, `s2`…"""
    lines = ""
    for number, step in enumerate(steps, 1):
        command, comma, rest = step.partition(", ")
        lines += STEP.format(f"s{number}", command, comma + rest)
    project.write(
        f"{FOLDER}/{file or name}.yaml",
        f'name: {name}\ndescription: A test\nversion: "1.1"\nargs: {args}\n{more}steps:\n{lines}',
    )


def problems(project: Project, *names: str) -> list[dict[str, Any]]:
    checked = project.playbook("check", *names, "--format", "json").json
    return [each for file in checked["files"] for each in file["problems"]]


def told(project: Project, *names: str) -> list[str]:
    return [each["message"] for each in problems(project, *names)]


def only(project: Project, name: str) -> dict[str, Any]:
    (problem,) = problems(project, name)
    return problem


LEAF = "cli make"


# ── finding it ──────────────────────────────────────────────────────────────────────────────


def test_a_child_is_found_by_its_name_and_by_its_path(project: Project) -> None:
    """cat FR-4.8, FR-9.1, E-3."""
    write(project, "release", LEAF)
    project.write("team/deploy.yaml", (project.root / f"{FOLDER}/release.yaml").read_text())
    project.write(
        "team/deploy.yaml",
        (project.root / "team/deploy.yaml").read_text().replace("name: release", "name: deploy"),
    )
    write(project, "top", f"playbook release{PROVED}", f"playbook team/deploy.yaml{PROVED}")
    assert project.playbook("check", "--strict", "top").code == 0


def test_a_child_that_is_not_there_is_an_error_at_its_step(project: Project) -> None:
    write(project, "release", LEAF)
    write(project, "top", LEAF, "playbook relaese")
    problem = only(project, "top")
    assert (problem["code"], problem["severity"], problem["line"]) == (
        "PB-CHECK-CHILD",
        "error",
        7,
    )
    assert "no playbook is called 'relaese'" in problem["message"]
    assert problem["guidance"] == "Did you mean `release`?"


@pytest.mark.parametrize("path", ["team/deploy.yaml", "../deploy.yaml"])
def test_a_path_that_leads_nowhere_is_an_error(project: Project, path: str) -> None:
    write(project, "top", f"playbook {path}")
    assert path in only(project, "top")["message"]


def test_a_file_outside_the_projects_playbooks_only_warns(project: Project) -> None:
    write(project, "top", "playbook nowhere")
    project.write("draft.yaml", (project.root / f"{FOLDER}/top.yaml").read_text())
    assert only(project, "draft.yaml")["severity"] == "warning"
    project.write(
        ".playbooks/templates/own.tpl.yaml", (project.root / f"{FOLDER}/top.yaml").read_text()
    )
    assert problems(project, ".playbooks/templates/own.tpl.yaml") == []


def test_a_path_names_the_playbook_in_it(project: Project) -> None:
    write(project, "release", LEAF, file="other")
    write(project, "top", f"playbook {FOLDER}/other.yaml")
    assert only(project, "top")["message"] == (
        f"{FOLDER}/other.yaml holds the playbook release, which is called otherwise"
    )


def test_a_child_that_is_not_valid_is_one_sentence(project: Project) -> None:
    write(project, "release", "cli make, autonomie: x, colour: red")
    write(project, "top", "playbook release")
    problem = only(project, "top")
    assert problem["message"].startswith("the playbook release is not valid: line 6: ")
    assert problem["message"].endswith(" (and 1 more)")
    assert problem["guidance"] == f"Run `playbook check {FOLDER}/release.yaml`."


def test_a_fault_far_below_is_one_sentence(project: Project) -> None:
    write(project, "a", "playbook b")
    write(project, "b", "playbook c")
    write(project, "c", "playbook d")
    assert told(project, "a")[0].startswith("c cannot run: step s1: no playbook is called 'd'")
    assert len(problems(project, "a")) == 1


def test_two_files_of_one_name_cannot_be_in_one_tree(project: Project) -> None:
    write(project, "release", LEAF)
    project.write("team/release.yaml", (project.root / f"{FOLDER}/release.yaml").read_text())
    write(project, "top", "playbook release", "playbook team/release.yaml")
    assert told(project, "top") == [
        f"both {FOLDER}/release.yaml and team/release.yaml are called release"
    ]


# ── its args ────────────────────────────────────────────────────────────────────────────────

ARGS = (
    "[{name: level, description: L, required: true, type: enum, values: [low, high]}, "
    "{name: count, description: C, required: false, type: number}, "
    "{name: token, description: T, required: false, secret: true}]"
)
OWN = (
    "[{name: what, description: W, required: true}, {name: may, description: M, required: false}, "
    "{name: key, description: K, required: false, secret: true}]"
)


def given(project: Project, args: str) -> list[str]:
    write(project, "release", LEAF, args=ARGS)
    write(project, "top", f"playbook release, with: {{args: {args}}}{PROVED}", args=OWN)
    return told(project, "top")


@pytest.mark.parametrize(
    "args",
    [
        "{level: low}",
        "{level: '{{what}}', count: 3}",
        "{level: low, count: '{{may}}'}",
        "{level: high, count: '', token: '{{key}}'}",
        "{level: low, token: GITHUB_TOKEN}",
    ],
)
def test_a_child_takes_what_fits_its_args(project: Project, args: str) -> None:
    """cat FR-9.3."""
    assert given(project, args) == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("{}", "release is not given level"),
        ("{level: ' '}", "release is not given level"),
        ("{level: [low]}", "`with` of the playbook step: $.args.level: ['low'] is not of type"),
        ("{level: lo}", "the arg level of release must be one of low, high, not"),
        ("{level: low, count: some}", "the arg count of release must be a number"),
        ("{level: low, coutn: 3}", "release has no arg coutn; did you mean count?"),
        ("{level: '{{key}}'}", "the arg level of release is not secret"),
        ("{level: low, token: 'no handle'}", "the arg token of release must be the name"),
    ],
)
def test_what_does_not_fit_is_an_error(project: Project, args: str, said: str) -> None:
    """cat FR-9.3; tyr 28: a secret reaches nothing that could show it."""
    (message,) = given(project, args)
    assert message.startswith(said)


def test_a_required_arg_should_surely_have_a_value(project: Project) -> None:
    (message,) = given(project, "{level: '{{ may }}'}")
    assert message == "the arg level of release is required, and `{{ may }}` may have no value"


# ── cycles, depth and size ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "path"),
    [("a", "a → b → a"), ("b", "b → a → b"), ("top", "a → b → a"), ("own", "own → own")],
)
def test_a_cycle_is_refused_with_its_path(project: Project, name: str, path: str) -> None:
    """cat FR-9.5, NFR-2.4."""
    write(project, "top", "playbook a")
    write(project, "a", "playbook b")
    write(project, "b", LEAF, "playbook a")
    write(project, "own", "playbook own")
    problem = only(project, name)
    assert problem["code"] == "PB-CHECK-CYCLE"
    assert problem["message"] == f"the playbooks run each other without end: {path}"


@pytest.mark.parametrize("conditional", ["a", "b"])
def test_a_cycle_with_a_condition_on_it_ends_by_its_depth(
    project: Project, conditional: str
) -> None:
    """cat FR-9.5: a self-call is permitted where it can end."""
    when = {name: ", when: $s1.approved" * (name == conditional) for name in "ab"}
    write(project, "a", LEAF, f"playbook b{when['a']}{PROVED}")
    write(project, "b", LEAF, f"playbook a{when['b']}{PROVED}")
    assert told(project, "a", "b") == []


def test_another_cycle_of_the_same_playbooks_is_still_found(project: Project) -> None:
    write(project, "a", LEAF, "playbook b, when: $s1.approved", "playbook b")
    write(project, "b", "playbook a")
    assert any("without end" in each for each in told(project, "a"))


@pytest.mark.parametrize(("limit", "fits"), [(3, True), (2, False)])
def test_children_that_are_deeper_than_allowed_are_an_error(
    project: Project, limit: int, fits: bool
) -> None:
    write(project, "a", f"playbook b{PROVED}", more=f"limits: {{max_depth: {limit}}}\n")
    write(project, "b", f"playbook c{PROVED}", f"playbook d{PROVED}")
    write(project, "c", f"playbook d{PROVED}")
    write(project, "d", LEAF)
    found = [] if fits else ["its children are 3 deep, and `max_depth` is 2"]
    assert told(project, "a") == found


def test_depth_behind_a_condition_is_seen_in_the_run(project: Project) -> None:
    write(
        project,
        "a",
        LEAF,
        f"playbook b, when: $s1.approved{PROVED}",
        more="limits: {max_depth: 1}\n",
    )
    write(project, "b", f"playbook c{PROVED}")
    write(project, "c", LEAF)
    assert told(project, "a") == []


def test_a_tree_has_a_bounded_size(project: Project) -> None:
    for number in range(101):
        write(project, f"n{number}", LEAF)
    write(project, "top", *(f"playbook n{number}{PROVED}" for number in range(101)))
    assert told(project, "top") == ["top reaches more than 100 playbooks"]


# ── warnings ────────────────────────────────────────────────────────────────────────────────


def test_a_child_that_takes_a_feature_should_be_given_it(project: Project) -> None:
    write(project, "release", LEAF, args="[{name: feature, description: F, required: false}]")
    write(project, "top", "playbook release")
    assert only(project, "top")["code"] == "PB-CHECK-LINT-FEATURE"


def test_something_should_prove_what_a_child_did(project: Project) -> None:
    write(project, "release", "/speckit.plan")
    write(project, "top", "playbook release", f"playbook release{PROVED}")
    problem = only(project, "top")
    assert (problem["code"], problem["line"]) == ("PB-CHECK-LINT-UNSEEN", 6)
    assert problem["message"] == ("neither `s1` nor the last step of release has postconditions")


# ── before a run ────────────────────────────────────────────────────────────────────────────

BEGINNINGS: list[tuple[str, ...]] = [("run",), ("begin",), ("run", "--dry-run"), ("start",)]


def refused(project: Project, words: tuple[str, ...], name: str = "top") -> tuple[int, str]:
    project.commit("Playbooks")
    done = project.playbook(words[0], name, *words[1:])
    assert project.sessions == []
    return done.code, done.out + done.err


@pytest.mark.parametrize("words", BEGINNINGS)
@pytest.mark.parametrize(
    ("children", "code", "said"),
    [
        ({}, 1, "step s1: no playbook is called 'b'"),
        ({"b": "playbook c", "c": LEAF}, 3, "PB-POLICY"),
        ({"b": "/nowhere.to-be-found"}, 1, "/nowhere.to-be-found"),
    ],
    ids=["missing", "forbidden", "without its command"],
)
def test_nothing_begins_with_a_child_that_cannot_run(
    project: Project, words: tuple[str, ...], children: dict[str, str], code: int, said: str
) -> None:
    """tyr 27."""
    project.write(".playbooks/config.yaml", "deny: {cli: [make]}\n")
    write(project, "top", "playbook b")
    for name, command in children.items():
        write(project, name, command)
    ended, told = refused(project, words)
    assert (ended, said in told) == (code, True), told


def test_an_agent_is_needed_for_a_childs_steps(project: Project) -> None:
    write(project, "top", "playbook b", "playbook c")
    write(project, "b", LEAF)
    write(project, "c", "/speckit.plan")
    project.write(".playbooks/config.yaml", "agent: nobody\n")
    code, said = refused(project, ("run",))
    assert code == 1
    assert "nobody" in said


def test_start_refuses_a_child_that_the_commit_lacks(project: Project) -> None:
    write(project, "top", "playbook release")
    write(project, "release", LEAF)
    project.git("add", f"{FOLDER}/top.yaml")
    project.git("commit", "-qm", "The playbook alone")
    base = project.git("rev-parse", "HEAD")
    project.commit("The rest")
    done = project.playbook("start", "top", "--base", base)
    assert done.code != 0
    assert "step s1: no playbook is called 'release'" in done.err
    assert "do: Commit the playbooks that its steps run." in done.err


def test_start_finds_a_child_anywhere_in_the_commit(project: Project) -> None:
    write(project, "top", "playbook team/release.yaml")
    write(project, "release", LEAF)
    project.playbook("init", "--yes")
    (project.root / "team").mkdir()
    (project.root / f"{FOLDER}/release.yaml").rename(project.root / "team/release.yaml")
    project.commit("Playbooks")
    done = project.playbook("start", "top", "--branch", "new")
    assert done.code == 0, done.err


def test_beginning_keeps_the_whole_tree(project: Project) -> None:
    """cat FR-9.2: what a child is does not change in a run."""
    write(project, "top", LEAF, "playbook b")
    write(project, "b", "playbook c")
    write(project, "c", LEAF)
    write(project, "other", LEAF)
    project.write(".playbooks/policies/team.yaml", "match: {playbook: c}\nautonomy: gate_always\n")
    assert project.playbook("begin", "top").code == 0
    kept = sorted(path.name for path in (project.session / "playbooks").iterdir())
    assert kept == ["b.yaml", "c.yaml"]
    assert (project.session / "playbooks/c.yaml").read_bytes() == (
        project.root / f"{FOLDER}/c.yaml"
    ).read_bytes()
    assert "playbook: c" in (project.session / "policy.yaml").read_text()


def test_a_child_in_json_is_kept_as_yaml(project: Project) -> None:
    steps = [{"id": "a", "command": "cli make", "autonomy": "auto", "error_policy": "stop"}]
    child = {"name": "b", "description": "A test", "version": "1.1", "args": [], "steps": steps}
    project.write("team/b.json", json.dumps(child))
    write(project, "top", LEAF, "playbook team/b.json")
    assert project.playbook("begin", "top").code == 0
    assert json.loads((project.session / "playbooks/b.yaml").read_text()) == child


# ── pictures of the tree ────────────────────────────────────────────────────────────────────


def nested(project: Project) -> None:
    """`top` runs `b`, which runs `c` and, on a condition, `top`."""
    write(
        project,
        "top",
        LEAF,
        "playbook b, with: {args: {what: '{{it}}', why: ''}}",
        args="[{name: it, description: I, required: true}]",
    )
    write(
        project,
        "b",
        "playbook c",
        "playbook top, when: $s1.approved, with: {args: {it: x}}",
        args="[{name: what, description: W, required: true}, "
        "{name: why, description: W, required: false}]",
    )
    write(project, "c", LEAF, "checkpoint, with: {message: Ship it?}")


def test_a_plan_shows_what_children_would_do(project: Project) -> None:
    nested(project)
    project.write(".playbooks/policies/t.yaml", "match: {playbook: c}\nautonomy: gate_always\n")
    done = project.playbook("run", "top", "this", "--dry-run")
    assert done.code == 0
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    first = lines.index("2 s2 playbook b what=this")
    assert lines[first + 1 : first + 6] == [
        "runs the playbook b, in a session of its own",
        "s1 playbook c",
        "s1/s1 cli make gate_always",
        "s1/s2 checkpoint gate_always",
        "s2 playbook top as above",
    ]


def test_a_plan_as_json_has_them_as_a_list(project: Project) -> None:
    nested(project)
    shape = project.playbook("run", "top", "this", "--dry-run", "--json").json
    jsonschema.Draft7Validator(json.loads(schema_text("plan"))).validate(shape)
    (planned,) = shape["phases"][1]["steps"]
    assert planned["children"] == [
        {"id": "s1", "command": "playbook c", "autonomy": "auto"},
        {"id": "s1/s1", "command": "cli make", "autonomy": "auto"},
        {"id": "s1/s2", "command": "checkpoint", "autonomy": "auto"},
        {"id": "s2", "command": "playbook top", "autonomy": "auto", "again": True},
    ]


def test_a_chart_draws_each_child_once(project: Project) -> None:
    nested(project)
    chart = project.playbook("graph", "top").out
    boxes = [line for line in chart.splitlines() if "subgraph" in line]
    assert boxes == ['  subgraph c1["b"]', '  subgraph c2["c"]', '  subgraph c3["top"]']
    for line in ("s2 -.->|runs| c1", "c1s1 -.->|runs| c2", "c2s1 --> c2s2"):
        assert f"  {line}\n" in chart


def test_a_chart_of_a_session_draws_the_children_that_it_keeps(project: Project) -> None:
    nested(project)
    project.playbook("begin", "top", "this")
    write(project, "c", LEAF, LEAF, LEAF)
    chart = project.playbook("graph", "--session", project.session.name).out
    assert "c2s1" in chart
    assert "Ship it?" in chart


def test_a_playbook_whose_children_are_missing_is_still_drawn(project: Project) -> None:
    write(project, "top", "playbook nowhere")
    assert "playbook nowhere" in project.playbook("graph", "top").out


# ── what a session keeps ────────────────────────────────────────────────────────────────────


def test_a_person_who_accepts_a_session_sees_how_its_children_differ(project: Project) -> None:
    """Without the runtime state nothing proves what the session keeps."""
    write(project, "top", LEAF, "playbook b", "playbook c")
    write(project, "b", LEAF)
    write(project, "c", LEAF)
    project.playbook("begin", "top")
    session = project.session.name
    shutil.rmtree(project.root / f".git/playbook/{session}")
    kept = project.session / "playbooks/b.yaml"
    kept.write_text(kept.read_text().replace("cli make", "cli rm"))
    (project.root / f"{FOLDER}/c.yaml").unlink()
    told = project.playbook("repair", session).out
    assert "playbooks/b.yaml: it differs from the project's playbook" in told
    assert "playbooks/c.yaml: the project has no valid playbook of this name" in told
