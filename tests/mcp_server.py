"""A real MCP server over stdio, whose tools do what a test needs; run as a program."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

server = MCPServer("playground")


class Sum(BaseModel):
    sum: int


@server.tool(structured_output=False)
def greet(name: str, times: int = 1) -> str:
    return "\n".join([f"hello {name}"] * times)


@server.tool()
def add(a: int, b: int) -> Sum:
    return Sum(sum=a + b)


@server.tool(name="files.where", structured_output=False)
def where() -> str:
    return f"{Path.cwd()} {os.environ.get('PLAYGROUND', '')}"


@server.tool(structured_output=False)
def refuse(why: str) -> str:
    raise ToolError(why)


@server.tool(structured_output=False)
def picture() -> Image:
    return Image(data=b"12345", format="png")


@server.tool(structured_output=False)
async def counting(context: Context) -> str:
    for number in (1, 2):
        await context.report_progress(number, 2, f"part {number}")
    return "counted"


@server.tool(structured_output=False)
def chatter() -> str:
    print("not a message", flush=True)
    print("warming up", file=sys.stderr, flush=True)
    return "said"


@server.tool(structured_output=False)
def flood() -> str:
    for _ in range(20_000):
        print("E" * 1_000, file=sys.stderr)
    return "flooded"


@server.tool(structured_output=False)
def die(status: int) -> str:
    print("out of luck", file=sys.stderr, flush=True)
    os._exit(status)


@server.tool(structured_output=False)
def hang() -> str:
    Path("hanging").touch()
    time.sleep(3600)
    return "never"


if __name__ == "__main__":
    server.run("stdio")
