"""Scripts of the embedded agent, and a check of JSON output."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from playbook_supervisor.project.playbooks.schema import schema_text

WORKS = """
steps:
  plan:
    say: the plan is written
    write: {"specs/{{feature}}/plan.md": "# Plan\\n"}
  tasks:
    write: {"specs/{{feature}}/tasks.md": "# Tasks\\n"}
  agreement:
    write: {".agreements/{{feature}}/agreement.yaml": "feature: x\\n"}
  implement:
    - fail: one test is red
    - say: all tests are green
      write: {"made.py": "1\\n"}
  agreement-check:
    write: {".agreements/{{feature}}/check-report.md": "---\\nverdict: PASS\\n---\\n"}
  qa-plan:
    write: {".qa/{{feature}}/test-plan.md": "# Plan\\n"}
  qa-run:
    write: {".qa/{{feature}}/verdict.md": "---\\nverdict: PASS\\n---\\n"}
  pr: {}
"""
"""Carries auto-feature and auto-validate to their ends; `implement` fails once."""

FAILS = """
default: {fail: "the disk \\e[31mcaught\\e[0m fire"}
"""

HANGS = """
default: {say: I am thinking, hang: true}
"""

GATED = """\
name: gated
description: One step behind a gate
version: "1.0"
args: []
steps:
  - id: publish
    command: /feature.pr
    autonomy: gate_always
    error_policy: stop
"""

LONG = """\
name: long
description: One step that takes its time
version: "1.0"
args: []
steps:
  - id: think
    command: /qa.plan
    autonomy: auto
    error_policy: stop
"""


def conforms(name: str, shape: Any) -> Any:
    """The object, checked against the JSON Schema of that name."""
    validator = jsonschema.Draft7Validator(json.loads(schema_text(name)))
    assert not [error.message for error in validator.iter_errors(shape)]
    return shape
