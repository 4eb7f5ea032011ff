"""The server from the perspective of both generations of the TypeScript SDK, over stdio and over HTTP.

Run by `cargo xtask test`, or by hand with RKAT_MCP set to the server:
`RKAT_MCP=target/debug/rkat-mcp .clients/venv/bin/python tests-clients/test_typescript_client.py [PART OF A NAME]`
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from children import MODULES, NODE
from support import (
    CALL_READ_FILE,
    COMPANIONS,
    READ_FILE,
    Failure,
    Place,
    expect,
    expect_answer,
    expect_hello,
    expect_pending,
    expect_tools,
    field,
    main,
    payload,
    test,
)

SCRIPT = Path(__file__).resolve().parent / "typescript_client.mjs"
PROCESS_TIMEOUT_SECONDS = 60

# The current client, the previous one, and one that probes for the newest protocol.
CLIENTS = [
    ("client 2.4.0", {"sdk": "client"}),
    ("sdk 1.32.2", {"sdk": "sdk"}),
    ("client 2.4.0 on the newest protocol", {"sdk": "client", "version": "auto"}),
]
# Older protocols, which a client may insist on.
OLD_VERSIONS = ["2025-06-18", "2024-11-05"]
TRANSPORTS = ["stdio", "HTTP"]


@contextmanager
def server(place: Place, transport: str) -> Iterator[dict[str, Any]]:
    """Returns how to reach a server in this place."""
    if transport == "HTTP":
        with place.http() as served:
            yield {"url": served.url, "headers": served.headers}
    else:
        command, *arguments = place.server()
        environment = {"HOME": str(place.home), "PATH": os.environ["PATH"]}
        yield {"command": command, "args": arguments, "env": environment, "cwd": str(place.work)}


def converse(place: Place, reach: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """Has one conversation; returns its result."""
    given = json.dumps({"modules": str(MODULES.parent), **reach, **settings})
    environment = {"HOME": str(place.home), "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [str(NODE), str(SCRIPT), given],
        env=environment,
        cwd=place.work,
        capture_output=True,
        text=True,
        timeout=PROCESS_TIMEOUT_SECONDS,
    )
    if done.returncode != 0:
        raise Failure(f"the client ended with {done.returncode}\n{done.stderr.strip()}\n{done.stdout.strip()}")
    return json.loads(done.stdout)


def lists(place: Place, reach: dict[str, Any], client: dict[str, Any]) -> None:
    found = converse(place, reach, talk="lists", **client)
    expect_tools(found["tools"])
    expect([one["uri"] for one in found["resources"]["resources"]], [f"skill://{n}/SKILL.md" for n in COMPANIONS], "resources")
    templates = {template["uriTemplate"] for template in found["templates"]["resourceTemplates"]}
    expect({"iii://{skill_id}", "iii://{skill_id}/{function_id}"} <= templates, True, "templates of the registry")
    expect(len(templates), 5, "number of templates")
    expect([one["name"] for one in found["prompts"]["prompts"]], COMPANIONS, "prompts")
    expect(field(found["server"], "name", "server"), "rkat-mcp", "server name")


def progress(place: Place, reach: dict[str, Any], client: dict[str, Any]) -> None:
    found = converse(place, reach, talk="progress", **client)
    expect_answer(payload(found["run"], "run"), "hello", "run")
    numbers = [notice["progress"] for notice in found["told"]]
    if len(numbers) < 2 or sorted(set(numbers)) != numbers:
        raise Failure(f"progress does not grow: {found['told']}")
    if not all(notice.get("message") for notice in found["told"]):
        raise Failure(f"progress without messages: {found['told']}")


def cancellation(place: Place, reach: dict[str, Any], client: dict[str, Any]) -> None:
    found = converse(place, reach, talk="cancel", **client)
    expect(found["ended"], "cancelled", "the call")
    session = expect_answer(payload(found["resumed"], "resume"), "back", "resume")
    expect(session, found["session_id"], "resume: session_id")


def callback(place: Place, reach: dict[str, Any], client: dict[str, Any]) -> None:
    run = {"prompt": CALL_READ_FILE, "tools": [READ_FILE]}
    found = converse(place, reach, talk="callback", run=run, **client)
    session, _ = expect_pending(payload(found["run"], "run"))
    expect(expect_answer(payload(found["resumed"], "resume"), "got it", "resume"), session, "resume: session_id")


def events(place: Place, reach: dict[str, Any], client: dict[str, Any]) -> None:
    found = converse(place, reach, talk="events", **client)
    kinds = [event["payload"]["type"] for event in found["seen"]]
    expect((kinds[0], kinds[-1]), ("run_started", "run_completed"), "first and last event")
    expect(found["again"], found["seen"][1:], "events replayed after the first one")
    expect(field(found["closed"], "closed", "close"), True, "close: closed")


def resource(place: Place, reach: dict[str, Any], client: dict[str, Any]) -> None:
    found = converse(place, reach, talk="resource", **client)
    expect_hello(found["run"])
    document = json.loads(found["read"]["contents"][0]["text"])
    session = found["run"]["session_id"]
    expect(document["session"]["session_id"], session, "session of the resource")
    expect(document["history"]["message_count"], 2, "messages of the resource")


TALKS = [
    ("lists tools, resources, and prompts", lists),
    ("receives the progress of a run", progress),
    ("cancels a run, and its session can be resumed", cancellation),
    ("runs a callback tool", callback),
    ("follows the events of a session and replays them", events),
    ("reads a session as a resource", resource),
]


def add(name: str, transport: str, client: dict[str, Any], talk: Any) -> None:
    @test(name)
    def _(place: Place) -> None:
        with server(place, transport) as reach:
            talk(place, reach, client)


for title, client in CLIENTS:
    for transport in TRANSPORTS:
        for what, talk in TALKS:
            add(f"{title} over {transport} {what}", transport, client, talk)
for version in OLD_VERSIONS:
    for transport in TRANSPORTS:
        client = {"sdk": "client", "version": version}
        add(f"protocol {version} over {transport}: a run with progress", transport, client, progress)


@test("a session continues after a server restart, on the other transport")
def _(place: Place) -> None:
    with server(place, "HTTP") as reach:
        run = payload(converse(place, reach, talk="run", prompt="say one", sdk="client")["run"], "run")
        session = expect_answer(run, "one", "run")
    for transport, word in [("stdio", "two"), ("HTTP", "three")]:
        with server(place, transport) as reach:
            settings = {"talk": "resume", "session_id": session, "prompt": f"say {word}", "sdk": "sdk"}
            resumed = payload(converse(place, reach, **settings)["resumed"], "resume")
            expect(expect_answer(resumed, word, "resume"), session, "resume: session_id")


if __name__ == "__main__":
    main()
