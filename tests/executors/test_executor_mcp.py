"""`mcp` steps call one tool of a server that the project declares (tyr 17)."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.controlled_time import eventually, shorten_grace
from support.handmade_mcp_server import declare, declare_handmade
from support.task_run import Bench, task

from playbook_supervisor.executors.mcp import McpExecutor
from playbook_supervisor.executors.protocol import Task
from playbook_supervisor.kernel.vocabulary import OutputFormat
from playbook_supervisor.project.settings.config import Bounds, Config
from playbook_supervisor.system.installation import command_for
from playbook_supervisor.system.process.process_groups import worker_alive

MCP = McpExecutor()
PLAYGROUND = Path(__file__).parents[1] / "support/sdk_mcp_server.py"

Handmade = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A project that declares a server made with the SDK."""
    folder = tmp_path / "repository"
    folder.mkdir()
    declare(folder, sys.executable, str(PLAYGROUND))
    return Bench(folder)


@pytest.fixture
def handmade(bench: Bench) -> Handmade:
    """Replace the declared server by one that behaves as this text says."""

    def make(behaviour: str = "", **env: str) -> Bench:
        declare_handmade(bench.folder, behaviour, **env)
        return bench

    return make


def to(tool: str, *, json_output: bool = False, **arguments: Any) -> Task:
    output = OutputFormat.JSON if json_output else OutputFormat.TEXT
    options = {"arguments": arguments} if arguments else {}
    return task(f"server.{tool}", namespace="mcp", options=options, output=output)


class TestACall:
    def test_returns_the_text_of_the_result(self, bench: Bench) -> None:
        outcome = bench.outcome(MCP, to("greet", name="ü\n", times=2))
        assert outcome.ok
        assert outcome.output == "hello ü\n\nhello ü\n"
        assert bench.shown == ["hello ü", "hello ü"]
        assert not worker_alive(bench.worker_file)

    def test_returns_structured_content_as_data(self, bench: Bench) -> None:
        outcome = bench.outcome(MCP, to("add", a=1, b=2, json_output=True))
        assert outcome.data == {"sum": 3}
        assert json.loads(outcome.output) == {"sum": 3}

    def test_runs_the_server_at_the_top_of_the_project(self, handmade: Handmade) -> None:
        bench = handmade("RESULT = text(f'{os.getcwd()} {os.environ[\"OPEN\"]}')", OPEN="yes")
        assert bench.outcome(MCP, to("do")).output == f"{bench.folder} yes"

    def test_shows_progress(self, handmade: Handmade) -> None:
        bench = handmade(
            "def call(request):\n"
            "    token = request['params']['_meta']['progressToken']\n"
            "    for number in (1, 2):\n"
            "        about = {'progress': number, 'total': 2, 'message': f'part {number}'}\n"
            "        send({'method': 'notifications/progress',\n"
            "            'params': {'progressToken': token, **about}})\n"
            "    answer(request, RESULT)\n"
        )
        bench.outcome(MCP, to("do"))
        assert bench.shown == ["1 of 2: part 1", "2 of 2: part 2", "done"]

    def test_shows_what_the_server_prints_besides_messages(self, handmade: Handmade) -> None:
        bench = handmade(
            "def call(request):\n"
            "    print('not a message', flush=True)\n"
            "    print('warming up', file=sys.stderr, flush=True)\n"
            "    answer(request, RESULT)\n"
        )
        assert bench.outcome(MCP, to("do")).output == "done"
        assert set(bench.shown) == {"not a message", "warming up", "done"}


class TestAnErrorOfTheTool:
    def test_fails_the_step_with_its_words(self, bench: Bench) -> None:
        outcome = bench.outcome(MCP, to("refuse", why="issue 7 is closed\nreopen it"))
        assert outcome.error is not None
        assert outcome.error.code == "PB-STEP-MCP"
        assert "server.refuse failed: " in outcome.error.message
        assert "issue 7 is closed" in outcome.error.message
        assert outcome.error.guidance
        assert "reopen it" in outcome.output

    def test_the_end_of_the_server_fails_it_with_its_last_words(self, handmade: Handmade) -> None:
        bench = handmade(
            "def call(request):\n"
            "    print('out of luck', file=sys.stderr, flush=True)\n    os._exit(3)"
        )
        error = bench.error(MCP, to("do"))
        assert error.code == "PB-STEP-MCP"
        assert error.message == (
            "the MCP server server ended with exit status 3 before it answered: out of luck"
        )

    def test_an_unknown_tool_is_named_with_those_there_are(self, handmade: Handmade) -> None:
        bench = handmade(
            "TOOLS['tools'] += [{**TOOLS['tools'][0], 'name': name} for name in ('greet', 'add')]"
        )
        error = bench.error(MCP, to("gret"))
        assert error.code == "PB-STEP-INPUT"
        assert error.message == "the MCP server server has no tool 'gret'; did you mean greet?"
        assert error.guidance == "It has add, do, greet."
        assert error.lasts


class TestBeforeAnythingRuns:
    @pytest.mark.parametrize("words", [(), ("server.",), ("server.do", "x")])
    def test_the_step_must_name_server_and_tool(self, words: tuple[str, ...], bench: Bench) -> None:
        error = bench.error(MCP, task(*words, namespace="mcp"))
        assert error.code == "PB-STEP-INPUT"
        assert "SERVER.TOOL" in error.message

    @pytest.mark.parametrize(
        "config", [Config(deny=Bounds(mcp=("server.gr*",))), Config(allow=Bounds(cli=("npx",)))]
    )
    def test_the_project_must_allow_tool_and_program(self, config: Config, bench: Bench) -> None:
        """tyr 27."""
        error = bench.error(MCP, to("greet", name="x"), bench.context(config))
        assert error.code == "PB-POLICY-DENIED"
        assert not bench.shown

    def test_the_program_must_be_there(self, bench: Bench) -> None:
        declare(bench.folder, "no-such-program")
        error = bench.error(MCP, to("do"))
        assert error.code == "PB-STEP-PROGRAM"
        assert "no-such-program" in error.message

    @pytest.mark.parametrize("there", [None, ModuleType("mcp")])
    def test_the_sdk_must_be_installed(
        self, there: ModuleType | None, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An older one will not do."""
        monkeypatch.setitem(sys.modules, "mcp", there)
        monkeypatch.delitem(sys.modules, "playbook_supervisor.executors.mcp_call", raising=False)
        error = bench.error(MCP, to("do"))
        assert error.code == "PB-STEP-PROGRAM"
        assert error.guidance == f"Install it: `{command_for('mcp')}`."
        assert error.lasts


class TestAnUnusualServer:
    def test_pages_without_end_are_not_all_read(self, handmade: Handmade) -> None:
        bench = handmade(
            "def tools(request):\n    answer(request, {'tools': [], 'nextCursor': 'more'})\n"
        )
        assert bench.error(MCP, to("do")).code == "PB-STEP-INPUT"

    def test_each_kind_of_content_is_named(self, handmade: Handmade) -> None:
        bench = handmade(
            "RESULT = {'content': [\n"
            "    {'type': 'resource', 'resource': {'uri': 'file:///a', 'text': 'a'}},\n"
            "    {'type': 'resource', 'resource': {'uri': 'file:///b', 'blob': 'Yg=='}},\n"
            "    {'type': 'resource_link', 'uri': 'file:///c', 'name': 'c'},\n"
            "    {'type': 'audio', 'data': 'Yg==', 'mimeType': 'audio/wav'},\n"
            "    {'type': 'image', 'data': 'Yg==', 'mimeType': 'image/png'},\n"
            "]}\n"
        )
        output = (
            "a\n[resource file:///b]\n[resource file:///c]\n[audio audio/wav]\n[image image/png]"
        )
        assert bench.outcome(MCP, to("do")).output == output

    def test_structured_content_alone_is_the_output_too(self, handmade: Handmade) -> None:
        bench = handmade("RESULT = {'content': [], 'structuredContent': {'a': 1}}")
        outcome = bench.outcome(MCP, to("do", json_output=True))
        assert (outcome.output, outcome.data) == ('{"a": 1}', {"a": 1})


class TestABrokenServer:
    """Nothing that a server does leaves a process, or a step without an outcome."""

    def broken(self, bench: Bench, code: str = "PB-STEP-MCP", **limits: Any) -> str:
        error = bench.error(MCP, to("do"), bench.context(**limits))
        assert error.code == code
        assert not worker_alive(bench.worker_file)
        return error.message

    def test_that_ends_at_once(self, handmade: Handmade) -> None:
        message = self.broken(handmade("sys.exit('no token')"))
        assert message.endswith("ended with exit status 1 before it answered: no token")

    @pytest.mark.parametrize(
        "behaviour",
        [
            "INFO = {**INFO, 'protocolVersion': '1999-01-01'}",
            "TOOLS = {'tools': 'do'}",
            "TOOLS['tools'][0]['outputSchema'] = {'type': 'object', 'required': ['a']}\n"
            "RESULT['structuredContent'] = {}",
        ],
    )
    def test_that_answers_badly(self, behaviour: str, handmade: Handmade) -> None:
        message = self.broken(handmade(behaviour))
        assert "the MCP server server does not answer as MCP asks" in message

    def test_that_sends_more_than_the_cap(self, handmade: Handmade) -> None:
        bench = handmade("RESULT['content'][0]['text'] = 'A' * 100_000")
        message = self.broken(bench, "PB-STEP-OUTPUT", cap=10_000)
        assert message == "the MCP server server sent a message of more than 10,000 bytes"

    def test_that_reads_nothing(self, handmade: Handmade) -> None:
        bench = handmade(
            "def call(request):\n    pass\ntools_ = tools\n"
            "def tools(request):\n    answer(request, TOOLS)\n    time.sleep(3600)\n"
        )
        sent = to("do", text="x" * 1_000_000)
        error = bench.error(MCP, sent, bench.context(wall=1.0))
        assert error.code == "PB-STEP-TIMEOUT"
        assert not worker_alive(bench.worker_file)

    def test_that_ignores_the_end_of_its_input_and_sigterm(
        self, handmade: Handmade, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("playbook_supervisor.executors.mcp_call.GRACE", 0.2)
        shorten_grace(monkeypatch)
        bench = handmade(
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ndef end():\n    time.sleep(3600)\n"
        )
        assert bench.outcome(MCP, to("do")).output == "done"
        assert not worker_alive(bench.worker_file)

    def test_that_leaves_a_process_behind(self, handmade: Handmade) -> None:
        bench = handmade("subprocess.Popen(['sleep', '3600'], start_new_session=True)")
        assert bench.outcome(MCP, to("do")).output == "done"
        assert not worker_alive(bench.worker_file)
        assert "sleep" in bench.notices[0]

    def test_that_is_stopped_ends_at_once(self, handmade: Handmade) -> None:
        bench = handmade("def call(request):\n    open('hanging', 'w')\n    time.sleep(3600)")
        context = bench.context()

        def stop() -> None:
            eventually((bench.folder / "hanging").exists)
            context.stop()

        stopper = threading.Thread(target=stop)
        stopper.start()
        error = bench.error(MCP, to("do"), context)
        stopper.join()
        assert error.code == "PB-STEP-CRASHED"
        assert not worker_alive(bench.worker_file)

    def test_that_prints_a_variable_of_its_declaration_shows_none(
        self, handmade: Handmade, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TRACKER", "s3cr3t-t0ken")
        bench = handmade(
            "print('key', os.environ['KEY'], file=sys.stderr, flush=True)\n"
            "def call(request):\n    answer(request, text(os.environ['KEY']))"
        )
        declaration = json.loads((bench.folder / ".mcp.json").read_text())
        declaration["mcpServers"]["server"]["env"] = {"KEY": "${TRACKER}"}
        (bench.folder / ".mcp.json").write_text(json.dumps(declaration))
        outcome = bench.outcome(MCP, to("do"))
        assert outcome.output == "[redacted]"
        assert "key [redacted]" in bench.shown
        assert "s3cr3t" not in str((outcome, bench.shown, bench.logged))


def test_two_calls_at_once_do_not_disturb_each_other(handmade: Handmade, tmp_path: Path) -> None:
    bench = handmade("RESULT = text(os.getcwd())")
    other = tmp_path / "other"
    other.mkdir()
    (other / ".mcp.json").write_text((bench.folder / ".mcp.json").read_text())
    benches = [bench, Bench(other)]
    outputs: dict[Path, str] = {}

    def call(each: Bench) -> None:
        outputs[each.folder] = each.outcome(MCP, to("do")).output

    threads = [threading.Thread(target=call, args=(each,)) for each in benches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == {each.folder: str(each.folder) for each in benches}
