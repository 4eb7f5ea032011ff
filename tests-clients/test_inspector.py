"""The server as the command line of the MCP Inspector sees it: one server process per request.

Run by `cargo xtask test`, or by hand with RKAT and RKAT_MCP set to the programs:
`RKAT=… RKAT_MCP=… python3 tests-clients/test_inspector.py [PART OF A NAME]`
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from children import MODULES, NODE
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

INSPECTOR = MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"

PROCESS_TIMEOUT_SECONDS = 90

# Exit codes of the Inspector.
OK = 0
TOOL_ERROR = 5


def inspect(place: Place, *arguments: str, exit_code: int = OK, url: str | None = None) -> dict[str, Any]:
    """Makes one request through the Inspector, to a new server or to the one at `url`; gives back the JSON it prints."""
    command = [str(NODE), str(INSPECTOR), "--cli", "--cwd", str(place.work), *arguments]
    command += ["--format", "json", "--connect-timeout", "30000"]
    if url:
        command += [url, "--transport", "http"]
    else:
        server, *server_arguments = place.server()
        command += [server, "--", *server_arguments]
    environment = {"HOME": str(place.home), "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
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


def call(place: Place, tool: str, exit_code: int = OK, **arguments: Any) -> dict[str, Any]:
    """Calls a tool; gives back the result as it was on the wire."""
    request = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments)]
    return inspect(place, *request, exit_code=exit_code)


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


@test("a callback tool is carried out by the client and the run goes on in the next process")
def _(place: Place) -> None:
    run = call(place, "meerkat_run", prompt=CALL_READ_FILE, tools=[READ_FILE])
    session_id, tool_use_id = expect_pending(payload(run, "run"))
    resumed = call(place, "meerkat_resume", **answer_call(session_id, tool_use_id))
    expect(expect_answer(payload(resumed, "resume"), "got it", "resume"), session_id, "resume: session_id")


@test("a session goes on in the next process")
def _(place: Place) -> None:
    run = payload(call(place, "meerkat_run", prompt="say one"), "run")
    session_id = expect_answer(run, "one", "run")
    resumed = call(place, "meerkat_resume", session_id=session_id, prompt="say two")
    expect(expect_answer(payload(resumed, "resume"), "two", "resume"), session_id, "resume: session_id")
    history = payload(call(place, "meerkat_history", session_id=session_id), "history")
    expect_talk(history, [("user", "say one"), ("assistant", "one"), ("user", "say two"), ("assistant", "two")])


@test("an unknown session is refused with its code")
def _(place: Place) -> None:
    result = call(place, "meerkat_read", session_id=UNKNOWN_SESSION, exit_code=TOOL_ERROR)
    refusal(result, "SESSION_NOT_FOUND", "read")


@test("over HTTP the session tools are listed and a run answers, in both eras")
def _(place: Place) -> None:
    with place.http() as url:
        for era in ["legacy", "modern"]:
            listed = inspect(place, "--method", "tools/list", "--strict", "--protocol-era", era, url=url)
            expect_tools(listed["tools"])
            arguments = ["--method", "tools/call", "--tool-name", "meerkat_run", "--protocol-era", era]
            run = inspect(place, *arguments, "--tool-args-json", json.dumps({"prompt": "say hello"}), url=url)
            expect_hello(payload(run, "run"))


@test("a session is listed and read as a resource")
def _(place: Place) -> None:
    session_id = expect_answer(payload(call(place, "meerkat_run", prompt="say hello"), "run"), "hello", "run")
    uri = f"meerkat://session/{session_id}"
    listed = inspect(place, "--method", "resources/list")
    expect([resource["uri"] for resource in listed["resources"]], [uri], "resources")
    read = inspect(place, "--method", "resources/read", "--uri", uri)
    document = json.loads(read["contents"][0]["text"])
    expect(document["session"]["session_id"], session_id, "session of the resource")


if __name__ == "__main__":
    main()
