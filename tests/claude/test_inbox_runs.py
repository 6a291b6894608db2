"""The real client asks, a person answers in the inbox, and the inbox goes on with the session."""

from __future__ import annotations

import re

from inbox.serving import serving
from inbox.test_answers import Page
from support.scratch_project import Project

from claude.runner import Headless
from claude.test_permission_runs import BASH, counted, first, gates, until_it_asks
from playbook_supervisor.system.process.process_groups import until


def add_setting(project: Project) -> None:
    """Let the inbox continue sessions, beside the settings that are there."""
    file = project.root / ".playbooks/config.yaml"
    former = file.read_text() if file.exists() else ""
    file.write_text(f"{former}inbox: {{resume: true}}\n")


def over(project: Project) -> bool:
    return bool(project.manifest()["status"] == "completed")


def test_an_answer_in_the_inbox_continues_the_conversation(
    headless: Headless, project: Project
) -> None:
    headless(first(BASH))
    add_setting(project)
    until_it_asks(project)
    with serving(project) as served, served.visitor() as client:
        done = Page(served, client).answer("allow")
        assert done.status_code == 303, done.text
        assert re.search(r"after=resumed$", done.headers["location"])
        assert until(lambda: over(project), 60), project.manifest()
    (entry,) = project.journal()
    assert gates(project) == [("permission", "allow")]
    assert entry["gates"][0]["via"] == "inbox"
    assert entry["agent"]["id"] == entry["gates"][0]["request"]["conversation"]
    assert counted(project) == 1
    assert project.playbook("audit").code == 0
