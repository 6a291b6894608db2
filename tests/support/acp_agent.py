"""A scripted agent that speaks the Agent Client Protocol: run it as a program.

It knows the commands of the conformance checks, and others after faults of real agents. Options:
`--bare` advertises no commands, `--forgets` cannot load a conversation, `--quiet` tells no tokens.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

COMMANDS = (
    *(
        "works",
        "fails",
        "dies",
        "hangs",
        "shouts",
        "colours",
        "asks",
        "speckit-plan",
        "qa-run",
        "qa.run",
    ),
    *("empty", "breaks", "refuses", "limited", "busy", "cut", "cancelled", "runs", "edits"),
    *("late", "nameless", "wonders", "stops"),
    *("repeats", "remarks", "priced", "looks", "twice"),
)
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


class Agent:
    def __init__(self) -> None:
        self.number = 0
        self.session = ""

    def send(self, **message: Any) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def update(self, told: str, /, **fields: Any) -> None:
        update = {"sessionUpdate": told, **fields}
        params = {"sessionId": self.session, "update": update}
        self.send(method="session/update", params=params)

    def say(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def permitted(
        self, kind: str, title: str, *, late: bool | None = None, **fields: Any
    ) -> bool | None:
        """Whether the client allows a call; None if it has cancelled the turn.

        `late`: the call is told after the request, or never if that is false.
        """
        call = {"toolCallId": f"call-{self.number}", "kind": kind, "title": title, **fields}
        if late is None:
            self.update("tool_call", **call, status="pending")
        self.number += 1
        asked = {"sessionId": self.session, "options": OPTIONS}
        told = {"toolCallId": call["toolCallId"]}
        params = {**asked, "toolCall": told}
        self.send(id=f"ask-{self.number}", method="session/request_permission", params=params)
        if late:
            self.update("tool_call", **call, status="pending")
        while line := sys.stdin.readline():
            message = json.loads(line)
            if message.get("id") == f"ask-{self.number}":
                outcome = message["result"]["outcome"]
                if outcome["outcome"] == "cancelled":
                    return None
                return bool(outcome["optionId"] == "yes")
        return None

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "id" not in message or "method" not in message:
                continue
            try:
                result = self.answer(message["method"], message["params"])
            except AnswerError as error:
                self.send(id=message["id"], error=error.args[0])
            else:
                self.send(id=message["id"], result=result)
                if message["method"] in ("session/new", "session/load"):
                    self.advertise()

    def advertise(self) -> None:
        if "--bare" not in sys.argv:
            commands = [{"name": name, "description": ""} for name in COMMANDS]
            self.update("available_commands_update", availableCommands=commands)

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        known = Path(os.environ.get("ACP_SESSIONS", "."), "sessions.txt")
        match method:
            case "initialize":
                return {
                    "protocolVersion": 1,
                    "agentInfo": {"name": "scripted", "version": "4.2"},
                    "agentCapabilities": {"loadSession": "--forgets" not in sys.argv},
                }
            case "session/new":
                self.session = f"conversation-{os.getpid()}"
                with known.open("a") as file:
                    file.write(f"{self.session}\n")
                modes = [{"id": "auto", "name": "Auto"}, {"id": "careful", "name": "Careful"}]
                models = [{"modelId": "small", "name": "Small"}]
                return {
                    "sessionId": self.session,
                    "modes": {"currentModeId": "auto", "availableModes": modes},
                    "models": {"currentModelId": "small", "availableModels": models},
                }
            case "session/load":
                if not known.exists() or params["sessionId"] not in known.read_text():
                    raise AnswerError({"code": -32002, "message": "no such session"})
                self.session = params["sessionId"]
                self.say("what was said before")
                return {}
            case "session/set_mode":
                self.update("current_mode_update", currentModeId=params["modeId"])
                return {}
            case "session/prompt":
                return self.turn([block["text"] for block in params["prompt"]])
        raise AnswerError({"code": -32601, "message": "no such method"})

    def turn(self, said: list[str]) -> dict[str, Any]:
        """Play the command; other words are repeated."""
        with Path("prompts.jsonl").open("a") as file:
            file.write(json.dumps(said) + "\n")
        name = said[0].removeprefix("/").partition(" ")[0].replace("-", "_")
        if said[0].startswith("You were interrupted"):
            name = "asks"
        stop = getattr(self, f"play_{name}", lambda: self.say(" / ".join(said)))()
        used = {"inputTokens": 100, "outputTokens": 7, "totalTokens": 107}
        told = {} if "--quiet" in sys.argv or stop == "nothing" else {"usage": used}
        return {"stopReason": "end_turn" if stop in (None, "nothing") else stop, **told}

    def play_works(self) -> None:
        Path("works.txt").write_text("worked\n")
        self.say("wor")
        self.say("king\n")

    def play_fails(self) -> None:
        self.say("this cannot be done\n")
        raise AnswerError(
            {"code": -32603, "message": "Internal error", "data": {"details": "it broke"}}
        )

    def play_breaks(self) -> None:
        raise AnswerError(
            {"code": -32603, "message": "Internal error", "data": {"statusCode": 400}}
        )

    def play_busy(self) -> None:
        raise AnswerError({"code": -32603, "message": "API Error: 503 overloaded"})

    def play_limited(self) -> None:
        raise AnswerError({"code": -32603, "message": "You exceeded your current quota"})

    def play_refuses(self) -> str:
        return "refusal"

    def play_cancelled(self) -> str:
        return "cancelled"

    def play_empty(self) -> str:
        return "nothing"

    def play_cut(self) -> str:
        self.say("half a sen")
        return "nothing"

    def play_dies(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def play_hangs(self) -> None:
        with Path("hangs.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stubborn = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
            subprocess.Popen(stubborn, pass_fds=[lock.fileno()], start_new_session=True)
            self.say("hanging\n")
            time.sleep(3600)

    def play_shouts(self) -> None:
        for _ in range(100):
            self.say("A" * 100 + "\n")

    def play_colours(self) -> None:
        self.say("\x1b[31mred\x1b[0m \x1b]0;title\x07 \x08\x07 \u202etxet\n")

    def play_asks(self) -> str | None:
        place = str(Path.cwd() / ".git" / "asks.txt")
        allowed = self.permitted("edit", "Write asks.txt", locations=[{"path": place}])
        if allowed:
            Path("asks.txt").write_text("asked\n")
            self.say("written\n")
        return "cancelled" if allowed is None else None

    def play_runs(self) -> None:
        if self.permitted("execute", "`npm test`", rawInput={"command": "npm test"}):
            self.say("tested\n")

    def play_twice(self) -> None:
        self.play_runs()
        self.say("")
        if self.permitted("execute", "again", rawInput={"command": "npm test -- --ci"}):
            self.say("tested\n")

    def play_repeats(self) -> None:
        for _ in range(9):
            self.update("agent_message_chunk", messageId="m", content={"text": "Half a "})
            time.sleep(0.2)

    def play_remarks(self) -> None:
        self.say("Info: I try again.")
        self.say("Error: 400 Bad request")

    def play_priced(self) -> None:
        self.update("usage_update", cost={"amount": 0.25, "currency": "USD"})
        self.update("agent_message_chunk", content={"text": "Done."})
        for _ in range(2):
            used = {"inputTokens": 10, "cachedReadTokens": 5, "outputTokens": 1}
            self.update("agent_message_chunk", content={"text": ""}, _meta={"usage": used})

    def play_looks(self) -> None:
        """Several calls, of which each tells what it is about in another way."""
        path = str(Path.cwd() / "a.py")
        change = {"type": "diff", "path": path, "newText": "new"}
        other = {"type": "diff", "path": str(Path.cwd() / "b.py"), "newText": "too"}
        calls: list[dict[str, object]] = [
            {"kind": "execute", "rawInput": {"command": ["bash", "-lc", "ls -l"]}},
            {"kind": "execute", "rawInput": {"cmd": ["git", "log", "-1"]}},
            {"kind": "execute", "title": "`make`"},
            {"kind": "edit", "content": [change, other]},
            {"kind": "fetch", "title": "https://example.org"},
            {"kind": "read", "rawInput": {"filePath": path}},
            {"kind": "other", "title": "weather", "rawInput": {"city": "Rome"}},
        ]
        for number, call in enumerate(calls):
            told = {"title": "a call", **call, "status": "completed"}
            self.update("tool_call", toolCallId=f"look-{number}", **told)

    def play_stops(self) -> None:
        self.say("I write it.\n")
        self.play_edits_silently()

    def play_edits_silently(self) -> None:
        self.update("tool_call", toolCallId="x", kind="edit", title="Write x", status="completed")

    def play_late(self) -> None:
        command = {"type": "text", "text": json.dumps({"command": "npm test"})}
        content = [{"type": "content", "content": command}]
        if self.permitted("execute", "Bash", late=True, content=content):
            self.say("tested\n")

    def play_nameless(self) -> None:
        self.permitted("execute", "Bash", late=False)

    def play_wonders(self) -> None:
        choices = [("a", "SQLite", "allow_once"), ("b", "Postgres", "allow_once")]
        choices.append(("no", "Skip", "reject_once"))
        question = {"type": "content", "content": {"type": "text", "text": "Which database?"}}
        call = {"toolCallId": "q", "kind": "other", "title": "Ask", "content": [question]}
        options = [{"optionId": a, "name": b, "kind": c} for a, b, c in choices]
        asked = {"sessionId": self.session, "toolCall": call, "options": options}
        self.send(id="ask-q", method="session/request_permission", params=asked)
        answer = json.loads(sys.stdin.readline())
        self.say(f"chosen: {answer['result']['outcome'].get('optionId')}\n")

    def play_edits(self) -> None:
        place = str(Path.cwd() / "made.txt")
        if self.permitted("edit", "Write made.txt", locations=[{"path": place}]):
            Path("made.txt").write_text("made\n")
            self.say("edited\n")


def internal(data: dict[str, Any]) -> dict[str, Any]:
    return {"code": -32603, "message": "Internal error", "data": data}


class AnswerError(Exception):
    """The error with which a request is answered."""


if __name__ == "__main__":
    Agent().serve()
