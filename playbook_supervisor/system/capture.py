"""What is kept of a process's output: bounded, whatever it says and however it is cut up. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TELLING = 8
"""From this many characters on, one line of a secret is a secret by itself."""


class Capture:
    """At most `cap` bytes of a stream: its beginning and its end, and a mark between them.

    The beginning is what was asked for, the end is where a failing program says why.
    """

    def __init__(self, cap: int) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._head_room = cap - cap // 2
        self._tail_room = cap // 2
        self._left_out = 0

    @property
    def cut(self) -> bool:
        return self._left_out > 0

    def add(self, chunk: bytes) -> None:
        taken = self._head_room - len(self._head)
        self._head += chunk[:taken]
        self._tail += chunk[taken:]
        excess = len(self._tail) - self._tail_room
        if excess > 0:
            del self._tail[:excess]
            self._left_out += excess

    def text(self) -> str:
        """What was kept, invalid UTF-8 replaced."""
        if not self.cut:
            return (self._head + self._tail).decode("utf-8", "replace")
        head = self._head.decode("utf-8", "replace")
        tail = self._tail.decode("utf-8", "replace")
        return f"{head}\n[… {self._left_out:,} bytes left out …]\n{tail}"


class LineSplitter:
    """Chunks in, lines out; a line of more than `cap` bytes is cut there and marked."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._line = bytearray()
        self._cut = False

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that this chunk completes, without their ends (LF or CR LF)."""
        *endings, rest = chunk.split(b"\n")
        lines = []
        for ending in endings:
            self._add(ending)
            lines.append(self._take())
        self._add(rest)
        return lines

    def rest(self) -> list[str]:
        """The last line, if it had no end."""
        return [self._take()] if self._line else []

    def _add(self, piece: bytes) -> None:
        room = self._cap - len(self._line)
        self._line += piece[:room]
        self._cut = self._cut or len(piece) > room

    def _take(self) -> str:
        line = self._line.decode("utf-8", "replace").removesuffix("\r")
        if self._cut:
            line += " [… line cut]"
        self._line.clear()
        self._cut = False
        return line


# ── secrets ─────────────────────────────────────────────────────────────────────────────────


def redact(text: str, secrets: Iterable[str]) -> str:
    """`text` without the secrets' values, nor any long line of one that has several."""
    hidden: set[str] = set()
    for secret in secrets:
        hidden |= {secret, secret.strip()}
        hidden |= {line for line in secret.splitlines() if len(line) >= _TELLING}
    longest_first = sorted(filter(str.strip, hidden), key=len, reverse=True)
    if not longest_first:
        return text
    return re.sub("|".join(map(re.escape, longest_first)), "[redacted]", text)
