"""`playbook doctor --isolation`: a program tries what it can do in isolation."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cli.scripts import conforms
from support.bubblewrap import needs_bubblewrap
from support.scratch_project import Project, without_bubblewrap

from playbook_supervisor.commands import isolation_report
from playbook_supervisor.commands.isolation_report import Row
from playbook_supervisor.project.settings import isolation
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.system.isolation import profiles
from playbook_supervisor.system.isolation.sandbox import Sandbox

pytestmark = needs_bubblewrap


def settings(project: Project, text: str) -> None:
    project.write(".playbooks/config.yaml", f"isolation: {text}\n")


def rows(project: Project) -> dict[str, Row]:
    return {row.what: row for row in isolation_report.examine(project.root).rows}


@pytest.fixture
def inhabited(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Project]:
    """A project and a home with all that isolation is about, also a key's agent that listens."""
    for name in (".ssh/id", ".aws/credentials", ".bashrc", ".gitconfig", ".cache/pip/wheel"):
        file = project.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine\n")
    for name in (".claude.json", ".claude/settings.json", ".local/state/playbook/inbox.json"):
        file = project.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n")
    (project.home / ".config/playbook/fleet").mkdir(parents=True)
    project.write(".claude/settings.json", "{}\n")
    (project.root / ".git/playbook").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path)  # such addresses are short
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind("agent")
        agent.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        monkeypatch.chdir(project.root)
        yield project


class TestTheTable:
    def test_everything_is_as_it_should_be(self, inhabited: Project) -> None:
        settings(inhabited, "auto")
        found = rows(inhabited)
        assert {what for what, row in found.items() if row.state not in ("fine", "advice")} == set()
        told = {what: row.found for what, row in found.items()}
        assert told["the checkout"] == told["git's objects and branches"] == "writable"
        for what in (".git/config", ".git/playbook", ".playbooks", "~/.bashrc and the like"):
            assert told[what] == "read-only"
        assert told["~/.claude/settings.json"] == told["~/.gitconfig"] == "read-only"
        assert told["~/.claude.json"] == told["new files in the home"] == "separate"
        assert told["caches"] == told["/tmp"] == "separate"
        assert told["~/.ssh"] == told["~/.aws, ~/.gnupg and other keys"] == "hidden"
        assert told["state and fleet of playbook"] == told["ssh-agent"] == "hidden"
        assert told["processes outside"] == "not seen"
        assert told["root's powers"] == "none"
        assert told["the network"] == "as_is"
        left = (inhabited.root.rglob, inhabited.home.rglob, Path("/tmp").glob)
        assert [each for search in left for each in search(".playbook-probe-*")] == []

    def test_it_is_the_same_in_a_worktree(self, inhabited: Project) -> None:
        settings(inhabited, "auto")
        inhabited.commit("Isolate")
        inhabited.git("worktree", "add", "-q", "-b", "linked", "../linked")
        report = isolation_report.examine(inhabited.root.parent / "linked")
        assert (report.mode, report.wrong) == ("auto", False)

    @pytest.mark.parametrize("network", ["none", "proxy"])
    def test_the_network_is_what_the_settings_ask_for(self, project: Project, network: str) -> None:
        settings(project, f"{{network: {network}}}")
        row = rows(project)["the network"]
        assert (row.expected, row.found, row.state) == (network, network, "fine")

    def test_what_the_settings_allow_is_said_to_be_allowed(self, inhabited: Project) -> None:
        settings(inhabited, "{show: [~/.ssh, $SSH_AUTH_SOCK], write: [~/.bashrc]}")
        done = inhabited.playbook("doctor", "--isolation")
        assert done.code == 0
        told = dict(line.split("  ", 2)[1:] for line in done.out.splitlines()[1:])
        allowed = {what: text.strip() for what, text in told.items() if "settings say" in text}
        assert allowed == {
            "~/.bashrc and the like": "writable, as the settings say",
            "~/.ssh": "read-only, as the settings say",
            "ssh-agent": "reached, as the settings say",
        }

    def test_an_isolation_that_does_not_hold_is_an_error(
        self, inhabited: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The table says what was found, and not what the profile promises."""

        honest = isolation.of_step

        def leaky(config: Config, root: Path) -> Sandbox:
            kept = honest(config, root)
            assert kept
            return replace(
                kept, profile=replace(kept.profile, protected=(), hidden=profiles.TEMPORARY)
            )

        monkeypatch.setattr(isolation, "of_step", leaky)
        settings(inhabited, "auto")
        done = inhabited.playbook("doctor", "--isolation")
        assert done.code == 3
        for what in (".git/config", ".playbooks", "Claude Code's settings here"):
            assert re.search(f"WRONG +{what} +writable, and should be read-only$", done.out, re.M)
        for what in ("~/.ssh", "state and fleet of playbook"):
            assert re.search(f"WRONG +{what} +read-only, and should be hidden$", done.out, re.M)
        assert inhabited.git("status", "--porcelain", "--ignored").count("probe") == 0


class TestTheCommand:
    def test_without_isolation_in_the_settings_it_shows_what_auto_gives(
        self, project: Project
    ) -> None:
        done = project.playbook("doctor", "--isolation")
        assert done.code == 0
        assert done.out.startswith(
            "nothing is isolated; this is what `isolation: auto` gives here:"
        )
        assert re.search("ok +the checkout +writable$", done.out, re.M)
        assert "do: To isolate agents, programs and checks, write `isolation: auto`" in done.out

    @pytest.mark.parametrize(("mode", "code"), [("auto", 0), ("required", 3)])
    def test_without_bubblewrap_it_says_how_to_get_it(
        self, project: Project, tmp_path: Path, mode: str, code: int
    ) -> None:
        settings(project, mode)
        without_bubblewrap(project, tmp_path)
        done = project.playbook("doctor", "--isolation")
        assert done.code == code
        assert "nothing is isolated: bubblewrap (bwrap) is not installed" in done.out
        assert "do: Install bubblewrap (`apt install bubblewrap`" in done.out

    def test_the_table_is_also_given_as_json(self, inhabited: Project, tmp_path: Path) -> None:
        settings(inhabited, "{mode: required, show: [~/.ssh]}")
        told = conforms("isolation", inhabited.playbook("doctor", "--isolation", "--json").json)
        assert (told["mode"], told["backend"], told["network"]) == ("required", "bwrap", "as_is")
        row = {"what": "~/.ssh", "expected": "hidden", "found": "read-only", "state": "allowed"}
        assert row in told["rows"]
        without_bubblewrap(inhabited, tmp_path)
        told = conforms("isolation", inhabited.playbook("doctor", "--isolation", "--json").json)
        assert told["problem"] == "bubblewrap (bwrap) is not installed"
        assert told["rows"] == []

    def test_json_is_for_the_table_alone(self, project: Project) -> None:
        done = project.playbook("doctor", "--json")
        assert done.code == 1
        assert "--json goes with --isolation" in done.err


class TestTheOtherFindings:
    """The plain `playbook doctor` has one line about isolation."""

    @pytest.mark.parametrize(
        ("mode", "told"),
        [
            ("none", "could be better  isolation: none: agents, programs and checks can do all"),
            ("auto", "ok  isolation: auto, by bwrap; `playbook doctor --isolation` tries it"),
        ],
    )
    def test_it_says_what_isolates(self, project: Project, mode: str, told: str) -> None:
        settings(project, mode)
        assert told in project.playbook("doctor").out

    @pytest.mark.parametrize(
        ("mode", "told"),
        [
            ("auto", "could be better  isolation: auto, but bubblewrap (bwrap) is not installed"),
            ("required", "WRONG  isolation: required, but bubblewrap (bwrap) is not installed"),
        ],
    )
    def test_it_says_what_is_missing(
        self, project: Project, tmp_path: Path, mode: str, told: str
    ) -> None:
        settings(project, mode)
        without_bubblewrap(project, tmp_path)
        assert told in project.playbook("doctor").out
