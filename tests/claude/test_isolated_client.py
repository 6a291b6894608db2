"""The real client in isolation: `playbook claude`, and what an agent inside cannot do."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.bubblewrap import needs_bubblewrap
from support.scratch_project import Project

from claude.client import Client, program
from claude.conftest import Open, Start
from claude.model import Reply, Request, Script, text
from claude.scripts import FREE, Disobedient, at_work, bash, furnished, honest, steps
from playbook_supervisor.system.process import ancestry

pytestmark = needs_bubblewrap

RUN = "/playbook.run short"
TO_THE_GATE = ["plan#1 done", "build#1 done", "left-out#1 skipped", "hand-in#1 in_progress"]
GATE = "Run /feature.pr (step hand-in) now"
Isolated = Callable[[Script], Client]


class IsolatedClient(Client):
    """Started by `playbook claude`."""

    def argv(self, *args: str) -> list[str]:
        return [*self.model.network.enter, *self.command(*args)]

    def command(self, *args: str) -> list[str]:
        on_path = self.scratch / "bin/claude"
        if not on_path.exists():
            on_path.symlink_to(str(program()))
        return [str(self.scratch / "bin/playbook"), "claude", *args]

    def kill(self) -> None:
        """Also what the process outside removes unless it is killed."""
        variables = [ancestry.first_environment(pid) for pid in self.processes()]
        super().kill()
        for broker in {each["PLAYBOOK_BROKER"] for each in variables if "PLAYBOOK_BROKER" in each}:
            shutil.rmtree(Path(broker).parents[1], ignore_errors=True)


class ClientInAShell(IsolatedClient):
    """A person's shell, in which they type the command."""

    def argv(self, *args: str) -> list[str]:
        del args
        return [*self.model.network.enter, "bash", "--norc", "-i"]


@pytest.fixture(scope="module")
def template(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every project here starts from, made once."""
    return furnished(pristine, tmp_path_factory.mktemp("furnished"))


@pytest.fixture
def project(template: Path, tmp_path: Path, home: Path) -> Project:
    made = Project.copied(template, tmp_path / "project", home=home)
    settings(made, "required")
    return made


def settings(project: Project, isolation: str) -> None:
    project.write(".playbooks/config.yaml", f"isolation: {isolation}\n")
    project.commit("Set the isolation")


@pytest.fixture
def isolated(start: Start) -> Isolated:
    """Make a client that `playbook claude` starts."""

    def make(script: Script, kind: type[Client] = IsolatedClient) -> Client:
        client = start(script)
        client.__class__ = kind
        return client

    return make


def told(client: Client, command: str) -> str:
    """What came back from that command of a worker."""
    (result,) = client.model.results_of(bash(command))
    return result.text


def isolations(project: Project) -> list[str]:
    return [entry.get("isolation", "") for entry in project.journal()]


def test_an_agent_that_attacks_its_supervisor_changes_nothing_and_the_person_answers(
    project: Project, isolated: Isolated, open_terminal: Open
) -> None:
    """In one conversation: while a step runs, and while the gate is open."""
    shutil.copy(Path(__file__).with_name("attacks.py"), project.root)
    command = "python3 attacks.py late >late.txt 2>&1 & python3 attacks.py"
    client = isolated(Disobedient(worker=at_work("speckit.implement", bash(command))))
    terminal = open_terminal(client, *FREE)
    terminal.say(RUN)
    terminal.wait_for(re.escape(GATE))
    tried = told(client, command).splitlines()
    assert [line for line in tried if line.startswith("ESCAPED")] == []
    assert tried[-1] == "over", tried
    assert sum(line.startswith("held") for line in tried) >= 35, tried
    late = project.root / "late.txt"
    terminal.wait_until(lambda: late.exists() and late.read_text().endswith("over\n"))
    assert "ESCAPED" not in late.read_text()
    assert late.read_text().count("held") == 6
    assert steps(project) == TO_THE_GATE
    assert project.manifest()["gate"]["id"] == "hand-in#1?1"
    terminal.say("skip")
    terminal.wait_for("short: completed")
    assert isolations(project) == ["bwrap", "bwrap", "", ""]


def test_status_names_the_isolation_and_the_end_of_the_client_ends_all_inside(
    project: Project, isolated: Isolated
) -> None:
    command = "tail -f /dev/null & playbook status"
    client = isolated(Disobedient(worker=at_work("speckit.plan", bash(command))))
    assert client.run(RUN, *FREE).code == 0
    assert honest(project, client) == "waiting"
    assert "isolated by bwrap" in told(client, command)
    assert "isolated by bwrap" in project.playbook("status").out
    assert client.processes() == []


def test_settings_that_an_agent_makes_for_its_client_do_not_apply(
    project: Project, isolated: Isolated
) -> None:
    """They could replace the program that takes from shells the power to trace the client."""
    project.write("made.json", json.dumps({"env": {"CLAUDE_CODE_SHELL_PREFIX": "/usr/bin/env"}}))
    project.write("make.sh", "cp made.json .claude/settings.local.json; sleep 3; ls .claude")
    make, look = "sh make.sh", "echo $CLAUDE_CODE_SHELL_PREFIX"

    def worker(request: Request) -> Reply | None:
        ran = "Skill `speckit.plan`" in request.prompt and request.called("Skill")
        left = [bash(each) for each in (make, look) if bash(each) not in request.calls]
        return left[:1] if ran and left else None

    client = isolated(Disobedient(worker=worker))
    client.run(RUN, *FREE)
    assert "settings.local.json.refused" in told(client, make)
    assert told(client, look).endswith("/broker/shell")
    assert honest(project, client) == "waiting"


def test_a_goal_ends_no_turn_before_its_check_holds(project: Project, isolated: Isolated) -> None:
    """What remembers it is in the user's state, which is not there inside."""
    check = "checks: {made: {run: [test, -f, made]}}\n"
    project.write(".playbooks/config.yaml", f"isolation: required\n{check}")
    project.commit("Check")

    def model(request: Request) -> Reply:
        told = "The goal does not hold yet" in request.said + request.context
        return [bash("touch made")] if told and not request.called("Bash") else [text("Done.")]

    client = isolated(model)
    assert client.run("/playbook.goal made", *FREE).code == 0
    assert (project.root / "made").exists()


class TestWithoutIsolation:
    def test_a_client_that_was_started_by_hand_begins_nothing_where_it_is_required(
        self, project: Project, start: Start
    ) -> None:
        done = start(Disobedient()).run(RUN, *FREE)
        assert "start it with `playbook claude`" in str(done.events)
        assert project.sessions == []


class TestATerminal:
    def test_stops_and_continues_the_client_and_gets_its_status(
        self, project: Project, isolated: Isolated, open_terminal: Open
    ) -> None:
        client = isolated(Disobedient(), ClientInAShell)  # type: ignore[call-arg]
        assert isinstance(client, ClientInAShell)
        terminal = open_terminal(client)
        terminal.wait_for(r"\$|#")
        terminal.write(shlex.join(client.command()))
        terminal.key("Enter")
        terminal.ready()
        terminal.key("C-z")
        terminal.wait_for(r"Stopped .*playbook claude")
        terminal.write("fg")
        terminal.key("Enter")
        terminal.ready()
        terminal.resize(100, 40)
        terminal.wait_for(r"(?m)^─{100}$")
        terminal.settle()
        terminal.key("C-c", "C-c")
        terminal.wait_for(r"#\s*\Z|\$\s*\Z")
        terminal.write(f"{shlex.join(client.command('--no-such-option'))}; echo status $?")
        terminal.key("Enter")
        terminal.wait_for("unknown option '--no-such-option'")
        terminal.wait_for("status 1")

    def test_asks_for_trust_once(
        self, project: Project, isolated: Isolated, open_terminal: Open
    ) -> None:
        client = isolated(Disobedient())
        client.distrust()
        file = project.home / ".claude.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "mine": 1}))
        terminal = open_terminal(client)
        terminal.trust()
        terminal.ready()
        terminal.settle()
        terminal.key("C-c", "C-c")
        terminal.wait_for("Pane is dead")
        kept = json.loads(file.read_text())
        assert kept["projects"] == {str(project.root): {"hasTrustDialogAccepted": True}}
        assert kept["mine"] == 1
        open_terminal(client).ready()
