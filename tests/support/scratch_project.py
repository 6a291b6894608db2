"""A project such as users have: a real git repository, and the program run inside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import yaml

from support import in_process
from support.in_process import Result

FEATURE = "013-playbook-create"
COMMANDS = (
    "speckit.specify",
    "speckit.plan",
    "speckit.tasks",
    "speckit.analyze",
    "speckit.implement",
    "agreement.create",
    "agreement.check",
    "qa.plan",
    "qa.run",
    "feature.pr",
)
PLAYBOOKS = {
    "auto-feature": "tests/playbooks/auto-feature-1.0.yaml",
    "auto-speckit": "templates/playbooks/auto-speckit.yaml",
    "auto-validate": "templates/playbooks/auto-validate.yaml",
}
"""The playbooks of every project. Its auto-feature is of version 1.0, as people still have it."""
SPEC = "# Create playbooks\n\nA developer writes down once what is typed every day.\n"

Gh = Literal["open", "merged", "closed", "none", "logged out", "hanging", "garbage", "missing"]

GH = """\
#!/bin/sh
# Stands in for gh. The file beside it says what to answer.
pull_request() {
  printf '[{"number":7,"url":"https://forge.example/pull/7","state":"%s"}]\\n' "$1"
}
case "$(cat "$(dirname "$0")/gh.says")" in
  open) pull_request OPEN ;;
  merged) pull_request MERGED ;;
  closed) pull_request CLOSED ;;
  none) echo '[]' ;;
  garbage) echo 'Welcome to <html>' ;;
  hanging) exec sleep 600 ;;
  *) echo 'To get started with GitHub CLI, please run:  gh auth login' >&2; exit 4 ;;
esac
"""


class Process(subprocess.Popen[bytes]):
    """A process that is killed when its test fails, so that nothing waits for it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.kill()
        super().__exit__(kind, error, trace)


@dataclass
class Project:
    """`root` is the repository, `home` the user's home, `env` further variables of the program."""

    root: Path
    home: Path
    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def found(cls, root: Path, templates: Path) -> Path:
        """Build the repository: a first commit on main, and the feature's branch."""
        new = cls(root, root.parent)
        for command in COMMANDS:
            new.write(f".claude/commands/{command}.md", f"Do what {command} means.\n\n$ARGUMENTS\n")
        new.write(f"specs/{FEATURE}/spec.md", SPEC)
        new.write("README.md", "# A project\n")
        for name, file in PLAYBOOKS.items():
            new.write(f".playbooks/playbooks/{name}.yaml", (templates.parent / file).read_text())
        new.git("init", "-q")
        new.commit("Begin")
        new.git("switch", "-q", "-c", FEATURE)
        new.git("repack", "-adq")  # one file instead of many: each test copies it
        return root

    @classmethod
    def copied(cls, pristine: Path, root: Path, *, home: Path) -> Project:
        shutil.copytree(pristine, root, symlinks=True)
        return cls(root, home)

    # ── files ───────────────────────────────────────────────────────────────────────────────

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def git(self, *args: str) -> str:
        """The output of git, without the last newline. A git that fails fails the test."""
        return self._finished("git", *args).out.removesuffix("\n")

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "-q", "-m", message)

    # ── the program ─────────────────────────────────────────────────────────────────────────

    def playbook(
        self,
        *args: str,
        input: str = "",  # noqa: A002 - as subprocess calls it
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Result:
        """Run `playbook ARGS` to its end, in this process, without a terminal."""
        around = {**self.environment, **(env or {})}
        return in_process.run(args, cwd=cwd or self.root, env=around, stdin=input.encode())

    def process(
        self,
        *args: str,
        input: str = "",  # noqa: A002 - as subprocess calls it
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Result:
        """Run `playbook ARGS` to its end, in a process of its own."""
        with self.spawn(*args, env=env, cwd=cwd) as process:
            try:
                out, err = process.communicate(input.encode(), timeout=120)
            except BaseException:
                process.kill()
                raise
        return Result(process.returncode, out.decode(), err.decode())

    def spawn(
        self, *args: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Process:
        """Start `playbook ARGS` and leave it running, in a process group of its own."""
        return Process(
            [sys.executable, "-m", "playbook_supervisor", *args],
            cwd=cwd or self.root,
            env={**self.environment, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # and so without a terminal to ask at
        )

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"HOME": str(self.home)} | self.env

    # ── its surroundings ────────────────────────────────────────────────────────────────────

    def script(self, text: str) -> str:
        """Write a script for the embedded agent, outside the repository; what `--agent` takes."""
        file = self._beside("script.yaml")
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return f"script:{file}"

    def gh(self, mode: Gh) -> None:
        """Put a stand-in `gh` on PATH, or change what it says."""
        folder = self._beside("bin")
        folder.mkdir(exist_ok=True)
        if mode == "missing":
            for name in ("cat", "env", "git", "sh", "sleep"):
                in_process = shutil.which(name)
                assert in_process, f"{name} is not on PATH"
                (folder / name).symlink_to(in_process)
            (folder / "gh").unlink(missing_ok=True)
            self.env["PATH"] = str(folder)
            return
        (folder / "gh.says").write_text(mode)
        (folder / "gh").write_text(GH)
        (folder / "gh").chmod(0o755)
        self.env["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"

    # ── what a run left behind ──────────────────────────────────────────────────────────────

    @property
    def sessions(self) -> list[Path]:
        """The folders of all sessions, in the order of their ids.

        A session that is being created is not among them: its folder is hidden until it is whole.
        """
        return sorted((self.root / ".playbooks/sessions").glob("[!.]*/"))

    @property
    def session(self) -> Path:
        (only,) = self.sessions
        return only

    def journal(self) -> list[dict[str, Any]]:
        """The entries of the only session, as any YAML reader sees them."""
        entries: list[dict[str, Any]] = self._yaml("journal.yaml")["entries"]
        return entries

    def manifest(self) -> dict[str, Any]:
        return self._yaml("session.yaml")

    def manifests(self) -> dict[str, dict[str, Any]]:
        """The session.yaml of each session, by its playbook's name."""
        found = (yaml.safe_load((each / "session.yaml").read_bytes()) for each in self.sessions)
        return {each["playbook"]: each for each in found}

    def journals(self) -> dict[str, list[dict[str, Any]]]:
        """The entries of each session, by its playbook's name."""
        known = self.manifests()
        files = {
            name: self.root / ".playbooks/sessions" / known[name]["session_id"] / "journal.yaml"
            for name in known
        }
        return {name: yaml.safe_load(file.read_bytes())["entries"] for name, file in files.items()}

    # ────────────────────────────────────────────────────────────────────────────────────────

    def _yaml(self, name: str) -> dict[str, Any]:
        data: dict[str, Any] = yaml.safe_load((self.session / name).read_bytes())
        return data

    def _beside(self, name: str) -> Path:
        return self.root.with_name(f"{self.root.name}-{name}")

    def _finished(self, *argv: str) -> Result:
        done = subprocess.run(
            argv, cwd=self.root, env=self.environment, capture_output=True, check=False, text=True
        )
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
        return Result(done.returncode, done.stdout, done.stderr)


def remote(project: Project) -> Project:
    """Add a bare remote that holds the branch, and track it."""
    bare = project.root.with_name("remote.git")
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    project.git("remote", "add", "origin", str(bare))
    project.git("push", "-q", "-u", "origin", FEATURE)
    return Project(bare, project.home)


def without_bubblewrap(project: Project, folder: Path) -> None:
    """A PATH with links to the system's programs but that one."""
    programs = folder / "programs"
    programs.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name != "bwrap":
            (programs / program.name).symlink_to(program)
    project.env["PATH"] = str(programs)
