"""What a gate shows, in every place: enough to decide in half a minute (kai FR24, S-U2; own
L-6)."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from support.hook_calls import Hooked
from support.scratch_project import FEATURE, Project

from cli.scripts import GATED, conforms
from cli.terminal import Terminal
from playbook_supervisor.sessions.gate.gate_text import MOST_LINES

SCRIPT = """
steps:
  plan: {say: [a banner, the plan has 3 phases], write: {"specs/{{feature}}/plan.md": "# Plan\\n"}}
  tasks: {write: {"specs/{{feature}}/tasks.md": "# Tasks\\n"}}
  agreement: {write: {".agreements/{{feature}}/agreement.yaml": "feature: x\\n"}}
  implement:
    say: [all tests are green, the help still names the old flag]
    write: {made.py: "1\\n"}
  agreement-check:
    write: {".agreements/{{feature}}/check-report.md": "---\\nverdict: PASS\\n---\\n"}
  qa-plan: {write: {".qa/{{feature}}/test-plan.md": "# Plan\\n"}}
  qa-run:
    say: [scenario 4 fails, 4 of 5 scenarios pass]
    write: {".qa/{{feature}}/verdict.md": "---\\nverdict: FAIL\\n---\\n"}
"""
ADA = "Ada Example <ada@example.org>"
WAIVED = f"waived at qa-run#1: qa_verdict_pass, verdict_fail by {ADA} (known on Windows, accept)"


@pytest.fixture
def waived(project: Project) -> Project:
    """auto-feature on its way to the pull request; its QA verdict was accepted by a person."""
    project.gh("open")
    project.git("config", "user.name", "Ada Example")
    project.git("config", "user.email", "ada@example.org")
    project.playbook("run", "auto-feature", "013", "--agent", project.script(SCRIPT))
    project.commit("Greet by name")
    assert project.playbook("answer", "known on Windows, accept").code == 0
    return project


def plain(line: str) -> str:
    """A line of a page, or one that is quoted for a model, as a person reads it."""
    return re.sub(r"^<pre>|</pre>$|^> ", "", line.strip()).strip()


def test_what_was_waived_is_asked_about_again_before_the_pull_request(waived: Project) -> None:
    asked = waived.playbook("resume", "--mode", "autonomous")
    assert asked.code == 4
    assert "(waived for an earlier step)" in asked.err
    assert waived.manifest()["gate"]["reason"] == "precondition_fail"
    again = waived.playbook("answer", "continue", "--resume")
    assert (again.code, waived.manifest()["gate"]["id"]) == (4, "pr#1?2")
    accepted = waived.playbook("answer", "accept", "--resume")
    assert accepted.code == 0
    assert "qa_verdict_pass" in waived.journal()[-1]["waived"]


def test_every_place_shows_the_whole_session_before_the_pull_request(waived: Project) -> None:
    waived.playbook("resume")
    run = waived.playbook("answer", "accept", "--resume")
    assert waived.manifest()["gate"]["reason"] == "gate_always"
    context = [line.removeprefix("  ") for line in run.err.splitlines() if line[:2] == "  "]
    assert len(context) <= MOST_LINES
    first = [re.sub(r" \(\d files changed since\)$", "", line) for line in context[:7]]
    assert first == [
        f"✗ qa_verdict_pass: .qa/{FEATURE}/verdict.md says FAIL",
        WAIVED,
        f"waived at pr#1: qa_verdict_pass by {ADA}",
        f"✓ agreement_pass: .agreements/{FEATURE}/check-report.md says PASS",
        "qa-run#1 said last:",
        "  scenario 4 fails",
        "  4 of 5 scenarios pass",
    ]
    steps = "\n".join(context[7:14])
    assert re.match(rf"plan ✓ [\d.]+ s · plan_exists: specs/{FEATURE}/plan.md, 1 line\n", steps)
    assert "implement ✓" in steps
    assert "· said: the help still names the old flag" in steps
    assert re.search(r"^agreement-check ✓ [\d.]+ s · agreement_pass$", steps, re.MULTILINE)
    assert re.search(r"^qa-run ✓ .* · waived$", steps, re.MULTILINE)
    branch, commit, *files = context[14:]
    assert branch.startswith(f"branch {FEATURE}, 1 commit, 7 files changed, 11 insertions(+)")
    assert commit.endswith(" Greet by name")
    assert any(line.startswith("  made.py") for line in files)

    shown = [
        waived.playbook("status").out,
        waived.playbook("show").out,
        waived.playbook("next").out,
        waived.playbook("show", "--html", "-").out.replace("&lt;", "<").replace("&gt;", ">"),
    ]
    for text in shown:
        stripped = [plain(line) for line in text.splitlines()]
        assert [line for line in context if line.strip() not in stripped] == []
    gates = [
        conforms("directive", waived.playbook("next", "--json").json)["gate"],
        conforms("run", waived.playbook("resume", "--json").json)["gate"],
        conforms("status", waived.playbook("status", "--json").json)["sessions"][0]["gate"],
        conforms("show", waived.playbook("show", "--json").json)["gate"],
    ]
    for gate in gates:
        assert gate["context"] == context
        details = gate["details"]
        assert [each["held"] for each in details["verdicts"]] == [True, False]
        assert [each["attempt"] for each in details["waived"]] == ["qa-run#1", "pr#1"]
        assert len(details["steps"]) == 7
        assert details["said"]["text"] == "scenario 4 fails\n4 of 5 scenarios pass"


def test_the_verdicts_are_those_of_now(waived: Project) -> None:
    waived.playbook("resume")
    waived.write(f".qa/{FEATURE}/verdict.md", "---\nverdict: PASS\n---\n")
    status = waived.playbook("status").out
    assert f"✓ qa_verdict_pass: .qa/{FEATURE}/verdict.md says PASS" in status
    assert waived.playbook("answer", "mended, continue", "--resume").code == 4
    assert waived.manifest()["gate"]["reason"] == "gate_always"


def test_a_long_session_and_much_talk_still_fit(project: Project) -> None:
    steps = "".join(
        f"  - {{id: s{n}, command: /qa.plan, autonomy: auto, error_policy: stop}}\n"
        for n in range(20)
    )
    project.write(
        ".playbooks/playbooks/many.yaml",
        'name: many\ndescription: Many steps\nversion: "1.0"\nargs: []\nsteps:\n'
        f"{steps}  - {{id: end, command: /qa.run, autonomy: gate_always, error_policy: stop}}\n",
    )
    talk = [f"line {n} " + "x" * 300 for n in range(60)]
    written = {f"file-{n}.txt": "1\n" for n in range(60)}
    script = json.dumps({"default": {"say": talk, "write": written}})
    run = project.playbook("run", "many", "--agent", project.script(script))
    context = [line for line in run.err.splitlines() if line[:2] == "  "]
    assert len(context) == MOST_LINES
    assert max(map(len, context)) <= 170
    assert any(re.fullmatch(r"  … \d+ earlier steps", line) for line in context)
    assert any("s19 ✓" in line for line in context)
    assert sum("file-" in line for line in context) >= 2


def test_what_an_agent_says_cannot_disturb_the_screen(project: Project) -> None:
    script = project.script("""
    default: {say: "\\e]0;owned\\a\\e[2Jfine\\u202e", fail: "no"}
    """)
    project.write(
        ".playbooks/playbooks/one.yaml",
        'name: one\ndescription: One step\nversion: "1.0"\nargs: []\nsteps:\n'
        "  - {id: s, command: /qa.plan, autonomy: auto, error_policy: gate}\n",
    )
    run = project.playbook("run", "one", "--agent", script)
    assert "  s#1 said last: fine" in run.err.splitlines()
    assert "\x1b" not in run.err + project.playbook("status").out + project.playbook("logs").out


def test_what_changed_is_counted_with_what_git_does_not_know_yet(project: Project) -> None:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    shutil.rmtree(project.root / ".git")
    project.git("init", "-q", "-b", "main")  # without a commit
    agent = project.script("{}")
    assert project.playbook("run", "gated", "--agent", agent).code == 4
    project.write("made.py", "1\n")
    branch = project.playbook("next", "--json").json["gate"]["context"][0]
    assert re.match(
        r"branch main, no commits, \d+ files? changed, .* since the session began", branch
    )
    project.commit("Begin")
    project.git("switch", "-q", "--detach")
    project.write("picture.png", "2\n")
    branch, commit = project.playbook("next", "--json").json["gate"]["context"][:2]
    assert re.match(r"detached HEAD, 1 commit, 2 files changed, 2 insertions.* since the", branch)
    assert commit.endswith(" Begin")


LENIENT = """\
name: lenient
description: Steps that are passed over, that fail, and that need no agent
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: ignore}
steps:
  - {id: facts, command: cli echo 7, output: json}
  - {id: never, command: cli false, when: $facts.json == 8}
  - {id: lint, command: cli false}
  - {id: look, command: prompt, with: {text: Look}}
  - {id: build, command: cli echo built, outputs: [dist], error_policy: gate}
  - {id: ship, title: Ship it., command: cli true, autonomy: gate_always}
"""


def test_a_gate_tells_steps_without_an_agent_from_agents(project: Project) -> None:
    project.write(".playbooks/playbooks/lenient.yaml", LENIENT)
    agent = project.script("default: {say: [all fine]}\n")
    ran = project.process("run", "lenient", "--agent", agent)
    assert ran.code == 4
    assert "never#1 skipped: when: $facts.json is 7\n" in ran.err
    shown = project.playbook("status").out
    assert "build#1 printed last: built\n" in shown
    assert "waived at lint#1: PB-STEP-FAILED by the error policy\n" in shown
    for line in (
        r"facts ✓ .* · output: 7",
        r"never – · when: \$facts.json is 7",
        "lint ✓ .* · waived",
    ):
        assert re.search(rf"^ +{line}$", shown, re.MULTILINE)
    project.process("answer", "accept", "--resume")
    shown = project.playbook("status").out
    assert "  Ship it (step ship) now: continue, skip it, or abort? 5/6 steps done.\n" in shown
    assert "look#1 said last: all fine\n" in shown
    assert "ship#1  in_progress  (gate)  Ship it.\n" in project.playbook("show").out
    assert "<dd>Ship it.</dd>" in project.playbook("show", "--html", "-").out


def test_a_low_and_narrow_terminal_shows_what_decides(waived: Project) -> None:
    waived.playbook("resume")
    with Terminal(waived, "resume") as terminal:
        terminal.until("(waived for an")
        terminal.resize(60, 24)
        terminal.until("back to qa-run")
        terminal.type("accept\n")
        shown = terminal.until("continue (Enter), skip or abort > ")
    asked = shown[shown.rindex("pr#1 waits for you") :].splitlines()
    assert len(asked) <= 23
    assert max(map(len, asked)) <= 60
    told = " ".join(" ".join(asked).split())
    assert WAIVED in told
    assert f"✗ qa_verdict_pass: .qa/{FEATURE}/verdict.md says FAIL" in told
    assert "qa-run ✓" not in told  # the list above has it


def test_the_dialog_of_the_client_shows_the_most_telling_lines(waived: Project) -> None:
    person = Hooked(waived)
    person.types("/playbook.resume")
    put = person.calls("AskUserQuestion")
    question, *lines = put.given["questions"][0]["question"].splitlines()
    assert question.startswith("pr cannot start: qa_verdict_pass")
    assert plain(lines[0]) == WAIVED
    assert plain(lines[-1]).startswith(f"branch {FEATURE}, 1 commit")
    assert len(lines) <= 9


FAILED_QA = """
steps:
  qa-run:
    say: [12 of 14 criteria pass]
    write:
      ".qa/{{feature}}/verdict.md": |
        # QA

        - ✓ AC-1 greets by name
        - ✗ AC-2 an empty name is accepted, where section 3 of the specification says: an error
        - ✓ AC-3 documented

        **Verdict**: FAIL
"""
REPORTED = [
    f".qa/{FEATURE}/verdict.md:",
    "  - ✗ AC-2 an empty name is accepted, where section 3 of the specification",
]


def failing_qa(project: Project) -> list[str]:
    project.write(f".qa/{FEATURE}/test-plan.md", "# Plan\n")
    project.write(f".agreements/{FEATURE}/agreement.yaml", "feature: x\n")
    project.git("checkout", "-q", FEATURE)
    options = ["--from", "qa-run", "--agent", project.script(FAILED_QA)]
    return ["run", "auto-feature", "013", *options]


def test_a_failed_verdict_is_shown_with_the_reports_own_words_first(project: Project) -> None:
    run = project.playbook(*failing_qa(project))
    context = [line.removeprefix("  ") for line in run.err.splitlines() if line[:2] == "  "]
    assert context[0] == REPORTED[0]
    assert context[1].startswith(REPORTED[1])
    assert context[2:4] == ["qa-run#1 said last: 12 of 14 criteria pass", context[3]]
    for shown in (
        project.playbook("status").out,
        project.playbook("show").out,
        project.playbook("next").out,
        project.playbook("show", "--html", "-").out,
    ):
        assert "an empty name is accepted" in shown
    person = Hooked(project)
    person.types("/playbook.resume")
    put = person.calls("AskUserQuestion")
    assert plain(put.given["questions"][0]["question"].splitlines()[1]) == REPORTED[0]


def test_at_80_columns_and_24_lines_the_fact_that_decides_is_whole(project: Project) -> None:
    run = failing_qa(project)
    with Terminal(project, *run) as terminal:
        terminal.resize(80, 24)
        terminal.until("waits for you")
        shown = terminal.until("continue, retry, accept, back to qa-plan or abort > ").split(
            "waits for you"
        )[-1]
        assert "specification says: an error" in " ".join(shown.split())
        assert max(map(len, shown.splitlines())) <= 80
        assert len(shown.splitlines()) <= 24


@pytest.mark.measured
def test_a_question_mark_explains_the_choices_and_diff_shows_the_changes(project: Project) -> None:
    with Terminal(project, *failing_qa(project)) as terminal:
        terminal.until("(? for help) continue, retry, accept, back to qa-plan or abort > ")
        terminal.type("?\n")
        terminal.until("accept   continue although it fails")
        terminal.until("diff     show what has changed since the session began")
        terminal.until("abort > ")
        terminal.type("diff\n")
        terminal.until(f".qa/{FEATURE}/verdict.md (new)")
        terminal.until("+- ✗ AC-2 an empty name is accepted")
        terminal.until("abort > ")
        terminal.type("abort\n")
        assert terminal.end() == 2
    assert [gate["text"] for gate in project.journal()[-1]["gates"]] == ["abort"]


def test_the_address_of_a_pull_request_is_whole_at_80_columns(project: Project) -> None:
    project.gh("open")
    address = f"https://forge.example/{'a-long-owner/' * 3}a-long-repository/pull/7"
    gh = next(project.root.parent.rglob("gh"))
    gh.write_text(gh.read_text().replace("https://forge.example/pull/7", address))
    project.write(
        ".playbooks/playbooks/one.yaml",
        'name: one\ndescription: Open it\nversion: "1.0"\nargs: []\nsteps:\n'
        "  - {id: pr, command: /feature.pr, autonomy: auto, error_policy: stop, "
        "postconditions: [pr_created]}\n",
    )
    script = project.script("default: {say: done}\n")
    with Terminal(project, "run", "one", "--agent", script) as run:
        run.resize(80, 24)
        assert run.end() == 0, run.shown
        assert run.shown.endswith(f"pull request: {address}\n")
        row = next(line for line in run.shown.splitlines() if line.startswith("✓  pr"))
        assert "https://" not in row  # half an address is of no use
        assert row.endswith("pull request #7 is open: …")


DIES = """\
if [ ! -e "$0.tried" ]; then touch "$0.tried"; echo "two tests fail"; exit 0; fi
mkdir -p .qa/FEATURE && printf -- '---\\nverdict: PASS\\n---\\n' > .qa/FEATURE/verdict.md
above=$(ps -o ppid= -p $PPID)
kill -KILL $(ps -o ppid= -p $above)
"""
JUDGED = """\
name: judged
description: A verdict, and a gate behind it
version: "1.0"
args: [{name: feature, description: the feature, required: true}]
steps:
  - id: qa-run
    command: /qa.run
    autonomy: auto
    postconditions: [qa_verdict_pass]
    error_policy: retry_once
  - {id: pr, command: /feature.pr, autonomy: gate_always, error_policy: stop}
"""


def test_a_recovered_step_is_announced_and_no_failed_attempt_speaks_for_it(
    project: Project,
) -> None:
    project.write(".playbooks/playbooks/judged.yaml", JUDGED)
    agent = project.root.with_name("dies.sh")
    agent.write_text(DIES.replace("FEATURE", FEATURE))
    killed = project.process("run", "judged", "013", "--agent", f"exec:sh {agent}")
    assert "qa-run#1 failed" in killed.err
    resumed = project.playbook("resume")
    assert resumed.code == 4, resumed.err
    assert "qa-run#2 recovered: its files show that it had finished" in resumed.err
    assert "PASS" in resumed.err
    assert "two tests fail" not in resumed.err
