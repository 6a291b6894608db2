"""`status`, `show` and `repair`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scratch_project import FEATURE, Project

from cli.scripts import FAILS, GATED, WORKS, conforms

pytestmark = pytest.mark.measured

LEGACY = {
    "session.yaml": """\
session_id: "20260219-a7k"
playbook: "auto-validate"
feature: "013-playbook-create"
args: {feature: "013"}
status: "in_progress"
started_at: "2026-02-19T10:00:00Z"
completed_at: ""
current_step: "qa-run"
worktree: ""
""",
    "journal.yaml": """\
entries:
  - step_id: "qa-plan"
    status: "done"
    decision: "auto"
    started_at: "2026-02-19T10:00:00Z"
    completed_at: "2026-02-19T10:01:30Z"
    duration_seconds: 90
    trigger: ""
    human_response: ""
    error: ""
""",
}
"""A session of the original tools."""


@pytest.fixture
def waiting(project: Project) -> Project:
    """A session that waits at a gate."""
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    project.playbook("run", "gated", "--agent", project.script(WORKS))
    return project


def legacy(project: Project) -> None:
    for name, text in LEGACY.items():
        project.write(f".playbooks/sessions/20260219-a7k/{name}", text)


class TestStatus:
    def test_shows_waiting_sessions_of_all_worktrees_first(
        self, waiting: Project, tmp_path: Path
    ) -> None:
        """kai P2-2: from every worktree, with its path."""
        waiting.commit("So far")
        other = tmp_path / "other"
        waiting.git("worktree", "add", "-q", str(other), "-b", "014-other")
        beside = Project(other, waiting.home)
        beside.playbook("begin", "auto-validate", "013")
        (fresh,) = set(beside.sessions) - {other / ".playbooks/sessions" / waiting.session.name}

        for project in (waiting, beside):
            status = project.playbook("status")
            first, question, *context, how, second, further = status.out.splitlines()
            assert first.startswith(f"{waiting.session.name}  gated  {FEATURE}  WAITS FOR A HUMAN")
            assert "Run /feature.pr" in question
            assert any(line.startswith(f"    branch {FEATURE}") for line in context)
            assert how == f"  playbook answer {waiting.session.name} …"
            assert second.startswith(
                f"{fresh.name}  auto-validate  {FEATURE}  in_progress at qa-pl"
            )
            assert further == f"  playbook resume {fresh.name}"
        assert first.endswith(f"in ../{waiting.root.name}")
        shape = conforms("status", waiting.playbook("status", "--json").json)
        assert [each["root"] for each in shape["sessions"]] == [str(waiting.root), str(other)]

        shown = waiting.playbook("show", fresh.name)
        assert (shown.code, "qa-plan#1  in_progress" in shown.out) == (0, True)
        named = waiting.playbook("status", fresh.name, "--json").json["sessions"]
        assert [each["session"] for each in named] == [fresh.name]

    def test_a_gate_in_another_worktree_can_be_answered_from_here(
        self, waiting: Project, tmp_path: Path
    ) -> None:
        """A copy that came with git is not driven."""
        waiting.commit("So far")
        here = Project(tmp_path / "here", waiting.home)
        waiting.git("worktree", "add", "-q", str(here.root), "-b", "014-other")
        name = waiting.session.name
        lost = here.playbook("resume")
        assert lost.code == 3
        said = f"{name} (gated {FEATURE}, waits for an answer, branch {FEATURE})."
        assert f"Name one, as in `playbook resume {name}`: {said}" in lost.err
        waits = here.playbook("resume", name)
        paused = here.playbook("pause", name)
        how = f"playbook answer {name} continue (or skip or abort), then playbook resume {name}"
        how = f"answer: {how}"
        assert (waits.code, waits.err.splitlines()[-1]) == (4, how)
        assert (paused.code, paused.out.splitlines()[-1]) == (0, how)
        answered = here.playbook("answer", name, "continue")
        assert f"next: playbook resume {name} (" in answered.out
        assert paused.err == answered.err == "It lives in ../project.\n"
        ended = here.playbook("resume", name, "--json")
        assert (ended.code, conforms("run", ended.json)["ending"]) == (0, "completed")
        assert waiting.manifest()["status"] == "completed"
        assert here.manifest()["status"] == "in_progress"

    def test_hides_ended_sessions(self, waiting: Project) -> None:
        """cat FR-3.5."""
        waiting.playbook("answer", "continue")
        waiting.playbook("resume")
        plain = waiting.playbook("status")
        assert plain.out == ""
        assert plain.err == ("No session is open.\n1 ended: see `playbook status --all`.\n")
        everything = waiting.playbook("status", "--all")
        assert "completed after " in everything.out
        (shape,) = conforms("status", waiting.playbook("status", "--all", "--json").json)[
            "sessions"
        ]
        assert shape["completed_at"] > shape["started_at"]

    def test_shows_unreadable_sessions_too(self, waiting: Project) -> None:
        waiting.write(".playbooks/sessions/20260101-bad/session.yaml", "session_id: [\n")
        status = waiting.playbook("status")
        assert status.code == 0
        assert "20260101-bad  unreadable: " in status.out
        assert "WAITS FOR A HUMAN" in status.out
        conforms("status", waiting.playbook("status", "--json").json)
        assert waiting.playbook("show", "20260101-bad").code == 3
        repair = waiting.playbook("repair", "20260101-bad")
        assert (repair.code, "No copy is kept here" in repair.err) == (3, True)


class TestShow:
    def test_shows_the_whole_session(self, project: Project) -> None:
        """kai FR39; tyr 2; own L-3: conditions, evidence, human words."""
        project.gh("open")
        project.playbook("run", "auto-feature", "013", "--agent", project.script(WORKS))
        project.playbook("answer", "looks fine, continue")
        project.playbook("resume")
        shown = project.playbook("show")
        assert shown.code == 0
        for line in (
            f"  auto-feature  {FEATURE}  completed",
            f"with feature={FEATURE}",
            f"  plan_exists: specs/{FEATURE}/plan.md, 1 line",
            "  error: one test is red [PB-AGENT-FAILED]",
            "  agent: all tests are green",
            "  gate pr#1?1 gate_always, before the step: continue",
            ": 'looks fine, continue'",
        ):
            assert line in shown.out
        shape = conforms("show", project.playbook("show", "--json").json)
        assert [step["id"] for step in shape["steps"]][-1] == "pr#1"
        assert shape["not_begun"] == []

    def test_says_what_was_waived_recovered_and_not_begun(self, project: Project) -> None:
        project.playbook("begin", "auto-feature", "013")
        project.write(f"specs/{FEATURE}/plan.md", "# Plan\n")
        agent = project.script("default: {write: {made.py: '1'}}\n")
        project.playbook("resume", "--agent", agent)
        shown = project.playbook("show")
        assert "recovered: its artifacts showed that it was finished" in shown.out
        assert "not begun: agreement, implement" in shown.out

        project.playbook("abort")
        project.playbook("run", "auto-feature", "013", "--from", "agreement", "--agent", agent)
        project.playbook("answer", "accept")
        project.playbook("resume")
        assert "  waived: tasks_exists" in project.playbook("show").out

    def test_reads_sessions_of_the_original(self, project: Project) -> None:
        legacy(project)
        shown = project.playbook("show", "20260219-a7k")
        assert shown.code == 0
        assert "2026-02-19T10:00:00Z  qa-plan#1  done  1 min 30 s  (auto)" in shown.out
        shape = conforms("show", project.playbook("show", "20260219-a7k", "--json").json)
        assert "not_begun" not in shape
        text = LEGACY["journal.yaml"].replace('human_response: ""', 'human_response: "go on"')
        project.write(".playbooks/sessions/20260219-a7k/journal.yaml", text)
        assert "human: 'go on'" in project.playbook("show", "20260219-a7k").out
        project.write(f".qa/{FEATURE}/test-plan.md", "# Plan\n")
        ended = project.playbook("resume", "20260219-a7k", "--agent", project.script(WORKS))
        assert ended.code == 0

    def test_shows_the_readable_part_and_the_error(self, waiting: Project) -> None:
        (waiting.session / "journal.yaml").write_text("entries: [\n")
        shown = waiting.playbook("show")
        assert (shown.code, "WAITS FOR A HUMAN" in shown.out) == (3, True)
        assert "PB-STATE-CORRUPT" in shown.err
        conforms("error", waiting.playbook("show", "--json").json)

    def test_says_that_a_journal_is_missing(self, waiting: Project) -> None:
        """Without a copy: else it is restored."""
        name = waiting.session.name
        (waiting.session / "journal.yaml").unlink()
        (waiting.root / f".git/playbook/{name}/journal.yaml").unlink()
        shown = waiting.playbook("show")
        assert (shown.code, "WAITS FOR A HUMAN" in shown.out) == (3, True)
        assert f"session {name} has no journal.yaml" in shown.err

    def test_says_that_a_session_needs_a_newer_version(self, waiting: Project) -> None:
        """It is not damaged, so `repair` is not suggested."""
        file = waiting.session / "session.yaml"
        file.write_text(file.read_text().replace("schema: 1\n", "schema: 9\n", 1))
        for command in (
            ["show"],
            ["show", "--html", "-"],
            ["graph", "--session", file.parent.name],
        ):
            told = waiting.playbook(*command)
            assert (told.code, "[PB-STATE-NEWER]" in told.err) == (3, True), command
            assert "repair" not in told.out + told.err
        assert "upgrade this one" in waiting.playbook("status").out
        assert "repair" not in waiting.playbook("status").out

    def test_prints_no_hostile_characters(self, project: Project) -> None:
        legacy(project)
        evil = LEGACY["journal.yaml"].replace('error: ""', r'error: "\e[2J\u202ered"')
        project.write(".playbooks/sessions/20260219-a7k/journal.yaml", evil)
        shown = project.playbook("show", "20260219-a7k")
        assert "error: red" in shown.out
        assert "\x1b" not in shown.out


class TestRepair:
    """cat FR-7.6: foreign changes are shown, then accepted or undone."""

    def test_shows_the_difference_entry_by_entry(self, waiting: Project) -> None:
        assert waiting.playbook("repair").err.endswith("is unchanged\n")
        journal = waiting.session / "journal.yaml"
        before = journal.read_bytes()
        journal.write_text(
            journal.read_text().replace("reason: gate_always", "reason: verdict_fail")
        )
        for _ in range(2):
            shown = waiting.playbook("repair")
            assert shown.code == 3
            assert "journal.yaml: the entry publish#1 was changed\n  - gates: " in shown.out
            assert "  + gates: " in shown.out
            assert "--take" in shown.err
        assert waiting.playbook("next").code == 3

        restored = waiting.playbook("repair", "--restore")
        assert (restored.code, "is restored" in restored.err) == (0, True)
        assert journal.read_bytes() == before
        assert waiting.playbook("repair").code == 0
        assert waiting.playbook("answer", "continue").code == 0

    def test_accepts_the_files_as_they_are(self, waiting: Project) -> None:
        file = waiting.session / "session.yaml"
        text = file.read_text()
        file.write_text(text.replace(f"feature: {FEATURE}", "feature: 014-other"))
        shown = waiting.playbook("repair", "--take")
        assert (shown.code, "+ feature: 014-other" in shown.out) == (0, True)
        assert waiting.playbook("repair").code == 0
        assert waiting.manifest()["feature"] == "014-other"
        waiting.playbook("answer", "continue")
        assert waiting.playbook("resume").code == 0  # and it still knows its agent

    def test_detects_added_and_removed_entries(self, project: Project) -> None:
        project.playbook("run", "auto-validate", "013", "--agent", project.script(FAILS))
        journal = project.session / "journal.yaml"
        text = journal.read_text()
        added = text.partition("entries:\n")[2].replace("qa-plan", "qa-run")
        journal.write_text(text + added)
        shown = project.playbook("repair")
        assert "journal.yaml: the entry qa-run#1 was added" in shown.out
        journal.write_text("schema: 1\nentries: []\n")
        shown = project.playbook("repair")
        assert "journal.yaml: the entry qa-plan#1 was removed or moved" in shown.out
        journal.write_text(text.replace("qa-plan", "qa-run"))
        shown = project.playbook("repair")
        assert "qa-plan#1 was removed or moved" in shown.out
        assert "qa-run#1 was added" in shown.out
        assert project.playbook("repair", "--restore").code == 0
        assert journal.read_text() == text

    @pytest.mark.parametrize("name", ["journal.yaml", "playbook.yaml"])
    def test_restores_an_unreadable_or_missing_file(self, waiting: Project, name: str) -> None:
        file = waiting.session / name
        before = file.read_bytes()
        file.write_text("- [\n")
        shown = waiting.playbook("repair")
        assert (shown.code, f"{name}: it cannot be read" in shown.out) == (3, True)
        assert waiting.playbook("repair", "--take").code != 0
        assert waiting.playbook("repair", "--restore").code == 0
        assert file.read_bytes() == before
        file.unlink()
        shown = waiting.playbook("repair")
        assert (shown.code, f"{name}: it is missing" in shown.out) == (3, True)
        assert waiting.playbook("repair", "--restore").code == 0
        assert file.read_bytes() == before
        assert waiting.playbook("next").code == 0

    def test_detects_a_changed_playbook(self, waiting: Project) -> None:
        pinned = waiting.session / "playbook.yaml"
        pinned.write_text(pinned.read_text() + "# a note\n")
        assert waiting.playbook("repair").code == 0
        pinned.write_text(pinned.read_text().replace("gate_always", "auto"))
        shown = waiting.playbook("repair")
        assert (shown.code, "the pinned playbook was changed" in shown.out) == (3, True)
        assert waiting.playbook("repair", "--restore").code == 0
        assert waiting.playbook("next").code == 0

    def test_says_what_cannot_be_restored(self, project: Project) -> None:
        """An older copy and a changed entry: only git has the original."""
        agent = project.script(WORKS)
        project.playbook("run", "auto-validate", "013", "--agent", agent)
        (private,) = project.root.glob(".git/playbook/2*")
        journal = project.session / "journal.yaml"
        text = journal.read_text()
        (private / "journal.yaml").write_text("schema: 1\nentries: []\n")
        journal.write_text(text.replace("test-plan.md, 1 line", "test-plan.md, 9 lines"))
        shown = project.playbook("repair")
        assert "entries of settled steps were changed, and the copy is older" in shown.out
        refused = project.playbook("repair", "--restore")
        assert (refused.code, "Take the journal from git" in refused.err) == (3, True)
        assert project.playbook("repair", "--take").code == 0

    def test_writes_the_journal_again_if_its_copy_is_older(self, waiting: Project) -> None:
        (private,) = waiting.root.glob(".git/playbook/2*")
        journal = waiting.session / "journal.yaml"
        text = journal.read_text()
        (private / "journal.yaml").write_text("schema: 1\nentries: []\n")
        journal.write_text("nothing: here\n")
        assert waiting.playbook("repair", "--restore").code == 0
        assert journal.read_text() == text

    def test_take_and_restore_cannot_be_combined(self, waiting: Project) -> None:
        both = waiting.playbook("repair", "--take", "--restore")
        assert (both.code, "cannot be combined" in both.err) == (1, True)
