"""Scripted runs of several steps against aimock, through the MCP server with tools that the client runs.

`fixtures/aimock.json` defines the responses of the model. aimock continues only when the results of the previous step
are in the request, and records the requests in one form, whatever their format.

Run by `cargo xtask test`, or by hand with RKAT and RKAT_MCP set to the programs:
`RKAT=… RKAT_MCP=… .clients/venv/bin/python tests-clients/test_aimock.py [PART OF A NAME]`
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mcp import Client

from children import MODULES, NODE, Program, free_port, relay, request, servers
from mcp_client import call, connect
from providers import ANTHROPIC, FORMATS, GEMINI, KEYS, OPENAI, SELF_HOSTED, Bases, Format, configure, run
from support import Failure, Place, expect, expect_answer, field, main, payload, show, test, transcript

AIMOCK = MODULES / "@copilotkit" / "aimock" / "dist" / "cli.js"
FIXTURES = Path(__file__).with_name("fixtures") / "aimock.json"
START_SECONDS = 60


def tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": sorted(properties)}
    return {"name": name, "description": f"Does {name}.", "input_schema": schema, "handler": "callback"}


TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
TOOLS = [
    tool("weigh", boat=TEXT),
    tool("find_port", near=TEXT),
    tool("tide", port=TEXT, day={"type": "object", "properties": {"month": NUMBER, "day": NUMBER}}),
    tool("book"),
]


def carry_out(name: str, args: dict[str, Any]) -> str:
    """Returns the results of the client's tools; the fixtures wait for these words."""
    if name == "weigh":
        return f"{args['boat']} weighs {'three' if args['boat'] == 'Anna' else 'five'} tons"
    return {"find_port": "it is the port of Moss", "tide": "high water at six", "book": "berth 7 is yours"}[name]


@dataclass(frozen=True)
class Told:
    """A finished run: the calls of each step, and the last reply."""

    steps: list[list[tuple[str, dict[str, Any]]]]
    reply: dict[str, Any]


class Mock:
    """One aimock server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.address = f"http://127.0.0.1:{port}"

    def program(self) -> Program:
        command = [str(NODE), str(AIMOCK), "--port", str(self.port), "--fixtures", str(FIXTURES)]
        # Small chunks, so that words and arguments arrive in pieces; a request without a fixture is an error.
        command += ["--chunk-size", "7", "--strict", "--validate-on-load"]
        return Program(command, f"{self.address}/ready")

    def bases(self) -> Bases:
        return Bases(self.address, f"{self.address}/v1", self.address, f"{self.address}/v1")

    def forget(self) -> None:
        request("POST", f"{self.address}/__aimock/reset/journal")

    def journal(self) -> list[dict[str, Any]]:
        return request("GET", f"{self.address}/__aimock/journal")


MOCKS: dict[str, Mock] = {}


def case(name: str, *forms: Format) -> Callable[[Callable[[Place, Format, Mock], Any]], None]:
    """Marks a test that runs with these formats, or with all, each with a separate aimock."""

    def mark(function: Callable[[Place, Format, Mock], Any]) -> None:
        for form in forms or FORMATS:
            test(f"{form.provider}: {name}", form.provider)(partial(on_mock, function, form))

    return mark


def on_mock(function: Callable[[Place, Format, Mock], Any], form: Format, place: Place) -> Any:
    mock = MOCKS[form.provider]
    mock.forget()
    configure(place, mock.bases(), retry={"initial_delay": "100ms"})
    return function(place, form, mock)


async def tell(client: Client, form: Format, prompt: str, session_id: str = "") -> Told:
    """Runs until the end, and performs the requested tool calls."""
    arguments = {"prompt": prompt, "model": form.model, "tools": TOOLS}
    if session_id:
        reply = payload(await call(client, "meerkat_resume", session_id=session_id, **arguments), "resume")
    else:
        reply = payload(await call(client, "meerkat_run", **arguments), "run")
    steps = []
    while "pending_tool_calls" in reply:
        pending = reply["pending_tool_calls"]
        steps.append([(asked["tool_name"], asked["args"]) for asked in pending])
        results = [
            {"tool_use_id": asked["tool_use_id"], "content": carry_out(asked["tool_name"], asked["args"])}
            for asked in pending
        ]
        resume = {"session_id": reply["session_id"], "prompt": "", "tools": TOOLS, "tool_results": results}
        reply = payload(await call(client, "meerkat_resume", **resume), "resume")
    return Told(steps, reply)


async def history(client: Client, session_id: str) -> list[Any]:
    """Summarizes the session's history."""
    document = payload(await call(client, "meerkat_history", session_id=session_id), "history")
    # OpenAI sends reasoning back and forth in encrypted form, with or without a readable summary.
    silent = ("reasoning", "")
    return [line for line in transcript(field(document, "messages", "history")) if line != silent]


def expect_orphan_free(journal: list[dict[str, Any]], statuses: list[int]) -> None:
    """Checks the status of each request, and that calls and results match in each one."""
    expect([entry["response"]["status"] for entry in journal], statuses, "statuses of the requests")
    for entry in journal:
        messages = entry["body"]["messages"]
        if (problem := orphan(messages)) is not None:
            raise Failure(f"{problem}: {show(messages)}")


def orphan(messages: list[dict[str, Any]]) -> str | None:
    """Returns the problem with the calls and results of a request, if any."""
    waiting: list[str] = []
    before = ""
    for message in messages:
        role = message["role"]
        # aimock turns each OpenAI item into one message, so the calls of a step may be in several.
        if waiting and (role == "user" or (role == "assistant" and before == "tool")):
            return f"{waiting} should have been answered before a message of the {role}"
        if role == "assistant":
            waiting += [asked["id"] for asked in message.get("tool_calls") or []]
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                return f"{message['tool_call_id']} is a result without a call"
            waiting.remove(message["tool_call_id"])
        before = role
    return f"{waiting} are without results" if waiting else None


def sent_results(entry: dict[str, Any]) -> list[str]:
    """Returns the tool results in a request."""
    contents = [message["content"] for message in entry["body"]["messages"] if message["role"] == "tool"]
    # Gemini requires an object, so the text is inside one.
    return [json.loads(content)["result"] if content.startswith("{") else content for content in contents]


@case("two calls in one step both run before the next step")
async def _(place: Place, form: Format, mock: Mock) -> None:
    async with connect(place, environment=KEYS) as client:
        told = await tell(client, form, "Weigh both boats.")
        expect(told.steps, [[("weigh", {"boat": "Anna"}), ("weigh", {"boat": "Berta"})]], "steps")
        session_id = expect_answer(told.reply, "Together they weigh eight tons.", "answer")
        wanted = [
            ("user", "Weigh both boats."),
            ("text", "I weigh them."),
            ("call", ("weigh", {"boat": "Anna"})),
            ("call", ("weigh", {"boat": "Berta"})),
            ("result", "Anna weighs three tons"),
            ("result", "Berta weighs five tons"),
            ("text", "Together they weigh eight tons."),
        ]
        expect(await history(client, session_id), wanted, "history")
    journal = mock.journal()
    expect_orphan_free(journal, [200, 200])
    expect(sent_results(journal[1]), ["Anna weighs three tons", "Berta weighs five tons"], "results that were sent")


@case("a chain of three calls, each using the previous result, ends in an answer")
async def _(place: Place, form: Format, mock: Mock) -> None:
    async with connect(place, environment=KEYS) as client:
        told = await tell(client, form, "Plan the trip.")
        day = {"month": 5, "day": 17}
        steps = [("find_port", {"near": "Oslo"}), ("tide", {"port": "Moss", "day": day}), ("book", {})]
        expect(told.steps, [[step] for step in steps], "steps")
        session_id = expect_answer(told.reply, "You leave Moss at six from berth 7.", "answer")
        wanted = [
            ("user", "Plan the trip."),
            ("call", steps[0]),
            ("result", "it is the port of Moss"),
            ("text", "Moss it is."),
            ("call", steps[1]),
            ("result", "high water at six"),
            ("call", steps[2]),
            ("result", "berth 7 is yours"),
            ("text", "You leave Moss at six from berth 7."),
        ]
        expect(await history(client, session_id), wanted, "history")
    journal = mock.journal()
    expect_orphan_free(journal, [200] * 4)
    expect(
        sent_results(journal[3]),
        ["it is the port of Moss", "high water at six", "berth 7 is yours"],
        "results that were sent",
    )


@case("reasoning is stored, and does not prevent a tool call")
async def _(place: Place, form: Format, mock: Mock) -> None:
    async with connect(place, environment=KEYS) as client:
        told = await tell(client, form, "Think, then weigh.")
        session_id = expect_answer(told.reply, "Three tons.", "answer")
        wanted = [
            ("user", "Think, then weigh."),
            ("reasoning", "The boat must be weighed before I can say anything."),
            ("text", "First the scales."),
            ("call", ("weigh", {"boat": "Anna"})),
            ("result", "Anna weighs three tons"),
            ("reasoning", "The scales say three tons."),
            ("text", "Three tons."),
        ]
        expect(await history(client, session_id), wanted, "history")
    expect_orphan_free(mock.journal(), [200, 200])


@case("a provider-side search is stored as such", OPENAI)
async def _(place: Place, form: Format, mock: Mock) -> None:
    async with connect(place, environment=KEYS) as client:
        told = await tell(client, form, "Search the web.")
        session_id = expect_answer(told.reply, "High water is at six.", "answer")
        expect(told.steps, [], "steps")
        wanted = [("user", "Search the web."), ("server tool", "web_search"), ("text", "High water is at six.")]
        expect(await history(client, session_id), wanted, "history")
        # The next request repeats the search unchanged.
        await tell(client, form, "Weigh both boats.", session_id)
    expect_orphan_free(mock.journal(), [200] * 3)


@case("a rate limit mid-session is waited out")
def _(place: Place, form: Format, mock: Mock) -> None:
    done = run(place, form, "Is it crowded?")
    expect(done.answer("run"), "Not any more.", "answer")
    # Gemini's errors have a name, which is displayed too.
    name = "rate_limit_error: " if form == GEMINI else ""
    expect(done.retries(), [f"{form.provider}: HTTP 429: {name}too many boats"], "retries")
    expect_orphan_free(mock.journal(), [429, 200])


@test("a session that thinks and calls tools moves between providers and back", "switching")
async def _(place: Place) -> None:
    mock = MOCKS["switching"]
    route = [ANTHROPIC, OPENAI, GEMINI, SELF_HOSTED, ANTHROPIC]
    with relay(mock.address) as way:
        configure(place, Mock(way.port).bases())
        async with connect(place, environment=KEYS) as client:
            session_id = ""
            for form in route:
                told = await tell(client, form, "Think, then weigh.", session_id)
                session_id = expect_answer(told.reply, "Three tons.", form.provider)
            whole = await history(client, session_id)
    once = [
        ("user", "Think, then weigh."),
        ("reasoning", "The boat must be weighed before I can say anything."),
        ("text", "First the scales."),
        ("call", ("weigh", {"boat": "Anna"})),
        ("result", "Anna weighs three tons"),
        ("reasoning", "The scales say three tons."),
        ("text", "Three tons."),
    ]
    expect(whole, once * len(route), "history")
    journal = mock.journal()
    expect_orphan_free(journal, [200] * 2 * len(route))
    expect(sent_results(journal[-1]), ["Anna weighs three tons"] * len(route), "results that were sent")
    expect([proofs(body) for _, body in way.sent], PROOFS, "signatures that were sent")


# A provider wants its own signatures of the model's thinking back, and accepts no others.
SIGNED_BY_ANTHROPIC = "c2lnbmVkIGJ5IHRoZSBzZWE="
SIGNED_BY_OPENAI = base64.b64encode(b"aimock-encrypted-reasoning").decode()[:30]

# Signed by Anthropic and by OpenAI, in each of the two requests to each provider on the route.
PROOFS = [(0, 0), (1, 0), (0, 0), (0, 1), (0, 0), (0, 0), (0, 0), (0, 0), (1, 0), (2, 0)]


def proofs(body: dict[str, Any]) -> tuple[int, int]:
    """Counts the signatures of Anthropic and OpenAI in a request."""
    text = json.dumps(body)
    return text.count(SIGNED_BY_ANTHROPIC), text.count(SIGNED_BY_OPENAI)


if __name__ == "__main__":
    lanes = [*(form.provider for form in FORMATS), "switching"]
    MOCKS.update((lane, Mock(free_port())) for lane in lanes)
    with servers(*(mock.program() for mock in MOCKS.values()), seconds=START_SECONDS):
        main()
