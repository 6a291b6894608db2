"""A submission reads a few files of a repository, and its first snapshot has all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fleet.local_fleet import THREE, Fleet
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.fleet.commands import opening
from playbook_supervisor.fleet.commands.submitting import Submission, submit
from playbook_supervisor.fleet.engine.session_ref import Mirror, SessionClone


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The branches of the clones in which all files were."""
    branches: list[str] = []
    made = Mirror.for_a_while

    @contextmanager
    def noted(mirror: Mirror, commit: str, branch: str) -> Iterator[SessionClone]:
        branches.append(branch)
        with made(mirror, commit, branch) as clone:
            yield clone

    monkeypatch.setattr(Mirror, "for_a_while", noted)
    return branches


@pytest.fixture
def large(fleet: Fleet) -> Fleet:
    """A repository with a folder that no playbook mentions."""
    for number in range(60):
        fleet.project.write(f"src/{number % 6}/{number}.py", f"{number}\n")
    (fleet.project.root / "src/link").symlink_to("0/0.py")
    fleet.project.write("src/0/tool", "#!/bin/sh\n").rename(fleet.project.root / "src/0/[t]ool")
    (fleet.project.root / "src/0/[t]ool").chmod(0o755)
    publish(fleet)
    fleet.origin.git("config", "uploadpack.allowFilter", "true")
    return fleet


def publish(fleet: Fleet) -> None:
    fleet.project.git("add", "--all")
    fleet.project.git("commit", "-q", "-m", "More")
    fleet.project.git("push", "-q", "origin", "HEAD")


def steps(text: str) -> str:
    return THREE[: THREE.index("steps:")] + f"steps:\n{text}"


def files(fleet: Fleet, revision: str) -> set[str]:
    """Mode, content and path of each file but those of sessions and of spec-kit's pointer."""
    listed = fleet.origin.git("ls-tree", "-r", revision).splitlines()
    left = ("\t.playbooks/sessions/", "\t.specify/feature.json")
    return {line for line in listed if not any(each in line for each in left)}


def test_the_first_snapshot_has_every_file_although_few_were_fetched(
    large: Fleet, whole: list[str]
) -> None:
    session = large.submit("three", "steps: {}")
    ref = f"refs/playbook/sessions/{session}"
    assert files(large, ref) == files(large, "HEAD")
    assert large.kept(session, f".playbooks/sessions/{session}/session.yaml")
    assert large.origin.git("rev-parse", f"{ref}^") == large.origin.git("rev-parse", "HEAD")
    assert large.origin.git("fsck") == ""
    assert whole == []
    assert not opening.mirrors().exists()


def test_a_repository_without_any_folder_of_ours_gets_its_session(
    large: Fleet, whole: list[str]
) -> None:
    large.project.git("rm", "-rq", ".playbooks", ".claude", "specs")
    large.project.write("play.yaml", steps("  - {id: do, command: cli true}\n"))
    publish(large)
    assert large.project.git("ls-tree", "-d", "--name-only", "HEAD").splitlines() == ["src"]
    session = large.submit("play.yaml", "steps: {}")
    assert large.kept(session, f".playbooks/sessions/{session}/session.yaml")
    assert whole == []


def test_a_server_without_filters_and_a_mirror_that_is_there_do_as_well(
    large: Fleet, whole: list[str]
) -> None:
    large.origin.git("config", "uploadpack.allowFilter", "false")
    first = large.submit("three", "steps: {}")
    opening.mirror(f"file://{large.origin.root}").base()
    large.project.write("src/new.py", "1\n")
    publish(large)
    second = large.submit("three", "steps: {}")
    assert len(files(large, f"refs/playbook/sessions/{second}")) == 1 + len(
        files(large, f"refs/playbook/sessions/{first}")
    )
    assert whole == []


def test_a_worker_goes_on_from_it_with_all_files(large: Fleet, whole: list[str]) -> None:
    session = large.submit()
    assert large.advance(session).gate
    assert files(large, f"refs/playbook/sessions/{session}") > files(large, "HEAD")
    assert whole == []


def test_a_file_is_found_wherever_a_playbook_or_a_person_names_it(
    large: Fleet, whole: list[str]
) -> None:
    large.project.write("lib/prompts/do.md", "Do it.\n")
    large.project.write(
        "lib/play.yaml", steps("  - {id: do, command: markdown lib/prompts/do.md}\n")
    )
    publish(large)
    with pytest.raises(PlaybookError, match="there is no file"):
        large.submit("lib/none.yaml")
    assert len(whole) == 1  # all files were looked at before that was said
    whole.clear()
    large.submit("lib/play.yaml", "steps: {}")
    assert len(whole) == 2  # the name of the prompt stands in a file that was not looked into
    whole.clear()
    large.project.git("mv", "lib/play.yaml", ".playbooks/playbooks/play.yaml")
    publish(large)
    large.submit(".playbooks/playbooks/play.yaml", "steps: {}")
    assert whole == []


@pytest.mark.parametrize("folder", ["docs/specs", "specs"])
def test_the_feature_is_found_in_the_folder_that_the_settings_name(
    large: Fleet, whole: list[str], folder: str
) -> None:
    large.project.write(".playbooks/config.yaml", f"artifacts: {{specs: {folder}}}\n")
    large.project.write(f"{folder}/077-found/spec.md", "# Spec\n")
    large.project.write(
        ".playbooks/playbooks/three.yaml",
        THREE.replace("args: []", "args: [{name: feature, description: One, required: true}]"),
    )
    publish(large)
    session = large.submit("three", "steps: {}", "077")
    assert large.row(session).feature == "077-found"
    assert whole == []


@pytest.mark.parametrize("link", [".claude/commands/more", "notes"])
def test_a_link_into_what_was_left_out_makes_it_look_at_everything(
    large: Fleet, whole: list[str], link: str
) -> None:
    place = large.project.root / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(os.path.relpath(large.project.root / "src/1", place.parent))
    publish(large)
    large.submit("three", "steps: {}")
    assert len(whole) == 2


@pytest.mark.parametrize("rule", ["*.py eol=crlf", "*.py filter=lfs", "*.py ident"])
def test_files_that_git_writes_in_another_way_are_all_looked_at(
    large: Fleet, whole: list[str], rule: str
) -> None:
    large.project.write("src/.gitattributes", f"{rule}\n")
    publish(large)
    large.submit("three", "steps: {}")
    assert len(whole) == 2


@pytest.mark.parametrize(
    ("condition", "looks"),
    [
        ("file_exists: src/3/3.py", False),
        ("{file_exists: 'src/0/{{plan}}.py'}", False),
        ("file_exists: src/none.py", False),
        ("git_clean", True),
        ("changes_made: src/**", False),
    ],
)
def test_a_result_that_is_there_is_seen(
    large: Fleet, whole: list[str], condition: str, looks: bool
) -> None:
    text = steps(f"  - id: do\n    command: /speckit.plan\n    postconditions: [{condition}]\n")
    text = text.replace(
        "args: []", "args: [{name: plan, description: One, required: false, default: '0'}]"
    )
    large.project.write(".playbooks/playbooks/three.yaml", text)
    publish(large)
    large.submit("three", "steps: {}")
    assert bool(whole) is looks


def test_a_branch_that_is_there_is_gone_on_from(large: Fleet, whole: list[str]) -> None:
    large.project.write(
        ".playbooks/playbooks/three.yaml",
        THREE.replace("args: []", "args: [{name: feature, description: One, required: true}]"),
    )
    publish(large)
    large.project.git("switch", "-q", "-c", "077-found")
    large.project.write("src/only-here.py", "1\n")
    publish(large)
    session = large.submit("three", "steps: {}", "077-found")
    assert large.row(session).branch == "077-found"
    assert large.kept(session, "src/only-here.py") == "1"
    assert whole == []


def test_a_branch_to_begin_from_is_named_or_refused(large: Fleet, whole: list[str]) -> None:
    large.project.git("switch", "-q", "-c", "next")
    large.project.write("src/only-there.py", "1\n")
    publish(large)

    def begun(base: str) -> str:
        drive = DriveOptions(agent=large.project.script("steps: {}"))
        submission = Submission("three", base=base, drive=drive)
        return submit(large.database, submission, cwd=large.project.root).session.id

    assert large.kept(begun("next"), "src/only-there.py") == "1"
    for base, code in (("nope", "PB-GIT-BASE"), ("--upload-pack=x", "PB-ARG-BRANCH")):
        with pytest.raises(PlaybookError) as error:
            begun(base)
        assert error.value.code == code
    assert whole == []
