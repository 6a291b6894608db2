"""A scripted Gemini CLI: run it as a program.

It plays the commands of `acp_agent`. With GEMINI_REPLAY it says again the lines of the real client
in that file. With GEMINI_END, its telemetry says that the last answer ended so. Its arguments are
added to argv.json, and its policy copied to policy.toml, both in its working directory.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from support import acp_agent
from support.acp_agent import AnswerError


class Gemini(acp_agent.Agent):
    def send(self, **event: Any) -> None:
        print(json.dumps(event), flush=True)

    def say(self, text: str) -> None:
        self.send(type="message", role="assistant", content=text, delta=True)

    def permitted(self, kind: str, title: str, **fields: Any) -> bool | None:
        return False

    def carry_out(self, prompt: str) -> None:
        self.send(type="init", session_id="5e551017", model="small")
        try:
            stop = self.turn([prompt])["stopReason"]
        except AnswerError:
            self.send(type="result", status="error", error={"message": "[API Error: it broke]"})
            return
        used = 0 if prompt == "/empty" else 100
        stats = {"input_tokens": used, "output_tokens": used // 10}
        self.send(type="result", status="success" if stop == "end_turn" else "error", stats=stats)


if __name__ == "__main__":
    options = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[1:])
    Path("argv.json").write_text(json.dumps(sys.argv[1:]))
    shutil.copy(options["policy"], "policy.toml")
    if end := os.environ.get("GEMINI_END"):
        event = {"finish_reasons": ["stop", end], "role": "main"}
        aside = {"finish_reasons": ["stop", "stop"], "role": "utility_router"}
        told = "".join(json.dumps(each, indent=2) for each in (event, aside))
        Path(os.environ["GEMINI_TELEMETRY_OUTFILE"]).write_text(told)
    if file := os.environ.get("GEMINI_REPLAY"):
        print(Path(file).read_text(), end="", flush=True)
        sys.exit(144)
    Gemini().carry_out(options["prompt"])
