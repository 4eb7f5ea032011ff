"""llmock: a provider that misbehaves on demand and then checks how its client handled it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from children import Program, free_port, relay, request, servers
from providers import Bases
from support import expect

PROGRAM = Path(sys.executable).with_name("llmock")
START_SECONDS = 60

# Prompts that are longer by llmock's estimate are rejected, as a provider does.
CONTEXT_WINDOW = 3000

# A client that abandons a stream must have time to do so before the stream ends.
CHUNK_DELAY_MS = 30


class Mock:
    """One llmock server. `reset` clears its script and its recorded requests."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def bases(self) -> Bases:
        return Bases(
            anthropic=f"{self.address}/anthropic",
            openai=f"{self.address}/v1",
            gemini=f"{self.address}/gemini",
            self_hosted=f"{self.address}/v1",
        )

    def script(self, *behaviors: dict[str, Any]) -> None:
        """Resets the server and sets how it responds to the next requests."""
        self.reset()
        self.add(*behaviors)

    def reset(self) -> None:
        request("POST", f"{self.address}/_llmock/reset")

    def add(self, *behaviors: dict[str, Any]) -> None:
        request("POST", f"{self.address}/_llmock/scenario", {"behaviors": list(behaviors)})

    def requests(self) -> list[dict[str, Any]]:
        return request("GET", f"{self.address}/_llmock/requests")["requests"]

    def expect_clean(self, calls: int, attempts: int, faults: int) -> None:
        """Checks the verdict since `reset`: these numbers of calls, attempts, and faults, and no findings."""
        wanted = {"passed": True, "calls": calls, "attempts": attempts, "faults_injected": faults}
        wanted |= {"errors": 0, "warnings": 0, "findings": []}
        expect(request("GET", f"{self.address}/_llmock/verdict"), wanted, "verdict")

    def expect_report(self) -> None:
        """Checks llmock's own report, as its command prints it."""
        done = subprocess.run([PROGRAM, "report", "--strict", "--url", self.address], capture_output=True, text=True)
        expect((done.returncode, "PASS" in done.stdout), (0, True), f"llmock report: {done.stdout}{done.stderr}")


@contextmanager
def serve(count: int) -> Iterator[list[Mock]]:
    """Runs `count` servers for the duration of the block."""
    ports = [free_port() for _ in range(count)]
    options = ["--context-window", str(CONTEXT_WINDOW), "--stream-chunk-delay-ms", str(CHUNK_DELAY_MS)]
    programs = [
        Program([str(PROGRAM), "serve", "--port", str(port), *options], f"http://127.0.0.1:{port}/health")
        for port in ports
    ]
    with servers(*programs, seconds=START_SECONDS):
        yield [Mock(port) for port in ports]


@contextmanager
def without_retry_after(mock: Mock) -> Iterator[Mock]:
    """Runs a proxy that drops the retry delay from responses; llmock itself always sends one."""
    with relay(mock.address) as way:
        yield Mock(way.port)
