"""The commands beside the pages: repositories, people, and where the inbox listens."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from cli.terminal import Terminal
from support.scratch_project import Project

from inbox.serving import serving

pytestmark = pytest.mark.measured

ADA = "Ada <ada@example.org>"


@pytest.fixture
def shop(project: Project) -> Path:
    root = project.root.with_name("shop")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def test_other_repositories_are_added_and_removed(project: Project, shop: Path) -> None:
    assert project.playbook("inbox", "add", str(shop)).err == f"added: {shop}\n"
    (shop / "src").mkdir()
    assert project.playbook("inbox", "add", str(shop / "src")).code == 0
    assert project.playbook("inbox", "list").out == f"repository  {shop}\n"
    assert project.playbook("inbox", "remove", str(shop)).code == 0
    empty = project.playbook("inbox", "list")
    assert (empty.out, "no repository was added" in empty.err) == ("", True)
    again = project.playbook("inbox", "remove", str(shop))
    assert (again.code, "is not among the repositories" in again.err) == (1, True)


def test_what_is_no_repository_is_not_added(project: Project, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    refused = project.playbook("inbox", "add", str(tmp_path / "plain"))
    assert (refused.code, "is not in a git repository" in refused.err) == (3, True)


def test_outside_of_a_repository_it_shows_those_that_were_added(
    project: Project, shop: Path, tmp_path: Path
) -> None:
    assert project.playbook("inbox", "add", str(shop)).code == 0
    (tmp_path / "elsewhere").mkdir()
    elsewhere = Project(tmp_path / "elsewhere", project.home)
    with serving(elsewhere) as served, served.visitor() as client:
        assert client.get("/").status_code == 200


class TestPeople:
    def test_an_invitation_is_printed_with_a_code_and_listed(self, project: Project) -> None:
        url = "https://inbox.example.org"
        with Terminal(project, "inbox", "invite", ADA, "--url", url) as invitation:
            said = invitation.until("It works once")
            assert invitation.end() == 0
        (token,) = re.findall(rf"{url}/enter\?token=(\S+)", said)
        assert "█" in said
        listed = project.playbook("inbox", "list").out
        assert listed == f"person      {ADA}: 1 unused link\n"
        kept = next(project.home.rglob("inbox.json"))
        assert token not in kept.read_text()
        assert kept.stat().st_mode & 0o777 == 0o600
        assert project.playbook("inbox", "revoke", "ADA@example.org").err == f"revoked: {ADA}\n"
        gone = project.playbook("inbox", "revoke", ADA)
        assert (gone.code, "is not invited" in gone.err) == (1, True)

    def test_the_address_may_be_a_setting(self, project: Project) -> None:
        project.write(".playbooks/config.yaml", "inbox: {url: https://box.example.org}\n")
        with Terminal(project, "inbox", "invite", ADA) as invitation:
            invitation.until("https://box.example.org/enter?token=")
            assert invitation.end() == 0

    @pytest.mark.parametrize(
        ("name", "args", "said"),
        [
            ("Ada", ("--url", "https://x.example"), "is not a person"),
            (ADA, (), "where people reach the inbox is not known"),
            (ADA, ("--url", "ftp://x.example"), "is no address of an inbox"),
        ],
    )
    def test_what_cannot_be_a_person_or_an_address_is_refused(
        self, name: str, args: tuple[str, ...], said: str, project: Project
    ) -> None:
        with Terminal(project, "inbox", "invite", name, *args) as invitation:
            invitation.until(said)
            assert invitation.end() == 1

    def test_only_a_person_at_a_terminal_invites(self, project: Project) -> None:
        refused = project.playbook("inbox", "invite", ADA, "--url", "https://x.example")
        assert (refused.code, "[PB-STATE-HUMAN-ONLY]" in refused.err) == (3, True)


class TestListening:
    def test_a_port_that_is_taken_is_named(self, project: Project) -> None:
        with serving(project) as served:
            port = served.url.rpartition(":")[2]
            refused = project.playbook("inbox", "--port", port)
            assert refused.code == 1
            assert "cannot listen at 127.0.0.1" in refused.err
            assert "--port 0" in refused.err

    def test_without_a_terminal_no_link_is_printed(self, project: Project) -> None:
        with project.spawn("inbox", "--port", "0") as inbox:
            assert inbox.stderr
            lines = [inbox.stderr.readline().decode() for _ in range(2)]
            inbox.terminate()
            out, _ = inbox.communicate(timeout=30)
        assert lines[0].startswith("the inbox is at http://127.0.0.1:")
        assert lines[1].startswith("note: no link is printed")
        assert out == b""
