"""A broken surrounding: the exit code stays what the command did, and an error is never a bug."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support.in_process import Result
from support.scratch_project import Project

from cli.scripts import GATED, WORKS

pytestmark = pytest.mark.measured

OTHER = 65534  # a user who owns nothing here

COMMANDS: dict[str, tuple[list[str], int]] = {
    "next": (["next", "--json"], 0),
    "report": (["report", "publish#7"], 3),
    "check": (["check", ".playbooks/playbooks/gated.yaml"], 0),
    "status": (["status"], 0),
    "probe": (["probe", "plan_exists"], 2),
    "doctor": (["doctor"], 3),
    "help": (["run", "--help"], 0),
    "usage": (["runn"], 1),
    "resume": (["resume", "--json"], 4),
    "abort": (["abort"], 0),
}
"""Each with its exit code at the open gate: of the fast path, of click, and of a driver."""


@pytest.fixture
def waiting(project: Project) -> Project:
    """A session waits at its gate."""
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    agent = project.script(WORKS)
    assert project.playbook("run", "gated", "--agent", agent).code == 4
    return project


def playbook(
    project: Project,
    args: list[str],
    *,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    first: Callable[[], None] | None = None,
    cwd: Path | None = None,
) -> Result:
    """Run the program; `first` happens in its process, before it starts."""
    done = subprocess.run(
        [sys.executable, "-m", "playbook_supervisor", *args],
        cwd=cwd or project.root,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        preexec_fn=first,
        start_new_session=True,
        check=False,
        timeout=120,
    )
    out, err = (each.decode() if each else "" for each in (done.stdout, done.stderr))
    return Result(done.returncode, out, err)


def fails_clearly(done: Result) -> None:
    """It is an error of this machine or of the session's state, in three lines at most."""
    lines = done.err.splitlines()
    assert done.code == 3, done.err
    assert lines[0].startswith("error: ")
    assert "[PB-IO-" in lines[0] or "[PB-STATE-" in lines[0]
    assert len(lines) <= 3
    assert "Traceback" not in done.err


# ── streams ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def broken(way: str, numbers: tuple[int, ...]) -> Iterator[dict[str, int]]:
    """Streams whose descriptors have that fault."""
    with ExitStack() as stack:
        ends = dict.fromkeys(numbers, subprocess.DEVNULL)
        for number in numbers:
            if way == "full":
                ends[number] = os.open("/dev/full", os.O_WRONLY)
            elif way == "abandoned pipe":
                reader, ends[number] = os.pipe()
                os.close(reader)
            elif way == "abandoned terminal":
                screen, ends[number] = os.openpty()
                os.close(screen)
            if ends[number] >= 0:
                stack.callback(os.close, ends[number])
        yield {("stdout", "stderr")[number - 1]: end for number, end in ends.items()}


WAYS = ("closed", "full", "abandoned pipe", "abandoned terminal")
NUMBERS = {"stdout": (1,), "stderr": (2,), "both": (1, 2)}
EVERY_WAY = ("next", "status", "resume")
"""A command of the fast path, one of click and one that drives; the others have two faults."""
FAULTS = [
    (command, way, which)
    for command in COMMANDS
    for way in WAYS
    for which in NUMBERS
    if command in EVERY_WAY or (way, which) in (("full", "stdout"), ("closed", "both"))
]


@pytest.mark.long
@pytest.mark.sampled("next-full-stdout", "status-full-stdout", "resume-*-both", "next-closed-*")
@pytest.mark.parametrize(("command", "way", "which"), FAULTS)
def test_no_stream_changes_an_exit_code(
    waiting: Project, command: str, way: str, which: str, tmp_path: Path
) -> None:
    if way == "full" and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    (args, code), numbers = COMMANDS[command], NUMBERS[which]
    waiting.env["TMPDIR"] = str(tmp_path)

    def close() -> None:
        for number in numbers if way == "closed" else ():
            os.close(number)

    with broken(way, numbers) as ends:
        done = playbook(waiting, args, first=close, **ends)  # type: ignore[arg-type]
    assert done.code == code
    assert "Traceback" not in done.err
    assert "rror: " not in done.err or code in (1, 3)
    assert ("the output is incomplete" in done.err) is (
        way == "full" and numbers == (1,) and command not in ("usage", "report")
    )
    assert not list(tmp_path.glob("playbook-bug-*"))


def test_a_run_continues_without_the_reader_of_its_log(project: Project) -> None:
    agent = project.script("default: {write: {made.py: '1'}}\n")
    with project.spawn("run", "auto-validate", "013", "--agent", agent) as process:
        assert process.stderr is not None
        process.stderr.close()
        process.stderr = None
        process.communicate(timeout=120)
    assert process.returncode == 2
    assert project.manifest()["status"] == "failed"


def test_watching_ends_with_its_reader(waiting: Project) -> None:
    """`playbook status --watch | head -1`"""
    with broken("abandoned pipe", (1,)) as ends:
        done = playbook(waiting, ["status", "--watch"], **ends)  # type: ignore[arg-type]
    assert (done.code, done.err) == (0, "")


def test_a_pipe_that_does_not_block_gets_everything(project: Project) -> None:
    """Other programs make their end of a shared pipe non-blocking."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with (
        subprocess.Popen(
            [sys.executable, "-m", "playbook_supervisor", "schema"],
            cwd=project.root,
            env=project.environment,
            stdout=writer,
        ) as process,
        os.fdopen(reader, "rb") as file,
    ):
        os.close(writer)
        assert json.load(file)
    assert process.returncode == 0


# ── files of other users ────────────────────────────────────────────────────────────────────


def without_privileges() -> None:
    """Let root be refused what another user has closed."""
    if os.geteuid() == 0:
        drop = 24  # PR_CAPBSET_DROP; exec then leaves out CAP_DAC_OVERRIDE and _READ_SEARCH
        for capability in (1, 2):
            ctypes.CDLL(None).prctl(drop, capability, 0, 0, 0)


@contextmanager
def closed_to_us(path: Path) -> Iterator[None]:
    mode = path.stat().st_mode
    path.chmod(0)
    if os.geteuid() == 0:
        os.chown(path, OTHER, OTHER)
    try:
        yield
    finally:
        if os.geteuid() == 0:
            os.chown(path, 0, 0)
        path.chmod(mode)


@pytest.mark.parametrize("what", ["session", "private", "journal.yaml", ".playbooks", "sessions"])
@pytest.mark.parametrize(
    "args",
    [["next"], ["show"], ["resume"], ["answer", "continue"], ["audit"], ["repair"]],
    ids=" ".join,
)
@pytest.mark.long
@pytest.mark.sampled("next-*", "show-journal.yaml", "audit-journal.yaml")
def test_a_session_of_another_user(waiting: Project, what: str, args: list[str]) -> None:
    places = {
        "session": waiting.session,
        "private": waiting.root / ".git/playbook",
        "journal.yaml": waiting.session / "journal.yaml",
        ".playbooks": waiting.root / ".playbooks",
        "sessions": waiting.session.parent,
    }
    with closed_to_us(places[what]):
        done = playbook(waiting, args, first=without_privileges)
    if args == ["audit"] and done.code == 1:  # it reports the file among its findings
        assert "Permission denied" in done.out
    else:
        fails_clearly(done)


# ── limits ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.parametrize("kind", ["memory", "files"])
def test_limits_of_the_machine(project: Project, kind: str) -> None:
    agent = project.script(WORKS)
    limit = resource.RLIMIT_AS if kind == "memory" else resource.RLIMIT_NOFILE
    sizes = range(14 << 20, 70 << 20, 4 << 20) if kind == "memory" else range(6, 16, 2)
    codes = []
    for size in sizes:
        shutil.rmtree(project.root / ".playbooks/sessions", ignore_errors=True)
        shutil.rmtree(project.root / ".git/playbook", ignore_errors=True)

        def first(size: int = size) -> None:
            resource.setrlimit(limit, (size, size))

        done = playbook(project, ["run", "auto-validate", "013", "--agent", agent], first=first)
        if done.code == 1 and "error: " not in done.err:
            continue  # the interpreter did not start, or could not import what reports errors
        if done.code != 0:
            failure = done.err[done.err.rindex("error: ") :]
            assert done.code == 3, done.err
            assert "[PB-IO-" in failure
            assert "Traceback" not in done.err
        codes.append(done.code)
    assert set(codes) >= {0, 3}


def test_a_thread_that_cannot_start(project: Project) -> None:
    agent = project.script(WORKS)

    def first() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 40, 1 << 40))  # of each thread
        resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))

    done = playbook(project, ["run", "auto-validate", "013", "--agent", agent], first=first)
    assert "can't start new thread [PB-IO-LIMIT]" in done.err
    assert done.code == 3
    assert playbook(project, ["resume", "--agent", agent]).code == 0


# ── folders ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("args", [["next"], ["doctor"]], ids=" ".join)
def test_a_working_folder_that_vanished(project: Project, args: list[str]) -> None:
    gone = project.root / "gone"
    gone.mkdir()
    fails_clearly(playbook(project, args, cwd=gone, first=gone.rmdir))


@pytest.mark.parametrize("name", ["journal.yaml", "private/session.yaml", "private/lock"])
def test_repair_replaces_a_folder_that_stands_where_a_file_belongs(
    waiting: Project, name: str
) -> None:
    private = waiting.root / ".git/playbook" / waiting.session.name
    file = private / Path(name).name if name.startswith("private/") else waiting.session / name
    before = file.read_bytes()
    file.unlink()
    file.mkdir()
    (file / "note.txt").write_text("keep me")
    if not name.startswith("private/"):
        refused = waiting.playbook("resume")
        fails_clearly(refused)
        assert f"`playbook repair {waiting.session.name} --restore`" in refused.err
        shown = waiting.playbook("repair")
        assert f"{name}: a folder is in its place" in shown.out
    mended = waiting.playbook("repair", "--restore")
    assert mended.code == 0, mended.err
    assert file.read_bytes() == before
    (moved,) = private.glob("moved-*")
    assert (moved / "note.txt").read_text() == "keep me"
    assert str(moved) in mended.err
    assert waiting.playbook("repair").code == 0
    assert waiting.playbook("resume").code == 4


def test_a_copy_that_cannot_be_written_stops_no_run(waiting: Project) -> None:
    copy = waiting.root / ".git/playbook" / waiting.session.name / "journal.yaml"
    copy.unlink()
    copy.mkdir()
    assert waiting.playbook("answer", "continue").code == 0
    assert waiting.playbook("resume").code == 0
    assert waiting.manifest()["status"] == "completed"


def test_the_list_of_sessions_shows_those_of_other_users(waiting: Project) -> None:
    closed = waiting.session
    assert playbook(waiting, ["run", "gated", "--agent", waiting.script(WORKS)]).code == 3
    with closed_to_us(closed):
        done = playbook(waiting, ["status"], first=without_privileges)
    assert done.code == 0
    assert closed.name in done.out
