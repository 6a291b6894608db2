"""A real MCP server over stdio, made with the SDK; run as a program."""

from __future__ import annotations

import time
from pathlib import Path

from mcp.server import MCPServer
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


@server.tool(structured_output=False)
def refuse(why: str) -> str:
    raise ToolError(why)


@server.tool(structured_output=False)
def hang() -> str:
    Path("hanging").touch()
    time.sleep(3600)
    return "never"


if __name__ == "__main__":
    server.run("stdio")
