"""Settings that were corrected while a session runs: a person takes them over at its gate."""

from __future__ import annotations

import re
from typing import Any

import pytest
from inbox.serving import serving
from inbox.test_answers import Page
from support.hook_calls import Hooked
from support.scratch_project import Project

from cli.terminal import Terminal

SETTINGS = ".playbooks/config.yaml"
BROKEN = "commit_sessions: never\nchecks:\n  test: {run: [python3, -m, pytestt]}\n"
FIXED = "commit_sessions: never\nchecks:\n  test: {run: [python3, -m, this]}\n"
PLAYBOOK = """\
name: proved
description: Build, and prove it
version: "1.1"
args: []
steps:
  - id: build
    command: /build
    autonomy: auto
    error_policy: gate
    postconditions: [{command_succeeds: test}]
"""
PARENT = """\
name: parent
description: Run the playbook that builds
version: "1.1"
args: []
steps:
  - {id: all, command: playbook proved, autonomy: auto, error_policy: gate}
"""
BUILDS = "default: {say: built, write: {made.py: '1'}}\n"


@pytest.fixture
def stuck(project: Project) -> Project:
    """The session waits because its check cannot work; the project's settings are corrected."""
    waiting = begun(project)
    assert waiting.code == 4, waiting.err
    project.write(SETTINGS, FIXED)
    return project


def begun(project: Project, *options: str, playbook: str = "proved") -> Any:
    project.write(".claude/commands/build.md", "Build.\n")
    project.write(".playbooks/playbooks/proved.yaml", PLAYBOOK)
    project.write(".playbooks/playbooks/parent.yaml", PARENT)
    project.write(SETTINGS, BROKEN)
    return project.playbook("run", playbook, "--agent", project.script(BUILDS), *options)


def offered(shown: str) -> str:
    found = re.search(r"take settings [0-9a-f]{12}", shown)
    assert found, shown
    return found[0]


def settled(project: Project) -> None:
    """The check has passed, and the agent has not run again."""
    assert [entry["status"] for entry in project.journal()] == ["done"]
    (confirmed,) = project.manifest()["confirmed"]
    assert re.fullmatch(r"changed settings: checks.test \(sha256 [0-9a-f]{64}\)", confirmed["what"])
    assert confirmed["by"] == "Ada Example <ada@example.org>"
    assert (project.session / "config.yaml").read_text() == FIXED
    for looks in ("audit", "repair"):
        done = project.playbook(looks)
        assert done.code == 0, done.out + done.err


def test_the_gate_shows_the_difference_and_takes_it_over(stuck: Project) -> None:
    shown = stuck.playbook("status").out
    assert (
        "the project's settings have changed, but the session keeps its own (checks.test):" in shown
    )
    assert "-   test: {run: [python3, -m, pytestt]}" in shown
    assert "+   test: {run: [python3, -m, this]}" in shown
    answered = stuck.playbook("answer", offered(shown))
    assert answered.code == 0, answered.err
    assert "settings" not in answered.err
    assert stuck.playbook("resume").code == 0
    settled(stuck)
    (gate,) = stuck.journal()[0]["gates"]
    assert (gate["text"], gate["resolution"]) == (offered(shown), "continue")


def test_what_a_person_has_not_seen_is_not_taken_over(stuck: Project) -> None:
    unseen = stuck.playbook("answer", "take settings")
    assert unseen.code == 1
    assert "by - test: {run: [python3, -m, pytestt]}; + test:" in " ".join(unseen.err.split())
    words = offered(unseen.err)
    stuck.write(SETTINGS, FIXED.replace("this", "evil"))
    changed = stuck.playbook("answer", words)
    assert changed.code == 3
    assert "[PB-STATE-CHANGED]" in changed.err
    assert "-m, evil" in changed.err
    assert (stuck.session / "config.yaml").read_text() == BROKEN
    assert stuck.manifest()["gate"]["id"] == "build#1?1"
    assert stuck.playbook("answer", offered(changed.err)).code == 0


def test_where_nothing_differs_there_is_nothing_to_take(stuck: Project) -> None:
    stuck.write(SETTINGS, f"# a comment\n{BROKEN}")
    assert "take settings" not in stuck.playbook("status").out
    refused = stuck.playbook("answer", "take settings 012345678901")
    assert (refused.code, "nothing to take" in refused.err) == (3, True)
    stuck.write(SETTINGS, "chekcs: {}\n")
    refused = stuck.playbook("answer", "take settings 012345678901")
    assert (refused.code, "[PB-CHECK-CONFIG]" in refused.err) == (1, True)
    assert stuck.manifest()["gate"]["id"] == "build#1?1"


def test_the_step_may_run_again_under_the_new_settings(stuck: Project) -> None:
    words = offered(stuck.playbook("status").out)
    assert stuck.playbook("answer", f"retry, {words}", "--resume").code == 0
    assert [entry["status"] for entry in stuck.journal()] == ["failed", "done"]


def test_an_agent_and_an_autonomous_run_take_nothing_over(project: Project) -> None:
    assert begun(project, "--mode", "autonomous").code == 4
    project.write(SETTINGS, FIXED)
    assert project.playbook("resume").code == 4
    words = offered(project.playbook("status").out)
    for driver in (project.root / ".git/playbook" / project.session.name).glob("driver*"):
        driver.unlink()
    refused = project.playbook("answer", words, env={"CLAUDECODE": "1"})
    assert (refused.code, "[PB-STATE-HUMAN-ONLY]" in refused.err) == (3, True)
    assert (project.session / "config.yaml").read_text() == BROKEN


def test_a_gate_of_a_child_takes_them_over_for_the_sessions_above_it_too(project: Project) -> None:
    assert begun(project, playbook="parent").code == 4
    project.write(SETTINGS, FIXED)
    words = offered(project.playbook("status").out)
    done = project.playbook("answer", words, "--resume")
    assert done.code == 0, done.err
    assert [(each / "config.yaml").read_text() for each in project.sessions] == [FIXED, FIXED]
    assert project.playbook("audit", "--all").code == 0


def test_a_difference_too_long_for_a_gate_is_named_and_left_to_the_file(stuck: Project) -> None:
    checks = "".join(f"  more{number}: {{run: [make, x{number}]}}\n" for number in range(20))
    stuck.write(SETTINGS, FIXED + checks)
    shown = stuck.playbook("status").out
    assert f"more than can be shown here: read {SETTINGS} before you answer" in shown
    assert "x19" not in shown


def test_at_a_terminal_settings_that_were_not_shown_are_shown_first(project: Project) -> None:
    begun(project)
    with Terminal(project, "resume") as terminal:
        terminal.until("abort > ")
        project.write(SETTINGS, FIXED)
        terminal.type("take settings\n")
        terminal.until("+ test: {run: [python3, -m, this]}")
        terminal.until("the gate stays open")
        terminal.until("abort > ")
        terminal.type("take settings\n")
        assert terminal.end() == 0, terminal.shown
    settled(project)


def test_in_claude_code_a_person_types_what_the_gate_shows(stuck: Project) -> None:
    person = Hooked(stuck)
    person.types("/playbook.resume")
    unseen = person.says("take settings")
    assert "the project's settings differ from the session's by" in unseen.note
    assert person.says(offered(unseen.note)).snapshot is not None
    assert (stuck.session / "config.yaml").read_text() == FIXED


def test_the_inbox_has_a_button_for_it(stuck: Project) -> None:
    with serving(stuck) as served, served.visitor() as client:
        page = Page(served, client)
        assert "+   test: {run: [python3, -m, this]}" in page.text
        button = re.search(r'value="(take settings [0-9a-f]{12})"', page.text)
        assert button
        stuck.write(SETTINGS, FIXED.replace("this", "evil"))
        assert page.answer(button[1]).status_code == 409
        stuck.write(SETTINGS, FIXED)
        page.load()
        assert page.answer(button[1], "the command was wrong").status_code == 303
    assert stuck.playbook("resume").code == 0
    settled(stuck)


def test_a_planned_gate_goes_on_with_them_if_both_are_said(project: Project) -> None:
    project.write(
        ".playbooks/playbooks/asks.yaml",
        PLAYBOOK.replace("proved", "asks").replace(": auto", ": gate_always"),
    )
    assert begun(project, playbook="asks").code == 4
    project.write(SETTINGS, FIXED)
    shown = project.playbook("status").out
    assert f"answer `continue, {offered(shown)}` to go on with them" in shown
    assert project.playbook("answer", offered(shown)).code == 1
    assert project.playbook("answer", f"continue, {offered(shown)}", "--resume").code == 0
    settled(project)


def test_who_may_not_answer_takes_nothing_over(project: Project) -> None:
    project.write(
        ".playbooks/policies/team.yaml",
        'match: {step: build}\nanswered_by: ["grace@example.org"]\n',
    )
    assert begun(project).code == 4
    project.write(SETTINGS, FIXED)
    refused = project.playbook("answer", offered(project.playbook("status").out))
    assert (refused.code, "[PB-POLICY-ANSWER]" in refused.err) == (3, True)
    assert (project.session / "config.yaml").read_text() == BROKEN
    assert "confirmed" not in project.manifest()
