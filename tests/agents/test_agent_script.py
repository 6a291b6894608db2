"""The embedded agent: the format of its file, and what it does."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.agents.protocol import Agent, Call, Message, Reply, carry_out
from playbook_supervisor.agents.registry import choose
from playbook_supervisor.errors import AgentError
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.process.process_groups import worker_alive
from playbook_supervisor.testing import AGENT_CHECKS, AgentCheck, call_for

pytestmark = pytest.mark.measured

REPOSITORY = Path(__file__).parents[2]

CONFORMING = """\
steps:
  works: {say: working, write: {works.txt: worked}}
  fails: {say: this cannot be done, fail: as told}
  dies: {die: true}
  hangs: {say: hanging, hang: true}
  shouts: {say: SHOUTS, seconds: 0.01}
  colours: {say: "\\e[31mred\\e[0m \\e]0;title\\a \\b\\a \\u202etxet"}
""".replace("SHOUTS", json.dumps(["A" * 100] * 100))

Write = Callable[[str], Agent]


@pytest.fixture
def agent(tmp_path: Path) -> Write:
    """An agent with this script."""

    def write(text: str) -> Agent:
        file = tmp_path / "script.yaml"
        file.write_text(textwrap.dedent(text))
        return choose(f"script:{file}", Config(), tmp_path)

    return write


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return call_for("plan", tmp_path)


def ended(agent: Agent, call: Call) -> Outcome:
    return carry_out(agent, call, lambda line: None)


def error_of(agent: Agent, call: Call) -> Failure:
    error = ended(agent, call).error
    assert error is not None
    return error


def refused(agent: Write, text: str) -> AgentError:
    with pytest.raises(AgentError) as caught:
        agent(text)
    assert caught.value.code == "PB-AGENT-SCRIPT"
    return caught.value


@pytest.mark.parametrize("check", AGENT_CHECKS, ids=lambda check: check.__name__)
def test_script_passes_every_conformance_check(
    check: AgentCheck, agent: Write, tmp_path: Path
) -> None:
    """cat FR-5.2, FR-5.5, FR-10.4, NFR-5.1, E-4."""
    check(agent(CONFORMING), tmp_path)


# ── what it does ────────────────────────────────────────────────────────────────────────────


def test_it_writes_whole_files_with_the_calls_values(agent: Write, call: Call) -> None:
    script = """\
        steps:
          plan:
            say: ["attempt {{attempt}}", "{{args}}"]
            write:
              specs/{{feature}}/{{step}}.md: |
                # {{ feature }}
              empty.txt:
              version.txt: 1.10
    """
    messages = list(agent(script).run(replace(call, args="{{feature}} as typed")))
    assert [message.text for message in messages] == ["attempt 1", "{{feature}} as typed", ""]
    assert messages[-1].outcome == Outcome(
        output="attempt 1\n{{feature}} as typed", agent={"name": "script"}, silent=False
    )
    assert (call.cwd / "specs/013-conformance/plan.md").read_text() == "# 013-conformance\n"
    assert (call.cwd / "empty.txt").read_text() == ""
    assert (call.cwd / "version.txt").read_text() == "1.10"


def test_a_file_written_again_with_the_same_text_is_a_new_file(agent: Write, call: Call) -> None:
    """Freshness is judged by the inode, so an unchanged report still counts as written."""
    plan = call.cwd / "plan.md"
    doing = agent("steps: {plan: {write: {plan.md: the same}}}")
    assert ended(doing, call).ok
    with plan.open() as kept:  # so that its inode is not given away again
        assert ended(doing, call).ok
        assert plan.stat().st_ino != Path(f"/dev/fd/{kept.fileno()}").stat().st_ino


def test_each_attempt_has_its_action_and_the_last_one_repeats(agent: Write, call: Call) -> None:
    script = "steps: {plan: [{fail: not yet}, {say: now}]}"
    scripted = agent(script)
    outputs = [ended(scripted, replace(call, attempt=attempt)).output for attempt in (1, 2, 3)]
    assert outputs == ["", "now", "now"]
    error = error_of(scripted, call)
    assert (error.code, error.message) == ("PB-AGENT-FAILED", "not yet")


@pytest.mark.parametrize("script", ["", "steps:\n"])
def test_a_step_that_is_not_listed_succeeds_without_a_word(
    script: str, agent: Write, call: Call
) -> None:
    done = Outcome(agent={"name": "script"}, silent=False)
    assert list(agent(script).run(call)) == [Message(outcome=done)]


@pytest.mark.parametrize("script", ["default: {}", "steps: {plan: [{}]}"])
def test_an_empty_action_is_silence(script: str, agent: Write, call: Call) -> None:
    assert ended(agent(script), call).silent


def test_the_default_is_for_steps_that_are_not_listed(agent: Write, call: Call) -> None:
    script = "{steps: {tasks: {say: listed}}, default: {say: not listed}}"
    assert ended(agent(script), call).output == "not listed"
    assert ended(agent(script), replace(call, step="tasks")).output == "listed"


def test_a_failure_follows_the_output_and_the_files(agent: Write, call: Call) -> None:
    for seconds in ("0", "0.01"):  # in this process, and in one of its own
        script = f"steps: {{plan: {{say: a, seconds: {seconds}, write: {{b: c}}, fail: 'd\te'}}}}"
        outcome = ended(agent(script), call)
        assert outcome.error is not None
        assert (outcome.output, outcome.error.message) == ("a", "d e")
        (call.cwd / "b").unlink()


def test_an_action_that_takes_time_runs_in_its_own_process(agent: Write, call: Call) -> None:
    running = agent("steps: {plan: {say: begun, seconds: 600, write: {a: b}}}").run(call)
    messages = iter(running)
    assert next(messages).text == "begun"
    assert call.worker_file is not None
    assert worker_alive(call.worker_file)
    running.stop()
    assert list(messages)
    assert not (call.cwd / "a").exists()


def test_files_are_written_after_the_seconds(agent: Write, call: Call) -> None:
    outcome = ended(agent("steps: {plan: {say: begun, seconds: 0.1, write: {a: b}}}"), call)
    assert outcome == Outcome(output="begun", agent={"name": "script"}, silent=False)
    assert (call.cwd / "a").read_text() == "b"


def test_dying_is_a_real_crash_after_the_files_were_written(agent: Write, call: Call) -> None:
    error = error_of(agent("steps: {plan: {write: {a: b}, die: true}}"), call)
    assert (error.code, error.message) == (
        "PB-AGENT-CRASHED",
        "script was killed by SIGKILL",
    )
    assert (call.cwd / "a").exists()


def test_hanging_can_come_after_the_work(agent: Write, call: Call) -> None:
    running = agent("steps: {plan: {say: begun, write: {a: b}, hang: true}}").run(call)
    messages = iter(running)
    next(messages)
    while not (call.cwd / "a").exists():
        time.sleep(0.01)
    running.stop()
    last = list(messages)[-1].outcome
    assert last is not None
    assert last.error is not None
    assert last.error.message == "script was stopped before it ended"


@pytest.mark.parametrize("seconds", ["0", "0.01"])
def test_a_link_that_leads_outside_is_not_written_through(
    seconds: str, agent: Write, call: Call, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (call.cwd / "link").symlink_to(tmp_path / "outside")
    script = f"steps: {{plan: {{seconds: {seconds}, write: {{link/a: b}}}}}}"
    error = error_of(agent(script), call)
    assert error.code == "PB-AGENT-FAILED"
    assert "leads outside" in error.message
    assert not list((tmp_path / "outside").iterdir())


def test_a_module_in_the_working_directory_is_not_imported(agent: Write, call: Call) -> None:
    for name in ("json.py", "playbook_supervisor.py"):
        (call.cwd / name).write_text("raise SystemExit('hijacked')\n")
    assert ended(agent("steps: {plan: {seconds: 0.01, say: fine}}"), call).output == "fine"


# ── what its file may say ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("script", "place", "said"),
    [
        ("- plan", "1:1", "this must be a mapping (steps, default)"),
        ("step: {}", "1:1", "unknown key 'step'; did you mean steps? (steps, default)"),
        (
            "steps: {plan: text}",
            "1:15",
            "this must be a mapping (ask, denied, say, seconds, write, fail,",
        ),
        ("steps: {plan: []}", "1:15", "an attempt needs an action; `{}` does nothing"),
        ("steps: {plan: [{}, {writ: {}}]}", "1:21", "unknown key 'writ'; did you mean write?"),
        ("steps: {plan: {say: {}}}", "1:21", "this must be a string"),
        ("steps: {plan: {say: '{{name}}'}}", "1:21", "unknown name {{name}}; the names are {{f"),
        ("steps: {plan: {fail: }}", "1:22", "`fail` needs a reason"),
        ("steps: {plan: {hang: yes}}", "1:22", "this must be true or false"),
        (
            "steps: {plan: {hang: true, die: true}}",
            "1:28",
            "an action takes only one of hang and die",
        ),
        (
            "steps: {plan: {seconds: -1}}",
            "1:25",
            "this must be a number of seconds from 0 to 86400",
        ),
        ("steps: {plan: {seconds: true}}", "1:25", "this must be a number of seconds"),
        (
            "steps: {plan: {write: {/etc/a: b}}}",
            "1:24",
            "'/etc/a' is not a path inside the working",
        ),
        ("steps: {plan: {write: {a/../../b: c}}}", "1:24", "is not a path inside the working"),
        ("steps: {plan: 1", "", ""),
        ("steps: &a {}", "1:8", ""),
        ("steps: {}\nsteps: {}", "2:1", ""),
    ],
)
def test_a_faulty_script_is_refused_at_its_place(
    script: str, place: str, said: str, agent: Write, tmp_path: Path
) -> None:
    error = refused(agent, script)
    assert said in error.message
    assert error.where.startswith(f"{tmp_path / 'script.yaml'}:{place}")


def test_all_faults_are_reported_at_once(agent: Write) -> None:
    error = refused(agent, "steps:\n  plan: {seconds: soon}\n  tasks: {fial: red}\n")
    assert error.message.endswith("(and 1 more)")
    assert [detail.rpartition("script.yaml:")[2][:5] for detail in error.details] == [
        "2:19:",
        "3:11:",
    ]


def test_a_script_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "large.yaml").write_text("# " + "x" * 2_000_000)
    for name in ("missing.yaml", "folder.yaml", "large.yaml"):
        with pytest.raises(AgentError) as caught:
            choose(f"script:{tmp_path / name}", Config(), tmp_path)
        assert caught.value.code == "PB-AGENT-SCRIPT"
        assert name in caught.value.where


@pytest.mark.thorough
@given(st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["steps", "default", "plan", "say", "write", "fail", "hang", "seconds"])
        | st.text(max_size=4),
        inner,
        max_size=4,
    ),
    max_leaves=12,
))  # fmt: skip
def test_any_file_is_either_a_script_or_refused_with_places(
    tmp_path_factory: pytest.TempPathFactory, data: object
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(json.dumps(data))
    refused = None
    try:
        assert choose(f"script:{file}", Config(), file.parent).available() is None
    except AgentError as error:
        refused = error
    if refused is not None:
        assert refused.code == "PB-AGENT-SCRIPT"
        assert refused.message
        assert str(file) in refused.where


# ── the file that ships, and the one that is documented ─────────────────────────────────────


def test_the_demo_gh_lists_the_pull_request_once_it_exists(call: Call) -> None:
    gh = REPOSITORY / "templates/demo/bin/gh"
    subprocess.run(["git", "init", "-q"], cwd=call.cwd, check=True)

    def says(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", str(gh), *words], cwd=call.cwd, capture_output=True, text=True, check=False
        )

    listing = ("pr", "list", "--head", "001-greeting", "--state", "all", "--json", "number")
    assert json.loads(says(*listing).stdout) == []
    agent = choose(f"script:{REPOSITORY / 'templates/demo/script.yaml'}", Config(), call.cwd)
    assert ended(agent, replace(call, step="pr")).ok
    assert [each["state"] for each in json.loads(says(*listing).stdout)] == ["OPEN"]
    assert says("auth", "token").returncode == 1


def test_the_documented_script_is_valid(agent: Write, call: Call) -> None:
    page = (REPOSITORY / "docs/script-agent.md").read_text()
    example, asking = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    documented = agent(example)
    assert ended(documented, call).output == "reading the specification\nthe plan is written"
    assert ended(documented, replace(call, step="tasks")).output == "nothing to do"
    person = replace(call, step="commit", ask=lambda request: Reply("allow"))
    assert ended(agent(asking), person).output == "the tests are green"
    for key in ("say", "seconds", "write", "fail", "hang", "die", "ask", "denied"):
        assert f"| `{key}` |" in page
