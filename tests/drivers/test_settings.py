"""Our part of `.claude/settings.json`: how it is merged, and what its hooks' script does."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hypothesis_strategies import data, keys, laid_out
from support.scratch_project import Project

from playbook_supervisor.drivers.claude_code import hook_script
from playbook_supervisor.drivers.claude_code.marker import CLIENTS, GOALS, MARK, MARKER, SCRIPT
from playbook_supervisor.drivers.claude_code.settings import (
    ALLOW,
    DENY,
    HOOKS,
    command_of,
    disables_hooks,
    lacking,
    merged,
    plugin_hooks,
    plugin_switch,
)
from playbook_supervisor.errors import CheckError

FRESH = merged(b"")
THEIRS = """\
{
    "model": "opus",
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "./ours.sh"}]}
        ],
        "Notification": []
    },
    "permissions": { "deny": ["Read(.env)"],
                     "allow": ["Bash(make *)"] }
}
"""


def as_data(settings: bytes) -> Any:
    return json.loads(settings)


def entry(event: str) -> dict[str, Any]:
    """Our entry at that event in a fresh file."""
    ((group),) = as_data(FRESH)["hooks"][event]
    (found,) = group["hooks"]
    return dict(found)


def settings(hooks: object = None, **more: object) -> bytes:
    return json.dumps({"hooks": hooks or {}, **more}, indent=2).encode()


class TestInAProjectWithoutSettings:
    def test_our_hooks_and_rules_make_the_file(self) -> None:
        fresh = as_data(FRESH)
        assert list(fresh) == ["permissions", "hooks"]
        assert fresh["permissions"] == {"allow": list(ALLOW), "deny": list(DENY)}
        assert list(fresh["hooks"]) == list(HOOKS)
        assert FRESH.endswith(b"}\n")

    def test_an_event_that_older_clients_warn_of_is_kept_where_a_person_added_it(self) -> None:
        event = "PreSkillShellCommand"
        assert event not in HOOKS
        copied = as_data(FRESH)
        copied["hooks"][event] = copied["hooks"]["PreToolUse"]
        renewed = merged(json.dumps(copied).encode())
        (group,) = as_data(renewed)["hooks"][event]
        assert f"set -- {event};" in group["hooks"][0]["command"]
        assert merged(renewed) == renewed
        assert lacking(renewed) == ()
        foreign = {"hooks": {event: [{"hooks": [{"type": "command", "command": "./own"}]}]}}
        kept = as_data(merged(json.dumps(foreign).encode()))
        assert kept["hooks"][event] == foreign["hooks"][event]

    def test_a_model_may_run_nothing_that_decides(self) -> None:
        words = {re.fullmatch(r"Bash\(playbook ([a-z]+) \*\)", rule) for rule in ALLOW}
        assert {match and match[1] for match in words} == {
            *("begin", "next", "report", "status", "show", "list", "probe", "prove"),
        }

    def test_the_journal_and_the_script_of_the_hooks_are_closed_to_editing(self) -> None:
        assert ("Edit(/.playbooks/sessions/**)", f"Edit(/{SCRIPT})") == DENY

    def test_a_reviewer_reads_one_short_line_for_each_event(self) -> None:
        lines = {event: str(entry(event)["command"]) for event in HOOKS}
        assert len({line.replace(event, "EVENT") for event, line in lines.items()}) == 1
        assert max(map(len, lines.values())) < 320
        assert len(hook_script.shipped().splitlines()) < 80

    def test_a_guard_blocks_the_client_when_it_fails(self) -> None:
        """A person's words pass, and what only reports must not keep an agent from ending."""
        holding = {event for event in HOOKS if entry(event).get("onFailure") == "block"}
        assert holding == {"UserPromptExpansion", "PreToolUse", "ConfigChange"}


class TestInAProjectWithSettings:
    """kai NFR11: adoptable without touching existing configuration."""

    def test_existing_settings_are_kept(self) -> None:
        done = merged(THEIRS.encode()).decode()
        before, after = json.loads(THEIRS), json.loads(done)
        assert list(after) == list(before)
        assert list(after["permissions"]) == ["deny", "allow"]
        assert after["permissions"]["deny"] == ["Read(.env)", *DENY]
        assert after["hooks"]["PreToolUse"][0] == before["hooks"]["PreToolUse"][0]
        assert done.startswith('{\n    "model": "opus",\n    "hooks": {\n        "PreToolUse": [\n')
        assert done.endswith("    }\n}\n")

    @pytest.mark.parametrize(
        ("text", "where"),
        [
            ('{\n  // mine\n  "model": "opus"\n}', ":2:3"),
            ('{"a": 1,\n "a": 2}', ":2:2"),
            ('{"hooks": []}', ":1:11"),
            ('{"hooks": {"Stop": {}}}', ":1:20"),
            ('{"permissions": {"allow": "all"}}', ":1:27"),
            ("[]", ":1:1"),
        ],
    )
    def test_what_cannot_be_merged_is_refused_with_its_place(self, text: str, where: str) -> None:
        with pytest.raises(CheckError) as caught:
            merged(text.encode())
        assert caught.value.where == f".claude/settings.json{where}"
        assert caught.value.code == "PB-CHECK-SETTINGS"


class TestOurEntries:
    def test_one_of_another_version_is_replaced_in_place(self) -> None:
        old = {"type": "command", "command": f"{MARK} exit 0", "timeout": 5}
        theirs = {"type": "command", "command": "./theirs.sh"}
        before = settings({"Stop": [{"hooks": [old, theirs]}, {"hooks": [theirs]}]})
        done = as_data(merged(before))
        assert done["hooks"]["Stop"] == [
            {"hooks": [entry("Stop"), theirs]},
            {"hooks": [theirs]},
        ]

    def test_one_with_another_matcher_is_corrected(self) -> None:
        theirs = {"type": "command", "command": "./theirs.sh"}
        mixed = {"matcher": "Bash", "hooks": [theirs, entry("PreToolUse")]}
        alone = {"matcher": "Read", "hooks": [entry("PreToolUse")]}
        done = as_data(merged(settings({"PreToolUse": [mixed, alone]})))
        assert done["hooks"]["PreToolUse"] == [
            {"matcher": "Bash", "hooks": [theirs]},
            {"matcher": "*", "hooks": [entry("PreToolUse")]},
        ]

    def test_a_second_one_is_removed(self) -> None:
        group = {"hooks": [entry("Stop"), entry("Stop")]}
        done = as_data(merged(settings({"Stop": [group, group]})))
        assert done["hooks"]["Stop"] == [{"hooks": [entry("Stop")]}]

    def test_one_at_an_unused_event_is_removed(self) -> None:
        done = as_data(merged(settings({"Notification": [{"hooks": [entry("Stop")]}]})))
        assert "Notification" not in done["hooks"]

    @pytest.mark.parametrize(
        "strange",
        [
            [None, 1, "x", [], {"hooks": None}, {"hooks": [None, {}, {"command": 1}]}],
            [{"hooks": {"command": MARK}}],
        ],
    )
    def test_other_entries_are_not_ours(self, strange: list[object]) -> None:
        done = as_data(merged(settings({"Stop": strange})))
        assert done["hooks"]["Stop"] == [*strange, {"hooks": [entry("Stop")]}]


class TestLacking:
    def test_nothing_after_a_merge(self) -> None:
        assert lacking(FRESH) == ()
        assert lacking(merged(THEIRS.encode())) == ()

    @pytest.mark.parametrize("change", ["command", "gone"])
    def test_an_entry_that_was_altered(self, change: str) -> None:
        changed = as_data(FRESH)
        (group,) = changed["hooks"]["PreToolUse"]
        match change:
            case "timeout":
                group["hooks"][0]["timeout"] = 1
            case "command":
                group["hooks"][0]["command"] = f"{MARK} exit 0"
            case "matcher":
                group["matcher"] = "Bash"
            case _:
                del changed["hooks"]["PreToolUse"]
        assert lacking(json.dumps(changed).encode()) == ("hooks.PreToolUse",)

    def test_a_rule_that_was_taken_out(self) -> None:
        changed = FRESH.replace(b'"Edit(/.playbooks/sessions/**)",', b"")
        assert lacking(changed) == ("permissions.deny Edit(/.playbooks/sessions/**)",)

    def test_whether_all_hooks_are_disabled(self) -> None:
        assert disables_hooks(b'{"disableAllHooks": true}', "x.json")
        assert not disables_hooks(b'{"disableAllHooks": false}', "x.json")
        assert not disables_hooks(b"", "x.json")

    def test_whether_our_plugin_is_enabled(self) -> None:
        def switched(**plugins: object) -> bool | None:
            return plugin_switch(json.dumps({"enabledPlugins": plugins}).encode(), "x.json")

        assert switched(**{"playbook@any": True, "other@any": False}) is True
        assert switched(**{"playbook@any": False}) is False
        assert switched(**{"playbooks@any": True}) is None
        assert plugin_switch(b'{"enabledPlugins": []}', "x.json") is None

    def test_what_cannot_be_read_is_refused(self) -> None:
        with pytest.raises(CheckError):
            lacking(b"{")
        with pytest.raises(CheckError):
            disables_hooks(b"{", "x.json")


@given(
    document=st.dictionaries(keys | st.sampled_from(["hooks", "permissions"]), data).flatmap(
        laid_out
    )
)
def test_a_merge_keeps_all_else_or_writes_nothing(document: str) -> None:
    try:
        done = merged(document.encode()).decode()
    except CheckError:
        return
    assert lacking(done.encode()) == ()
    assert merged(done.encode()) == done.encode()
    before, after = json.loads(document), json.loads(done)
    assert list(after)[: len(before)] == list(before)
    for name in {*before} - {"hooks", "permissions"}:
        assert after[name] == before[name]
    for name in ("hooks", "permissions"):
        for key, items in before.get(name, {}).items():
            assert after[name][key][: len(items)] == items if isinstance(items, list) else True


# ── the script ──────────────────────────────────────────────────────────────────────────────

SHELLS = [
    argv
    for argv in (["sh"], ["bash", "--posix"], ["busybox", "sh"], ["zsh"])
    if shutil.which(argv[0])
]
PROGRAM = """\
#!/bin/sh
printf '%s\\n' "$0 $*" >>log
cat >>log
printf '{"seen": true}'
exit CODE
"""


@dataclass
class Client:
    """Runs hook commands as the client does: in a shell, with the event on standard input."""

    root: Path
    folder: Path
    shell: list[str]
    script: bool = True
    line: str = ""

    def program(self, name: str, code: int = 0) -> Path:
        """A stand-in for `playbook` that prints its input."""
        path = self.folder / name / "playbook"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROGRAM.replace("CODE", str(code)))
        path.chmod(0o755)
        return path

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def seen(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def bind(self, git_dir: Path, program: object) -> None:
        marker = git_dir / MARKER
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text(f"{program}\n20260219-a7k\nclaude-session\n")

    def register(self, program: object, *, home: bool = False) -> dict[str, str]:
        """Bound, as the user's state knows it; the variables that lead there."""
        state = self.folder / (".local/state" if home else "state")
        file = state / CLIENTS / "1"
        file.parent.mkdir(parents=True)
        file.write_text(f"{program}\n20260219-a7k\nclaude-session\n1\n{self.root}\n")
        return {"HOME": str(self.folder)} if home else {"XDG_STATE_HOME": str(state)}

    def set_goal(self) -> dict[str, str]:
        """A conversation with a goal; the variable that leads there."""
        file = self.folder / "state" / GOALS / "1"
        file.parent.mkdir(parents=True)
        file.write_text("{}")
        return {"XDG_STATE_HOME": str(self.folder / "state")}

    def installed(self, root: Path | None = None) -> None:
        """The script is where the entries look for it."""
        file = (root or self.root) / SCRIPT
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(hook_script.shipped())

    def prompt(self, words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """What the hook says to words that are typed."""
        return self.fire("UserPromptSubmit", prompt=words, env=env)

    def fire(
        self,
        event: str,
        *,
        path: Path | None = None,
        env: dict[str, str] | None = None,
        **fields: str,
    ) -> subprocess.CompletedProcess[str]:
        around = {"CLAUDE_PROJECT_DIR": str(self.root), "CLAUDE_PID": "1", **(env or {})}
        if self.script:
            self.installed(self.folder / around["CLAUDE_PROJECT_DIR"])
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        for tool in ("cat", "grep", "rm", "sh"):
            if not (tools / tool).exists():
                (tools / tool).symlink_to(str(shutil.which(tool)))
        program = shutil.which(self.shell[0])
        assert program
        return subprocess.run(
            [program, *self.shell[1:], "-c", self.line or command_of(FRESH, event)],
            input=json.dumps({"hook_event_name": event, **fields}, separators=(",", ":")),
            env={
                "PATH": os.pathsep.join(map(str, [*([path.parent] if path else []), tools])),
                **around,
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(params=SHELLS, ids=" ".join)
def client(request: pytest.FixtureRequest, project: Project, tmp_path: Path) -> Client:
    return Client(project.root, tmp_path / 'it\'s $HOME "here"', request.param)


@pytest.fixture(autouse=True)
def made(request: pytest.FixtureRequest) -> None:
    if "client" in request.fixturenames:
        request.getfixturevalue("client").folder.mkdir()


EVENTS = ["PreToolUse", "UserPromptSubmit", "Stop"]


def test_no_process_is_started_before_the_program() -> None:
    """An idle hook costs one shell; `benchmarks/` measures it. `grep` is the plugin's alone."""
    before, found, _ = hook_script.shipped().decode().partition('reply=$("$program" hook)')
    code = re.sub(r"(?m)(?:^|\s)#.*$", "", before)
    assert found
    assert not re.search(r"\$\(|`|[^|]\|[^|]|[^&>]&[^&]", code)
    words = set(re.findall(r"(?:^|[;&|{]|then) *(\w+)(?= )", code, re.MULTILINE))
    assert words <= {"if", "then", "case", "IFS", "command", "echo", "exit", "fi", "esac", "event"}


class TestWhereNoSessionIsBound:
    @pytest.mark.parametrize("event", EVENTS)
    def test_the_program_is_not_even_started(self, client: Client, event: str) -> None:
        done = client.fire(event, path=client.program("bin"))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert client.seen() == ""

    @pytest.mark.parametrize("event", EVENTS)
    def test_a_goal_is_for_the_end_of_a_turn_alone(self, client: Client, event: str) -> None:
        program, goal = client.program("bin"), client.set_goal()
        done = client.fire(event, path=program, env=goal)
        assert (done.returncode, done.stderr) == (0, "")
        assert (client.seen() != "") == (event == "Stop")

    def test_a_missing_program_does_not_matter(self, client: Client) -> None:
        """A teammate without `playbook` keeps a usable client."""
        done = client.fire("PreToolUse")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_it_is_not_started_with_a_broken_git_pointer(self, client: Client) -> None:
        (client.folder / ".git").write_text("gitdir: ../gone\n")
        done = client.fire("PreToolUse", env={"CLAUDE_PROJECT_DIR": str(client.folder)})
        assert (done.returncode, done.stderr) == (0, "")

    def test_inherited_shell_variables_have_no_effect(self, client: Client) -> None:
        program = client.program("bin")
        strange = {"p": str(program), "l": "x", "g": "x", "b": str(program), "d": "x"}
        assert (client.fire("PreToolUse", env=strange).returncode, client.seen()) == (0, "")


class TestWhereASessionIsBound:
    @pytest.mark.parametrize("event", EVENTS)
    def test_the_program_receives_the_event_and_its_output_is_the_reply(
        self, client: Client, event: str
    ) -> None:
        program = client.program("bound here")
        client.bind(client.root / ".git", program)
        done = client.fire(event, path=client.program("on path"))
        assert (done.returncode, done.stdout) == (0, '{"seen": true}')
        assert client.seen() == f'{program} hook\n{{"hook_event_name":"{event}"}}'

    def test_the_program_on_path_replaces_a_missing_one(self, client: Client) -> None:
        client.bind(client.root / ".git", client.folder / "gone")
        program = client.program("on path")
        assert client.fire("PreToolUse", path=program).returncode == 0
        assert client.seen().startswith(f"{program} hook\n")

    def test_it_is_found_from_a_worktree(self, client: Client, project: Project) -> None:
        project.git("worktree", "add", "-q", "-b", "linked", "../linked tree")
        tree = project.root.parent / "linked tree"
        git_dir = Path(project.git("-C", str(tree), "rev-parse", "--absolute-git-dir"))
        client.bind(git_dir, client.program("bin"))
        assert client.fire("PreToolUse", env={"CLAUDE_PROJECT_DIR": str(tree)}).stdout
        assert client.fire("PreToolUse").stdout == ""  # the main checkout is not bound

    def test_it_is_found_where_git_points_there_relatively(self, client: Client) -> None:
        tree = client.folder / "sub module"
        tree.mkdir()
        (tree / ".git").write_text("gitdir: ../modules/sub module")  # no line end, as some write it
        client.bind(client.folder / "modules/sub module", client.program("bin"))
        assert client.fire("Stop", env={"CLAUDE_PROJECT_DIR": str(tree)}).stdout


class TestWhereOnlyTheUsersStateKnowsOfASession:
    """The git directory, or our folder in it, was moved away."""

    @pytest.mark.parametrize("event", EVENTS)
    def test_the_program_receives_the_event(self, client: Client, event: str) -> None:
        program = client.program("registered")
        env = client.register(program)
        assert client.fire(event, env=env).stdout == '{"seen": true}'
        assert client.seen().startswith(f"{program} hook\n")
        other = client.fire(event, env={**env, "CLAUDE_PID": "2"})
        assert (other.returncode, other.stdout) == (0, "")

    def test_it_is_refused_if_the_program_is_gone_as_well(self, client: Client) -> None:
        env = client.register("/nowhere/playbook")
        assert "deny" in client.fire("PreToolUse", env=env).stdout
        assert "systemMessage" in client.prompt("hello", **env).stdout
        assert client.fire("PreToolUse", env=env).stdout == ""
        assert "is paused" in client.prompt("/playbook.pause", **env).stdout
        assert client.prompt("hello", **env).stdout == ""

    @pytest.mark.parametrize("place", ["HOME", "nothing", "relative"])
    def test_it_looks_where_the_program_writes(self, client: Client, place: str) -> None:
        """Without a home nothing is found, and nothing breaks."""
        env = client.register(client.program("registered"), home=True)
        if place == "nothing":
            env = {}
        elif place == "relative":
            env |= {"XDG_STATE_HOME": "somewhere"}
        done = client.fire("PreToolUse", env=env)
        assert (done.returncode, done.stderr) == (0, "")
        assert bool(done.stdout) is (place != "nothing")


@pytest.fixture(params=["gone", "garbled"])
def broken(request: pytest.FixtureRequest, client: Client) -> Client:
    """A session is bound, and its program does not answer."""
    program = client.program("bin")
    if request.param == "no interpreter":
        program.write_text("#!/no/such/interpreter\n")
    elif request.param == "empty":
        program.write_bytes(b"")
    elif request.param == "garbled":
        program.write_text("#!/bin/sh\nprintf '{\"half\": '\nexit 1\n")
    client.bind(client.root / ".git", "/nowhere" if request.param == "gone" else program)
    return client


class TestABoundSessionWhoseProgramDoesNotAnswer:
    """Uninstalled, for example. A person can continue, and the playbook's own turn cannot."""

    def test_lets_a_persons_words_pass_and_says_once_what_is_wrong(self, broken: Client) -> None:
        told = broken.prompt("hello")
        assert (told.returncode, list(json.loads(told.stdout))) == (0, ["systemMessage"])
        said = json.loads(told.stdout)["systemMessage"]
        assert said.count(".") == 2, "one sentence, with a command's dot in it"
        assert "uv tool install playbook-supervisor" in said
        assert "/playbook.pause" in said
        again = [broken.prompt("and now?"), broken.fire("Stop"), broken.fire("SessionStart")]
        assert [(done.returncode, done.stdout) for done in again] == [(0, "")] * 3
        other = broken.prompt("hello", CLAUDE_PID="2")
        assert json.loads(other.stdout)["systemMessage"] == said

    def test_refuses_tools_except_in_a_turn_that_a_person_began(self, broken: Client) -> None:
        refused = broken.fire("PreToolUse")
        assert refused.returncode == 0
        permission = json.loads(refused.stdout)["hookSpecificOutput"]
        assert permission["permissionDecision"] == "deny"
        assert "/playbook.pause" in permission["permissionDecisionReason"]
        assert json.loads(broken.fire("ConfigChange").stdout)["decision"] == "block"
        broken.prompt("mend the test")
        assert broken.fire("PreToolUse").stdout == ""
        assert broken.fire("ConfigChange").stdout == ""
        assert "deny" in broken.fire("PreToolUse", env={"CLAUDE_PID": "2"}).stdout
        broken.prompt("<task-notification>\n<task-id>a</task-id>")
        assert "deny" in broken.fire("PreToolUse").stdout

    def test_is_paused_by_the_hook_itself(self, broken: Client) -> None:
        done = broken.prompt("/playbook.pause")
        assert json.loads(done.stdout)["decision"] == "block"
        assert "is paused" in json.loads(done.stdout)["reason"]
        assert broken.fire("PreToolUse").stdout == broken.prompt("hello").stdout == ""

    def test_supervises_again_as_soon_as_it_answers(self, broken: Client) -> None:
        broken.prompt("hello")
        assert broken.fire("PreToolUse").stdout == ""
        answers = broken.program("again")
        broken.bind(broken.root / ".git", answers)
        assert broken.fire("PreToolUse").stdout == '{"seen": true}'
        broken.bind(broken.root / ".git", "/nowhere/playbook")
        assert "deny" in broken.fire("PreToolUse").stdout


class TestATypedCommand:
    """`UserPromptExpansion` of `/playbook.…` always reaches the program."""

    def test_reaches_the_one_on_path(self, client: Client) -> None:
        program = client.program("bin")
        done = client.fire("UserPromptExpansion", path=program)
        assert (done.returncode, done.stdout) == (0, '{"seen": true}')
        assert client.seen().startswith(f"{program} hook\n")

    @pytest.mark.parametrize("settings", ["{}", FRESH.decode()], ids=["alone", "beside ours"])
    def test_of_the_plugin_reaches_it_unless_the_project_has_hooks_of_its_own(
        self, client: Client, settings: str
    ) -> None:
        root = client.root / ".claude/settings.json"
        root.parent.mkdir(exist_ok=True)
        root.write_text(settings)
        client.line = str(plugin_hooks()["UserPromptExpansion"][0]["hooks"][0]["command"])  # type: ignore[index]
        client.installed()
        place = {"CLAUDE_PLUGIN_ROOT": str(client.root / ".claude")}
        done = client.fire("UserPromptExpansion", path=client.program("bin"), env=place)
        assert (done.returncode, done.stderr) == (0, "")
        assert (done.stdout != "") is (settings == "{}")

    @pytest.mark.parametrize("how", ["missing", "failing"])
    def test_says_how_to_install_what_does_not_answer(self, client: Client, how: str) -> None:
        program = client.program("bin", code=1) if how == "failing" else None
        done = client.fire("UserPromptExpansion", path=program)
        assert (done.returncode, done.stderr) == (0, "")
        said = json.loads(done.stdout)
        assert said["decision"] == "block"
        assert "uv tool install playbook-supervisor" in said["reason"]


class TestAScriptThatIsGone:
    """Deleted or emptied by a worker, or never committed."""

    @pytest.fixture(params=["gone", "empty"], autouse=True)
    def lost(self, request: pytest.FixtureRequest, client: Client) -> None:
        client.script = False
        if request.param == "empty":
            client.installed()
            (client.root / SCRIPT).write_bytes(b"")

    @pytest.mark.parametrize("event", ["PreToolUse", "UserPromptExpansion"])
    def test_leaves_the_decision_to_the_program(self, client: Client, event: str) -> None:
        program = client.program("bin")
        assert client.fire(event, path=program).stdout == '{"seen": true}'
        assert client.seen().startswith(f"{program} hook\n")

    def test_does_not_disturb_a_colleague_who_has_no_program_either(self, client: Client) -> None:
        for event in HOOKS:
            done = client.fire(event, env={"HOME": str(client.folder)})
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    @pytest.mark.parametrize("home", [True, False])
    def test_fails_while_a_session_is_bound_and_the_program_is_gone(
        self, client: Client, home: bool
    ) -> None:
        """So the client refuses, where the entry says `onFailure: block`."""
        env = client.register("/nowhere/playbook", home=home)
        assert client.fire("PreToolUse", env=env).returncode == 127
