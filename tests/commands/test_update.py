"""`playbook update` after a newer version: ours is replaced, a person's edits never are."""

from __future__ import annotations

import importlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.scripts import conforms
from support.installations import NOON, killed, said, state
from support.scratch_project import Project

from playbook_supervisor import __version__
from playbook_supervisor.commands import doctor
from playbook_supervisor.commands.install import init as install
from playbook_supervisor.commands.install import shipped
from playbook_supervisor.commands.install import update as upgrade
from playbook_supervisor.commands.install.changes import InstallPlan
from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.drivers.claude_code.marker import SCRIPT
from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.project.install_record import FILE, fingerprint, read_installation
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.system.disk import templates
from playbook_supervisor.system.disk.files import digest

REPOSITORY = Path(__file__).parents[2]

FEATURE = ".playbooks/playbooks/auto-feature.yaml"
VALIDATE = ".playbooks/playbooks/auto-validate.yaml"
SKELETON = ".playbooks/templates/playbook.tpl.yaml"
RUN = ".claude/commands/playbook.run.md"
INDEX = ".playbooks/_index.yaml"
RETIRED = ".claude/commands/playbook.launch.md"

Ship = Callable[..., None]


@pytest.fixture
def installed(project: Project) -> Project:
    """A project in which this version was installed, with a playbook for every command."""
    (project.root / FEATURE).unlink()
    install.apply(install.plan(project.root, shared=False), NOON)
    return project


@pytest.fixture
def ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ship:
    """`ship(number)` simulates another version by changing every template."""

    def another(number: int = 2, *, released: str = "") -> None:
        folder = tmp_path / f"version-{number}"
        make_version(folder, number, released)
        monkeypatch.setattr(templates, "folder", lambda: folder)

    return another


ORIGINAL = templates.folder()


def make_version(folder: Path, number: int, released: str = "") -> None:
    shutil.copytree(ORIGINAL, folder)
    changing = [*folder.glob("commands/*.md"), *folder.glob("playbooks/*.yaml")]
    for file in [*changing, folder / "playbooks-folder.md"]:
        comment = f"<!-- {number} -->\n" if file.suffix == ".md" else f"# {number}\n"
        file.write_text(file.read_text() + comment)
    with (folder / shipped.RELEASES).open("a") as table:
        table.write(released)


def update(project: Project) -> InstallPlan:
    planned = upgrade.plan(project.root, shared=False)
    upgrade.apply(planned, NOON)
    return planned


def today(path: str) -> str:
    return shipped.files()[path].decode()


def changed(project: Project) -> set[str]:
    """What git sees, beside the record and the index."""
    lines = project.git("status", "--porcelain", "--untracked-files=all").splitlines()
    return {line.split()[-1] for line in lines} - {FILE, INDEX}


class TestWhatIsOurs:
    def test_is_up_to_date_right_after_an_installation(self, installed: Project) -> None:
        before = state(installed)
        planned = update(installed)
        assert planned.changes == ()
        assert state(installed) == before

    def test_is_replaced_if_unedited(self, installed: Project, ship: Ship) -> None:
        """kai FR43."""
        ship()
        planned = update(installed)
        assert said(planned, RUN) == ("write", "new version")
        assert said(planned, SKELETON) == ("keep", "up to date")
        for path in (RUN, FEATURE, VALIDATE):
            assert installed.read(path) == today(path)
        assert said(planned, FILE) == ("write", "updated")

    def test_the_index_follows(self, installed: Project, ship: Ship) -> None:
        installed.write(".playbooks/playbooks/mine.yaml", today(VALIDATE).replace("auto-", "my-"))
        planned = update(installed)
        assert [each.path for each in planned.changes] == [INDEX]
        assert library.index_is_stale(installed.root) == ""

    def test_a_file_that_is_new_in_this_version_is_written(
        self, installed: Project, ship: Ship
    ) -> None:
        forget(installed, RUN)
        (installed.root / RUN).unlink()
        ship()
        assert said(update(installed), RUN) == ("write", "new")
        assert installed.read(RUN) == today(RUN)


def ours(project: Project) -> set[str]:
    """The paths that an installation with commands for every playbook, none of ours, records."""
    without = {*shipped.FEATURE_COMMAND_FILES, shipped.playbook_file(shipped.CHANGE)}
    return set(shipped.files()) - without


def forget(project: Project, path: str) -> None:
    """Take a file out of the record."""
    lines = project.read(FILE).splitlines(keepends=True)
    project.write(FILE, "".join(line for line in lines if path not in line))


class TestWhatAPersonDidToIt:
    def edit(self, project: Project, path: str = FEATURE) -> str:
        text = project.read(path) + "# ours\n"
        project.write(path, text)
        return text

    def test_an_edited_file_stays_with_the_new_version_beside_it(
        self, installed: Project, ship: Ship
    ) -> None:
        mine = self.edit(installed)
        ship()
        planned = update(installed)
        assert installed.read(FEATURE) == mine
        assert installed.read(f"{FEATURE}.new") == today(FEATURE)
        assert said(planned, FEATURE) == ("keep", "edited by you")
        verb, why = said(planned, f"{FEATURE}.new")
        assert verb == "write"
        assert why.endswith(f"compare: diff {FEATURE} {FEATURE}.new")

    def test_the_new_version_is_no_playbook_and_no_command(
        self, installed: Project, ship: Ship
    ) -> None:
        self.edit(installed)
        ship()
        update(installed)
        assert len(library.playbooks(installed.root)) == 5

    def test_a_deleted_new_version_is_not_written_again(
        self, installed: Project, ship: Ship
    ) -> None:
        self.edit(installed)
        ship()
        update(installed)
        assert update(installed).changes == ()
        (installed.root / f"{FEATURE}.new").unlink()
        assert [each.path for each in update(installed).changes] == [FILE]
        assert update(installed).changes == ()
        assert not (installed.root / f"{FEATURE}.new").exists()

    def test_a_stale_new_version_is_replaced_by_the_next(
        self, installed: Project, ship: Ship
    ) -> None:
        mine = self.edit(installed)
        ship(2)
        update(installed)
        ship(3)
        update(installed)
        assert installed.read(f"{FEATURE}.new") == today(FEATURE)
        assert installed.read(FEATURE) == mine

    def test_a_new_version_that_was_taken_over_goes_away(
        self, installed: Project, ship: Ship
    ) -> None:
        self.edit(installed)
        ship()
        update(installed)
        shutil.copy(installed.root / f"{FEATURE}.new", installed.root / FEATURE)
        assert said(update(installed), f"{FEATURE}.new")[0] == "remove"
        assert not (installed.root / f"{FEATURE}.new").exists()
        assert update(installed).changes == ()

    def test_a_persons_own_file_with_the_new_versions_name_is_kept(
        self, installed: Project, ship: Ship
    ) -> None:
        mine, beside = self.edit(installed), installed.root / f"{FEATURE}.new"
        beside.write_text("my own notes\n")
        assert said(update(installed), FEATURE) == ("keep", "edited by you")
        ship()
        before = state(installed)[f"{FEATURE}.new"]
        verb, why = said(update(installed), FEATURE)
        assert (verb, "to get the new version" in why) == ("keep", True)
        assert installed.read(FEATURE) == mine
        assert state(installed)[f"{FEATURE}.new"] == before
        beside.unlink()
        update(installed)
        assert installed.read(f"{FEATURE}.new") == today(FEATURE)

    def test_a_deleted_file_stays_deleted(self, installed: Project, ship: Ship) -> None:
        (installed.root / RUN).unlink()
        ship()
        verb, why = said(update(installed), RUN)
        assert (verb, why.partition(";")[0]) == ("keep", "you deleted it")
        assert update(installed).changes == ()
        assert not (installed.root / RUN).exists()

    def test_with_a_deleted_file_its_new_version_goes_too(
        self, installed: Project, ship: Ship
    ) -> None:
        self.edit(installed)
        ship()
        update(installed)
        (installed.root / FEATURE).unlink()
        update(installed)
        assert not (installed.root / f"{FEATURE}.new").exists()
        assert not (installed.root / FEATURE).exists()

    def test_playbooks_sessions_and_settings_of_theirs_are_not_touched(
        self, installed: Project, ship: Ship
    ) -> None:
        """kai FR43."""
        installed.write(".playbooks/playbooks/mine.yaml", "name: [not even valid\n")
        installed.write(".playbooks/sessions/20260219-a7k/journal.yaml", "entries: []\n")
        installed.write(".playbooks/config.yaml", "# ours\n")
        installed.write(".claude/commands/mine.md", "Mine.\n")
        installed.commit("Ours")
        ship()
        update(installed)
        assert changed(installed) == {
            path for path in ours(installed) if path.endswith(".md") or "/playbooks/" in path
        }


class TestWhatIsNotOurs:
    def test_a_foreign_file_of_our_name_is_kept_and_mentioned(
        self, installed: Project, ship: Ship
    ) -> None:
        forget(installed, RUN)
        installed.write(RUN, "theirs\n")
        ship()
        assert said(update(installed), RUN) == ("keep", "not installed by playbook")
        assert installed.read(RUN) == "theirs\n"
        assert RUN not in read_installation(installed.root).files
        assert not (installed.root / f"{RUN}.new").exists()

    def test_an_edit_after_the_plan_is_not_lost(self, installed: Project, ship: Ship) -> None:
        ship()
        planned = upgrade.plan(installed.root, shared=False)
        installed.write(RUN, "mine, just now\n")
        upgrade.apply(planned, NOON)
        assert installed.read(RUN) == "mine, just now\n"
        assert installed.read(f"{RUN}.new") == today(RUN)


class TestWhatShipsNoMore:
    TEXT = "Of an earlier version.\n"

    @pytest.fixture
    def retired(self, installed: Project, ship: Ship) -> Project:
        """Version 2 ships a command less than version 1 did."""
        installed.write(RETIRED, self.TEXT)
        summed = digest(self.TEXT.encode())
        installed.write(FILE, installed.read(FILE) + f"  {RETIRED}: sha256:{summed}\n")
        ship(released=f"{summed}  {RETIRED}\n")
        return installed

    def test_is_removed_if_unedited(self, retired: Project) -> None:
        verb, why = said(update(retired), RETIRED)
        assert (verb, why) == ("remove", "no longer shipped, and not edited")
        assert not (retired.root / RETIRED).exists()
        assert RETIRED not in read_installation(retired.root).files
        assert update(retired).changes == ()

    def test_is_kept_if_edited(self, retired: Project) -> None:
        retired.write(RETIRED, "mine\n")
        assert said(update(retired), RETIRED) == (
            "keep",
            "no longer shipped, but you edited it",
        )
        assert retired.read(RETIRED) == "mine\n"
        assert RETIRED not in [each.path for each in update(retired).actions]

    def test_is_kept_if_it_is_not_recorded(self, retired: Project) -> None:
        forget(retired, RETIRED)
        update(retired)
        assert retired.read(RETIRED) == self.TEXT

    def test_is_removed_if_the_record_is_lost(self, retired: Project) -> None:
        (retired.root / FILE).unlink()
        update(retired)
        assert not (retired.root / RETIRED).exists()

    @pytest.mark.parametrize("guide", shipped.RETIRED)
    def test_is_the_guide_which_stays_only_if_it_was_edited(
        self, installed: Project, guide: str
    ) -> None:
        """An installation without a release in between."""
        installed.write(guide, self.TEXT)
        record, line = installed.read(FILE), f"  {guide}: {fingerprint(self.TEXT.encode())}\n"
        installed.write(FILE, record + line)
        assert said(update(installed), guide) == ("remove", "no longer shipped, and not edited")
        assert not (installed.root / guide).exists()
        installed.write(guide, "mine\n")
        installed.write(FILE, record + line)
        assert said(update(installed), guide) == ("keep", "no longer shipped, but you edited it")
        assert guide not in read_installation(installed.root).files

    @pytest.mark.parametrize("path", ["src/main.py", "../../outside", ".git/HEAD"])
    def test_the_record_alone_removes_nothing(self, installed: Project, path: str) -> None:
        """An edited install.yaml cannot make `update` remove a foreign file."""
        file = installed.write("src/main.py", "content\n") if path.startswith("src") else None
        head = (installed.root / ".git/HEAD").read_bytes()
        summed = digest(file.read_bytes() if file else head)
        installed.write(FILE, installed.read(FILE) + f'  "{path}": sha256:{summed}\n')
        assert said(update(installed), path) == ("keep", "no longer shipped; keep it or remove it")
        assert (installed.root / ".git/HEAD").read_bytes() == head
        assert file is None or file.exists()
        assert path not in read_installation(installed.root).files


class TestARelease:
    """Its files are written down, so that every later version knows them for ours."""

    def test_is_written_down_once(
        self, ship: Ship, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.syspath_prepend(REPOSITORY / "tools")
        tool = importlib.import_module("record_release")
        ship()
        assert tool.main(check=True) == 1
        assert f"{RUN} is not written down" in capsys.readouterr().out
        assert tool.main(check=False) == tool.main(check=True) == 0
        assert shipped.released()[RUN] == {fingerprint(today(RUN).encode())}
        table = templates.folder() / shipped.RELEASES
        before = table.read_text()
        tool.main(check=False)
        assert table.read_text() == before

    def test_is_made_with_its_files_written_down(self) -> None:
        """As soon as the changelog gives this version a date."""
        (latest, *_) = re.findall(
            r"^## (\S+) – (.+)$", (REPOSITORY / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
        )
        if latest == (__version__, "unreleased"):
            return
        for path, content in shipped.files().items():
            assert fingerprint(content) in shipped.released().get(path, ()), path


class TestALostRecord:
    """install.yaml was removed."""

    def test_what_equals_any_release_counts_as_ours(self, installed: Project, ship: Ship) -> None:
        released = "".join(
            f"{digest(content)}  {path}\n" for path, content in shipped.files().items()
        )
        ship(released=released)
        (installed.root / FILE).unlink()
        installed.write(FEATURE, installed.read(FEATURE) + "# ours\n")
        planned = update(installed)
        assert said(planned, RUN) == ("write", "new version")
        assert said(planned, FEATURE) == ("keep", "not installed by playbook")
        assert said(planned, FILE) == ("write", "new")
        assert set(read_installation(installed.root).files) == ours(installed) - {FEATURE}
        assert update(installed).changes == ()

    def test_a_new_version_beside_an_edited_file_is_kept(
        self, installed: Project, ship: Ship
    ) -> None:
        """It would not be written again."""
        installed.write(RUN, installed.read(RUN) + "Ours.\n")
        ship()
        update(installed)
        offered = installed.read(f"{RUN}.new")
        (installed.root / FILE).unlink()
        assert said(update(installed), RUN) == ("keep", "not installed by playbook")
        assert installed.read(f"{RUN}.new") == offered

    def test_a_missing_file_counts_as_deleted(self, installed: Project, ship: Ship) -> None:
        """Without a record this is the safe assumption; it is not restored later either."""
        (installed.root / FILE).unlink()
        (installed.root / RUN).unlink()
        assert said(update(installed), RUN)[1].startswith(
            "you deleted it; `playbook init --restore"
        )
        ship()
        update(installed)
        assert not (installed.root / RUN).exists()
        forget(installed, RUN)
        update(installed)
        assert installed.read(RUN) == today(RUN)

    def test_missing_hooks_are_not_added(self, project: Project) -> None:
        """They may have been left out on purpose; `init` asks."""
        planned = upgrade.plan(cwd=project.root)
        assert said(planned, settings.FILE)[0] == "keep"
        upgrade.apply(planned)
        assert not (project.root / settings.FILE).exists()
        assert read_installation(project.root).no_hooks

    def test_existing_hooks_are_updated(self, project: Project) -> None:
        install.apply(install.plan(cwd=project.root))
        (project.root / FILE).unlink()
        planned = upgrade.plan(cwd=project.root)
        assert said(planned, settings.FILE) == ("keep", "up to date")
        upgrade.apply(planned)
        assert not read_installation(project.root).no_hooks


class TestTheScriptOfTheHooks:
    def test_of_an_earlier_version_is_brought_up_to_date(self, installed: Project) -> None:
        record = installed.read(FILE).replace(fingerprint(today(SCRIPT).encode()), fingerprint(b""))
        installed.write(SCRIPT, "")
        installed.write(FILE, record)
        update(installed)
        assert installed.read(SCRIPT) == today(SCRIPT)
        assert not (installed.root / f"{SCRIPT}.old").exists()


class TestTheClientsSettings:
    def test_our_entries_are_replaced_and_foreign_ones_stay(self, project: Project) -> None:
        foreign = '{\n\t"model":   "opus",\n\t"hooks": {"Stop": []}\n}\n'
        project.write(settings.FILE, foreign)
        install.apply(install.plan(cwd=project.root))
        whole = project.read(settings.FILE)
        project.write(settings.FILE, whole.replace('"timeout": 30', '"timeout": 7'))
        planned = upgrade.plan(cwd=project.root)
        assert [each.path for each in planned.changes] == [settings.FILE]
        upgrade.apply(planned)
        assert project.read(settings.FILE) == whole
        assert '\t"model": "opus",\n\t"hooks": {' in whole


class TestARefusal:
    @pytest.mark.parametrize(
        ("version", "newer"),
        [("99.0", True), ("0.1.1rc1", True), ("0.1.0.dev3", False), ("not a version", False)],
    )
    def test_where_a_newer_version_was_installed(
        self, installed: Project, version: str, newer: bool
    ) -> None:
        assert __version__ == "0.1.0", "then these versions are to be chosen anew"
        text = installed.read(FILE).replace(__version__, version)
        assert text.count(version) == 1
        installed.write(FILE, text)
        if not newer:
            assert upgrade.plan(installed.root, shared=False).changes == ()
            return
        for plan in (upgrade.plan, install.plan):
            with pytest.raises(StateError) as caught:
                plan(installed.root)
            assert caught.value.code == "PB-STATE-NEWER"
            assert version in caught.value.message
            assert "uv tool upgrade" in caught.value.guidance

    def test_where_a_folder_has_a_files_name(self, installed: Project, ship: Ship) -> None:
        (installed.root / RUN).unlink()
        (installed.root / RUN).mkdir()
        ship()
        before = state(installed)
        planned = upgrade.plan(installed.root, shared=False)
        assert said(planned, RUN) == ("conflict", "it exists and is not a regular file")
        with pytest.raises(StorageError, match="cannot be written"):
            upgrade.apply(planned, NOON)
        assert state(installed) == before


class TestTheCommand:
    """`playbook update` as it is typed."""

    @pytest.fixture
    def old(self, project: Project) -> Project:
        """A project in which an older version installed one of the commands."""
        (project.root / FEATURE).unlink()
        install.apply(install.plan(project.root, shared=False), NOON)
        now, text = project.read(RUN), "Of an older version.\n"
        record = project.read(FILE).replace(digest(now.encode()), digest(text.encode()))
        project.write(RUN, text)
        project.write(FILE, record)
        installed = install.plan(project.root, choices=install.Choices(no_hooks=True))
        install.apply(installed)
        return project

    def test_says_what_it_did_and_does_it_once(self, old: Project) -> None:
        old.write(FEATURE, old.read(FEATURE) + "# ours\n")
        done = old.playbook("update")
        assert done.code == 0, done.err
        assert [line.split(maxsplit=2) for line in done.out.splitlines()] == [
            ["keep", FEATURE, "edited by you"],
            ["write", RUN, "new version"],
            ["keep", SCRIPT, "left alone (--no-hooks)"],
            ["keep", settings.FILE, "left alone (--no-hooks)"],
            ["write", FILE, "updated"],
        ]
        assert done.err == f"updated in {old.root}\n"
        assert old.read(RUN) == today(RUN)
        again = old.playbook("update")
        assert (again.code, again.err) == (0, "everything is up to date\n")

    def test_check_names_what_is_out_of_date_and_writes_nothing(self, old: Project) -> None:
        before = state(old)
        done = old.playbook("update", "--check")
        assert done.code == 1
        assert [line.split()[:2] for line in done.out.splitlines()] == [
            ["write", RUN],
            ["write", FILE],
        ]
        assert done.err == "out of date; run `playbook update`\n"
        assert state(old) == before

    def test_a_dry_run_shows_the_plan_and_succeeds(self, old: Project) -> None:
        before = state(old)
        done = old.playbook("update", "--dry-run", "--json")
        assert done.code == 0
        conforms("update", done.json)
        assert (done.json["up_to_date"], done.json["applied"]) == (False, False)
        (run,) = [each for each in done.json["files"] if each["path"] == RUN]
        assert run == {"path": RUN, "action": "write", "why": "new version"}
        assert state(old) == before

    def test_where_nothing_is_installed_it_names_init(self, project: Project) -> None:
        project.git("rm", "-rq", ".playbooks")
        done = project.playbook("update", "--check")
        assert done.code == 3
        assert "do: Run `playbook init`." in done.err

    def test_the_doctor_reports_what_is_out_of_date(self, old: Project) -> None:
        findings = {each.name: each for each in doctor.examine(old.root)}
        assert findings["files"].state == "advice"
        assert RUN in findings["files"].found
        assert findings["files"].cure == "Run `playbook update`; it keeps your edits."
        upgrade.apply(upgrade.plan(cwd=old.root))
        findings = {each.name: each for each in doctor.examine(old.root)}
        assert findings["files"].state == "fine"


class TestAnInterruption:
    def test_a_killed_update_can_be_repeated(self, installed: Project, tmp_path: Path) -> None:
        installed.write(FEATURE, installed.read(FEATURE) + "# ours\n")
        installed.commit("Edit")
        updates = updating_to(tmp_path / "version-2")
        assert not killed(updates, installed.root, at=0)
        whole = contents(installed)
        at = 1
        while reset(installed) and killed(updates, installed.root, at=at):
            assert not killed(updates, installed.root, at=0)
            assert contents(installed) == whole
            at += 15
        assert at > 20


def updating_to(version: Path) -> Callable[[], None]:
    """Brings a project to version 2, which is made in that folder; for a process of its own."""
    make_version(version, 2)

    def update() -> None:
        templates.folder = lambda: version
        upgrade.apply(upgrade.plan(Path.cwd(), shared=False), NOON)

    return update


def contents(project: Project) -> dict[str, str]:
    return {path: content for path, (_, _, content) in state(project).items()}


def reset(project: Project) -> bool:
    project.git("reset", "-q", "--hard")
    project.git("clean", "-qfd")
    return True
