"""One job in the files of four other systems: playbooks of their shape, and what becomes of them.

Each reads `notes.md`, has an agent or a program write something, and stops where a person decides.
"""

from __future__ import annotations

from typing import NamedTuple

from support.scratch_project import FEATURE, Project

NOTES = "Tea is out.\nBiscuits are not.\n"


class Shape(NamedTuple):
    """A playbook of another system, how it is begun, and how a run of it goes.

    `script` is what the embedded agent does. `writes` is the file that an agent writes, and what is
    in it; `gates` are the reasons of its gates, in order, and `made` the files at its end.
    """

    file: str
    text: str
    name: str
    args: tuple[str, ...]
    steps: tuple[str, ...]
    gates: tuple[str, ...]
    asked: tuple[str, ...]
    made: dict[str, str]
    script: str = "default: {say: done}\n"
    writes: tuple[str, str] = ("", "")

    def put(self, project: Project) -> None:
        """The file in a project that has what it works on."""
        project.write(self.file, self.text)
        project.write("notes.md", NOTES)
        project.write("send", '#!/bin/sh\ncat >"sent-$1"\n').chmod(0o755)
        project.commit("Add notes")

    def check(self, project: Project) -> None:
        """Assert that the run is over and went as it should."""
        manifest = project.manifest()
        assert (manifest["playbook"], manifest["status"]) == (self.name, "completed")
        journal = project.journal()
        assert tuple(entry["step_id"] for entry in journal) == self.steps
        assert {entry["status"] for entry in journal} == {"done"}
        gates = (gate["reason"] for entry in journal for gate in entry.get("gates", []))
        assert tuple(gates) == self.gates
        assert {path: project.read(path) for path in self.made} == self.made


TYRUM = Shape(
    file=".playbooks/playbooks/announce.yaml",
    text="""\
name: announce
args:
  channel:
    default: "all"
steps:
  - id: collect
    command: cli cat notes.md
  - id: send
    command: cli ./send {{channel}}
    stdin: $collect.stdout
    approval: required
  - id: thank
    command: cli echo thanks
    condition: $send.approved
""",
    name="announce",
    args=("channel=team",),
    steps=("collect", "send", "thank"),
    gates=("approval",),
    asked=("send needs your approval",),
    made={"sent-team": NOTES},
)

CATALYST = Shape(
    file=".playbooks/playbooks/digest-notes.yaml",
    text="""\
id: digest-notes
description: Digest the notes, and let a person look at them
owner: Engineer
reviewers:
  required: [Architect]
  optional: [Product Manager]
inputs:
  - name: title
    description: What the digest is called
    type: string
    required: true
    transform: kebab-case
steps:
  - id: digest
    name: Digest the notes
    type: ai-prompt
    config:
      prompt: Write the digest of notes.md to {{title}}.md.
      tools: [Read, Write]
    outputs: ["{{title}}.md"]
    errorPolicy: {default: fail}
  - id: look
    type: checkpoint
    config: {message: Is the digest right?}
  - id: store
    type: commit
    config: {message: "Add {{title}}", files: ["{{title}}.md"], no-push: true, no-pull: true}
outputs: ["{{title}}.md"]
""",
    name="digest-notes",
    args=("Out Of Tea",),
    steps=("digest", "look", "store"),
    gates=("tools", "checkpoint"),
    asked=("digest", "Is the digest right?"),
    made={"out-of-tea.md": "No tea.\n"},
    script='steps: {digest: {write: {out-of-tea.md: "No tea.\\n"}}}\n',
    writes=("out-of-tea.md", "No tea.\n"),
)

MARKDOWN = Shape(
    file=".playbooks/playbooks/shorten.md",
    text="""\
---
description: Shorten the notes
tools: [Read, Write]
outputs: [short.md]
inputs:
  - {name: lines, description: How long it may be, type: number, required: true}
limits: {timeout_seconds: 60}
---
# Shorten the notes

Read `notes.md` and write at most {{lines}} line to `short.md`.
""",
    name="shorten",
    args=("1",),
    steps=("prompt",),
    gates=("tools",),
    asked=("shorten",),
    made={"short.md": "No tea.\n"},
    script='steps: {prompt: {write: {short.md: "No tea.\\n"}}}\n',
    writes=("short.md", "No tea.\n"),
)

PLAN = f"specs/{FEATURE}/plan.md"
SPEC_KIT = Shape(
    file=".playbooks/playbooks/plan-it.yaml",
    text="""\
schema_version: "1.0"
workflow:
  id: plan-it
  name: Plan a feature
  version: "2.1.0"
  description: Plan, look at the plan, list the tasks
inputs:
  feature:
    type: string
    required: true
    prompt: Which feature?
steps:
  - id: plan
    command: speckit.plan
    input:
      args: "{{ inputs.feature }}"
  - id: review
    type: gate
    message: Is the plan right?
    options: [approve, reject]
    on_reject: abort
  - id: tasks
    command: speckit.tasks
""",
    name="plan-it",
    args=("013",),
    steps=("plan", "review", "tasks"),
    gates=("checkpoint",),
    asked=("Is the plan right?",),
    made={PLAN: "the plan\n", f"specs/{FEATURE}/tasks.md": "- [ ] T1\n"},
    script=f"""\
steps:
  plan: {{write: {{{PLAN}: "the plan\\n"}}}}
  tasks: {{write: {{specs/{FEATURE}/tasks.md: "- [ ] T1\\n"}}}}
""",
)

SHAPES = {"tyrum": TYRUM, "catalyst": CATALYST, "markdown": MARKDOWN, "spec-kit": SPEC_KIT}

INBOX = """\
name: inbox-triage
args:
  tag:
    default: "family"
steps:
  - id: collect
    command: cli inbox list --json
    output: json
  - id: categorize
    command: cli inbox categorize --json
    output: json
    stdin: $collect.stdout
  - id: approve
    command: cli inbox apply --approve
    stdin: $categorize.stdout
    approval: required
  - id: execute
    command: cli inbox apply --execute
    stdin: $categorize.stdout
    condition: $approve.approved
"""
"""The example of a workflow file, as Tyrum shows it."""
