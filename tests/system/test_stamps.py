"""A stamp tells whether a file was written again."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.errors import StateError
from playbook_supervisor.system.disk import files
from playbook_supervisor.system.disk.files import Stamp, rewritten, stamp


def test_a_stamp_detects_a_file_that_was_written_again(tmp_path: Path) -> None:
    """The same bytes written again are a new file."""
    path = tmp_path / "plan.md"
    files.write_atomically(path, b"plan")
    first = stamp(path)
    assert first is not None
    assert first == stamp(path)
    assert first.digest == files.digest(b"plan")
    files.write_atomically(path, b"plan")
    again = stamp(path)
    assert again is not None
    assert (again.digest, again == first) == (first.digest, False)


def test_a_stamp_detects_a_change_with_a_reset_time(tmp_path: Path) -> None:
    path = tmp_path / "plan.md"
    path.write_bytes(b"plan")
    first = stamp(path)
    assert first is not None
    path.write_bytes(b"PLAN")
    os.utime(path, ns=(first.mtime_ns, first.mtime_ns))
    assert stamp(path) != first


@pytest.mark.parametrize("name", ["absent", "folder", "pipe", "file/below"])
def test_other_kinds_of_files_have_no_stamp(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    assert stamp(tmp_path / name) is None


@given(st.integers(min_value=0), st.integers(), st.text())
def test_a_stamp_survives_json(inode: int, mtime_ns: int, content: str) -> None:
    made = Stamp(inode, mtime_ns, content)
    assert Stamp.from_list(json.loads(json.dumps(made.as_list()))) == made


@pytest.mark.parametrize("values", [[1, 2], ["1", 2, "x"], [1, 2, "x", 4]])
def test_a_damaged_stamp_is_refused(values: list[object]) -> None:
    with pytest.raises(StateError) as caught:
        Stamp.from_list(values)
    assert caught.value.code == "PB-STATE-CORRUPT"


@pytest.mark.parametrize("size", [0, 1 << 15, (1 << 15) + 1])
@pytest.mark.parametrize("absent", [(), ("_sha2", "_sha256")], ids=["its own sum", "none"])
def test_every_hash_module_gives_the_same_digest(
    size: int, absent: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in absent:
        monkeypatch.setitem(sys.modules, name, None)
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    (tmp_path / "file").write_bytes(data)
    stamped = stamp(tmp_path / "file")
    assert stamped is not None
    assert stamped.digest == files.digest(data) == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("before", "now", "written"),
    [
        (Stamp.of_content("a"), Stamp(7, 8, "a"), False),
        (Stamp.of_content("a"), Stamp(7, 8, "b"), True),
        (Stamp.of_content("a"), None, True),
        (None, Stamp(7, 8, "a"), True),
        (None, None, False),
        (Stamp(7, 7, "a"), Stamp(7, 8, "a"), True),
    ],
)
def test_a_stamp_from_another_machine_is_compared_by_content(
    before: Stamp | None, now: Stamp | None, written: bool
) -> None:
    assert rewritten(before, now) is written
