"""The user's own state folder: where it is, who can read it, and what is damaged."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.system.disk import user_state

NAME = "state.json"


def test_the_folder_is_the_one_of_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert user_state.path(NAME) == tmp_path / "playbook" / NAME


@pytest.mark.parametrize("value", [None, "relative"])
def test_without_an_absolute_path_it_is_in_the_home(
    value: str | None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The specification of the variable says that a relative path is ignored."""
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv("XDG_STATE_HOME", value)
    assert user_state.path(NAME) == home / ".local/state/playbook" / NAME


def test_only_the_user_can_read_what_is_kept() -> None:
    umask = os.umask(0)
    try:
        user_state.change(NAME, lambda _: {"a": "é"})
        file = user_state.path(NAME)
        assert file.stat().st_mode & 0o777 == 0o600
        file.chmod(0o644)
        user_state.change(NAME, lambda data: data)
        assert file.stat().st_mode & 0o777 == 0o600, "it is mended"
    finally:
        os.umask(umask)
    assert user_state.load(NAME) == {"a": "é"}


def test_changes_at_once_are_made_one_after_the_other() -> None:
    def count(data: object) -> object:
        return data + 1 if isinstance(data, int) else 1

    def five_times() -> None:
        for _ in range(5):
            user_state.change(NAME, count)

    threads = [threading.Thread(target=five_times) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert user_state.load(NAME) == 20


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_an_error_that_names_the_file(content: bytes) -> None:
    file = user_state.path(NAME)
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(StateError) as error:
        user_state.load(NAME)
    assert error.value.code == "PB-STATE-CORRUPT"
    assert error.value.where == str(file)
    assert "Remove it" in error.value.guidance


def test_a_folder_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(PlaybookError):
        user_state.change(NAME, lambda _: 1)
