"""A submission begins at what the remote has, and leaves nothing of it on the machine."""

from __future__ import annotations

import pytest

from fleet.local_fleet import THREE, Fleet
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.errors import FleetError, PlaybookError
from playbook_supervisor.fleet.commands import opening
from playbook_supervisor.fleet.commands.submitting import Submission, submit
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import NewSession, State


@pytest.fixture
def featured(fleet: Fleet) -> Fleet:
    """A repository whose playbook is about a feature, with files that git converts."""
    feature = "args: [{name: feature, description: One, required: true}]"
    playbook = THREE.replace("args: []", feature)
    fleet.project.write(".playbooks/playbooks/three.yaml", playbook)
    fleet.project.write(".playbooks/config.yaml", "artifacts: {specs: docs/specs}\n")
    fleet.project.write("docs/specs/077-found/spec.md", "# Spec\n")
    fleet.project.write("src/.gitattributes", "*.txt eol=crlf\n")
    fleet.project.write("src/lines.txt", "1\n2\n")
    (fleet.project.root / "src/link").symlink_to("../docs")
    publish(fleet)
    return fleet


def publish(fleet: Fleet) -> None:
    fleet.project.git("add", "--all")
    fleet.project.git("commit", "-q", "-m", "More")
    fleet.project.git("push", "-q", "origin", "HEAD")


def files(fleet: Fleet, revision: str) -> set[str]:
    """Mode, content and path of each file but those of sessions and of spec-kit's pointer."""
    listed = fleet.origin.git("ls-tree", "-r", revision).splitlines()
    left = ("\t.playbooks/sessions/", "\t.specify/feature.json")
    return {line for line in listed if not any(each in line for each in left)}


def test_the_first_snapshot_has_every_file_although_no_history_was_fetched(featured: Fleet) -> None:
    session = featured.submit("three", "steps: {}", "077")
    ref = f"refs/playbook/sessions/{session}"
    assert featured.row(session).feature == "077-found"
    assert files(featured, ref) == files(featured, "HEAD")
    assert featured.kept(session, f".playbooks/sessions/{session}/session.yaml")
    assert featured.origin.git("rev-parse", f"{ref}^") == featured.origin.git("rev-parse", "HEAD")
    assert featured.origin.git("fsck") == ""
    assert not opening.mirrors().exists()
    opening.mirror(f"file://{featured.origin.root}").base()
    featured.project.write("src/new.py", "1\n")
    publish(featured)
    second = featured.submit("three", "steps: {}", "077")
    assert files(featured, f"refs/playbook/sessions/{second}") == files(featured, "HEAD")


def test_a_branch_that_is_there_is_gone_on_from(featured: Fleet) -> None:
    featured.project.git("switch", "-q", "-c", "077-found")
    featured.project.write("src/only-here.py", "1\n")
    featured.project.git("rm", "-q", "src/lines.txt")
    publish(featured)
    session = featured.submit("three", "steps: {}", "077-found")
    assert featured.row(session).branch == "077-found"
    ref = f"refs/playbook/sessions/{session}"
    assert files(featured, ref) == files(featured, "refs/heads/077-found")


def test_a_branch_to_begin_from_is_named_or_refused(fleet: Fleet) -> None:
    fleet.project.git("switch", "-q", "-c", "next")
    fleet.project.write("src/only-there.py", "1\n")
    publish(fleet)

    def begun(base: str) -> str:
        drive = DriveOptions(agent=fleet.project.script("steps: {}"))
        submission = Submission("three", base=base, drive=drive)
        return submit(fleet.database, submission, cwd=fleet.project.root).session.id

    assert fleet.kept(begun("next"), "src/only-there.py") == "1"
    for base, code in (("nope", "PB-GIT-BASE"), ("--upload-pack=x", "PB-ARG-BRANCH")):
        with pytest.raises(PlaybookError) as error:
            begun(base)
        assert error.value.code == code


@pytest.mark.parametrize("returns", [True, False], ids=["back", "away for good"])
def test_where_the_database_goes_away_it_is_queued_or_leaves_nothing(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, returns: bool
) -> None:
    monkeypatch.setattr("playbook_supervisor.fleet.commands.submitting._PAUSE", 0.0)
    monkeypatch.setattr("playbook_supervisor.fleet.commands.submitting._PATIENCE", 0.1)
    stored, before = FleetDatabase.submit, fleet.origin.git("for-each-ref")
    calls = []

    def broken(database: FleetDatabase, new: NewSession) -> None:
        calls.append(new.id)
        if returns:
            stored(database, new)
        if len(calls) == 1 or not returns:
            raise FleetError("PB-FLEET-DATABASE", "the connection broke")

    monkeypatch.setattr(FleetDatabase, "submit", broken)
    if returns:
        assert fleet.row(fleet.submit()).state is State.QUEUED
        assert len(calls) == 2
    else:
        with pytest.raises(FleetError):
            fleet.submit()
        assert fleet.origin.git("for-each-ref") == before
