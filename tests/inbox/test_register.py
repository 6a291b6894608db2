"""What the inbox remembers: repositories, people, their links and browsers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.scratch_project import Project

from playbook_supervisor.errors import ArgumentError, PlaybookError, StateError
from playbook_supervisor.inbox.commands import register

ADA, BOB = "Ada <ada@example.org>", "Bob <bob@example.org>"
NOW = 1_800_000_000_000
DAY = 24 * 3_600_000


@pytest.fixture
def file(home: Path) -> Path:
    return home / ".local/state/playbook/inbox.json"


def names() -> list[str]:
    return [person.name for person in register.load().people]


# ── links and browsers ──────────────────────────────────────────────────────────────────────


def test_a_link_makes_one_browser_the_persons() -> None:
    token = register.invite(ADA, NOW)
    admitted = register.admit(token, "Firefox on Linux", NOW + DAY)
    assert admitted is not None
    cookie, person = admitted
    assert (person.name, [each.name for each in person.browsers]) == (ADA, ["Firefox on Linux"])
    known = register.load()
    assert register.person_of(known, cookie) == person
    assert register.person_of(known, token) is None, "a link is no cookie"
    assert register.invited(known, cookie, NOW) is None, "and a cookie no link"
    assert register.admit(token, "Firefox on Linux", NOW + DAY) is None


def test_a_link_is_valid_for_three_days() -> None:
    token = register.invite(ADA, NOW)
    known = register.load()
    assert register.invited(known, token, NOW + 3 * DAY - 1) is not None
    assert register.invited(known, token, NOW + 3 * DAY) is None
    assert register.admit(token, "x", NOW + 3 * DAY) is None


def test_an_invitation_removes_the_stale_ones_of_the_person() -> None:
    register.invite(ADA, NOW)
    register.invite(ADA, NOW + DAY)
    register.invite(ADA, NOW + 3 * DAY)
    (person,) = register.load().people
    assert [each.until for each in person.invitations] == [NOW + 4 * DAY, NOW + 6 * DAY]


def test_the_file_holds_no_token_and_is_the_users_own(file: Path) -> None:
    token = register.invite(ADA, NOW)
    admitted = register.admit(token, "x", NOW)
    assert admitted is not None
    text = file.read_text()
    assert token not in text
    assert admitted[0] not in text
    assert file.stat().st_mode & 0o777 == 0o600
    assert len({register.new_token() for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Ada",
        "<ada@example.org>",
        "Ada <a@b> <c@d>",
        "Ada\x1b[31m <ada@example.org>",
        "A" * 200 + " <ada@example.org>",
    ],
)
def test_only_a_name_with_a_mail_can_be_invited(name: str, file: Path) -> None:
    with pytest.raises(ArgumentError) as error:
        register.invite(name, NOW)
    assert error.value.code == "PB-ARG-INVALID"
    assert "\x1b" not in error.value.message
    assert not file.exists()


def test_blanks_in_a_name_do_not_make_another_person() -> None:
    register.invite(f"  {ADA.replace(' ', '   ')}\n", NOW)
    register.invite(ADA, NOW)
    assert names() == [ADA]


# ── revoking ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("meant", ["ADA@EXAMPLE.ORG", " aDA "])
def test_a_person_is_revoked_by_name_or_mail_in_any_case(meant: str) -> None:
    token = register.invite(ADA, NOW)
    admitted = register.admit(register.invite(ADA, NOW), "x", NOW)
    assert admitted is not None
    register.invite(BOB, NOW)
    assert register.revoke(meant) == (ADA,)
    assert names() == [BOB]
    assert register.person_of(register.load(), admitted[0]) is None
    assert register.admit(token, "x", NOW) is None


@pytest.mark.parametrize("meant", ["", "A", "example.org"])
def test_a_part_of_a_name_revokes_no_one(meant: str) -> None:
    register.invite(ADA, NOW)
    assert register.revoke(meant) == ()
    assert names() == [ADA]


def test_all_people_of_a_name_are_revoked() -> None:
    for mail in ("ada@example.org", "ada@example.com"):
        register.invite(f"Ada <{mail}>", NOW)
    assert len(register.revoke("ada")) == 2


# ── the file ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"people": [{"name": "x", "invitations": [{}]}]}',
        '{"people": [{"invitations": []}]}',
        '{"repositories": [1]}',
        '{"people": [{"name": "x", "browsers": [{"digest": "é", "since": 1}]}]}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_an_error_and_is_kept(text: str, file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text)
    attempts: tuple[Callable[[], object], ...] = (
        register.load,
        lambda: register.invite(ADA, NOW),
        lambda: register.revoke("Ada"),
    )
    for attempt in attempts:
        with pytest.raises(StateError) as error:
            attempt()
        assert error.value.code == "PB-STATE-CORRUPT"
        assert str(file) in error.value.message
    assert file.read_text() == text


def test_a_file_that_is_no_file_or_far_too_large_is_an_error(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(PlaybookError):
        register.load()
    file.rmdir()
    file.write_text(" " * (1 << 21))
    with pytest.raises(PlaybookError, match="larger than"):
        register.load()


def test_an_empty_file_of_json_remembers_nothing(file: Path) -> None:
    file.parent.mkdir(parents=True)
    for text in ("{}", "[]", "null"):
        file.write_text(text)
        assert register.load() == register.Register()


# ── repositories ────────────────────────────────────────────────────────────────────────────


def test_a_repository_is_remembered_once_by_its_main_checkout(
    project: Project, tmp_path: Path, file: Path
) -> None:
    project.git("worktree", "add", "-q", str(tmp_path / "there"), "-b", "there")
    for folder in (project.root, project.root / "specs", tmp_path / "there"):
        assert register.add(folder) == project.root
    assert json.loads(file.read_text())["repositories"] == [str(project.root)]
    assert register.remove(project.root)
    assert not register.remove(project.root)
    assert register.load().repositories == ()


def test_a_repository_that_is_gone_can_be_removed(project: Project) -> None:
    register.add(project.root)
    project.root.rename(project.root.with_name("moved"))
    assert register.remove(project.root)


def test_a_folder_outside_of_a_repository_is_not_added(tmp_path: Path) -> None:
    with pytest.raises(StateError) as error:
        register.add(tmp_path)
    assert error.value.code == "PB-STATE-NO-REPOSITORY"
