"""The settings of a session: those of its beginning, until a person accepts others."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.scratch_project import Project

from playbook_supervisor.commands.driving import driving
from playbook_supervisor.errors import StateError
from playbook_supervisor.project.settings import session_settings
from playbook_supervisor.project.settings.config import (
    AgentSettings,
    Bounds,
    CheckSpec,
    Claude,
    Config,
    Inbox,
)
from playbook_supervisor.records import as_mapping, replace

ONE = """\
name: one
description: Two steps.
version: "1.0"
args: []
steps:
  - {id: a, command: /x, autonomy: auto, error_policy: gate}
  - {id: b, command: /y, autonomy: gate_always, error_policy: gate}
"""
POWERS = "agents: {claude: {allowed_tools: [Bash]}, own: {exec: [./evil]}}\nnotify: [./evil]\n"
SETTINGS = ".playbooks/config.yaml"


@pytest.fixture
def two(project: Project) -> Project:
    project.write(".playbooks/playbooks/one.yaml", ONE)
    project.write(SETTINGS, "commit_sessions: never\n")
    project.write("evil", "#!/bin/sh\necho started >> evil.log\n").chmod(0o755)
    return project


def writes(project: Project, path: str, text: str) -> str:
    """An agent whose first step writes a file of the project."""
    program = project.write("agent", f"#!/bin/sh\ncat > {path} <<'END'\n{text}END\necho written\n")
    program.chmod(0o755)
    return "exec:./agent"


def test_settings_that_an_agent_writes_have_no_effect_on_its_session(two: Project) -> None:
    """They would start its program at the gate, and give the next step its permissions."""
    waiting = two.playbook("run", "one", "--agent", writes(two, SETTINGS, POWERS))
    assert waiting.code == 4, waiting.err
    assert not (two.root / "evil.log").exists()
    answered = two.playbook("answer", "continue")
    assert "note: the settings changed since the session began: " in answered.err
    assert "agents.claude.allowed_tools was nothing and is [Bash]" in answered.err
    assert "--accept-config` takes the new ones" in answered.err
    refused = two.playbook("resume", "--agent", "own")
    assert refused.code == 1
    assert "PB-ARG-AGENT" in refused.err
    assert two.playbook("resume").code == 0
    assert not (two.root / "evil.log").exists()


def test_a_person_accepts_settings_and_session_yaml_says_so(two: Project) -> None:
    two.playbook("run", "one", "--agent", writes(two, "notes", "nothing\n"))
    two.write(SETTINGS, POWERS)
    two.playbook("answer", "continue")
    done = two.playbook("resume", "--accept-config")
    assert done.code == 0, done.err
    assert "; accepted" in done.err
    assert (two.root / "evil.log").exists()
    (confirmed,) = two.manifest()["confirmed"]
    assert confirmed["what"].startswith("changed settings: ")
    assert "notify" in confirmed["what"]
    assert (two.session / "config.yaml").read_text() == POWERS
    assert two.playbook("repair").code == 0


def test_what_a_person_was_shown_is_accepted_and_not_what_is_written_meanwhile(
    two: Project,
) -> None:
    two.playbook("run", "one", "--agent", writes(two, "notes", "nothing\n"))
    two.playbook("answer", "continue")
    mine = "commit_sessions: never\nartifacts: {qa: quality}\n"
    two.write(SETTINGS, mine)

    def says_yes(shown: str) -> bool:
        two.write(SETTINGS, POWERS)
        return 'artifacts.qa was ".qa" and is quality' in shown

    assert driving.resume(cwd=two.root, confirm=says_yes).why == "completed"
    assert (two.session / "config.yaml").read_text() == mine
    assert not (two.root / "evil.log").exists()


def test_an_agents_shell_accepts_no_settings(two: Project) -> None:
    two.playbook("run", "one", "--agent", writes(two, SETTINGS, POWERS))
    before = (two.session / "config.yaml").read_bytes()
    private = two.root / ".git/playbook" / two.session.name
    for driver in private.glob("driver*"):
        driver.unlink()
    refused = two.playbook("resume", "--accept-config", env={"CLAUDECODE": "1"})
    assert refused.code == 3
    assert "PB-STATE-HUMAN-ONLY" in refused.err
    assert (two.session / "config.yaml").read_bytes() == before


@pytest.mark.parametrize("forged", ["the pinned file", "and its copy", "and what was compiled"])
def test_pinned_settings_that_something_else_changed_are_refused(two: Project, forged: str) -> None:
    two.playbook("run", "one", "--agent", writes(two, "notes", "nothing\n"))
    private = two.root / ".git/playbook" / two.session.name
    (two.session / "config.yaml").write_text(POWERS)
    if forged != "the pinned file":
        (private / "config.yaml").write_text(POWERS)
    if forged == "and what was compiled":
        (private / "settings.json").unlink()
    refused = two.playbook("answer", "continue")
    assert refused.code == 3
    assert "the pinned settings were changed by something else [PB-STATE-TAMPERED]" in refused.err
    shown = two.playbook("repair")
    assert shown.code == 3
    if forged == "the pinned file":
        assert "config.yaml: the pinned settings were changed" in shown.out
        assert two.playbook("repair", "--restore").code == 0
        assert (two.session / "config.yaml").read_text() == "commit_sessions: never\n"
        assert two.playbook("answer", "continue").code == 0


def test_broken_settings_of_the_project_are_reported_and_the_session_continues(
    two: Project,
) -> None:
    two.playbook("run", "one", "--agent", writes(two, "notes", "nothing\n"))
    two.write(SETTINGS, "agnet: x\n")
    two.playbook("answer", "continue")
    done = two.playbook("resume")
    assert done.code == 0
    assert "the project's settings cannot be read: agnet: unknown key" in done.err
    assert two.playbook("resume", "--accept-config").code == 0  # there is nothing to do


def test_a_session_of_an_earlier_version_gets_settings_when_it_is_resumed(two: Project) -> None:
    two.playbook("run", "one", "--agent", writes(two, "notes", "nothing\n"))
    two.playbook("answer", "continue")
    forget_settings(two)
    done = two.playbook("resume")
    assert done.code == 0, done.err
    assert f"session {two.session.name} keeps the settings of today" in done.err
    assert (two.session / "config.yaml").read_text() == "commit_sessions: never\n"


def forget_settings(project: Project) -> None:
    """Make the session one that was begun before settings were pinned."""
    private = project.root / ".git/playbook" / project.session.name
    for file in (project.session / "config.yaml", private / "config.yaml"):
        file.unlink()
    session = yaml.safe_load((project.session / "session.yaml").read_bytes())
    assert session.pop("began_on")
    text = (project.session / "session.yaml").read_text()
    kept = [line for line in text.splitlines() if not line.startswith("began_on")]
    (project.session / "session.yaml").write_text("\n".join(kept) + "\n")
    rewrite(private, "config.yaml")


def rewrite(private: Path, forgotten: str) -> None:
    from playbook_supervisor.sessions.files.local_state import NAME, Runtime
    from playbook_supervisor.system.disk.ab_file import ABFile

    place = ABFile(private / NAME)
    runtime = Runtime.load(place)
    assert runtime is not None
    runtime.digests.pop(forgotten)
    runtime.manifest["began_on"] = ""
    runtime.save(place)


# ── as JSON, and what differs ───────────────────────────────────────────────────────────────

texts = st.text(max_size=5)
lines = st.lists(texts, max_size=2).map(tuple)
bounds = st.builds(Bounds, cli=st.none() | lines, http=st.none() | lines, mcp=st.none() | lines)
configs = st.builds(
    Config,
    agent=texts,
    agents=st.dictionaries(texts, st.builds(AgentSettings, exec=lines, mode=texts), max_size=2),
    claude=st.builds(Claude, allowed_tools=lines, wait_for_limit=st.booleans()),
    secrets=st.dictionaries(texts, lines, max_size=2),
    push_sessions=st.booleans(),
    checks=st.dictionaries(texts, lines, max_size=2).map(
        lambda argvs: {name: CheckSpec(name, argv, 60, {name: "1"}) for name, argv in argvs.items()}
    ),
    allow=bounds,
    notify=lines,
    remind_after=st.floats(0, 9),
    inbox=st.builds(Inbox, resume=st.booleans(), url=texts),
)


@given(configs)
def test_settings_as_json_are_the_same_settings(settings: Config) -> None:
    import json

    data = json.loads(json.dumps(session_settings.settings_to_json(settings)))
    assert session_settings.settings_from_json(data) == settings


@given(configs, configs)
def test_settings_that_differ_have_changes(one: Config, other: Config) -> None:
    assert bool(list(session_settings.changes(one, other))) == (one != other)


def test_every_setting_is_named_as_in_the_file() -> None:
    other = Config(
        agents={"own": AgentSettings(exec=("x",))},
        claude=Claude(permission_mode="plan"),
        specs="docs/specs",
        deny=Bounds(http=("*",)),
        checks={"test": CheckSpec("test", ("make", "test"), 60, {"CI": "1"})},
    )
    assert [key for key, *_ in session_settings.changes(Config(), other)] == [
        "agents.claude.permission_mode",
        "artifacts.specs",
        "deny.http",
        "agents.own",
        "checks.test",
    ]
    run = '{run: [make, test], timeout_seconds: 60, env: {CI: "1"}}'
    assert list(session_settings.changes(Config(), other))[-1] == ("checks.test", "nothing", run)
    assert replace(other, **as_mapping(other)) == other


def test_what_an_earlier_version_compiled_has_the_defaults_of_newer_keys() -> None:
    data = session_settings.settings_to_json(Config(agent="own"))
    for key in ("remind_after", "inbox"):
        del data[key]
    assert session_settings.settings_from_json(data) == Config(agent="own")


def test_settings_of_a_newer_version_are_refused() -> None:
    with pytest.raises(StateError, match="newer"):
        session_settings.read_settings(b"schema: 99\n", "config.yaml")
