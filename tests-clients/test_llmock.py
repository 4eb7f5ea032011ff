"""Runs against llmock, which fails in every way that providers fail and judges what the client made of it.

Every test has a session of its own, says how llmock is to misbehave, makes its runs, and compares what the user sees;
then llmock's verdict must be without a finding.

Run by `cargo xtask test`, or by hand with RKAT and RKAT_MCP set to the programs:
`RKAT=target/debug/rkat RKAT_MCP=target/debug/rkat-mcp .clients/venv/bin/python tests-clients/test_llmock.py [PART OF A NAME]`
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import faulty
from faulty import CONTEXT_WINDOW, Mock
from mcp_client import call, connect
from providers import ANTHROPIC, FORMATS, GEMINI, KEYS, OPENAI, SELF_HOSTED, Format, Run, configure, rkat, run
from support import (
    READ_FILE,
    Failure,
    Place,
    answer_call,
    expect,
    expect_answer,
    expect_pending,
    field,
    main,
    payload,
    test,
)

# What the model says. Long enough that every format streams it in pieces, with room for a fault between them.
TEXT = "The tide is out and the boats lie on the sand until the evening brings the water back to them."
SAY = {"type": "reply", "text": TEXT, "times": None}

CALL_READ_FILE = {"type": "reply", "tool_calls": [{"name": "read_file", "arguments": {"path": "/tmp/x"}}]}

# Short delays of our own; what a provider asks for is honoured all the same.
QUICK = {"retry": {"initial_delay": "100ms"}}

# A rate limit that does not say when it ends is waited out this long.
RATE_LIMIT_FLOOR_MS = 30_000

MOCKS: dict[str, Mock] = {}


def case(name: str) -> Callable[[Callable[[Place, Format, Mock], Any]], None]:
    """Marks a test that is run with every format, each with a llmock of its own."""

    def mark(function: Callable[[Place, Format, Mock], Any]) -> None:
        for form in FORMATS:
            lane = form.provider
            test(f"{lane}: {name}", lane)(partial(on_mock, function, form))

    return mark


def on_mock(function: Callable[[Place, Format, Mock], Any], form: Format, place: Place) -> Any:
    mock = MOCKS[form.provider]
    configure(place, mock.bases(), **QUICK)
    return function(place, form, mock)


def fail(status: int, **more: Any) -> dict[str, Any]:
    return {"type": "fail", "status": status, **more}


def cut(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": 6, **more}


def expect_recovery(done: Run, retries: list[str]) -> None:
    """The run is answered as if nothing had been, after retries for these reasons."""
    expect(done.retries(), retries, "retries")
    expect(done.answer("run"), TEXT, "answer")
    expect(done.reply["turns"], 1, "steps")


def expect_refusal(done: Run, error_class: str, cause: str, message: str) -> None:
    """The run fails, and what is said of it is this."""
    wanted = {"code": "AGENT_ERROR", "class": error_class, "cause": cause, "resumable": True, "message": message}
    expect(done.failure("run"), wanted, "failure")


@case("a rate limit that says when it ends is waited out")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, fail(429, retry_after=1.5, times=2))
    done = run(place, form, "What is the tide?")
    expect_recovery(done, [f"{form.provider}: HTTP 429: Rate limit exceeded."] * 2)
    early = [event["delay_ms"] for event in done.of("retrying") if event["delay_ms"] < 1500]
    expect(early, [], "delays shorter than what was asked for")
    mock.expect_clean(calls=1, attempts=3, faults=2)


@case("an overloaded provider is asked again")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, fail(503), fail(529))
    done = run(place, form, "What is the tide?")
    expect_recovery(
        done,
        [f"{form.provider}: HTTP 503: Service unavailable.", f"{form.provider}: HTTP 529: Service overloaded."],
    )
    mock.expect_clean(calls=1, attempts=3, faults=2)


@case("a provider that fails is asked again, more patiently each time")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, fail(500, times=3))
    done = run(place, form, "What is the tide?")
    expect_recovery(done, [f"{form.provider}: HTTP 500: Internal server error."] * 3)
    delays = [event["delay_ms"] for event in done.of("retrying")]
    expect(delays, sorted(set(delays)), "growing delays")
    mock.expect_clean(calls=1, attempts=4, faults=3)


@case("a provider that keeps failing is given up after three retries")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(fail(500, times=None))
    done = run(place, form, "What is the tide?")
    message = f"{form.provider}: HTTP 500: Internal server error."
    expect(done.retries(), [message] * 3, "retries")
    expect_refusal(done, "llm", "retry_exhausted", message)
    mock.expect_clean(calls=1, attempts=4, faults=4)


@case("a stream that ends early is no answer")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, cut("truncate"))
    done = run(place, form, "What is the tide?")
    expect_recovery(done, [f"{form.provider}: the answer broke off before its end"])
    mock.expect_clean(calls=1, attempts=2, faults=1)


@case("a chunk that is not JSON is not passed over")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, cut("malformed"))
    done = run(place, form, "What is the tide?")
    expect_recovery(done, [f"{form.provider}: malformed"])
    mock.expect_clean(calls=1, attempts=2, faults=1)


@case("a connection that is dropped in the middle is made again")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, cut("disconnect"))
    done = run(place, form, "What is the tide?")
    expect_recovery(done, [f"{form.provider}: the answer broke off"])
    mock.expect_clean(calls=1, attempts=2, faults=1)


@case("a stream that stalls is given up after the call's time")
def _(place: Place, form: Format, mock: Mock) -> None:
    configure(place, mock.bases(), retry={"initial_delay": "100ms", "call_timeout": "4s"})
    mock.script(SAY, cut("stall", stall_seconds=60))
    done = run(place, form, "What is the tide?")
    expect_recovery(done, [f"{form.provider}: no answer within 4 s"])
    mock.expect_clean(calls=1, attempts=2, faults=1)


@case("a slow first word is waited for")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY, {"type": "slow_first_token", "seconds": 2})
    expect_recovery(run(place, form, "What is the tide?"), [])
    mock.expect_clean(calls=1, attempts=1, faults=0)


@case("a request that is refused is not repeated")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(fail(400, times=None))
    done = run(place, form, "What is the tide?")
    expect(done.retries(), [], "retries")
    expect_refusal(done, "llm", "llm_failure", f"{form.provider}: HTTP 400: Bad request.")
    mock.expect_clean(calls=1, attempts=1, faults=1)


@case("a wrong key is reported as such and not tried again")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(fail(401, times=None))
    done = run(place, form, "What is the tide?")
    expect(done.retries(), [], "retries")
    expect_refusal(done, "auth", "llm_failure", f"{form.provider}: HTTP 401: Unauthorized.")
    mock.expect_clean(calls=1, attempts=1, faults=1)


@case("a conversation that is too long is shortened and then answered")
def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(SAY)
    # Three quarters of the window and a half of it: either fits, both do not.
    first = run(place, form, "Remember the sea. " * (CONTEXT_WINDOW * 3 // 18))
    expect(first.answer("first run"), TEXT, "first answer")
    mock.script(SAY)
    second = run(place, form, "Forget the sand. " * (CONTEXT_WINDOW * 2 // 17), "--resume", "last")
    expect(second.answer("second run"), TEXT, "second answer")
    expect(second.retries(), [], "retries")
    compaction = [event["type"] for event in second.events if event["type"].startswith("compaction")]
    expect(compaction, ["compaction_started", "compaction_completed"], "compaction")
    expect([entry["status"] for entry in mock.requests()], [400, 200, 200], "overflow, summary, answer")
    mock.expect_clean(calls=3, attempts=3, faults=1)


@case("a tool is called, and its result is answered")
async def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script(CALL_READ_FILE, SAY)
    async with connect(place, environment=KEYS) as client:
        started = await call(client, "meerkat_run", prompt="Read the file.", model=form.model, tools=[READ_FILE])
        session_id, tool_use_id = expect_pending(payload(started, "run"))
        resumed = await call(client, "meerkat_resume", **answer_call(session_id, tool_use_id))
        expect_answer(payload(resumed, "resume"), TEXT, "resume")
        history = await call(client, "meerkat_history", session_id=session_id)
        expect(results(payload(history, "history")), [("the file says hi", False)], "results in the history")
    mock.expect_clean(calls=2, attempts=2, faults=0)


@case("a call of a tool that does not exist is an error for the model, and the run goes on")
async def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script({"type": "tool_fault", "kind": "unknown_tool"})
    mock.add({**SAY, "times": 2})
    answer, history = await broken_call(place, form)
    expect(answer, TEXT, "answer")
    expect(results(history), [("unknown tool", True)], "results in the history")
    mock.expect_clean(calls=2, attempts=2, faults=0)


@case("a call with arguments that are not JSON is an error for the model, and the run goes on")
async def _(place: Place, form: Format, mock: Mock) -> None:
    mock.script({"type": "tool_fault", "kind": "malformed_arguments"})
    mock.add({**SAY, "times": 2})
    answer, history = await broken_call(place, form)
    expect(answer, TEXT, "answer")
    expect(results(history), [("malformed arguments", True)], "results in the history")
    mock.expect_clean(calls=2, attempts=2, faults=0)


async def broken_call(place: Place, form: Format) -> tuple[str, dict[str, Any]]:
    """A run with a tool that the model does not call rightly: its answer, and the history."""
    async with connect(place, environment=KEYS) as client:
        done = await call(client, "meerkat_run", prompt="Read the file.", model=form.model, tools=[READ_FILE])
        document = payload(done, "run")
        history = await call(client, "meerkat_history", session_id=field(document, "session_id", "run"))
        return field(document, "content", "run")[0]["text"], payload(history, "history")


def results(history: dict[str, Any]) -> list[tuple[str, bool]]:
    """The results of tools in a history: what they say, and whether they are errors."""
    messages = [message for message in history["messages"] if message["role"] == "tool_results"]
    return [(str(result["content"]), result["is_error"]) for message in messages for result in message["results"]]


@case("a session that meets one fault after the other keeps every answer")
def _(place: Place, form: Format, mock: Mock) -> None:
    faults = [fail(429, retry_after=0.5), fail(503), fail(500), cut("truncate"), cut("malformed"), cut("disconnect")]
    mock.script(SAY)
    for number, fault in enumerate(faults):
        mock.add(fault)
        done = run(place, form, f"Question {number}?", *(["--resume", "last"] if number else []))
        expect(done.answer(f"run {number}"), TEXT, f"answer {number}")
        expect(len(done.retries()), 1, f"retries of run {number}")
    shown = rkat(place, "session", "show", "last", "--json")
    wanted = [line for number in range(len(faults)) for line in (f"Question {number}?", TEXT)]
    expect(said(shown.stdout), wanted, "what was said")
    mock.expect_clean(calls=len(faults), attempts=2 * len(faults), faults=len(faults))
    mock.expect_report()


def said(document: str) -> list[str]:
    return [document]


@test("a rate limit that does not say when it ends is waited out for half a minute", "rate limit")
def _(place: Place) -> None:
    mock = MOCKS["rate limit"]
    mock.script(SAY, *(fail(429, match={"path": path}) for path in PATHS))
    with faulty.without_retry_after(mock) as relay:
        configure(place, relay.bases(), **QUICK)
        with ThreadPoolExecutor(len(FORMATS)) as threads:
            runs = list(threads.map(lambda form: run(place, form, "What is the tide?"), FORMATS))
    for form, done in zip(FORMATS, runs):
        expect_recovery(done, [f"{form.provider}: HTTP 429: Rate limit exceeded."])
        expect([event["delay_ms"] for event in done.of("retrying")], [RATE_LIMIT_FLOOR_MS], "delay")
    mock.expect_clean(calls=4, attempts=8, faults=4)


# Where each format is reached, as llmock matches paths.
PATHS = ["/anthropic/*", "/v1/responses", "/gemini/*", "/v1/chat/completions"]


@test("a session goes from provider to provider, calling a tool with each", "switching")
async def _(place: Place) -> None:
    mock = MOCKS["switching"]
    configure(place, mock.bases(), **QUICK)
    mock.script({"type": "delay", "seconds": 0})
    route = [ANTHROPIC, OPENAI, GEMINI, SELF_HOSTED, ANTHROPIC]
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
            calls = field(document, "pending_tool_calls", f"{form.provider}: run")
            resumed = await call(client, "meerkat_resume", **answer_call(session_id, calls[0]["tool_use_id"]))
            answer = payload(resumed, f"{form.provider}: resume")
            if not field(answer, "content", "resume")[0]["text"]:
                raise Failure(f"{form.provider}: an empty answer")
        history = payload(await call(client, "meerkat_history", session_id=session_id), "history")
    expect(results(history), [("the file says hi", False)] * len(route), "results in the history")
    mock.expect_clean(calls=2 * len(route), attempts=2 * len(route), faults=0)
    mock.expect_report()


if __name__ == "__main__":
    lanes = [*(form.provider for form in FORMATS), "rate limit", "switching"]
    with faulty.serve(len(lanes)) as mocks:
        MOCKS.update(zip(lanes, mocks))
        main()
