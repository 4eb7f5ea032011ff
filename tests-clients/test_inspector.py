"""The server from the perspective of the MCP Inspector's command line: one connection per request.

It shows no progress, cancels nothing, and supports no revision before 2025-11-25.

Run by `cargo xtask test`, or by hand with RKAT and RKAT_MCP set to the programs:
`RKAT=… RKAT_MCP=… python3 tests-clients/test_inspector.py [PART OF A NAME]`
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import Any

from children import MODULES, NODE
from support import (
    CALL_READ_FILE,
    READ_FILE,
    UNKNOWN_SESSION,
    Failure,
    Place,
    Served,
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

INSPECTOR = MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"

PROCESS_TIMEOUT_SECONDS = 90
POLL_SECONDS = 0.2

# A run with this prompt ends only when it is stopped.
LONG_WAIT = "wait 60000"

ERAS = ["legacy", "modern"]

# Exit codes of the Inspector.
OK = 0
TOOL_ERROR = 5


def command_of(place: Place, *arguments: str, served: Served | None = None) -> tuple[list[str], dict[str, str]]:
    """Runs the Inspector with these arguments, on a new or running server, and its environment."""
    command = [str(NODE), str(INSPECTOR), "--cli", "--cwd", str(place.work), *arguments]
    command += ["--format", "json", "--connect-timeout", "30000"]
    if served:
        command += [served.url, "--transport", "http"]
        command += [part for name, value in served.headers.items() for part in ("--header", f"{name}: {value}")]
    else:
        server, *server_arguments = place.server()
        command += [server, "--", *server_arguments]
    return command, {"HOME": str(place.home), "PATH": f"{NODE.parent}:{os.environ['PATH']}"}


def inspect(place: Place, *arguments: str, exit_code: int = OK, served: Served | None = None) -> dict[str, Any]:
    """Makes one request through the Inspector; returns the JSON that it prints."""
    command, environment = command_of(place, *arguments, served=served)
    done = subprocess.run(
        command, env=environment, cwd=place.work, capture_output=True, text=True, timeout=PROCESS_TIMEOUT_SECONDS
    )
    place.log.write_text(done.stderr)
    if done.returncode != exit_code:
        raise Failure(
            f"the Inspector ended with {done.returncode} instead of {exit_code}\n"
            f"arguments: {' '.join(arguments)}\nstdout: {done.stdout.strip()}"
        )
    try:
        return field(json.loads(done.stdout), "result", "output of the Inspector")
    except ValueError as problem:
        raise Failure(f"the Inspector printed no JSON ({problem}): {done.stdout!r}") from None


def tool_call(tool: str, arguments: dict[str, Any]) -> list[str]:
    return ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments)]


def call(place: Place, tool: str, exit_code: int = OK, **arguments: Any) -> dict[str, Any]:
    """Calls a tool; returns the result in its wire format."""
    return inspect(place, *tool_call(tool, arguments), exit_code=exit_code)


def call_at(place: Place, served: Served, era: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Calls a tool of a running server; returns the tool's reply."""
    result = inspect(place, *tool_call(tool, arguments), "--protocol-era", era, served=served)
    return payload(result, tool)


def ended_while_it_waits(place: Place, *arguments: str, served: Served | None = None, running: Any) -> None:
    """Starts a waiting run, and ends the Inspector once `running` confirms it."""
    command, environment = command_of(place, *tool_call("meerkat_run", {"prompt": LONG_WAIT}), *arguments, served=served)
    with place.log.open("a") as log:
        options = {"cwd": place.work, "stdout": log, "stderr": log, "start_new_session": True}
        process = subprocess.Popen(command, env=environment, **options)
    try:
        until(running)
    finally:
        # The program may have started child processes.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(is_so: Any) -> None:
    deadline = time.monotonic() + PROCESS_TIMEOUT_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise Failure("the condition never became true")
        time.sleep(POLL_SECONDS)


@test("the Inspector shakes hands")
def _(place: Place) -> None:
    greeting = inspect(place, "--method", "initialize")
    expect(greeting["serverInfo"]["name"], "rkat-mcp", "serverInfo.name")
    expect("tools" in greeting["capabilities"], True, "capabilities has `tools`")


@test("the session tools are listed and their schemas are portable")
def _(place: Place) -> None:
    expect_tools(inspect(place, "--method", "tools/list", "--strict")["tools"])


@test("the session tools are listed where the Inspector probes for the newest protocol")
def _(place: Place) -> None:
    expect_tools(inspect(place, "--method", "tools/list", "--strict", "--protocol-era", "auto")["tools"])


@test("a run answers")
def _(place: Place) -> None:
    expect_hello(payload(call(place, "meerkat_run", prompt="say hello"), "run"))


@test("a callback tool runs in the client and the run continues in the next process")
def _(place: Place) -> None:
    run = call(place, "meerkat_run", prompt=CALL_READ_FILE, tools=[READ_FILE])
    session_id, tool_use_id = expect_pending(payload(run, "run"))
    resumed = call(place, "meerkat_resume", **answer_call(session_id, tool_use_id))
    expect(expect_answer(payload(resumed, "resume"), "got it", "resume"), session_id, "resume: session_id")


@test("a session continues in the next process")
def _(place: Place) -> None:
    run = payload(call(place, "meerkat_run", prompt="say one"), "run")
    session_id = expect_answer(run, "one", "run")
    resumed = call(place, "meerkat_resume", session_id=session_id, prompt="say two")
    expect(expect_answer(payload(resumed, "resume"), "two", "resume"), session_id, "resume: session_id")
    history = payload(call(place, "meerkat_history", session_id=session_id), "history")
    expect_talk(history, [("user", "say one"), ("assistant", "one"), ("user", "say two"), ("assistant", "two")])


@test("an unknown session is rejected with its code")
def _(place: Place) -> None:
    result = call(place, "meerkat_read", session_id=UNKNOWN_SESSION, exit_code=TOOL_ERROR)
    refusal(result, "SESSION_NOT_FOUND", "read")


@test("over HTTP the session tools are listed and a run answers, in both eras")
def _(place: Place) -> None:
    with place.http() as served:
        for era in ERAS:
            listed = inspect(place, "--method", "tools/list", "--strict", "--protocol-era", era, served=served)
            expect_tools(listed["tools"])
            arguments = ["--method", "tools/call", "--tool-name", "meerkat_run", "--protocol-era", era]
            run = inspect(place, *arguments, "--tool-args-json", json.dumps({"prompt": "say hello"}), served=served)
            expect_hello(payload(run, "run"))


for era in ERAS:

    @test(f"over HTTP a callback tool runs and the session outlives the server ({era})")
    def _(place: Place, era: str = era) -> None:
        with place.http() as served:
            run = call_at(place, served, era, "meerkat_run", prompt=CALL_READ_FILE, tools=[READ_FILE])
            session_id, tool_use_id = expect_pending(run)
        with place.http() as served:
            resumed = call_at(place, served, era, "meerkat_resume", **answer_call(session_id, tool_use_id))
            expect(expect_answer(resumed, "got it", "resume"), session_id, "resume: session_id")

    @test(f"over HTTP the events of a session are followed and replayed ({era})")
    def _(place: Place, era: str = era) -> None:
        with place.http() as served:

            def read(stream_id: str) -> list[dict[str, Any]]:
                found = call_at(place, served, era, "meerkat_event_stream_read", stream_id=stream_id, limit=100)
                return field(found, "events", "read")

            session_id = expect_answer(call_at(place, served, era, "meerkat_run", prompt="say one"), "one", "run")
            live = call_at(place, served, era, "meerkat_event_stream_open", session_id=session_id)
            call_at(place, served, era, "meerkat_resume", session_id=session_id, prompt="say two")
            seen = read(live["stream_id"])
            kinds = [event["payload"]["type"] for event in seen]
            expect((kinds[0], kinds[-1]), ("run_started", "run_completed"), "first and last event")
            arguments = {"session_id": session_id, "after": seen[0]["seq"]}
            again = call_at(place, served, era, "meerkat_event_stream_open", **arguments)
            expect(read(again["stream_id"]), seen[1:], "events replayed after the first one")

    @test(f"over HTTP a run outlives the Inspector until it is interrupted, and its session can be resumed ({era})")
    def _(place: Place, era: str = era) -> None:
        # In the legacy era, a disconnected client cancels nothing; in the modern one, the Inspector asks for a task.
        with place.http() as served:

            def active() -> list[str]:
                sessions = call_at(place, served, era, "meerkat_sessions")["sessions"]
                return [entry["session_id"] for entry in sessions if entry["is_active"]]

            ended_while_it_waits(place, "--protocol-era", era, served=served, running=active)
            [session_id] = active()
            interrupted = call_at(place, served, era, "meerkat_interrupt", session_id=session_id)
            expect(interrupted, {"session_id": session_id, "interrupted": True}, "interrupt")
            until(lambda: not active())
            resumed = call_at(place, served, era, "meerkat_resume", session_id=session_id, prompt="say back")
            expect(expect_answer(resumed, "back", "resume"), session_id, "resume: session_id")


@test("over stdio a run ends with the Inspector, and its session can be resumed")
def _(place: Place) -> None:
    def stored() -> list[dict[str, Any]]:
        if not (place.state / "test").exists():
            return []
        return payload(call(place, "meerkat_sessions"), "sessions")["sessions"]

    ended_while_it_waits(place, running=lambda: any(entry["is_active"] for entry in stored()))
    until(lambda: not any(entry["is_active"] for entry in stored()))
    session_id = stored()[0]["session_id"]
    resumed = payload(call(place, "meerkat_resume", session_id=session_id, prompt="say back"), "resume")
    expect(expect_answer(resumed, "back", "resume"), session_id, "resume: session_id")


@test("a session is listed and read as a resource")
def _(place: Place) -> None:
    session_id = expect_answer(payload(call(place, "meerkat_run", prompt="say hello"), "run"), "hello", "run")
    uri = f"meerkat://session/{session_id}"
    listed = inspect(place, "--method", "resources/list")
    sessions = [resource["uri"] for resource in listed["resources"] if not resource["uri"].startswith("skill:")]
    expect(sessions, [uri], "resources")
    read = inspect(place, "--method", "resources/read", "--uri", uri)
    document = json.loads(read["contents"][0]["text"])
    expect(document["session"]["session_id"], session_id, "session of the resource")


if __name__ == "__main__":
    main()
