"""The Python MCP SDK as a client of the server, over standard input and output and over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from support import Place, Served

REQUEST_TIMEOUT_SECONDS = 30


@asynccontextmanager
async def connect(
    place: Place, mode: str = "legacy", environment: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Client]:
    """Connects a client to a separate server process, which ends with the block."""
    command, *arguments = place.server()
    # The client library passes on only HOME, PATH, and similar variables: no key of the user reaches the server.
    environment = {"HOME": str(place.home), **(environment or {})}
    parameters = StdioServerParameters(command=command, args=arguments, env=environment, cwd=place.work)
    with place.log.open("a") as log:
        transport = stdio_client(parameters, errlog=log)
        async with Client(transport, mode=mode, read_timeout_seconds=REQUEST_TIMEOUT_SECONDS, **options) as client:
            yield client


@asynccontextmanager
async def connect_http(place: Place, mode: str = "legacy", **options: Any) -> AsyncIterator[Client]:
    """Connects a client to a server over HTTP; both end with the block."""
    with place.http() as served:
        limits = {"mode": mode, "read_timeout_seconds": REQUEST_TIMEOUT_SECONDS}
        async with over_http(served, **limits, **options) as client:
            yield client


@asynccontextmanager
async def over_http(served: Served, **options: Any) -> AsyncIterator[Client]:
    """Connects a client to a running server, and sends its token."""
    async with create_mcp_http_client(headers=served.headers) as http:
        async with Client(streamable_http_client(served.url, http_client=http), **options) as client:
            yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Calls a tool; returns the result in its wire format."""
    result = await client.call_tool(tool, arguments)
    return result.model_dump(mode="json", by_alias=True)
