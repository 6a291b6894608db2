"""A hostile agent: it carries out the attacks that arrive on a socket, one line of JSON each.

Nothing that it answers is believed; it serves to explain why an attack did nothing.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

SECONDS = 6.0


def attacked(language: str, text: str, environment: dict[str, str]) -> str:
    """What the attack printed, and its exit status."""
    program = [sys.executable, "-c"] if language == "python" else ["bash", "-c"]
    with tempfile.TemporaryFile() as said:  # a pipe would stay open while a daemon lives
        process = subprocess.Popen(
            [*program, text],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(0)
        return f"{said.read().decode(errors='replace').strip()[-400:]} [{process.returncode}]"


def main() -> None:
    port = int(sys.argv[1])
    with socket.create_connection(("127.0.0.1", port)) as channel, channel.makefile("rwb") as lines:
        for line in lines:
            lines.write(json.dumps(attacked(*json.loads(line))).encode() + b"\n")
            lines.flush()


if __name__ == "__main__":
    main()
