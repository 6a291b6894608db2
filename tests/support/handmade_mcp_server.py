"""An MCP server without the SDK: it starts thirty times as fast, and can behave badly."""

from __future__ import annotations

import json
import sys
from pathlib import Path

SERVER = """\
import json, os, signal, subprocess, sys, time

def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def answer(request, result):
    send({"id": request["id"], "result": result})

def text(said):
    return {"content": [{"type": "text", "text": said}]}

INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
    "serverInfo": {"name": "handmade", "version": "1"}}
TOOLS = {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]}
RESULT = text("done")

def tools(request):
    answer(request, TOOLS)

def call(request):
    answer(request, RESULT)

def end():
    pass

# BEHAVIOUR

for line in sys.stdin:
    request = json.loads(line)
    method = request["method"]
    if method == "initialize":
        answer(request, INFO)
    elif method == "tools/list":
        tools(request)
    elif method == "tools/call":
        call(request)
    elif "id" in request:
        send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
end()
"""
"""It has one tool, `do`; a test replaces what it defines."""


def declare(project: Path, *argv: str, **env: str) -> None:
    """Declare this program as the MCP server `server` of a project."""
    server = {"command": argv[0], "args": argv[1:], "env": env}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"server": server}}))


def declare_handmade(project: Path, behaviour: str = "", **env: str) -> None:
    """Declare a server that behaves as this text says."""
    file = project.with_name(f"{project.name}-server.py")
    file.write_text(SERVER.replace("# BEHAVIOUR", behaviour))
    declare(project, sys.executable, str(file), **env)
