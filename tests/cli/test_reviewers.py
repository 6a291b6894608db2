"""The end of a run says who is to review what it made (cat FR-1.2)."""

from __future__ import annotations

import pytest
from support.scratch_project import Project

REVIEWED = """\
name: notes
description: Write the notes
version: "1.1"
owner: the docs team
reviewers: {required: [architect], optional: ["@ann"]}
args: []
steps: [{id: write, command: cli CHECK, autonomy: auto, error_policy: stop}]
"""


@pytest.mark.parametrize(("program", "said"), [("true", True), ("false", False)])
def test_a_completed_run_says_who_is_to_review_it_and_a_failed_one_does_not(
    project: Project, program: str, said: bool
) -> None:
    project.write(".playbooks/playbooks/notes.yaml", REVIEWED.replace("CHECK", program))
    ended = project.playbook("run", "notes")
    assert ended.code == (0 if said else 2)
    assert ("; to review: architect, @ann (optional)\n" in ended.err) is said
    assert ("to review" in ended.err) is said


def test_listings_and_a_session_name_owner_and_reviewers(project: Project) -> None:
    project.write(".playbooks/playbooks/notes.yaml", REVIEWED.replace("CHECK", "true"))
    project.write(".playbooks/playbooks/broken.yaml", "name: broken\n")
    people = {
        "owner": "the docs team",
        "reviewers": {"required": ["architect"], "optional": ["@ann"]},
    }
    listed = {each["name"]: each for each in project.playbook("list", "--json").json["playbooks"]}
    assert {key: listed["notes"].get(key) for key in people} == people
    assert "owner" not in listed["broken"]
    assert project.playbook("run", "notes").code == 0
    shown = project.playbook("show", "--json").json
    assert {key: shown.get(key) for key in people} == people
    said = project.playbook("show").out
    assert "  owner: the docs team\n  to review: architect, @ann (optional)\n" in said
    page = project.playbook("show", "--html", "-").out
    assert "the docs team" in page
    assert "architect, @ann (optional)" in page
