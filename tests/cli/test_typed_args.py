"""Typed args of version 1.1, from the command line to what is kept of them."""

from __future__ import annotations

import sys

import pytest
from support.scratch_project import Project

TOKEN = "correct-horse-battery-staple"
TYPED = f"""\
name: release
description: Publish a release
version: "1.1"
args:
  - {{name: title, description: What it is about, required: true, transform: kebab-case}}
  - {{name: level, description: How far it goes, required: false, type: enum,
     values: [patch, minor], default: patch}}
  - {{name: draft, description: Whether it is a draft, required: false, type: boolean}}
  - {{name: token, description: For the forge, required: true, secret: true}}
steps:
  - id: publish
    command: cli {sys.executable} -c 'import os; print(os.environ["T"], "{{{{title}}}}")'
    autonomy: auto
    error_policy: stop
    with: {{env: {{T: "{{{{token}}}}"}}}}
"""


@pytest.fixture
def typed(project: Project) -> Project:
    project.write(".playbooks/playbooks/release.yaml", TYPED)
    return project


def test_what_a_playbook_takes_is_listed_with_types_and_defaults(typed: Project) -> None:
    listed = typed.playbook("list").out
    assert "<title> [level=patch] [draft=true|false] <token>" in listed
    shapes = {each["name"]: each for each in typed.playbook("list", "--json").json["playbooks"]}
    assert shapes["release"]["args"][1] == {
        "name": "level",
        "description": "How far it goes",
        "required": False,
        "type": "enum",
        "values": ["patch", "minor"],
        "default": "patch",
    }
    assert shapes["release"]["args"][3]["secret"] is True


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("playbook run release ", "title= level=patch level=minor draft=true draft=false token="),
        ("playbook run release Title draft=true ", "level=patch level=minor token="),
    ],
)
def test_args_are_completed_with_their_values(typed: Project, words: str, completed: str) -> None:
    given = words.split(" ")
    env = {
        "_PLAYBOOK_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(given) - 1),
    }
    out = typed.playbook(env=env).out
    assert [line.partition(",")[2] for line in out.split()] == completed.split()


def test_everything_that_is_wrong_comes_in_one_error_and_nothing_begins(typed: Project) -> None:
    """cat FR-2.1, FR-2.6."""
    refused = typed.playbook("run", "release", "?!", "level=major", "draft=perhaps")
    assert refused.code == 1
    for said in (
        "title has no letter",
        "level must be one of",
        "draft must be",
        "token is missing",
    ):
        assert said in refused.err
    assert "For example: playbook run release TITLE [level=patch] [draft=true] TOKEN" in refused.err
    assert not typed.sessions


def test_a_pasted_secret_is_refused_before_anything_is_written(typed: Project) -> None:
    """tyr 28."""
    refused = typed.playbook("run", "release", "Big Title", f"token={TOKEN.replace('-', '_')}")
    assert refused.code == 1
    assert "token must be the name of a secret" in refused.err
    assert "correct" not in refused.out + refused.err
    assert not typed.sessions


def test_a_session_keeps_the_final_values_and_never_a_secret(typed: Project) -> None:
    """cat FR-2.3, FR-2.5."""
    ran = typed.playbook("run", "release", "Big Title!", "token=DEPLOY", env={"DEPLOY": TOKEN})
    assert ran.code == 0, ran.err
    session = (typed.session / "session.yaml").read_text()
    assert "title: big-title" in session
    assert "level: patch" in session
    assert "token: DEPLOY" in session
    assert typed.journal()[0]["output"] == "[redacted] big-title"
    kept = [path for path in typed.root.rglob("*") if path.is_file()]
    assert not [path for path in kept if TOKEN.encode() in path.read_bytes()]


def test_a_secret_that_is_gone_by_then_fails_its_step_before_it_runs(typed: Project) -> None:
    config = f"secrets: {{DEPLOY: ['{sys.executable}', '-c', 'raise SystemExit(3)']}}\n"
    typed.write(".playbooks/config.yaml", config)
    ran = typed.playbook("run", "release", "x", "token=DEPLOY")
    assert ran.code == 2
    (entry,) = typed.journal()
    assert entry["error_code"] == "PB-STEP-SECRET"
    assert "ended with exit status 3" in entry["error"]


def test_a_feature_that_was_resolved_must_still_fit_its_arg(typed: Project) -> None:
    """`013` is the number of a feature, and what it stands for is none."""
    numbered = TYPED.replace("name: title,", "name: feature,").replace("{title}", "{feature}")
    numbered = numbered.replace("transform: kebab-case", "type: number")
    typed.write(".playbooks/playbooks/release.yaml", numbered)
    typed.write("specs/013-playbook-create/spec.md", "# Spec")
    refused = typed.playbook("run", "release", "013", "token=DEPLOY", env={"DEPLOY": TOKEN})
    assert refused.code == 1
    assert 'feature must be a number, not "013-playbook-create"' in refused.err
    assert not typed.sessions
