"""A bounded record of a process's output. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.system.process.process_groups import signal_name

_SECRET_LINE = 8  # a line of a secret with at least this many characters is redacted by itself
LAST_LINES = 15  # how many of a program's last lines a failure quotes as its cause
_MARK = 100  # bytes: the mark of text that was cut before


class Capture:
    """At most `cap` bytes of a stream: its beginning, where the result is, and its end, where a
    failing program says why, with a mark between them."""

    def __init__(self, cap: int) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._head_room, self._tail_room = cap - cap // 2, cap // 2
        self._omitted = 0

    @property
    def cut(self) -> bool:
        return self._omitted > 0

    def add(self, chunk: bytes) -> None:
        taken = self._head_room - len(self._head)
        self._head += chunk[:taken]
        self._tail += chunk[taken:]
        excess = len(self._tail) - self._tail_room
        if excess > 0:
            del self._tail[:excess]
            self._omitted += excess

    def text(self) -> str:
        """The kept bytes as text, invalid UTF-8 replaced."""
        if not self.cut:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (each.decode("utf-8", "replace") for each in (self._head, self._tail))
        return f"{head}\n[… {self._omitted:,} bytes left out …]\n{tail}"


class LineSplitter:
    """Splits chunks into lines; a line of more than `cap` bytes is cut there and marked."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._line = bytearray()
        self._cut = False

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that this chunk completes, without their line ends (LF or CR LF)."""
        *complete, rest = chunk.split(b"\n")
        lines = []
        for piece in complete:
            self._add(piece)
            lines.append(self._take())
        self._add(rest)
        return lines

    def rest(self) -> list[str]:
        """The last line, if it has no line end."""
        return [self._take()] if self._line else []

    def _add(self, piece: bytes) -> None:
        room = self._cap - len(self._line)
        self._line += piece[:room]
        self._cut = self._cut or len(piece) > room

    def _take(self) -> str:
        line = self._line.decode("utf-8", "replace").removesuffix("\r")
        if self._cut:
            line += " [… line cut]"
        self._line, self._cut = bytearray(), False
        return line


def capped(text: str, cap: int) -> str:
    """The text, or its beginning and its end where it is longer than `cap` bytes and a mark."""
    data = text.encode("utf-8", "replace")
    if len(data) <= cap + _MARK:
        return text
    capture = Capture(cap)
    capture.add(data)
    return capture.text()


def harmless(text: str, secrets: Iterable[str]) -> str:
    """The text without control characters, which could disguise a secret, then without secrets."""
    shown = "\t".join(printable(part, keep_newlines=True) for part in text.split("\t"))
    return redact(shown, secrets)


def bad_end(
    program: str, status: int, outputs: Sequence[str], secrets: Iterable[str]
) -> tuple[str, str]:
    """The end of a program, in a sentence, and the last lines of the first output with any."""
    killed = status < 0
    end = f"was killed by {signal_name(status)}" if killed else f"ended with exit status {status}"
    for text in outputs:
        lines = [first_line(line) for line in harmless(text, secrets).splitlines()]
        if last := [line for line in lines if line][-LAST_LINES:]:
            return f"{program} {end}: {last[-1]}", "\n".join(last)
    return f"{program} {end}", ""


def redact(text: str, secrets: Iterable[str]) -> str:
    """`text` without the values of the secrets, and without any long line of one."""
    hidden: set[str] = set()
    for secret in secrets:
        hidden |= {secret, secret.strip()}
        hidden |= {line for line in secret.splitlines() if len(line) >= _SECRET_LINE}
    longest_first = sorted(filter(str.strip, hidden), key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    return re.sub(pattern, "[redacted]", text) if pattern else text
