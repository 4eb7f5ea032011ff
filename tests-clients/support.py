"""Common parts of the client tests: a place for the programs, expectations, and a small test runner.

A test is a function, plain or async, marked with `@test("what it shows")`. It gets a fresh `Place` and fails by
raising. `main()` runs all tests of the script and ends with the line `N passed, M failed`. Tests of one lane run
sequentially, lanes run concurrently.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Shorter than the runs that only end when they are stopped, so that such a test cannot pass by waiting.
TEST_TIMEOUT_SECONDS = 45

# Time for a server to exit when it is asked to.
STOP_TIMEOUT_SECONDS = 5

# Maximum length of a printed log line.
LOG_LINE = 400

TOOLS = [
    "meerkat_run",
    "meerkat_resume",
    "meerkat_read",
    "meerkat_history",
    "meerkat_sessions",
    "meerkat_interrupt",
    "meerkat_archive",
]

# The built-in skills of the server, which are also resources and prompts.
COMPANIONS = [
    "hook-authoring",
    "mcp-server-setup",
    "meerkat-cli-reference",
    "meerkat-platform",
    "memory-retrieval",
    "session-management",
]

HINTS = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]

# A tool that the client itself runs, and a prompt that makes the offline model call it.
READ_FILE = {
    "name": "read_file",
    "description": "Reads a file of the client.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "handler": "callback",
}
CALL_READ_FILE = 'call read_file {"path":"/tmp/x"}\nthen\nsay got it'

# A well-formed id without a session.
UNKNOWN_SESSION = "01890000-0000-7000-8000-000000000000"


class Failure(Exception):
    """An unmet expectation; the message describes it."""


@dataclass(frozen=True)
class Served:
    """A server over HTTP: its URL, and the headers that its clients send."""

    url: str
    headers: dict[str, str]


class Place:
    """Directories of one test: the server's state, its home, and its working directory. Nothing else is shared."""

    def __init__(self, base: Path) -> None:
        self.log = base / "server.log"
        self.state, self.home, self.work = (base / name for name in ("state", "home", "work"))
        for directory in (self.state, self.home, self.work):
            directory.mkdir()

    def server(self) -> list[str]:
        """Returns the command line of a server in this place."""
        return [os.environ["RKAT_MCP"], "--state-root", str(self.state), "--realm", "test"]

    @contextmanager
    def http(self, *options: str) -> Iterator[Served]:
        """Runs a server in this place over HTTP, with these options; it must exit cleanly at the end of the block."""
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        command = [*self.server(), "--http", "127.0.0.1:0", *options]
        token = self.state / "test" / "token"
        with listening(command, self.log, cwd=self.work, env=environment) as url:
            headers = {"Authorization": f"Bearer {token.read_text().strip()}"} if token.exists() else {}
            yield Served(url, headers)


@contextmanager
def listening(command: list[str], log: Path, **options: Any) -> Iterator[str]:
    """Runs a program that prints its URL to stderr. It must exit with success when it is asked to."""
    with log.open("a") as errors:
        start = errors.tell()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors, **options)
    try:
        yield announced(process, log, start)
    finally:
        process.terminate()
        try:
            code = process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failure(f"{command[0]} did not end within {STOP_TIMEOUT_SECONDS} s") from None
    expect(code, 0, f"exit code of {command[0]}")


def announced(process: subprocess.Popen[bytes], log: Path, start: int) -> str:
    """Waits for the URL in the log, from `start` on."""
    while True:
        ended = process.poll() is not None
        found = re.findall(r"listening on (http://\S+)", log.read_bytes()[start:].decode(errors="replace"))
        if found:
            return found[0]
        if ended:
            raise Failure(f"the server ended with {process.returncode} before it listened")
        time.sleep(0.02)


def expect(actual: Any, wanted: Any, what: str) -> None:
    """Fails unless both values are equal."""
    if actual != wanted:
        raise Failure(f"{what}: expected {show(wanted)}, got {show(actual)}")


def field(value: Any, name: str, what: str) -> Any:
    """Returns the named member of an object; fails with a readable message if it is missing."""
    if not isinstance(value, dict) or name not in value:
        raise Failure(f"{what}: no `{name}` in {show(value)}")
    return value[name]


def show(value: Any) -> str:
    """Returns a value as short JSON."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 2000 else text[:2000] + " …"


def payload(result: dict[str, Any], what: str) -> dict[str, Any]:
    """Returns the JSON document of a successful tool result, which must be in the text and in the structured part."""
    if result.get("isError"):
        raise Failure(f"{what}: the tool failed: {show(result)}")
    document = text_document(result, what)
    expect(result.get("structuredContent"), document, f"{what}: structuredContent and the text")
    return document


def refusal(result: dict[str, Any], code: str, what: str) -> dict[str, Any]:
    """Returns the JSON document of a failed tool result, which must have this code and a message."""
    if not result.get("isError"):
        raise Failure(f"{what}: expected the error {code}, got the success {show(result)}")
    document = text_document(result, what)
    expect(field(document, "code", what), code, f"{what}: code")
    if not field(document, "message", what):
        raise Failure(f"{what}: the message is empty in {show(document)}")
    return document


def text_document(result: dict[str, Any], what: str) -> dict[str, Any]:
    blocks = field(result, "content", what)
    if len(blocks) != 1 or blocks[0].get("type") != "text":
        raise Failure(f"{what}: expected exactly one text block, got {show(blocks)}")
    try:
        return json.loads(blocks[0]["text"])
    except ValueError as problem:
        raise Failure(f"{what}: the text is not JSON ({problem}): {blocks[0]['text']!r}") from None


def expect_tools(tools: list[dict[str, Any]]) -> None:
    """Checks that the session tools exist, and that each has what a client needs."""
    by_name = {tool["name"]: tool for tool in tools}
    missing = [name for name in TOOLS if name not in by_name]
    if missing:
        raise Failure(f"tools/list: missing {missing}, found {sorted(by_name)}")
    for name in TOOLS:
        tool = by_name[name]
        if not tool.get("description"):
            raise Failure(f"{name}: no description")
        expect(tool.get("inputSchema", {}).get("type"), "object", f"{name}: inputSchema.type")
        annotations = tool.get("annotations") or {}
        unset = [hint for hint in HINTS if not isinstance(annotations.get(hint), bool)]
        expect(unset, [], f"{name}: annotations that are not set")


def expect_answer(document: dict[str, Any], text: str, what: str) -> str:
    """Checks for a finished run with this answer; returns the session id."""
    content = field(document, "content", what)
    expect(content[:1] and content[0].get("text"), text, f"{what}: content[0].text")
    return field(document, "session_id", what)


def expect_hello(document: dict[str, Any]) -> None:
    """Checks the full result of the prompt `say hello`."""
    session_id = expect_answer(document, "hello", "run")
    if not session_id:
        raise Failure("run: session_id is empty")
    for name, wanted in [("turns", 1), ("tool_calls", 0), ("structured_output", None), ("schema_warnings", None)]:
        expect(field(document, name, "run"), wanted, f"run: {name}")


def expect_pending(document: dict[str, Any]) -> tuple[str, str]:
    """Checks for a run that waits for `read_file`; returns the session id and the id of the call."""
    expect(field(document, "status", "run"), "pending_tool_call", "run: status")
    calls = field(document, "pending_tool_calls", "run")
    expect(len(calls), 1, "run: number of pending calls")
    expect(field(calls[0], "tool_name", "pending call"), "read_file", "pending call: tool_name")
    expect(field(calls[0], "args", "pending call"), {"path": "/tmp/x"}, "pending call: args")
    return field(document, "session_id", "run"), field(calls[0], "tool_use_id", "pending call")


def expect_talk(history: dict[str, Any], wanted: list[tuple[str, str]]) -> None:
    """Checks that the history is complete and that its user and assistant texts are these, in order."""
    messages = field(history, "messages", "history")
    expect(field(history, "message_count", "history"), len(messages), "history: message_count")
    expect(field(history, "has_more", "history"), False, "history: has_more")
    talk = []
    for message in messages:
        if message["role"] == "user":
            talk.append(("user", message["content"]))
        elif message["role"] == "block_assistant":
            texts = [block["data"]["text"] for block in message["blocks"] if block["block_type"] == "text"]
            talk.append(("assistant", "".join(texts)))
    expect(talk, wanted, "history: messages")


def transcript(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Summarizes messages: texts with their roles, reasoning, calls, and results."""
    return [line for message in messages for line in message_lines(message)]


def message_lines(message: dict[str, Any]) -> list[tuple[str, Any]]:
    if message["role"] == "user":
        return [("user", message["content"])]
    if message["role"] == "tool_results":
        kinds = {False: "result", True: "error"}
        return [(kinds[result["is_error"]], result["content"]) for result in message["results"]]
    if message["role"] == "block_assistant":
        return [block_line(block["block_type"], block["data"]) for block in message["blocks"]]
    return [(message["role"], message)]


def block_line(kind: str, data: dict[str, Any]) -> tuple[str, Any]:
    if kind == "tool_use":
        return ("call", (data["name"], data["args"]))
    if kind == "server_tool_content":
        return ("server tool", data["name"])
    return (kind, data["text"])


def answer_call(session_id: str, tool_use_id: str) -> dict[str, Any]:
    """Returns arguments of `meerkat_resume` that deliver the result of the pending call."""
    results = [{"tool_use_id": tool_use_id, "content": "the file says hi", "is_error": False}]
    return {"session_id": session_id, "prompt": "", "tools": [READ_FILE], "tool_results": results}


_tests: list[tuple[str, str, Callable[[Place], Any]]] = []

# Lanes finish tests at the same time; keep the output of each one together.
_printing = threading.Lock()


def test(name: str, lane: str = "") -> Callable[[Callable[[Place], Any]], Callable[[Place], Any]]:
    """Marks a function as a test."""

    def mark(function: Callable[[Place], Any]) -> Callable[[Place], Any]:
        _tests.append((lane, name, function))
        return function

    return mark


def main() -> None:
    """Runs every marked test, or those whose name contains the first argument, and exits."""
    for variable in ("RKAT", "RKAT_MCP"):
        program = os.environ.get(variable, "")
        if not os.access(program, os.X_OK):
            sys.exit(f"error: {variable} is {program!r}, not an executable; set it to the path of the built one")
    lanes: dict[str, list[tuple[str, Callable[[Place], Any]]]] = {}
    for lane, name, function in _tests:
        if len(sys.argv) < 2 or sys.argv[1] in name:
            lanes.setdefault(lane, []).append((name, function))
    with ThreadPoolExecutor(max_workers=max(len(lanes), 1)) as threads:
        results = [passed for lane in threads.map(run_lane, lanes.values()) for passed in lane]
    failed = results.count(False)
    print(f"{len(results) - failed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)


def run_lane(tests: list[tuple[str, Callable[[Place], Any]]]) -> list[bool]:
    return [run_one(name, function) for name, function in tests]


def run_one(name: str, function: Callable[[Place], Any]) -> bool:
    base = Path(tempfile.mkdtemp(prefix="meerkat-client-test-"))
    place = Place(base)
    start = time.monotonic()
    try:
        if inspect.isawaitable(outcome := function(place)):
            asyncio.run(within_time(outcome))
    except Exception as problem:  # Any exception in a test is its result.
        said = [f"FAIL {name}", indent(explain(problem))]
        if place.log.exists() and (log := place.log.read_text(errors="replace").strip()):
            last = [line[:LOG_LINE] for line in log.splitlines()[-20:]]
            said.append(indent("\n".join(["server log, last lines:", *last])))
        say("\n".join(said))
        return False
    else:
        say(f"ok   {name} ({time.monotonic() - start:.1f} s)")
        return True
    finally:
        shutil.rmtree(base, ignore_errors=True)


async def within_time(test: Awaitable[Any]) -> None:
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS):
        await test


def say(text: str) -> None:
    with _printing:
        print(text, flush=True)


def explain(problem: BaseException) -> str:
    """Describes a known failure in one line, and any other with its full traceback."""
    while isinstance(problem, BaseExceptionGroup) and len(problem.exceptions) == 1:
        problem = problem.exceptions[0]
    if isinstance(problem, Failure):
        return str(problem)
    if isinstance(problem, TimeoutError) and not str(problem):
        return f"not finished after {TEST_TIMEOUT_SECONDS} s"
    return "".join(traceback.format_exception(problem)).strip()


def indent(text: str) -> str:
    return "\n".join("     " + line for line in text.splitlines())
