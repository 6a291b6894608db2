"""`graph`: playbooks and sessions as Mermaid flowcharts."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from support.document_examples import REPOSITORY
from support.hypothesis_strategies import entries, playbooks
from support.scratch_project import FEATURE, Project

from playbook_supervisor.cli.render.flowchart import flowchart
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import Autonomy, SessionStatus
from playbook_supervisor.project.playbooks.schema import read_playbook
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.manifest import Manifest

_NAME = r"(?:begin|finish|[sabj]\d+)"
_LABEL = r'"(?:[^"#&<>`\\%$;]|#\d+;|</?b>|<br/>)*"'
_ARROW = r'(?:-->|-\.->)(?:\|(?:[a-z]+|"[a-z_, ]+")\|)?'
_LINES = [
    re.compile(pattern + r"\Z")
    for pattern in (
        rf"  {_NAME}(?:\(\[{_LABEL}\]\)|\[{_LABEL}\]|\{{\{{{_LABEL}\}}\}})(?::::[a-z_]+)?",
        r'  j\d+\(\(" "\)\)',
        rf"  {_NAME} {_ARROW} {_NAME}",
        rf"  subgraph g\d+\[{_LABEL}\]",
        r"  end",
        r"  class finish (?:done|failed)",
        r"  classDef [a-z_]+ [-a-z0-9:#, ]+",
    )
]


def _grammatical(chart: str) -> None:
    """Every line is valid Mermaid, and every arrow connects existing nodes."""
    first, *lines = chart.split("\n")
    assert first == "flowchart TD"
    for line in lines:
        assert any(form.match(line) for form in _LINES), line
    drawn = set(re.findall(rf"^  ({_NAME})[(\[{{]", chart, re.MULTILINE))
    joined = re.findall(rf"^  ({_NAME}) {_ARROW} ({_NAME})$", chart, re.MULTILINE)
    assert {name for pair in joined for name in pair} == drawn
    assert lines.count("  end") == sum(line.startswith("  subgraph ") for line in lines)


@settings(max_examples=20)
@given(playbooks(), st.data())
def test_any_playbook_in_any_state_is_valid_mermaid(
    playbook: Playbook, data: st.DataObject
) -> None:
    _grammatical(flowchart(playbook))
    seen: tuple[Entry, ...] = tuple(data.draw(st.lists(entries(), max_size=4)))
    status = data.draw(st.sampled_from([*SessionStatus]))
    names = [step.id for step in playbook.steps]
    seen = tuple(replace(entry, step_id=data.draw(st.sampled_from(names))) for entry in seen)
    manifest = Manifest("20260219-a7k", playbook.name, "", {}, status, 0)
    _grammatical(flowchart(playbook, seen, manifest))


def test_the_chart_in_the_documents_is_current() -> None:
    document = (REPOSITORY / "docs" / "pictures.md").read_text("utf-8")
    data = (REPOSITORY / "templates" / "playbooks" / "auto-validate.yaml").read_bytes()
    assert f"```mermaid\n{flowchart(read_playbook(data, 'it'))}\n```" in document


class TestThePlaybook:
    def test_says_what_an_error_policy_does_that_neither_stops_nor_asks(self) -> None:
        policies = ("continue", "retry:3", {"default": "stop", "PB-STEP-FAILED": "gate"})
        steps = tuple(
            Step(f"s{number}", "cli true", Autonomy.AUTO, ErrorPolicy.read(policy))
            for number, policy in enumerate(policies)
        )
        drawn = flowchart(Playbook("p", "Policies.", "1.1", (), steps))
        assert "on failure: continue" in drawn
        assert "on failure: retry:3" in drawn
        assert "on failure: PB-STEP-FAILED gate, else stop" in drawn
        assert '|"PB-STEP-FAILED"|' in drawn

    def test_shows_gates_and_their_choices(self, project: Project) -> None:
        drawn = project.playbook("graph", "auto-feature")
        assert (drawn.code, drawn.err) == (0, "")
        _grammatical(drawn.out.rstrip("\n"))
        assert '  s1["<b>plan</b><br/>/speckit.plan<br/>needs spec_exists<br/>' in drawn.out
        assert '  s5 -.->|"it fails, agreement_breaking"| a5' in drawn.out
        assert "  b8 -->|continue| s8\n" in drawn.out
        assert "  b8 -.->|skip| finish\n" in drawn.out
        assert "on failure: retry once, then stop" in drawn.out
        assert project.sessions == []

    def test_frames_parallel_groups_and_joins_them(self, project: Project) -> None:
        steps = "".join(
            f"  - {{id: {name}, command: /x, autonomy: {how}, error_policy: stop{more}}}\n"
            for name, how, more in (
                ("a", "auto", ", parallel_group: first"),
                ("b", "skip", ", parallel_group: first"),
                ("c", "auto", ", parallel_group: second"),
                ("d", "auto", ", parallel_group: second"),
            )
        )
        head = 'name: groups\ndescription: d\nversion: "1.0"\nargs: []\nsteps:\n'
        project.write("groups.yaml", head + steps)
        drawn = project.playbook("graph", "./groups.yaml")
        assert drawn.code == 0
        assert '  subgraph g1["in parallel: first"]' in drawn.out
        assert '  s2["<b>b</b><br/>/x<br/>– skipped by the playbook"]:::skipped' in drawn.out
        assert "  j1 --> s3\n  j1 --> s4\n" in drawn.out


class TestTheSession:
    def test_shows_the_progress_and_the_open_gate(self, project: Project) -> None:
        agent = project.script(f"""
            steps:
              qa-plan: {{write: {{.qa/{FEATURE}/test-plan.md: "# Plan"}}}}
              qa-run: {{write: {{.qa/{FEATURE}/verdict.md: "**Verdict**: FAIL"}}}}
        """)
        run = project.playbook("run", "auto-validate", FEATURE, "--agent", agent)
        assert run.code == 4, run.err
        (folder,) = project.sessions
        (project.root / ".playbooks/playbooks/auto-validate.yaml").write_text("gone")
        waiting = project.playbook("graph", "--session", folder.name)
        assert waiting.code == 0, waiting.err
        _grammatical(waiting.out.rstrip("\n"))
        assert re.search(r"✓ done · [0-9.]+ s\"\]:::done", waiting.out)
        assert '  a2{{"◆ waits for a human"}}:::waiting' in waiting.out
        assert "◆ at its gate" in waiting.out
        assert "class finish" not in waiting.out
        assert project.playbook("answer", "accept").code == 0
        assert project.playbook("resume").code == 0
        ended = project.playbook("graph", "auto-validate", "--session", folder.name)
        assert "  class finish done" in ended.out
        project.write("copy.yaml", (folder / "playbook.yaml").read_text())
        named = project.playbook("graph", "./copy.yaml", "--session", folder.name)
        assert named.out == ended.out

    def test_is_refused_for_a_session_of_another_playbook(self, project: Project) -> None:
        agent = project.script("steps: {qa-plan: {fail: no}}")
        project.playbook("run", "auto-validate", FEATURE, "--agent", agent)
        (folder,) = project.sessions
        other = project.playbook("graph", "auto-feature", "--session", folder.name)
        assert (other.code, other.out) == (1, "")
        assert f"session {folder.name} runs auto-validate, not auto-feature" in other.err
        none = project.playbook("graph")
        assert (none.code, none.out) == (1, "")
        assert "neither a playbook nor a session is named" in none.err
        assert project.playbook("graph", "no-such").code == 1
        assert project.playbook("graph", "--session", "20260101-aaa").code == 3
        (folder / "journal.yaml").write_text("entries: [")
        broken = project.playbook("graph", "--session", folder.name)
        assert (broken.code, broken.out) == (3, "")
