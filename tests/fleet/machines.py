"""Machines of a fleet: each has a home and a worker of its own, and its own ways to the others.

All run on this one. What tells a machine's processes apart is their home.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.controlled_time import eventually
from support.in_process import Result

from fleet import chains, ledger
from fleet.git_server import GitServer
from fleet.guardian import Guardian, processes
from fleet.postgres import Server
from fleet.proxy import Proxy

HOST = "https://git.example/"
SIX = """\
name: six
description: Six steps, with a gate before the fourth
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: one, command: /work}
  - {id: two-stubborn, command: /work}
  - {id: three, command: /work}
  - {id: four, command: /work, autonomy: gate_always}
  - {id: five-stubborn, command: /work}
  - {id: six, command: /work}
"""
GATE = "four#1?1"
DEADLY = "two-deadly"
KILLING = """\
name: deadly
description: Three steps, the second of which kills its worker
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: one, command: /work}
  - {id: two-deadly, command: /work}
  - {id: three, command: /work}
"""
PLAYBOOKS = {"six": SIX, "deadly": KILLING}
_CLOCK = "clock.so"


@dataclass
class Site:
    """What all machines share: the remotes, the ledger, the database's address."""

    folder: Path
    server: Server | None
    lease: float = 8.0
    slots: int = 2
    machines: list[Machine] = field(default_factory=list)

    def __enter__(self) -> Site:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._stack = ExitStack()
        self._stack.enter_context(Guardian(self.folder))
        self.remotes = self.folder / "remotes"
        self.remotes.mkdir()
        self.ledger, self.pushes = self.folder / "ledger", self.folder / "pushes"
        self.git_server = self._stack.enter_context(GitServer(self.remotes, self.folder))
        self.database = self.server.create() if self.server else ""
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.machines:
            machine.end()
        self._stack.close()

    def remote(self, name: str) -> str:
        """Create a repository that has the playbooks, the steps' program and a file; its URL."""
        bare, work = self.remotes / f"{name}.git", self.folder / f"{name}-first"
        chains.create_remote(bare, self.pushes)
        files = {
            "README.md": f"# {name}\n",
            "tools/step": ledger.STEP,
            ".claude/commands/work.md": "Do $ARGUMENTS.\n",
            **{f".playbooks/playbooks/{each}.yaml": PLAYBOOKS[each] for each in PLAYBOOKS},
        }
        for path, text in files.items():
            file = work / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (work / "tools/step").chmod(0o755)
        chains.git(work, "init", "--quiet")
        chains.git(work, "add", "--all")
        chains.git(work, "commit", "--quiet", "--message", "Begin")
        chains.git(work, "push", "--quiet", str(bare), "HEAD:refs/heads/main")
        return f"{HOST}{name}.git"

    def refuse(self, name: str, words: str) -> None:
        """Let the repository refuse all pushes with these words, until `accept`."""
        hook = self.remotes / f"{name}.git/hooks/pre-receive"
        written = hook.with_name("refuse")
        written.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
        written.chmod(0o755)
        written.rename(hook)

    def accept(self, name: str) -> None:
        (self.remotes / f"{name}.git/hooks/pre-receive").unlink()

    def machine(
        self, name: str, *, clock: int = 0, work: int = 5, disk: int = 0, python: str = ""
    ) -> Machine:
        """A machine with its own ways to the remotes and to the database.

        `clock` is how many seconds it is ahead, if there is a C compiler; its steps work for so
        many beats. `disk` is the size in MiB of its own disk, if this account can make one. Its
        program is that of `python`, or this one.
        """
        git_way = self._stack.enter_context(Proxy(self.git_server.port))
        database_way = None
        address = f"sqlite:///{self.folder}/fleet.sqlite"
        if self.server:
            database_way = self._stack.enter_context(Proxy(self.server.port))
            address = self.server.url(self.database, port=database_way.port)
        library = moved_clock(self.folder) if clock else None
        made = Machine(self, name, git_way, database_way, address, clock if library else 0, work)
        made.python = python or made.python
        self.machines.append(made)
        if disk and small_disk(made.state, disk):
            made.disk = True
        return made

    def chains(self) -> dict[str, chains.Chain]:
        """The lines of all sessions, whose ids are the fleet's own."""
        found: dict[str, chains.Chain] = {}
        for bare in self.remotes.glob("*.git"):
            found |= chains.read(bare)
        return found

    def attempts(self) -> list[ledger.Attempt]:
        return ledger.read(self.ledger)


@dataclass
class Machine:
    """A machine. `python` has the program, and `program` are its arguments that run the worker."""

    site: Site
    name: str
    git_way: Proxy
    database_way: Proxy | None
    address: str
    clock: int
    work: int
    python: str = sys.executable
    program: Sequence[str] = ("-m", "playbook_supervisor")
    worker: subprocess.Popen[bytes] | None = None
    disk: bool = False

    def __post_init__(self) -> None:
        self.home = self.site.folder / self.name
        self.state = self.home / "state"
        self.log = self.home / "worker.log"
        settings = self.home / "config/playbook/worker.yaml"
        settings.parent.mkdir(parents=True)
        self.state.mkdir()
        settings.write_text(
            f"repositories: ['{HOST}*']\nslots: {self.site.slots}\nlease: {self.site.lease:g}\n"
            "isolation: none\n"
        )
        (self.home / "gitconfig").write_text(
            f"[user]\n\tname = {self.name.title()}\n\temail = {self.name}@example.org\n"
            f'[url "https://127.0.0.1:{self.git_way.port}/{self.name}/"]\n\tinsteadOf = {HOST}\n'
            f"[http]\n\tsslCAInfo = {self.site.git_server.authority}\n"
            "[init]\n\tdefaultBranch = main\n\ttemplateDir =\n"
            "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[commit]\n\tgpgSign = false\n"
        )

    @property
    def environment(self) -> dict[str, str]:
        given = os.environ | {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.state),
            "GIT_CONFIG_GLOBAL": str(self.home / "gitconfig"),
            "PLAYBOOK_FLEET": self.address,
            "FLEET_LEDGER": str(self.site.ledger),
            "FLEET_WORK": str(self.work),
            "FLEET_MACHINE": self.name,
        }
        if self.clock:
            library = str(self.site.folder / _CLOCK)
            given |= {"LD_PRELOAD": library, "FLEET_CLOCK": str(self.clock)}
        return given

    # ── people ──────────────────────────────────────────────────────────────────────────────

    def start_playbook(self, *args: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        """Start `playbook ARGS` as a person at this machine would."""
        return subprocess.Popen(
            [self.python, "-m", "playbook_supervisor", *args],
            cwd=cwd or self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def playbook(self, *args: str, cwd: Path | None = None, timeout: float = 120.0) -> Result:
        with self.start_playbook(*args, cwd=cwd) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        return Result(process.returncode, out, err)

    def submit(self, url: str, *options: str, playbook: str = "six") -> Result:
        agent = ("--agent", "exec:tools/step", "--mode", "manual")
        return self.playbook("fleet", "submit", playbook, "--repo", url, *agent, *options)

    # ── the worker ──────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Start the worker. Its log is appended to the former one's."""
        self._begins = self.log.stat().st_size if self.log.exists() else 0
        self._started = time.monotonic()
        with self.log.open("ab") as log:
            self.worker = subprocess.Popen(
                [self.python, *self.program, "fleet", "worker"],
                cwd=self.home,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.log.read_bytes()[self._begins :].decode()

    def age(self) -> float:
        """Seconds since the worker was started."""
        return time.monotonic() - self._started

    def runs(self) -> bool:
        return self.worker is not None and self.worker.poll() is None

    def killed(self) -> bool:
        return self.worker is not None and self.worker.poll() == -signal.SIGKILL

    def kill_worker(self) -> None:
        assert self.worker
        self.worker.kill()
        self.worker.wait()

    def terminate(self, patience: float = 60.0) -> int:
        assert self.worker
        self.worker.terminate()
        return self.worker.wait(patience)

    def freeze_worker(self) -> None:
        assert self.worker
        self.worker.send_signal(signal.SIGSTOP)

    # ── the whole machine ───────────────────────────────────────────────────────────────────

    def freeze(self) -> None:
        """Stop every process of the machine, until `thaw`."""
        frozen: set[int] = set()
        while new := set(self._processes()) - frozen:
            self._signal(signal.SIGSTOP, new)
            frozen |= new

    def thaw(self) -> None:
        self._signal(signal.SIGCONT, self._processes())

    def kill(self) -> None:
        """End every process of the machine at once, as a loss of power does."""
        self.freeze()
        self._signal(signal.SIGKILL, self._processes())
        if self.worker:
            self.worker.wait()
        assert eventually(lambda: not self._processes())

    def end(self) -> None:
        """End it, if anything of it is there."""
        if self._processes():
            self.kill()
        if self.worker:
            self.worker.wait()

    def fill_disk(self) -> Path:
        """Use up the space of its state folder. Remove the file to end it."""
        file = self.state / "filler"
        with suppress(OSError), file.open("wb", buffering=0) as filler:
            while True:
                filler.write(b"\0" * 65_536)
        return file

    def _processes(self) -> list[int]:
        return processes(self.home)

    def _signal(self, number: signal.Signals, pids: Sequence[int] | set[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def moved_clock(folder: Path) -> Path | None:
    """A library that moves the clock of a process; None without a C compiler."""
    compiler, library = shutil.which("cc"), folder / _CLOCK
    if compiler is None:
        return None
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def small_disk(folder: Path, mebibytes: int) -> bool:
    """Give a folder a disk of its own, which the guardian removes; False if that cannot be."""
    mount = shutil.which("mount")
    if os.getuid() != 0 or mount is None:
        return False
    command = [mount, "-t", "tmpfs", "-o", f"size={mebibytes}m", "none", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def in_time(happened: Callable[[], bool], seconds: float = 90.0) -> bool:
    """Whether something happens within that time. It is looked at every now and then."""
    until = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > until:
            return False
        time.sleep(0.3)
    return True
