"""`playbook doctor`: what is installed is tried, and what does not work comes with its cure."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from pytest_mock import MockerFixture
from support.git_repositories import put
from support.scratch_project import Project

from playbook_supervisor import __version__
from playbook_supervisor.agents.claude.headless import TESTED
from playbook_supervisor.commands import doctor
from playbook_supervisor.commands.doctor import Diagnosis
from playbook_supervisor.commands.install import init
from playbook_supervisor.drivers.claude_code.marker import MARKER, SCRIPT
from playbook_supervisor.drivers.claude_code.settings import FILE, LOCAL_FILE

PLAYBOOK = f"""\
case $1 in
  --version) echo 'playbook {__version__}' ;;
  hook) cat >>"$HOME/events" ;;
esac
"""


class Clinic:
    """A project with everything installed, on a machine of which every program is known."""

    def __init__(self, project: Project, bin_: Path) -> None:
        self.project, self.bin = project, bin_

    def program(self, name: str, text: str) -> Path:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def without(self, name: str) -> None:
        (self.bin / name).unlink()

    def settings(self, **permissions: object) -> None:
        self.project.write(LOCAL_FILE, json.dumps({"permissions": permissions}))

    def findings(self) -> dict[str, Diagnosis]:
        found = list(doctor.examine(self.project.root, home=self.project.home))
        assert len({each.name for each in found}) == len(found)
        assert all(bool(each.cure) == (each.state != "fine") for each in found)
        return {each.name: each for each in found}

    def wrong(self) -> list[str]:
        return [name for name, each in self.findings().items() if each.state == "wrong"]


@pytest.fixture(scope="module")
def healthy(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after `init`, made once."""
    folder = tmp_path_factory.mktemp("healthy")
    project = Project.copied(pristine, folder / "project", home=folder)
    init.apply(init.plan(cwd=project.root))
    return project.root


@pytest.fixture
def clinic(healthy: Path, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    project = Project.copied(healthy, tmp_path / "project", home=home)
    clinic = Clinic(project, tmp_path / "bin")
    clinic.bin.mkdir()
    for name in ("cat", "git", "sh"):
        (clinic.bin / name).symlink_to(str(shutil.which(name)))
    clinic.program("playbook", PLAYBOOK)
    clinic.program("gh", "exit 0")
    clinic.program("claude", "echo '2.1.329 (Claude Code)'")
    monkeypatch.setenv("PATH", str(clinic.bin))
    clinic.settings(defaultMode="acceptEdits", allow=["Bash(make *)"])
    return clinic


class TestWhereAllIsFine:
    def test_the_hooks_of_this_program_pass(self, clinic: Clinic) -> None:
        """The others have a stand-in, which answers every hook."""
        clinic.without("playbook")
        (clinic.bin / "playbook").symlink_to(Path(sys.prefix) / "bin/playbook")
        assert clinic.findings()["hooks"].state == "fine"

    def test_nothing_needs_a_cure(self, clinic: Clinic) -> None:
        findings = clinic.findings()
        assert {each.state for each in findings.values()} == {"fine"}
        assert list(findings) == [
            *("git", "python", "playbook", "commands", "files", "hooks"),
            *("walking away", "headless", "isolation", "forge", "claude", "agents"),
        ]

    def test_it_says_what_is_there(self, clinic: Clinic) -> None:
        findings = clinic.findings()
        assert findings["git"].found.startswith("git version ")
        assert findings["playbook"].found == f"{__version__}, {clinic.bin / 'playbook'}"
        assert findings["claude"].found.startswith("2.1.329 (Claude Code); tested with 2.1.329 and")

    def test_it_changes_nothing(self, clinic: Clinic) -> None:
        before = clinic.project.git("status", "--porcelain")
        runtime = list((clinic.project.root / ".git").rglob("playbook/*"))
        clinic.findings()
        assert clinic.project.git("status", "--porcelain") == before
        assert list((clinic.project.root / ".git").rglob("playbook/*")) == runtime

    def test_the_hook_runs_the_program_with_a_harmless_event(self, clinic: Clinic) -> None:
        clinic.findings()
        event = json.loads((clinic.project.home / "events").read_text())
        assert event["hook_event_name"] == "UserPromptExpansion"
        assert event["command_name"] == "help"
        assert event["cwd"] == str(clinic.project.root)

    def test_it_works_from_a_subfolder_and_in_a_worktree(self, clinic: Clinic) -> None:
        clinic.project.commit("Install")
        clinic.project.git("worktree", "add", "-q", "-b", "linked", "../linked")
        for folder in (clinic.project.root / "specs", clinic.project.root.parent / "linked"):
            found = doctor.examine(folder, home=clinic.project.home)
            assert [each.name for each in found if each.state == "wrong"] == []


class TestPrograms:
    def test_without_git(self, clinic: Clinic) -> None:
        """kai RT-1."""
        clinic.without("git")
        assert clinic.wrong() == ["git"]

    def test_without_playbook_on_path(self, clinic: Clinic) -> None:
        clinic.without("playbook")
        assert clinic.wrong() == ["playbook", "hooks"]
        assert "uv tool install" in clinic.findings()["playbook"].cure
        assert "it is not installed" in clinic.findings()["hooks"].found

    def test_another_playbook_on_path(self, clinic: Clinic) -> None:
        clinic.program("playbook", "[ $1 = hook ] || echo 'playbook 0.0.1'")
        assert clinic.wrong() == ["playbook"]
        assert f"this is playbook {__version__}" in clinic.findings()["playbook"].found

    def test_a_program_that_never_answers(self, clinic: Clinic, mocker: MockerFixture) -> None:
        clinic.program("claude", "exec cat /dev/zero")
        mocker.patch.object(doctor, "_TIMEOUT", 0.3)
        assert clinic.findings()["claude"].state == "advice"

    @pytest.mark.parametrize(
        ("said", "state"),
        [("2.0.1 (Claude Code)", "fine"), ("odd", "fine"), ("2.1.1000 (Claude Code)", "advice")],
    )
    def test_a_client_that_was_not_tested_is_noted(
        self, clinic: Clinic, said: str, state: str
    ) -> None:
        clinic.program("claude", f"echo '{said}'")
        found = clinic.findings()["claude"]
        assert (found.state, found.found) == (state, f"{said}; tested with {' and '.join(TESTED)}")

    def test_a_client_that_knows_a_hook_more_is_told_of_it(self, clinic: Clinic) -> None:
        """Until the entry is added, which older clients would not know."""
        clinic.program("claude", "echo '2.1.332 (Claude Code)'")
        found = clinic.findings()["claude"]
        assert found.state == "advice"
        assert found.found.endswith("no hook of ours sees the shell lines in a command's text")
        project = clinic.project
        text = project.read(".claude/settings.json")
        added = json.loads(text)
        added["hooks"]["PreSkillShellCommand"] = added["hooks"]["PreToolUse"]
        project.write(".claude/settings.json", json.dumps(added))
        assert project.playbook("update").code == 0
        assert clinic.findings()["claude"].state == "fine"

    def test_without_the_client_there_is_still_the_headless_runner(self, clinic: Clinic) -> None:
        """kai RT-1."""
        clinic.without("claude")
        assert clinic.findings()["claude"].state == "advice"
        clinic.program("claude", "exit 97")
        assert clinic.findings()["claude"].state == "advice"

    def test_without_gh_where_a_playbook_looks_for_a_pull_request(self, clinic: Clinic) -> None:
        """kai NFR7."""
        clinic.without("gh")
        assert clinic.wrong() == ["forge"]
        assert "auto-feature" in clinic.findings()["forge"].found

    def test_a_gh_that_is_not_logged_in(self, clinic: Clinic) -> None:
        clinic.program("gh", "echo 'You are not logged in' >&2; exit 1")
        assert clinic.wrong() == ["forge"]
        assert clinic.findings()["forge"].cure == "Run `gh auth login`."

    def test_without_gh_where_none_does(self, clinic: Clinic) -> None:
        """kai NFR7, RT-1."""
        clinic.without("gh")
        folder = clinic.project.root / ".playbooks/playbooks"
        (folder / "auto-feature.yaml").write_text("broken: [")
        (folder / "auto-hotfix.yaml").unlink()
        assert "forge" not in clinic.findings()


class TestWhatIsInstalled:
    def test_nothing(self, clinic: Clinic) -> None:
        shutil.rmtree(clinic.project.root / ".playbooks")
        shutil.rmtree(clinic.project.root / ".claude")
        findings = clinic.findings()
        assert findings["commands"].cure == "Run `playbook init`."
        assert findings["hooks"].cure == "Run `playbook init`."
        assert findings["forge"].state == "wrong"
        assert findings["forge"].cure == "Run `playbook init`."

    def test_commands_that_were_deleted(self, clinic: Clinic) -> None:
        (clinic.project.root / ".claude/commands/playbook.run.md").unlink()
        assert clinic.findings()["commands"].state == "advice"
        assert "playbook.run.md" in clinic.findings()["commands"].found

    def test_a_record_that_cannot_be_read(self, clinic: Clinic) -> None:
        clinic.project.write(".playbooks/install.yaml", "schema: x\n")
        assert clinic.wrong() == ["commands", "files", "hooks"]
        assert ".playbooks/install.yaml:1:9" in clinic.findings()["commands"].found

    def test_an_entry_that_was_taken_out(self, clinic: Clinic) -> None:
        settings = json.loads(clinic.project.read(FILE))
        del settings["hooks"]["Stop"]
        clinic.project.write(FILE, json.dumps(settings))
        assert clinic.wrong() == ["hooks"]
        assert "hooks.Stop" in clinic.findings()["hooks"].found

    def test_a_script_of_the_hooks_that_was_changed_or_removed(self, clinic: Clinic) -> None:
        clinic.project.write(SCRIPT, "exit 0\n")
        assert clinic.wrong() == ["hooks"]
        assert "is not what was installed" in clinic.findings()["hooks"].found
        (clinic.project.root / SCRIPT).unlink()
        assert "is missing or empty" in clinic.findings()["hooks"].found
        assert "playbook update" in clinic.findings()["hooks"].cure

    def test_settings_that_are_not_json(self, clinic: Clinic) -> None:
        clinic.project.write(FILE, "{\n// mine\n}")
        assert clinic.findings()["hooks"].found.startswith(".claude/settings.json:2:1: ")

    @pytest.mark.parametrize("file", [LOCAL_FILE, "home"])
    def test_hooks_that_are_switched_off(self, clinic: Clinic, file: str) -> None:
        path = clinic.project.home / FILE if file == "home" else clinic.project.root / file
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"disableAllHooks": true}')
        assert clinic.wrong() == ["hooks"]
        assert str(path) in clinic.findings()["hooks"].cure

    def test_hooks_that_were_left_out_on_purpose(self, clinic: Clinic) -> None:
        init.apply(init.plan(clinic.project.root, choices=init.Choices(no_hooks=True)))
        clinic.project.write(FILE, "{}")
        assert clinic.findings()["hooks"].state == "advice"


class TestHooksThatAreFired:
    @pytest.mark.parametrize(
        ("shell", "trouble"),
        [
            ("exit 1", "a hook interferes although no session is bound: exit status 1"),
            ("exit 0", "a tool may run although a bound session's program is gone"),
        ],
    )
    def test_a_shell_that_does_not_do_what_they_say(
        self, clinic: Clinic, shell: str, trouble: str
    ) -> None:
        clinic.program("sh", shell)
        assert clinic.findings()["hooks"].found.startswith(trouble)

    def test_a_program_that_crashes(self, clinic: Clinic) -> None:
        clinic.program("playbook", PLAYBOOK.replace("cat ", "echo 'a crash' >&2; exit 1; cat "))
        assert clinic.wrong() == ["hooks"]
        assert "`playbook hook` fails: a crash" in clinic.findings()["hooks"].found

    def test_a_machine_without_a_shell_on_path(self, clinic: Clinic) -> None:
        clinic.without("sh")
        assert clinic.wrong() == []


class TestABoundSession:
    def bind(self, clinic: Clinic, text: str) -> Path:
        marker = clinic.project.root / ".git" / MARKER
        marker.parent.mkdir(exist_ok=True)
        marker.write_text(text)
        return marker

    def test_is_named(self, clinic: Clinic) -> None:
        self.bind(clinic, f"{clinic.bin / 'playbook'}\n20260219-a7k\nclient\n")
        assert clinic.findings()["bound"].found == "session 20260219-a7k is bound to a client here"

    def test_whose_program_is_gone_still_has_the_one_on_path(self, clinic: Clinic) -> None:
        self.bind(clinic, "/nowhere/playbook\n20260219-a7k\nclient\n")
        assert clinic.wrong() == []

    def test_without_any_program_can_be_released(self, clinic: Clinic) -> None:
        marker = self.bind(clinic, "/nowhere/playbook\n20260219-a7k\nclient\n")
        clinic.without("playbook")
        bound = clinic.findings()["bound"]
        assert bound.state == "wrong"
        assert bound.cure.endswith(f"Or remove {marker} to release it.")

    def test_whose_program_crashes_can_be_released(self, clinic: Clinic) -> None:
        marker = self.bind(clinic, f"{clinic.program('broken', 'exit 1')}\n20260219-a7k\nclient\n")
        assert clinic.wrong() == ["hooks"]
        assert f"remove {marker} to release" in clinic.findings()["hooks"].cure

    def test_with_a_damaged_marker_is_no_crash(self, clinic: Clinic) -> None:
        self.bind(clinic, "\x1b[31mx")
        assert "bound" in clinic.findings()


class TestWalkingAway:
    """In the client's default mode a worker's first Write waits for a person."""

    def test_nothing_is_allowed(self, clinic: Clinic) -> None:
        clinic.settings()
        away = clinic.findings()["walking away"]
        assert away.state == "advice"
        assert away.found == (
            "Claude Code asks you before a step's first edit and first shell command, "
            "and the playbook waits until you answer"
        )
        shown = away.cure.partition(": ")[2].partition(", with")[0]
        clinic.project.write(LOCAL_FILE, shown)
        assert clinic.findings()["walking away"].state == "fine"

    def test_only_edits_are_allowed(self, clinic: Clinic) -> None:
        clinic.settings(defaultMode="acceptEdits")
        assert "step's first shell command, and" in clinic.findings()["walking away"].found

    def test_enough_is_allowed(self, clinic: Clinic) -> None:
        clinic.settings(allow=["Write(/x)", "Bash"])
        assert clinic.findings()["walking away"].state == "fine"

    def test_the_projects_own_settings_take_precedence(self, clinic: Clinic) -> None:
        clinic.settings(defaultMode="default")
        (clinic.project.home / ".claude").mkdir()
        user = {"permissions": {"defaultMode": "auto", "allow": ["Bash", "Edit", 1]}}
        (clinic.project.home / FILE).write_text(json.dumps(user))
        assert clinic.findings()["walking away"].found.startswith("permission mode default, ")


class TestHeadless:
    """What no rule allows is asked about, or denied if the settings say so."""

    def test_no_program_is_allowed(self, clinic: Clinic) -> None:
        clinic.settings(defaultMode="auto")
        headless = clinic.findings()["headless"]
        assert headless.state == "advice"
        assert headless.found.endswith(
            "every shell command of a worker becomes a gate, where you are asked"
        )
        shown = headless.cure.partition(": ")[2].partition(", with")[0]
        clinic.project.write(".playbooks/config.yaml", f"{shown}\n")
        assert clinic.findings()["headless"].state == "fine"

    def test_no_person_is_asked(self, clinic: Clinic) -> None:
        clinic.settings(defaultMode="auto")
        clinic.project.write(".playbooks/config.yaml", "permissions: fail\n")
        said = "every shell command of a worker is denied (`permissions: fail`)"
        assert said in clinic.findings()["headless"].found

    def test_another_agent_works(self, clinic: Clinic) -> None:
        mine = "agent: mine\nagents: {mine: {exec: [x]}}\n"
        clinic.project.write(".playbooks/config.yaml", mine)
        assert clinic.findings()["headless"].found == "`playbook run` uses the agent mine"

    def test_settings_that_cannot_be_read_are_a_finding(self, clinic: Clinic) -> None:
        clinic.project.write(".playbooks/config.yaml", "agnet: claude\n")
        assert clinic.findings()["headless"].state == "wrong"


class TestNotify:
    """The notification program is looked for, but not run."""

    def notify(self, clinic: Clinic, *argv: str) -> Diagnosis | None:
        clinic.project.write(".playbooks/config.yaml", f"notify: {json.dumps(argv)}\n")
        return clinic.findings().get("notify")

    def test_on_path_or_in_the_project(self, clinic: Clinic) -> None:
        path = clinic.program("call-me", 'echo called >>"$HOME/calls"')
        assert self.notify(clinic, "call-me", "-x") == Diagnosis("notify", "fine", f"runs {path}")
        own = clinic.project.write("tools/call", "#!/bin/sh\n")
        assert self.notify(clinic, "tools/call") is not None
        assert "notify" in clinic.wrong()
        own.chmod(0o755)
        assert self.notify(clinic, "tools/call") == Diagnosis("notify", "fine", f"runs {own}")
        assert not (clinic.project.home / "calls").exists()

    def test_that_is_nowhere(self, clinic: Clinic) -> None:
        found = self.notify(clinic, "cal-me")
        assert found is not None
        assert (found.state, found.found) == (
            "wrong",
            "cal-me is not an executable program: gates cannot notify you",
        )
        assert "correct `notify` in .playbooks/config.yaml" in found.cure

    @pytest.mark.measured
    def test_urls_are_looked_at_without_their_secrets(
        self, clinic: Clinic, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ntfy, slack = "ntfy://{{secret:PUSH_TOKEN}}@push.example/x", "slack://a/b/c"
        found = self.notify(clinic, slack, ntfy)
        assert found == Diagnosis(
            "notify",
            "wrong",
            "`notify` names the secret PUSH_TOKEN, which is not there",
            "Set the variable PUSH_TOKEN, or add it to `secrets` in .playbooks/config.yaml.",
        )
        monkeypatch.setenv("PUSH_TOKEN", "very secret")
        found = self.notify(clinic, slack, ntfy, "https://hooks.example/{{secret:PUSH_TOKEN}}")
        assert found == Diagnosis("notify", "fine", "sends to slack, ntfy, https")


class TestChecks:
    """What playbooks and settings name is looked for, but not run."""

    ASKING = (
        'name: asking\ndescription: x\nversion: "1.1"\n'
        "args: [{name: which, description: x, required: false, default: other}]\n"
        "defaults: {autonomy: auto, error_policy: stop}\n"
        "steps:\n"
        "  - id: build\n    command: cli true\n"
        "    preconditions: [{command_fails: lint}]\n"
        "    postconditions:\n"
        "      - command_succeeds: cli make\n"
        '      - command_succeeds: "{{which}}"\n'
    )

    def checks(self, clinic: Clinic, settings: str) -> Diagnosis | None:
        clinic.project.write(".playbooks/config.yaml", settings)
        return clinic.findings().get("checks")

    def test_that_can_be_started_are_fine(self, clinic: Clinic) -> None:
        clinic.program("tox", 'echo called >>"$HOME/calls"')
        found = self.checks(clinic, "checks: {test: {run: [tox]}, lint: {run: [tox, -e, lint]}}\n")
        assert found == Diagnosis("checks", "fine", "test, lint")
        assert not (clinic.project.home / "calls").exists()

    def test_that_a_playbook_demands_and_the_settings_lack(self, clinic: Clinic) -> None:
        clinic.project.write(".playbooks/playbooks/asking.yaml", self.ASKING)
        clinic.program("tox", "")
        found = self.checks(clinic, "checks: {test: {run: [tox]}}\n")
        assert found is not None
        assert (found.state, found.found) == (
            "wrong",
            "asking asks for the check `lint`, which is not there",
        )
        assert "`checks` in .playbooks/config.yaml" in found.cure

    def test_whose_program_is_not_found(self, clinic: Clinic) -> None:
        found = self.checks(clinic, "checks: {test: {run: [./tools/test]}}\n")
        assert found is not None
        assert (found.state, found.found) == (
            "wrong",
            "./tools/test, the program of the check `test`, is not found",
        )


class TestTheCommand:
    def path(self, clinic: Clinic) -> dict[str, str]:
        return {"PATH": str(clinic.bin), "HOME": str(clinic.project.home)}

    def test_says_that_nothing_is_wrong(self, clinic: Clinic) -> None:
        done = clinic.project.playbook("doctor", env=self.path(clinic))
        assert done.code == 0, done.out + done.err
        assert f"ok  playbook: {__version__}, " in done.out
        assert "do:" not in done.out
        assert done.err == "no problems found\n"

    def test_says_what_is_wrong_and_how_to_fix_it(self, clinic: Clinic) -> None:
        clinic.without("gh")
        done = clinic.project.playbook("doctor", env=self.path(clinic))
        assert done.code == 3
        assert "needs gh, which is not on PATH here\n" in done.out
        assert "  do: Install it, or put it on PATH.\n" in done.out
        assert done.err == "something is wrong\n"

    def test_advice_is_no_failure(self, clinic: Clinic) -> None:
        clinic.without("claude")
        done = clinic.project.playbook("doctor", env=self.path(clinic))
        assert done.code == 0
        assert "could be better  claude:" in done.out

    def test_shows_nothing_that_a_terminal_would_obey(self, clinic: Clinic) -> None:
        clinic.program("claude", "printf 'x\\033[2Jy\\n'")
        done = clinic.project.playbook("doctor", env=self.path(clinic))
        assert "\x1b" not in done.out

    def test_removes_clean_rooms_if_it_is_asked_to(self, clinic: Clinic) -> None:
        cache = clinic.project.home / "cache"
        record = {"repository": "/src/shop/.git", "check": "test", "size": 1_234_567_890}
        put(cache / "playbook/rooms/one", "room.json", json.dumps(record))
        env = {**self.path(clinic), "XDG_CACHE_HOME": str(cache)}
        assert "clean room" not in clinic.project.playbook("doctor", env=env).out
        done = clinic.project.playbook("doctor", "--clean", env=env)
        said = "removed: the clean room of check test of /src/shop, 1,234.6 MB\n"
        assert done.out.startswith(f"{said}ok  git: ")
        assert list((cache / "playbook/rooms").iterdir()) == []
