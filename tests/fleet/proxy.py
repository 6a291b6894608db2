"""A TCP proxy in a process of its own, whose bytes can be held or lost while connections stay.

That is what a partition looks like from both ends: nobody is told, nothing comes.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

Way = Literal["up", "down"]
"""From the client to the server, or back."""
HOST = "127.0.0.1"
_CHUNK = 65_536


class Proxy:
    """Connections to `port` are passed on to the server's, until the `with` ends."""

    def __init__(self, server_port: int) -> None:
        self._command = [sys.executable, "-S", str(Path(__file__)), str(server_port)]

    def __enter__(self) -> Proxy:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )
        self.port = int(self._reply())
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def hold(self, *ways: Way) -> None:
        """Keep all bytes back, or only those of one way; new connections are accepted."""
        self._tell("hold", *ways)

    def drop(self, *ways: Way) -> None:
        """Lose all bytes, or only those of one way. `heal` resets the connections concerned."""
        self._tell("drop", *ways)

    def heal(self) -> None:
        """Pass everything on again, first what was held."""
        self._tell("heal")

    def reset(self) -> None:
        self._tell("reset")

    def _tell(self, *words: str) -> None:
        assert self._process.stdin
        print(*words, file=self._process.stdin, flush=True)
        assert self._reply() == "done"

    def _reply(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()


# ── the process ─────────────────────────────────────────────────────────────────────────────


class _Passage:
    """What happens to the bytes of one way."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()
        self.dropping = False


class _Proxy:
    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._ways = {"up": _Passage(), "down": _Passage()}
        self._open: dict[asyncio.StreamWriter, bool] = {}  # and whether it has lost bytes

    async def serve(self) -> None:
        server = await asyncio.start_server(self._accept, HOST, 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        loop = asyncio.get_running_loop()
        commands: dict[str, Callable[..., None]] = {
            "hold": self._hold,
            "drop": self._drop,
            "heal": self._heal,
            "reset": self._reset,
        }
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            name, *ways = line.split()
            commands[name](*ways)
            print("done", flush=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = False
        try:
            await self._ways["up"].free.wait()
            theirs, server = await asyncio.open_connection(HOST, self._server_port)
        except OSError:
            self._abort(writer)
            return
        self._open[server] = False
        await asyncio.gather(
            self._pass(reader, server, writer, self._ways["up"]),
            self._pass(theirs, writer, server, self._ways["down"]),
        )
        for each in (writer, server):
            self._abort(each)

    async def _pass(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
        way: _Passage,
    ) -> None:
        with suppress(OSError):
            while data := await source.read(_CHUNK):
                await way.free.wait()
                if way.dropping:
                    self._open[target] = self._open[back] = True
                    continue
                target.write(data)
                await target.drain()
        while (
            way.dropping or not way.free.is_set()
        ):  # an end is not seen during a partition, either
            await asyncio.sleep(0.05)
        with suppress(OSError, RuntimeError):
            if target.can_write_eof():
                target.write_eof()

    def _hold(self, *ways: str) -> None:
        for way in ways or self._ways:
            self._ways[way].free.clear()

    def _drop(self, *ways: str) -> None:
        for way in ways or self._ways:
            self._ways[way].dropping = True

    def _heal(self) -> None:
        for writer in [each for each, lost in self._open.items() if lost]:
            self._abort(writer)
        for way in self._ways.values():
            way.dropping = False
            way.free.set()

    def _reset(self) -> None:
        for writer in list(self._open):
            self._abort(writer)

    def _abort(self, writer: asyncio.StreamWriter) -> None:
        self._open.pop(writer, None)
        writer.transport.abort()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_Proxy(int(sys.argv[1])).serve())
