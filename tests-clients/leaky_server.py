"""An MCP server that leaks its secrets: on stderr, in results, and in errors.

`leak` returns every secret of its environment and arguments, `meta` the metadata of the call, and a server that is
started with `--die` prints its secrets and exits.
"""

from __future__ import annotations

import json
import os
import sys


def secrets() -> str:
    return " ".join([*sys.argv[1:], *(f"{name}={value}" for name, value in os.environ.items())])


def answer(method: str, params: dict) -> dict:
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "leaky", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("leak", "meta", "refuse")]}
    if method == "tools/call" and params["name"] == "meta":
        return {"content": [{"type": "text", "text": json.dumps(params.get("_meta", {}))}]}
    if method == "tools/call" and params["name"] == "leak":
        return {"content": [{"type": "text", "text": secrets()}]}
    raise ValueError(f"refused: {secrets()}")


def main() -> None:
    print(f"starting with {secrets()}", file=sys.stderr, flush=True)
    if "--die" in sys.argv:
        sys.exit(3)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = answer(message["method"], message.get("params") or {})
        except ValueError as problem:
            reply["error"] = {"code": -32000, "message": str(problem)}
        print(json.dumps(reply), flush=True)


main()
