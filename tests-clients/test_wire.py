"""Validates our requests to providers: the full matrix of `wire_matrix`, and the programs in typical use.

Run by `cargo xtask test`, or by hand with RKAT, RKAT_MCP and WIRE_MATRIX set to the built programs:
`… .clients/venv/bin/python tests-clients/test_wire.py [PART OF A NAME]`
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache, partial
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client

from support import READ_FILE, Failure, Place, expect, field, main, payload, test
from wire_server import Judge, judging

DRIVER_TIMEOUT_SECONDS = 300
PROGRAM_TIMEOUT_SECONDS = 30

KEYS = {name: "key-of-nobody" for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")}
CLAUDE, GPT, GEMINI, LOCAL = "claude-opus-4-6", "gpt-5.5", "gemini-3-flash-preview", "local"
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string", "minLength": 1}}, "required": ["answer"]}

# Destination of the requests of each model, whatever the version of the API.
PATHS = {
    CLAUDE: "/v1/messages",
    GPT: "/v1/responses",
    GEMINI: f"/v1beta/models/{GEMINI}:streamGenerateContent?alt=sse",
    LOCAL: "/v1/chat/completions",
}
THINKING = {
    CLAUDE: {"thinking_budget": 2048},
    GPT: {"reasoning_effort": "low"},
    GEMINI: {"thinking_level": "low"},
    LOCAL: {"reasoning_effort": "low"},
}


def environment(place: Place) -> dict[str, str]:
    return {"HOME": str(place.home), "PATH": os.environ.get("PATH", ""), **KEYS}


def rkat(place: Place, *arguments: str) -> str:
    """Runs the program; returns its output."""
    realm = ["--state-root", str(place.state), "--realm", "test"]
    done = subprocess.run(
        [os.environ["RKAT"], *arguments, *realm],
        env=environment(place), cwd=place.work, text=True, capture_output=True, timeout=PROGRAM_TIMEOUT_SECONDS,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode != 0:
        raise Failure(f"rkat {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def direct(place: Place, server: Judge, case: str, version: str) -> None:
    """Routes the requests of all providers to the judge, under the name of a case."""
    here = {"base_url": f"{server.base_url}/{case}"}
    own = {
        "servers": {"desk": {**here, "bearer_token": "token-of-nobody"}},
        "models": {LOCAL: {"server": "desk", "remote_model": LOCAL}},
    }
    providers = {"anthropic": {**here, "api_version": version}, "openai": here, "gemini": here}
    rkat(place, "config", "patch", "--json", json.dumps({"providers": providers, "self_hosted": own}))


def expect_good(server: Judge, case: str, models: list[str]) -> None:
    """Checks that the case has called these models, in this order, and that all requests are valid."""
    seen = server.of(case)
    expect([one.request.path for one in seen], [PATHS[model] for model in models], "requests")
    expect([one.findings for one in seen], [[] for _ in models], "findings")


def declare_matrix(server: Judge) -> None:
    """Defines one test for each case that the driver names."""

    @cache
    def failures() -> dict[str, str]:
        done = driver("run", server.base_url)
        if done.returncode not in (0, 1):
            raise Failure(f"the driver ended with {done.returncode}: {done.stderr.strip()}")
        return dict(line.split(": ", 1) for line in done.stdout.splitlines())

    cases = driver("list").stdout.split()

    def check(case: str) -> None:
        if case in failures():
            raise Failure(failures()[case])
        seen = server.of(case)
        if not seen:
            raise Failure("no request came")
        expect([finding for one in seen for finding in one.findings], [], "findings")

    for case in cases:
        test(case)(lambda _place, case=case: check(case))

    @test("every request of the matrix belongs to a case, and there are as many as a matrix needs")
    def _(_place: Place) -> None:
        failures()
        expect(sorted({one.case for one in server.seen if "." in one.case} - set(cases)), [], "unknown cases")
        expect(len(set(cases)), len(cases), "different names")
        formats = {case.split(".")[0] for case in cases if not case.startswith(("turns.", "steps."))}
        expect(len(formats), 8, "formats, versions, and kinds of servers")


def driver(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = os.environ.get("WIRE_MATRIX", "")
    if not os.access(program, os.X_OK):
        sys.exit(f"error: WIRE_MATRIX is {program!r}, not an executable; build the example `wire_matrix`")
    return subprocess.run([program, *arguments], text=True, capture_output=True, timeout=DRIVER_TIMEOUT_SECONDS)


def declare_programs(server: Judge) -> None:
    """Defines sessions that move between providers, in both programs and both versions of Anthropic's API."""
    for version in ("2023-06-01", "2026-10-21"):
        test(f"rkat: a session moves through all providers, Anthropic's API of {version}")(
            partial(commands, server=server, version=version)
        )
        test(f"rkat-mcp: the model changes between calls and their results, Anthropic's API of {version}")(
            partial(callbacks, server=server, version=version)
        )

    @test("rkat: a structured result from every provider")
    def _(place: Place) -> None:
        direct(place, server, "rkat-schema", "2026-10-21")
        for model in PATHS:
            printed = rkat(place, "run", "--model", model, "--schema", json.dumps(SCHEMA), "answer")
            expect(json.loads(printed), {"answer": "done"}, f"{model}: the result")
        for one in server.of("rkat-schema"):
            expect(one.findings, [], one.request.path)
        expect({one.request.path for one in server.of("rkat-schema")}, set(PATHS.values()), "requests")

    @test("rkat: web search is offered by default where available, and can be disabled")
    def _(place: Place) -> None:
        direct(place, server, "rkat-search", "2023-06-01")
        for model in PATHS:
            rkat(place, "run", "--model", model, "look")
            rkat(place, "run", "--model", model, "--no-web-search", "look")
        expect_good(server, "rkat-search", [model for model in PATHS for _ in range(2)])
        offered = ["search" in json.dumps(one.request.body).lower() for one in server.of("rkat-search")]
        expect(offered, [True, False, True, False, True, False, False, False], "offered searches")


def commands(place: Place, server: Judge, version: str) -> None:
    case = f"rkat-{version}"
    direct(place, server, case, version)
    round_trip = [CLAUDE, GPT, GEMINI, LOCAL, CLAUDE]
    for at, model in enumerate(round_trip):
        arguments = ["run", "--model", model, "--params-json", json.dumps(THINKING[model])]
        rkat(place, *arguments, *(["--resume=last"] if at else []), f"question {at}")
    expect_good(server, case, round_trip)
    asked = [block["text"] for message in server.of(case)[-1].request.body["messages"] if message["role"] == "user"
             for block in message["content"]]  # fmt: skip
    expect(asked, [f"question {at}" for at in range(5)], "prompts sent to the last model")


async def callbacks(place: Place, server: Judge, version: str) -> None:
    case = f"rkat-mcp-{version}"
    direct(place, server, case, version)
    command, *arguments = place.server()
    parameters = StdioServerParameters(command=command, args=arguments, env=environment(place), cwd=place.work)
    with place.log.open("a") as log:
        async with Client(stdio_client(parameters, errlog=log), mode="legacy") as client:
            # Each model except the first receives the results of the previous model's calls, and then a new prompt.
            models = [CLAUDE, GPT, GEMINI, LOCAL, CLAUDE]
            document = await call(client, "meerkat_run", prompt="look", tools=[READ_FILE], model=models[0])
            for before, model in zip(models, models[1:], strict=False):
                session_id = field(document, "session_id", before)
                calls = field(document, "pending_tool_calls", before)
                expect(len(calls), 2, f"{before}: calls")
                given = [{"tool_use_id": one["tool_use_id"], "content": "hi", "is_error": False} for one in calls]
                resumed = {"session_id": session_id, "tools": [READ_FILE], "model": model}
                await call(client, "meerkat_resume", prompt="", tool_results=given, **resumed)
                document = await call(client, "meerkat_resume", prompt="more", **resumed)
    expect_good(server, case, [models[0], *(model for model in models[1:] for _ in range(2))])


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    if params := THINKING.get(arguments.get("model", "")):
        arguments["provider_params"] = params
    result = await client.call_tool(tool, arguments)
    return payload(result.model_dump(mode="json", by_alias=True), tool)


if __name__ == "__main__":
    with judging() as judge:
        declare_programs(judge)
        declare_matrix(judge)
        main()
