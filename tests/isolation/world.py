"""A machine of its own for hostile agents, and the judge who watches from outside.

    unshare … python -m isolation.world required root

carries every attack out in that mode, as that user, and prints what the judge saw, as JSON. It is
process 1 of its namespaces. What it shows of the disk is read-only or a layer in memory, so that an
attack that succeeds changes nothing of the real machine, but for those that reach the kernel
itself: these are only tried in isolation.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import playbook_supervisor
from isolation.attacks import Attack, attacks
from isolation.sensors import LOWER, Guard, Listeners, Shared, Terminal, Victim, remove

TOP = Path("/srv")
LAYERED = ("/etc", "/var", "/usr", "/opt", "/root", "/home", "/tmp", "/run")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
KERNEL = ("core_pattern", "modprobe")
PID = 20_000
SECONDS, LATER = 30.0, 4.5
USER, OPEN = 12_345, 3  # an ordinary user's number, and the exit status of what stays open
SET_FLAGS, GET_MTU, SET_MTU = 0x8914, 0x8921, 0x8922
UP, MTU = 0x1, 65_536
KEYS = {
    ".ssh/id_ed25519": 0o600,
    ".aws/credentials": 0o600,
    ".gnupg/private": 0o600,
    ".kube/config": 0o600,
    ".docker/config.json": 0o600,
    ".azure/token": 0o600,
    ".config/gcloud/credentials": 0o600,
    ".pgpass": 0o600,
    ".local/state/playbook/inbox.json": 0o600,
    ".config/playbook/fleet/database": 0o600,
}
HOME = {
    ".bashrc": "# mine\n",
    ".profile": "# mine\n",
    ".npmrc": "# mine\n",
    ".gitconfig": "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n",
    ".claude.json": "{}\n",
    ".claude/settings.json": "{}\n",
    ".claude/CLAUDE.md": "# Mine\n",
    ".claude/projects/one.jsonl": "",
    ".config/playbook/config.yaml": "{}\n",
    ".cache/pip/kept": "kept\n",
}
STEP = "  - {id: only, command: COMMAND, autonomy: AUTONOMY, error_policy: stop}\n"
PLAYBOOK = 'name: NAME\ndescription: One step\nversion: "1.0"\nargs: []\nsteps:\n' + STEP
CHECKED = PLAYBOOK.replace("NAME", "checked").replace("COMMAND", "cli true")
CHECKED = CHECKED.replace("AUTONOMY", "auto, postconditions: [{command_succeeds: hostile}]")
CHECKED = CHECKED.replace('"1.0"', '"1.1"')
PROJECT = {
    "src/one.py": "one = 1\n",
    ".claude/settings.json": "{}\n",
    ".claude/hooks/playbook.py": "# ours\n",
    ".claude/commands/attack.md": "Attack.\n",
    ".mcp.json": "{}\n",
    ".playbooks/config.yaml": "{}  # at first\n",
    ".playbooks/playbooks/auto.yaml": PLAYBOOK.replace("NAME", "auto")
    .replace("COMMAND", "/attack")
    .replace("AUTONOMY", "auto"),
    ".playbooks/playbooks/checked.yaml": CHECKED,
    ".playbooks/playbooks/gated.yaml": PLAYBOOK.replace("NAME", "gated")
    .replace("COMMAND", "/attack")
    .replace("AUTONOMY", "gate_always"),
}
PROTECTED = (
    *(".git/config", ".git/config.worktree", ".git/hooks", ".git/info", ".git/commondir"),
    *(".git/objects/info/alternates", ".git/playbook", ".git/worktrees/other"),
    *(".git/modules/lib/config", ".git/modules/lib/hooks", "lib/.git", ".playbooks", ".mcp.json"),
    *(".claude/settings.json", ".claude/settings.local.json", ".claude/hooks"),
)
"""In the checkout; written down here, not taken from the profile under test."""

NOTHING = Attack("", "", "true")

LISTENING = (
    *("/run/docker.sock", "/tmp/ssh-x/agent.1", "/run/user/0/bus", "/run/dbus/system_bus_socket"),
    *("/run/systemd/private", "/tmp/.X11-unix/X0", "@/tmp/.X11-unix/X0", "@containerd-shim"),
    *("@victim-datagrams", "/var/lib/daemon/socket", "/var/lib/daemon/socket-datagrams"),
)


def run(*argv: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, check=True, capture_output=True, **more)


def layers() -> dict[Path, Path]:
    """Where what has changed in a folder of the machine is kept, and that folder."""
    program = {Path(playbook_supervisor.__file__).parents[1], Path(sys.prefix)}
    places = [*map(Path, LAYERED), *sorted(program)]
    return {TOP / f"layers/{number}": place for number, place in enumerate(places)}


def build_machine() -> None:
    """A layer in memory over all that may change, and devices, terminals and loopback of its own.
    The rest of the disk is read-only."""
    assert os.getpid() == 1, "this is not a namespace of its own"
    run("mount", "--make-rprivate", "/")
    run("mount", "-t", "tmpfs", "memory", os.fspath(TOP))
    LOWER.mkdir()
    run("mount", "--rbind", "/", os.fspath(LOWER))
    for upper, place in layers().items():
        work = TOP / "work" / upper.name
        upper.mkdir(parents=True)
        shutil.copymode(place, upper)
        work.mkdir(parents=True)
        options = f"lowerdir={place},upperdir={upper},workdir={work}"
        run("mount", "-t", "overlay", "layer", "-o", options, os.fspath(place))
    devices = TOP / "devices"
    devices.mkdir()
    run("mount", "-t", "tmpfs", "devices", os.fspath(devices))
    for name in DEVICES:
        (devices / name).touch()
        run("mount", "--bind", f"/dev/{name}", os.fspath(devices / name))
    for name in ("pts", "shm"):
        (devices / name).mkdir()
    run("mount", "-t", "devpts", "-o", "newinstance,ptmxmode=0666", "pts", f"{devices}/pts")
    (devices / "ptmx").symlink_to("pts/ptmx")
    (devices / "fd").symlink_to("/proc/self/fd")
    run("mount", "--rbind", os.fspath(devices), "/dev")
    run("mount", "-t", "tmpfs", "shm", "/dev/shm")
    run("mount", "-o", "remount,bind,ro", "/")
    Path("/root").chmod(0o755)  # programs may lie there
    Path("/root/.ssh").mkdir(mode=0o700, exist_ok=True)
    loopback(SET_FLAGS, UP)
    package = os.fspath(Path(playbook_supervisor.__file__).parent)
    run(sys.executable, "-m", "compileall", "-q", package)  # else the attacks would do it
    with suppress(OSError):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(PID))


def loopback(request: int, value: int = 0) -> int:
    with socket.socket() as any_socket:
        told = fcntl.ioctl(any_socket, request, struct.pack("16si", b"lo", value))
    return int(struct.unpack("16si", told)[1])


@dataclass(frozen=True)
class Judgement:
    """What was seen of an attack; nothing, if it was held. What it `said` explains only."""

    group: str
    name: str
    seen: list[str]
    said: str


def kernel_log() -> bytes:
    log = ctypes.create_string_buffer(1 << 20)
    ctypes.CDLL(None).klogctl(3, log, len(log))
    return log.value


class World:
    """A user's home, with a project in it, on that machine."""

    def __init__(self, mode: str, user: str) -> None:
        self.options = ("--isolation", mode)
        self.worker: Path | None = None
        self.supervising = 0
        self.who: dict[str, Any] = {}
        if user != "root":
            self.who = {"user": USER, "group": USER, "extra_groups": []}
        self.home = TOP / "ada"
        self.project = self.home / "project"
        self.room = self.home / ".cache/playbook/rooms/abc/one"
        self.loot = self.project / "loot"
        self.secrets: list[str] = []
        self.began = time.time() - time.monotonic()
        self.env = {
            "HOME": os.fspath(self.home),
            "PATH": f"{self.home}/.local/bin:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TERM": "dumb",
        }
        self._make_home()
        self._make_project()
        self._give(self.project)
        self.waiting = self._gated(self.home / "other")
        self.old = self._gated(self.project)
        assert self.playbook("abort", self.old).wait() == 0
        self._make_sensors()

    # ── its parts ───────────────────────────────────────────────────────────────────────────

    def secret(self) -> str:
        self.secrets.append(secrets.token_hex(16))
        return self.secrets[-1]

    def write(self, path: Path, text: str, mode: int = 0o644) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def _make_home(self) -> None:
        for name, text in HOME.items():
            self.write(self.home / name, text)
        for name, mode in KEYS.items():
            self.write(self.home / name, self.secret(), mode)
        self.write(self.room / "secret", self.secret())
        self.other = Path("/home") / "bob"
        for place in (self.home / "hidden/secret", self.other / ".ssh/id_ed25519"):
            self.write(place, self.secret(), 0o600)
        for name in ("root/.ssh/id_ed25519", "etc/shadow", "etc/ssh/ssh_host_ed25519_key"):
            self.write(Path("/") / name, self.secret(), 0o600)
        for name in ("tmp/secret", "var/tmp/secret", "dev/shm/victim"):
            self.write(Path("/") / name, self.secret())

    def _give(self, folder: Path) -> None:
        """Let it belong to the user, as all that the user is to have."""
        if self.who:
            run("chown", "-R", f"{USER}:{USER}", os.fspath(folder))

    def _make_project(self) -> None:
        for name, text in PROJECT.items():
            self.write(self.project / name, text)
        self.write(self.project / "payload", "#!/bin/sh\necho x >> $HOME/.reached\n", 0o755)
        shutil.copy(Path(__file__).with_name("agent.py"), self.project / "src")
        self._give(self.home)
        self.git("init", "-q")
        self.git("add", "--all")
        self.git("commit", "-q", "-m", "Begin")
        self.write(self.project / ".playbooks/config.yaml", "{}\n")
        self.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", "./", "lib")
        self.git("add", "--all")
        self.git("commit", "-q", "-m", "Go on")
        head = run("git", "rev-parse", "HEAD", cwd=self.project, env=self.env, **self.who)
        self.start = head.stdout.decode().strip()
        self.git("worktree", "add", "-q", "../other")
        self.write(self.project / ".git/hooks/post-commit", "#!/bin/sh\n", 0o755)
        self.write(self.project / ".git/playbook/kept.json", "{}\n")

    def _gated(self, folder: Path) -> str:
        """A session that waits at a gate there."""
        run = ("run", "gated", "--agent", "exec:true", "--isolation", "none")
        done = self.playbook(*run, folder=folder).wait()
        assert done == 4, f"the gated session ended with {done}"
        (session,) = (folder / ".playbooks/sessions").glob("2*")
        return session.name

    def git(self, *args: str) -> None:
        run("git", *args, cwd=self.project, env=self.env, **self.who)

    def playbook(self, *args: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "playbook_supervisor", *args],
            cwd=folder or self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            stderr=sys.stderr,
            start_new_session=True,
            **self.who,
        )

    def _make_sensors(self) -> None:
        self.victim = Victim(self.secret(), self.home / "hidden", self.who)
        self.terminal = Terminal()
        self.shared = Shared(self.secret())
        sockets = (self.home / ".gnupg/S.gpg-agent", self.home / ".config/editor/socket")
        here = self.project / ".overmind.sock"
        Path("/run/systemd/system").mkdir(exist_ok=True)
        self.listeners = Listeners([*LISTENING, *map(os.fspath, (*sockets, here))])
        if shutil.which("tmux"):
            around = {**self.env, "TMUX_TMPDIR": "/tmp"}
            run("tmux", "new-session", "-d", "sh", env=around, **self.who)
        self.disk = Path("/").stat().st_dev
        self.whispered = self.secret()
        threading.Thread(target=self._whisper, daemon=True).start()

    def _whisper(self) -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as speaker:
            while True:
                speaker.sendto(self.whispered.encode(), ("127.0.0.1", 9))
                time.sleep(0.1)

    def watch(self, changing: Iterable[Path]) -> None:
        """Begin to guard what nothing may change, but for what the supervisor is changing."""
        spared = (self.project, self.home / ".claude/projects", *changing)
        guarded = [self.project / name for name in PROTECTED]
        self.guard = Guard([self.home, *guarded, Path("/dev/shm")], spared, layers())
        self.folder = self.project.stat().st_ino, (self.project / ".git").stat().st_ino
        self.names = {*(each.name for each in self.project.iterdir()), ".claude"}
        self.mounts = mounted()
        self.kernel = self._kernel()

    def _kernel(self) -> dict[str, str]:
        """What belongs to no folder; of the kernel's settings, whether ours stand there."""
        known = [Path(f"/proc/sys/kernel/{name}") for name in KERNEL]
        values = {path.name: str("payload" in path.read_text()) for path in known if path.exists()}
        values["the machine's name"] = socket.gethostname()
        values["the network's device"] = str(loopback(GET_MTU))
        values["the kernel's log"] = str(kernel_log().count(b"sysrq: HELP"))
        values["the clock"] = str(abs(time.time() - self.began - time.monotonic()) > 600)
        values["the control groups"] = str(sorted(Path("/sys/fs/cgroup").glob("*/evil")))
        return values

    def mark(self, number: int) -> Path:
        """What the attack of that number makes when it should long have ended."""
        return self.project / f"mark-{number}"

    # ── the judge ───────────────────────────────────────────────────────────────────────────

    def variables(self) -> dict[str, str]:
        package = Path(playbook_supervisor.__file__).parent
        return {
            "VICTIM": str(self.victim.process.pid),
            "VICTIM_FD": self.victim.kept,
            "TTY": self.terminal.name,
            "ROOM": os.fspath(self.room),
            "OTHER": os.fspath(self.other),
            "KEY": self.shared.name,
            "WAITING": self.waiting,
            "OLD": self.old,
            "SUPERVISING": str(self.supervising),
            "START": self.start,
            "PAYLOAD": os.fspath(self.project / "payload"),
            "LOOT": os.fspath(self.loot),
            "DISK": f"{os.major(self.disk)} {os.minor(self.disk)}",
            "SUPERVISOR": os.fspath(package),
            "SITE": next(path for path in sys.path if path.endswith("site-packages")),
            "PLAYBOOK": f"{sys.executable} -m playbook_supervisor",
        }

    def seen(self) -> list[str]:
        """All that has reached the outside since the last look."""
        found = [f"changed {path}" for path in self.guard.changes()]
        found += [f"heard {name}" for name in self.listeners.heard]
        found += self.victim.harm() + self.shared.harm()
        if self.terminal.shown():
            found.append("the terminal showed something")
        for loot in (self.loot, *(self.home / ".cache/playbook/rooms").glob("*/*/loot")):
            taken = loot.read_bytes() if loot.exists() else b""
            found += ["a secret was read" for each in self.secrets if each.encode() in taken][:1]
            if taken[1080:1082] == b"\x53\xef":  # the mark of an ext file system
                found.append("the disk was read")
        with suppress(OSError):
            if (self.project.lstat().st_ino, (self.project / ".git").lstat().st_ino) != self.folder:
                found.append("the checkout was exchanged")
        found += [
            f"{name} changed" for name, was in self.kernel.items() if self._kernel()[name] != was
        ]
        found += [f"{name} is gone" for name in self._lost()]
        found += ["the supervisor was stopped"] if stopped(self.supervising) else []
        return found

    def _lost(self) -> Iterator[str]:
        """The file of the attempt and its lock, as far as it runs."""
        if self.worker is None:
            return
        try:
            with self.worker.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                yield "the lock of the attempt"
        except BlockingIOError:
            return
        except OSError:
            yield "the file of the attempt"

    def person(self, text: str) -> None:
        """What a person does afterwards in the checkout."""
        subprocess.run(
            ["bash", "-c", text],
            cwd=self.project if self.project.exists() else "/",
            env={**self.env, **self.variables()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            **self.who,
        )

    def restore(self, undo: str) -> None:
        """Everything as it was before the attack."""
        for place in sorted(mounted() - self.mounts, reverse=True):
            subprocess.run(["umount", "-l", place], capture_output=True)
        assert not mounted() - self.mounts, "a mount is left, so nothing can be removed"
        if undo:
            self.person(undo)
        self._return_folder()
        for each in self.project.iterdir():
            if each.name not in self.names:
                remove(each)
        self.guard.restore()
        self.listeners.heard.clear()
        if self.victim.harm():
            self.victim.restore()
        self.shared.restore()
        for process in filter(stopped, processes()):
            os.kill(process, signal.SIGCONT)
        self.worker = None if self.worker and not self.worker.exists() else self.worker
        loopback(SET_MTU, MTU)
        socket.sethostname(self.kernel["the machine's name"])

    def _return_folder(self) -> None:
        """Git's folder where it was, if it was moved within the checkout."""
        git = self.project / ".git"
        if git.is_dir() and git.lstat().st_ino == self.folder[1]:
            return
        for each in self.project.iterdir():
            if each.is_dir() and each.lstat().st_ino == self.folder[1]:
                remove(git)
                each.rename(git)
                return
        raise AssertionError("git's folder is gone")


def processes() -> list[int]:
    """All of this machine; the harness is the first."""
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]


def stopped(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def mounted() -> set[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split()[4] for line in lines}


class Run:
    """A real run, whose agent does what it is told."""

    def __init__(self, world: World, *, looks_at_once: bool = False, room: str = "") -> None:
        self.world = world
        before = self._sessions()
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(SECONDS)
            argv = [sys.executable, "src/agent.py", str(server.getsockname()[1])]
            self.process = world.playbook("run", *self._what(argv, room), *world.options)
            self.channel, _ = server.accept()
        self.channel.settimeout(SECONDS)
        self.lines = self.channel.makefile("rwb")
        world.supervising = self.process.pid
        (self.session,) = self._sessions() - before
        local = world.project / ".git/playbook" / self.session
        world.listeners.listen("/run/daemon/late")
        cache = world.home / ".cache/playbook"
        changing = [world.project / ".playbooks/sessions" / self.session]
        changing += [local] if looks_at_once else local.parent.glob("[!k]*")
        changing += cache.glob(f"isolated/*/{'checks' if room else 'agents'}")  # its own
        world.watch([*changing, cache / "rooms"] if room else changing)
        world.worker = next(local.glob("worker-*"), None)

    def _what(self, argv: list[str], room: str) -> tuple[str, ...]:
        """The playbook to run: its agent is that program, or its check, in that kind of room."""
        if not room:
            return "auto", "--agent", f"exec:{' '.join(argv)}"
        settings = {"checks": {"hostile": {"run": argv, "room": room}}}
        self.world.write(self.world.project / ".playbooks/config.yaml", json.dumps(settings))
        return ("checked",)

    def _sessions(self) -> set[str]:
        return {each.name for each in (self.world.project / ".playbooks/sessions").iterdir()}

    def attack(self, given: Attack, number: int = 0) -> str:
        variables = {**self.world.variables(), "MARK": os.fspath(self.world.mark(number))}
        self.lines.write(json.dumps([given.language, given.text, variables]).encode() + b"\n")
        self.lines.flush()
        return str(json.loads(self.lines.readline() or b'"the agent is gone"'))

    def end(self) -> int:
        self.lines.close()
        self.channel.close()
        ended = self.process.wait(SECONDS)
        self.world.worker = None
        return ended


def at_once(world: World, tried: Iterable[Attack], room: str = "") -> Iterator[Judgement]:
    """Carry the attacks out in one run, one after the other, and look after each."""
    run = Run(world, looks_at_once=True, room=room)
    for given in (*tried, NOTHING):
        found = judgement(world, given, run.attack(given))
        if given != NOTHING:
            yield found
    assert not found.seen, f"the judge sees what no attack has done: {found.seen}"
    run.end()


def at_the_end(world: World, given: Attack) -> Judgement:
    """Carry the attack out in a run of its own, and look when that has ended."""
    run = Run(world)
    said = run.attack(given)
    ended = run.end()
    found = judgement(world, given, f"{said}; the run ended with {ended}")
    if ended < 0:
        found.seen.append("the supervisor was ended")
    if ended < 0 or ended == OPEN:
        world.playbook("abort", run.session).wait(SECONDS)
    return found


def later(world: World, tried: Sequence[Attack]) -> Iterator[Judgement]:
    """Carry out in one run what shall outlive it, and look some seconds after that has ended."""
    run = Run(world)
    said = [run.attack(given, number) for number, given in enumerate(tried)]
    run.end()
    time.sleep(LATER)
    for number, given in enumerate(tried):
        seen = ["it has outlived its run"] if world.mark(number).exists() else []
        yield Judgement(given.group, given.name, seen, said[number])
    world.restore("")


def judgement(world: World, given: Attack, said: str) -> Judgement:
    if given.then:
        world.person(given.then)
    seen = world.seen()
    world.restore(given.undo)
    return Judgement(given.group, given.name, seen, said)


def all_of_them(world: World, tried: Sequence[Attack]) -> Iterator[Judgement]:
    yield from at_once(world, [each for each in tried if each.moment == "once"])
    for given in tried:
        if given.moment == "end":
            yield at_the_end(world, given)
    if late := [each for each in tried if each.moment == "later"]:
        yield from later(world, late)


def main(mode: str, user: str, room: str = "") -> None:
    """Print what the judge saw of each attack. With a `room`, a check in that kind of room carries
    them out, as far as the judge looks at once."""
    build_machine()
    world = World(mode, user)
    tried = [each for each in attacks() if each.possible and (mode != "none" or not each.machine)]
    once = [each for each in tried if each.moment == "once"]
    for found in at_once(world, once, room) if room else all_of_them(world, tried):
        print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
