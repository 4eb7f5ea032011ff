"""Registrations of workers, as MCP clients see them; and the program `skills`, which serves the registry on an engine.

Run by `cargo xtask test`, or by hand with the programs in RKAT, RKAT_MCP, SKILLS and BARE_HUB.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from iii_stage import CLIENTS, HERE, INDEX, SECTION, Worker, begin, eventually, stage
from mcp_client import connect
from support import Failure, Place, expect, main, test

SDK = "Python 0.25.0"
PYTHON = str(CLIENTS / "iii-0-25" / "bin" / "python")

# Time until a client is notified of a change, in the best of this many rounds: a busy machine may be late.
TOLD_SECONDS = 1.0
ROUNDS = 3
NOTICE_SECONDS = 20

PROMPT = {
    "name": "greet",
    "description": "Compose a greeting.",
    "arguments": [{"name": "name", "description": "Who to greet", "required": True}],
}


@test("a prompt that a Python worker registers is a slash command of a connected client")
async def slash_command(place: Place) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Any) -> None:
        if (method := getattr(getattr(message, "root", message), "method", None)) is not None:
            told.put_nowait(method)

    with stage(place) as (hub, stack):
        async with connect(place, message_handler=hear) as client:
            expect("greet" in await prompts(client), False, "the prompt before the worker")
            worker = await asyncio.to_thread(begin, place, stack, SDK, hub)
            await heard(told, "notifications/prompts/list_changed")
            await asyncio.to_thread(worker.ready)
            found = (await prompts(client))["greet"]
            expect({name: found.get(name) for name in PROMPT}, PROMPT, "the prompt in the list")
            got = await client.get_prompt("greet", {"name": "Ada"})
            expect(got.messages[0].content.text, "Greet Ada warmly.", "the worker's prompt")
            expect(await read(client, "iii://skills"), INDEX, "the index as a resource")
            expect(await read(client, "iii://demo/demo::guide"), SECTION, "a section as a resource")
            await told_in_time(client, hub, told)


async def told_in_time(client: Any, hub: Any, told: asyncio.Queue[str]) -> None:
    """Checks that the client is notified of a registration, and then sees it."""
    delays = []
    for number in range(ROUNDS):
        while not told.empty():
            told.get_nowait()
        registered = {"name": f"later-{number}", "description": "d", "function_id": "demo::greet_prompt"}
        await asyncio.to_thread(hub.call, "prompts::register", registered)
        start = time.monotonic()
        await heard(told, "notifications/prompts/list_changed")
        delays.append(time.monotonic() - start)
        expect(f"later-{number}" in await prompts(client), True, "the new prompt after the notice")
    if min(delays) > TOLD_SECONDS:
        raise Failure(f"notified after {delays} s")


async def heard(told: asyncio.Queue[str], method: str) -> None:
    async with asyncio.timeout(NOTICE_SECONDS):
        while await told.get() != method:
            pass


async def prompts(client: Any) -> dict[str, Any]:
    listed = await client.list_prompts()
    return {prompt.name: prompt.model_dump(mode="json", by_alias=True, exclude_none=True) for prompt in listed.prompts}


async def read(client: Any, uri: str) -> str:
    return (await client.read_resource(uri)).contents[0].text


@contextmanager
def engine(place: Place) -> Iterator[str]:
    """Runs a hub without a registry, which stands in for an engine; yields its URL."""
    start = place.log.stat().st_size if place.log.exists() else 0
    with place.log.open("a") as errors:
        process = subprocess.Popen([os.environ["BARE_HUB"], "127.0.0.1:0"], stdin=subprocess.PIPE, stderr=errors)
    try:
        said = lambda: place.log.read_text(errors="replace")[start:]  # noqa: E731
        eventually(lambda: "listening on ws://" in said(), "the engine listens")
        yield "ws://" + said().split("listening on ws://")[1].split()[0]
    finally:
        process.kill()
        process.wait()


class Skills:
    """Runs the program `skills` on an engine."""

    def __init__(self, place: Place, url: str, *arguments: str) -> None:
        with place.log.open("a") as errors:
            command = [os.environ["SKILLS"], "--url", url, *arguments]
            self.process = subprocess.Popen(command, stderr=errors, cwd=place.work, env={"OTEL_ENABLED": "false"})

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(10)


def call(place: Place, url: str, function: str, data: Any) -> Any:
    """Calls a function with the published SDK; returns None if that fails."""
    command = [PYTHON, str(HERE / "iii_call.py"), url, function, json.dumps(data)]
    environment = {"HOME": str(place.home), "PATH": os.environ["PATH"], "OTEL_ENABLED": "false"}
    with place.log.open("a") as errors:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, env=environment, timeout=60)
    return json.loads(done.stdout) if done.returncode == 0 else None


@test("the program `skills` serves workers through an engine, and the engine stores their registrations", "engine")
def on_an_engine(place: Place) -> None:
    with engine(place) as url, ExitStack() as stack:
        skills = Skills(place, url)
        stack.callback(skills.process.kill)
        worker = Worker(place, SDK, url)
        stack.callback(worker.kill)
        worker.ready()
        served(place, url)
        eventually(lambda: 'changed "demo"' in worker.lines() or change(place, url), "a change is notified")
        expect(skills.end(), 0, "the exit code")
        eventually(lambda: call(place, url, "skills::list", {}) is None, "its functions are gone with it")
        again = Skills(place, url)
        stack.callback(again.process.kill)
        eventually(lambda: call(place, url, "skills::list", {}) is not None, "it is available again")
        served(place, url)


def change(place: Place, url: str) -> bool:
    """Registers an entry to trigger a notification; the worker receives it a little later."""
    call(place, url, "skills::register", {"id": "demo", "skill": "# demo\n\nA demo worker.\n"})
    return False


def served(place: Place, url: str) -> None:
    index = call(place, url, "skills::resources-read", {"uri": "iii://skills"})
    expect(index["contents"][0]["text"], INDEX, "the index")
    section = call(place, url, "skills::resources-read", {"uri": "iii://demo/demo::guide"})
    expect(section["contents"][0]["text"], SECTION, "the section")
    prompt = call(place, url, "prompts::mcp-get", {"name": "greet", "arguments": {"name": "Ada"}})
    expect(prompt["messages"][0]["content"]["text"], "Greet Ada warmly.", "the prompt")
    expect(call(place, url, "skills::register", {"id": "Bad", "skill": "x"}), None, "an invalid id is rejected")


@test("an invalid config of the program `skills` is reported and ignored", "engine")
def bad_config(place: Place) -> None:
    config = place.work / "config.yaml"
    config.write_text("scopes: [unfinished\n")
    with engine(place) as url, ExitStack() as stack:
        skills = Skills(place, url, "--config", str(config))
        stack.callback(skills.process.kill)
        eventually(lambda: call(place, url, "skills::list", {}) == {"skills": []}, "it serves with the defaults")
        expect(f"warning: `{config}`" in place.log.read_text(errors="replace"), True, "the warning")


@test("the program `skills` prints its manifest", "engine")
def prints_manifest(_: Place) -> None:
    done = subprocess.run([os.environ["SKILLS"], "--manifest"], capture_output=True, check=True, timeout=10)
    manifest = json.loads(done.stdout)
    expect(list(manifest), ["name", "version", "description", "default_config", "supported_targets"], "the keys")
    config = {"scopes": {"prompts": "prompts", "skills": "skills"}, "state_timeout_ms": 10000}
    expect(manifest["default_config"], config, "the default config")


if __name__ == "__main__":
    main()
