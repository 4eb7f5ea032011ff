"""Canaries: a separate secret in every place that holds secrets, and none of them in anything that leaves.

Run by `cargo xtask test`, or by hand with the programs set:
`RKAT=target/debug/rkat RKAT_MCP=target/debug/rkat-mcp python3 tests-clients/test_canaries.py [PART OF A NAME]`
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from collector import collector
from leaks import LEAKY, call_tool, environment
from support import Failure, Place, expect, main, test

# Locations of the canaries. They are long, and no two share a distinctive part.
PLACES = [
    "key-in-the-environment",
    "other-token-in-the-environment",
    "config-token",
    "hook-variable",
    "hook-header",
    "server-variable",
    "server-argument",
    "server-expanded",
    "server-header",
    "server-userinfo",
    "server-query",
    "hub-token",
    "collector-header",
]
CANARIES = {place: f"canary-{number:02}-{place}-x7Qz" for number, place in enumerate(PLACES)}

# These are stored in the realm's config, where they belong.
IN_CONFIG = ["config-token", "hook-variable", "hook-header"]

LOG = "trace,rmcp=trace,hyper=trace,hyper_util=trace,reqwest=trace,rustls=trace,tokio=trace"

HOOK = "import os, sys; print(os.environ, file=sys.stderr); sys.exit(1)"


@contextmanager
def echo() -> Iterator[str]:
    """A server that rejects everything, and repeats all its input in the error."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # noqa: N802, the name is the library's.
            self.rfile.read(int(self.headers.get("content-length", 0)))
            message = f"{self.path} {dict(self.headers)}"
            body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
            self.send_response(401)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Coop:
    """A place with a canary wherever one is possible, and everything that came out of it."""

    def __init__(self, place: Place, echoes: str, traces: str) -> None:
        self.place, self.echoes = place, echoes
        self.heard: list[tuple[str, str]] = []
        self.variables = environment(
            place,
            OPENAI_API_KEY=CANARIES["key-in-the-environment"],
            GITHUB_TOKEN=CANARIES["other-token-in-the-environment"],
            FOR_SERVER_TOKEN=CANARIES["server-expanded"],
            RKAT_TOKEN=CANARIES["hub-token"],
            RKAT_LOG=LOG,
            OTEL_EXPORTER_OTLP_ENDPOINT=traces,
            OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{CANARIES['collector-header']}",
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true",
        )
        (place.work / "notes.txt").write_text(" ".join(["the notes:", *CANARIES.values()]))
        self.write_servers()

    def write_servers(self) -> None:
        def program(name: str, *more: str) -> dict[str, Any]:
            args = [str(LEAKY), *more, "--token", CANARIES["server-argument"], "--api-key=${FOR_SERVER_TOKEN}"]
            variables = {"SERVER_PASSWORD": CANARIES["server-variable"], "PYTHONUNBUFFERED": "1"}
            return {"name": name, "command": sys.executable, "args": args, "env": variables}

        query = f"mode=x&access_token={CANARIES['server-query']}"
        url = f"http://someone:{CANARIES['server-userinfo']}@{self.echoes}/mcp?{query}"
        remote = {"name": "remote", "url": url, "headers": {"X-Api-Key": CANARIES["server-header"]}}
        directory = self.place.home / ".rkat"
        directory.mkdir()
        lines = []
        for entry in (program("leaky"), program("dying", "--die"), remote):
            lines.append("[[servers]]")
            for key, value in entry.items():
                table = ", ".join(f"{name} = {json.dumps(text)}" for name, text in value.items()) if isinstance(value, dict) else ""
                lines.append(f"{key} = {{ {table} }}" if table else f"{key} = {json.dumps(value)}")
        (directory / "mcp.toml").write_text("\n".join(lines) + "\n")
        (directory / "mcp.toml").chmod(0o600)

    def rkat(self, *arguments: str, check: int | None = None) -> str:
        command = [os.environ["RKAT"], *arguments, "--state-root", str(self.place.state), "--realm", "test"]
        done = subprocess.run(
            command,
            cwd=self.place.work,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        what = " ".join(arguments[:3])
        self.heard += [(f"stdout of `{what}`", done.stdout), (f"stderr of `{what}`", done.stderr)]
        if check is not None:
            expect(done.returncode, check, f"exit code of `{what}` ({done.stderr[-600:]})")
        return done.stdout

    def leaks(self) -> list[tuple[str, str]]:
        return [(place, what) for what, text in self.heard for place in found(text)]


def found(text: str) -> list[str]:
    return [place for place, canary in CANARIES.items() if canary in text]


@test("no secret leaks from the programs or into their files")
def nothing_sings(place: Place) -> None:
    with echo() as echoes, collector() as seen:
        coop = Coop(place, echoes, seen.url)
        configure(coop)
        session = sing(coop)
        look_around(coop, session)
        over_mcp(coop)
    coop.heard.append(("the traces", seen.raw.decode(errors="replace")))
    expect(len(seen.named("invoke_agent")) >= 5, True, "traces of the runs arrived")
    expect(coop.leaks(), [], "canaries that got out")
    expect(kept_leaks(place.state), [], "canaries in the files of the realm")
    expect(open_files(place.state), [], "files of the realm that others can read")
    # The test is meaningful only if every canary could have been found.
    everything = "".join(text for _, text in coop.heard)
    for word in ("SERVER_PASSWORD=***", "--token ***", "--api-key=***", "the notes: ***", "stderr: starting with"):
        if word not in everything:
            raise Failure(f"`{word}` never appeared")


def configure(coop: Coop) -> None:
    observer = {"id": "o", "point": "run_started"}
    command = {"type": "command", "command": sys.executable, "args": ["-c", HOOK]}
    command["env"] = {"HOOK_SECRET": CANARIES["hook-variable"]}
    address = {"type": "http", "url": f"http://{coop.echoes}/hook"}
    address["headers"] = {"X-Hook-Key": CANARIES["hook-header"]}
    hooks = [{**observer, "runtime": command}, {**observer, "id": "p", "runtime": address}]
    servers = {"desk": {"base_url": f"http://{coop.echoes}", "bearer_token": CANARIES["config-token"]}}
    models = {"local": {"server": "desk", "remote_model": "some-model"}}
    config = {
        "hooks": {"entries": hooks},
        "providers": {"openai": {"base_url": f"http://{coop.echoes}"}},
        "self_hosted": {"servers": servers, "models": models},
        "tools": {"builtins_enabled": True},
    }
    coop.rkat("config", "patch", "--json", json.dumps(config), check=0)


def sing(coop: Coop) -> str:
    """Makes runs that reach every available secret."""
    prompt = (
        'call leaky__leak {}\ncall leaky__refuse {}\ncall read_file {"path": "notes.txt"}\nthen\nsay done\n'
    )
    run = ["run", "--model", "offline", "--wait-for-mcp"]
    coop.rkat(*run, "--verbose", prompt, check=0)
    coop.rkat(*run, "--stream", prompt, check=0)
    # Without a command, the model quotes the tool results.
    coop.rkat(*run, 'call leaky__leak {}\ncall read_file {"path": "notes.txt"}', check=0)
    coop.rkat("run", "--model", "gpt-5.2", "hello", check=1)
    coop.rkat("run", "--model", "local", "--json", "hello", check=1)
    return json.loads(coop.rkat(*run, "--json", prompt, check=0))["session_id"]


def look_around(coop: Coop, session: str) -> None:
    coop.rkat("session", "show", session, check=0)
    coop.rkat("session", "show", session, "--json", check=0)
    coop.rkat("session", "list", check=0)
    coop.rkat("config", "get", check=0)
    coop.rkat("doctor")
    coop.rkat("doctor", "--json")
    coop.rkat("mcp", "list", check=0)
    coop.rkat("mcp", "list", "--json", check=0)
    for name in ("leaky", "dying", "remote"):
        coop.rkat("mcp", "get", name, check=0)
        coop.rkat("mcp", "test", name)
    coop.rkat("hub", "status")
    coop.rkat("models")
    coop.rkat("usage")


def over_mcp(coop: Coop) -> None:
    prompt = 'call leaky__leak {}\ncall leaky__refuse {}\ncall read_file {"path": "notes.txt"}'
    calls = [
        ("meerkat_run", {"prompt": prompt, "model": "offline", "verbose": True}),
        ("meerkat_run", {"prompt": "hello", "model": "gpt-5.2"}),
        ("meerkat_run", {"prompt": "hello", "model": "local"}),
        ("meerkat_config", {"action": "get"}),
    ]
    for name, arguments in calls:
        result = call_tool(coop.place, name, arguments, {}, **coop.variables)
        coop.heard.append((f"result of {name}", json.dumps(result)))
    coop.heard.append(("stderr of rkat-mcp", coop.place.log.read_text(errors="replace")))


def kept_leaks(root: Path) -> list[tuple[str, str]]:
    """Returns canaries in files where they do not belong."""
    leaks = []
    for path in sorted(root.rglob("*")):
        if path.is_file():
            text = path.read_bytes().decode(errors="replace")
            leaks += [(path.name, place) for place in found(text) if place not in IN_CONFIG]
    return leaks


def open_files(root: Path) -> list[str]:
    """Returns files and directories that other users than the owner can access."""
    paths = [path for path in sorted(root.rglob("*"))]
    return [f"{path.name} {stat.filemode(path.stat().st_mode)}" for path in paths if path.stat().st_mode & 0o077]


if __name__ == "__main__":
    main()
