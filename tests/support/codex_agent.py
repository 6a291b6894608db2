"""A scripted `codex app-server`: run it as a program.

It plays the commands of `acp_agent`. With CODEX_REPLAY it says again, in the same order, the lines
of the real client in that file; what it is told is added to the file CODEX_TOLD. CODEX_FAULT is the
error of a turn that fails; with CODEX_WORKED, the model has answered before.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from support import acp_agent
from support.acp_agent import AnswerError

FAULT = '{"message": "it broke", "codexErrorInfo": "other"}'


class Codex(acp_agent.Agent):
    def send(self, **message: Any) -> None:
        print(json.dumps(message), flush=True)

    def note(self, method: str, **params: Any) -> None:
        told = {"threadId": self.session, "turnId": "turn-1", **params}
        self.send(method=method, params=told)

    def say(self, text: str) -> None:
        self.note("item/completed", item={"type": "agentMessage", "id": "said", "text": text})

    def permitted(self, kind: str, title: str, **fields: Any) -> bool | None:
        changes = [{"path": fields["locations"][0]["path"], "kind": {"type": "add"}, "diff": "+"}]
        self.note("item/started", item={"type": "fileChange", "id": "change", "changes": changes})
        told = {"threadId": self.session, "itemId": "change", "reason": title}
        self.send(id=0, method="item/fileChange/requestApproval", params=told)
        while line := sys.stdin.readline():
            message = json.loads(line)
            if message.get("id") == 0:
                decision = message["result"]["decision"]
                return None if decision == "cancel" else bool(decision == "accept")
        return None

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if isinstance(message.get("id"), int):
                result = self.answer(message["method"], message["params"])
                self.send(id=message["id"], result=result)
                if message["method"] == "turn/start":
                    self.carry_out(message["params"]["input"])

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "initialize":
                return {"userAgent": "playbook/4.2.0 (scripted)"}
            case "skills/list":
                skills = [{"name": name, "path": f"/{name}"} for name in acp_agent.COMMANDS]
                return {"data": [{"skills": skills, "errors": []}]}
            case "thread/start":
                self.session = str(uuid.uuid4())
                folder = Path(os.environ["CODEX_HOME"], "sessions/2026/02/19")
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"rollout-2026-02-19T10-20-26-{self.session}.jsonl").touch()
            case "thread/resume":
                self.session = params["threadId"]
            case "turn/start":
                return {"turn": {"id": "turn-1", "status": "inProgress"}}
        return {"thread": {"id": self.session}, "model": "small"}

    def carry_out(self, given: list[dict[str, Any]]) -> None:
        said = [each["text"].removeprefix("$") for each in given if each["type"] == "text"]
        try:
            stop = self.turn(said)["stopReason"]
        except AnswerError:
            if "CODEX_WORKED" in os.environ:
                self.use(50)
            error = json.loads(os.environ.get("CODEX_FAULT", FAULT))
            turn = {"status": "failed", "error": error}
        else:
            self.use(0 if said[0] == "empty" else 100)
            turn = {"status": "completed" if stop == "end_turn" else "interrupted"}
        self.note("turn/completed", turn=turn)

    def use(self, tokens: int) -> None:
        total = {"inputTokens": tokens, "outputTokens": tokens // 10}
        self.note("thread/tokenUsage/updated", tokenUsage={"total": total})


def replay(lines: list[str], told: Path) -> None:
    """An answer waits for the request that it is for, and what follows a question for its reply."""
    for line in lines:
        message = json.loads(line)
        if "method" not in message:
            message["id"] = _heard(told, lambda each: "method" in each)["id"]
        print(json.dumps(message), flush=True)
        if "method" in message and "id" in message:
            _heard(told, lambda each: "method" not in each)
    while sys.stdin.readline():
        pass


def _heard(told: Path, wanted: Any) -> dict[str, Any]:
    while line := sys.stdin.readline():
        with told.open("a") as file:
            file.write(line)
        message: dict[str, Any] = json.loads(line)
        if isinstance(message.get("id"), int) and wanted(message):
            return message
    sys.exit(0)


if __name__ == "__main__":
    if file := os.environ.get("CODEX_REPLAY"):
        replay(Path(file).read_text().splitlines(), Path(os.environ["CODEX_TOLD"]))
    else:
        Codex().serve()
