"""`metrics`: the sessions that it reads, and the output."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.scratch_project import Project

from cli.scripts import conforms
from playbook_supervisor.audit.metrics import Figures, measure
from playbook_supervisor.cli.render.metrics_tables import fitted, plain, sheets
from playbook_supervisor.commands.views.session_files import metrics as measure_sessions
from playbook_supervisor.errors import StateError
from playbook_supervisor.records import replace

JOURNALS = Path(__file__).parents[1] / "journals"
OURS, OPEN, KAI = "20260219-a7k", "20260220-b3m", "20260219-k1a"


@pytest.fixture
def sessions(project: Project) -> Path:
    folder = project.root / ".playbooks/sessions"
    for twin, session_id in (("ours", OURS), ("ours-open", OPEN), ("kai", KAI)):
        shutil.copytree(JOURNALS / twin, folder / session_id)
    playbook = (folder / KAI / "playbook.yaml").read_text("utf-8")
    (folder / KAI / "playbook.yaml").unlink()
    project.write(".playbooks/playbooks/sample.yaml", playbook)
    manifest = folder / OPEN / "session.yaml"
    manifest.write_text(manifest.read_text("utf-8").replace("sample", "another"), "utf-8")
    return folder


def test_one_session_is_measured_or_all_or_those_of_a_playbook(
    project: Project, sessions: Path
) -> None:
    """kai P3-3."""

    def count(name: str = "", **which: object) -> int:
        return measure_sessions(name, cwd=project.root, **which).sessions  # type: ignore[arg-type]

    assert count(OURS) == 1
    assert count(str(sessions / OURS)) == count(str(sessions / OURS / "journal.yaml")) == 1
    assert count(every=True) == 3
    assert count(playbook="sample") == 2
    assert count(playbook="another") == 1
    assert count(playbook="auto-feature") == 0
    with pytest.raises(StateError):
        count("nowhere")


def test_an_unknown_playbook_is_refused(project: Project, sessions: Path) -> None:
    assert project.playbook("metrics", "--playbook", "another").code == 0
    done = project.playbook("metrics", "--playbook", "auto-featur")
    assert (done.code, done.out) == (1, "")
    assert "no playbook is called 'auto-featur'; the project has another, auto-feature" in done.err
    assert "  do: Did you mean `auto-feature`?" in done.err
    assert project.playbook("metrics", "--playbook", "").code == 1


def test_commands_are_known_from_the_playbook_of_that_time(
    project: Project, sessions: Path
) -> None:
    """Other tools store no copy of the playbook; an unreadable one is ignored."""
    measured = measure_sessions(KAI, cwd=project.root)
    assert [each.name for each in measured.commands][:2] == ["/speckit.plan", "/speckit.implement"]
    project.write(".playbooks/playbooks/sample.yaml", "steps")
    unknown = measure_sessions(KAI, cwd=project.root)
    assert (unknown.commands, [each.command for each in unknown.steps][:1]) == ((), [""])
    (sessions / KAI / "journal.yaml").write_bytes(b"\0")
    (sessions / KAI / "session.yaml").write_bytes(b"\0")
    assert measure_sessions(KAI, cwd=project.root).ends["unknown"] == 1


def test_json_is_one_object(project: Project, sessions: Path) -> None:
    done = project.playbook("metrics", "--all", "--json")
    assert (done.code, done.err) == (0, "")
    shape = conforms("metrics", done.json)
    assert shape["sessions"]["total"] == 3
    assert "cost_usd" not in next(each for each in shape["steps"] if each["step"] == "tasks")


def in_words(text: str) -> str:
    return " ".join(text.split())


def test_text_output_has_tables(project: Project, sessions: Path) -> None:
    done = project.playbook("metrics", OURS)
    assert (done.code, done.err) == (0, "")
    ended = "of those that ended, 100% completed, 1 with waivers"
    assert done.out.startswith(f"1 session: 1 completed; {ended}\n")
    assert "plan 1 0 0 60s 60s 1.0m 0.41" in in_words(done.out)
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_narrow_terminal_cuts_names_but_no_figures() -> None:
    """A cut figure could be mistaken for another one."""
    head = ("step", "tries", "failed", "again", "median", "p90", "total", "USD")
    row = ("m" * 40, "1", "0", "0", "12.1m", "12.1m", "12.1m", "0.41")
    names, figures = plain((head, row), 62)
    assert names.split() == list(head)
    assert figures.split()[1:] == list(row[1:])
    assert figures.startswith("mmmmmmm")
    assert "…" in figures
    assert max(len(names), len(figures)) <= 62


def test_steps_of_several_playbooks_are_distinguishable() -> None:
    long = "a-playbook-that-nobody-would-call-like-that"
    steps = [
        Figures(name, 1, 1, 1, 0, 0, 0, None, None, None, None, playbook)
        for playbook, name in ((long, "first"), (long, "second"), ("short", "first"))
    ]
    measured = replace(measure([]), steps=tuple(steps))
    (sheet, *_) = sheets(measured)
    assert [row[0] for row in sheet[1:]] == [
        "a-playbook-that-nobody-would-call… first",
        "a-playbook-that-nobody-would-cal… second",
        "short first",
    ]
    assert [line.split()[1] for line in plain(sheet)][1:] == ["first", "second", "first"]
    assert fitted("a-playbook the-first-step", 14) == "a-p… the-firs…"


def test_a_column_has_one_unit() -> None:
    """The smallest value is still visible, and the largest needs no other unit."""
    from playbook_supervisor.cli.render.metrics_tables import _COUNTS, _TIMES, _in_one_unit

    time, count = (_TIMES, (1_000, "s")), (_COUNTS, (1, ""))
    assert _in_one_unit([400, 11_880_000], *time) == ["0.4s", "11880s"]
    assert _in_one_unit([45_000, None, 11_880_000], *time) == ["0.8m", "–", "198.0m"]
    assert _in_one_unit([45_000], *time) == ["45s"]
    assert _in_one_unit([7_200_000, 180_000_000], *time) == ["2.0h", "50.0h"]
    assert _in_one_unit([940, 18_200], *count) == ["0.9k", "18.2k"]
    assert _in_one_unit([0, 940], *count) == ["0", "940"]
