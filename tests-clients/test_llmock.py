"""Runs against llmock, which fails in every way that providers fail and checks how the client handled it.

Every test has a separate session, configures llmock to misbehave, makes its runs, and compares what the user sees;
then llmock's verdict must have no findings.

Run by `cargo xtask test`, or by hand with RKAT and RKAT_MCP set to the programs:
`RKAT=… RKAT_MCP=… .clients/venv/bin/python tests-clients/test_llmock.py [PART OF A NAME]`
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from mcp import Client

import faulty
from faulty import CONTEXT_WINDOW, Mock
from mcp_client import call, connect
from providers import ANTHROPIC, FORMATS, GEMINI, KEYS, OPENAI, SELF_HOSTED, Format, Run, configure, rkat, run
from support import (
    READ_FILE,
    Place,
    answer_call,
    expect,
    expect_answer,
    expect_pending,
    field,
    main,
    payload,
    refusal,
    test,
    transcript,
)

# Text of the model. Long enough that every format streams it in pieces, with space for a fault between them.
TEXT = "The tide is out and the boats lie on the sand until the evening brings the water back to them."
SAY = {"type": "reply", "text": TEXT, "times": None}

# Long enough that a client has seconds to abandon the stream before it ends.
RAMBLE = {"type": "reply", "text": " ".join([TEXT] * 12)}

CALL_READ_FILE = {"type": "reply", "tool_calls": [{"name": "read_file", "arguments": {"path": "/tmp/x"}}]}

# Short configured delays; delays that a provider requests are honored anyway.
QUICK = {"retry": {"initial_delay": "250ms"}}

# The wait for a rate limit without a retry delay.
RATE_LIMIT_FLOOR_MS = 30_000

MOCKS: dict[str, Mock] = {}


# The formats in which the arguments of a call are a text from the model, not an object.
BY_TEXT = [ANTHROPIC, OPENAI, SELF_HOSTED]


def case(name: str, *forms: Format) -> Callable[[Callable[[Place, Format, Mock], Any]], None]:
    """Marks a test that runs with these formats, or with all, each with a separate llmock."""

    def mark(function: Callable[[Place, Format, Mock], Any]) -> None:
        for form in forms or FORMATS:
            test(f"{form.provider}: {name}", form.provider)(partial(on_mock, function, form))

    return mark


def on_mock(function: Callable[[Place, Format, Mock], Any], form: Format, place: Place) -> Any:
    mock = MOCKS[form.provider]
    configure(place, mock.bases(), **QUICK)
    return function(place, form, mock)


def http(form: Format, status: int, said: str) -> str:
    """Returns a provider error as displayed. Gemini's errors have a name, which is displayed too."""
    name = f"{GEMINI_NAMES[status]}: " if form == GEMINI else ""
    return f"{form.provider}: HTTP {status}: {name}{said}"


GEMINI_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    529: "UNAVAILABLE",
}


def fail(status: int, **more: Any) -> dict[str, Any]:
    return {"type": "fail", "status": status, **more}


def cut(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": 6, **more}


def expect_recovery(done: Run, retries: list[str]) -> None:
    """Checks that the run succeeds after retries for these reasons."""
    expect(done.retries(), retries, "retries")
    expect(done.answer("run"), TEXT, "answer")
    expect(done.reply["turns"], 1, "steps")


def expect_refusal(done: Run, error_class: str, cause: str, message: str) -> None:
    """Checks that the run fails with this report."""
    wanted = {"code": "AGENT_ERROR", "class": error_class, "cause": cause, "resumable": True, "message": message}
    expect(done.failure("run"), wanted, "failure")


@case("a rate limit with a retry delay is waited out")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, fail(429, retry_after=1.5, times=2))
    done = run(place, form, "What is the tide?")
    expect_recovery(done, [http(form, 429, "Rate limit exceeded.")] * 2)
    early = [event["delay_ms"] for event in done.of("retrying") if event["delay_ms"] < 1500]
    expect(early, [], "delays shorter than requested")
    mock.expect_clean(calls=1, attempts=3, faults=2)


@case("a call to an overloaded provider is retried")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, fail(503), fail(529))
    done = run(place, form, "What is the tide?")
    expect_recovery(
        done,
        [http(form, 503, "Service unavailable."), http(form, 529, "Service overloaded.")],
    )
    mock.expect_clean(calls=1, attempts=3, faults=2)


@case("a call to a failing provider is retried with growing delays")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, fail(500, times=3))
    done = run(place, form, "What is the tide?")
    expect_recovery(done, [http(form, 500, "Internal server error.")] * 3)
    delays = [event["delay_ms"] for event in done.of("retrying")]
    expect(delays, sorted(set(delays)), "growing delays")
    mock.expect_clean(calls=1, attempts=4, faults=3)


@case("a call to a provider that keeps failing fails after three retries")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(fail(500, times=None))
    done = run(place, form, "What is the tide?")
    message = http(form, 500, "Internal server error.")
    expect(done.retries(), [message] * 3, "retries")
    expect_refusal(done, "llm", "retry_exhausted", message)
    mock.expect_clean(calls=1, attempts=4, faults=4)


@case("a stream that ends early is retried")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, cut("truncate"))
    done = run(place, form, "What is the tide?")
    reason = "without a finish reason" if form == GEMINI else "before the response did"
    expect_recovery(done, [f"{form.provider}: the stream ended {reason}"])
    mock.expect_clean(calls=1, attempts=2, faults=1)


# The error of each format for an unreadable piece of a stream.
UNREADABLE = {
    ANTHROPIC: "invalid event: ",
    OPENAI: "an event is not JSON: ",
    GEMINI: "a chunk is not JSON: ",
    SELF_HOSTED: "invalid response: a chunk is not JSON",
}


@case("a chunk that is not JSON is not ignored")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(RAMBLE, SAY, cut("malformed"))
    done = run(place, form, "What is the tide?")
    reasons = done.retries()
    expect_recovery(done, reasons)
    expect([reason.startswith(f"{form.provider}: {UNREADABLE[form]}") for reason in reasons], [True], f"{reasons}")
    mock.expect_clean(calls=1, attempts=2, faults=1)


@case("a call whose connection drops is retried")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, cut("disconnect"))
    done = run(place, form, "What is the tide?")
    expect_recovery(done, [f"{form.provider}: the response was cut off: unexpected EOF during chunk size line"])
    mock.expect_clean(calls=1, attempts=2, faults=1)


@case("a stalled stream is abandoned at the call's time limit")
def _(place: Place, form: Format, mock: Mock) -> None:
    configure(place, mock.bases(), retry={"initial_delay": "250ms", "call_timeout": "5s"})
    mock.script(SAY, cut("stall", stall_seconds=60))
    done = run(place, form, "What is the tide?")
    expect_recovery(done, [f"{form.provider}: no response within 5 s"])
    mock.expect_clean(calls=1, attempts=2, faults=1)


@case("a slow first word is waited for")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, {"type": "slow_first_token", "seconds": 2})
    expect_recovery(run(place, form, "What is the tide?"), [])
    mock.expect_clean(calls=1, attempts=1, faults=0)


@case("a rejected request is not retried")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(fail(400, times=None))
    done = run(place, form, "What is the tide?")
    expect(done.retries(), [], "retries")
    expect_refusal(done, "llm", "llm_failure", http(form, 400, "Bad request."))
    mock.expect_clean(calls=1, attempts=1, faults=1)


@case("a wrong key is reported as such and not retried")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(fail(401, times=None))
    done = run(place, form, "What is the tide?")
    expect(done.retries(), [], "retries")
    expect_refusal(done, "auth", "llm_failure", http(form, 401, "Unauthorized."))
    mock.expect_clean(calls=1, attempts=1, faults=1)


@case("a conversation that is too long is shortened and then answered")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY)
    # Three quarters of the window and half of it: either fits, both do not.
    first = run(place, form, "Remember the sea. " * (CONTEXT_WINDOW * 3 // 18))
    expect(first.answer("first run"), TEXT, "first answer")
    mock.script(SAY)
    second = run(place, form, "Forget the sand. " * (CONTEXT_WINDOW * 2 // 17), "--resume=last")
    expect(second.answer("second run"), TEXT, "second answer")
    expect(second.retries(), [], "retries")
    compaction = [event["type"] for event in second.events if event["type"].startswith("compaction")]
    expect(compaction, ["compaction_started", "compaction_completed"], "compaction")
    expect([entry["status"] for entry in mock.requests()], [400, 200, 200], "overflow, summary, answer")
    mock.expect_clean(calls=3, attempts=3, faults=1)


@case("a prompt that is too long by itself fails with the provider's message")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY)
    done = run(place, form, "Remember the sea. " * CONTEXT_WINDOW)
    expect(done.retries(), [], "retries")
    message = done.reply.get("error", {}).get("message", "")
    expect_refusal(done, "llm", "llm_failure", message)
    expect(message.startswith(http(form, 400, TOO_LONG[form])), True, f"message: {message}")
    mock.expect_clean(calls=1, attempts=1, faults=1)


# The error of each provider for a conversation that is too long.
TOO_LONG = {
    ANTHROPIC: "prompt is too long: ",
    OPENAI: f"This model's maximum context length is {CONTEXT_WINDOW} tokens.",
    GEMINI: "The input token count (",
    SELF_HOSTED: f"This model's maximum context length is {CONTEXT_WINDOW} tokens.",
}


@case("a tool is called, and the model answers its result")
async def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(CALL_READ_FILE, SAY)
    async with connect(place, environment=KEYS) as client:
        started = await call(client, "meerkat_run", prompt="Read the file.", model=form.model, tools=[READ_FILE])
        session_id, tool_use_id = expect_pending(payload(started, "run"))
        resumed = await call(client, "meerkat_resume", **answer_call(session_id, tool_use_id))
        expect_answer(payload(resumed, "resume"), TEXT, "resume")
        wanted = [
            ("user", "Read the file."),
            ("call", ("read_file", {"path": "/tmp/x"})),
            ("result", "the file says hi"),
            ("text", TEXT),
        ]
        expect(await history(client, session_id), wanted, "history")
    mock.expect_clean(calls=2, attempts=2, faults=0)


@case("steps are stored when the connection drops repeatedly")
async def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(CALL_READ_FILE)
    async with connect(place, environment=KEYS) as client:
        started = await call(client, "meerkat_run", prompt="Read the file.", model=form.model, tools=[READ_FILE])
        session_id, tool_use_id = expect_pending(payload(started, "run"))
        mock.add(cut("disconnect", times=4), SAY)
        resumed = await call(client, "meerkat_resume", **answer_call(session_id, tool_use_id))
        document = refusal(resumed, "AGENT_ERROR", "resume")
        message = f"{form.provider}: the response was cut off: unexpected EOF during chunk size line"
        expect(document["message"], message, "resume: message")
        data = field(document, "data", "resume")
        expect((data["terminal_cause_kind"], data["resumable"]), ("retry_exhausted", True), "resume: data")
        again = await call(client, "meerkat_resume", session_id=session_id, prompt="Go on.")
        expect_answer(payload(again, "second resume"), TEXT, "second resume")
        wanted = [
            ("user", "Read the file."),
            ("call", ("read_file", {"path": "/tmp/x"})),
            ("result", "the file says hi"),
            ("user", "Go on."),
            ("text", TEXT),
        ]
        expect(await history(client, session_id), wanted, "history")
    mock.expect_clean(calls=3, attempts=6, faults=4)


@case("a call of a tool that does not exist is an error for the model, and the run continues")
async def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script({"type": "tool_fault", "kind": "unknown_tool"}, CALL_READ_FILE, SAY)
    async with connect(place, environment=KEYS) as client:
        done = await call(client, "meerkat_run", prompt="Read the file.", model=form.model, tools=[READ_FILE])
        session_id = expect_answer(payload(done, "run"), TEXT, "run")
        error = failure("tool_not_found", "no tool is named `llmock_unknown_tool`; available: `read_file`")
        wanted = [
            ("user", "Read the file."),
            ("call", ("llmock_unknown_tool", {"path": "/tmp/x"})),
            ("error", error),
            ("text", TEXT),
        ]
        expect(await history(client, session_id), wanted, "history")
    mock.expect_clean(calls=2, attempts=2, faults=0)


@case("a call with arguments that are not JSON is an error for the model, and the run continues", *BY_TEXT)
async def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script({"type": "tool_fault", "kind": "malformed_arguments"}, CALL_READ_FILE, SAY)
    async with connect(place, environment=KEYS) as client:
        done = await call(client, "meerkat_run", prompt="Read the file.", model=form.model, tools=[READ_FILE])
        session_id = expect_answer(payload(done, "run"), TEXT, "run")
        # The incomplete arguments go back to the model in a form that every provider accepts.
        half = '{"path": '
        error = failure("invalid_arguments", f"the arguments must be a JSON object, and were: {half}")
        wanted = [
            ("user", "Read the file."),
            ("call", ("read_file", {"unreadable": half})),
            ("error", error),
            ("text", TEXT),
        ]
        expect(await history(client, session_id), wanted, "history")
    mock.expect_clean(calls=2, attempts=2, faults=0)


@case("the client can reject a call whose arguments were lost", GEMINI)
async def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script({"type": "tool_fault", "kind": "malformed_arguments"}, CALL_READ_FILE, SAY)
    async with connect(place, environment=KEYS) as client:
        started = await call(client, "meerkat_run", prompt="Read the file.", model=form.model, tools=[READ_FILE])
        pending = payload(started, "run")
        session_id = field(pending, "session_id", "run")
        [asked] = field(pending, "pending_tool_calls", "run")
        results = [{"tool_use_id": asked["tool_use_id"], "content": "which path?", "is_error": True}]
        resume = {"session_id": session_id, "prompt": "", "tools": [READ_FILE], "tool_results": results}
        expect_answer(payload(await call(client, "meerkat_resume", **resume), "resume"), TEXT, "resume")
        wanted = [("user", "Read the file."), ("call", ("read_file", {})), ("error", "which path?"), ("text", TEXT)]
        expect(await history(client, session_id), wanted, "history")
    mock.expect_clean(calls=2, attempts=2, faults=0)


@case("structured output succeeds despite faults")
async def _(place: Place, form: Format, mock: Mock) -> None:
    faults = [fail(500, match=EXTRACTION), cut("truncate", after_chunks=1, match=EXTRACTION)]
    mock.script({**SAY, "match": STEP}, {**CALM, "times": None}, *faults)
    document = await extract(place, form)
    expect_answer(document, TEXT, "run")
    expect((document["structured_output"], document["turns"]), ({"sea": "calm"}, 2), "output and steps")
    mock.expect_clean(calls=2, attempts=4, faults=2)


@case("invalid structured output is requested again with the error")
async def _(place: Place, form: Format, mock: Mock) -> None:
    wrong = {**CALM, "text": '{"sea": "green"}'}
    mock.script({**SAY, "match": STEP}, wrong, CALM)
    document = await extract(place, form)
    expect(document["structured_output"], {"sea": "calm"}, "structured output")
    second = json.dumps(mock.requests()[-1]["body"])
    expect(("green" in second, "/sea" in second), (True, True), f"the second question: {second}")
    mock.expect_clean(calls=3, attempts=3, faults=0)


@case("structured output that stays invalid is reported with the last attempt")
async def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script({**SAY, "match": STEP}, {**CALM, "text": "It is calm.", "times": None})
    document = await extract(place, form)
    expect_answer(document, TEXT, "run")
    error = document["extraction_error"]
    expect((error["attempts"], error["last_output"]), (3, "It is calm."), f"extraction error: {error}")
    mock.expect_clean(calls=4, attempts=4, faults=0)


# Only steps offer tools, so the request for the structured output is recognized by having none.
STEP = {"tools": True}
EXTRACTION = {"tools": False}
CALM = {"type": "reply", "text": '{"sea": "calm"}', "match": EXTRACTION}


async def extract(place: Place, form: Format) -> dict[str, Any]:
    """A run that ends in structured output."""
    properties = {"sea": {"type": "string", "enum": ["calm", "rough"]}}
    schema = {"type": "object", "properties": properties, "required": ["sea"], "additionalProperties": False}
    async with connect(place, environment=KEYS) as client:
        arguments = {"prompt": "How is the sea?", "model": form.model, "tools": [READ_FILE]}
        return payload(await call(client, "meerkat_run", **arguments, output_schema=schema), "run")


def failure(error: str, message: str) -> str:
    """Returns the text of a failed call, as the model reads it."""
    return json.dumps({"error": error, "message": message}, separators=(",", ":"))


async def history(client: Client, session_id: str) -> list[tuple[str, Any]]:
    """Summarizes the session's history."""
    document = payload(await call(client, "meerkat_history", session_id=session_id), "history")
    return transcript(field(document, "messages", "history"))


@case("a session with one fault after the other stores every answer")
def _(place: Place, form: Format, mock: Mock) -> None:
    once = {**SAY, "times": 1}
    # Each fault, with the model's response, in pieces, to the request that it disrupts.
    faults = [
        (fail(429, retry_after=0.5), []),
        (fail(503), []),
        (fail(500), []),
        (cut("truncate"), [once]),
        (cut("malformed"), [RAMBLE]),
        (cut("disconnect"), [once]),
    ]
    mock.reset()
    for number, (fault, spoiled) in enumerate(faults):
        mock.add(fault, *spoiled, once)
        done = run(place, form, f"Question {number}?", *(["--resume=last"] if number else []))
        expect(done.answer(f"run {number}"), TEXT, f"answer {number}")
        expect(len(done.retries()), 1, f"retries of run {number}")
    shown = rkat(place, "session", "show", "last", "--json")
    wanted = [line for number in range(len(faults)) for line in (("user", f"Question {number}?"), ("text", TEXT))]
    expect(transcript(json.loads(shown.stdout)["messages"]), wanted, "history")
    mock.expect_clean(calls=len(faults), attempts=2 * len(faults), faults=len(faults))
    mock.expect_report()


@test("a rate limit without a retry delay is waited out for half a minute", "rate limit")
def _(place: Place) -> None:
    mock = MOCKS["rate limit"]
    mock.script(SAY, *(fail(429, match={"path": path}) for path in PATHS))
    with faulty.without_retry_after(mock) as relay:
        configure(place, relay.bases(), **QUICK)
        with ThreadPoolExecutor(len(FORMATS)) as threads:
            runs = list(threads.map(lambda form: run(place, form, "What is the tide?"), FORMATS))
    for form, done in zip(FORMATS, runs):
        expect_recovery(done, [http(form, 429, "Rate limit exceeded.")])
        expect([event["delay_ms"] for event in done.of("retrying")], [RATE_LIMIT_FLOOR_MS], "delay")
    mock.expect_clean(calls=4, attempts=8, faults=4)


# Paths of each format, as llmock matches them.
PATHS = ["/anthropic/*", "/v1/responses", "/gemini/*", "/v1/chat/completions"]


def told(number: int) -> list[tuple[str, Any]]:
    """Returns the history entries of one file read."""
    return [
        ("user", f"Read file {number}."),
        ("call", ("read_file", {"path": "/tmp/x"})),
        ("result", "the file says hi"),
        ("text", TEXT),
    ]


@test("a session moves between providers, calling a tool with each", "switching")
async def _(place: Place) -> None:
    mock = MOCKS["switching"]
    configure(place, mock.bases(), **QUICK)
    route = [ANTHROPIC, OPENAI, GEMINI, SELF_HOSTED, ANTHROPIC]
    mock.script(*([CALL_READ_FILE, {**SAY, "times": 1}] * len(route)))
    async with connect(place, environment=KEYS) as client:
        session_id = ""
        for number, form in enumerate(route):
            prompt = {"prompt": f"Read file {number}.", "model": form.model, "tools": [READ_FILE]}
            if session_id:
                asked = await call(client, "meerkat_resume", session_id=session_id, **prompt)
            else:
                asked = await call(client, "meerkat_run", **prompt)
            document = payload(asked, f"{form.provider}: run")
            expect(field(document, "model", "run"), form.model, "model")
            session_id = field(document, "session_id", "run")
            [asked] = field(document, "pending_tool_calls", f"{form.provider}: run")
            resumed = await call(client, "meerkat_resume", **answer_call(session_id, asked["tool_use_id"]))
            expect_answer(payload(resumed, f"{form.provider}: resume"), TEXT, f"{form.provider}: resume")
        whole = await history(client, session_id)
    expect(whole, [line for number in range(len(route)) for line in told(number)], "history")
    mock.expect_clean(calls=2 * len(route), attempts=2 * len(route), faults=0)
    mock.expect_report()


if __name__ == "__main__":
    lanes = [*(form.provider for form in FORMATS), "rate limit", "switching"]
    with faulty.serve(len(lanes)) as mocks:
        MOCKS.update(zip(lanes, mocks))
        main()
