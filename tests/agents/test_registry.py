"""Which agent is selected, and how a call ends, even with a faulty agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from playbook_supervisor import testing
from playbook_supervisor.agents.profiles import PROFILES
from playbook_supervisor.agents.protocol import Agent, Call, Message, Running, carry_out, failed
from playbook_supervisor.agents.registry import choose, known
from playbook_supervisor.errors import CODES, AgentError, ArgumentError, PlaybookError
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.project.settings.config import AgentSettings, Config
from playbook_supervisor.system.disk.files import locked
from playbook_supervisor.testing import AgentCheck, ConformanceError, call_for

PLUGIN = """\
from playbook_supervisor.agents.protocol import Message, Running
from playbook_supervisor.system.disk.files import locked
from playbook_supervisor.kernel.directives import Outcome

class Parrot:
    name = "parrot"
    def __init__(self, argument, config, root):
        self.argument = argument
    def available(self):
        return {reason!r}
    def run(self, call):
        said = Message(self.argument, Outcome(output=self.argument))
        return Running(iter([said]), stop=lambda: None)
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package on the path that offers agents through the entry-point group."""

    def package(name: str, *, reason: str | None = None, value: str | None = None) -> None:
        site = tmp_path / f"site-{name}"
        metadata = site / f"{name}_agents-1.0.dist-info"
        metadata.mkdir(parents=True)
        (site / f"{name}_agents.py").write_text(PLUGIN.format(reason=reason))
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-agents\n")
        (metadata / "entry_points.txt").write_text(
            f"[playbook_supervisor.agents]\n{name} = {value or f'{name}_agents:Parrot'}\n"
        )
        monkeypatch.syspath_prepend(str(site))

    return package


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an empty PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "no-such-folder"))


def program(folder: Path, name: str) -> Path:
    """A program that can be started."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\necho fine\n")
    file.chmod(0o755)
    return file


def refused(spec: str, root: Path, config: Config | None = None) -> PlaybookError:
    with pytest.raises((AgentError, ArgumentError)) as caught:
        choose(spec, config or Config(), root)
    assert caught.value.guidance
    return caught.value


# ── which is meant ──────────────────────────────────────────────────────────────────────────


def test_the_command_line_overrides_the_config(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("default: {}\n")
    config = Config(agent=f"script:{script}")
    assert choose("exec:sh", config, tmp_path).name == "exec"
    assert choose("", config, tmp_path).name == "script"


def test_the_config_gives_any_other_agent_a_name(tmp_path: Path) -> None:
    """Catalyst FR-5.7: the playbook names no provider, the project does."""
    program(tmp_path, "tools/my-agent")
    config = Config(agent="mine", agents={"mine": AgentSettings(exec=("tools/my-agent", "--fast"))})
    assert choose("", config, tmp_path).name == "mine"
    assert choose("mine", config, tmp_path).name == "mine"


def test_claude_is_the_default(tmp_path: Path) -> None:
    """Catalyst FR-5.6, FR-10.2: found by looking, and before those of other packages."""
    assert choose("", Config(), tmp_path).name == "claude"


def test_without_any_agent_the_error_says_how_to_name_one(tmp_path: Path, nowhere: None) -> None:
    """Catalyst FR-5.6: a clear error without an adapter."""
    error = refused("", tmp_path)
    assert error.code == "PB-AGENT-NONE"
    assert "Install Claude Code" in error.guidance
    assert "--agent exec:PROGRAM" in error.guidance
    assert error.details[0] == "claude: claude is not on PATH"
    missing = "opencode: opencode is not on PATH; install it: npm install -g opencode-ai"
    assert missing in error.details
    assert len(error.details) == 1 + len(PROFILES)


def test_an_unknown_agent_lists_the_known_ones(tmp_path: Path) -> None:
    config = Config(agents={"codex": AgentSettings(exec=("codex", "exec", "-"))})
    error = refused("codx", tmp_path, config)
    assert error.code == "PB-ARG-AGENT"
    assert "did you mean codex" in error.message
    assert error.details[:4] == ("claude", "acp:PROGRAM", "exec:PROGRAM", "script:FILE.yaml")
    assert error.details[4:] == tuple(sorted(PROFILES))


def test_a_name_from_the_config_takes_no_argument(tmp_path: Path) -> None:
    config = Config(agents={"mine": AgentSettings(exec=("sh",))})
    assert refused("mine:--flag", tmp_path, config).code == "PB-ARG-AGENT"


@pytest.mark.parametrize(
    "spec",
    [
        "acp:codex",
        "exec",
        "exec:'open",
        "script:",
        "claude:opus",
    ],
)
def test_a_missing_or_unexpected_argument_is_refused(spec: str, tmp_path: Path) -> None:
    assert refused(spec, tmp_path).code == "PB-ARG-AGENT"


def test_a_program_that_is_not_there_is_refused_before_anything_runs(tmp_path: Path) -> None:
    assert "not on PATH" in refused("exec:no-such-program-of-ours", tmp_path).message
    error = refused("exec:./missing --flag", tmp_path)
    assert error.code == "PB-AGENT-NONE"
    assert "missing is not an executable file" in error.message


def test_a_path_is_relative_to_the_working_directory_or_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "below"
    program(below, "here")
    program(tmp_path, "there")
    monkeypatch.chdir(below)
    assert choose("exec:./here", Config(), tmp_path).available() is None
    assert choose("exec:./there", Config(), tmp_path).available() is None


# ── agents of other packages ────────────────────────────────────────────────────────────────


def test_an_installed_package_provides_its_agent(install: Install, tmp_path: Path) -> None:
    """cat FR-5.1, FR-10.3, NFR-5.1, NFR-6.2: an agent is added without a change to the runner."""
    install("polly")
    agent = choose("polly:hello", Config(), tmp_path)
    assert carry_out(agent, call_for("works", tmp_path), print).output == "hello"
    assert "polly" in known(Config())


def test_an_agent_found_on_the_machine_is_used_when_none_is_named(
    install: Install, tmp_path: Path, nowhere: None
) -> None:
    """Catalyst FR-10.2: installed agents are found, in the order of their names."""
    install("away", reason="it is not logged in")
    install("broken", value="no_such_module:Agent")
    install("polly")
    agent = choose("", Config(), tmp_path)
    assert carry_out(agent, call_for("works", tmp_path), print).ok


def test_agents_that_cannot_be_used_say_why(
    install: Install, tmp_path: Path, nowhere: None
) -> None:
    install("away", reason="it is not logged in")
    install("broken", value="no_such_module:Agent")
    error = refused("", tmp_path)
    assert error.code == "PB-AGENT-NONE"
    assert error.details[1] == "away: it is not logged in"
    assert error.details[2].startswith("broken: ")
    assert "it is not logged in" in refused("away", tmp_path).message
    assert "no_such_module" in refused("broken", tmp_path).cause


# ── faulty agents ───────────────────────────────────────────────────────────────────────────


@dataclass
class Odd:
    """An agent with the given behaviour that keeps no contract."""

    messages: Callable[[], Iterator[Message]]
    name: str = "odd"

    def available(self) -> str | None:
        return None

    def run(self, call: Call) -> Running:
        return Running(self.messages(), stop=lambda: None)


def brought_back(agent: Agent, folder: Path) -> tuple[Outcome, list[str]]:
    heard: list[str] = []
    return carry_out(agent, call_for("works", folder), heard.append), heard


def test_the_whole_output_is_kept_up_to_the_cap(tmp_path: Path) -> None:
    giant = Outcome(output="\x1b[1mall is well\n" + "more\n" * 300_000 + "the end")
    outcome, _ = brought_back(Odd(lambda: iter([Message(outcome=giant)])), tmp_path)
    assert outcome.output.startswith("all is well\nmore\n")
    assert outcome.output.endswith("more\nthe end")
    assert len(outcome.output) < call_for("works", tmp_path).cap + testing.MARK


def error_of(agent: Agent, folder: Path) -> Failure:
    error = brought_back(agent, folder)[0].error
    assert error is not None
    assert error.guidance == CODES[error.code]
    return error


def test_output_is_streamed_and_the_outcome_returned(tmp_path: Path) -> None:
    """cat FR-5.3, NFR-1.3: results are streamed."""
    told = Outcome(output="done", agent={"name": "odd"}, silent=False)
    agent = Odd(lambda: iter([Message("one"), Message(), Message("two", told)]))
    assert brought_back(agent, tmp_path) == (told, ["one", "two"])


def test_notices_are_reported_separately(tmp_path: Path) -> None:
    agent = Odd(
        lambda: iter([Message("one"), Message("two\x1b[2J", notice=True), Message("", FINE)])
    )
    heard: list[str] = []
    noted: list[str] = []
    carry_out(agent, call_for("works", tmp_path), heard.append, on_notice=noted.append)
    assert (heard, noted) == (["one"], ["two"])
    assert brought_back(agent, tmp_path) == (FINE, ["one", "two"])


def test_an_agent_that_ends_without_an_outcome_has_failed(tmp_path: Path) -> None:
    error = error_of(Odd(lambda: iter([Message("well")])), tmp_path)
    assert (error.code, "without an outcome" in error.message) == ("PB-AGENT-FAILED", True)


def test_an_agent_that_raises_has_failed_and_the_run_continues(tmp_path: Path) -> None:
    def raising() -> Iterator[Message]:
        yield Message("one")
        raise KeyError("tokens")

    error = error_of(Odd(raising), tmp_path)
    assert (error.code, "KeyError" in error.message) == ("PB-AGENT-CRASHED", True)


def test_an_error_of_ours_keeps_its_code_as_the_cause(tmp_path: Path) -> None:
    def refusing() -> Iterator[Message]:
        raise AgentError("PB-AGENT-NONE", "logged out")

    error = error_of(Odd(refusing), tmp_path)
    assert (error.code, error.message, error.cause) == (
        "PB-AGENT-FAILED",
        "logged out",
        "PB-AGENT-NONE",
    )


def test_nothing_an_agent_says_can_move_the_cursor(tmp_path: Path) -> None:
    nasty = "\x1b]0;title\x07fine\x1b[2J\u202e"
    outcome = failed("PB-AGENT-FAILED", nasty, name="odd", cause=f"{nasty}\n{nasty}", output=nasty)
    got, heard = brought_back(Odd(lambda: iter([Message(nasty, outcome)])), tmp_path)
    assert got.error is not None
    assert (heard, got.output, got.error.message, got.error.cause) == (
        ["fine"],
        "fine",
        "fine",
        "fine\nfine",
    )


def test_a_call_does_not_show_its_secrets(tmp_path: Path) -> None:
    call = Call(
        session="s", directive="a#1", step="a", attempt=1, command="/a", args="", feature="",
        prompt="/a", cwd=tmp_path, secrets=("hunter2",),
    )  # fmt: skip
    assert "hunter2" not in repr(call)


# ── the checks for agents of other packages ─────────────────────────────────────────────────

FINE = Outcome(output="fine", silent=False)
BAD = failed("PB-AGENT-FAILED", "it failed", name="odd")
LATE = failed("PB-AGENT-TIMEOUT", "it was late", name="odd")


@dataclass
class Faulty:
    """Performs these messages for each command, and succeeds at any other."""

    deeds: dict[str, list[Message]]
    name: str = "faulty"
    reason: str | None = None

    def available(self) -> str | None:
        return self.reason

    def run(self, call: Call) -> Running:
        messages = self.deeds.get(call.step, [Message("fine", FINE)])
        return Running(iter(messages), stop=lambda: None)


def fault(check: AgentCheck, agent: Agent, folder: Path) -> str:
    """The check's error about the agent."""
    with pytest.raises(ConformanceError) as caught:
        check(agent, folder)
    return str(caught.value)


@pytest.mark.parametrize(
    ("check", "agent", "said"),
    [
        (testing.is_named_and_available, Faulty({}, name="a\x07"), "name"),
        (testing.is_named_and_available, Faulty({}, reason="logged out"), "logged out"),
        (
            testing.streams_its_output,
            Faulty({"works": [Message("a", FINE), Message("b", FINE)]}),
            "outcomes in messages [0, 1]",
        ),
        (
            testing.streams_its_output,
            Faulty({"works": [Message("a", Outcome())]}),
            "no output",
        ),
        (testing.works_in_the_directory_given, Faulty({"works": [Message("", BAD)]}), "it failed"),
        (testing.works_in_the_directory_given, Faulty({}), "not in its directory"),
        (testing.concurrent_calls_do_not_interfere, Faulty({}), "not in its directory"),
        (
            testing.a_failure_has_message_and_guidance,
            Faulty({"fails": [Message("", Outcome(Failure("EPIPE", "no", "mend it")))]}),
            "its code is EPIPE",
        ),
        (
            testing.a_failure_has_message_and_guidance,
            Faulty({"fails": [Message("", Outcome(Failure("PB-AGENT-FAILED", "no")))]}),
            "no guidance",
        ),
        (
            testing.a_deadline_ends_it,
            Faulty({"hangs": [Message("", BAD)]}),
            "its code is PB-AGENT-FAILED",
        ),
        (testing.every_process_holds_the_worker_file, Faulty({}), "no process holds"),
        (
            testing.stopping_ends_it_from_another_thread,
            Faulty({"hangs": [Message("hanging"), Message("", FINE)]}),
            "it succeeded",
        ),
        (testing.its_output_is_capped, Faulty({"shouts": [Message("A" * 10_000, FINE)]}), "10000"),
        (
            testing.its_output_is_sanitized,
            Faulty({"colours": [Message("\x1b[31mred", FINE)]}),
            "is not harmless",
        ),
    ],
)
def test_a_check_finds_an_agent_that_breaks_the_contract(
    check: AgentCheck, agent: Agent, said: str, tmp_path: Path
) -> None:
    assert said in fault(check, agent, tmp_path)


def test_a_process_that_keeps_running_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "PATIENCE", 0.05)
    agent = Faulty({"hangs": [Message("hanging"), Message("", LATE)]})
    for check, folder in (
        (testing.a_deadline_ends_it, tmp_path / "wall"),
        (testing.dropping_the_messages_stops_it, tmp_path),
    ):
        with locked(call_for("hangs", folder).cwd / "hangs.lock"):
            assert "still running" in fault(check, agent, tmp_path)
    testing.a_deadline_ends_it(agent, tmp_path)
