"""A hub and workers on the published iii SDKs, for the tests that need them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from children import MODULES, NODE, free_port
from support import Failure, Place

HERE = Path(__file__).resolve().parent
CLIENTS = HERE.parent / ".clients"
RUST = CLIENTS / "iii-target" / "debug"

# Longer than an SDK waits before it reconnects.
PATIENCE_SECONDS = 40

SECTION = "# Demo guide\n\nThe long-form docs for the demo worker."
INDEX = (
    "# Skills\n\nRead each skill's resource for orientation on when and why to call its functions.\n\n"
    "- [`demo`](iii://demo) — demo — A demo worker.\n"
)


def worker_command(place: Place, sdk: str) -> list[str]:
    language, version = sdk.split()
    if language == "Rust":
        return [str(RUST / ("iii-seed" if version == "0.11.3" else "iii-newest"))]
    if language == "Python":
        return [str(CLIENTS / f"iii-{'-'.join(version.split('.')[:2])}" / "bin" / "python"), str(HERE / "iii_seed.py")]
    # The scripts import `iii-sdk`; a symlink selects the version.
    directory = place.work / sdk
    (directory / "node_modules").mkdir(parents=True, exist_ok=True)
    link = directory / "node_modules" / "iii-sdk"
    if not link.is_symlink():
        link.symlink_to(MODULES / f"iii-sdk-{'-'.join(version.split('.')[:2])}")
    script = "iii_seed_0_9.mjs" if version == "0.9.0" else "iii_seed.mjs"
    (directory / script).write_text((HERE / script).read_text())
    return [str(NODE), str(directory / script)]


class Worker:
    """A running worker, and its output."""

    def __init__(self, place: Place, sdk: str, url: str) -> None:
        self.said = place.work / f"{sdk}.out"
        environment = {"HOME": str(place.home), "PATH": os.environ["PATH"], "HUB_URL": url, "OTEL_ENABLED": "false"}
        command = [*worker_command(place, sdk), url]
        with self.said.open("a") as out, place.log.open("a") as errors:
            self.process = subprocess.Popen(command, stdout=out, stderr=errors, cwd=place.work, env=environment)

    def lines(self) -> list[str]:
        return self.said.read_text(errors="replace").splitlines()

    def ready(self) -> None:
        eventually(lambda: self.lines()[-1:] and "ready" in self.lines(), "the worker registers everything")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Hub:
    """A hub on a port that stays the same across restarts."""

    def __init__(self, place: Place) -> None:
        self.place, self.port = place, free_port()
        self.url = f"ws://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [*self.rkat(), "hub", "--listen", f"127.0.0.1:{self.port}"]
        start = self.place.log.stat().st_size if self.place.log.exists() else 0
        with self.place.log.open("a") as errors:
            self.process = subprocess.Popen(command, stderr=errors, cwd=self.place.work, env=self.environment())
        said = lambda: f"listening on {self.url}" in self.place.log.read_text(errors="replace")[start:]  # noqa: E731
        eventually(said, "the hub listens")

    def stop(self, how: int) -> None:
        if self.process:
            self.process.send_signal(how)
            self.process.wait(10)

    def rkat(self) -> list[str]:
        return [os.environ["RKAT"], "--state-root", str(self.place.state), "--realm", "test"]

    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.place.home), "PATH": os.environ["PATH"]}

    def call(self, function: str, data: Any) -> Any:
        """Calls a function through the command line; returns None if that fails."""
        command = [*self.rkat(), "registry", "call", function, json.dumps(data), "--json"]
        done = subprocess.run(command, capture_output=True, cwd=self.place.work, env=self.environment(), timeout=60)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def read(self, uri: str) -> str | None:
        found = self.call("skills::resources-read", {"uri": uri})
        return found["contents"][0]["text"] if found else None


def eventually(holds: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.1)
    raise Failure(f"not within {PATIENCE_SECONDS} s: {what}")


@contextmanager
def stage(place: Place) -> Iterator[tuple[Hub, ExitStack]]:
    """Runs a hub, and yields a stack that ends workers."""
    hub = Hub(place)
    with ExitStack() as stack:
        hub.start()
        stack.callback(hub.stop, signal.SIGKILL)
        yield hub, stack


def begin(place: Place, stack: ExitStack, sdk: str, hub: Hub) -> Worker:
    worker = Worker(place, sdk, hub.url)
    stack.callback(worker.kill)
    return worker
