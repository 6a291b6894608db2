"""What the real client does, as far as anything is built on it; and that it is on a leash."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from support.scratch_project import Project

from claude.client import Client
from claude.conftest import REQUIRED, Start, leave_out
from claude.model import Model, Reply, Request, Script, call, text
from claude.network import Network
from claude.recorder import Recorder


def says(words: str) -> Script:
    return lambda request: [text(words)]


def calls(tool: str, **arguments: Any) -> Script:
    """Call that tool in every turn, then say what came back."""

    def reply(request: Request) -> Reply:
        if request.results:
            return [text(request.results[-1].text)]
        return [call(tool, **arguments)]

    return reply


class TestTheLeash:
    def test_the_network_is_private_and_the_environment_explicit(
        self, start: Start, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No other agent is on the PATH."""
        monkeypatch.setenv("COVERAGE_SECRET", "inherited")
        look = "env; claude; gh; playbook --version; pwd; cat /proc/net/route"
        client = start(calls("Bash", command=look))
        seen = client.run("look", "--allowedTools", "Bash").text
        assert "COVERAGE_SECRET" not in seen
        assert "http_proxy" not in seen
        assert f"HOME={client.home}\n" in seen
        assert "tests do not run the real claude" in seen
        assert "tests do not run the real gh" in seen
        assert "playbook 0." in seen
        assert str(client.root) in seen
        assert recorder.names[:2] == ["SessionStart", "UserPromptSubmit"]
        head, *routes = seen[seen.index("Iface") :].splitlines()
        assert head.startswith("Iface")
        assert routes == [] or not client.model.network.private

    def test_a_kill_leaves_nothing_behind(self, start: Start) -> None:
        client = start(calls("Bash", command="setsid sleep 600"))
        running = client.spawn("wait", "--allowedTools", "Bash")
        client.model.wait_for(lambda request: True)
        deadline = time.monotonic() + 60
        while not any(b"sleep" in _command(pid) for pid in client.processes()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        running.kill()
        assert client.processes() == []
        assert running.process.returncode == -9

    def test_where_no_network_can_be_made_the_usual_loopback_serves(
        self, start: Start, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start(says(""))  # leaves the test out where there is no client
        with monkeypatch.context() as nothing_installed:
            nothing_installed.setenv("PATH", "")
            network = Network()
        assert not network.private
        with Model(says("Good day."), network) as model, Client(project, model) as client:
            assert client.run("hello").text == "Good day."

    @pytest.mark.smoke
    def test_what_is_missing_leaves_a_test_out_unless_it_is_required(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv(REQUIRED, raising=False)
        with pytest.raises(pytest.skip.Exception, match="no tmux"):
            leave_out("no tmux")
        monkeypatch.setenv(REQUIRED, "1")
        with pytest.raises(pytest.fail.Exception, match="no tmux, and PLAYBOOK_REQUIRE_CLAUDE"):
            leave_out("no tmux")


class TestTheScriptedModel:
    def test_a_script_that_raises_fails_the_test(self, project: Project, start: Start) -> None:
        start(says(""))  # leaves the test out where there is no client

        def reply(request: Request) -> Reply:
            raise LookupError("no line for this")

        with (
            pytest.raises(LookupError, match="no line for this"),
            Model(reply) as model,
            Client(project, model) as client,
        ):
            assert client.run("hello").result["is_error"]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
