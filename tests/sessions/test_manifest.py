"""The manifest of a session, ours or of kai's own tools."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from ruamel.yaml import YAML
from support.hypothesis_strategies import manifests

from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.manifest import (
    SESSION_ID,
    Manifest,
    Waiting,
    emit_manifest,
    read_manifest,
    update_manifest,
)

GATE = Waiting("implement#1?1", "postcondition_fail", "Mended?\nThen say continue.", 1771496426104)
OPEN = Manifest(
    session_id="20260219-a7k",
    playbook="auto-feature",
    feature="013-playbook-create",
    args={"feature": "013-playbook-create"},
    status=SessionStatus.IN_PROGRESS,
    started_at=1771495200000,
    current_step="implement",
    worktree="../kai-session-20260219-a7k",
    branch="013-playbook-create",
    gate=GATE,
)
WRITTEN = b"""\
schema: 1
session_id: 20260219-a7k
playbook: auto-feature
feature: 013-playbook-create
args: {feature: 013-playbook-create}
status: in_progress
started_at: "2026-02-19T10:00:00.000Z"
completed_at: ""
current_step: implement
worktree: ../kai-session-20260219-a7k
branch: 013-playbook-create
gate:
  id: "implement#1?1"
  reason: postcondition_fail
  question: "Mended?\\nThen say continue."
  opened_at: "2026-02-19T10:20:26.104Z"
"""
KAI = b"""\
session_id: "20260219-x1y"
playbook: "auto-feature"
feature: "012-playbook-supervisor"
args:
  feature: "012-playbook-supervisor"   # resolved
status: "in_progress"
started_at: "2026-02-19T09:00:00Z"
completed_at: ""
current_step: "tasks"
worktree: ""
"""


def read(data: bytes) -> Manifest:
    return read_manifest(data, "session.yaml")


def test_a_manifest_is_readable() -> None:
    """kai FR12, D-SE; cat FR-7.2, E-5: every key, empty where there is nothing."""
    assert emit_manifest(OPEN) == WRITTEN
    assert read(WRITTEN) == OPEN


@given(manifests())
def test_reading_inverts_writing(manifest: Manifest) -> None:
    data = emit_manifest(manifest)
    assert read(data) == manifest
    assert yaml.safe_load(data) == YAML(typ="safe", pure=True).load(data)


@given(manifests(), manifests())
def test_an_update_of_an_untouched_manifest_is_the_new_one(old: Manifest, new: Manifest) -> None:
    assert update_manifest(emit_manifest(old), old, new) == emit_manifest(new)


def test_a_session_of_kais_own_tools_loads() -> None:
    """No `schema`, empty strings, no `branch`."""
    manifest = read(KAI)
    assert manifest.legacy
    assert (manifest.branch, manifest.worktree, manifest.completed_at) == ("", "", None)
    assert manifest.args == {"feature": "012-playbook-supervisor"}
    assert manifest.started_at == 1771491600000


def test_updates_keep_a_persons_notes() -> None:
    touched = b"# ours\n" + WRITTEN.replace(b"status: in", b"ticket: ABC-1  # note\nstatus: in")
    done = replace(
        OPEN, status=SessionStatus.COMPLETED, completed_at=1771496426104, current_step="", gate=None
    )
    ended = update_manifest(touched, OPEN, done)
    assert read(ended) == done
    assert ended == b"# ours\n" + emit_manifest(done).replace(
        b"status: c", b"ticket: ABC-1  # note\nstatus: c"
    )
    assert update_manifest(ended, done, OPEN) == touched


@pytest.mark.parametrize(
    ("old", "new", "where", "why"),
    [
        (b"schema: 1", b"schema: [1]", "1:9", "must be a whole number, not a list"),
        (b"20260219-a7k\np", b"../../etc\np", "2:13", "three of [a-z0-9]"),
        (b"playbook: auto-feature\n", b"", "1:1", "playbook: is missing"),
        (b"{feature: 013-playbook-create}", b"[a]", "5:7", "args: must be a mapping, not a list"),
        (b"{feature: 013-playbook-create}", b"{f: [a]}", "5:7", "args: in it, f: must be text"),
        (b"status: in_progress", b"status: busy", "6:9", "'busy' is not one of pending"),
        (b'"2026-02-19T10:00:00.000Z"', b"today", "7:13", "not an ISO 8601 time"),
        (b"reason: postcondition_fail", b"reasons: x", "13:3", "gate: in it, reason: is missing"),
        (b"schema: 1", b"a: &x 1", "1:4", "anchor"),
        (WRITTEN, b"- a\n", "1:1", "session_id: is missing"),
    ],
)
def test_a_manifest_that_cannot_be_read_says_where_and_why(
    old: bytes, new: bytes, where: str, why: str
) -> None:
    with pytest.raises(StateError) as caught:
        read(WRITTEN.replace(old, new))
    assert caught.value.code == "PB-STATE-CORRUPT"
    assert caught.value.where == f"session.yaml:{where}"
    assert why in caught.value.message


@pytest.mark.parametrize("text", ["20260219-a7k\n", "2026021-a7kk", "20260219-a7", "x20260219-a7k"])
def test_only_a_whole_id_is_an_id(text: str) -> None:
    assert SESSION_ID.match("20260219-a7k")
    assert not SESSION_ID.match(text)
