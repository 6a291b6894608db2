"""The client's own sandbox, inside of ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.scratch_project import Project

from claude.client import Client
from claude.client import program as real
from claude.conftest import Start
from claude.conversation import Reply, Request, call, text
from playbook_supervisor.project.settings import config, isolation
from playbook_supervisor.system.isolation import profiles

pytestmark = pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("bwrap", "socat", "setpriv")),
    reason="bubblewrap, socat or setpriv is not installed",
)

OTHER = 65534
"""A user who owns nothing but the project and the home of a test."""
PATH = "/usr/local/bin:/usr/bin:/bin"
PLACES = {"PATH": PATH, "TMPDIR": "/tmp", "CLAUDE_CODE_TMPDIR": "/tmp"}
TRIES = """\
echo mine >made.txt
echo x >"$HOME/made.txt"
echo x >.git/hooks/pre-commit
env | grep -c ^HTTPS_PROXY=
"""


def once(request: Request) -> Reply:
    if not request.calls:
        return [call("Bash", command="sh ./tries.sh", description="Try")]
    return [text("Done.")]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="sandbox-")).resolve()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def client(
    pristine: Path, open_folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> Client:
    home = open_folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", PATH)
    (home / ".gitconfig").touch()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    project = Project.copied(pristine, open_folder / "project", home=home)
    project.write("tries.sh", TRIES)
    project.write(config.FILE, "isolation: required\n")
    client = start(once, project)
    rules = {"sandbox": {"enabled": True}, "permissions": {"allow": ["Bash(sh *)"]}}
    project.write(".claude/settings.json", json.dumps(rules))
    return client


def told(client: Client, user: int) -> tuple[str, str]:
    """What the command of the model's said, run by that user; and what the client complained."""
    root = client.project.root
    kept = isolation.of_step(config.load(root), root)
    assert kept
    asked = [str(real()), "-p", "go", "--output-format", "stream-json", "--verbose"]
    words, variables = kept.command(asked, root, {**client.environment, **PLACES})
    before = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    for folder in (root, client.home):
        subprocess.run(["chown", "-R", str(user), str(folder)], check=True)
    done = subprocess.run(
        [*client.model.network.enter, *(before if user else ()), *words],
        cwd=root,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = client.model.main[-1].all_results
    return result.text, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be another user")
def test_it_works_for_a_user(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)  # who makes the isolation
    monkeypatch.setattr(profiles, "_keys_of_others", tuple)  # that user can read none
    said, complaint = told(client, OTHER)
    assert client.project.read("made.txt") == "mine\n"
    assert "home/made.txt: Read-only file system" in said
    assert ".git/hooks/pre-commit: Read-only file system" in said
    assert said.splitlines()[-1] == "1", "its own proxy is in force"
    assert "Sandbox disabled" not in complaint
