"""What people see of child sessions and loops: a line that opens where it matters."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scratch_project import Project
from support.stored_sessions import Scene, unsynced

from cli.scripts import conforms
from playbook_supervisor.cli.drive import steps_table
from playbook_supervisor.cli.render import live
from playbook_supervisor.cli.render.html import page
from playbook_supervisor.cli.render.sessions import HINT, details
from playbook_supervisor.commands.overview import SessionOverview
from playbook_supervisor.commands.views.queries import SessionView
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Loop, Step
from playbook_supervisor.kernel.state import UNTIL, Entry, Gate
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Decision,
    EntryStatus,
    GateReason,
    Place,
    SessionStatus,
)
from playbook_supervisor.project.policies.session_policy import Policy
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.manifest import Manifest
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.system.git.checkout import Checkout

HEAD = 'name: {}\ndescription: A sample\nversion: "1.1"\nargs: []\nsteps:\n'
STEP = "  - {{id: {}, command: {}, autonomy: auto, error_policy: stop{}}}\n"
TOP = HEAD.format("top") + "".join(
    STEP.format(*step)
    for step in (
        ("plan", "cli git --version", ""),
        ("release", "playbook ship", ""),
        ("last", "cli git --version", ""),
    )
)
SHIP = HEAD.format("ship") + "".join(
    STEP.format(*step)
    for step in (
        ("build", "cli git --version", ""),
        ("ask", "checkpoint", ", with: {message: Ship it?}"),
        ("tag", "cli git --version", ""),
    )
)


@pytest.fixture
def waiting(project: Project) -> Project:
    """A session whose child waits at a gate."""
    project.write(".playbooks/playbooks/top.yaml", TOP)
    project.write(".playbooks/playbooks/ship.yaml", SHIP)
    project.commit("Add playbooks")
    assert project.playbook("run", "top").code == 4
    return project


def top_and_child(project: Project) -> tuple[str, str]:
    (top,) = project.playbook("status", "--all", "--json").json["sessions"]
    return top["session"], top["children"][0]["session"]


# ── a tree that waits ───────────────────────────────────────────────────────────────────────


def test_a_gate_of_a_child_is_where_its_top_session_waits(waiting: Project) -> None:
    done = waiting.playbook("status")
    assert done.out.count("WAITS FOR A HUMAN") == 1
    assert "WAITS FOR A HUMAN at release#1 → ask#1?1, for " in done.out
    assert "Ship it?" in done.out
    shape = waiting.playbook("status", "--json").json
    conforms("status", shape)
    (top,) = shape["sessions"]
    assert top["gate"]["id"] == "release#1/ask#1?1"
    (child,) = top["children"]
    assert (child["attempt"], child["playbook"]) == ("release#1", "ship")
    assert child["status"] == "in_progress"


def test_a_session_shows_the_steps_of_a_child_that_waits(waiting: Project) -> None:
    top, child = top_and_child(waiting)
    shown = waiting.playbook("show").out
    assert f"  session {child}: ship, in_progress, 1/3 steps\n" in shown
    assert "\n    gate ask#1?1" not in shown  # it belongs to the attempt above it
    assert "build#1  done" in shown
    assert "      gate ask#1?1 checkpoint, before the step: waits for a human\n" in shown
    assert "    not begun: tag\n" in shown
    assert shown.endswith("not begun: last\n")
    shape = waiting.playbook("show", "--json").json
    conforms("show", shape)
    assert [each["id"] for each in shape["children"][0]["steps"]] == ["build#1", "ask#1"]
    assert shape["children"][0]["not_begun"] == ["tag"]
    alone = waiting.playbook("show", child)
    assert f"  a child session of {top}/release#1\n" in alone.out
    assert waiting.playbook("show", child, "--json").json["parent"] == f"{top}/release#1"


def test_the_page_has_the_child_within_its_attempt(waiting: Project) -> None:
    _, child = top_and_child(waiting)
    text = waiting.playbook("show", "--html", "-").out
    assert f'<details class="child" id="{child}" open>' in text
    assert f'id="{child}/ask#1"' in text
    assert "<code>release#1/ask#1?1</code>" in text
    assert "Ship it?" in text


def test_a_completed_child_is_one_line_until_all_is_asked_for(waiting: Project) -> None:
    """After the end, everything is there in --json, on the page and with --all."""
    assert waiting.playbook("answer", "continue", "--resume").code == 0
    _, child = top_and_child(waiting)
    closed = waiting.playbook("show").out
    assert f"  session {child}: ship, completed, 3/3 steps\n" in closed
    assert "build#1" not in closed
    assert closed.endswith(f"{HINT}\n")
    opened = waiting.playbook("show", "--all").out
    assert "    build#1" not in opened
    assert "build#1  done" in opened
    assert "`playbook show --all`" not in opened
    assert f'<details class="child" id="{child}">' in waiting.playbook("show", "--html", "-").out
    assert waiting.playbook("audit", "--all").code == 0
    measured = waiting.playbook("metrics", "--all", "--json").json
    assert measured["sessions"]["total"] == 1
    assert {each["step"] for each in measured["steps"]} >= {"release", "build", "tag"}


def test_logs_of_an_attempt_of_a_child_are_found_by_its_path(waiting: Project) -> None:
    found = waiting.playbook("logs", "release#1/build#1")
    assert (found.code, "git version" in found.out) == (0, True)
    assert "release#1/build#1 of session" in found.err
    assert waiting.playbook("logs", "release/build").code == 0
    missing = waiting.playbook("logs", "release#1/nothing")
    assert (missing.code, "PB-STATE-NO-LOG" in missing.err) == (3, True)
    assert "PB-STATE-NO-LOG" in waiting.playbook("logs", "plan#1/build#1").err


def test_a_run_tells_the_attempts_of_its_tree(waiting: Project) -> None:
    waiting.playbook("answer", "continue")
    shape = waiting.playbook("resume", "--json").json
    conforms("run", shape)
    assert [each["id"] for each in shape["steps"]] == ["plan#1", "release#1", "last#1"]
    (child,) = shape["children"]
    assert child["attempt"] == "release#1"
    assert [each["id"] for each in child["steps"]] == ["build#1", "ask#1", "tag#1"]


def test_a_run_ends_with_a_line_for_each_step_of_its_tree(project: Project) -> None:
    fails = SHIP.replace(
        "cli git --version, autonomy: auto, error_policy: stop}\n",
        "cli ls /no-such-folder, autonomy: auto, error_policy: stop}\n",
        1,
    )
    project.write(".playbooks/playbooks/top.yaml", TOP)
    project.write(".playbooks/playbooks/ship.yaml", fails)
    project.commit("Add playbooks")
    ran = project.playbook("run", "top")
    assert ran.code == 2
    lines = ran.err.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  release#1"))
    assert lines[at + 1].startswith("    build#1  failed")
    assert "release#1/build#1 ended with (playbook logs release#1/build#1 shows all):" in lines
    assert any("no-such-folder" in line for line in lines)
    assert "build#1  failed" in project.playbook("show").out


def test_a_gate_after_a_loop_has_one_line_for_it(project: Project) -> None:
    steps = (
        ("build", "'cli test {{part}} != beta'", ", for_each: {in: $parts, as: part, max: 3}"),
        ("ask", "checkpoint", ", with: {message: Go on?}"),
    )
    text = HEAD.format("loop") + "".join(STEP.format(*step) for step in steps)
    text = text.replace("stop, for_each", "continue, for_each")
    declared = "args: [{name: parts, description: The parts, required: true}]"
    project.write(".playbooks/playbooks/loop.yaml", text.replace("args: []", declared))
    ran = project.playbook("run", "loop", "parts=alpha beta gamma")
    assert ran.code == 4
    (line,) = (line for line in ran.err.splitlines() if line.startswith("  build"))
    assert line.startswith("  build ✗ 2/3 items, ")
    assert line.endswith(" · build[2]: test ended with exit status 1")


# ── loops and rounds ────────────────────────────────────────────────────────────────────────


def item(number: int, status: EntryStatus, **more: object) -> Entry:
    ends = {} if status is EntryStatus.IN_PROGRESS else {"completed_at": 60_000 * number}
    return Entry(
        f"build[{number}]",
        status,
        Decision.AUTO,
        60_000 * (number - 1),
        items=12,
        item=f"chapter {number}",
        **{**ends, **more},  # type: ignore[arg-type]
    )


def seen(*entries: Entry, status: SessionStatus = SessionStatus.IN_PROGRESS) -> SessionView:
    here = Checkout(Path.cwd(), Path("/p/.git"), Path("/p/.git"), "main", "")
    manifest = Manifest("20260219-a7k", "p", "", {}, status, 0)
    overview = SessionOverview(DiskStore(here), manifest.session_id, manifest)
    return SessionView(overview, entries, None, Policy())


LOOP = (
    item(1, EntryStatus.DONE, evidence=("file_exists: a, 1 line",)),
    item(2, EntryStatus.FAILED, error="it broke"),
    item(3, EntryStatus.IN_PROGRESS, launched_at=120_000),
)


def test_a_loop_is_one_line_with_what_failed_and_what_runs() -> None:
    lines = list(details(seen(*LOOP), 180_000))
    assert "1970-01-01T00:00:00Z  build  1/12 items, 1 failed, 2 min" in lines
    assert '  ✗ build[2]#1 "chapter 2": it broke' in lines
    assert '  1970-01-01T00:02:00Z  build[3]#1 "chapter 3"  in_progress  (auto)' in lines
    assert not any("build[1]" in line for line in lines)
    every = list(details(seen(*LOOP), 180_000, every=True))
    assert any('build[1]#1 "chapter 1"  done' in line for line in every)


def test_rounds_are_no_failures() -> None:
    rounds = tuple(
        Entry(
            "fix",
            EntryStatus.FAILED if code else EntryStatus.DONE,
            Decision.AUTO,
            0,
            attempt=number,
            completed_at=60_000,
            error="1 task not done" if code else "",
            error_code=code,
        )
        for number, code in ((1, UNTIL), (2, UNTIL), (3, ""))
    )
    shown = "\n".join(details(seen(*rounds), 180_000))
    assert "fix#3  done  1 min" in shown
    assert "  2 rounds before it; the last one left: 1 task not done" in shown
    assert "failed" not in shown
    every = "\n".join(details(seen(*rounds), 180_000, every=True))
    assert every.count("another round follows") == 2
    text = page(seen(*rounds), 180_000)
    assert "2 rounds before fix#3" in text
    assert 'class="failed"' not in text


# ── the rows of the live list ───────────────────────────────────────────────────────────────


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return unsynced(monkeypatch, tmp_path)


def plan(name: str, **more: object) -> Step:
    policy = ErrorPolicy.STOP
    return Step(name, "/x", Autonomy.AUTO, policy, **more)  # type: ignore[arg-type]


def tried(name: str, status: EntryStatus, **more: object) -> Entry:
    ends = {} if status is EntryStatus.IN_PROGRESS else {"completed_at": 60_000}
    return Entry(name, status, Decision.AUTO, 0, **{**ends, **more})  # type: ignore[arg-type]


def rows(snapshot: Snapshot, attempts: dict[str, Entry], room: int = 20) -> list[str]:
    """The rows, indented, and what is left out."""
    lines = {"release#1/plan#1": "I am thinking", "build[3]#1": "almost"}
    picture = live.step_list(snapshot, attempts, lines, now=180_000, room=room)
    shown = []
    for row in picture.rows:
        words = (row.mark, row.name, row.elapsed, row.words)
        shown.append("  " * row.depth + " ".join(filter(None, words)))
    hidden = [f"+{picture.earlier} -{picture.later}"] if picture.earlier or picture.later else []
    return [*shown, *hidden]


def test_a_loop_names_what_runs_and_what_failed(scene: Scene) -> None:
    snapshot = scene.define(plan("build", for_each=Loop("$parts", "part")), plan("last")).look()
    running, last = f"{live.spinner(180_000)} build 1/12", "· last"
    known = {entry.id: entry for entry in LOOP}
    assert rows(snapshot, known) == [f'{running} 1 min ▸ "chapter 3" ✗ chapter 2 · almost', last]
    gate = Gate("build[3]#1?1", GateReason.POSTCONDITION_FAIL, Place.AFTER, 150_000)
    held = {**known, "build[3]#1": item(3, EntryStatus.IN_PROGRESS, gates=(gate,))}
    assert rows(snapshot, held) == ['? build 1/12 ▸ "chapter 3" waits for you', last]
    over = {entry.id: entry for entry in (item(n, EntryStatus.DONE) for n in range(1, 13))}
    assert rows(snapshot, over) == ["✓ build 12/12 12 min", last]


def test_a_round_is_followed_by_the_next(scene: Scene) -> None:
    snapshot = scene.define(plan("fix")).look()
    first = tried("fix", EntryStatus.FAILED, error="1 task left", error_code=UNTIL)
    assert rows(snapshot, {"fix#1": first}) == ["↻ fix#1 next round · 1 task left"]
    second = tried("fix", EntryStatus.DONE, attempt=2, evidence=("tasks_done: all",))
    both = {"fix#1": first, "fix#2": second}
    assert rows(snapshot, both) == ["✓ fix#2 1 min 2 rounds · tasks_done: all"]


def test_a_child_is_open_until_it_is_done(scene: Scene) -> None:
    child = scene.define(plan("plan"), plan("pr", title="Open it")).look()
    top = scene.define(plan("release"), plan("last")).look()
    snapshot = replace(top, children={"release#1": child})
    attempts = {
        "release#1": tried("release", EntryStatus.IN_PROGRESS, session="20260219-c4d"),
        "release#1/plan#1": tried("plan", EntryStatus.IN_PROGRESS),
    }
    works = live.spinner(180_000)
    opened = [f"{works} release 3 min", f"  {works} plan 3 min I am thinking", "  · pr Open it"]
    assert rows(snapshot, attempts) == [*opened, "· last"]
    assert rows(snapshot, attempts, room=3)[-1].startswith("+")
    failed = {
        "release#1": tried("release", EntryStatus.FAILED, session="20260219-c4d", error="it broke"),
        "release#1/plan#1": tried("plan", EntryStatus.FAILED, error="no disk"),
    }
    gone = ["✗ release 1 min it broke", "  ✗ plan 1 min no disk", "· last"]
    assert rows(top, failed) == gone
    done = {**attempts, "release#1": tried("release", EntryStatus.DONE, session="20260219-c4d")}
    assert rows(top, done) == ["✓ release 1 min", "· last"]


def test_the_table_of_a_run_names_the_items_that_failed() -> None:
    known = {entry.id: entry for entry in LOOP}
    assert steps_table(known) == ["  build  in_progress  2 min  1/12 items, failed: chapter 2"]
