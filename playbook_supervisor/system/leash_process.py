"""The process that holds a worker on a leash; `leash` is the runner's end.

On Linux it adopts the worker's descendants (a subreaper), so that none escapes with a session or a
parent of its own; elsewhere it knows the worker's process group alone.

The interpreter runs this file without our package and without `site`, to start fast. It reads
`control`: a byte, or the end of the runner, asks it to end the worker, with `grace` seconds between
SIGTERM and SIGKILL. It writes lines to `report`: `started` or `failed ERRNO`; `ended STATUS`;
`left` or `kept` with the name and the number of a process that the worker has left behind, and that
was ended or could not be ended.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import NoReturn

GRACE = 2.0
"""Seconds between asking processes to end and ending them."""
PATIENCE = 5.0
"""Seconds to wait for a SIGKILL to take effect."""
OUTLIVES, COERCED = "outlives", "coerced"
"""The worker may outlive its runner; its environment has no LC_CTYPE."""
_LEAVING = 0.5  # seconds that a worker's processes may take to end after it
_SWEEP = 0.05  # seconds between two sweeps of processes that do not end
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # of prctl(2)


class _Process:
    """The leash itself. `asked` is whether it has been asked to end the worker."""

    def __init__(self, control: int, report: int, grace: float, options: Sequence[str]) -> None:
        self.control, self.report, self.grace = control, report, grace
        self.sources = [control]
        self.outlives = OUTLIVES in options
        self.coerced = COERCED in options
        self.asked = False
        self.worker = 0
        self.ended = False  # the worker
        self.alone = False  # nothing is left to wait for
        self.named: dict[int, str] = {}

    def main(self, argv: list[str]) -> NoReturn:
        signal = _signals()
        os.set_inheritable(self.control, False)
        os.set_inheritable(self.report, False)
        self.woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        self.sources.append(self.woken)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        _prctl(_SET_CHILD_SUBREAPER)
        self.start(argv)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):  # the worker's own: the runner sees when it closes them
            os.dup2(nowhere, standard)
        os.chdir("/")
        while not (self.ended or self.asked):
            self.wait(None)
        if not self.asked:
            self.wait_until_alone(_LEAVING)
        self.end_all()
        os._exit(0)

    def start(self, argv: list[str]) -> None:
        signal = _signals()
        failure, failed = os.pipe()
        leash = os.getpid()
        self.worker = os.fork()
        if self.worker == 0:
            try:
                os.setsid()
                if not self.outlives:  # a leash that is killed takes the worker along
                    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
                    if os.getppid() != leash:
                        os._exit(1)
                for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, not by others
                    signal.signal(ignored, signal.SIG_DFL)
                if self.coerced:
                    os.environ.pop("LC_CTYPE", None)
                os.execvpe(argv[0], argv, os.environ)  # noqa: S606 - no shell is involved
            except OSError as error:
                os.write(failed, str(error.errno).encode())
            finally:
                os._exit(127)
        os.close(failed)
        if number := os.read(failure, 16):
            self.say("failed", number.decode())
            os._exit(1)
        os.close(failure)
        self.say("started")

    def say(self, *words: str) -> None:
        line = " ".join(words).encode() + b"\n"
        _unless(BrokenPipeError, os.write, self.report, line)  # the runner is gone

    def wait(self, seconds: float | None) -> None:
        """Wait for a child's end or a request, and reap what has ended."""
        import select

        ready, _, _ = select.select(self.sources, [], [], seconds)
        if self.woken in ready:
            self.asked |= _signals().SIGTERM in os.read(self.woken, 1 << 10)
        if self.control in ready:
            self.sources.remove(self.control)
            self.asked |= bool(os.read(self.control, 1)) or not self.outlives
        self.reap()

    def reap(self) -> None:
        try:
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                if reaped[0] == self.worker:
                    self.ended = True
                    self.say("ended", str(os.waitstatus_to_exitcode(reaped[1])))
        except ChildProcessError:
            self.alone = not _adopts() or not _group_lives(self.worker)

    def wait_until_alone(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.alone and (left := deadline - time.monotonic()) > 0:
            self.wait(min(left, _SWEEP))

    def end_all(self) -> None:
        """End the worker and all its descendants: SIGTERM, then SIGKILL."""
        signal = _signals()
        left_behind = self.ended
        if not self.alone:
            self.signal(signal.SIGTERM)
            self.wait_until_alone(self.grace)
        deadline = time.monotonic() + PATIENCE
        while not self.alone and time.monotonic() < deadline:
            self.signal(signal.SIGKILL)  # again and again: they may start others
            self.wait_until_alone(_SWEEP)
        kept = () if self.alone else _descendants()
        for pid, name in self.named.items():
            if pid in kept:
                self.say("kept", f"{name} ({pid})")
            elif left_behind:
                self.say("left", f"{name} ({pid})")

    def signal(self, number: int) -> None:
        descendants = _descendants()
        for pid in descendants:
            self.named.setdefault(pid, _name(pid))
            _unless((ProcessLookupError, PermissionError), os.kill, pid, number)
        if not _adopts():
            _unless((ProcessLookupError, PermissionError), os.killpg, self.worker, number)


def _unless(
    expected: type[OSError] | tuple[type[OSError], ...], call: Callable[..., object], *args: object
) -> None:
    """Call it, and ignore the expected errors; contextlib takes long to import."""
    try:
        call(*args)
    except expected:
        pass


def _signals() -> ModuleType:
    """`signal` without its enumerations, which take long to import."""
    try:
        return __import__("_signal")
    except ImportError:
        return __import__("signal")


def _descendants() -> list[int]:
    """Our living descendants; none if the system does not list processes in /proc."""
    children: dict[int, list[int]] = {}
    try:
        processes = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []
    for pid in processes:
        fields = _stat(pid).rpartition(b")")[2].split()
        if len(fields) > 1 and fields[0] not in b"ZX":
            children.setdefault(int(fields[1]), []).append(pid)
    found = children.get(os.getpid(), [])
    for pid in found:  # it grows meanwhile
        found += children.get(pid, [])
    return found


def _name(pid: int) -> str:
    """Its name, on one line: the process itself has chosen it."""
    name = _stat(pid).partition(b"(")[2].rpartition(b")")[0].decode("utf-8", "replace")
    return "".join(each if each.isprintable() else "?" for each in name)


def _stat(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _prctl(option: int, value: int = 1) -> None:
    """Set an attribute of this process; elsewhere than on Linux, do nothing."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _adopts() -> bool:
    return sys.platform == "linux"


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


if __name__ == "__main__":
    control, report, grace, options, *worker = sys.argv[1:]
    _Process(int(control), int(report), float(grace), options.split(",")).main(worker)
