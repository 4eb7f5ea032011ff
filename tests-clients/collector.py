"""A stand-in for an OpenTelemetry collector: receives traces over HTTP and decodes them with OpenTelemetry's types."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from support import Failure


@dataclass
class Span:
    """A span as plain values."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    state: str
    failed: bool
    attributes: dict[str, Any]


@dataclass
class Collector:
    """The spans received so far."""

    url: str
    spans: list[Span] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    raw: bytes = b""

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.attributes.get("gen_ai.operation.name") == name]

    def only(self, name: str) -> Span:
        """Returns the only span of an operation; fails if there are none or several."""
        found = self.named(name)
        if len(found) != 1:
            raise Failure(f"expected one `{name}`, got {[span.name for span in self.spans]}")
        return found[0]

    def wait_for(self, name: str, seconds: float = 20) -> Span:
        """Waits for the first span of an operation."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := self.named(name):
                return found[0]
            time.sleep(0.05)
        raise Failure(f"no `{name}` arrived, only {[span.name for span in self.spans]}")

    def take(self, body: bytes) -> None:
        """Decodes a request; fails if it is invalid."""
        request = ExportTraceServiceRequest.FromString(body)
        if request.SerializeToString(deterministic=True) != ExportTraceServiceRequest.FromString(
            request.SerializeToString()
        ).SerializeToString(deterministic=True):
            raise Failure("the request does not survive a round trip")
        self.raw += body
        for resource in request.resource_spans:
            self.resources.append({pair.key: plain(pair.value) for pair in resource.resource.attributes})
            for scope in resource.scope_spans:
                self.spans.extend(span(one) for one in scope.spans)


def span(message: SpanMessage) -> Span:
    if not 0 < message.start_time_unix_nano <= message.end_time_unix_nano:
        raise Failure(f"`{message.name}` ends before it starts")
    return Span(
        name=message.name,
        kind=SpanMessage.SpanKind.Name(message.kind).removeprefix("SPAN_KIND_").lower(),
        trace=message.trace_id.hex(),
        id=message.span_id.hex(),
        parent=message.parent_span_id.hex(),
        state=message.trace_state,
        failed=message.status.code == Status.STATUS_CODE_ERROR,
        attributes={pair.key: plain(pair.value) for pair in message.attributes},
    )


def plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None


@contextmanager
def collector(status: int = 200, delay: float = 0) -> Iterator[Collector]:
    """Runs a collector on a separate port, which responds with a status after a delay."""
    waiting = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # noqa: N802, the name is the library's.
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            waiting.wait(delay)
            seen.take(body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    seen = Collector(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield seen
    finally:
        waiting.set()
        server.shutdown()
        server.server_close()
