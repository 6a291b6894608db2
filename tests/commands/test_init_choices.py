"""`playbook init`: foreign supervisors, the commands that are missing, files that were deleted."""

from __future__ import annotations

import pytest
from cli.terminal import Terminal
from support.crash_points import some_writes
from support.installations import NOON, killed
from support.kai_workspace import RESUME, RUN, workspace
from support.scratch_project import COMMANDS, Project

from playbook_supervisor.commands import doctor
from playbook_supervisor.commands.doctor import Diagnosis
from playbook_supervisor.commands.install import init as install
from playbook_supervisor.commands.install import shipped
from playbook_supervisor.project.conditions.verdicts import read_report
from playbook_supervisor.project.install_record import FILE, fingerprint, read_installation
from playbook_supervisor.project.slash_commands import is_ours
from playbook_supervisor.system.disk import templates

pytestmark = pytest.mark.measured

FOREIGN = ".claude/commands/playbook.run.md"
ALSO = ".claude/commands/playbook.resume.md"
SPECKIT = [name for name in COMMANDS if name.startswith("speckit.")]
NOT_OURS = "/playbook.run and /playbook.resume are not ours, and would let a model supervise"


LEAVES = {
    "agreement.create": ".agreements/FEATURE/agreement.yaml",
    "agreement.check": ".agreements/FEATURE/check-report.md",
    "qa.plan": ".qa/FEATURE/test-plan.md",
    "qa.run": ".qa/FEATURE/verdict.md",
    "feature.pr": "gh pr create",
}
"""What each feature command says that it leaves behind."""


@pytest.fixture
def kai(project: Project) -> Project:
    return workspace(project)


@pytest.fixture
def newcomer(project: Project) -> Project:
    """A project that has nothing but spec-kit's commands."""
    project.git("rm", "-rq", ".playbooks")
    for name in set(COMMANDS) - set(SPECKIT):
        (project.root / f".claude/commands/{name}.md").unlink()
    return project


def commands(project: Project) -> Diagnosis:
    (found,) = [each for each in doctor.examine(project.root) if each.name == "commands"]
    return found


def ours(project: Project, path: str) -> bool:
    return project.read(path).encode() == shipped.files()[path]


class TestCommandsOfOurNamesThatAreNotOurs:
    """kai's own supervisor is a prompt: with it a model would judge and write the journal."""

    def test_are_kept_and_named_in_the_last_line(self, kai: Project) -> None:
        done = kai.playbook("init", "--yes")
        assert done.code == 0
        assert done.err.splitlines()[-1].startswith(NOT_OURS)
        assert "`playbook init --replace`" in done.err
        assert "inside Claude Code" not in done.err
        assert kai.read(FOREIGN) == RUN
        assert FOREIGN not in read_installation(kai.root).files

    def test_are_wrong_for_the_doctor_until_they_are_replaced(self, kai: Project) -> None:
        """own L-2."""
        found = commands(kai)
        assert (found.state, "/playbook.run, /playbook.resume" in found.found) == ("wrong", True)
        assert "--replace" in found.cure
        kai.playbook("init", "--yes", "--replace")
        assert commands(kai).state == "fine"

    def test_are_replaced_on_request_and_kept_beside(self, kai: Project) -> None:
        """own L-2."""
        done = kai.playbook("init", "--yes", "--replace")
        assert done.code == 0, done.err
        assert ours(kai, FOREIGN)
        assert ours(kai, ALSO)
        assert (kai.read(f"{FOREIGN}.old"), kai.read(f"{ALSO}.old")) == (RUN, RESUME)
        assert "not ours" not in done.err
        assert "or, inside Claude Code: /playbook.run auto-feature 013" in done.err
        assert {FOREIGN, ALSO} <= set(read_installation(kai.root).files)
        again = kai.playbook("init", "--yes", "--replace")
        assert {line.split()[0] for line in again.out.splitlines()} == {"keep"}

    def test_are_recognised_when_they_come_back(self, kai: Project) -> None:
        """kai's own update writes its prompt over ours, which the record still lists."""
        kai.playbook("init", "--yes", "--replace")
        kai.write(FOREIGN, RUN)
        assert commands(kai).found.endswith(": /playbook.run")
        done = kai.playbook("init", "--yes")
        assert done.err.splitlines()[-1].startswith(
            "/playbook.run is not ours, and would let a model supervise"
        )

    def test_are_recognised_as_skills_which_take_precedence(self, kai: Project) -> None:
        kai.playbook("init", "--yes", "--replace")
        skill = kai.write(".claude/skills/playbook.run/SKILL.md", RUN)
        assert commands(kai).state == "wrong"
        kai.playbook("init", "--yes", "--replace")
        assert commands(kai).state == "fine"
        assert not skill.exists()
        assert skill.with_name("SKILL.md.old").read_text() == RUN

    def test_that_supervise_nothing_are_named_without_alarm(self, newcomer: Project) -> None:
        newcomer.write(".claude/commands/playbook.list.md", "List our theatre's playbooks.\n")
        done = newcomer.playbook("init", "--yes")
        assert done.err.splitlines()[-1].startswith("/playbook.list is not ours. `playbook init")

    def test_are_not_ours_that_were_edited(self, newcomer: Project) -> None:
        newcomer.playbook("init", "--yes")
        newcomer.write(FOREIGN, newcomer.read(FOREIGN) + "\nSpeak French.\n")
        newcomer.write(".claude/commands/playbook.list.md", "List them all, in French.\n")
        assert commands(newcomer).state == "fine"
        (newcomer.root / FILE).unlink()
        assert "playbook.run" not in commands(newcomer).found
        newcomer.playbook("init", "--yes", "--replace")
        assert newcomer.read(FOREIGN).endswith("Speak French.\n")

    def test_are_never_lost_when_a_replacement_is_killed(self, kai: Project) -> None:
        kai.playbook("init", "--yes")
        kai.commit("Installed beside kai's")

        def replace() -> None:
            install.apply(install.plan(kai.root, choices=install.Choices(replace=True)), NOON)

        for write in some_writes(3):
            if not killed(replace, kai.root, at=write):
                break
            beside = kai.root / f"{FOREIGN}.old"
            assert RUN in (kai.read(FOREIGN), beside.read_text() if beside.exists() else "")
            assert kai.playbook("init", "--yes", "--replace").code == 0
            assert (ours(kai, FOREIGN), kai.read(f"{FOREIGN}.old")) == (True, RUN)
            assert (ours(kai, ALSO), kai.read(f"{ALSO}.old")) == (True, RESUME)
            assert commands(kai).state == "fine"
            kai.git("reset", "-q", "--hard")
            kai.git("clean", "-fdq")
        assert write > 5

    def test_are_asked_about_at_a_terminal(self, kai: Project) -> None:
        with Terminal(kai, "init") as terminal:
            terminal.until(f"{NOT_OURS}:")
            terminal.until(f"{FOREIGN}, {ALSO}")
            terminal.until("Replace them?")
            terminal.type("n\n")
            terminal.until("Write these files?")
            terminal.type("\n")
            assert terminal.end() == 0
        assert kai.read(FOREIGN) == RUN
        with Terminal(kai, "init") as terminal:
            terminal.until("Replace them?")
            terminal.type("y\n")
            terminal.until("Write these files?")
            terminal.type("y\n")
            assert terminal.end() == 0
        assert ours(kai, FOREIGN)

    def test_are_never_those_that_we_ship(self) -> None:
        for name in shipped.COMMANDS:
            assert is_ours((templates.folder() / f"commands/{name}.md").read_bytes())


class TestTheCommandsThatAreMissing:
    """auto-feature needs five commands that a project with spec-kit alone does not have."""

    def test_are_named_without_a_terminal(self, newcomer: Project) -> None:
        done = newcomer.playbook("init", "--yes")
        assert done.err.splitlines()[-1] == (
            "auto-feature, auto-hotfix, auto-intake and auto-validate lack /agreement.create, "
            "/agreement.check, /qa.plan, /qa.run and /feature.pr; `playbook init --commands` "
            "installs them"
        )
        assert "next: playbook run auto-speckit 013" in done.err
        assert newcomer.playbook("list").out.split()[0] == "auto-speckit"

    def test_are_installed_on_request_and_then_everything_fits(self, newcomer: Project) -> None:
        done = newcomer.playbook("init", "--yes", "--commands")
        assert done.code == 0, done.err
        assert "next: playbook run auto-feature 013" in done.err
        assert "lack" not in done.err
        for path in shipped.OPTIONAL - {shipped.playbook_file(shipped.CHANGE)}:
            is_for_another_agent = path.startswith((".agents", ".gemini", ".qwen"))
            assert (newcomer.root / path).exists() != is_for_another_agent
            assert is_for_another_agent or ours(newcomer, path)
            assert (path in read_installation(newcomer.root).files) != is_for_another_agent
        checked = newcomer.playbook("check", ".playbooks/playbooks/auto-feature.yaml")
        assert "is not found" not in checked.out

    def test_are_offered_at_a_terminal(self, newcomer: Project) -> None:
        with Terminal(newcomer, "init") as terminal:
            terminal.until("lack /agreement.create, /agreement.check")
            terminal.until("Install ours? [Y/n]")
            terminal.type("\n")
            terminal.until("Write these files?")
            terminal.type("\n")
            terminal.until("next: playbook run auto-feature 013")
            assert terminal.end() == 0

    def test_are_not_offered_where_they_complete_nothing(self, newcomer: Project) -> None:
        """In a project without spec-kit, our commands would fit a single playbook only."""
        for name in SPECKIT:
            (newcomer.root / f".claude/commands/{name}.md").unlink()
        newcomer.write("Makefile", "test:\n\ttrue\n")
        with Terminal(newcomer, "init") as terminal:
            terminal.until("trying `make test` in a clean room")
            terminal.type("\n")
            terminal.until("Write these files?")
            terminal.type("\n")
            terminal.until("first: commit and push the installed files")
            terminal.until('next: playbook run auto-change "WHAT TO CHANGE"')
            assert terminal.end() == 0
            assert "Install ours?" not in terminal.shown
        again = newcomer.playbook("init", "--yes", "--commands").err
        assert "first:" not in newcomer.playbook("init", "--yes").err
        assert "next: playbook run auto-change" in again

    def test_are_only_those_that_the_project_has_under_no_name(self, newcomer: Project) -> None:
        newcomer.write(".claude/skills/qa-plan/SKILL.md", "Plan it our way.\n")
        newcomer.write(".claude/commands/feature.pr.md", "Open it our way.\n")
        newcomer.playbook("init", "--yes", "--commands")
        assert not (newcomer.root / ".claude/commands/qa.plan.md").exists()
        assert newcomer.read(".claude/commands/feature.pr.md") == "Open it our way.\n"
        assert ours(newcomer, ".claude/commands/qa.run.md")
        assert "next: playbook run auto-feature 013" in newcomer.playbook("init", "--yes").err

    def test_are_updated_like_other_files_and_only_where_installed(self, newcomer: Project) -> None:
        newcomer.playbook("init", "--yes")
        assert newcomer.playbook("update", "--check").code == 0
        newcomer.playbook("init", "--yes", "--commands")
        path, new = ".claude/commands/qa.run.md", newcomer.read(".claude/commands/qa.run.md")
        record = newcomer.read(FILE)
        old = "Of an earlier version.\n"
        newcomer.write(path, old)
        newcomer.write(FILE, record.replace(fingerprint(new.encode()), fingerprint(old.encode())))
        assert newcomer.playbook("update").code == 0
        assert newcomer.read(path) == new
        newcomer.write(path, new + "Our way.\n")
        assert newcomer.playbook("update").code == 0
        assert newcomer.read(path).endswith("Our way.\n")

    def test_leave_another_projects_playbook_alone(self, newcomer: Project) -> None:
        """A playbook that does not fit is installed where a person asks for it."""
        path = ".playbooks/playbooks/auto-validate.yaml"
        done = newcomer.playbook("init", "--yes", "--restore", path)
        assert done.code == 0, done.err
        assert ours(newcomer, path)
        assert "auto-intake and auto-validate lack" in done.err
        assert newcomer.playbook("update", "--check").code == 0


class TestADeletedFile:
    def test_is_brought_back_by_name(self, newcomer: Project) -> None:
        newcomer.playbook("init", "--yes")
        (newcomer.root / FOREIGN).unlink()
        kept = newcomer.playbook("init", "--yes").out
        assert f"you deleted it; `playbook init --restore {FOREIGN}` brings it back" in kept
        assert commands(newcomer).cure == f"`playbook init --restore {FOREIGN}`"
        done = newcomer.playbook("init", "--yes", "--restore", FOREIGN)
        assert f"write  {FOREIGN}" in done.out
        assert ours(newcomer, FOREIGN)

    def test_is_brought_back_from_a_subfolder_and_with_others(self, newcomer: Project) -> None:
        newcomer.playbook("init", "--yes")
        gone = [ALSO, ".playbooks/templates/playbook.tpl.yaml"]
        for path in gone:
            (newcomer.root / path).unlink()
        done = newcomer.playbook(
            "init", "--yes", "--restore", "playbook.resume.md", "--restore", gone[1],
            cwd=newcomer.root / ".claude/commands",
        )  # fmt: skip
        assert done.code == 0, done.err
        assert all(ours(newcomer, path) for path in gone)

    @pytest.mark.parametrize("path", [".claude/settings.json", FILE])
    def test_is_brought_back_by_name_if_it_is_merged_or_generated(
        self, newcomer: Project, path: str
    ) -> None:
        newcomer.playbook("init", "--yes")
        (newcomer.root / path).unlink()
        done = newcomer.playbook("init", "--yes", "--restore", path)
        assert done.code == 0, done.err
        assert (newcomer.root / path).is_file()

    def test_is_not_what_to_type_next(self, newcomer: Project) -> None:
        newcomer.playbook("init", "--yes", "--commands")
        (newcomer.root / FOREIGN).unlink()
        (newcomer.root / ".playbooks/playbooks/auto-feature.yaml").unlink()
        said = newcomer.playbook("init", "--yes").err
        assert "next: playbook run auto-speckit 013" in said
        assert "inside Claude Code" not in said

    @pytest.mark.parametrize(
        ("path", "said"),
        [
            (FOREIGN, "is there, and only a deleted file can be restored"),
            ("qa.run", "did you mean .claude/commands/qa.run.md?"),
            ("../outside", "playbook installs no file"),
        ],
    )
    def test_is_one_that_we_ship_and_that_is_gone(
        self, newcomer: Project, path: str, said: str
    ) -> None:
        newcomer.playbook("init", "--yes")
        before = newcomer.git("status", "--porcelain")
        done = newcomer.playbook("init", "--yes", "--restore", path)
        assert (done.code, said in done.err) == (1, True), done.err
        assert newcomer.git("status", "--porcelain") == before


class TestTheFeatureCommands:
    """Each leaves exactly the file that a condition looks at."""

    @pytest.mark.parametrize("name", shipped.FEATURE_COMMANDS)
    def test_name_their_file_and_are_short(self, name: str) -> None:
        text = (templates.folder() / f"feature-commands/{name}.md").read_text()
        _, head, body = text.split("---\n", 2)
        assert LEAVES[name] in body
        assert "allowed-tools" not in head  # a worker's client would ask for permission
        assert "disable-model-invocation" not in head
        assert body.rstrip().endswith("Argument: $ARGUMENTS")
        assert len(body.split()) < 300

    @pytest.mark.parametrize("name", ["agreement.check", "qa.run"])
    def test_state_a_verdict_that_is_read(self, name: str) -> None:
        text = (templates.folder() / f"feature-commands/{name}.md").read_text()
        report = text.split("```yaml\n")[1].split("```")[0]
        assert read_report(report, yaml=False).verdict == "PASS"
        assert read_report(report, yaml=False).breaking == ""
        assert read_report(text, yaml=False).verdict == ""

    def test_are_shipped_each(self) -> None:
        folder = templates.folder() / "feature-commands"
        assert {file.stem for file in folder.iterdir()} == set(shipped.FEATURE_COMMANDS)
