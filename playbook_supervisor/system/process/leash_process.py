"""The processes that hold workers on a leash; `leash` is the runner's end.

On Linux a leash adopts the worker's descendants (a subreaper), so that none escapes with a session
or a parent of its own; elsewhere it knows the worker's process group alone.

The interpreter runs this file without our package and without `site`, to start fast. It is the
server of one runner: for each message on its standard input, a socket, it forks a leash, which gets
the descriptors of the message. It answers with the number of the process, or the negative of an
ERRNO, and ends with the runner.

A leash reads from `control` what to start, and then waits there. `STOP`, or the end of the runner,
asks it to end the worker. `DEADLINE` and a number, milliseconds on the clock of `now`, put off the
deadline that the worker was given; when it is near, the leash ends the worker by itself.

It writes lines to `report`: `started` with the number of the worker's process, or `failed ERRNO`;
`overdue` when the deadline is near; `ended STATUS`; `left` or `kept` with the name and number of a
process that the worker has left behind, and that was ended or could not be ended.
"""

from __future__ import annotations

import marshal
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import NoReturn

    Request = tuple[list[bytes], bytes, dict[bytes, bytes], bool, float, float | None, bool]
    """The worker's argv, folder and environment, whether it may outlive its runner, its grace in
    seconds between SIGTERM and SIGKILL, and its deadline. All have ended at the deadline, and are
    asked to end so many seconds earlier. At last, whether the worker only isolates others: it
    takes them along when it ends, so it is not asked to."""

GRACE = 2.0  # seconds between asking processes to end and ending them
PATIENCE = 5.0  # seconds to wait for a SIGKILL to take effect
SIZE = 8  # bytes of a number: how long a request is, or a deadline
STOP, DEADLINE = b".", b"="  # how a message on `control` begins
_LEAVING = 0.5  # seconds that a worker's processes may take to end after it
_SWEEP = 0.05  # seconds between two sweeps of processes that do not end
_GLANCE = 1.0  # seconds between two looks at a deadline: `select` does not count suspended time
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # of prctl(2)
_SET_NO_NEW_PRIVS = 38
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT, _ABSTRACT_SOCKETS = 444, 446, 1
_DESCRIPTORS = 6  # that a leash gets: the standard three, the worker file, control and report
_MOST = 4_096  # descriptors that a runner has open
_INVALID = 22  # EINVAL
_SHELLS = frozenset({"bash", "dash", "sh", "zsh"})


def now() -> float:
    """Seconds on a clock that is never set and, on Linux, runs while the machine is suspended."""
    return time.clock_gettime(_CLOCK)


def _serve() -> NoReturn:
    import _socket
    import warnings  # noqa: F401 - for os.execvpe; a leash shall not import it anew

    os.closerange(3, _MOST)  # what others have let us inherit
    signal = _signals()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps the leashes
    _prctl(_SET_CHILD_SUBREAPER, 0)  # loads what a leash needs
    runner = _socket.socket(fileno=0)
    number = 4  # bytes of a descriptor's
    while True:
        message, ancillary, *_ = runner.recvmsg(1, _socket.CMSG_SPACE(_DESCRIPTORS * number))
        if not message:
            os._exit(0)
        taken = memoryview(ancillary[0][2]).cast("i").tolist()
        server = os.getpid()
        try:
            forked = os.fork()
        except OSError as error:
            forked = -(error.errno or 1)
        if forked == 0:
            try:
                _Leash(taken, server).main()
            finally:
                os._exit(1)
        for descriptor in taken:
            os.close(descriptor)
        runner.send(b"%d" % forked)


class _Leash:
    def __init__(self, descriptors: list[int], server: int) -> None:
        *self.standard, _, self.control, self.report = descriptors
        self.server = server
        self.sources = [self.control]
        self.unread = b""
        self.asked = False
        self.worker = 0
        self.ended = False  # the worker
        self.alone = False  # nothing is left to wait for
        self.named: dict[int, str] = {}

    def main(self) -> NoReturn:
        signal = _signals()
        os.setsid()
        for number, descriptor in enumerate(self.standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.set_inheritable(self.control, False)
        os.set_inheritable(self.report, False)
        self.woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        self.sources.append(self.woken)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        _prctl(_SET_CHILD_SUBREAPER)
        argv, folder, environment, self.outlives, *_ = request = self.request()
        self.grace, self.deadline, self.isolates = request[4:]
        if not self.outlives:  # a server that is killed takes its leashes along
            _prctl(_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != self.server:
                os._exit(1)
        self.start(argv, folder, environment)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):  # the worker's own: the runner sees when it closes them
            os.dup2(nowhere, standard)
        os.chdir("/")
        while not (self.ended or self.asked):
            self.wait(self.patience())
            if not self.ended and self.patience() == 0:
                self.asked = True
                self.say("overdue")
        if not self.asked:
            self.wait_until_alone(self.end_of(_LEAVING))
        self.end_all()
        os._exit(0)

    def patience(self) -> float | None:
        """Seconds until the next look at the deadline; 0 when the worker is to be ended."""
        if self.deadline is None:
            return None
        return min(max(self.deadline - self.grace - now(), 0), _GLANCE)

    def end_of(self, seconds: float) -> float:
        end = now() + seconds
        return end if self.deadline is None else min(end, self.deadline)

    def request(self) -> Request:
        size = int.from_bytes(self.read(SIZE), "big")
        request: Request = marshal.loads(self.read(size))  # noqa: S302 - of our own runner
        return request

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = os.read(self.control, size - len(data))
            if not chunk:  # the runner is gone
                os._exit(1)
            data += chunk
        return data

    def start(self, argv: list[bytes], folder: bytes, environment: dict[bytes, bytes]) -> None:
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
                if self.isolates:
                    leave_abstract_sockets()
                os.chdir(folder)
                os.execvpe(argv[0], argv, environment)  # noqa: S606 - no shell is involved
            except OSError as error:
                os.write(failed, str(error.errno).encode())
            except ValueError:  # a NUL, or a name with an equals sign
                os.write(failed, b"%d" % _INVALID)
            finally:
                os._exit(127)
        os.close(failed)
        if number := os.read(failure, 16):
            self.say("failed", number.decode())
            os._exit(1)
        os.close(failure)
        self.say("started", str(self.worker))

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
            self.hear()
        self.reap()

    def hear(self) -> None:
        data = os.read(self.control, 1 << 10)
        if not data:  # the runner is gone
            self.sources.remove(self.control)
            self.asked |= not self.outlives
        self.unread += data
        while self.unread:
            size = 1 + SIZE if self.unread.startswith(DEADLINE) else 1
            if len(self.unread) < size:
                break
            message, self.unread = self.unread[:size], self.unread[size:]
            if size == 1:
                self.asked = True
            elif self.deadline is not None and not self.asked:
                self.deadline = int.from_bytes(message[1:], "big") / 1000

    def reap(self) -> None:
        try:
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                if reaped[0] == self.worker:
                    self.ended = True
                    self.say("ended", str(os.waitstatus_to_exitcode(reaped[1])))
        except ChildProcessError:
            self.alone = not _adopts() or not _group_lives(self.worker)

    def wait_until_alone(self, end: float) -> None:
        while not self.alone and (left := end - now()) > 0:
            self.wait(min(left, _SWEEP))

    def end_all(self) -> None:
        """End the worker and all its descendants: SIGTERM, then SIGKILL, at once if it is late."""
        signal = _signals()
        left_behind = self.ended
        end = self.end_of(self.grace)
        if self.deadline is not None:
            self.end_worker((now() + end) / 2)
            end = min(end, self.end_of(GRACE)) if self.ended else end
        if not self.alone and now() < end:
            self.signal(signal.SIGTERM)
            self.wait_until_alone(end)
        end = now() + PATIENCE
        while not self.alone and now() < end:
            self.signal(signal.SIGKILL)  # again and again: they may start others
            self.wait_until_alone(now() + _SWEEP)
        kept = () if self.alone else _descendants()
        for pid, name in self.named.items():
            if pid in kept:
                self.say("kept", f"{name} ({pid})")
            elif left_behind:
                self.say("left", f"{name} ({pid})")

    def end_worker(self, end: float) -> None:
        """Ask the worker alone: a runner would take steps that end with it for failed ones."""
        if not self.ended and now() < end:
            _unless(ProcessLookupError, os.kill, self.worker, _signals().SIGTERM)
        while not self.ended and (left := end - now()) > 0:
            self.wait(min(left, _GLANCE))

    def signal(self, number: int) -> None:
        descendants = _descendants()
        for pid in descendants:
            if self.isolates and number != _signals().SIGKILL and pid == self.worker:
                continue
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


def leave_abstract_sockets() -> None:
    """Reach no socket without a path that was there before (Landlock, Linux 6.12; else nothing).

    They belong to the network's namespace, which programs in isolation may share.
    """
    if sys.platform == "linux":
        import ctypes

        system = ctypes.CDLL(None).syscall
        rules = (ctypes.c_uint64 * 3)(0, 0, _ABSTRACT_SOCKETS)
        ruleset = system(_LANDLOCK_CREATE, rules, ctypes.sizeof(rules), 0)
        if ruleset >= 0:
            _prctl(_SET_NO_NEW_PRIVS)
            system(_LANDLOCK_RESTRICT, ruleset, 0)
            os.close(ruleset)


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


def _run_apart(command: str) -> NoReturn:
    """Be the shell that is to run this command, unable to trace what was there before (Landlock).

    A client calls it for each of its shells, by the shell above or in its place.
    """
    shell = os.readlink(f"/proc/{os.getppid()}/exe")
    if os.path.basename(shell) not in _SHELLS:
        shell = os.environ.get("SHELL", "")
    if os.path.basename(shell) not in _SHELLS:
        shell = "/bin/sh"
    leave_abstract_sockets()
    os.execv(shell, [shell, "-c", command])  # noqa: S606 - the command is a shell's


if __name__ == "__main__":
    if sys.argv[1:]:
        _run_apart(sys.argv[1])
    _serve()
