"""The runtime state: written completely or not at all, and validated when it is read."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.sessions.files.local_state import Launch, Runtime
from playbook_supervisor.system.disk.ab_file import ABFile
from playbook_supervisor.system.disk.files import Stamp

LAUNCH = Launch(1, "abc", {"specs/x/plan.md": Stamp(1, 2, "d"), "specs/x/tasks.md": None})


@pytest.fixture
def place(tmp_path: Path) -> ABFile:
    return ABFile(tmp_path / "runtime")


def again(place: ABFile) -> ABFile:
    return ABFile(place.path)


def names(place: ABFile) -> list[str]:
    return sorted(file.name for file in place.path.parent.iterdir())


# ── two files ───────────────────────────────────────────────────────────────────────────────


def test_nothing_was_written_yet(place: ABFile) -> None:
    assert (place.exists, place.read(), place.unchanged) == (False, None, True)


def test_the_last_content_is_read_at_any_length(place: ABFile) -> None:
    contents = [b"one", b"a longer second one", b"", b"\0\n\xff", b"x" * 100_000, b"short"]
    for content in contents:
        place.write(content)
        assert again(place).read() == content
    assert names(place) == ["runtime-0", "runtime-1"]


def test_another_process_continues_the_turns(place: ABFile) -> None:
    place.write(b"one")
    other = again(place)
    assert other.read() == b"one"
    other.write(b"two")
    assert place.read() == b"two"
    assert place.turn == 2


def test_every_write_is_visible_to_other_processes(place: ABFile) -> None:
    other = again(place)
    for _ in range(5):
        place.write(b"the same")
        assert not other.unchanged
        other.read()
        assert place.unchanged
        assert other.unchanged


@pytest.mark.parametrize("lost", ["runtime-0", "runtime-1"])
def test_a_file_that_is_gone_or_another_is_seen(place: ABFile, lost: str) -> None:
    place.write(b"one")
    place.write(b"two")
    (place.path.parent / lost).unlink()
    assert not place.unchanged
    (place.path.parent / lost).mkdir()
    assert lost == "runtime-0" or not place.unchanged


@given(cut=st.integers(0, 200), turns=st.integers(1, 4))
def test_a_write_that_was_cut_off_leaves_the_one_before(
    tmp_path_factory: pytest.TempPathFactory, cut: int, turns: int
) -> None:
    place = ABFile(tmp_path_factory.mktemp("cut") / "runtime")
    for turn in range(turns):
        place.write(b"content %d" % turn * 5)
    torn = Path(f"{place.path}-{(turns + 1) % 2}")
    before = torn.read_bytes() if torn.exists() else b""
    new = ABFile(tmp_path_factory.mktemp("new") / "runtime")
    for turn in range(turns + 1):
        new.write(b"content %d" % turn * 5)
    intended = Path(f"{new.path}-{(turns + 1) % 2}").read_bytes()
    torn.write_bytes(intended[:cut] + before[cut:])
    whole = cut >= len(intended)
    assert again(place).read() == b"content %d" % (turns if whole else turns - 1) * 5


@given(st.binary(max_size=300))
def test_foreign_bytes_do_not_count_as_content(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    place = ABFile(tmp_path_factory.mktemp("foreign") / "runtime")
    Path(f"{place.path}-0").write_bytes(data)
    assert (place.exists, place.read()) == (True, None)


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("where", ["os.open", "os.write", "os.fdatasync"])
@pytest.mark.parametrize("written", [1, 2, 3])
def test_a_failed_write_keeps_the_last_content_and_raises(
    place: ABFile, mocker: MockerFixture, where: str, written: int, reason: int
) -> None:
    for turn in range(written):
        place.write(b"content %d" % turn)
    real: Callable[..., Any] = getattr(os, where[3:])

    def refused(*args: Any, **kwargs: Any) -> Any:
        if where == "os.write":
            real(args[0], args[1][:7])
        raise OSError(reason, os.strerror(reason))

    mocker.patch(where, refused)
    if where == "os.fdatasync" and written == 1:
        mocker.patch("os.fsync", refused)  # a file that is new is synced with its folder
    with pytest.raises(StorageError) as caught:
        place.write(b"never arrives")
    mocker.stopall()
    assert caught.value.code == "PB-IO-WRITE"
    assert os.strerror(reason) in caught.value.message
    arrived = (b"never arrives",) if where == "os.fdatasync" else ()  # and might yet be lost
    assert again(place).read() in (b"content %d" % (written - 1), *arrived)
    place.write(b"room again")
    assert again(place).read() == b"room again"


def test_a_symbolic_link_is_neither_written_nor_read(place: ABFile) -> None:
    place.write(b"one")
    place.write(b"two")
    for name in names(place):
        file = place.path.parent / name
        file.rename(place.path.parent / f"real-{name}")
        file.symlink_to(f"real-{name}")
    with pytest.raises(StorageError):
        place.write(b"three")
    assert not place.unchanged


# ── what is in them ─────────────────────────────────────────────────────────────────────────


def full() -> Runtime:
    return Runtime(
        digests={"journal.yaml": ["a"]},
        begun=LAUNCH,
        state={"past": 1},
        text={"past": 2},
        manifest={"feature": "x"},
        chain="c",
        launches={"plan#1": LAUNCH},
        failing={"plan_exists": "d1"},
        waivers={"spec_exists": "d2"},
        findings={"d3": "accepted"},
    )


def test_what_was_saved_is_loaded(place: ABFile) -> None:
    assert Runtime.load(place) is None
    saved = full()
    saved.save(place)
    assert Runtime.load(again(place)) == saved


def test_stepping_back_restores_the_former_state(place: ABFile) -> None:
    runtime = full()
    runtime.save(place)
    runtime.will_write("journal.yaml", "b")
    runtime.findings["d4"] = "answered"
    runtime.launches.clear()
    runtime.state = {"past": 5}
    runtime.save(place)
    loaded = Runtime.load(again(place))
    assert loaded is not None
    assert loaded.ours("journal.yaml", "a")
    assert loaded.latest("journal.yaml", "b")
    loaded.step_back()
    assert loaded.latest("journal.yaml", "a")
    assert not loaded.ours("journal.yaml", "b")
    assert (loaded.findings, loaded.launches, loaded.state) == (
        {"d3": "accepted"},
        {"plan#1": LAUNCH},
        {"past": 1},
    )


def test_unwritten_bytes_are_not_ours() -> None:
    assert not Runtime().ours("journal.yaml", "a")
    assert not Runtime().latest("journal.yaml", "a")


@pytest.mark.parametrize(
    "change",
    [
        {"format": 0},
        {"format": None},
        {"begun": {"at": 1}},
        {"begun": {"at": 1, "head": "", "artifacts": {"x": [1]}}},
        {"now": {}},
        {"now": []},
        {"now": None},
        {"digests": ...},
    ],
)
def test_damaged_content_is_an_error_with_guidance(place: ABFile, change: dict[str, Any]) -> None:
    full().save(place)
    data = json.loads(place.read() or b"")
    for key, value in change.items():
        if value is ...:
            del data[key]
        else:
            data[key] = value
    place.write(json.dumps(data).encode())
    with pytest.raises(StateError) as caught:
        Runtime.load(place)
    assert caught.value.code == "PB-STATE-CORRUPT"
    assert "playbook repair" in caught.value.guidance


@pytest.mark.parametrize("content", [b"", b"[]", b"7", b"\xff", b"{", b"[" * 100_000])
def test_content_must_be_a_json_object(place: ABFile, content: bytes) -> None:
    place.write(content)
    with pytest.raises(StateError) as caught:
        Runtime.load(place)
    assert caught.value.code == "PB-STATE-CORRUPT"
