"""The Python MCP SDK as a client of the server, over standard input and output and over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client

from support import Place

REQUEST_TIMEOUT_SECONDS = 30


@asynccontextmanager
async def connect(
    place: Place, mode: str = "legacy", environment: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Client]:
    """A client on a server process of its own, which ends with the block."""
    command, *arguments = place.server()
    # The client library hands on only HOME, PATH and the like: no key of whoever runs this reaches the server.
    environment = {"HOME": str(place.home), **(environment or {})}
    parameters = StdioServerParameters(command=command, args=arguments, env=environment, cwd=place.work)
    with place.log.open("a") as log:
        transport = stdio_client(parameters, errlog=log)
        async with Client(transport, mode=mode, read_timeout_seconds=REQUEST_TIMEOUT_SECONDS, **options) as client:
            yield client


@asynccontextmanager
async def connect_http(place: Place, mode: str = "legacy", **options: Any) -> AsyncIterator[Client]:
    """A client on a server over HTTP, both of which end with the block."""
    with place.http() as url:
        async with Client(url, mode=mode, read_timeout_seconds=REQUEST_TIMEOUT_SECONDS, **options) as client:
            yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Calls a tool; gives back the result as it was on the wire."""
    result = await client.call_tool(tool, arguments)
    return result.model_dump(mode="json", by_alias=True)
