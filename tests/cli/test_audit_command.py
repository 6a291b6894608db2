"""`audit`: the sessions that it reads, what git adds, and the output."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.scratch_project import FEATURE, Project

from cli.scripts import WORKS, conforms
from playbook_supervisor.audit.examination import AuditReport
from playbook_supervisor.commands.views.session_files import audit as audit_sessions

JOURNALS = Path(__file__).parents[1] / "journals"
OURS, OPEN, KAI = "20260219-a7k", "20260220-b3m", "20260219-k1a"


def given(project: Project, twin: str, session_id: str, *, pinned: bool = True) -> Path:
    """A session of the collection, copied into the project."""
    folder = project.root / ".playbooks/sessions" / session_id
    shutil.copytree(JOURNALS / twin, folder)
    if not pinned:
        playbook = (folder / "playbook.yaml").read_text("utf-8")
        (folder / "playbook.yaml").unlink()
        project.write(".playbooks/playbooks/sample.yaml", playbook)
    return folder


def spoil(folder: Path, name: str = "journal.yaml", old: str = "59.5", new: str = "60") -> None:
    text = (folder / name).read_text("utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1), "utf-8")


def audit(project: Project, *names: str, every: bool = False) -> tuple[AuditReport, ...]:
    return audit_sessions(names, every=every, cwd=project.root)


def codes(audited: tuple[AuditReport, ...]) -> set[str]:
    return {problem.code for each in audited for file in each.files for problem in file.problems}


@pytest.fixture
def session(project: Project) -> Path:
    return given(project, "ours", OURS)


class TestTelling:
    def test_a_session_that_the_program_ran_is_fine(self, project: Project) -> None:
        agent = project.script(WORKS)
        project.write(f".agreements/{FEATURE}/check-report.md", "verdict: PASS\n")
        ran = project.playbook("run", "auto-validate", "013", "--agent", agent)
        assert ran.code == 0, ran.err
        project.commit("Validate")
        done = project.playbook("audit")
        assert (done.code, done.out, done.err) == (0, "", "1 session: fine\n")

    def test_findings_have_a_place_guidance_and_a_rule(
        self, project: Project, session: Path
    ) -> None:
        spoil(session)
        done = project.playbook("audit", OURS, cwd=project.root / "specs")
        file = f"../.playbooks/sessions/{OURS}/journal.yaml"
        assert done.code == 1
        assert done.out == (
            f"{file}:8:23: error: plan#1 took 59.5 s by its times, but states 60 s. "
            "Do not rely on its times. [AUD-DURATION]\n"
        )
        assert done.err == "1 session: 1 finding\n"

    def test_json_is_one_object(self, project: Project, session: Path) -> None:
        spoil(session)
        lone = project.write("lone.yaml", "entries: []\n")
        done = project.playbook("audit", OURS, lone.name, "--json")
        assert (done.code, done.err) == (1, "")
        first, second = conforms("audit", done.json)["sessions"]
        assert (first["session"], first["ok"], len(first["findings"])) == (OURS, False, 1)
        assert "session" not in second
        assert second["ok"]
        assert second["notes"]

    def test_what_cannot_be_audited_is_refused(self, project: Project, tmp_path: Path) -> None:
        for arguments, code in (((OURS,), 3), (("nowhere",), 3), (("--all", OURS), 1)):
            assert project.playbook("audit", *arguments).code == code
        outside = project.playbook("audit", cwd=tmp_path)
        assert (outside.code, "PB-STATE-NO-REPOSITORY" in outside.err) == (3, True)


class TestWhich:
    def test_all_means_the_sessions_of_every_worktree(
        self, project: Project, session: Path
    ) -> None:
        project.commit("Run")
        project.git("worktree", "add", "-q", "../second", "-b", "014-new-thing")
        other = Project(project.root.parent / "second", project.home)
        given(other, "ours-open", OPEN)
        spoil(given(other, "kai", KAI), old="870", new="900")
        audited = audit(project, every=True)
        assert [(each.name, each.ok) for each in audited] == [
            (OURS, True),
            (KAI, False),
            (OPEN, True),
        ]
        assert audited[1].files[0].file == f"../second/.playbooks/sessions/{KAI}/journal.yaml"

    def test_a_folder_or_a_journal_may_be_anywhere(
        self, project: Project, session: Path, tmp_path: Path
    ) -> None:
        elsewhere = tmp_path / OURS
        shutil.move(session, elsewhere)
        spoil(elsewhere, "session.yaml", "playbook: sample", "playbook: other")
        for name in (elsewhere, elsewhere / "journal.yaml"):
            (audited,) = audit_sessions([str(name)], cwd=tmp_path)
            assert codes((audited,)) == {"AUD-PLAYBOOK"}
            assert audited.name == OURS
        (elsewhere / "session.yaml").unlink()
        (alone,) = audit_sessions([f"{OURS}/journal.yaml"], cwd=tmp_path / ".")
        assert (alone.name, alone.ok) == ("", True)
        (folder,) = audit_sessions([str(elsewhere)], cwd=tmp_path)
        assert [(file.file, file.ok) for file in folder.files] == [
            (str(elsewhere / "journal.yaml"), True),
            (str(elsewhere / "session.yaml"), False),
            (str(elsewhere / "policy.yaml"), True),
        ]

    def test_a_session_that_vanished_or_leads_elsewhere_is_a_finding(
        self, project: Project, session: Path, tmp_path: Path
    ) -> None:
        """A link could lead to a private file, which findings would quote."""
        project.playbook("begin", "auto-validate", "013")
        (begun,) = {path.name for path in project.sessions} - {OURS}
        shutil.rmtree(project.root / ".playbooks/sessions" / begun)
        shutil.move(session / "journal.yaml", tmp_path / "secret")
        (session / "journal.yaml").symlink_to(tmp_path / "secret")
        linked = given(project, "kai", KAI)
        shutil.move(linked, tmp_path / "kai")
        linked.symlink_to(tmp_path / "kai")
        pipe = given(project, "ours-open", OPEN) / "journal.yaml"
        pipe.unlink()
        os.mkfifo(pipe)
        said = {each.name: each.files[0].problems[0].message for each in audit(project, every=True)}
        assert said[begun] == "there is no such file"
        assert said[OURS] == "it is a symbolic link"
        assert "leads outside" in said[KAI]
        assert said[OPEN].endswith("is not a regular file")

    def test_a_session_without_its_worktree_can_be_restored(self, project: Project) -> None:
        """Git has only what was committed; the program has everything."""
        project.git("worktree", "add", "-q", "../second", "-b", "014-new-thing")
        other = Project(project.root.parent / "second", project.home)
        assert other.playbook("begin", "auto-validate", "014").code == 0
        (begun,) = {path.name for path in other.sessions}
        shutil.rmtree(other.root)
        for audited in (audit(project, every=True), audit(project, begun)):
            ((file,),) = [each.files for each in audited]
            (problem,) = file.problems
            assert file.file == f"../second/.playbooks/sessions/{begun}/journal.yaml"
            assert problem.code == "AUD-READ"
            assert problem.message == f"the worktree of session {begun} is gone"
            assert f"`playbook repair {begun} --restore`" in problem.guidance
        assert project.playbook("repair", begun, "--restore").code == 0
        assert audit(project, begun)[0].ok


class TestWhatGitAdds:
    def test_times_after_their_commit_are_found(self, project: Project, session: Path) -> None:
        for name in ("GIT_COMMITTER_DATE", "GIT_AUTHOR_DATE"):
            project.env[name] = "2026-02-19T10:10:30Z"
        project.commit("Too early")
        assert codes(audit(project, OURS)) == {"AUD-COMMITTED"}

    def test_a_branch_that_was_merged_has_no_open_session(self, project: Project) -> None:
        given(project, "ours-open", OPEN)
        project.commit("Under way")
        assert audit(project, OPEN)[0].ok
        main = project.git("for-each-ref", "--format=%(refname:short)", "refs/heads/ma*")
        project.git("switch", "-q", main)
        project.git("merge", "-q", FEATURE)
        assert codes(audit(project, OPEN)) == {"AUD-MERGED"}

    def test_sessions_of_other_tools_are_audited_with_the_playbook_of_that_time(
        self, project: Project
    ) -> None:
        """They store no copy of the playbook, and the project's may have changed."""
        session = given(project, "kai", KAI, pinned=False)
        spoil(session, old='decision: "gate"', new='decision: "auto"')
        spoil(session, old='    human_response: "create it"\n', new="")
        playbook = ".playbooks/playbooks/sample.yaml"
        assert codes(audit(project, KAI)) == {"AUD-GATE-MISSING"}
        for name in ("GIT_COMMITTER_DATE", "GIT_AUTHOR_DATE"):
            project.env[name] = "2026-02-19T09:00:00Z"
        project.git("add", playbook)
        project.git("commit", "-q", "-m", "Plan", "--", playbook)
        project.write(playbook, project.read(playbook).replace("gate_always", "auto"))
        assert codes(audit(project, KAI)) == {"AUD-GATE-MISSING"}
        spoil(session, "session.yaml", '"sample"', '"../../README"')
        (audited,) = audit(project, KAI)
        assert audited.ok
        assert audited.notes


def test_equal_findings_are_one_with_their_number(project: Project) -> None:
    folder = given(project, "kai", KAI)
    (folder / "journal.yaml").write_text("entries:\n" + "  - nonsense\n" * 11)
    shown = project.playbook("audit", KAI)
    (line,) = [each for each in shown.out.splitlines() if "a mapping of keys" in each]
    assert "journal.yaml:2:5: error: a mapping of keys to values is expected (11 times" in line
    github = project.playbook("audit", KAI, "--format", "github")
    assert github.out.count("a mapping of keys") == 1
    (told,) = conforms("audit", project.playbook("audit", KAI, "--format", "json").json)["sessions"]
    counts = [each["count"] for each in told["findings"] if "a mapping of keys" in each["message"]]
    assert counts == [11]
