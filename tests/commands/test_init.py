"""`playbook init`: refuse first, then plan, then apply."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from pytest_mock import MockerFixture
from support.crash_points import ended, some_writes
from support.installations import NOON, forked, killed, said, state
from support.scratch_project import COMMANDS, Project

from playbook_supervisor import __version__
from playbook_supervisor.commands.install import init as install
from playbook_supervisor.commands.install import shipped
from playbook_supervisor.commands.install.changes import InstallPlan
from playbook_supervisor.drivers.claude_code.marker import SCRIPT
from playbook_supervisor.drivers.claude_code.settings import lacking
from playbook_supervisor.errors import CheckError, PlaybookError, StateError, StorageError
from playbook_supervisor.project.install_record import FILE, read_installation
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.schema import read_playbook, schema_text
from playbook_supervisor.system.disk import templates
from playbook_supervisor.system.disk.files import digest, remove

MADE = [".playbooks/_index.yaml", ".playbooks/install.yaml"]
SHIPPED = [
    ".claude/commands/playbook.abort.md",
    ".claude/commands/playbook.create.md",
    ".claude/commands/playbook.goal.md",
    ".claude/commands/playbook.list.md",
    ".claude/commands/playbook.pause.md",
    ".claude/commands/playbook.resume.md",
    ".claude/commands/playbook.run.md",
    ".claude/commands/playbook.status.md",
    ".claude/hooks/playbook.sh",
    ".playbooks/README.md",
    ".playbooks/playbook.schema.json",
    ".playbooks/playbooks/auto-feature.yaml",
    ".playbooks/playbooks/auto-hotfix.yaml",
    ".playbooks/playbooks/auto-intake.yaml",
    ".playbooks/playbooks/auto-speckit.yaml",
    ".playbooks/playbooks/auto-validate.yaml",
    ".playbooks/templates/playbook.tpl.yaml",
]
FILES = sorted([*MADE, *SHIPPED])
SETTINGS = ".claude/settings.json"


@pytest.fixture
def fresh(project: Project) -> Project:
    """A project without playbooks."""
    project.git("rm", "-rq", ".playbooks")
    project.git("commit", "-qm", "Without playbooks")
    return project


def init(project: Project, now_ms: int = NOON) -> InstallPlan:
    plan = install.plan(project.root, shared=False)
    install.apply(plan, now_ms)
    return plan


def written(project: Project) -> list[str]:
    return sorted(
        path
        for path in state(project)
        if path.startswith((".playbooks/", ".claude/commands/playbook.", ".claude/hooks/"))
    )


def undo(project: Project) -> None:
    for path in (".playbooks", *SHIPPED):
        remove(project.root / path)


class TestAFirstInstallation:
    """kai FR42: init scaffolds `.playbooks/` with index, examples and template."""

    def test_writes_playbooks_template_schema_index_and_a_record(self, fresh: Project) -> None:
        """kai NFR11."""
        before = state(fresh)
        plan = init(fresh)
        assert sorted(plan.paths("write")) == FILES
        assert sorted(state(fresh).keys() - before.keys()) == FILES
        assert {path: state(fresh)[path] for path in before} == before

    def test_what_is_written_is_what_is_shipped(self, fresh: Project) -> None:
        init(fresh)
        shipped = templates.folder()
        for name in ("auto-feature", "auto-validate", "auto-speckit"):
            file = fresh.root / f".playbooks/playbooks/{name}.yaml"
            assert file.read_bytes() == (shipped / f"playbooks/{name}.yaml").read_bytes()
            assert read_playbook(file.read_bytes(), file.name).name == name
        assert fresh.read(".playbooks/templates/playbook.tpl.yaml") == (
            (shipped / "playbook.tpl.yaml").read_text()
        )
        assert fresh.read(".playbooks/playbook.schema.json") == schema_text("playbook")

    def test_editors_find_the_schema_from_every_playbook(self, fresh: Project) -> None:
        init(fresh)
        for folder in ("playbooks", "templates"):
            for file in (fresh.root / ".playbooks" / folder).iterdir():
                relative = file.read_text().splitlines()[0].partition("$schema=")[2]
                assert (file.parent / relative).resolve() == (
                    fresh.root / ".playbooks/playbook.schema.json"
                )

    def test_the_record_holds_version_and_digests(self, fresh: Project) -> None:
        init(fresh)
        record = yaml.safe_load(fresh.read(".playbooks/install.yaml"))
        assert record["schema"] == 1
        assert record["version"] == __version__
        assert list(record["files"]) == SHIPPED
        for path, recorded in record["files"].items():
            assert recorded == f"sha256:{digest((fresh.root / path).read_bytes())}"

    def test_it_writes_at_the_top_level_from_any_subfolder(self, fresh: Project) -> None:
        plan = install.plan(fresh.root / "specs", shared=False)
        assert plan.root == fresh.root
        install.apply(plan, NOON)
        assert written(fresh) == FILES

    def test_it_works_in_a_linked_worktree(self, fresh: Project) -> None:
        fresh.git("worktree", "add", "-q", "../linked")
        linked = Project(fresh.root.parent / "linked", fresh.home)
        init(linked)
        assert written(linked) == FILES
        assert written(fresh) == []


class TestASecondInstallation:
    def test_writes_nothing(self, fresh: Project) -> None:
        init(fresh)
        before = state(fresh)
        plan = init(fresh, NOON + 86_400_000)
        assert {each.verb for each in plan.actions} == {"keep"}
        assert state(fresh) == before

    def test_does_not_restore_deleted_files(self, fresh: Project) -> None:
        init(fresh)
        gone = ".playbooks/playbooks/auto-speckit.yaml"
        (fresh.root / gone).unlink()
        plan = init(fresh)
        verb, why = said(plan, gone)
        assert (verb, why.partition(";")[0]) == ("keep", "you deleted it")
        assert plan.paths("write") == (".playbooks/_index.yaml",)
        assert gone not in written(fresh)
        assert library.index_is_stale(fresh.root) == ""

    def test_restores_a_deleted_file_whose_record_line_is_removed(self, fresh: Project) -> None:
        init(fresh)
        gone = ".playbooks/playbooks/auto-speckit.yaml"
        (fresh.root / gone).unlink()
        record = fresh.read(".playbooks/install.yaml").splitlines(keepends=True)
        fresh.write(".playbooks/install.yaml", "".join(line for line in record if gone not in line))
        init(fresh)
        assert written(fresh) == FILES
        assert fresh.read(".playbooks/install.yaml").splitlines(keepends=True) == record

    def test_keeps_what_was_edited_and_what_it_once_wrote(self, fresh: Project) -> None:
        init(fresh)
        path = ".playbooks/playbooks/auto-feature.yaml"
        record = read_installation(fresh.root)
        fresh.write(path, fresh.read(path) + "# ours\n")
        plan = init(fresh)
        assert said(plan, path) == ("keep", "your version is kept")
        assert fresh.read(path).endswith("# ours\n")
        assert read_installation(fresh.root) == record

    def test_leaves_what_an_earlier_version_wrote(self, fresh: Project) -> None:
        init(fresh)
        path = ".playbooks/playbook.schema.json"
        old = '{"of": "an earlier version"}\n'
        now = digest((fresh.root / path).read_bytes())
        fresh.write(path, old)
        record = fresh.read(".playbooks/install.yaml").replace(now, digest(old.encode()))
        fresh.write(".playbooks/install.yaml", record)
        plan = init(fresh)
        assert said(plan, path) == (
            "keep",
            "installed by an earlier version; see `playbook update`",
        )
        assert fresh.read(path) == old
        assert fresh.read(".playbooks/install.yaml") == record

    def test_brings_the_index_up_to_date(self, fresh: Project) -> None:
        init(fresh)
        mine = fresh.read(".playbooks/playbooks/auto-validate.yaml")
        fresh.write(".playbooks/playbooks/mine.yaml", mine.replace("auto-validate", "mine"))
        plan = init(fresh)
        assert said(plan, ".playbooks/_index.yaml") == ("write", "regenerated")
        assert "mine" in fresh.read(".playbooks/_index.yaml")
        assert init(fresh).paths("write") == ()


class TestWhatIsThereAlready:
    def test_foreign_files_with_our_names_are_kept_and_reported(self, fresh: Project) -> None:
        path = ".playbooks/playbooks/auto-feature.yaml"
        fresh.write(path, "name: theirs\n")
        plan = init(fresh)
        assert said(plan, path) == ("keep", "your version is kept")
        assert fresh.read(path) == "name: theirs\n"
        assert path not in read_installation(fresh.root).files
        assert written(fresh) == FILES

    def test_a_project_with_only_foreign_files_needs_one_run(self, fresh: Project) -> None:
        for path in SHIPPED:
            fresh.write(path, "theirs\n")
        init(fresh)
        assert list(read_installation(fresh.root).files) == [SCRIPT]
        assert init(fresh).paths("write") == ()

    def test_files_that_equal_ours_are_recorded(self, project: Project) -> None:
        path = ".playbooks/playbooks/auto-validate.yaml"
        before = state(project)[path]
        plan = init(project)
        assert said(plan, path) == ("keep", "up to date")
        assert state(project)[path] == before
        assert path in read_installation(project.root).files

    def test_a_file_that_appears_after_the_plan_is_not_overwritten(self, fresh: Project) -> None:
        plan = install.plan(fresh.root, shared=False)
        path = ".playbooks/templates/playbook.tpl.yaml"
        fresh.write(path, "theirs\n")
        install.apply(plan, NOON)
        assert fresh.read(path) == "theirs\n"
        assert path not in read_installation(fresh.root).files

    def test_an_empty_project_folder_of_ours_is_filled(self, fresh: Project) -> None:
        (fresh.root / ".playbooks/playbooks").mkdir(parents=True)
        init(fresh)
        assert written(fresh) == FILES


class TestARefusal:
    def test_outside_a_repository(self, tmp_path: Path) -> None:
        with pytest.raises(StateError) as caught:
            install.plan(tmp_path, shared=False)
        assert caught.value.code == "PB-STATE-NO-REPOSITORY"

    def test_in_a_bare_repository(self, tmp_path: Path, home: Path) -> None:
        project = Project(tmp_path, home)
        project.git("init", "-q", "--bare", "bare.git")
        with pytest.raises(StateError, match="nothing is checked out"):
            install.plan(tmp_path / "bare.git", shared=False)

    @pytest.mark.parametrize("target", [None, "nowhere"])
    def test_where_our_folder_is_not_a_folder(self, fresh: Project, target: str | None) -> None:
        if target is None:
            fresh.write(".playbooks", "a file\n")
        else:
            (fresh.root / ".playbooks").symlink_to(target)
        with pytest.raises(StorageError, match=r"\.playbooks is not a folder") as caught:
            install.plan(fresh.root, shared=False)
        assert caught.value.guidance == "Move .playbooks away, then repeat."

    @pytest.mark.parametrize("link", [".playbooks", ".playbooks/playbooks"])
    def test_where_a_link_leads_out(self, fresh: Project, tmp_path: Path, link: str) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (fresh.root / link).parent.mkdir(exist_ok=True)
        (fresh.root / link).symlink_to(outside)
        with pytest.raises(StorageError) as caught:
            install.plan(fresh.root, shared=False)
        assert caught.value.code == "PB-IO-ESCAPE"
        assert list(outside.iterdir()) == []

    @pytest.mark.parametrize(
        "folder", [".playbooks/templates/playbook.tpl.yaml", ".playbooks/_index.yaml"]
    )
    def test_where_a_folder_has_a_files_name(self, fresh: Project, folder: str) -> None:
        (fresh.root / folder).mkdir(parents=True)
        plan = install.plan(fresh.root, shared=False)
        assert said(plan, folder) == ("conflict", "it exists and is not a regular file")
        with pytest.raises(StorageError) as caught:
            install.apply(plan, NOON)
        assert caught.value.message == (
            f"{folder} cannot be written: it exists and is not a regular file"
        )
        assert written(fresh) == []

    def test_where_a_file_has_a_folders_name(self, fresh: Project) -> None:
        fresh.write(".playbooks/playbooks", "a file\n")
        plan = install.plan(fresh.root, shared=False)
        assert plan.paths("conflict") == tuple(
            f".playbooks/playbooks/{name}.yaml"
            for name in shipped.PLAYBOOKS
            if name != shipped.CHANGE
        )
        with pytest.raises(StorageError, match=r"not a folder \(and 4 more\)") as caught:
            install.apply(plan, NOON)
        assert len(caught.value.details) == 5
        assert written(fresh) == [".playbooks/playbooks"]

    @pytest.mark.parametrize(
        ("text", "message", "where"),
        [
            ("a: [", "this bracket is not closed", "install.yaml:"),
            ("", "schema: is missing", "install.yaml:1:1"),
            ("version: 1.0\n", "schema: is missing", "install.yaml:1:1"),
            ("schema: 1\nfiles: [a]\n", "files: must be a mapping", "install.yaml:2:8"),
        ],
    )
    def test_where_the_record_cannot_be_read(
        self, fresh: Project, text: str, message: str, where: str
    ) -> None:
        fresh.write(".playbooks/install.yaml", text)
        with pytest.raises(CheckError) as caught:
            install.plan(fresh.root, shared=False)
        assert caught.value.message.startswith(message)
        assert caught.value.where.startswith(f".playbooks/{where}")

    def test_where_the_record_is_no_file(self, fresh: Project) -> None:
        (fresh.root / ".playbooks/install.yaml").mkdir(parents=True)
        with pytest.raises(StorageError) as caught:
            install.plan(fresh.root, shared=False)
        assert caught.value.code == "PB-IO-READ"


class TestTheSettingsOfTheClient:
    """`test_settings.py` has what is merged."""

    THEIRS = '{"model": "opus"}\n'

    def init(self, project: Project, *, no_hooks: bool | None = None) -> InstallPlan:
        plan = install.plan(project.root, choices=install.Choices(no_hooks=no_hooks))
        install.apply(plan, NOON)
        return plan

    def test_are_merged_into_once(self, fresh: Project) -> None:
        plan = install.plan(fresh.root)
        fresh.write(SETTINGS, self.THEIRS).chmod(0o640)
        install.apply(plan, NOON)
        assert lacking((fresh.root / SETTINGS).read_bytes()) == ()
        assert json.loads(fresh.read(SETTINGS))["model"] == "opus"
        assert (fresh.root / SETTINGS).stat().st_mode & 0o777 == 0o640
        before = state(fresh)
        assert said(self.init(fresh), SETTINGS) == ("keep", "up to date")
        assert state(fresh) == before

    def test_are_followed_where_they_are_a_link_within_the_repository(self, fresh: Project) -> None:
        file = fresh.write("elsewhere/file", self.THEIRS)
        (fresh.root / SETTINGS).symlink_to("../elsewhere/file")
        assert said(self.init(fresh), SETTINGS)[0] == "merge"
        assert lacking(file.read_bytes()) == ()
        assert (fresh.root / SETTINGS).is_symlink()

    def test_are_refused_where_they_are_a_link_that_leads_out(
        self, fresh: Project, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.write_text(self.THEIRS)
        (fresh.root / SETTINGS).symlink_to(outside)
        with pytest.raises(StorageError) as caught:
            self.init(fresh)
        assert caught.value.code == "PB-IO-ESCAPE"
        assert outside.read_text() == self.THEIRS
        assert written(fresh) == []

    def test_no_hooks_leaves_them_alone_and_is_remembered(self, fresh: Project) -> None:
        plan = self.init(fresh, no_hooks=True)
        assert said(plan, SETTINGS) == ("keep", "left alone (--no-hooks)")
        assert yaml.safe_load(fresh.read(".playbooks/install.yaml"))["no_hooks"] is True
        assert self.init(fresh).paths("write") == ()
        assert not (fresh.root / SETTINGS).exists()
        assert not (fresh.root / SCRIPT).exists()
        again = self.init(fresh, no_hooks=False)
        assert again.paths("write") == (SCRIPT, SETTINGS, ".playbooks/install.yaml")
        assert "no_hooks" not in fresh.read(".playbooks/install.yaml")


class TestTheScriptOfTheHooks:
    """Supervision rests on it, so it is always ours."""

    def test_is_written_again_if_it_was_deleted(self, fresh: Project) -> None:
        init(fresh)
        script = fresh.read(SCRIPT)
        (fresh.root / SCRIPT).unlink()
        assert said(init(fresh), SCRIPT) == ("write", "written again: the hooks need it")
        assert fresh.read(SCRIPT) == script

    def test_is_replaced_if_it_was_changed_and_the_change_is_kept(self, fresh: Project) -> None:
        init(fresh)
        script = fresh.read(SCRIPT)
        fresh.write(SCRIPT, "exit 0\n")
        assert "sessions need ours" in said(init(fresh), SCRIPT)[1]
        assert (fresh.read(SCRIPT), fresh.read(f"{SCRIPT}.old")) == (script, "exit 0\n")
        assert init(fresh).changes == ()

    def test_is_refused_where_something_else_has_its_name(self, fresh: Project) -> None:
        (fresh.root / SCRIPT).mkdir(parents=True)
        with pytest.raises(StorageError):
            init(fresh)
        assert written(fresh) == []


class TestWithOurPlugin:
    ON, OFF = (
        '{"enabledPlugins": {"playbook@any": true}}',
        '{"enabledPlugins": {"playbook@any": false}}',
    )

    @pytest.mark.parametrize(
        ("users", "own", "plugin"),
        [(ON, "", True), (ON, OFF, False)],
    )
    def test_no_hooks_are_written_where_the_settings_enable_it(
        self, fresh: Project, users: str, own: str, *, plugin: bool
    ) -> None:
        file = fresh.home / SETTINGS
        file.parent.mkdir(parents=True)
        file.write_text(users)
        if own:
            fresh.write(".claude/settings.local.json", own)
        assert fresh.playbook("init", "--yes").code == 0
        assert "permissions" in json.loads(fresh.read(SETTINGS))
        assert ("hooks" in json.loads(fresh.read(SETTINGS))) is not plugin
        assert (fresh.root / SCRIPT).exists() is not plugin
        assert "no_hooks" not in fresh.read(FILE)
        assert fresh.playbook("init", "--yes", "--hooks").code == 0
        assert (fresh.root / SCRIPT).exists()
        assert fresh.playbook("update", "--check").code == 0


class TestAnInterruption:
    def test_a_killed_installation_can_be_repeated(self, fresh: Project) -> None:
        init(fresh)
        whole = {path: fresh.read(path) for path in FILES}
        undo(fresh)
        for write in some_writes(4):
            if not killed(lambda: init(fresh), fresh.root, at=write):
                break
            there = [path for path in FILES if (fresh.root / path).exists()]
            assert {path: fresh.read(path) for path in there} == {
                path: whole[path] for path in there
            }
            init(fresh)
            assert {path: fresh.read(path) for path in written(fresh)} == whole
            undo(fresh)
        assert write > 2 * len(FILES)
        assert {path: fresh.read(path) for path in written(fresh)} == whole

    def test_after_a_full_disk_it_can_be_repeated(
        self, fresh: Project, mocker: MockerFixture
    ) -> None:
        plan = install.plan(fresh.root, shared=False)
        full = mocker.patch("os.write", side_effect=OSError(28, "No space left on device"))
        with pytest.raises(StorageError, match="No space left on device") as caught:
            install.apply(plan, NOON)
        assert caught.value.code == "PB-IO-WRITE"
        mocker.stop(full)
        assert written(fresh) == []
        init(fresh)
        assert written(fresh) == FILES

    def test_several_at_the_same_time_have_the_result_of_one(self, fresh: Project) -> None:
        several = [forked(lambda: init(fresh), fresh.root) for _ in range(4)]
        assert [ended(each) for each in several] == [0] * 4
        assert written(fresh) == FILES
        assert init(fresh).paths("write") == ()


class TestWhatFits:
    """The playbooks whose commands are there are installed, so that the first command works."""

    def only(self, project: Project, *commands: str) -> tuple[str, ...]:
        for command in COMMANDS:
            if command not in commands:
                (project.root / f".claude/commands/{command}.md").unlink()
        return self.installed(project)

    def installed(self, project: Project) -> tuple[str, ...]:
        plan = install.plan(project.root, shared=False)
        playbooks = [path for path in plan.paths("write") if path.startswith(library.FOLDER)]
        assert playbooks == [shipped.playbook_file(name) for name in install.look(plan).fitting]
        return tuple(Path(path).stem for path in playbooks)

    def feature(self, project: Project) -> str:
        return install.look(install.plan(project.root, shared=False)).feature

    def test_is_everything_where_every_command_is_installed(self, fresh: Project) -> None:
        everything = ("feature", "speckit", "hotfix", "intake", "validate")
        assert self.only(fresh, *COMMANDS) == tuple(f"auto-{name}" for name in everything)

    def test_is_what_spec_kit_alone_can_do(self, fresh: Project) -> None:
        speckit = [command for command in COMMANDS if command.startswith("speckit.")]
        assert self.only(fresh, *speckit) == ("auto-speckit",)

    def test_is_the_validation_where_there_is_only_qa(self, fresh: Project) -> None:
        assert self.only(fresh, "qa.plan", "qa.run") == ("auto-validate",)

    def test_is_nothing_where_something_is_missing_everywhere(self, fresh: Project) -> None:
        assert self.only(fresh, "speckit.plan") == ()

    def test_does_not_count_a_command_that_is_closed_to_models(self, fresh: Project) -> None:
        fresh.write(
            ".claude/commands/feature.pr.md", "---\ndisable-model-invocation: true\n---\nOpen it.\n"
        )
        assert "auto-feature" not in self.installed(fresh)

    def test_finds_commands_under_their_newer_spelling(self, fresh: Project) -> None:
        folder = fresh.root / ".claude/commands"
        for file in folder.glob("speckit.*.md"):
            file.rename(folder / file.name.replace("speckit.", "speckit-"))
        assert "auto-feature" in self.installed(fresh)

    def test_is_the_branchs_feature(self, project: Project) -> None:
        project.write("specs/014-later/spec.md", "# Later\n")
        assert self.feature(project) == "013"
        project.git("switch", "-q", "main")
        assert self.feature(project) == "014"

    def test_is_a_full_name_if_its_number_is_ambiguous(self, project: Project) -> None:
        project.write("specs/013-another/notes.md", "Not specified.\n")
        assert self.feature(project) == "013-playbook-create"

    def test_is_a_feature_without_a_number(self, project: Project) -> None:
        project.git("rm", "-rq", "specs")
        project.write("specs/dark-mode/spec.md", "# Dark\n")
        assert self.feature(project) == "dark-mode"

    def test_is_no_feature_if_none_is_specified(self, project: Project) -> None:
        project.git("rm", "-rq", "specs")
        project.write("specs/--help/spec.md", "# Hostile\n")
        assert self.feature(project) == ""
        assert "next: playbook run auto-feature FEATURE" in project.playbook("init", "--yes").err

    def test_is_looked_for_in_the_configured_specs_folder(self, project: Project) -> None:
        project.write(".playbooks/config.yaml", "artifacts: {specs: docs/specs}\n")
        project.write("docs/specs/020-moved/spec.md", "# Moved\n")
        assert self.feature(project) == "020"

    def test_a_faulty_configuration_is_reported(self, project: Project) -> None:
        project.write(".playbooks/config.yaml", "agnet: claude\n")
        with pytest.raises(PlaybookError) as caught:
            install.plan(project.root, shared=False)
        assert caught.value.code == "PB-CHECK-CONFIG"


class TestTheCommand:
    def test_shows_what_it_does_to_each_file_and_what_to_type_next(self, fresh: Project) -> None:
        done = fresh.playbook("init", "--yes")
        assert done.code == 0, done.err
        shown = [line.split()[:2] for line in done.out.splitlines()]
        assert sorted(shown) == sorted(["write", path] for path in [*FILES, SETTINGS])
        assert [path for _, path in shown[-3:]] == [SETTINGS, *MADE]
        assert "next: playbook run auto-feature 013" in done.err
        assert "inside Claude Code: /playbook.run auto-feature 013" in done.err
        assert written(fresh) == FILES

    def test_what_is_in_the_clients_settings_already_stays(self, fresh: Project) -> None:
        """kai NFR11."""
        before = '{\n\t"model": "opus"\n}\n'
        fresh.write(SETTINGS, before)
        done = fresh.playbook("init", "--yes")
        assert f"merge  {SETTINGS}" in done.out
        assert fresh.read(SETTINGS).startswith(before.removesuffix("\n}\n") + ",\n\t")
        assert lacking((fresh.root / SETTINGS).read_bytes()) == ()

    def test_settings_that_are_not_json_are_reported_and_nothing_is_written(
        self, fresh: Project
    ) -> None:
        fresh.write(SETTINGS, '{\n  "model": "opus", // mine\n}\n')
        done = fresh.playbook("init", "--yes")
        assert done.code == 1
        assert "settings.json:2:20" in done.err
        assert written(fresh) == []

    def test_needs_yes_without_a_terminal(self, fresh: Project) -> None:
        done = fresh.playbook("init")
        assert done.code == 1
        assert "--yes" in done.err
        assert written(fresh) == []

    def test_a_dry_run_only_shows_the_plan(self, fresh: Project) -> None:
        done = fresh.playbook("init", "--dry-run")
        assert done.code == 0
        assert done.out.count("write") == len([*FILES, SETTINGS])
        assert written(fresh) == []

    def test_what_it_installed_is_listed_indexed_and_valid(self, fresh: Project) -> None:
        fresh.playbook("init", "--yes")
        listed = fresh.playbook("list")
        assert [line.split()[0] for line in listed.out.splitlines()] == [
            "auto-feature",
            "auto-hotfix",
            "auto-intake",
            "auto-speckit",
            "auto-validate",
        ]
        assert fresh.playbook("index", "--check").code == 0
        files = [path for path in FILES if "/playbooks/" in path or path.endswith(".tpl.yaml")]
        assert fresh.playbook("check", *files).code == 0

    def test_says_what_the_playbooks_lack_that_do_not_fit(self, fresh: Project) -> None:
        (fresh.root / ".claude/commands/speckit.plan.md").unlink()
        (fresh.root / ".claude/commands/qa.run.md").unlink()
        done = fresh.playbook("init", "--yes")
        assert done.err.splitlines()[1:] == [
            "next: add the check; auto-change needs it",
            "auto-change left out: no file names a command that runs the tests; "
            '`playbook init --check "PROGRAM ARGUMENT"` adds the check',
            "auto-feature, auto-speckit and auto-intake lack /speckit.plan; they come with "
            "spec-kit (`specify init --here --integration claude`)",
            "auto-feature, auto-hotfix and auto-validate lack /qa.run; `playbook init --commands` "
            "installs them",
        ]
