"""Skills from the perspective of the published SDKs, and strict verdicts compared with the reference validator.

Run by `cargo xtask test`, or by hand with RKAT and RKAT_MCP set to the programs:
`RKAT=… RKAT_MCP=… .clients/venv/bin/python tests-clients/test_skills.py [PART OF A NAME]`
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client
from skills_ref import validate

from children import MODULES, NODE
from mcp_client import over_http
from skill_survey import write_survey
from skill_tree import write_tree
from support import Failure, Place, Served, expect, main, test

SCRIPT = Path(__file__).resolve().parent / "typescript_skills.mjs"
PROCESS_TIMEOUT_SECONDS = 60
REQUEST_TIMEOUT_SECONDS = 30
SKILLS = 3000

# Time limit for a client to be notified of a change, and number of attempts.
SEEN_WITHIN_SECONDS = 1.0
TRIES = 3

NAME = "deploy"
FIRST = "---\nname: deploy\ndescription: Ship <it> & see.\n---\n# Deploy\n\nFirst.\n"
SECOND = "---\nname: deploy\ndescription: Ship it again.\n---\n# Deploy\n\nSecond.\n"

SERVERS = ["rkat skill serve", "rkat-mcp", "rkat-mcp over HTTP"]


def skill_file(place: Place) -> Path:
    return place.work / ".agent" / "skills" / NAME / "SKILL.md"


def command(place: Place, server: str) -> list[str]:
    """Returns the command line of a server whose project is the working directory."""
    if server == "rkat skill serve":
        return [os.environ["RKAT"], "skill", "serve", "--state-root", str(place.state)]
    return [*place.server(), "--context-root", str(place.work)]


@contextmanager
def reach(place: Place, server: str) -> Iterator[dict[str, Any]]:
    """Returns how to reach a server."""
    if server.endswith("HTTP"):
        extended = Extended(place)
        with extended.http() as served:
            yield {"url": served.url, "headers": served.headers}
    else:
        program, *arguments = command(place, server)
        environment = {"HOME": str(place.home), "PATH": os.environ["PATH"]}
        yield {"command": program, "args": arguments, "env": environment, "cwd": str(place.work)}


class Extended(Place):
    """Returns the same place, for a server that knows the project."""

    def __init__(self, place: Place) -> None:
        self.__dict__.update(place.__dict__)

    def server(self) -> list[str]:
        return [*super().server(), "--context-root", str(self.work)]


def expect_seen(seen: dict[str, Any], text: str | None, description: str | None, when: str) -> None:
    """Checks that every view has the skill with this text, or that none has it."""
    there = text is not None
    for view in ("described", "prompt", "resource", "listed", "browsed"):
        expect(seen.get(view, there), there, f"{when}: {view}")
    if there:
        expect(seen["read"], text, f"{when}: the resource")
        if not seen["loaded"].startswith(f"Loading: {NAME}\nBase directory: ") or not seen["loaded"].endswith(text):
            raise Failure(f"{when}: the tool returned {seen['loaded']!r}")
        if f"<description>{description}</description>" not in seen["description"]:
            raise Failure(f"{when}: the tool's description is {seen['description']!r}")
    elif isinstance(seen["read"], str):
        raise Failure(f"{when}: the resource still reads {seen['read']!r}")


def expect_all(found: dict[str, Any]) -> None:
    expect_seen(found["before"], None, None, "before")
    expect_seen(found["added"], FIRST, "Ship &lt;it> &amp; see.", "added")
    expect_seen(found["edited"], SECOND, "Ship it again.", "edited")
    expect_seen(found["deleted"], None, None, "deleted")
    missing = found["missing"]["content"][0]["text"]
    if not missing.startswith("Skill 'no such skill' not found.\n\nAvailable skills:\n- deploy: "):
        raise Failure(f"a name without a skill: {missing!r}")
    expect(found["empty"]["isError"], True, "an empty name: isError")
    if "Skill name cannot be empty" not in found["empty"]["content"][0]["text"]:
        raise Failure(f"an empty name: {found['empty']}")


def typescript(name: str, server: str, sdk: str) -> None:
    @test(name)
    def _(place: Place) -> None:
        with reach(place, server) as way:
            given = {"modules": str(MODULES.parent), "sdk": sdk, "name": NAME, "first": FIRST, "second": SECOND}
            given |= {"file": str(skill_file(place)), **way}
            done = subprocess.run(
                [str(NODE), str(SCRIPT), json.dumps(given)],
                env={"HOME": str(place.home), "PATH": f"{NODE.parent}:{os.environ['PATH']}"},
                cwd=place.work,
                capture_output=True,
                text=True,
                timeout=PROCESS_TIMEOUT_SECONDS,
            )
        if done.returncode != 0:
            raise Failure(f"the client ended with {done.returncode}\n{done.stderr.strip()}\n{done.stdout.strip()}")
        expect_all(json.loads(done.stdout))


for sdk, title in [("client", "client 2.4.0"), ("sdk", "sdk 1.32.2")]:
    for server in SERVERS:
        typescript(f"TypeScript {title} sees a skill added, changed, and removed: {server}", server, sdk)


class Told:
    """Notifications of the server, as they arrive."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.bell = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        self.methods.append(getattr(message, "method", getattr(getattr(message, "root", None), "method", "")))
        self.bell.set()

    async def changed(self, change: Callable[[], object]) -> float:
        """Makes a change, waits until all lists are reported as changed, and returns how long that took."""
        wanted = {f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")}
        start, begun = len(self.methods), time.monotonic()
        change()
        while not wanted <= set(self.methods[start:]):
            self.bell.clear()
            await self.bell.wait()
        return time.monotonic() - begun


@asynccontextmanager
async def connect(place: Place, server: str, told: Told) -> AsyncIterator[Client]:
    options: dict[str, Any] = {
        "mode": "legacy",
        "read_timeout_seconds": REQUEST_TIMEOUT_SECONDS,
        "message_handler": told,
    }
    with reach(place, server) as way:
        if "url" in way:
            async with over_http(Served(way["url"], way["headers"]), **options) as client:
                yield client
            return
        parameters = StdioServerParameters(
            command=way["command"], args=way["args"], env=way["env"], cwd=way["cwd"]
        )
        with place.log.open("a") as log:
            async with Client(stdio_client(parameters, errlog=log), **options) as client:
                yield client


async def load(client: Client, name: str) -> dict[str, Any]:
    result = await client.call_tool("skill", {"name": name})
    return result.model_dump(mode="json", by_alias=True)


async def look_inside(client: Client) -> dict[str, Any]:
    """Returns the output of the operation that lists skills, and what an agent finds."""
    listed = (await client.call_tool("meerkat_skills", {"action": "list"})).structured_content["skills"]
    prompt = f'call browse_skills {{"query":"{NAME}"}}\nthen\nsay done'
    run = {"prompt": prompt}
    session = (await client.call_tool("meerkat_run", run)).structured_content["session_id"]
    history = (await client.call_tool("meerkat_history", {"session_id": session})).structured_content
    return {
        "listed": any(skill["key"]["skill_name"] == NAME for skill in listed),
        "browsed": f'\\"skill_name\\":\\"{NAME}\\"' in json.dumps(history["messages"][2]),
    }


async def look(client: Client) -> dict[str, Any]:
    """Returns everything that a client can see of the skill."""
    tools = (await client.list_tools()).tools
    tool = next((tool for tool in tools if tool.name == "skill"), None)
    prompts = (await client.list_prompts()).prompts
    resources = (await client.list_resources()).resources
    uri = f"skill://{NAME}/SKILL.md"
    try:
        read: Any = (await client.read_resource(uri)).contents[0].text
    except Exception as problem:  # Whatever the SDK raises, the resource is unavailable.
        read = {"error": str(problem)}
    seen = await look_inside(client) if any(tool.name == "meerkat_skills" for tool in tools) else {}
    return seen | {
        "described": tool is not None and f"<name>{NAME}</name>" in tool.description,
        "description": tool.description if tool else None,
        "prompt": any(prompt.name == NAME for prompt in prompts),
        "resource": any(str(resource.uri) == uri for resource in resources),
        "loaded": (await load(client, NAME.upper()))["content"][0]["text"] if tool else None,
        "read": read,
    }


async def come_and_go(client: Client, told: Told, file: Path) -> float:
    """Adds, changes, and removes a skill; every view follows each notification. Returns the longest wait."""

    def come() -> None:
        file.parent.mkdir(parents=True)
        file.write_text(FIRST)

    found = {"before": await look(client)}
    waits = [await told.changed(come)]
    found["added"] = await look(client)
    found["missing"] = await load(client, "no such skill")
    found["empty"] = await load(client, "")
    waits.append(await told.changed(lambda: file.write_text(SECOND)))
    found["edited"] = await look(client)
    waits.append(await told.changed(lambda: shutil.rmtree(file.parent)))
    found["deleted"] = await look(client)
    expect_all(found)
    return max(waits)


def python(name: str, server: str) -> None:
    @test(name)
    async def _(place: Place) -> None:
        told = Told()
        async with connect(place, server, told) as client:
            # A busy machine may be late once, but not each time.
            waits = []
            while not waits or (waits[-1] > SEEN_WITHIN_SECONDS and len(waits) < TRIES):
                waits.append(await come_and_go(client, told, skill_file(place)))
        expect(waits[-1] <= SEEN_WITHIN_SECONDS, True, f"a change is reported within a second, not after {waits}")


for server in SERVERS:
    python(f"the Python SDK sees a skill added, changed, and removed: {server}", server)


def rkat(place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(place.home), "PATH": os.environ["PATH"]}
    program = [os.environ["RKAT"], "--state-root", str(place.state), *arguments]
    return subprocess.run(
        program, env=environment, cwd=place.work, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def is_valid(directory: Path) -> bool:
    """Returns the verdict of the reference validator. It fails on a few files, which then count as invalid."""
    try:
        return not validate(directory)
    except Exception:
        return False


def expect_same_verdicts(place: Place, tree: Path, directories: list[Path]) -> None:
    linted = json.loads(rkat(place, "skill", "lint", "--strict", "--json", str(tree)).stdout)["skills"]
    ours = {Path(entry["path"]).parent: entry for entry in linted}
    expect(sorted(set(directories) - set(ours)), [], "directories that were not checked")
    other = [str(directory) for directory in directories if ours[directory]["valid"] != is_valid(directory)]
    expect(other, [], "directories with another verdict")
    expect(sum(entry["valid"] for entry in linted) > SKILLS // 20, True, "a fair share of the skills is valid")


@test(f"strict verdicts over {SKILLS} skills in all styles match the reference validator")
def _(place: Place) -> None:
    tree = (place.work / "tree").resolve()
    expect_same_verdicts(place, tree, write_tree(tree, SKILLS))


@test(f"strict verdicts over {SKILLS} skills with the quirks of public ones match the reference validator")
def _(place: Place) -> None:
    tree = (place.work / "tree").resolve()
    expect_same_verdicts(place, tree, [file.parent for file in write_survey(tree, SKILLS).skills])


def listed(place: Place, tree: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the skills of a directory that load, and those that are reported as skipped."""
    found = json.loads(rkat(place, "skill", "list", "--all", "--json", "--skill-dir", str(tree)).stdout)
    loaded = [skill for skill in found["skills"] if str(skill["path"] or "").startswith(str(tree))]
    skipped = [problem for problem in found["problems"] if problem["effect"] in ("skipped", "unreadable")]
    unexplained = [one for one in skipped if not (one["path"] and one["line"] and one["reason"] and one["fix"])]
    expect(unexplained, [], "skipped skills without file, line, reason, and fix")
    return loaded, skipped


@test(f"each of {SKILLS} skills in all styles loads, or is reported as skipped with a reason")
def _(place: Place) -> None:
    tree = (place.work / "tree").resolve()
    write_tree(tree, SKILLS)
    loaded, skipped = listed(place, tree)
    expect(len(loaded) + len(skipped), SKILLS, "skills that load or are reported as skipped")
    # A skill is skipped only if it lacks a name or a description, whatever other problems it has.
    reasons = {
        "the frontmatter is missing",
        "the file is empty",
        "the frontmatter is not closed",
        *(f"`{key}` is {what}" for key in ("name", "description") for what in ("missing", "empty")),
    }
    expect({problem["reason"] for problem in skipped}, reasons, "reasons for skipped skills")


@test(f"of {SKILLS} skills with the quirks of public ones, 97 % load and the others are reported")
def _(place: Place) -> None:
    tree = (place.work / "tree").resolve()
    written = write_survey(tree, SKILLS)
    loaded, skipped = listed(place, tree)
    paths = {Path(skill["path"]) for skill in loaded}
    told = {Path(problem["path"]) for problem in skipped}
    expect(sorted({file.parent for file in written.skills} - paths - {file.parent for file in told}), [], "unreported")
    expect(len(loaded) + len(skipped), len(written.skills), "skills that load or are reported as skipped")
    expect(sorted(told & set(written.links)), [], "symlinks that are not followed")
    share = 100 * len(loaded) / len(written.skills)
    expect(share >= 97, True, f"{share:.1f} of 100 load")


if __name__ == "__main__":
    main()
