"""What the suite promises to a developer: it is alone with itself."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import coverage
import pytest
from support import leftovers
from support.isolation_guard import SHUNNED, Guard
from support.scratch_project import Project

pytest_plugins = ["pytester"]
FORBIDDEN = pytest.fail.Exception


def real_home(isolation: Guard) -> Path:
    assert isolation.homes, "the account has no home to protect"
    return Path(isolation.homes[0])


def take_along(folder: Path) -> None:
    """What a suite of its own there needs of ours."""
    tests = Path(__file__).parent
    shutil.copy(tests / "conftest.py", folder)
    shutil.copytree(tests / "support", folder / "support")


class TestTheRealHome:
    @pytest.mark.parametrize(
        "touch",
        [
            lambda home: (home / ".gitconfig").read_text(),
            lambda home: list(home.iterdir()),
            lambda home: Path(*home.parts[1:], "notes").write_text("mine"),
            lambda home: os.mkdir(os.fsencode(home / "made")),  # noqa: PTH102
            lambda home: os.mkdir(str(home / "made")),  # noqa: PTH102
            lambda home: Path("mine").rename(home / "mine"),
        ],
        ids=["reading", "listing", "a relative path", "bytes", "text", "moving"],
    )
    def test_touching_it_fails(
        self, isolation: Guard, monkeypatch: pytest.MonkeyPatch, touch: Callable[[Path], object]
    ) -> None:
        monkeypatch.chdir("/")
        with pytest.raises(FORBIDDEN, match="touches the real home"):
            touch(real_home(isolation))
        assert isolation.forgive()

    def test_code_that_swallows_the_refusal_still_fails_its_test(
        self, pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also where the real home lies in the folder for temporary files, which is allowed."""
        monkeypatch.setenv("TESTS_REAL_HOME", str(tmp_path))
        take_along(pytester.path)
        pytester.makepyfile(
            """
            from pathlib import Path

            def test_swallows(isolation):
                try:
                    (Path(isolation.homes[0]) / "notes").write_text("mine")
                except BaseException:
                    pass

            def test_behaves(tmp_path):
                (tmp_path / "notes").write_text("mine")
            """
        )
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly")
        result.assert_outcomes(passed=2, errors=1)
        result.stdout.fnmatch_lines(["*touches the real home*"])

    def test_a_test_has_a_home_of_its_own(self, home: Path, isolation: Guard) -> None:
        assert Path.home() == home
        assert list(home.iterdir()) == []
        assert real_home(isolation) != home


class TestTheNetwork:
    @pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, ("192.0.2.1", 80))])
    def test_connecting_beyond_this_machine_fails(
        self, isolation: Guard, family: socket.AddressFamily, address: tuple[object, ...]
    ) -> None:
        try:
            client = socket.socket(family)
        except OSError:
            pytest.skip("this machine has no IPv6")
        with client, pytest.raises(FORBIDDEN, match="beyond this machine"):
            client.connect(address)
        assert isolation.forgive()

    @pytest.mark.parametrize("host", [b"forge.example"])
    def test_looking_up_a_name_fails(self, isolation: Guard, host: str | bytes) -> None:
        with pytest.raises(FORBIDDEN, match=r"beyond this machine: forge\.example"):
            socket.getaddrinfo(host, 443)
        assert isolation.forgive()

    def test_sending_a_datagram_fails(self, isolation: Guard) -> None:
        with (
            socket.socket(type=socket.SOCK_DGRAM) as client,
            pytest.raises(FORBIDDEN, match="beyond this machine"),
        ):
            client.sendto(b"?", ("192.0.2.1", 53))
        assert isolation.forgive()

    def test_processes_are_given_a_proxy_that_leads_nowhere(self) -> None:
        code = "import urllib.request as u; u.urlopen('http://forge.example/', timeout=60)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "refused" in done.stderr


class TestTheEnvironment:
    def test_no_credential_is_inherited(self, pytester: pytest.Pytester) -> None:
        """cat FR-5.6."""
        take_along(pytester.path)
        pytester.makepyfile(
            "import os\ndef test_it(): assert not {'GH_TOKEN', 'AWS_KEY'} & set(os.environ)"
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GH_TOKEN", "secret")
            patch.setenv("AWS_KEY", "secret")
            pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)

    @pytest.mark.parametrize("name", SHUNNED)
    def test_no_program_that_acts_in_a_developers_name_is_found(self, name: str) -> None:
        done = subprocess.run([name, "--version"], capture_output=True, text=True)
        assert done.returncode == 97
        assert f"the real {name}" in done.stderr

    def test_git_knows_who_commits_and_nothing_else(self, project: Project) -> None:
        assert project.git("log", "-1", "--format=%an <%ae>") == "Ada Example <ada@example.org>"
        settings = project.git("config", "--list", "--show-scope").splitlines()
        assert {line.split()[0] for line in settings} == {"global", "local"}

    def test_local_time_is_not_utc(self) -> None:
        assert time.localtime(0)[:5] == (1970, 1, 1, 5, 45)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system has no /proc")
class TestProcesses:
    """None outlives its run; where one does, its test is named."""

    def test_one_that_was_left_running_is_found_and_killed(
        self, request: pytest.FixtureRequest
    ) -> None:
        given = {**os.environ, leftovers.RUN: "of-this-test"}
        with subprocess.Popen(["sleep", "600"], env=given) as left:
            (found,) = leftovers.find("of-this-test", patience=0)
            assert (found.pid, found.test) == (left.pid, request.node.nodeid)
            assert str(found).endswith(f" left {left.pid}: sleep 600")
            assert left.wait(60) == -signal.SIGKILL

    def test_one_that_ends_in_time_is_not_reported(self) -> None:
        given = {**os.environ, leftovers.RUN: "of-this-test"}
        with subprocess.Popen(["cat"], env=given, stdin=subprocess.PIPE) as ending:
            assert ending.stdin is not None
            ending.stdin.close()
            assert leftovers.find("of-this-test") == []


class TestCoverage:
    def test_unfinished_files_are_removed(self, tmp_path: Path) -> None:
        whole = tmp_path / ".coverage.here.pid1.Xa.H1h"
        measured = coverage.CoverageData(str(whole))
        measured.add_lines({f"{number}.py": range(1000) for number in range(200)})
        measured.write()
        kept = whole.read_bytes()
        for number, cut in enumerate((0, 100, 4096, len(kept) // 2, len(kept) - 4096), 2):
            whole.with_name(f".coverage.here.pid{number}.Xa.H1h").write_bytes(kept[:cut])
        (tmp_path / ".coverage.json").write_text("{}")
        assert leftovers.discard_torn(tmp_path / ".coverage") == 5
        assert {file.name for file in tmp_path.iterdir()} == {whole.name, ".coverage.json"}
        assert whole.read_bytes() == kept
