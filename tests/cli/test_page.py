"""`show --html`: a session as a self-contained, inert page."""

from __future__ import annotations

import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hypothesis_strategies import entries, manifests, playbooks
from support.scratch_project import FEATURE, Project

from playbook_supervisor.cli.render.html import chart, page
from playbook_supervisor.commands.overview import SessionOverview
from playbook_supervisor.commands.views.queries import SessionView
from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry, Gate
from playbook_supervisor.kernel.vocabulary import (
    Decision,
    EntryStatus,
    GateReason,
    Place,
    SessionStatus,
)
from playbook_supervisor.project.policies.session_policy import Policy
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.manifest import Manifest
from playbook_supervisor.sessions.steps.step_runs import waited_ms
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.git import checkout

REQUIRED = "PLAYBOOK_REQUIRE_BROWSER"
"""Set if the test must not be skipped without a browser."""
_VOID = {"meta"}
_HOSTILE = "</style><script>alert(1)</script><img src=x onerror='alert(2)'>\x1b[31m\u202e"


class _Page(HTMLParser):
    """The parsed page; fails if its elements are not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.style = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.style += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def _page_of(
    seen: SessionOverview,
    journal: Sequence[Entry],
    playbook: Playbook | None = None,
    said: StateError | None = None,
    *,
    now: int,
) -> str:
    return page(SessionView(seen, tuple(journal), playbook, Policy(), said), now)


def _inert(text: str) -> _Page:
    """The parsed page, checked to run and fetch nothing, and to forbid it."""
    read = _Page(text)
    assert not {"script", "img", "link", "iframe", "object", "form", "base"} & set(read.tags)
    for name, value in read.attributes:
        assert not name.startswith("on")
        assert name not in {"src", "style", "srcset", "action"}
        assert name != "href" or value.startswith("#")
    (policy,) = (value for _, value in read.attributes if value.startswith("default-src"))
    digest = b64encode(sha256(read.style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert not {"\x1b", "\u202e", "\x00"} & set(text)
    return read


@settings(max_examples=15)  # each of them is a whole page
@given(manifests(), playbooks(), st.lists(entries(), max_size=4), st.booleans())
def test_any_session_is_an_inert_page(
    manifest: Manifest, playbook: Playbook, journal: list[Entry], whole: bool
) -> None:
    here = checkout.Checkout(Path("/p"), Path("/p/.git"), Path("/p/.git"), "main", "")
    seen = SessionOverview(DiskStore(here), manifest.session_id, manifest if whole else None)
    said = None if whole else StateError("PB-STATE-CORRUPT", _HOSTILE)
    read = _inert(_page_of(seen, journal, playbook if whole else None, said, now=1_800_000_000_000))
    for entry in journal:
        assert entry.id in read.text
        for gate in entry.gates:
            assert printable(gate.id, keep_newlines=True) in read.text
    assert ("Part of this session cannot be read" in read.text) is not whole


def test_shows_reported_costs() -> None:
    here = checkout.Checkout(Path("/p"), Path("/p/.git"), Path("/p/.git"), "main", "")
    manifest = Manifest("20260219-a7k", "p", "", {}, SessionStatus.IN_PROGRESS, 0, worktree="../w")
    agent: dict[str, str | int | float] = {
        "name": "claude",
        "model": "opus-4",
        "cost_usd": 0.5,
        "turns": 7,
        "input_tokens": 1200,
    }
    entry = Entry("plan", EntryStatus.DONE, Decision.AUTO, 0, completed_at=60_000, agent=agent)
    seen = SessionOverview(DiskStore(here), manifest.session_id, manifest)
    read = _inert(_page_of(seen, [entry], now=120_000))
    for said in (
        "0.50 USD",
        "1.2k tokens in",
        "claude, opus-4, 0.50 USD, 1.2k tokens in, 0 out, 7 turns",
        "../w",
        "2 min",
    ):
        assert said in read.text, said


def _with_long_names() -> str:
    """A page of a session with hostile step names."""
    here = checkout.Checkout(Path("/p"), Path("/p/.git"), Path("/p/.git"), "main", "")
    manifest = Manifest("20260219-a7k", "p" * 90, "", {}, SessionStatus.IN_PROGRESS, 0)
    tried = [
        Entry("m" * 90, EntryStatus.FAILED, Decision.AUTO, 0, completed_at=726_000),
        Entry("m" * 90, EntryStatus.DONE, Decision.AUTO, 0, attempt=2, completed_at=726_000),
    ]
    seen = SessionOverview(DiskStore(here), manifest.session_id, manifest)
    return _page_of(seen, tried, now=800_000)


def test_a_long_name_is_complete_in_its_title() -> None:
    text = _with_long_names()
    read = _inert(text)
    assert ("title", f"{'m' * 90}#2") in read.attributes
    assert f"<h3>{'m' * 90}#2</h3>" in text
    assert "<span>#2</span>" in text, "which attempt it was is never cut away"


def test_a_gate_that_still_waits_counts_as_waiting() -> None:
    here = checkout.Checkout(Path("/p"), Path("/p/.git"), Path("/p/.git"), "main", "")
    manifest = Manifest("20260219-a7k", "p", "", {}, SessionStatus.IN_PROGRESS, 0)
    gates = (
        Gate("pr#1?1", GateReason.GATE_ALWAYS, Place.BEFORE, 0, 60_000),
        Gate("pr#1?2", GateReason.SUBAGENT_ERROR, Place.AFTER, 120_000),
    )
    entry = Entry("pr", EntryStatus.IN_PROGRESS, Decision.GATE, 0, gates=gates)
    seen = SessionOverview(DiskStore(here), manifest.session_id, manifest)
    text = _page_of(seen, [entry], now=300_000)
    assert "<dt>At gates</dt><dd>4 min</dd>" in text


def test_backticks_become_code_elements() -> None:
    here = checkout.Checkout(Path("/p"), Path("/p/.git"), Path("/p/.git"), "main", "")
    manifest = Manifest("20260219-a7k", "p", "", {}, SessionStatus.FAILED, 0)
    entry = Entry(
        "plan",
        EntryStatus.FAILED,
        Decision.AUTO,
        0,
        completed_at=60_000,
        error="`<b>` is a ` alone",
        error_guidance="Mend it, then `playbook resume --retry`.",
    )
    seen = SessionOverview(DiskStore(here), manifest.session_id, manifest)
    text = _page_of(seen, [entry], now=120_000)
    assert "Mend it, then <code>playbook resume --retry</code>." in text
    assert "<code>&lt;b&gt;</code> is a ` alone" in text


def test_an_attempt_without_an_end_time_does_not_last_until_now() -> None:
    """Other tools write skipped steps like this."""
    plan = Entry("plan", EntryStatus.DONE, Decision.AUTO, 0, completed_at=60_000)
    skipped = Entry("qa", EntryStatus.SKIPPED, Decision.SKIPPED, 20_000)
    drawn = chart([plan, skipped], 0, now=120_000)
    assert [bar.spans[0].width for bar in drawn.bars] == [100, 0.4]


def test_an_agent_that_waits_for_a_person_is_drawn_over_its_work() -> None:
    gate = Gate("a#1?1", GateReason.PERMISSION, Place.DURING, 20_000, answered_at=60_000)
    entry = Entry("a", EntryStatus.DONE, Decision.GATE, 0, completed_at=100_000, gates=(gate,))
    open_one = replace(entry, gates=(replace(gate, answered_at=None),))
    for each, last in ((entry, "20: gate 40"), (open_one, "20: gate 80")):
        (bar,) = chart([each], 0, now=100_000).bars
        parts = [f"{span.left:g}: {span.kind} {span.width:g}" for span in bar.spans]
        assert parts == ["0: idle 100", "0: work 100", last]


def test_time_in_which_two_agents_waited_counts_once() -> None:
    first = Gate("a#1?1", GateReason.PERMISSION, Place.DURING, 10_000, answered_at=40_000)
    second = Gate("b#1?1", GateReason.QUESTION, Place.DURING, 20_000, answered_at=60_000)
    entries = [
        Entry(gate.id[0], EntryStatus.DONE, Decision.GATE, 0, completed_at=90_000, gates=(gate,))
        for gate in (first, second)
    ]
    assert waited_ms(entries) == 50_000


def test_time_between_an_answer_and_the_work_is_idle() -> None:
    """The answer came at once, the work a minute later."""
    gates = (
        Gate("pr#1?1", GateReason.GATE_ALWAYS, Place.BEFORE, 0, answered_at=10_000),
        Gate("pr#1?2", GateReason.POSTCONDITION_FAIL, Place.AFTER, 80_000, answered_at=90_000),
    )
    pr = Entry("pr", EntryStatus.IN_PROGRESS, Decision.GATE, 0, launched_at=70_000, gates=gates)
    for entry, parts in (
        (replace(pr, launched_at=None, gates=gates[:1]), ["0: idle 100", "0: gate 10"]),
        (
            replace(pr, returned_at=80_000),
            ["0: idle 100", "70: work 10", "0: gate 10", "80: gate 10"],
        ),
    ):
        (bar,) = chart([entry], 0, now=100_000).bars
        assert [f"{span.left:g}: {span.kind} {span.width:g}" for span in bar.spans] == parts


class TestTheCommand:
    @pytest.fixture
    def waiting(self, project: Project) -> Project:
        agent = project.script(f"""
            steps:
              qa-plan: {{write: {{.qa/{FEATURE}/test-plan.md: "# Plan"}}}}
              qa-run:
                write: {{.qa/{FEATURE}/verdict.md: "**Verdict**: FAIL"}}
                say: ["{_HOSTILE[:48]}"]
        """)
        assert project.playbook("run", "auto-validate", FEATURE, "--agent", agent).code == 4
        return project

    def test_writes_a_page_with_the_gate_and_the_evidence(self, waiting: Project) -> None:
        done = waiting.playbook("show", "--html", "session.html")
        assert (done.code, done.out, done.err) == (0, "", "written: session.html\n")
        read = _inert(waiting.read("session.html"))
        for said in (
            "auto-validate",
            FEATURE,
            "Waits for a human",
            f"playbook answer {waiting.session.name} …",
            f"qa_plan_exists: .qa/{FEATURE}/test-plan.md, 1 line",
            f"/qa.run {FEATURE}",
            "escalated: verdict_fail",
            _HOSTILE[:48],
        ):
            assert said in read.text, said
        again = waiting.playbook("show", "--html", "session.html")
        assert again.code == 0
        printed = waiting.playbook("show", "--html", "-")
        # The marks of the axis are others by now.
        assert set(_inert(printed.out).tags) == set(_inert(waiting.read("session.html")).tags)
        assert ("Open for" in printed.out, "<dt>Duration</dt>" in printed.out) == (True, False)

    def test_refuses_a_folder_and_json(self, waiting: Project) -> None:
        folder = waiting.playbook("show", "--html", ".")
        assert (folder.code, folder.out) == (1, "")
        both = waiting.playbook("show", "--html", "x.html", "--json")
        assert "--html and --json cannot be combined" in both.err
        empty = waiting.playbook("show", "--html", "")
        assert (empty.code, "'--html': it is empty" in empty.err) == (1, True)
        nowhere = waiting.playbook("show", "--html", "no/such/folder/x.html")
        assert (nowhere.code, nowhere.out) == (3, "")
        assert "[PB-IO-WRITE]" in nowhere.err

    def test_replaces_nothing_but_a_file(self, waiting: Project) -> None:
        """Replacing a device would affect the whole machine."""
        os.mkfifo(waiting.root / "pipe")
        (waiting.root / "link").symlink_to("README.md")
        for name in ("pipe", "link"):
            refused = waiting.playbook("show", "--html", name)
            assert (refused.code, "it is not a regular file" in refused.err) == (3, True)
        assert (waiting.root / "pipe").is_fifo()
        assert (waiting.root / "link").is_symlink()

    @pytest.mark.long
    def test_fits_a_phone(self, waiting: Project, tmp_path: Path) -> None:
        """In a real browser: at most 360 pixels wide, with the style applied."""
        browser = shutil.which("chromium") or shutil.which("chromium-browser")
        if browser is None and os.environ.get(REQUIRED):
            pytest.fail(f"no chromium, and {REQUIRED} is set")
        if browser is None:
            pytest.skip("chromium is not installed")
        waiting.playbook("show", "--html", str(tmp_path / "gate.html"))
        assert waiting.playbook("answer", f"accept, {'w' * 300}").code == 0
        waiting.playbook("show", "--html", str(tmp_path / "session.html"))
        (tmp_path / "long.html").write_text(_with_long_names())
        (tmp_path / "frame.html").write_text(
            """<!doctype html><iframe src="session.html" width="360" height="700"></iframe>
            <iframe src="long.html" width="360" height="700"></iframe>
            <iframe src="gate.html" width="360" height="700"></iframe><script>
            onload = () => {
              document.title = [...document.querySelectorAll("iframe")].map((frame) => {
                const page = frame.contentDocument.documentElement;
                const bars = page.querySelectorAll("rect").length;
                const border = getComputedStyle(page.querySelector(".badge")).borderTopWidth;
                const over = page.scrollWidth - page.clientWidth;
                const ends = [...page.querySelectorAll(".name span")].map(
                  (part) => part.getBoundingClientRect().right);
                const cut = ends.filter((right) => right > page.clientWidth - 15).length;
                return `over ${over}, bars ${bars}, cut ${cut}, border ${border}`;
              }).join("; ");
            };
            </script>"""
        )
        done = subprocess.run(
            [
                browser,
                *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update"),
                *("--disable-sync", "--disable-quic", "--allow-file-access-from-files"),
                *(f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"),
                f"file://{tmp_path / 'frame.html'}",
            ],
            capture_output=True,
            timeout=240,
            check=True,
        )
        held = "over 0, bars 4, cut 0, border 1px; over 0, bars 2, cut 0, border 1px"
        held += "; over 0, bars 4, cut 0, border 1px"
        assert f"<title>{held}</title>".encode() in done.stdout
