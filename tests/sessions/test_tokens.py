"""Resume tokens: one for each halt, kept locally, and none that can be guessed."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from playbook_supervisor.errors import StateError
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.gate import tokens


@pytest.fixture
def private(tmp_path: Path) -> Path:
    return tmp_path / "20260219-a7k"


def found(private: Path, text: str) -> tokens.Token:
    with tokens.opened(private) as known:
        return known.find(text)


def decided(private: Path, text: str, *, used: bool) -> None:
    with tokens.opened(private) as known:
        known.put(replace(known.find(text), decision="approve", used=used))


def test_a_token_names_the_session_and_the_gate(private: Path) -> None:
    """tyr 8."""
    session, gate, nonce = tokens.issue(private, "release#1/build[2]#1?1").split("~")
    assert (session, gate) == ("20260219-a7k", "release.1.build.2..1.1")
    assert len(bytes.fromhex(nonce)) * 8 == 128
    assert tokens.issue(private).split("~")[1] == "session"


def test_a_gate_has_one_live_token(private: Path) -> None:
    token = tokens.issue(private, "pr#1?1")
    assert tokens.issue(private, "pr#1?1") == token
    assert tokens.issue(private, "pr#1?2") != token
    decided(private, token, used=False)
    assert found(private, token).decision == "approve"
    assert tokens.issue(private, "pr#1?1") != token


def test_a_used_token_is_told_from_an_unknown_one(private: Path) -> None:
    token = tokens.issue(private, "pr#1?1")
    decided(private, token, used=True)
    with pytest.raises(StateError) as used:
        found(private, token)
    with pytest.raises(StateError) as foreign:
        found(private, token[:-1] + "~")
    assert (used.value.code, foreign.value.code) == (
        "PB-STATE-TOKEN-USED",
        "PB-STATE-TOKEN-FOREIGN",
    )


def test_ten_thousand_guesses_find_nothing(private: Path) -> None:
    token = tokens.issue(private, "pr#1?1")
    start = token.rpartition("~")[0]
    with tokens.opened(private) as known:
        for _ in range(10_000):
            with pytest.raises(StateError, match="no session of this repository"):
                known.find(f"{start}~{secrets.token_hex(16)}")
    assert found(private, token).text == token


def test_the_file_is_bounded_and_read_by_its_owner_alone(private: Path) -> None:
    first = tokens.issue(private, "pr#1?0")
    with tokens.opened(private) as known:
        last = [known.live(private.name, f"pr#1?{number}").text for number in range(1, 600)][-1]
    assert found(private, last).text == last
    with pytest.raises(StateError):
        found(private, first)
    assert (private / "tokens.json").stat().st_size < 100_000
    assert (private / "tokens.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"tokens": [{"a": 1}]}', b"\xff", b"[" * 99999]
)
def test_a_file_that_is_not_ours_makes_every_token_foreign(private: Path, content: bytes) -> None:
    token = tokens.issue(private, "pr#1?1")
    (private / "tokens.json").write_bytes(content)
    with pytest.raises(StateError, match="no session of this repository"):
        found(private, token)


def test_one_request_at_a_time_is_served(private: Path) -> None:
    tokens.issue(private)
    with (
        tokens.in_use(private),
        pytest.raises(StateError, match="another request"),
        tokens.in_use(private),
    ):
        raise AssertionError
    with tokens.in_use(private):
        pass
