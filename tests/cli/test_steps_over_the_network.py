"""Requests and tool calls as steps, through the real program, a web server and MCP servers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.scratch_project import Project
from support.web_server import Request, Site, served

SECRET = "s3cr3t-t0ken"
TOOLS = Path(__file__).parents[1] / "support/sdk_mcp_server.py"
PLAYBOOK = """\
name: triage
description: Fetches an issue, asks a tool about it, and sends what it says back.
version: "1.1"
args:
  - {name: issue, description: its number, required: true}
  - {name: site, description: where the issues are, required: true}
steps:
  - id: fetch
    command: http GET {{site}}/issues/{{issue}}
    autonomy: auto
    error_policy: {default: stop, PB-STEP-HTTP: "retry:1"}
    output: json
    output_schema: {type: object, required: [title]}
    with: {headers: {Authorization: "Bearer {{secret:TRACKER}}"}}
  - id: ask
    command: mcp tools.greet
    autonomy: auto
    error_policy: stop
    with: {arguments: {name: "issue {{issue}}"}}
  - id: send
    command: http POST {{site}}/comments
    autonomy: auto
    error_policy: stop
    stdin: $ask.stdout
    with: {expect_status: 201}
"""


@pytest.fixture
def site() -> Iterator[Site]:
    def issue(request: Request) -> None:
        allowed = request.headers["Authorization"] == f"Bearer {SECRET}"
        request.answer(json.dumps({"title": SECRET}), 200 if allowed else 401)

    pages = {"/issues/7": issue, "/comments": lambda request: request.answer("made", 201)}
    with served(pages) as site:
        yield site


@pytest.fixture
def triage(project: Project) -> Project:
    project.write(".playbooks/playbooks/triage.yaml", PLAYBOOK)
    server = {"command": sys.executable, "args": [str(TOOLS)]}
    project.write(".mcp.json", json.dumps({"mcpServers": {"tools": server}}))
    project.env["TRACKER"] = SECRET
    return project


def test_a_session_of_requests_and_tool_calls_is_journaled_without_secrets(
    triage: Project, site: Site
) -> None:
    """tyr 15, 17."""
    ran = triage.playbook("run", "triage", "7", site.url)
    assert ran.code == 0, ran.err
    assert [entry["status"] for entry in triage.journal()] == ["done"] * 3
    assert site.requests[-1].body == b"hello issue 7"
    assert triage.journal()[1]["output"] == "hello issue 7"
    assert triage.journal()[0]["output"] == '{"title": "[redacted]"}'
    kept = [path for path in triage.root.rglob("*") if path.is_file()]
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]


@pytest.mark.long
def test_an_unexpected_answer_is_tried_again_where_the_playbook_says_so(
    triage: Project, site: Site
) -> None:
    works = site.pages["/issues/7"]

    def busy(request: Request) -> None:
        site.pages["/issues/7"] = works
        request.answer("come back later", 503)

    site.pages["/issues/7"] = busy
    ran = triage.playbook("run", "triage", "7", site.url)
    assert ran.code == 0, ran.err
    first, second, *_ = triage.journal()
    assert (first["status"], first["error_code"]) == ("failed", "PB-STEP-HTTP")
    assert first["error"].endswith(
        "/issues/7 answers 503 Service Unavailable, not 2xx: come back later"
    )
    assert (second["status"], second["attempt"]) == ("done", 2)


def test_the_settings_of_the_project_bound_both(triage: Project, site: Site) -> None:
    """tyr 27."""
    triage.write(".playbooks/config.yaml", "deny: {mcp: [tools.*]}\n")
    ran = triage.playbook("run", "triage", "7", site.url)
    assert (ran.code, triage.sessions) == (3, [])
    assert "step ask: a step may not call 'tools.greet': `deny.mcp`" in ran.err
