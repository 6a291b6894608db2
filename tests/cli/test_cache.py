"""Recorded outputs stand in for runs, where a playbook asks for it (cat NFR-1.4)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.scratch_project import Project

BUILD = """\
name: build
description: Count the lines, which takes long
version: "1.1"
args: [{name: topic, description: What it is about, required: false, default: tea}]
defaults: {autonomy: auto, error_policy: stop}
steps:
  - id: count
    command: cli ./count {{topic}}
    cache: {files: [src/**, lock]}
  - {id: tell, command: cli cat, stdin: $count.stdout}
"""
COUNT = (
    '#!/bin/sh\necho ran >>"$RAN"\necho "about $1: $(cat src/* | wc -l) lines"\ntest ! -f broken\n'
)


@pytest.fixture
def build(project: Project) -> Project:
    project.write(".playbooks/playbooks/build.yaml", BUILD)
    project.write("count", COUNT).chmod(0o755)
    project.write("src/a", "one\n")
    project.env["RAN"] = str(project.root.with_name("ran"))
    return project


def ran(project: Project) -> int:
    file = project.root.with_name("ran")
    return len(file.read_text().split()) if file.exists() else 0


def newest(project: Project) -> str:
    return max(project.sessions, key=lambda folder: folder.stat().st_mtime_ns).name


def run(project: Project, *args: str, code: int = 0) -> None:
    done = project.playbook("run", "build", *args)
    assert done.code == code, done.err


def records(project: Project) -> list[Path]:
    return sorted((project.root / ".git/playbook/cache").glob("*.json"))


def test_the_second_run_takes_the_output_of_the_first_and_says_so(build: Project) -> None:
    run(build)
    first = build.session.name
    run(build)
    assert ran(build) == 1
    second = next(each.name for each in build.sessions if each.name != first)
    journal = (build.root / f".playbooks/sessions/{second}/journal.yaml").read_text()
    assert f'cached_from: "{first}/count#1"\n' in journal
    assert f'evidence: ["cached: the output of {first}/count#1"]' in journal
    assert journal.count("about tea: 1 lines") == 2  # what it printed is read as ever
    assert f"cached: the output of {first}/count#1" in build.playbook("show", second).out
    assert build.playbook("audit", second).code == 0


@pytest.mark.parametrize("changed", ["src/a", "src/deep/b"])
def test_a_file_that_changed_is_a_reason_to_run(build: Project, changed: str) -> None:
    run(build)
    build.write(changed, "one\ntwo\n")
    build.write("elsewhere", "no file that the step names\n")
    run(build)
    assert ran(build) == 2
    run(build)
    assert ran(build) == 2


def test_what_failed_is_never_recorded(build: Project) -> None:
    build.write("broken", "")
    run(build, code=2)
    assert records(build) == []
    (build.root / "broken").unlink()
    run(build)
    assert (ran(build), len(records(build))) == (2, 1)


def test_conditions_are_checked_although_nothing_ran_and_a_retry_runs(build: Project) -> None:
    asks = BUILD.replace("cache:", "postconditions: [{file_exists: made}]\n    cache:")
    asks = asks.replace("error_policy: stop", "error_policy: retry_once")
    build.write(".playbooks/playbooks/build.yaml", asks)
    build.write("made", "x\n")
    run(build)
    (build.root / "made").unlink()
    run(build, code=2)
    assert ran(build) == 2  # the first attempt was cached, the second one ran


@pytest.mark.parametrize(
    "content", ["", '{"schema": 1}', "CUT", "OTHER KEY", "OTHER SOURCE", "\udcff"]
)
def test_a_record_that_is_no_record_only_costs_a_run(build: Project, content: str) -> None:
    run(build)
    (record,) = records(build)
    shape = json.loads(record.read_text())
    match content:
        case "CUT":
            content = record.read_text()[:-20]
        case "OTHER KEY":
            content = json.dumps(shape | {"key": "0" * 64})
        case "OTHER SOURCE":
            content = json.dumps(shape | {"from": "../../x\n"})
    record.write_text(content, errors="surrogateescape")
    run(build)
    assert ran(build) == 2
    assert json.loads(record.read_text())["key"] == shape["key"]


def test_a_record_without_a_folder_or_rights_only_costs_a_run(build: Project) -> None:
    build.write(".git/playbook/cache", "in the way")
    run(build)
    run(build)
    assert ran(build) == 2


def test_worktrees_share_what_was_recorded(build: Project) -> None:
    args = "args: [{name: feature, description: A feature, required: false}, "
    build.write(".playbooks/playbooks/build.yaml", BUILD.replace("args: [", args))
    build.commit("Begin")
    run(build, "feature=013")
    other = build.root.with_name("other")
    build.git("worktree", "add", "-q", "-b", "other", str(other), "HEAD")
    done = build.playbook("run", "build", "feature=013", cwd=other)
    assert done.code == 0, done.err
    assert ran(build) == 1


def test_two_runs_at_once_record_one_whole_output(build: Project) -> None:
    build.write("count", COUNT.replace("echo ran", "sleep 0.2; echo ran"))
    build.commit("Begin")
    folders = [build.root.with_name(name) for name in ("left", "right")]
    args = "args: [{name: feature, description: A feature, required: false}, "
    for folder in folders:
        build.git("worktree", "add", "-q", "-b", folder.name, str(folder), "HEAD")
        text = BUILD.replace("args: [", args)
        (folder / ".playbooks/playbooks/build.yaml").write_text(text)
    runs = [build.spawn("run", "build", "feature=013", cwd=folder) for folder in folders]
    ended = [(each.communicate(timeout=120), each.returncode) for each in runs]
    assert [code for _, code in ended] == [0, 0], ended
    (record,) = records(build)
    assert json.loads(record.read_text())["output"] == "about tea: 1 lines\n"


def test_old_and_surplus_records_go(build: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from playbook_supervisor.sessions.engine import result_cache

    run(build)
    monkeypatch.setattr(result_cache, "MOST_RECORDS", 1)
    run(build, "topic=coffee")
    assert len(records(build)) == 1
    monkeypatch.setattr(result_cache, "OLDEST", -1)
    run(build, "topic=coffee")
    assert ran(build) == 3


def test_too_many_or_too_large_files_are_not_compared(
    build: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from playbook_supervisor.sessions.engine import result_cache

    for name, value in (("_MOST_READ", 2), ("_MOST_FILES", 0)):
        monkeypatch.setattr(result_cache, name, value)
        run(build)
        monkeypatch.undo()
        monkeypatch.setenv("RAN", build.env["RAN"])
    assert (ran(build), records(build)) == (2, [])


def test_a_link_that_leads_outside_is_no_reason_to_read_there(build: Project) -> None:
    (build.root / "lock").symlink_to("/etc/hostname")
    run(build)
    run(build)
    assert (ran(build), records(build)) == (2, [])


ASK = """\
name: ask
description: Ask an agent
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: ask, command: prompt, with: {text: How many lines?}, MODEL cache: {files: [src/a]}}
"""


def test_an_agent_is_asked_once_until_its_model_changes(build: Project) -> None:
    build.write(".playbooks/playbooks/ask.yaml", ASK.replace("MODEL", ""))
    agent = build.script("steps: {ask: {say: one line}}")
    assert build.playbook("run", "ask", "--agent", agent).code == 0
    begun = build.playbook("run", "ask", "--agent", agent, "--json")
    assert begun.code == 0
    assert "cached: the output of" in build.playbook("show", newest(build)).out
    build.write(".playbooks/playbooks/ask.yaml", ASK.replace("MODEL", "model: haiku,"))
    assert build.playbook("run", "ask", "--agent", agent).code == 0
    assert "cached: the output of" not in build.playbook("show", newest(build)).out


def test_no_client_is_told_to_ask_an_agent_again(build: Project) -> None:
    """The output is found before anything is launched, in every driver."""
    build.write(".playbooks/playbooks/ask.yaml", ASK.replace("MODEL", ""))
    agent = build.script("steps: {ask: {say: one line}}")
    build.write(".playbooks/config.yaml", f"agent: {agent}\n")
    assert build.playbook("run", "ask").code == 0
    begun = build.playbook("begin", "ask", "--json")
    assert begun.code == 0
    assert (begun.json["directive"], begun.json["status"]) == ("finish", "completed")


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("command: commit, with: {message: m, paths: [a]}", "only `cli`, `http`, `prompt` steps"),
        ("command: http POST http://localhost/", "a POST request does more than read"),
        ("command: cli make, outputs: [dist]", "the step makes `outputs`"),
        (
            "command: prompt, with: {text: t}, tools: [Write]",
            "the agent may do more than read: Write",
        ),
        ("command: cli make, postconditions: [{changes_made: a}]", "`changes_made` needs a run"),
        ('command: cli make, with: {env: {T: "{{secret:TOKEN}}"}}', "the step is given a secret"),
    ],
)
def test_what_cannot_have_one_is_refused_by_place(project: Project, step: str, said: str) -> None:
    text = BUILD.partition("steps:")[0].replace(
        "args: [", "args: [{name: token, description: d, required: false, secret: true}, "
    )
    text += f"steps:\n  - {{id: a, {step}, cache: {{files: [x]}}}}\n"
    project.write(".playbooks/playbooks/build.yaml", text)
    checked = project.playbook("check", "build")
    assert checked.code == 1
    assert f"`cache`: {said}" in checked.out + checked.err
    assert "build.yaml:7:" in checked.out + checked.err


@pytest.mark.parametrize("path", ["../x", "{{topic}}/x"])
def test_a_file_outside_or_unknown_is_refused(build: Project, path: str) -> None:
    build.write(".playbooks/playbooks/build.yaml", BUILD.replace("src/**", f'"{path}"'))
    checked = build.playbook("check", "build")
    assert checked.code == 1
    assert f"`cache`: '{path}'" in checked.out + checked.err
