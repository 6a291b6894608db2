"""Policies where people and drivers meet them: at gates, at beginnings, in listings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from claude import playbooks
from cli.scripts import GATED, WORKS, conforms
from support.checked_project import Checked
from support.hook_calls import Hooked
from support.scratch_project import FEATURE, Project

from playbook_supervisor.commands.checking import checking
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.drivers.observers import DriveResult, PromptAnswer
from playbook_supervisor.errors import CheckError, PolicyError
from playbook_supervisor.kernel.vocabulary import Mode
from playbook_supervisor.sessions.gate.gate_context import GateContext
from playbook_supervisor.sessions.gate.gate_text import lines
from playbook_supervisor.sessions.store.snapshot import Snapshot

RELEASE = "*@release.example.org"
GUARD = f"match: {{playbook: gated}}\nanswered_by: ['{RELEASE}']\n"
PLAN = f"specs/{FEATURE}/plan.md"


@pytest.fixture
def gated(project: Project) -> Project:
    """A playbook of one gated step, for which only the release team may answer."""
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    project.write(".playbooks/policies/release.yaml", GUARD)
    return project


def sign(project: Project, mail: str) -> None:
    project.git("config", "user.email", mail)


def run(project: Project, mode: Mode, person: Prompter | None = None) -> DriveResult:
    drive = DriveOptions(agent=project.script(WORKS), mode=mode)
    return driving.run("gated", cwd=project.root, drive=drive, prompter=person)


class Prompter:
    """Says these words one after the other, and then nothing more; keeps what is told."""

    def __init__(self, *words: str) -> None:
        self.words = list(words)
        self.told: list[str] = []

    def ask(
        self, snapshot: Snapshot, context: GateContext | None, overtaken: Callable[[], bool]
    ) -> PromptAnswer:
        del snapshot
        self.context, self.hurried = context, overtaken()
        return PromptAnswer(self.words.pop(0)) if self.words else PromptAnswer()

    def not_understood(self, snapshot: Snapshot, question: str) -> None:
        del snapshot
        self.told.append(question)


class TestAnAnswer:
    def test_at_the_prompt_is_refused_and_the_gate_is_asked_again(self, gated: Project) -> None:
        person = Prompter("continue", "skip")
        ending = run(gated, Mode.MANUAL, person)
        assert ending.why == "waiting"
        assert lines(person.context)[0] == f"answered by: {RELEASE} (policy release.yaml)"
        said = "may not answer for `publish`: the policy release.yaml requires"
        assert [said in told for told in person.told] == [True, True]
        assert person.told[0].endswith("; the gate stays open.")
        assert not person.hurried  # nothing has changed by a refusal

    def test_is_not_given_by_autonomous_where_people_are_named(self, gated: Project) -> None:
        ending = run(gated, Mode.AUTONOMOUS)
        assert (ending.why, ending.exit_code) == ("waiting", 4)
        assert lines(ending.context)[0].startswith("answered by: ")

    def test_from_another_terminal_is_refused_with_its_code(self, gated: Project) -> None:
        run(gated, Mode.MANUAL)
        refused = gated.playbook("answer", "continue")
        assert (refused.code, refused.out) == (3, "")
        assert "[PB-POLICY-ANSWER]" in refused.err
        assert "do: One of those people must answer" in refused.err
        sign(gated, "rita@release.example.org")
        driving.answer(["continue"], cwd=gated.root)
        assert gated.journal()[0]["gates"][0]["by"].endswith("<rita@release.example.org>")

    def test_abort_is_allowed_for_anyone(self, gated: Project) -> None:
        run(gated, Mode.MANUAL)
        driving.answer(["abort"], cwd=gated.root)
        assert gated.manifest()["status"] == "aborted"


class TestAProofThatAPolicyRequires:
    """A team asks for its tests and its folders, whatever a playbook says."""

    RULE = """
match: {step: publish}
postconditions:
  - command_succeeds: test
  - changes_within: [docs/**]
"""

    @pytest.fixture
    def checked(self, gated: Project, tmp_path: Path) -> Checked:
        gated.write(".playbooks/policies/release.yaml", self.RULE)
        return Checked(gated, tmp_path)

    def test_is_made_and_journaled(self, checked: Checked) -> None:
        drive = DriveOptions(
            agent=checked.project.script("steps: {publish: {write: {docs/a.md: new}}}"),
            mode=Mode.AUTONOMOUS,
        )
        assert driving.run("gated", cwd=checked.project.root, drive=drive).why == "completed"
        (entry,) = checked.project.journal()
        proved, within = entry["evidence"]
        assert proved.startswith("command_succeeds=test: check test: exit 0 in ")
        assert within.startswith("changes_within=docs/**: 1 file, ")
        assert checked.runs == 1

    def test_by_an_unknown_check_is_refused_with_the_place_in_the_policy(
        self, checked: Checked
    ) -> None:
        file = ".playbooks/policies/release.yaml"
        checked.project.write(file, self.RULE.replace("test", "tset"))
        done = checked.project.playbook("check", file)
        assert (done.code, done.out) == (
            1,
            f"{file}:4:5: error: the config defines no check 'tset'; did you mean test? Define it "
            "under `checks` in .playbooks/config.yaml, or write `cli PROGRAM ARGUMENTS`. "
            "[PB-CHECK-POLICY]\n",
        )
        refused = checked.project.playbook("run", "gated", "--agent", "exec:echo done")
        assert (refused.code, checked.project.sessions) == (1, [])
        assert f"  at: {file}:4:5\n" in refused.err


class TestInsideClaudeCode:
    @pytest.fixture
    def asked(self, project: Project) -> Hooked:
        """At the gate before the second step, which the release team answers."""
        playbooks.shelve(project)
        text = f"match: {{step: tasks}}\nanswered_by: ['{RELEASE}']\n"
        project.write(".playbooks/policies/release.yaml", text)
        person = Hooked(project)
        person.types("/playbook.run two 013")
        person.does("plan#1", "speckit.plan", PLAN)
        return person

    def test_a_typed_answer_of_another_person_is_only_text(self, asked: Hooked) -> None:
        asked.stops()
        reply = asked.says("continue")
        assert reply is not None
        assert reply.snapshot is None
        assert reply.shown == reply.note
        assert "[PB-POLICY-ANSWER]" in reply.shown
        assert asked.bound.turn == "human"
        assert not asked.bound.stalled
        assert asked.steps == ["plan#1 done", "tasks#1 in_progress"]
        asked.stops()
        sign(asked.project, "rita@release.example.org")
        told = asked.says("continue")
        assert told is not None
        assert told.snapshot is not None


class TestABeginning:
    def test_may_not_skip_guarded_steps(self, project: Project) -> None:
        """`--from` leaves earlier steps out, and is said by those alone who may leave them out."""
        text = f"match: {{step: qa-plan}}\nanswered_by: ['{RELEASE}']\n"
        project.write(".playbooks/policies/release.yaml", text)
        drive = DriveOptions(agent=project.script(WORKS))

        def from_the_second() -> DriveResult:
            return driving.run(
                "auto-validate", ["013"], start="qa-run", cwd=project.root, drive=drive
            )

        with pytest.raises(PolicyError) as caught:
            from_the_second()
        assert caught.value.code == "PB-POLICY-SKIP"
        assert not project.sessions
        sign(project, "rita@release.example.org")
        from_the_second()
        assert [entry["status"] for entry in project.journal()][:1] == ["skipped"]

    def test_is_refused_while_a_policy_is_invalid(self, gated: Project) -> None:
        """A misspelt one would be believed to hold."""
        gated.write(".playbooks/policies/other.yaml", "match: {stp: x}\nautonomy: skip\n")
        with pytest.raises(CheckError) as caught:
            run(gated, Mode.MANUAL)
        assert caught.value.code == "PB-CHECK-POLICY"
        assert caught.value.where == ".playbooks/policies/other.yaml:1:9"
        assert not gated.sessions

    def test_records_that_no_policy_applies(self, gated: Project) -> None:
        """Where a project has policies, a session says what held, also where that is nothing."""
        drive = DriveOptions(agent=gated.script(WORKS))
        driving.run("auto-validate", ["013"], cwd=gated.root, drive=drive)
        kept = (gated.session / "policy.yaml").read_text()
        assert kept.endswith("schema: 1\ndemands: []\n")

    def test_of_the_originals_tools_also_follows_the_policies(self, gated: Project) -> None:
        gated.write(
            ".playbooks/sessions/20260219-a7k/session.yaml",
            "session_id: 20260219-a7k\nplaybook: gated\nfeature: 013\nargs: {}\n"
            "status: in_progress\nstarted_at: '2026-02-19T10:00:00Z'\ncompleted_at: ''\n"
            "current_step: publish\nworktree: ''\n",
        )
        gated.write(".playbooks/sessions/20260219-a7k/journal.yaml", "entries: []\n")
        drive = DriveOptions(agent=gated.script(WORKS))
        ending = driving.resume("20260219-a7k", cwd=gated.root, drive=drive)
        assert lines(ending.context)[0].startswith("answered by: ")
        assert (gated.session / "policy.yaml").is_file()


class TestWhatIsShown:
    def test_of_a_session_names_what_made_it_tighter(self, gated: Project) -> None:
        run(gated, Mode.MANUAL)
        shown = gated.playbook("show")
        assert f"  policy release.yaml: publish answered by {RELEASE}" in shown.out.splitlines()
        shape = conforms("show", gated.playbook("show", "--json").json)
        assert shape["policies"] == [
            {"policy": "release.yaml", "step": "publish", "answered_by": [RELEASE]}
        ]


class TestCheck:
    def problems(self, project: Project, file: str) -> list[tuple[str, int, int, str]]:
        (checked,) = checking.check([str(project.root / file)])
        return [(each.severity, each.line, each.col, each.code) for each in checked.problems]

    def test_notes_what_policies_change_in_each_step(self, gated: Project) -> None:
        """A note needs no action: `--strict` accepts it."""
        text = GATED.replace("    autonomy", "    postconditions: [pr_created]\n    autonomy")
        gated.write(".playbooks/playbooks/gated.yaml", text)
        done = gated.playbook("check", ".playbooks/playbooks/gated.yaml", "--strict")
        assert (done.code, done.err) == (0, "1 file: fine\n")
        assert done.out == (
            ".playbooks/playbooks/gated.yaml:9:15: note: policy release.yaml: "
            f"answered by {RELEASE}. Sessions apply it. [PB-POLICY-TIGHTENS]\n"
        )
        done = gated.playbook("check", ".playbooks/playbooks/gated.yaml", "--format", "github")
        assert done.out.startswith("::notice file=")
        done = gated.playbook("check", ".playbooks/playbooks/gated.yaml", "--json")
        (problem,) = conforms("check", done.json)["files"][0]["problems"]
        assert problem["severity"] == "note"

    def test_reports_all_problems_of_a_policy(self, gated: Project) -> None:
        file = ".playbooks/policies/release.yaml"
        gated.write(file, "match: {stp: x}\nautonomy: skip\n")
        assert self.problems(gated, file) == [
            ("error", 1, 9, "PB-CHECK-POLICY"),
            ("error", 2, 11, "PB-CHECK-POLICY"),
        ]
        gated.write(file, "match: [\n")
        assert self.problems(gated, file)[0][3] == "PB-CHECK-YAML"

    def test_warns_of_a_rule_that_matches_nothing(self, gated: Project) -> None:
        file = ".playbooks/policies/release.yaml"
        gated.write(file, f"- {{match: {{step: pbulish}}, answered_by: ['{RELEASE}']}}\n")
        assert self.problems(gated, file) == [("warning", 1, 1, "PB-CHECK-POLICY-UNUSED")]
        for playbook in (gated.root / ".playbooks/playbooks").iterdir():
            playbook.unlink()
        assert self.problems(gated, file) == []  # this cannot be known

    def test_reports_all_problems_of_the_settings(self, gated: Project) -> None:
        """As text each on a line, where every other command has room for the first alone."""
        gated.write(".playbooks/config.yaml", "agnet: x\npush_sessions: maybe\n")
        done = gated.playbook("check", "config.yaml", cwd=gated.root / ".playbooks")
        assert done.code == 1
        assert done.out.splitlines() == [
            "config.yaml:1:1: error: agnet: unknown key. Did you mean `agent`? [PB-CHECK-CONFIG]",
            "config.yaml:2:16: error: push_sessions: must be true or false, without quotes. "
            "`playbook schema config` describes every key. [PB-CHECK-CONFIG]",
        ]
        gated.write(".playbooks/config.yaml", "agent: [\n")
        assert self.problems(gated, ".playbooks/config.yaml")[0][3] == "PB-CHECK-YAML"
        gated.write(".playbooks/config.yaml", "agent: claude\n")
        assert self.problems(gated, ".playbooks/config.yaml") == []
