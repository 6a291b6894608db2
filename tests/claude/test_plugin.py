"""The plugin for Claude Code: from this repository, alone and beside a project's own hooks."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.scratch_project import Project

from claude import playbooks
from claude.client import Client, program
from claude.conftest import FREE, Start
from claude.model import Reply, Request, Script, call, text
from claude.scripts import Disobedient, Undisturbed, bash, executed, obey, once, refusals, steps
from playbook_supervisor.drivers.claude_code.marker import SCRIPT

REPOSITORY = Path(__file__).parents[2]
PLUGIN = "playbook@playbook-supervisor"
RUN = "/playbook:run straight 013"

Plugged = Callable[..., Client]


@pytest.fixture
def market(tmp_path: Path) -> Path:
    """A copy of the marketplace: the client runs the hooks of a local one where they are."""
    for name in (".claude-plugin", "templates"):
        shutil.copytree(REPOSITORY / name, tmp_path / "market" / name)
    return tmp_path / "market"


@pytest.fixture
def plugged(start: Start, project: Project, market: Path) -> Plugged:
    """Start a client that has the plugin, in a project without hooks unless another is given."""
    playbooks.shelve(project)

    def client(script: Script, where: Project = project) -> Client:
        made = start(script, where)
        plugin(made, "marketplace", "add", str(market))
        plugin(made, "install", PLUGIN)
        return made

    return client


def plugin(client: Client, *words: str) -> str:
    """What `claude plugin …` prints, in the home of this client."""
    argv = [*client.model.network.enter, str(program()), "plugin", *words]
    done = subprocess.run(
        argv, cwd=client.root, env=client.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_directory_of_plugins_accepts_it(start: Start, project: Project) -> None:
    client = start(obey)
    plugin(client, "validate", "--strict", "--profile", "directory", str(REPOSITORY / "templates"))
    plugin(client, "validate", "--strict", str(REPOSITORY))


class TestInAProjectWithoutHooks:
    @pytest.mark.usefixtures("each_client")
    def test_a_session_runs_to_its_end_and_only_starts_what_is_due(
        self, plugged: Plugged, project: Project
    ) -> None:
        mine = call("Write", file_path=str(project.root / "mine"), content="x")
        client = plugged(Disobedient(once(mine)))
        client.run(RUN, *FREE)
        assert steps(project) == ["plan#1 done", "tasks#1 done"]
        assert project.manifest()["status"] == "completed"
        assert "is not allowed here" in refusals(client)["Write"]
        assert not (project.root / "mine").exists()
        assert not (project.root / ".claude/settings.json").exists()

    def test_a_script_that_a_worker_changes_stops_the_conversation(
        self, plugged: Plugged, project: Project, market: Path
    ) -> None:
        script = str(market / "templates/hooks/playbook.sh")
        code = f"open({script!r}, 'a').write('# x')"
        sabotage = Undisturbed("speckit.plan", bash(f"{sys.executable} -c {shlex.quote(code)}"))
        mine = bash("touch mine")

        def main(request: Request) -> Reply | None:
            sabotage.main(request)
            return [mine] if request.called("Agent") and request.notifications else None

        client = plugged(Disobedient(main, sabotage.worker))
        client.run(RUN, *FREE)
        assert executed(client) == ["speckit.plan"]
        assert not (project.root / "mine").exists()
        told = [words for request in client.model.requests for words in request.texts]
        assert any("playbook.sh was changed or removed" in words for words in told)

    def test_after_a_pause_init_writes_no_hooks_and_all_the_rest(
        self, plugged: Plugged, project: Project
    ) -> None:
        """The pause is in the plugin's spelling."""
        idle = [True]
        client = plugged(lambda request: [text("I do nothing.")] if idle else obey(request))
        client.run(RUN, *FREE)
        assert (project.root / ".git/playbook/bound").exists()
        client.run("/playbook:pause", *FREE)
        assert not (project.root / ".git/playbook/bound").exists()
        done = project.playbook("init", "--yes")
        assert "your plugin brings the hooks" in done.out
        settings = json.loads(project.read(".claude/settings.json"))
        assert list(settings) == ["permissions"]
        assert not (project.root / SCRIPT).exists()
        assert "ok  hooks: your plugin" in " ".join(project.playbook("doctor").out.split("\n"))
        assert project.playbook("update", "--check").code == 0
        idle.clear()
        client.run("/playbook:resume", *FREE)
        assert project.manifest()["status"] == "completed"
        assert project.playbook("init", "--yes", "--hooks").code == 0
        assert "hooks" in json.loads(project.read(".claude/settings.json"))
        assert (project.root / SCRIPT).exists()


def test_beside_a_projects_own_hooks_nothing_is_done_or_said_twice(
    plugged: Plugged, prepared: Path, tmp_path: Path, home: Path
) -> None:
    furnished = Project.copied(prepared, tmp_path / "furnished", home=home)
    playbooks.shelve(furnished)
    mine = call("Write", file_path=str(furnished.root / "mine"), content="x")
    client = plugged(Disobedient(once(mine)), furnished)
    calls = counted(client)
    client.run("/playbook.run straight 013", *FREE)
    assert steps(furnished) == ["plan#1 done", "tasks#1 done"]
    assert executed(client) == ["speckit.plan", "speckit.tasks"]
    (denied,) = [each.text for each in client.model.results_of(mine)]
    assert denied.count("is not allowed here") == 1
    events = [json.loads(seen) for seen in calls.read_text().splitlines()]
    typed = [each for each in events if each["hook_event_name"] == "UserPromptExpansion"]
    used = [each["tool_use_id"] for each in events if each["hook_event_name"] == "PreToolUse"]
    assert len(typed) == 1
    assert len(used) == len(set(used))


def counted(client: Client) -> Path:
    """Let the `playbook` on the client's PATH note each event that it is given."""
    log, real = client.scratch / "calls", client.scratch / "bin/playbook"
    target = real.resolve()
    real.unlink()
    real.write_text(
        f'#!/bin/sh\n[ "$1" = hook ] || exec {target} "$@"\n'
        f'read -r line; printf "%s\\n" "$line" >>{log}; printf "%s" "$line" | {target} hook\n'
    )
    real.chmod(0o755)
    return log


def test_an_author_is_helped_by_the_skill(plugged: Plugged, project: Project) -> None:
    """Asked for a playbook, the client offers the skill, and what that shows passes the check."""
    skill = "playbook:playbook-authoring"
    file = ".playbooks/playbooks/small-change.yaml"
    checked = bash(f"playbook check --strict {file}")

    def model(request: Request) -> Reply:
        if not request.called("Skill"):
            return [call("Skill", skill=skill)]
        if not request.called("Write"):
            shown = next(words for words in request.texts if "# Writing a playbook" in words)
            (example,) = re.findall(rf"file={re.escape(file)}\n(.*?)```", shown, re.DOTALL)
            return [call("Write", file_path=str(project.root / file), content=example)]
        return [text("Keep it?")] if request.called("Bash") else [checked]

    project.write(".playbooks/config.yaml", "checks: {test: [make, test]}\n")
    client = plugged(model)
    client.run("write a playbook that makes a change and proves it", *FREE)
    first = client.model.main[0]
    assert any(skill in words for words in (*first.texts, first.system))
    (result,) = client.model.results_of(checked)
    assert "1 file: fine" in result.text
