"""Checks in a clean room: what is there, what is not, and what one check can leave the next."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.git_repositories import git, put, with_a_commit

from playbook_supervisor.errors import ConditionError, StorageError
from playbook_supervisor.project.proofs.proving import prove
from playbook_supervisor.project.settings.checks import Checking, Proof
from playbook_supervisor.project.settings.config import CLEAN, Bounds, CheckSpec, Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.git.clean_room import MOST_ROOMS, remove_rooms, rooms

if TYPE_CHECKING:
    from playbook_supervisor.project.settings.config import Where

SHELL = Config(allow=Bounds(cli=("sh",)))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return with_a_commit(tmp_path / "project", ignore="*.log\nbuilt/\n")


def check(
    command: str, *setup: str, name: str = "test", env: Mapping[str, str] | None = None
) -> CheckSpec:
    programs = tuple(("sh", "-c", each) for each in setup)
    return CheckSpec(name, ("sh", "-c", command), 60, env or {}, CLEAN, programs, ("lock.txt",))


def run(root: Path, spec: CheckSpec, said: list[str] | None = None) -> Proof:
    checking = Checking(say=(said if said is not None else []).append)
    return prove(spec, root, SHELL, checking)[0]


def output(root: Path, command: str, *setup: str) -> list[str]:
    said: list[str] = []
    proof = run(root, check(command, *setup), said)
    assert proof.status == 0, said
    return said


# ── what is there ───────────────────────────────────────────────────────────────────────────


def test_a_room_has_the_files_of_the_tree_and_nothing_that_is_ignored(root: Path) -> None:
    put(root, "new.txt")
    put(root, "secret.log")
    put(root, "built/out.o")
    assert output(root, "ls -A") == [".git", ".gitignore", "a.txt", "new.txt"]


def test_contents_modes_and_links_are_those_of_the_checkout(root: Path) -> None:
    (root / ".gitattributes").write_text("*.txt text eol=crlf\n")
    (root / "a.txt").write_bytes(b"one\r\ntwo\n")
    put(root, "run.sh", "#!/bin/sh\necho ran\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    said = output(root, "od -c a.txt | head -1; ./run.sh; readlink link")
    assert said == ["0000000   o   n   e  \\r  \\n   t   w   o  \\n", "ran", "a.txt"]


def test_git_in_the_room_is_a_clean_checkout_that_knows_the_tags(root: Path) -> None:
    git(root, "tag", "-a", "v1.2", "-m", "one")
    put(root, "new.txt")
    said = output(root, "git describe --tags; git status --short; git remote; basename $PWD")
    assert len(said) == 2
    assert said[0].startswith("v1.2-1-g")
    assert said[1] == "project"


@pytest.mark.parametrize(
    "name",
    [
        "git",
    ],
)
def test_a_checkout_may_be_named_like_a_part_of_the_room(tmp_path: Path, name: str) -> None:
    root = with_a_commit(tmp_path / name)
    assert output(root, "ls") == ["a.txt"]
    put(root, "new.txt")
    assert output(root, "ls") == ["a.txt", "new.txt"]


def test_the_environment_has_few_variables_of_ours(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k nothing")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    said: list[str] = []
    command = (
        'echo "$PYTEST_ADDOPTS$PYTHONPATH$GIT_DIR|$CI|$PYTHONDONTWRITEBYTECODE"; ls -A $TMPDIR'
    )
    run(root, check(command, env={"CI": "1"}), said)
    assert said == ["|1|1"]


# ── what a check leaves ─────────────────────────────────────────────────────────────────────

TAMPERING = (
    "echo planted > planted.py",
    "mkdir -p built/deep && echo x > built/deep/x && chmod 500 built/deep built",
    "touch -r a.txt stamp; printf 'two\\n' > a.txt; touch -r stamp a.txt",
    "rm a.txt && mkdir a.txt && echo x > a.txt/x",
    "rm -rf sub && ln -s /tmp sub",
    "rm -rf .git",
    "chmod 0 a.txt",
)


@pytest.mark.parametrize("deed", TAMPERING)
def test_nothing_that_a_check_does_to_its_room_reaches_the_next(root: Path, deed: str) -> None:
    put(root, "sub/b.txt")
    run(root, check(deed))
    said = output(root, "ls -A . sub; cat a.txt; ls -A $TMPDIR; git status --short")
    assert said == [".:", ".git", ".gitignore", "a.txt", "sub", "", "sub:", "b.txt", "one"]


@pytest.mark.parametrize(
    "part",
    [
        "project",
        "git",
    ],
)
def test_a_folder_that_a_check_has_made_a_link_is_not_followed(
    root: Path, tmp_path: Path, part: str
) -> None:
    put(tmp_path, "victim/a.txt", "mine\n")
    put(tmp_path, "victim/index", "mine\n")
    run(root, check(f"cd ..; rm -rf {part}; ln -s {tmp_path / 'victim'} {part}"))
    assert output(root, "ls -A; cat a.txt") == [".git", ".gitignore", "a.txt", "one"]
    kept = sorted(file.name for file in (tmp_path / "victim").iterdir())
    assert kept == ["a.txt", "index"]
    assert (tmp_path / "victim" / "a.txt").read_text() == "mine\n"


@pytest.mark.parametrize("deed", ["true", "ln -s {victim} {room}"])
def test_a_check_that_removes_its_room_is_told_and_the_next_one_has_another(
    root: Path, tmp_path: Path, deed: str
) -> None:
    put(tmp_path, "victim/setup.json", "mine\n")
    place = 'room=$(dirname "$PWD"); cd /; rm -rf "$room"; '
    with pytest.raises(StorageError, match="is not a folder of ours"):
        run(root, check(place + deed.format(victim=tmp_path / "victim", room='"$room"')))
    assert (tmp_path / "victim" / "setup.json").read_text() == "mine\n"
    for room in rooms().iterdir():
        room.unlink()
    assert output(root, "ls") == ["a.txt"]


def test_settings_of_git_that_a_check_leaves_start_no_program(root: Path, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    hook = f"printf '#!/bin/sh\\ntouch {mark}\\n' > $PWD/.git/hook; chmod +x .git/hook"
    monitor = "git config core.fsmonitor $PWD/.git/hook; git config core.hooksPath $PWD/.git"
    run(root, check(f"{hook}; {monitor}; cp .git/hook .git/post-checkout; echo x > a.txt"))
    assert output(root, "cat a.txt; git config core.fsmonitor || true") == ["one"]
    assert not mark.exists()


def test_the_checkout_is_not_changed(root: Path) -> None:
    before = git(root, "status", "--short", "--ignored")
    run(root, check("echo x > a.txt; echo y > new.txt; git commit -qam x || true"))
    assert git(root, "status", "--short", "--ignored") == before
    assert git(root, "log", "--oneline").count("\n") == 0


# ── set-up ──────────────────────────────────────────────────────────────────────────────────

INSTALL = "mkdir -p lib/deep && date +%s%N > lib/deep/made && ln -s deep lib/link && echo set up"
SHOW = "cat lib/link/made"


def test_set_up_prepares_a_room_once(root: Path) -> None:
    first = output(root, SHOW, INSTALL)
    put(root, "new.txt")
    second = output(root, SHOW, INSTALL)
    assert first[0] == "set up"
    assert second == first[1:]


def test_set_up_runs_again_after_a_change_of_what_it_reads(root: Path) -> None:
    first = output(root, SHOW, INSTALL)
    put(root, "lock.txt")
    assert output(root, SHOW, INSTALL)[-1] != first[-1]


@pytest.mark.parametrize(
    "deed",
    [
        "touch -r lib/deep/made s; printf 'x' > lib/deep/made; touch -r s lib/deep/made",
        "rm lib/link; ln -s /etc lib/link",
        "mv lib/deep lib/other; mkdir lib/deep; cp lib/other/made lib/deep/made",
    ],
)
def test_what_set_up_made_is_made_anew_after_a_check_has_changed_it(root: Path, deed: str) -> None:
    first = output(root, SHOW, INSTALL)
    run(root, check(deed, INSTALL))
    put(root, "new.txt")
    said = output(root, SHOW, INSTALL)
    assert said[0] == "set up"
    assert said[1] != first[1]


def test_a_check_cannot_write_the_records_of_its_room(root: Path) -> None:
    first = output(root, SHOW, INSTALL)
    forged = "cp ../setup.json s 2>/dev/null; printf poisoned > lib/deep/made; "
    forged += 'echo \'{"key": "any", "made": {}}\' > ../setup.json; '
    forged += "ls ../git/index 2>/dev/null || echo gone"
    said: list[str] = []
    put(root, "new.txt")
    run(root, check(forged, INSTALL), said)
    assert said[-1] == "gone"
    put(root, "more.txt")
    said = output(root, SHOW, INSTALL)
    assert said[0] == "set up"
    assert said[1] not in ("poisoned", first[1])


def test_a_set_up_that_fails_is_named_with_its_last_line(root: Path) -> None:
    with pytest.raises(ConditionError) as caught:
        run(root, check("true", "echo no such package; exit 3"))
    said = "check test: its set-up `sh -c echo no such package; exit 3` ended with exit status 3 "
    assert caught.value.message.startswith(said)
    assert caught.value.message.endswith('"no such package"')


def test_a_set_up_that_hangs_ends_at_the_deadline_of_the_check(root: Path) -> None:
    spec = CheckSpec("test", ("true",), 0.5, {}, CLEAN, (("sh", "-c", "sleep 60"),))
    with pytest.raises(ConditionError, match=r"its set-up `sh -c sleep 60` did not end after 0\.5"):
        prove(spec, root, SHELL, Checking())


# ── more than one run ───────────────────────────────────────────────────────────────────────


def flaky(beside: Path, passes_at: int) -> str:
    """A check that passes at its n-th run, if nothing is left of the one before."""
    count = f"echo x >> {beside}/runs; [ ! -e left ] && touch left"
    return f"{count} && [ $(wc -l < {beside}/runs) -ge {passes_at} ]"


@pytest.mark.parametrize(
    ("tries", "passes_at", "status", "runs"),
    [(1, 2, 1, 1), (2, 2, 0, 2), (3, 2, 0, 2), (3, 9, 1, 3)],
)
@pytest.mark.parametrize("room", ["here"])
def test_a_check_runs_until_it_passes_or_was_tried_often_enough(
    root: Path, tmp_path: Path, tries: int, passes_at: int, status: int, runs: int, room: Where
) -> None:
    command = flaky(tmp_path, passes_at) + (
        "" if room == CLEAN else "; passed=$?; rm left; exit $passed"
    )
    proof = run(root, replace(check(command), tries=tries, room=room))
    assert (proof.status, (tmp_path / "runs").read_text().count("x")) == (status, runs)
    assert ("needed a retry" in proof.evidence) == (runs > 1 and status == 0)


def test_a_check_may_have_to_pass_in_the_checkout_too(root: Path) -> None:
    spec = replace(check("[ ! -e ignored.log ]"), also_here=True)
    assert run(root, spec).evidence.endswith(" in a clean room and in the checkout")
    put(root, "ignored.log")
    proof = run(root, spec)
    assert proof.status == 1
    assert proof.evidence.endswith(f", tree {proof.tree[:7]} in the checkout")


# ── kills, and two at once ──────────────────────────────────────────────────────────────────

CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from project.proofs.test_clean_rooms import INSTALL, check, run
run(Path({root!r}), check({command!r}, *{setup!r}))
"""


def started(root: Path, command: str, *setup: str) -> subprocess.Popen[bytes]:
    tests = str(Path(__file__).parents[2])
    code = CHILD.format(tests=tests, root=str(root), command=command, setup=setup)
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)


def until(file: Path) -> None:
    deadline = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("place", ["set-up", "check"])
def test_a_run_that_is_killed_leaves_a_room_that_works(
    root: Path, tmp_path: Path, place: str
) -> None:
    mark = tmp_path / "mark"
    hang = f"echo half > lib-half; touch {mark}; sleep 60"
    process = started(root, *(("true", hang) if place == "set-up" else (hang, INSTALL)))
    until(mark)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert output(root, f"ls; {SHOW}", INSTALL)[-3:-1] == ["a.txt", "lib"]


def test_two_checks_of_a_repository_take_turns(root: Path, tmp_path: Path) -> None:
    mark, go, said = tmp_path / "mark", tmp_path / "go", list[str]()
    first = f"touch {mark}; while [ ! -e {go} ]; do sleep 0.02; done; ls"
    one = started(root, first)
    until(mark)
    other = threading.Thread(target=run, args=(root, check("ls"), said))
    other.start()
    deadline = time.monotonic() + 30
    while not said and time.monotonic() < deadline:
        time.sleep(0.02)
    assert said == ["check test waits for its clean room, which another run uses"]
    go.touch()
    other.join()
    assert one.wait() == 0
    assert said[1:] == ["a.txt"]


# ── the folder of rooms ─────────────────────────────────────────────────────────────────────


def test_the_rooms_that_were_not_used_for_long_are_removed(root: Path) -> None:
    for number in range(MOST_ROOMS + 2):
        run(root, check("mkdir -p locked && chmod 500 locked", name=f"check-{number}"))
    kept = list(rooms().iterdir())
    assert len(kept) == MOST_ROOMS


def names() -> set[str]:
    """The checks that have a room."""
    return {json.loads((room / "room.json").read_text())["check"] for room in rooms().iterdir()}


def test_the_room_of_a_check_that_runs_is_not_removed(root: Path, tmp_path: Path) -> None:
    run(root, check("true", name="idle"))
    mark, go = tmp_path / "mark", tmp_path / "go"
    one = started(root, f"touch {mark}; while [ ! -e {go} ]; do sleep 0.02; done; ls")
    until(mark)
    (gone,) = remove_rooms()
    assert (gone.check, gone.repository) == ("idle", str(root / ".git"))
    assert gone.shown.startswith(f"check idle of {root}, 0.")
    go.touch()
    assert one.wait() == 0
    assert names() == {"test"}


def test_rooms_whose_repository_is_gone_are_removed_by_the_next_check(
    root: Path, tmp_path: Path
) -> None:
    other = with_a_commit(tmp_path / "other")
    run(other, check("true", name="of-the-other"))
    run(root, check("true", name="first"))
    assert names() == {"of-the-other", "first"}
    shutil.rmtree(other)
    run(root, check("true"))
    assert names() == {"first", "test"}


def test_a_check_whose_room_is_removed_before_it_begins_has_another(root: Path) -> None:
    ended = threading.Event()

    def removing() -> None:
        while not ended.is_set():
            remove_rooms()

    other = threading.Thread(target=removing)
    other.start()
    try:
        assert all(output(root, f"ls; true {number}")[-1] == "a.txt" for number in range(8))
    finally:
        ended.set()
        other.join()


@pytest.fixture
def small_disk(cache: Path) -> Iterator[None]:
    cache.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(cache)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield
    subprocess.run(["umount", "--lazy", str(cache)], check=True)


@pytest.mark.usefixtures("small_disk")
@pytest.mark.parametrize("place", ["the tree", "set-up"])
def test_a_full_disk_is_told_with_its_folder_and_the_cure(root: Path, place: str) -> None:
    if place == "the tree":
        (root / "big").write_bytes(os.urandom(6_000_000))
    setup = () if place == "the tree" else ("head -c 6000000 /dev/urandom > big",)
    with pytest.raises(StorageError, match="the disk is full on which ") as caught:
        run(root, check("true", *setup))
    assert str(rooms()) in caught.value.message
    assert "playbook doctor --clean" in caught.value.guidance
    (root / "big").unlink(missing_ok=True)
    assert output(root, "ls") == ["a.txt"]


def test_a_room_that_is_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    run(root, check("true"))
    (room,) = rooms().iterdir()
    elsewhere = tmp_path / "elsewhere"
    room.rename(elsewhere)
    room.symlink_to(elsewhere)
    with pytest.raises(StorageError, match="is not a folder of ours"):
        run(root, check("echo again"))
    assert (elsewhere / "project" / "a.txt").exists()
