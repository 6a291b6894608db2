"""Record the main job as an animated SVG: `python tools/record_demo.py docs/demo.svg`.

The job really runs, in a terminal of fixed size, in the scratch repository of `playbook demo`; the
hands that type are this program's.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from animation import Frame, draw
from screen import Screen

from playbook_supervisor.commands import demo

COLUMNS, LINES = 98, 27  # so that all of it stands there while the gate waits
PROMPT = "\x1b[32m$\x1b[0m "
COMMAND = "playbook run auto-feature 001"
QUESTION = "abort >"
ANSWER = "read the diff, continue"
KEY = 0.05  # seconds between two keys
READING = 3.0  # seconds that a person takes for the question
PATIENCE = 60.0
HOLD = 5.0  # seconds that the last picture stays
STILLNESS = 0.04  # seconds within which what is written belongs together


class Recorder:
    """A screen, and each picture that stood on it."""

    def __init__(self) -> None:
        self.screen = Screen(COLUMNS, LINES)
        self.frames: list[Frame] = []
        self.still = 0

    def show(self, written: str) -> None:
        """What is written now."""
        self.screen.feed(written)
        frame = Frame.of(self.screen, time.monotonic())
        if not self.frames or (frame.rows, frame.cursor) != (
            self.frames[-1].rows,
            self.frames[-1].cursor,
        ):
            self.frames.append(frame)


def record(recorder: Recorder, root: Path, env: dict[str, str]) -> int:
    """Type the command, watch, answer the gate, watch to the end; its exit code."""
    recorder.show(PROMPT)
    time.sleep(1.0)
    for key in COMMAND:
        recorder.show(key)
        time.sleep(KEY)
    recorder.show("\r\n")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "playbook_supervisor", *COMMAND.split()[1:]],
        cwd=root,
        env=env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        try:
            _watch(recorder, ours, QUESTION)
            recorder.still = len(recorder.frames) - 1
            time.sleep(READING)
            for key in f"{ANSWER}\n":
                os.write(ours, key.encode())
                time.sleep(KEY)
                _watch(recorder, ours, "")
            _watch(recorder, ours)
        except SystemExit:
            process.kill()
            raise
    os.close(ours)
    recorder.show(PROMPT)
    return process.returncode


def _watch(recorder: Recorder, terminal: int, until: str | None = None) -> None:
    """Show what comes: until something stands on the screen, until it is still, or to the end."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        written = _written(terminal)
        if written is None:
            return
        recorder.show(written)
        if (
            until is not None
            and not written
            and any(until in line for line in recorder.screen.text)
        ):
            return
    raise SystemExit(f"it does not continue:\n{chr(10).join(recorder.screen.text)}")


def _written(terminal: int) -> str | None:
    """What is written together; nothing after a while, None at the end."""
    written = b""
    while select.select([terminal], [], [], STILLNESS)[0]:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # the program has ended
            return written.decode("utf-8", "replace") if written else None
        written += data
    return written.decode("utf-8", "replace")


def environment(scratch: Path, made: demo.Demo) -> dict[str, str]:
    """Nothing of the person's who records it but the way to the programs."""
    return {
        "HOME": str(scratch),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm-256color",
        "GIT_CONFIG_NOSYSTEM": "1",
        **made.env,
    }


def main(target: Path) -> None:
    """Record it and write the picture."""
    with tempfile.TemporaryDirectory(prefix="recording-") as folder:
        scratch = Path(folder).resolve()
        made = demo.prepare(scratch / "demo")
        settings = made.root / ".playbooks/config.yaml"
        settings.write_text(f'agent: "{made.agent}"\n', encoding="utf-8")
        recorder = Recorder()
        code = record(recorder, made.root, environment(scratch, made))
    screen = recorder.screen
    above = ["".join(cell.character for cell in row).rstrip() for row in screen.scrolled]
    told = "\n".join([*above, *screen.text])
    if code or str(scratch) in told:
        raise SystemExit(f"this is nothing to show (exit code {code}):\n{told}")
    svg = draw(recorder.frames, title=COMMAND, told=told, still=recorder.still, hold=HOLD)
    target.write_text(svg, encoding="utf-8")
    seconds = recorder.frames[-1].at - recorder.frames[0].at
    print(f"{target}: {len(recorder.frames)} pictures, {seconds:.0f} s, {len(svg) // 1024} KiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
