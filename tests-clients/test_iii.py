"""The hub from the perspective of workers on the published iii SDKs of all generations.

Run by `cargo xtask test`, or by hand with RKAT and RKAT_MCP set to the programs:
`RKAT=… RKAT_MCP=… .clients/venv/bin/python tests-clients/test_iii.py [PART OF A NAME]`
"""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack

from iii_stage import INDEX, SECTION, Hub, Worker, begin, eventually, stage
from support import Place, expect, main, test

# Long enough for a duplicate delivery of an event to arrive.
SECOND_DELIVERY_SECONDS = 1.0
# Long enough for a worker to have failed to connect.
LATE_SECONDS = 1.0

# Every generation. All of them subscribe to changes, the newest Rust crate by observing.
SDKS = (
    "Node 0.9.0",
    "Node 0.11.6",
    "Node 0.22.1",
    "Python 0.11.3",
    "Python 0.25.0",
    "Rust 0.11.3",
    "Rust 0.26.0-rc.4",
)


def expect_served(hub: Hub) -> None:
    """Checks that the worker's entries exist, and that its functions respond."""
    expect(hub.read("iii://skills"), INDEX, "the index")
    eventually(lambda: hub.read("iii://demo/demo::guide") == SECTION, "the section is served by the worker")
    prompt = hub.call("prompts::mcp-get", {"name": "greet", "arguments": {"name": "Ada"}})
    expect(prompt["messages"][0]["content"]["text"], "Greet Ada warmly.", "the prompt")


def expect_one_event(hub: Hub, worker: Worker, skill: str) -> None:
    """Checks that the worker is notified of a change once."""
    line = f'changed "{skill}"'
    hub.call("skills::register", {"id": skill, "skill": "# x\n"})
    eventually(lambda: line in worker.lines(), "the worker is notified of the change")
    time.sleep(SECOND_DELIVERY_SECONDS)
    expect(worker.lines().count(line), 1, "number of notifications")


def tests_of(sdk: str) -> None:
    lane = sdk.split()[0]

    @test(f"the example of the guide works on {sdk}", lane)
    def example(place: Place) -> None:
        with stage(place) as (hub, stack):
            worker = begin(place, stack, sdk, hub)
            worker.ready()
            expect_served(hub)
            expect_one_event(hub, worker, "first")

    for how in (signal.SIGTERM, signal.SIGKILL):

        @test(f"{sdk} reconnects to a hub that ended with {how.name}", lane)
        def hub_restarts(place: Place, how: signal.Signals = how) -> None:
            with stage(place) as (hub, stack):
                worker = begin(place, stack, sdk, hub)
                worker.ready()
                hub.stop(how)
                hub.start()
                expect_served(hub)
                expect_one_event(hub, worker, "second")

    @test(f"{sdk} finds a hub that starts later", lane)
    def hub_is_late(place: Place) -> None:
        hub = Hub(place)
        with ExitStack() as stack:
            worker = begin(place, stack, sdk, hub)
            time.sleep(LATE_SECONDS)
            hub.start()
            stack.callback(hub.stop, signal.SIGKILL)
            worker.ready()
            expect_served(hub)

    @test(f"a restarted worker on {sdk} is notified once, and its old connection is gone", lane)
    def worker_restarts(place: Place) -> None:
        with stage(place) as (hub, stack):
            first = begin(place, stack, sdk, hub)
            first.ready()
            first.kill()
            eventually(lambda: hub.read("iii://demo/demo::guide") is None, "the section is gone with the worker")
            expect(hub.read("iii://skills"), INDEX, "the index without the worker")
            again = begin(place, stack, sdk, hub)
            expect_served(hub)
            expect_one_event(hub, again, "third")


for name in SDKS:
    tests_of(name)

if __name__ == "__main__":
    main()
