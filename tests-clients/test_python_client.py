"""The server from the perspective of the Python MCP SDK, over standard input and output and over HTTP.

Run by `cargo xtask test`, or by hand with RKAT and RKAT_MCP set to the programs:
`RKAT=… RKAT_MCP=… .clients/venv/bin/python tests-clients/test_python_client.py [PART OF A NAME]`
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

from mcp import Client

from mcp_client import call, connect, connect_http
from support import (
    CALL_READ_FILE,
    READ_FILE,
    UNKNOWN_SESSION,
    Failure,
    Place,
    answer_call,
    expect,
    expect_answer,
    expect_hello,
    expect_pending,
    expect_talk,
    expect_tools,
    field,
    main,
    payload,
    refusal,
    test,
)

POLL_SECONDS = 0.05

# Longer than a test may take: a run with this prompt ends only when it is stopped.
LONG_WAIT = "wait 60000"


async def running_session(client: Client) -> str:
    """Waits until exactly one session is running; returns its id."""
    while True:
        document = payload(await call(client, "meerkat_sessions"), "sessions")
        active = [entry for entry in field(document, "sessions", "sessions") if entry.get("is_active")]
        if active:
            return field(active[0], "session_id", "sessions")
        await asyncio.sleep(POLL_SECONDS)


async def until_idle(client: Client, session_id: str) -> None:
    """Waits until the session is no longer running."""
    while True:
        document = payload(await call(client, "meerkat_read", session_id=session_id), "read")
        if not field(field(document, "state", "read"), "is_active", "read: state"):
            return
        await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def long_run(client: Client) -> AsyncIterator[tuple[str, asyncio.Task[dict[str, Any]]]]:
    """Starts a waiting run; returns the id of its session and the task of the blocked call."""
    task = asyncio.create_task(call(client, "meerkat_run", prompt=LONG_WAIT))
    try:
        found = asyncio.create_task(running_session(client))
        await asyncio.wait({task, found}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            found.cancel()
            raise Failure(f"run: `{LONG_WAIT}` ended at once: {task.result()}")
        yield await found, task
    finally:
        task.cancel()


async def tools_are_listed(place: Place, mode: str) -> None:
    async with connect(place, mode) as client:
        if client.server_info is not None:
            expect(client.server_info.name, "rkat-mcp", "serverInfo.name")
        listed = await client.list_tools()
        expect_tools([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools])


async def hello_is_answered(place: Place, mode: str) -> None:
    async with connect(place, mode) as client:
        expect_hello(payload(await call(client, "meerkat_run", prompt="say hello"), "run"))


@test("the session tools are listed after an initialize handshake")
async def _(place: Place) -> None:
    await tools_are_listed(place, "legacy")


@test("the session tools are listed by a client that probes for the newest protocol")
async def _(place: Place) -> None:
    await tools_are_listed(place, "auto")


@test("a run answers after an initialize handshake")
async def _(place: Place) -> None:
    await hello_is_answered(place, "legacy")


@test("a run answers a client that probes for the newest protocol")
async def _(place: Place) -> None:
    await hello_is_answered(place, "auto")


@test("an unknown session is rejected with its code")
async def _(place: Place) -> None:
    async with connect(place) as client:
        for tool in ["meerkat_read", "meerkat_history", "meerkat_interrupt", "meerkat_archive"]:
            refusal(await call(client, tool, session_id=UNKNOWN_SESSION), "SESSION_NOT_FOUND", tool)
        resumed = await call(client, "meerkat_resume", session_id=UNKNOWN_SESSION, prompt="say hello")
        refusal(resumed, "SESSION_NOT_FOUND", "meerkat_resume")


@test("an archived session is readable, unlisted, and cannot be resumed")
async def _(place: Place) -> None:
    async with connect(place) as client:
        run = payload(await call(client, "meerkat_run", prompt="say hello"), "run")
        session_id = expect_answer(run, "hello", "run")
        archived = payload(await call(client, "meerkat_archive", session_id=session_id), "archive")
        expect(archived, {"session_id": session_id, "archived": True}, "archive")
        history = payload(await call(client, "meerkat_history", session_id=session_id), "history")
        expect_talk(history, [("user", "say hello"), ("assistant", "hello")])
        sessions = payload(await call(client, "meerkat_sessions"), "sessions")
        expect(field(sessions, "sessions", "sessions"), [], "sessions after the archiving")
        resumed = await call(client, "meerkat_resume", session_id=session_id, prompt="say more")
        refusal(resumed, "SESSION_NOT_FOUND", "resume")


@test("a second run on a busy session is rejected")
async def _(place: Place) -> None:
    async with connect(place) as client:
        async with long_run(client) as (session_id, _waiting):
            second = await call(client, "meerkat_resume", session_id=session_id, prompt="say hello")
            refusal(second, "SESSION_BUSY", "second run")


@test("an interrupt ends the waiting call with the session's id, and the session can be resumed")
async def _(place: Place) -> None:
    async with connect(place) as client:
        async with long_run(client) as (session_id, waiting):
            interrupted = payload(await call(client, "meerkat_interrupt", session_id=session_id), "interrupt")
            expect(interrupted, {"session_id": session_id, "interrupted": True}, "interrupt")
            stopped = refusal(await waiting, "REQUEST_CANCELLED", "interrupted run")
            data = field(stopped, "data", "interrupted run")
            expect(field(data, "session_id", "interrupted run: data"), session_id, "interrupted run: data.session_id")
        again = await call(client, "meerkat_interrupt", session_id=session_id)
        refusal(again, "SESSION_NOT_RUNNING", "interrupt of an idle session")
        resumed = await call(client, "meerkat_resume", session_id=session_id, prompt="say back")
        expect_answer(payload(resumed, "resume"), "back", "resume")


# Ways for a test to connect to a server in its place; each block has a separate server.
TRANSPORTS = {"stdio": connect, "HTTP": connect_http}
MODES = {"after a handshake": "legacy", "on the newest protocol": "auto"}
# Older protocols, as the library of that time requests them.
OLD_VERSIONS = ["2025-06-18", "2025-03-26", "2024-11-05"]


async def progress_is_told(client: Client) -> None:
    told: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    result = await client.call_tool("meerkat_run", {"prompt": "wait 300\nsay hello"}, progress_callback=note)
    expect_answer(payload(result.model_dump(mode="json", by_alias=True), "run"), "hello", "run")
    numbers = [number for number, _ in told]
    if len(told) < 2 or numbers != sorted(set(numbers)) or not all(message for _, message in told):
        raise Failure(f"progress should grow and have messages: {told}")


async def progress(place: Place, reach: Any, mode: str) -> None:
    async with reach(place, mode) as client:
        await progress_is_told(client)


async def cancellation(place: Place, reach: Any, mode: str) -> None:
    async with reach(place, mode) as client:
        async with long_run(client) as (session_id, waiting):
            # Cancelling the task makes the library send notifications/cancelled, or close the stream.
            waiting.cancel()
            await asyncio.wait({waiting})
            await until_idle(client, session_id)
        resumed = await call(client, "meerkat_resume", session_id=session_id, prompt="say back")
        expect(expect_answer(payload(resumed, "resume"), "back", "resume"), session_id, "resume: session_id")


async def callback(place: Place, reach: Any, mode: str) -> None:
    async with reach(place, mode) as client:
        run = await call(client, "meerkat_run", prompt=CALL_READ_FILE, tools=[READ_FILE])
        session_id, tool_use_id = expect_pending(payload(run, "run"))
        resumed = await call(client, "meerkat_resume", **answer_call(session_id, tool_use_id))
        expect(expect_answer(payload(resumed, "resume"), "got it", "resume"), session_id, "resume: session_id")


async def read_events(client: Client, stream_id: str) -> list[dict[str, Any]]:
    """Returns all events of the stream."""
    seen: list[dict[str, Any]] = []
    while True:
        found = payload(
            await call(client, "meerkat_event_stream_read", stream_id=stream_id, timeout_ms=300, limit=100), "read"
        )
        if field(found, "status", "read") != "event":
            return seen
        seen += field(found, "events", "read")


async def events(place: Place, reach: Any, mode: str) -> None:
    async with reach(place, mode) as client:
        run = payload(await call(client, "meerkat_run", prompt="say one"), "run")
        session_id = expect_answer(run, "one", "run")
        live = payload(await call(client, "meerkat_event_stream_open", session_id=session_id), "open")
        await call(client, "meerkat_resume", session_id=session_id, prompt="say two")
        seen = await read_events(client, live["stream_id"])
        kinds = [event["payload"]["type"] for event in seen]
        expect((kinds[0], kinds[-1]), ("run_started", "run_completed"), "first and last event")
        closed = payload(await call(client, "meerkat_event_stream_close", stream_id=live["stream_id"]), "close")
        expect(field(closed, "closed", "close"), True, "close: closed")
        arguments = {"session_id": session_id, "after": seen[0]["seq"]}
        again = payload(await call(client, "meerkat_event_stream_open", **arguments), "open")
        expect(await read_events(client, again["stream_id"]), seen[1:], "events replayed after the first one")


async def restart(place: Place, reach: Any, mode: str) -> None:
    async with reach(place, mode) as client:
        first = payload(await call(client, "meerkat_run", prompt="say one"), "run")
        session_id = expect_answer(first, "one", "run")
    async with reach(place, mode) as client:
        resumed = await call(client, "meerkat_resume", session_id=session_id, prompt="say two")
        expect(expect_answer(payload(resumed, "resume"), "two", "resume"), session_id, "resume: session_id")
        history = payload(await call(client, "meerkat_history", session_id=session_id), "history")
        expect_talk(
            history,
            [("user", "say one"), ("assistant", "one"), ("user", "say two"), ("assistant", "two")],
        )


TALKS = [
    ("receives the progress of a run", progress),
    ("cancels a run, and its session can be resumed", cancellation),
    ("runs a callback tool", callback),
    ("follows the events of a session and replays them", events),
    ("resumes a session after the server was restarted", restart),
]

for transport, reach in TRANSPORTS.items():
    for title, mode in MODES.items():
        for what, talk in TALKS:

            @test(f"over {transport}, {title}, a client {what}")
            async def _(place: Place, reach: Any = reach, mode: str = mode, talk: Any = talk) -> None:
                await talk(place, reach, mode)

    @test(f"over {transport} the events of a run arrive while it runs")
    async def _(place: Place, reach: Any = reach) -> None:
        told: list[Any] = []

        async def note(message: Any) -> None:
            told.append(message.data)

        async with reach(place, logging_callback=note) as client:
            run = payload(await call(client, "meerkat_run", prompt="say hello", stream=True), "run")
            session_id = expect_answer(run, "hello", "run")
        kinds = [entry["event"]["payload"]["type"] for entry in told if entry.get("session_id") == session_id]
        expect((kinds[:1], kinds[-1:]), (["run_started"], ["run_completed"]), "first and last event")

    for version in OLD_VERSIONS:

        @test(f"over {transport} a client on {version} runs with progress and cancels")
        async def _(place: Place, reach: Any = reach, version: str = version) -> None:
            with patch("mcp.client.session.LATEST_HANDSHAKE_VERSION", version):
                async with reach(place) as client:
                    expect(client.protocol_version, version, "negotiated protocol")
                    await progress_is_told(client)
                await cancellation(place, reach, "legacy")


if __name__ == "__main__":
    main()
