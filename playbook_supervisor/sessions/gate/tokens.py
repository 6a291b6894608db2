"""Resume tokens: a program that runs playbooks gets one with each halt, and decides with it.

`20260219-a7k~pr.1.1~5f0c…` names the session and its gate (`session` where none is open) and ends
with 128 random bits. The tokens of a session are kept in its local folder, never in the repository.
A token decides once. If the process that used it died before its end, the request may be repeated
with the decision that is recorded.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path

from playbook_supervisor.errors import ArgumentError, StateError
from playbook_supervisor.records import as_mapping
from playbook_supervisor.system.disk.files import (
    ensure_folder,
    locked,
    read_bytes,
    write_atomically,
)

_FILE = "tokens.json"
_FORM = re.compile(r"([0-9]{8}-[a-z0-9]{3})~[A-Za-z0-9_.-]{1,80}~[0-9a-f]{32}\Z")
_LONGEST = 200
_LARGEST = 1_000_000  # bytes of the file
_MOST = 500  # tokens of a session that are kept, with those that were used


@dataclass(frozen=True, slots=True)
class Token:
    """`gate` is empty if it stands for the session. `decision` is `approve` or `deny` once one is
    recorded; the token is `used` once its request has ended."""

    text: str
    gate: str = ""
    decision: str = ""
    used: bool = False


def session_of(text: str) -> str:
    """The session that a token names. ArgumentError PB-ARG-TOKEN if it is none of ours."""
    form = _FORM.match(text) if len(text) <= _LONGEST else None
    if form is None:
        raise ArgumentError("PB-ARG-TOKEN", "this is not a resume token")
    return form[1]


def issue(private: Path, gate: str = "") -> str:
    """The token of a session's open gate, or of the session: the live one, else a new one."""
    ensure_folder(private)
    with opened(private) as tokens:
        return tokens.live(private.name, gate).text


@dataclass(slots=True)
class Tokens:
    """The tokens of one session, oldest first, while its lock is held."""

    known: list[Token] = field(default_factory=list)

    def live(self, session: str, gate: str) -> Token:
        for each in self.known:
            if each.gate == gate and not each.decision:
                return each
        place = re.sub(r"[^A-Za-z0-9_-]", ".", gate)[-80:] or "session"
        made = Token(f"{session}~{place}~{secrets.token_hex(16)}", gate)
        self.known.append(made)
        del self.known[:-_MOST]
        return made

    def find(self, text: str) -> Token:
        """All are compared, each in constant time. StateError PB-STATE-TOKEN-FOREIGN, or -USED."""
        found = [each for each in self.known if compare_digest(each.text, text)]
        if not found:
            raise foreign()
        if found[0].used:
            raise used()
        return found[0]

    def put(self, token: Token) -> None:
        self.known = [token if each.text == token.text else each for each in self.known]


@contextmanager
def opened(private: Path) -> Iterator[Tokens]:
    """The session's tokens, held exclusively and written at the end, unless an error is raised."""
    with locked(private / "tokens.lock"):
        tokens = Tokens(_read(private / _FILE))
        before = list(tokens.known)
        yield tokens
        if tokens.known != before:
            data = json.dumps({"tokens": [as_mapping(each) for each in tokens.known]})
            write_atomically(private / _FILE, data.encode(), permissions=0o600)


def _read(path: Path) -> list[Token]:
    """Those of a file; none if it is missing or not ours: then each token is refused."""
    try:
        shapes = json.loads(read_bytes(path, limit=_LARGEST))["tokens"]
        return [Token(**shape) for shape in shapes]
    except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):
        return []


@contextmanager
def in_use(private: Path) -> Iterator[None]:
    """Serve the only request with a token of this session. StateError PB-STATE-DRIVEN."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(private / "tokens.in-use", timeout=0.0))
        except StateError as error:
            said = f"another request with a token of session {private.name} is being served"
            raise StateError("PB-STATE-DRIVEN", said, guidance="Wait for its answer.") from error
        yield


def foreign() -> StateError:
    """The refusal of a token that was made elsewhere, or by guessing."""
    return StateError("PB-STATE-TOKEN-FOREIGN", "no session of this repository made this token")


def used() -> StateError:
    """The refusal of a token that has decided."""
    return StateError("PB-STATE-TOKEN-USED", "this token has been used")


def stale(why: str) -> StateError:
    """The refusal of a token whose gate or session no longer waits."""
    return StateError("PB-STATE-TOKEN-STALE", f"this token has expired: {why}")
