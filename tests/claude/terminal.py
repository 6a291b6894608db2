"""The client's terminal interface, driven by keys and read from the screen, through tmux.

    with Terminal(client) as terminal:
        terminal.say("/playbook.run auto-feature 013")
        terminal.wait_for("Session 2026")

A tmux server of its own, without configuration, that ends with the test.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from claude.client import Client

COLUMNS, LINES = 140, 50

READY = r"─\n❯"
"""The prompt stands under a rule; a dialog's cursor does not."""

BUSY = "esc to interrupt|Esc to cancel"
"""Stands on the screen in the middle of a turn, or at a dialog."""

PATIENCE = 100.0
"""Seconds to wait for something that takes less than one on an idle machine."""

PAUSE = 0.15
"""Seconds between two looks at the screen, each of which costs a process."""

IGNORED = 4.0
"""Seconds after which a key without any effect may have been ignored; each time twice as long."""

CONFIGURATION = """\
set -g default-terminal screen-256color
set -g escape-time 0
set -g focus-events on
set -g history-limit 5000
set -g remain-on-exit on
set -g status off
"""


def tmux() -> str | None:
    """The program, where there is one."""
    return shutil.which("tmux")


class Terminal:
    """One client in one terminal of a fixed size. Started when it is made."""

    def __init__(self, client: Client, *args: str) -> None:
        program = tmux()
        assert program, "tmux is not on PATH"
        self.client = client
        self._folder = Path(tempfile.mkdtemp(prefix="tmux-"))  # short: a socket's address is
        configuration = self._folder / "tmux.conf"
        configuration.write_text(CONFIGURATION)
        self._tmux = [program, "-S", str(self._folder / "socket"), "-f", str(configuration)]
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        self._do("new-session", "-d", *size, "-c", str(client.root), "--", *client.argv(*args))

    # ── what a person does ──────────────────────────────────────────────────────────────────

    def write(self, text: str) -> None:
        """Type it, and leave it at that."""
        self._do("send-keys", "-l", "--", text)

    def key(self, *names: str) -> None:
        """Press keys: "Enter", "Escape", "Down", "1", "C-c" …"""
        for name in names:
            self._do("send-keys", name)

    def say(self, text: str) -> None:
        """Type a message or a command at the prompt, between two turns, and send it."""
        self.idle()
        empty, typed = rf"{READY}\s*\n─", _spelled(text)
        while True:
            if not re.search(empty, self.screen):  # a key that came too late for its dialog, say
                self.key("C-u")
                self.wait_for(empty)
            self.write(text)
            self.wait_for(rf"{READY}[^─]*{typed}")
            if re.search(rf"{READY}\s*{typed}", self.screen):
                break
        self.key("Enter")

    def choose(self, label: str) -> None:
        """Answer a dialog by the number that stands before `label`."""
        numbered = rf"(\d)\.\s+(?:\[.\]\s+)?{re.escape(label)}"
        self.wait_for(numbered)

        def press() -> None:
            if found := re.search(numbered, self.screen):
                self.key(found[1])

        self._insist(press, lambda screen: not re.search(numbered, screen))

    def answer(self, question: str, label: str) -> None:
        """Answer AskUserQuestion with the choice of this label."""
        self.wait_for(re.escape(question))
        self.choose(label)

    def answer_freely(self, question: str, words: str) -> None:
        """Answer AskUserQuestion in own words."""
        self.wait_for(re.escape(question))
        number = self.wait_for(r"(\d)\. Type something")[1]
        self._insist(lambda: self.key(number), lambda screen: f"❯ {number}." in screen)
        typed = re.compile(_spelled(words)).search
        self._insist(lambda: self._retype(words), lambda screen: bool(typed(screen)))
        self._insist(lambda: self.key("Enter"), lambda screen: "Esc to cancel" not in screen)

    def interrupt(self) -> None:
        """Esc in the middle of a turn, or at a dialog."""
        self.wait_for(BUSY)
        self._insist(lambda: self.key("Escape"), lambda screen: not re.search(BUSY, screen))

    def trust(self) -> None:
        """Say yes to the trust dialog, which begins at no."""
        self.wait_for("❯ No, exit")
        self.settle()  # a new dialog may be drawn twice, and begins at no again
        while "❯ Yes, I trust" not in self.screen:
            self._insist(lambda: self.key("Down"), lambda screen: "❯ Yes, I trust" in screen)
            self.settle()
        self._insist(lambda: self.key("Enter"), lambda screen: "Yes, I trust" not in screen)

    def resize(self, columns: int, lines: int) -> None:
        """Give the window another size."""
        self._do("resize-window", "-x", str(columns), "-y", str(lines))

    # ── what a person sees ──────────────────────────────────────────────────────────────────

    @property
    def screen(self) -> str:
        """The visible lines, without the blanks at their ends."""
        return self._do("capture-pane", "-p")

    @property
    def rang(self) -> bool:
        """Whether the bell has rung."""
        return self._do("display-message", "-p", "#{window_bell_flag}").strip() == "1"

    def wait_for(self, pattern: str, timeout: float = PATIENCE) -> re.Match[str]:
        """Wait until the screen shows it, also where a line is folded; fail with the screen.

        Where a line is folded depends on the lengths of paths: a blank stands for a fold too.
        """
        found = re.compile(re.sub(r"\\? ", r"\\s+", pattern)).search
        deadline = time.monotonic() + timeout
        while not (match := found(screen := self.screen)):
            assert time.monotonic() < deadline, f"no {pattern!r} within {timeout} s:\n{screen}"
            time.sleep(PAUSE)
        return match

    def wait_until(self, condition: Callable[[], bool], timeout: float = PATIENCE) -> None:
        """Wait for something beside the screen, which is shown if it does not come."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout} s:\n{self.screen}"
            time.sleep(PAUSE)

    def wait_for_bell(self, timeout: float = PATIENCE) -> None:
        """Wait until the bell has rung: the hook that rings may be slower than the screen."""
        deadline = time.monotonic() + timeout
        while not self.rang:
            assert time.monotonic() < deadline, f"no bell within {timeout} s:\n{self.screen}"
            time.sleep(PAUSE)

    def ready(self, timeout: float = PATIENCE) -> None:
        """Wait for the prompt."""
        self.wait_for(READY, timeout)

    def idle(self, timeout: float = PATIENCE) -> None:
        """Wait for the prompt, and until no turn runs: its hooks are part of it."""
        self.wait_for(rf"(?s)\A(?!.*(?:{BUSY})).*{READY}", timeout)

    def settle(self, timeout: float = PATIENCE) -> None:
        """Wait until nothing has changed for half a second."""
        deadline = time.monotonic() + timeout
        screen, since = self.screen, time.monotonic()
        while time.monotonic() < since + 0.5:
            assert time.monotonic() < deadline, f"the screen is never still:\n{screen}"
            time.sleep(PAUSE)
            if (now := self.screen) != screen:
                screen, since = now, time.monotonic()

    def _insist(self, press: Callable[[], None], done: Callable[[str], bool]) -> None:
        """Press until it is done: a dialog ignores keys while it is new.

        A slow client has not ignored what it has not got to yet, and would heed a key twice: so
        nothing is pressed again in haste.
        """
        deadline, pause = time.monotonic() + PATIENCE, IGNORED
        while True:
            press()
            pressed = time.monotonic()
            while time.monotonic() < pressed + pause:
                time.sleep(PAUSE)
                if done(screen := self.screen):
                    return
            assert time.monotonic() < deadline, f"the keys have no effect:\n{screen}"
            pause *= 2

    def _retype(self, words: str) -> None:
        self.key("C-u")
        self.write(words)

    # ── its end ─────────────────────────────────────────────────────────────────────────────

    def kill(self) -> None:
        """SIGKILL to the client and all that came of it, as when a machine loses power."""
        self.client.kill()

    def close(self) -> None:
        """End the server and the client, even in the middle of work."""
        subprocess.run(
            [*self._tmux, "kill-server"],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # it may be gone
            check=False,
            timeout=PATIENCE,
        )
        self.client.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _environment(self) -> dict[str, str]:
        return {**self.client.environment, "TERM": "xterm-256color"}

    def _do(self, *args: str) -> str:
        done = subprocess.run(
            [*self._tmux, *args],
            env=self._environment,
            capture_output=True,
            check=False,
            timeout=PATIENCE,
            text=True,
        )
        assert done.returncode == 0, f"tmux {args[0]}: {done.stderr}"
        return done.stdout


def _spelled(text: str) -> str:
    """A pattern for a typed text, wherever the screen breaks the line."""
    return r"\s*".join(map(re.escape, "".join(text.split())))
