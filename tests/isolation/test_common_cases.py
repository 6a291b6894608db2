"""What people do every day, in the isolation of an agent: it works, or one line allows it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.bubblewrap import needs_bubblewrap
from support.scratch_project import Project

from playbook_supervisor.project.settings import config, isolation
from playbook_supervisor.system.process.processes import run

pytestmark = needs_bubblewrap

FILE = ".playbooks/config.yaml"


class Inside:
    """A shell in the isolation of a project's agents."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.allow("")

    def allow(self, words: str) -> None:
        self.project.write(FILE, f"isolation: {{mode: required, {words}}}\n")

    def tries(self, shell: str) -> tuple[int, str, str]:
        """The exit status, all that was printed, and the hint."""
        kept = isolation.of_step(config.load(self.project.root), self.project.root)
        assert kept
        done = run(["sh", "-c", shell], cwd=self.project.root, isolation=kept, timeout=120)
        said = done.stdout + done.stderr
        return done.returncode, said, kept.hint(said)

    def does(self, shell: str) -> str:
        """What was printed by what must work."""
        status, said, _ = self.tries(shell)
        assert status == 0, said
        return said

    def is_told(self, shell: str) -> str:
        """The line that is proposed where it fails."""
        status, said, hint = self.tries(shell)
        assert status != 0, said
        assert hint.startswith("To allow it, add `isolation: {"), said
        assert hint.endswith("}` to .playbooks/config.yaml.")
        return hint.partition("{")[2].partition("}`")[0]


@pytest.fixture
def inside(project: Project) -> Inside:
    return Inside(project)


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def outside(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


# ── packages and their caches ───────────────────────────────────────────────────────────────


class TestNpm:
    @pytest.fixture
    def package(self, project: Project) -> None:
        needs("npm")
        project.write("dependency/package.json", '{"name": "dependency", "version": "1.0.0"}')
        project.write("dependency/index.js", "module.exports = 'works'\n")
        project.write("package.json", '{"name": "app", "version": "1.0.0"}')

    @pytest.mark.usefixtures("package")
    def test_packages_are_installed_with_a_cache_of_its_own(self, inside: Inside) -> None:
        install = "npm pack --silent ./dependency && npm install --offline ./dependency-1.0.0.tgz"
        said = inside.does(f"{install} && node -p 'require(\"dependency\")' && ls ~/.npm")
        assert "works" in said
        assert "_cacache" in said
        assert not (inside.project.home / ".npm").exists()


@pytest.mark.thorough
def test_pip_installs_a_wheel_into_the_checkout(inside: Inside, project: Project) -> None:
    pytest.importorskip("pip")
    with zipfile.ZipFile(project.root / "small-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("small.py", "print('works')\n")
        info = "small-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    install = f"{sys.executable} -m pip install --no-index --target lib ./small-1.0*.whl"
    assert inside.does(f"{install} && PYTHONPATH=lib {sys.executable} -m small").endswith("works\n")


@pytest.mark.thorough
def test_go_builds_with_a_cache_of_its_own(inside: Inside, project: Project) -> None:
    needs("go")
    project.write("go.mod", "module app\n")
    project.write("main.go", 'package main\n\nfunc main() { println("works") }\n')
    assert "works" in inside.does("go run .")
    assert not (project.home / ".cache/go-build").exists()


def test_what_only_the_real_cache_holds_can_be_shown(inside: Inside, project: Project) -> None:
    model = project.home / ".cache/models/large.bin"
    model.parent.mkdir(parents=True)
    model.write_text("weights\n")
    assert inside.is_told("cat ~/.cache/models/large.bin") == "show: [~/.cache/models/large.bin]"
    inside.allow("show: [~/.cache/models]")
    assert inside.does("cat ~/.cache/models/large.bin") == "weights\n"


# ── browsers, devices, debuggers ────────────────────────────────────────────────────────────


@pytest.mark.thorough
def test_a_browser_shows_a_page(inside: Inside) -> None:
    needs("chromium")
    options = "--headless --disable-gpu" + (" --no-sandbox" if os.geteuid() == 0 else "")
    assert "<p>works</p>" in inside.does(f"chromium {options} --dump-dom 'data:text/html,<p>works'")


@pytest.mark.parametrize("cache", ["ms-playwright"])
def test_browsers_that_tests_have_installed_are_found(
    inside: Inside, project: Project, cache: str
) -> None:
    browser = project.home / ".cache" / cache / "chromium-1/chrome"
    browser.parent.mkdir(parents=True)
    browser.write_text("#!/bin/sh\necho works\n")
    browser.chmod(0o755)
    assert inside.does(f"~/.cache/{cache}/chromium-1/chrome") == "works\n"
    assert inside.tries(f"echo worse >~/.cache/{cache}/chromium-1/chrome")[0] != 0


def test_a_device_has_to_be_shown(inside: Inside) -> None:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("there is no device to try it with")
    assert inside.tries("test -c /dev/fuse")[0] == 1
    inside.allow("show: [/dev/fuse]")
    inside.does(": <>/dev/fuse")


def test_a_debugger_traces_its_own_child(inside: Inside) -> None:
    needs("strace")
    assert "execve" in inside.does("strace -e trace=execve true")


# ── keys ────────────────────────────────────────────────────────────────────────────────────


class TestSsh:
    @pytest.fixture
    def agent(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        """An agent with one key, which git signs with."""
        needs("ssh-agent")
        folder = project.home / ".ssh"
        folder.mkdir(mode=0o700)
        outside("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key"))
        (folder / "known_hosts").write_text("")
        listening = folder / "agent"
        with subprocess.Popen(["ssh-agent", "-D", "-a", str(listening)]) as process:
            monkeypatch.setenv("SSH_AUTH_SOCK", str(listening))
            while not listening.exists():
                assert process.poll() is None
            subprocess.run(["ssh-add", "-q", str(folder / "key")], check=True)
            project.git("config", "gpg.format", "ssh")
            key = (folder / "key.pub").read_text().strip()
            project.git("config", "user.signingkey", f"key::{key}")
            yield folder
            process.terminate()

    @pytest.mark.usefixtures("agent")
    def test_its_agent_has_to_be_shown(self, inside: Inside) -> None:
        wanted = "show: [$SSH_AUTH_SOCK, ~/.ssh/known_hosts]"
        assert inside.is_told("ssh-add -l") == wanted
        inside.allow(wanted)
        assert "ED25519" in inside.does("ssh-add -l")
        assert inside.does("git commit -qS --allow-empty -m Sign && git cat-file -p HEAD").count(
            "SSH SIGNATURE"
        )
        assert inside.tries("cat ~/.ssh/key")[0] != 0

    @pytest.mark.usefixtures("agent")
    @pytest.mark.parametrize("said", ["git@x: Permission denied (publickey)."])
    def test_what_git_says_over_ssh_names_the_line(self, inside: Inside, said: str) -> None:
        told = inside.is_told(f"echo '{said}' >&2; exit 128")
        assert told == "show: [$SSH_AUTH_SOCK, ~/.ssh/known_hosts]"


def test_signing_with_gpg_needs_its_keys(inside: Inside, project: Project) -> None:
    needs("gpg")
    folder = project.home / ".gnupg"
    folder.mkdir(mode=0o700)
    batch = ("gpg", "--batch", "-q", "--passphrase", "")
    outside(*batch, "--quick-gen-key", "Ada Example <ada@example.org>", "ed25519", "sign")
    outside("gpgconf", "--kill", "gpg-agent")
    sign = "git commit -qS --allow-empty -m Sign"
    assert inside.is_told(sign) == "write: [~/.gnupg]"
    inside.allow("write: [~/.gnupg]")
    assert "PGP SIGNATURE" in inside.does(f"{sign} && git cat-file -p HEAD")


@pytest.mark.parametrize(
    ("shell", "path"),
    [
        ("git config user.name Eve", ".git/config"),
        ("echo x >$PWD/.playbooks/policies.yaml", "/.playbooks/policies.yaml"),
    ],
)
def test_what_is_protected_is_for_a_person(inside: Inside, shell: str, path: str) -> None:
    status, said, hint = inside.tries(shell)
    assert status != 0, said
    assert hint.startswith("Isolation protects ")
    assert f"{path}: a person can change it outside." in hint


# ── sockets and names ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A socket at which something answers, as Docker's."""
    monkeypatch.chdir(tmp_path)  # such addresses are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("docker.sock")
        server.listen()

        def answer() -> None:
            client, _ = server.accept()
            client.sendall(b"works\n")
            client.close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield tmp_path / "docker.sock"


def test_docker_has_to_be_shown(inside: Inside, daemon: Path) -> None:
    asks = f"import socket as s; c = s.socket(s.AF_UNIX); c.connect('{daemon}'); print(c.recv(9))"
    client = f'{sys.executable} -c "{asks}"'
    complaint = (
        f"Cannot connect to the Docker daemon at unix://{daemon}. Is the docker daemon running?"
    )
    told = inside.is_told(f"{client} || {{ echo '{complaint}'; exit 1; }}")
    assert told == f"show: [{daemon}]"
    inside.allow(told)
    assert "works" in inside.does(client)


def test_a_host_is_named_where_there_is_no_network(inside: Inside) -> None:
    inside.allow("network: none")
    told = inside.is_told("git -c http.proxy= ls-remote https://forge.example/x.git")
    assert told == "network: proxy, hosts: [forge.example]"


# ── a sandbox inside ────────────────────────────────────────────────────────────────────────


def test_root_is_told_that_it_can_make_no_sandbox(inside: Inside) -> None:
    if os.geteuid() != 0:
        inside.does("bwrap --ro-bind / / --unshare-all --proc /proc --dev /dev true")
        return
    status, _, hint = inside.tries("bwrap --ro-bind / / --unshare-all true")
    assert status == 1
    assert hint.startswith("Root can make no sandbox inside of isolation")
