"""The end of a run says who is to review what it made (cat FR-1.2)."""

from __future__ import annotations

import pytest
from project import Project

REVIEWED = """\
name: notes
description: Write the notes
version: "1.1"
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
