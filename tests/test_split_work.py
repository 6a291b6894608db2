"""Large work in parts: one playbook runs another for each part, and each opens its pull request."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scratch_project import FEATURE, Project, remote
from support.stand_in_forge import Forge

ROLLOUT = """\
name: rollout
description: Research, specify and document, each in a pull request of its own
version: "1.1"
args: [{name: phases, description: What is to be done, required: true}]
defaults: {autonomy: auto, error_policy: stop}
steps:
  - id: each
    command: playbook phase
    for_each: {in: $phases, as: phase, max: 5}
    with: {args: {phase: "{{phase}}"}}
  - {id: tell, command: cli cat, stdin: $each.stdout}
"""
PHASE = """\
name: phase
description: One phase
version: "1.1"
args: [{name: phase, description: Its name, required: true, transform: kebab-case}]
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: branch, command: "branch {{phase}}", with: {create: required, base: main}}
  - {id: write, command: "cli touch {{phase}}.md", outputs: []}
  - {id: fill, command: "cli cp README.md {{phase}}.md", outputs: ["{{phase}}.md"]}
  - {id: commit, command: commit, with: {message: "Add {{phase}}", paths: ["{{phase}}.md"]}}
  - {id: look, command: checkpoint, with: {message: "Open the pull request of {{phase}}?"}}
  - {id: open, command: pr, with: {title: "Add {{phase}}", base: main}}
"""


def test_each_part_is_a_playbook_with_a_pull_request_of_its_own(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cat SC-3; kai P2-4: begun once, decided once for each part, in one journal."""
    forge = Forge(tmp_path / "forge", monkeypatch)
    bare = remote(project)
    project.write(".playbooks/playbooks/rollout.yaml", ROLLOUT)
    project.write(".playbooks/playbooks/phase.yaml", PHASE)
    project.commit("Add the rollout")
    project.git("branch", "-f", "main", FEATURE)
    project.git("push", "-q", "origin", "main")
    done = project.playbook("run", "rollout", "research 'the spec'")
    for _ in range(2):
        assert done.code == 4, done.err
        assert project.playbook("answer", "continue").code == 0
        done = project.playbook("resume")
        assert "is checked out" not in done.err
    assert done.code == 0, done.err
    assert [call[2:] for call in forge.created] == [
        ["--title=Add research", "--body-file=-", "--head=research", "--base=main"],
        ["--title=Add the-spec", "--body-file=-", "--head=the-spec", "--base=main"],
    ]
    assert "research.md" in bare.git("ls-tree", "--name-only", "research").splitlines()
    assert "research.md" not in bare.git("ls-tree", "--name-only", "the-spec").splitlines()
    assert project.playbook("audit", "--all").code == 0
