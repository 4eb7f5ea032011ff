"""The official MCP conformance suite, against a fixture server on the same protocol code, and against the product.

The suite expects tools and resources by name, so a product cannot pass it unmodified: the fixtures are in an example
of the server's crate. The product runs every scenario that needs none of them.

Run by `cargo xtask test`, or by hand with RKAT_MCP and CONFORMANCE_SERVER set to the programs:
`RKAT_MCP=target/debug/rkat-mcp CONFORMANCE_SERVER=target/debug/examples/conformance_server \\
 .clients/venv/bin/python tests-clients/test_conformance.py [PART OF A NAME]`
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from children import MODULES, NODE
from support import Failure, Place, listening, main, test

SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
HERE = Path(__file__).resolve().parent

# Known failures, each with its reason. One that is listed and does not fail is a failure too.
FIXTURES_BASELINE = HERE / "conformance-fixtures.yml"
PRODUCT_BASELINE = HERE / "conformance-product.yml"

PROCESS_TIMEOUT_SECONDS = 300

LEGACY, MODERN = "2025-11-25", "2026-07-28"

# The suite has another one, `tasks-status-notifications`, which it skips itself.
TASKS = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
]

# Scenarios that the frozen requirements of a revision do not score, but a server can pass.
UNSCORED = [
    (LEGACY, "server-session-lifecycle"),
    (LEGACY, "json-schema-2020-12"),
    (MODERN, "json-schema-2020-12"),
    (MODERN, "http-header-validation"),
    (MODERN, "http-custom-header-server-validation"),
]

# Scenarios for any server.
FIXTURE_FREE = [
    (LEGACY, "server-initialize"),
    (LEGACY, "server-session-lifecycle"),
    (LEGACY, "ping"),
    (LEGACY, "logging-set-level"),
    (LEGACY, "tools-list"),
    (LEGACY, "resources-list"),
    (LEGACY, "resources-subscribe"),
    (LEGACY, "resources-unsubscribe"),
    (LEGACY, "prompts-list"),
    (LEGACY, "server-sse-multiple-streams"),
    (LEGACY, "dns-rebinding-protection"),
    (MODERN, "server-stateless"),
    (MODERN, "tools-list"),
    (MODERN, "resources-list"),
    (MODERN, "prompts-list"),
    (MODERN, "server-sse-multiple-streams"),
    (MODERN, "dns-rebinding-protection"),
    (MODERN, "caching"),
    (MODERN, "sep-2164-resource-not-found"),
    (MODERN, "http-header-validation"),
]


def judge(place: Place, url: str, baseline: Path, *arguments: str) -> None:
    """Runs the suite; fails unless the failures are exactly those of the baseline."""
    command = [str(NODE), str(SUITE), "server", "--url", url, "--expected-failures", str(baseline), *arguments]
    environment = {"HOME": str(place.home), "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=place.work, env=environment, capture_output=True, text=True, timeout=PROCESS_TIMEOUT_SECONDS
    )
    output = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    if done.returncode != 0:
        raise Failure(f"{' '.join(arguments)}: the suite ended with {done.returncode}\n{output.strip()[-6000:]}")
    if "Passed: 0/0" in output:
        raise Failure(f"{' '.join(arguments)}: the suite checked nothing\n{output.strip()[-2000:]}")


def on_fixtures(place: Place, *arguments: str) -> None:
    with listening([os.environ["CONFORMANCE_SERVER"]], place.log, cwd=place.work) as url:
        judge(place, url, FIXTURES_BASELINE, *arguments)


def on_product(place: Place, *arguments: str) -> None:
    # The suite cannot send a token.
    with place.http("--no-token") as served:
        judge(place, served.url, PRODUCT_BASELINE, *arguments)


@test(f"the fixtures meet every requirement of {LEGACY}")
def _(place: Place) -> None:
    on_fixtures(place, "--requirements", LEGACY)


@test(f"the fixtures meet every requirement of {MODERN}")
def _(place: Place) -> None:
    on_fixtures(place, "--requirements", MODERN)


def add(name: str, run, revision: str, scenario: str) -> None:
    test(name)(lambda place: run(place, "--spec-version", revision, "--scenario", scenario))


for revision, scenario in UNSCORED:
    add(f"the fixtures pass {scenario} of {revision}", on_fixtures, revision, scenario)
for scenario in TASKS:
    test(f"the fixtures pass {scenario}")(lambda place, scenario=scenario: on_fixtures(place, "--scenario", scenario))
for revision, scenario in FIXTURE_FREE:
    add(f"the product passes {scenario} of {revision}", on_product, revision, scenario)


if __name__ == "__main__":
    main()
