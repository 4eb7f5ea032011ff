"""A server that validates every request to a provider and answers it as the provider would.

It serves all formats on one port. The first segment of a path is the name of the case, the rest is the provider's
own path. A model with tools calls two of them at once and, after reading the results, answers in text; with thinking
enabled it thinks and signs, and with the provider's web search it searches.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import judge
import wire_answers


@dataclass(frozen=True)
class Seen:
    """A request of a case, and the judge's findings."""

    case: str
    request: judge.Request
    findings: list[str]


class Judge(ThreadingHTTPServer):
    """The server, with all recorded requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[Seen] = []
        self.lock = threading.Lock()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def of(self, case: str) -> list[Seen]:
        """Returns the requests of a case, in order."""
        with self.lock:
            return [one for one in self.seen if one.case == case]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Judge

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        text = self.rfile.read(length)
        case, _, path = self.path.lstrip("/").partition("/")
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        request = judge.Request(self.command, f"/{path}", dict(self.headers.items()), body)
        seen = Seen(case, request, judge.judge(request))
        with self.server.lock:
            self.server.seen.append(seen)
        known = judge.format_of(request.path)
        if known is None or not isinstance(body, dict):
            self.send_error(404)
            return
        self.answer(wire_answers.ANSWERS[known.name](body).encode())

    def answer(self, stream: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(stream)))
        self.end_headers()
        self.wfile.write(stream)

    def log_message(self, *_: Any) -> None:
        """Logs nothing; the requests are in `seen`."""


@contextmanager
def judging() -> Iterator[Judge]:
    """Runs a server for the duration of the block."""
    server = Judge()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
