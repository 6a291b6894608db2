"""What the real client does, as far as anything is built on it; and that it is on a leash."""

from __future__ import annotations

from claude.conftest import StartClient
from claude.model import call, text
from claude.recorder import Recorder


def test_a_turn_of_plain_text_is_one_request_and_ends_well(start: StartClient) -> None:
    client = start(lambda request: [text("Good day.")])
    done = client.run("hello")
    assert (done.code, done.text) == (0, "Good day.")
    (request,) = client.model.requests
    assert request.said == "hello"
    assert request.session == done.session


def test_a_tool_is_called_and_its_result_comes_back(start: StartClient, recorder: Recorder) -> None:
    client = start(
        lambda request: (
            [text(request.results[0].text)]
            if request.results
            else [call("Read", file_path=str(client.root / "README.md"))]
        )
    )
    assert "# A project" in client.run("read").text
    (seen,) = recorder.of("PostToolUse", tool="Read")
    assert seen["tool_response"]["file"]["content"] == "# A project\n"
