"""The playbooks of a project: listed with what is wrong with them, found as they are meant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.scratch_project import FEATURE, Project

from playbook_supervisor.errors import ArgumentError, StateError, StorageError
from playbook_supervisor.project.playbooks import library

NOON = 1_771_502_400_000  # 2026-02-19T12:00:00Z

SMALL = """\
name: {name}
description: {description}
version: "1.0"
args: []
steps:
  - {{id: one, command: /one, autonomy: auto, error_policy: stop}}
"""


def small(name: str, description: str = "Does one thing") -> str:
    return SMALL.format(name=name, description=description)


def playbook(project: Project, file: str, text: str) -> Path:
    return project.write(f".playbooks/playbooks/{file}", text)


def names(project: Project) -> list[str]:
    return [each.name for each in library.playbooks(project.root)]


class TestListing:
    def test_a_playbook_is_there_because_its_file_is(self, project: Project) -> None:
        """Catalyst FR-1.1."""
        assert names(project) == ["auto-feature", "auto-speckit", "auto-validate"]
        playbook(project, "mine.yaml", small("mine"))
        assert "mine" in names(project)
        (project.root / ".playbooks/playbooks/mine.yaml").unlink()
        assert "mine" not in names(project)

    def test_it_says_what_each_is_for_and_how_long(self, project: Project) -> None:
        """Catalyst FR-1.4."""
        first = library.playbooks(project.root)[0]
        assert first.description == "Plan, build, check and submit a specified feature"
        assert first.steps == 8
        assert first.file == project.root / ".playbooks/playbooks/auto-feature.yaml"
        assert first.problem == ""

    @pytest.mark.parametrize("ending", ["yaml", "yml"])
    def test_yaml_has_two_endings(self, project: Project, ending: str) -> None:
        playbook(project, f"mine.{ending}", small("mine"))
        assert "mine" in names(project)

    def test_other_files_and_those_of_editors_are_skipped(self, project: Project) -> None:
        before = names(project)
        for file in ("notes.md", ".#mine.yaml", "mine.yaml~", "a\x1b[1m.yaml"):
            playbook(project, file, small("mine"))
        assert names(project) == before

    def test_one_that_is_not_valid_is_listed_with_the_first_reason(self, project: Project) -> None:
        playbook(project, "mine.yaml", small("mine").replace("/one, autonomy: auto", "one"))
        (mine,) = [each for each in library.playbooks(project.root) if each.name == "mine"]
        assert mine.problem.startswith("line 6: ")
        assert mine.problem.endswith("(and 1 more)")
        assert (mine.description, mine.steps) == ("", 0)

    @pytest.mark.parametrize(
        "text",
        [
            "a: [",
            "",
            "name: [a, b]",
        ],
    )
    def test_one_without_a_name_has_that_of_its_file(self, project: Project, text: str) -> None:
        playbook(project, "broken.yaml", text)
        (broken,) = [each for each in library.playbooks(project.root) if each.problem]
        assert broken.name == "broken"

    def test_one_that_cannot_be_opened_is_listed(self, project: Project) -> None:
        os.mkfifo(project.root / ".playbooks/playbooks/pipe.yaml")
        (pipe,) = [each for each in library.playbooks(project.root) if each.problem]
        assert pipe.name == "pipe"
        assert "not a regular file" in pipe.problem

    def test_a_link_that_leads_out_is_not_followed(self, project: Project, tmp_path: Path) -> None:
        outside = tmp_path / "outside.yaml"
        outside.write_text(small("outside"))
        (project.root / ".playbooks/playbooks/mine.yaml").symlink_to(outside)
        (mine,) = [each for each in library.playbooks(project.root) if each.problem]
        assert mine.name == "mine"
        assert "leads outside" in mine.problem

    def test_a_description_of_many_lines_is_cut_to_its_first(self, project: Project) -> None:
        playbook(project, "mine.yaml", small("mine", "|\n  One line.\n  Another.\n"))
        (mine,) = [each for each in library.playbooks(project.root) if each.name == "mine"]
        assert mine.description == "One line."

    def test_a_project_that_was_never_initialised_says_so(self, project: Project) -> None:
        project.git("rm", "-rq", ".playbooks")
        with pytest.raises(StateError) as caught:
            library.playbooks(project.root)
        assert caught.value.code == "PB-STATE-NOT-INITIALISED"
        assert caught.value.guidance == "Run `playbook init`."

    def test_a_folder_that_cannot_be_read_is_an_error(self, project: Project) -> None:
        project.git("rm", "-rq", ".playbooks")
        (project.root / ".playbooks").mkdir()
        (project.root / ".playbooks/playbooks").symlink_to("playbooks")
        with pytest.raises(StorageError) as caught:
            library.playbooks(project.root)
        assert caught.value.code == "PB-IO-READ"


class TestFindingByName:
    def test_the_name_is_the_playbooks_not_the_files(self, project: Project) -> None:
        playbook(project, "one.yaml", small("two"))
        assert library.find(project.root, "two").file.name == "one.yaml"
        with pytest.raises(ArgumentError):
            library.find(project.root, "one")

    def test_two_files_with_one_name_are_both_named(self, project: Project) -> None:
        """cat PL-4."""
        playbook(project, "copy.yaml", project.read(".playbooks/playbooks/auto-feature.yaml"))
        with pytest.raises(ArgumentError) as caught:
            library.find(project.root, "auto-feature")
        assert caught.value.code == "PB-ARG-PLAYBOOK"
        assert caught.value.message == (
            "2 playbooks are called auto-feature: .playbooks/playbooks/auto-feature.yaml"
            " and .playbooks/playbooks/copy.yaml"
        )
        path = ".playbooks/playbooks/copy.yaml"
        assert library.find(project.root, path).file == project.root / path

    def test_a_misspelt_name_gets_the_nearest_and_all_there_are(self, project: Project) -> None:
        with pytest.raises(ArgumentError) as caught:
            library.find(project.root, "auto-featre")
        assert caught.value.code == "PB-ARG-PLAYBOOK"
        assert caught.value.message == (
            "no playbook is called 'auto-featre';"
            " the project has auto-feature, auto-speckit, auto-validate"
        )
        assert caught.value.guidance == "Did you mean `auto-feature`?"

    def test_one_that_is_shipped_but_not_installed_is_known(self, project: Project) -> None:
        project.git("rm", "-q", ".playbooks/playbooks/auto-feature.yaml")
        with pytest.raises(ArgumentError) as caught:
            library.find(project.root, "auto-feature")
        assert "`playbook init --dry-run` says what it lacks here" in caught.value.guidance

    def test_a_broken_file_does_not_hide_the_one_with_the_name(self, project: Project) -> None:
        playbook(project, "mine.yaml", "a: [")
        playbook(project, "other.yaml", small("mine"))
        assert library.find(project.root, "mine").file.name == "other.yaml"

    @pytest.mark.parametrize("name", ["a\0b", "\x1b[31mred", "\udcff"])
    def test_what_cannot_be_printed_names_nothing(self, project: Project, name: str) -> None:
        with pytest.raises(ArgumentError) as caught:
            library.find(project.root, name)
        assert caught.value.message.isprintable()


class TestFindingByPath:
    def test_a_path_is_relative_to_the_current_folder(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here = project.write("drafts/mine.yaml", small("mine"))
        project.write("mine.yaml", small("another"))
        monkeypatch.chdir(here.parent)
        assert library.find(project.root, "mine.yaml").file == here
        assert library.find(project.root, "../mine.yaml").file == project.root / "mine.yaml"
        assert library.find(project.root, "./mine.yaml").file == here

    def test_a_current_folder_outside_of_the_repository_does_not_count(
        self, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "elsewhere/drafts").mkdir(parents=True)
        (tmp_path / "elsewhere/drafts/mine.yaml").write_text(small("theirs"))
        file = project.write("drafts/mine.yaml", small("mine"))
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert library.find(project.root, "drafts/mine.yaml").file == file

    def test_it_needs_no_initialised_project(self, project: Project) -> None:
        project.git("rm", "-rq", ".playbooks")
        file = project.write("mine.yaml", small("mine"))
        assert library.find(project.root, str(file)).file == file

    @pytest.mark.parametrize("how", ["../outside.yaml", "/etc/hostname", "link.yaml"])
    def test_it_stays_inside_the_repository(
        self, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        (tmp_path / "outside.yaml").write_text(small("outside"))
        (project.root / "link.yaml").symlink_to(tmp_path / "outside.yaml")
        monkeypatch.chdir(project.root)
        with pytest.raises(ArgumentError, match="is not a file of this repository") as caught:
            library.find(project.root, how)
        assert (caught.value.code, caught.value.exit_code) == ("PB-IO-ESCAPE", 1)

    def test_a_missing_file_is_an_error(self, project: Project) -> None:
        with pytest.raises(ArgumentError, match=r"there is no file drafts/mine\.yaml") as caught:
            library.find(project.root, "drafts/mine.yaml")
        assert caught.value.code == "PB-ARG-PLAYBOOK"


class TestTheIndex:
    """kai FR10: an index of all playbooks."""

    def test_it_says_name_file_description_and_steps(self, project: Project) -> None:
        """kai D-I."""
        assert library.write_index(project.root, NOON)
        index = yaml.safe_load(project.read(".playbooks/_index.yaml"))
        assert index["generated"] == "2026-02-19T12:00:00.000Z"
        assert index["playbooks"][0] == {
            "name": "auto-feature",
            "file": "playbooks/auto-feature.yaml",
            "description": "Plan, build, check and submit a specified feature",
            "steps": 8,
        }
        assert [each["steps"] for each in index["playbooks"]] == [8, 4, 2]

    def test_only_its_content_is_a_reason_to_write_it_again(self, project: Project) -> None:
        """kai NFR12: worktrees do not conflict on a timestamp."""
        library.write_index(project.root, NOON)
        written = (project.root / ".playbooks/_index.yaml").stat()
        assert not library.write_index(project.root, NOON + 86_400_000)
        after = (project.root / ".playbooks/_index.yaml").stat()
        assert (written.st_ino, written.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
        assert "2026-02-19" in project.read(".playbooks/_index.yaml")

    def test_it_is_stale_until_it_matches_the_files(self, project: Project) -> None:
        assert library.index_is_stale(project.root) == ".playbooks/_index.yaml is missing"
        library.write_index(project.root, NOON)
        assert library.index_is_stale(project.root) == ""
        playbook(project, "mine.yaml", small("mine"))
        assert library.index_is_stale(project.root) == (
            ".playbooks/_index.yaml does not match the files in .playbooks/playbooks/"
        )
        assert library.write_index(project.root, NOON)
        assert library.index_is_stale(project.root) == ""

    def test_what_cannot_run_is_left_out(self, project: Project) -> None:
        library.write_index(project.root, NOON)
        playbook(project, "broken.yaml", "a: [")
        assert library.index_is_stale(project.root) == ""

    def test_it_is_not_written_where_a_link_leads_out(
        self, project: Project, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.write_text("theirs")
        (project.root / ".playbooks/_index.yaml").symlink_to(outside)
        with pytest.raises(StorageError) as caught:
            library.write_index(project.root, NOON)
        assert caught.value.code == "PB-IO-ESCAPE"
        assert outside.read_text() == "theirs"

    def test_temporary_files_of_a_killed_writer_are_removed(self, project: Project) -> None:
        code = (
            "import os, signal, pathlib, sys\n"
            "from playbook_supervisor.project.playbooks import library\n"
            "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
            f"library.write_index(pathlib.Path.cwd(), {NOON})"
        )
        (project.root / ".git/playbook").mkdir()  # so that the first sync is the index's own
        killed = subprocess.run([sys.executable, "-c", code], cwd=project.root, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert list((project.root / ".playbooks").glob(".playbook-tmp-*"))
        assert library.write_index(project.root, NOON)
        assert not list((project.root / ".playbooks").glob(".playbook-tmp-*"))

    def test_what_two_branches_added_is_listed_after_their_merge(self, project: Project) -> None:
        """Both wrote the index; git marks a conflict in it, and it is derived anew."""
        library.write_index(project.root, NOON)
        project.commit("Index")
        own = project.read(".playbooks/playbooks/auto-validate.yaml")
        for name in ("zeal", "zest"):
            project.git("switch", "-q", "-c", name, FEATURE)
            named = own.replace("name: auto-validate", f"name: {name}")
            project.write(f".playbooks/playbooks/{name}.yaml", named)
            library.write_index(project.root, NOON + len(name))
            project.commit(f"Add {name}")
        with pytest.raises(AssertionError):
            project.git("merge", "-q", "zeal")
        assert project.git("diff", "--name-only", "--diff-filter=U") == ".playbooks/_index.yaml"
        for told in (("index", "--check"), ("check", ".playbooks/_index.yaml")):
            done = project.playbook(*told)
            assert done.code == 1
            said = " ".join((done.out + done.err).split())
            assert "git has left a conflict in .playbooks/_index.yaml" in said
            assert "Run `playbook index`, then `git add .playbooks/_index.yaml`." in said
        assert library.write_index(project.root, NOON)
        names = [each["name"] for each in yaml.safe_load(project.read(library.INDEX))["playbooks"]]
        assert names[-2:] == ["zeal", "zest"]

    def test_is_not_checked_as_a_playbook(self, project: Project) -> None:
        library.write_index(project.root, NOON)
        assert project.playbook("check", library.INDEX).code == 0
        project.write(".playbooks/playbooks/own.yaml", small("own"))
        stale = project.playbook("check", library.INDEX)
        assert stale.code == 1
        assert stale.out.startswith(f"{library.INDEX}:1:1: error: {library.INDEX} does not match ")
        assert "[PB-CHECK-STALE]" in stale.out
        project.write(library.INDEX, "schema: 99\nplaybooks: []\n")
        assert "[PB-STATE-NEWER]" in project.playbook("check", library.INDEX).out
