"""Common parts of the tests of traces and of secrets: a server that leaks its secrets, and a call of `rkat-mcp`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from support import Failure, Place, expect

LEAKY = Path(__file__).with_name("leaky_server.py")


def environment(place: Place, **more: str) -> dict[str, str]:
    return {"HOME": str(place.home), "PATH": os.environ["PATH"], **more}


def call_tool(place: Place, name: str, arguments: dict[str, Any], meta: dict[str, str], **more: str) -> dict[str, Any]:
    """Makes one tool call of `rkat-mcp`, which ends with its input."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": name, "arguments": arguments, "_meta": meta}},
    ]
    server = subprocess.Popen(
        place.server(),
        cwd=place.work,
        env=environment(place, **more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=place.log.open("a"),
        text=True,
    )
    assert server.stdin and server.stdout
    for message in messages:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()
    for line in server.stdout:
        message = json.loads(line)
        if message.get("id") == 2:
            server.stdin.close()
            expect(server.wait(20), 0, "exit code of rkat-mcp")
            return message["result"]
    raise Failure("rkat-mcp did not answer")
