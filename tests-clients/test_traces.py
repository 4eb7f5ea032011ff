"""Traces as a collector receives them, decoded with OpenTelemetry's types.

Run by `cargo xtask test`, or by hand with the programs set:
`RKAT=target/debug/rkat RKAT_MCP=target/debug/rkat-mcp python3 tests-clients/test_traces.py [PART OF A NAME]`
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from collector import collector
from leaks import LEAKY, call_tool, environment
from support import Failure, Place, expect, main, test

SECRET = "canary-of-the-collector-7731"
TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"


def rkat(place: Place, prompt: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Makes a run of the offline model."""
    command = [os.environ["RKAT"], "run", "--state-root", str(place.state), "--realm", "test", *arguments, prompt]
    return subprocess.run(
        command,
        cwd=place.work,
        env=environment(place, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
    )


def leaky(place: Place) -> None:
    """Configures the leaky server for the user of a place."""
    directory = place.home / ".rkat"
    directory.mkdir()
    entry = f'[[servers]]\nname = "leaky"\ncommand = "{sys.executable}"\nargs = ["{LEAKY}"]\nrequired = true\n'
    (directory / "mcp.toml").write_text(entry)


def attributes(span: Any, *left_out: str) -> dict[str, Any]:
    return {name: value for name, value in span.attributes.items() if name not in left_out}


@test("the URL of a collector alone enables traces: a run, its model calls, its tools")
def whole_tree(place: Place) -> None:
    with collector() as seen:
        done = rkat(place, 'call nothing {"a": 1}\nthen\nsay hello', OTEL_EXPORTER_OTLP_ENDPOINT=seen.url)
    expect((done.returncode, done.stdout), (0, "hello\n"), "the run")
    run, tool, chats = seen.only("invoke_agent"), seen.named("execute_tool"), seen.named("chat")
    session = run.attributes["gen_ai.conversation.id"]
    expect(len(session), 36, "the length of a session's id")
    expect((run.name, run.kind, run.parent, run.failed), ("invoke_agent meerkat", "internal", "", False), "the run")
    wanted = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "meerkat",
        "gen_ai.provider.name": "other",
        "gen_ai.request.model": "offline",
        "gen_ai.conversation.id": session,
        "meerkat.run.end": "completed",
        "meerkat.run.steps": 2,
    }
    counts = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "meerkat.run.id", "meerkat.run.tool_calls")
    expect(attributes(run, *counts, "meerkat.session.cost_usd"), wanted, "attributes of the run")
    expect([(chat.name, chat.kind, chat.parent) for chat in chats], [("chat offline", "client", run.id)] * 2, "chats")
    first = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "other",
        "gen_ai.request.model": "offline",
        "gen_ai.conversation.id": session,
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "meerkat.chat.purpose": "step",
    }
    expect(attributes(chats[0], *counts, "gen_ai.request.max_tokens"), first, "attributes of the first model call")
    for name in counts[:2]:
        expect(sum(chat.attributes[name] for chat in chats), run.attributes[name], f"sum of {name}")
    # A call of a missing tool is rejected before it runs.
    expect(tool, [], "tools")
    expect({span.trace for span in seen.spans}, {run.trace}, "traces")
    expect(seen.requests[0][0], "/v1/traces", "the path")
    expect(seen.requests[0][1]["content-type"], "application/x-protobuf", "the type")
    expect(seen.resources[0]["service.name"], "rkat", "who sends it")


@test("a tool is a span of its run, and failures are marked")
def tools_and_failures(place: Place) -> None:
    leaky(place)
    prompt = "call leaky__meta {}\ncall leaky__refuse {}\nthen\nfail auth"
    with collector() as seen:
        done = rkat(place, prompt, OTEL_EXPORTER_OTLP_ENDPOINT=seen.url + "/")
    expect(done.returncode, 1, "exit code")
    run = seen.only("invoke_agent")
    expect((run.failed, run.attributes["meerkat.run.end"], run.attributes["error.type"]), (True, "failed", "auth"), "run")
    found = {span.attributes["gen_ai.tool.name"]: span for span in seen.named("execute_tool")}
    expect(sorted(found), ["leaky__meta", "leaky__refuse"], "tools")
    good, bad = found["leaky__meta"], found["leaky__refuse"]
    expect((good.name, good.parent, good.failed), ("execute_tool leaky__meta", run.id, False), "the good tool")
    expect((bad.failed, bad.attributes["error.type"]), (True, "execution_failed"), "the bad tool")
    expect(good.attributes["gen_ai.tool.type"], "function", "the tool's type")
    chats = seen.named("chat")
    expect([(chat.failed, chat.attributes.get("error.type")) for chat in chats], [(False, None), (True, "auth")], "chats")


@test("a caller's trace goes through the run to the servers it calls")
def caller(place: Place) -> None:
    leaky(place)
    meta = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=value"}
    prompt = {"prompt": "call leaky__meta {}"}
    with collector() as seen:
        result = call_tool(place, "meerkat_run", prompt, meta, OTEL_EXPORTER_OTLP_ENDPOINT=seen.url)
        seen.wait_for("invoke_agent")
    run, tool = seen.only("invoke_agent"), seen.only("execute_tool")
    expect((run.trace, run.parent, run.state), (TRACE, CALLER, "vendor=value"), "the run")
    expect((tool.trace, tool.parent), (TRACE, run.id), "the tool")
    passed_on = f'"traceparent": "00-{TRACE}-{tool.id}-01", "tracestate": "vendor=value"'
    if passed_on not in json.loads(result["content"][0]["text"])["content"][0]["text"]:
        raise Failure(f"the server did not receive {passed_on}: {result}")
    expect(seen.resources[0]["service.name"], "rkat-mcp", "who sends it")
    # Without recording, the caller's context is passed on unchanged; a trace that is not recorded is not sent.
    result = call_tool(place, "meerkat_run", prompt, meta)
    if f"00-{TRACE}-{CALLER}-01" not in json.dumps(result):
        raise Failure(f"the caller's context was not passed on: {result}")
    with collector() as seen:
        unrecorded = {"traceparent": f"00-{TRACE}-{CALLER}-00"}
        call_tool(place, "meerkat_run", prompt, unrecorded, OTEL_EXPORTER_OTLP_ENDPOINT=seen.url)
    expect(seen.spans, [], "spans of a trace that is not recorded")


@test("content is excluded by default, and secrets are always excluded")
def content(place: Place) -> None:
    leaky(place)
    prompt = 'call leaky__leak {"word": "argument-4711"}\nthen\nsay answer-4711'
    secrets = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{SECRET},x-tenant=acme"}
    with collector() as seen:
        rkat(place, prompt, OTEL_EXPORTER_OTLP_ENDPOINT=seen.url, **secrets)
        expect((len(seen.named("chat")), b"4711" in seen.raw), (2, False), "content by default")
        headers = seen.requests[0][1]
        expect((headers["authorization"], headers["x-tenant"]), (f"Bearer {SECRET}", "acme"), "headers")
    with collector() as seen:
        wish = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
        rkat(place, f"{prompt} {SECRET}", OTEL_EXPORTER_OTLP_ENDPOINT=seen.url, **secrets, **wish)
    tool, last = seen.only("execute_tool"), seen.named("chat")[-1]
    expect(json.loads(tool.attributes["gen_ai.tool.call.arguments"]), {"word": "argument-4711"}, "arguments")
    if "HOME=" not in tool.attributes["gen_ai.tool.call.result"]:
        raise Failure(f"not the result: {tool.attributes['gen_ai.tool.call.result']}")
    output = json.loads(last.attributes["gen_ai.output.messages"])
    expect(output[0]["parts"], [{"type": "text", "content": "answer-4711 ***"}], "response of the model")
    messages = json.loads(last.attributes["gen_ai.input.messages"])
    expect([message["role"] for message in messages], ["user", "assistant", "tool"], "messages to the model")
    expect(SECRET.encode() in seen.raw, False, "a secret in traces")


@test("a missing, slow, or broken collector costs a run only a warning")
def trouble(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        away = f"http://127.0.0.1:{free.getsockname()[1]}"
    with collector(delay=30) as slow, collector(status=500) as broken, collector(status=503) as busy:
        for url in (away, slow.url, broken.url, busy.url):
            began = time.monotonic()
            done = rkat(place, "say hello", OTEL_EXPORTER_OTLP_ENDPOINT=url)
            took = time.monotonic() - began
            expect((done.returncode, done.stdout), (0, "hello\n"), f"the run with {url}")
            if f"spans did not reach {url}/v1/traces" not in done.stderr or took > 15:
                raise Failure(f"{took:.1f} s, stderr: {done.stderr}")


@test("disabled traces send nothing, and unsupported protocols are reported")
def off(place: Place) -> None:
    offs = [
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ]
    with collector() as seen:
        said = [rkat(place, "say hello", OTEL_EXPORTER_OTLP_ENDPOINT=seen.url, **off).stderr for off in offs]
    expect((seen.requests, [text.count("warning:") for text in said]), ([], [0, 0, 1]), "requests and warnings")
    if "`grpc` is not supported" not in said[2]:
        raise Failure(said[2])


@test("a run that is stopped externally sends its traces before it exits")
def ended(place: Place) -> None:
    command = [os.environ["RKAT"], "run", "--state-root", str(place.state), "--realm", "test", "wait 60000\nsay x"]
    for ending in (signal.SIGTERM, signal.SIGINT):
        with collector() as seen:
            more = environment(place, OTEL_EXPORTER_OTLP_ENDPOINT=seen.url, RKAT_LOG="debug")
            run = subprocess.Popen(
                command, cwd=place.work, env=more, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            # The log shows when the model is called.
            assert run.stderr
            next(line for line in run.stderr if "calling the model" in line)
            run.send_signal(ending)
            run.communicate(timeout=20)
            expect(run.returncode, 130, "exit code")
        expect(seen.only("invoke_agent").attributes["meerkat.run.end"], "cancelled", "the end")


if __name__ == "__main__":
    main()
