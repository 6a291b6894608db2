"""Files are written whole or not at all, and read only where they may be."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture
from support.controlled_time import running

from playbook_supervisor.errors import StorageError
from playbook_supervisor.system.disk import files

REFUSALS = [errno.ENOSPC, errno.EIO, errno.EROFS]


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# ── space ───────────────────────────────────────────────────────────────────────────────────


def test_a_disk_without_space_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.require_space(tmp_path)
    with pytest.raises(StorageError) as caught:
        files.require_space(tmp_path / "nowhere")
    assert caught.value.cause == "No such file or directory"
    monkeypatch.setattr(files, "_LEAST_SPACE", 1 << 60)
    with pytest.raises(StorageError) as caught:
        files.require_space(tmp_path)
    assert (caught.value.code, caught.value.where) == ("PB-IO-WRITE", str(tmp_path))
    assert caught.value.cause == "No space left on device"


# ── folders ─────────────────────────────────────────────────────────────────────────────────


def test_a_folder_is_there_as_a_whole_or_not_at_all(tmp_path: Path, mocker: MockerFixture) -> None:
    with files.assembled(tmp_path / "whole") as aside:
        (aside / "file").write_text("x")
        assert names(tmp_path) == [aside.name]
    assert names(tmp_path) == ["whole"]
    mocker.patch.object(files, "_sync_folder", side_effect=[None, OSError(errno.EIO, "x")])
    with (
        pytest.raises(StorageError, match="cannot make the folder"),
        files.assembled(tmp_path / "lost"),
    ):
        pass
    assert [name for name, _ in files.unfinished(tmp_path)] == ["lost"]
    assert not (tmp_path / "lost").exists()


def test_a_folder_is_renamed_where_that_is_possible(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    assert not files.rename_folder(tmp_path / "old", tmp_path / "missing/new")
    assert files.rename_folder(tmp_path / "old", tmp_path / "new")
    assert names(tmp_path) == ["new"]


def test_a_folder_is_put_aside_or_the_refusal_is_reported(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    files.put_aside(tmp_path / "whole")
    assert [name for name, _ in files.unfinished(tmp_path)] == ["whole"]
    with pytest.raises(StorageError, match="cannot remove"):
        files.put_aside(tmp_path / "whole")


# ── writing ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_made_and_then_replaced(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "journal.yaml"
    files.write_atomically(path, b"first", durable=durable)
    assert path.read_bytes() == b"first"
    files.write_atomically(path, b"", durable=durable)
    assert path.read_bytes() == b""
    assert names(tmp_path) == ["journal.yaml"]


def test_a_reader_who_has_the_old_file_open_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "journal.yaml"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        files.write_atomically(path, b"new")
        assert reader.read() == b"old"


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "hook.sh"
    path.write_bytes(b"old")
    path.chmod(0o751)
    files.write_atomically(path, b"new")
    assert path.stat().st_mode & 0o7777 == 0o751


def test_a_new_file_follows_the_umask(tmp_path: Path) -> None:
    former = os.umask(0o027)
    try:
        files.write_atomically(tmp_path / "new", b"")
    finally:
        os.umask(former)
    assert (tmp_path / "new").stat().st_mode & 0o7777 == 0o640


def test_a_symbolic_link_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b"untouched")
    link = tmp_path / "session.yaml"
    link.symlink_to(target)
    files.write_atomically(link, b"new")
    assert (link.is_symlink(), link.read_bytes()) == (False, b"new")
    assert target.read_bytes() == b"untouched"


def test_a_partial_write_is_continued(tmp_path: Path, mocker: MockerFixture) -> None:
    real = os.write
    mocker.patch("os.write", lambda fd, data: real(fd, data[:3]))
    files.write_atomically(tmp_path / "x", b"0123456789")
    assert (tmp_path / "x").read_bytes() == b"0123456789"


@pytest.mark.parametrize("reason", REFUSALS)
@pytest.mark.parametrize(
    ("where", "turn", "existed"),
    [
        ("os.open", 1, True),
        ("os.open", 1, False),
        ("os.fchmod", 1, True),
        ("os.write", 1, True),
        ("os.write", 2, True),
        ("os.write", 2, False),
        ("os.fsync", 1, True),
        ("os.fsync", 1, False),
        ("os.replace", 1, True),
        ("os.replace", 1, False),
        ("os.open", 2, True),
        ("os.open", 2, False),
        ("os.fsync", 2, True),
        ("os.fsync", 2, False),
    ],
)
def test_a_failing_disk_leaves_the_old_content_and_a_clear_error(
    tmp_path: Path, mocker: MockerFixture, where: str, turn: int, reason: int, existed: bool
) -> None:
    """At every call, from the first write to the sync of the folder (cat NFR-2.2)."""
    path = tmp_path / "journal.yaml"
    if existed:
        path.write_bytes(b"old")
    real: Callable[..., Any] = getattr(os, where[3:])
    calls = 0

    def failing(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == turn:
            raise OSError(reason, os.strerror(reason))
        if where == "os.write":  # a piece of it arrives before the disk is full
            return real(args[0], args[1][:2])
        return real(*args, **kwargs)

    mocker.patch(where, failing)
    with pytest.raises(StorageError) as caught:
        files.write_atomically(path, b"new content")
    mocker.stopall()
    assert calls >= turn
    assert (caught.value.code, caught.value.where) == ("PB-IO-WRITE", str(path))
    assert os.strerror(reason) in caught.value.message
    assert names(tmp_path) == (["journal.yaml"] if existed else [])
    assert not existed or path.read_bytes() == b"old"


def test_without_hard_links_a_write_still_succeeds(tmp_path: Path, mocker: MockerFixture) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    mocker.patch("os.link", side_effect=OSError(errno.EPERM, "no links here"))
    files.write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_without_hard_links_a_failed_sync_of_the_folder_is_reported_and_the_file_is_whole(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    mocker.patch("os.link", side_effect=OSError(errno.EPERM, "no links here"))
    mocker.patch("os.fsync", side_effect=[None, OSError(errno.EIO, "broken disk")])
    with pytest.raises(StorageError, match="broken disk"):
        files.write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_file_system_that_cannot_sync_folders_is_no_failure(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    mocker.patch("os.fsync", side_effect=[None, OSError(errno.EINVAL, "Invalid argument")])
    files.write_atomically(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"


def test_a_vanished_folder_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        files.write_atomically(tmp_path / "gone" / "x", b"new")
    assert caught.value.code == "PB-IO-WRITE"
    assert not (tmp_path / "gone").exists()


def test_a_folder_in_the_files_place_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(StorageError):
        files.write_atomically(tmp_path / "x", b"new")
    assert names(tmp_path) == ["x"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_folder_is_a_storage_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(StorageError, match="Permission denied"):
            files.write_atomically(path, b"new")
    finally:
        tmp_path.chmod(0o755)
    assert path.read_bytes() == b"old"


WRITER = """
import sys
from pathlib import Path
from playbook_supervisor.system.disk.files import write_atomically
print("ready", flush=True)
number = 0
while True:
    number += 1
    write_atomically(Path(sys.argv[1]), (b"%07d " % number) * 4000)
"""


def test_a_killed_writer_never_leaves_a_torn_file_and_what_it_leaves_is_swept(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.yaml"
    files.write_atomically(path, b"0000000 " * 4000)
    leftovers = 0
    for turn in range(20):
        writer = running(WRITER, path)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(turn * 7 % 20 / 2000)  # each of 20 moments within 10 ms, in no order
        writer.kill()
        writer.communicate()
        content = path.read_bytes()
        assert len(content) == 32_000
        assert content == content[:8] * 4000
        leftovers += len(names(tmp_path)) - 1
        files.sweep(tmp_path)
        assert names(tmp_path) == ["journal.yaml"]
    print(f"20 kills, 0 torn files, {leftovers} stale temporary files swept")


def test_sweeping_keeps_other_files_and_accepts_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / ".playbook-tmp-0123").write_bytes(b"stale")
    (tmp_path / ".playbook-tmp-folder").mkdir()
    (tmp_path / "playbook-tmp.yaml").write_bytes(b"a person's")
    files.sweep(tmp_path)
    files.sweep(tmp_path / "missing")
    assert names(tmp_path) == [".playbook-tmp-folder", "playbook-tmp.yaml"]


# ── folders ─────────────────────────────────────────────────────────────────────────────────


def test_a_folder_is_made_with_its_parents_unless_it_exists(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c"
    files.ensure_folder(path)
    (path / "x").write_bytes(b"")
    files.ensure_folder(path)
    assert names(path) == ["x"]


def test_a_file_in_the_way_of_a_folder_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a file")
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(StorageError, match="cannot make the folder"):
            files.ensure_folder(path)
    assert (tmp_path / "a").read_bytes() == b"a file"


def test_only_one_process_can_reserve_a_folder(tmp_path: Path) -> None:
    won: list[bool] = []
    barrier = threading.Barrier(8)

    def reserve() -> None:
        barrier.wait()
        won.append(files.reserve_folder(tmp_path / "20260219-a7k"))

    threads = [threading.Thread(target=reserve) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 7 + [True]


def test_a_folder_without_a_parent_cannot_be_reserved(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        files.reserve_folder(tmp_path / "gone" / "id")


def test_removing_takes_a_file_a_tree_or_nothing_and_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"")
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "link").symlink_to(outside)
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / "file").write_bytes(b"")
    for name in ("tree", "link", "file", "nothing"):
        files.remove(tmp_path / name)
    assert names(tmp_path) == ["outside"]
    assert names(outside) == ["kept"]


def test_what_cannot_be_removed_is_a_storage_error(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("pathlib.Path.unlink", side_effect=OSError(errno.EROFS, "Read-only file system"))
    with pytest.raises(StorageError, match="Read-only"):
        files.remove(tmp_path / "x")


# ── reading ─────────────────────────────────────────────────────────────────────────────────


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert files.read_bytes(path) == files.read_bytes(path, limit=5) == b"12345"
    with pytest.raises(StorageError, match="larger than 4 bytes") as caught:
        files.read_bytes(path, limit=4)
    assert caught.value.code == "PB-IO-READ"


def test_a_missing_file_is_a_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.read_bytes(tmp_path / "x")


@pytest.mark.parametrize("name", ["folder", "pipe", "file/below", "nul\0"])
def test_other_kinds_of_files_are_refused_without_waiting(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError) as caught:
        files.read_bytes(tmp_path / name)
    assert caught.value.code == "PB-IO-READ"


def test_the_digest_is_sha_256() -> None:
    assert files.digest(b"abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


# ── containment ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("relative", ["x", "a/b/../c", "./x", ".", "not/yet/there", "a b\n"])
def test_a_path_inside_is_resolved(tmp_path: Path, relative: str) -> None:
    assert files.contained(tmp_path, relative) == (tmp_path / relative).resolve()


@pytest.mark.parametrize("relative", ["..", "../x", "a/../../x", "/etc/passwd", "nul\0", "/"])
def test_a_path_that_leads_outside_is_refused(tmp_path: Path, relative: str) -> None:
    """tyr 26: paths stay inside the workspace."""
    with pytest.raises(StorageError) as caught:
        files.contained(tmp_path, relative)
    assert caught.value.code == "PB-IO-ESCAPE"


def test_a_neighbour_that_begins_with_the_roots_name_is_outside(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(StorageError):
        files.contained(tmp_path / "root", "../root-two/x")


def test_an_absolute_path_is_refused_even_inside(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        files.contained(tmp_path, str(tmp_path / "x"))


@pytest.mark.parametrize("swapped", ["specs", "specs/x", "specs/x/plan.md"])
def test_a_link_swapped_in_for_the_file_or_a_folder_of_it_is_refused(
    tmp_path: Path, swapped: str
) -> None:
    """tyr 26: symbolic links are resolved first."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "specs" / "x").mkdir(parents=True)
    (root / "specs" / "x" / "plan.md").write_bytes(b"")
    assert files.contained(root, "specs/x/plan.md").is_file()
    files.remove(root / swapped)
    (root / swapped).symlink_to(outside)
    with pytest.raises(StorageError):
        files.contained(root, "specs/x/plan.md")


def test_a_link_that_stays_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert files.contained(tmp_path, "link/x") == (tmp_path / "real" / "x").resolve()


def test_a_root_that_is_itself_a_link_is_no_escape(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert files.contained(tmp_path / "link", "x") == (tmp_path / "real" / "x").resolve()
