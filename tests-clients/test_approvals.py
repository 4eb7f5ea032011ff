"""Calls that need an approval: the Python MCP SDK asks its user, and `rkat` asks at a real terminal.

Run by `cargo xtask test`, or by hand like the other scripts:
`RKAT=… RKAT_MCP=… .clients/venv/bin/python tests-clients/test_approvals.py [PART OF A NAME]`
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
from typing import Any

from mcp.types import ElicitRequestParams, ElicitResult

from mcp_client import call, connect, connect_http
from support import Failure, Place, expect, field, main, payload, test

# The offline model makes one call and then reports its result.
WISHED = {"prompt": "call datetime {}", "enable_builtins": True, "approval_policy": "always"}

PATIENCE_SECONDS = 20


def user(answer: ElicitResult, asked: list[str]) -> Any:
    """A user who always answers the same; the questions are recorded."""

    async def answered(_context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return answer

    return answered


async def asks_its_user(place: Place, connecting: Any, mode: str) -> None:
    cases = [
        (ElicitResult(action="accept", content={"approve": True}), 1),
        (ElicitResult(action="accept", content={"approve": False, "reason": "not now"}), 0),
        (ElicitResult(action="decline"), 0),
    ]
    for answer, ran in cases:
        asked: list[str] = []
        async with connecting(place, mode, elicitation_callback=user(answer, asked)) as client:
            done = payload(await call(client, "meerkat_run", **WISHED), "run")
            expect(len(asked), 1, "questions")
            if "`datetime`" not in asked[0]:
                raise Failure(f"the question does not name the tool: {asked[0]}")
            expect(field(done, "tool_calls", "run"), ran, f"calls after {answer.action}")
            expect(field(done, "turns", "run"), 2, "steps of the full run")


@test("a client after a handshake asks its user, over standard input and output")
async def _(place: Place) -> None:
    await asks_its_user(place, connect, "legacy")


@test("a client on the newest protocol asks its user in rounds, over standard input and output")
async def _(place: Place) -> None:
    await asks_its_user(place, connect, "auto")


@test("a client after a handshake asks its user, over HTTP")
async def _(place: Place) -> None:
    await asks_its_user(place, connect_http, "legacy")


@test("a client on the newest protocol asks its user in rounds, over HTTP")
async def _(place: Place) -> None:
    await asks_its_user(place, connect_http, "auto")


@test("a client that cannot ask gets the question, and answers it with meerkat_resume")
async def _(place: Place) -> None:
    async with connect(place) as client:
        waiting = payload(await call(client, "meerkat_run", **WISHED), "run")
        expect(field(waiting, "status", "run"), "pending_approval", "status")
        asked = field(waiting, "pending_approvals", "run")[0]
        approvals = [{"tool_use_id": asked["tool_use_id"], "approve": True}]
        session = field(waiting, "session_id", "run")
        done = payload(await call(client, "meerkat_resume", session_id=session, approvals=approvals), "resume")
        expect(field(done, "tool_calls", "resume"), 1, "calls")


class Terminal:
    """`rkat` with a terminal as its standard input and error; what it prints on standard output is a pipe."""

    def __init__(self, place: Place, arguments: list[str]) -> None:
        self.ours, theirs = pty.openpty()
        environment = {"HOME": str(place.home), "PATH": os.environ["PATH"], "NO_COLOR": "1"}
        command = [os.environ["RKAT"], "--state-root", str(place.state), *arguments]
        self.process = subprocess.Popen(
            command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, cwd=place.work, env=environment
        )
        os.close(theirs)
        self.seen = ""

    def until(self, words: str) -> None:
        """Waits until these words appear on the terminal."""
        while words not in self.seen:
            ready, _, _ = select.select([self.ours], [], [], PATIENCE_SECONDS)
            if not ready:
                raise Failure(f"`{words}` never appeared; output: {self.seen}")
            try:
                self.seen += os.read(self.ours, 65536).decode(errors="replace")
            except OSError:
                raise Failure(f"`{words}` did not appear before the end; output: {self.seen}") from None
        self.seen = self.seen.split(words, 1)[1]

    def type(self, line: str) -> None:
        os.write(self.ours, f"{line}\n".encode())

    def end(self) -> tuple[int, str]:
        """Waits for the exit; returns the exit code and the standard output."""
        output, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        os.close(self.ours)
        return self.process.returncode, output.decode()


TWO_CALLS = "call datetime {}\nthen\ncall datetime {}\nthen\nsay all done"
RUN = ["run", "--tools", "safe", "--approvals", "always", TWO_CALLS]


@test("rkat asks at the terminal before each call, and the answer is on stdout alone")
def _(place: Place) -> None:
    terminal = Terminal(place, RUN)
    terminal.until("wants to call datetime {}")
    terminal.until("Run it?")
    terminal.type("y")
    terminal.until("Run it?")
    terminal.type("use the calendar instead")
    terminal.until("3 steps · 1 tool call")
    expect(terminal.end(), (0, "all done\n"), "exit code and output")


@test("a person may approve all further calls that the question names")
def _(place: Place) -> None:
    terminal = Terminal(place, RUN)
    terminal.until("[a]lways for `datetime` with exactly these arguments")
    terminal.type("a")
    terminal.until("3 steps · 2 tool calls")
    expect(terminal.end(), (0, "all done\n"), "exit code and output")


@test("a person who ends the input leaves the calls waiting, and decides later")
def _(place: Place) -> None:
    terminal = Terminal(place, RUN)
    terminal.until("Run it?")
    os.write(terminal.ours, b"\x04")
    terminal.until("calls awaiting approval")
    code, output = terminal.end()
    expect((code, '"tool_name":"datetime"' in output), (1, True), "exit code, and whether the call is shown")


if __name__ == "__main__":
    main()
