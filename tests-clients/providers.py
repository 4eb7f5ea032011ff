"""`rkat` and `rkat-mcp` with models behind servers that stand in for the providers."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import Any

from support import Failure, Place, expect, show

RUN_SECONDS = 120

# Keys for the stand-ins. No real key is passed on, and none of these may ever be displayed.
KEYS = {
    "ANTHROPIC_API_KEY": "secret-of-anthropic",
    "OPENAI_API_KEY": "secret-of-openai",
    "GEMINI_API_KEY": "secret-of-gemini",
    "DESK_TOKEN": "secret-of-the-desk",
}


@dataclass(frozen=True)
class Format:
    """A wire format, with its provider and one of its models."""

    provider: str
    model: str


ANTHROPIC = Format("anthropic", "claude-sonnet-4-5")
OPENAI = Format("openai", "gpt-5.4")
GEMINI = Format("gemini", "gemini-3.5-flash")
SELF_HOSTED = Format("self_hosted", "desk-model")
FORMATS = [ANTHROPIC, OPENAI, GEMINI, SELF_HOSTED]


@dataclass(frozen=True)
class Bases:
    """Base URLs of the stand-ins."""

    anthropic: str
    openai: str
    gemini: str
    self_hosted: str


@dataclass(frozen=True)
class Run:
    """The terminal output of `rkat run`, and the events that it printed."""

    exit_code: int
    reply: dict[str, Any]
    events: list[dict[str, Any]]
    errors: list[str]

    def retries(self) -> list[str]:
        """Returns the reason for each retry."""
        return [event["error"] for event in self.of("retrying")]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    def answer(self, what: str) -> str:
        """Returns the text of a successful run."""
        if self.exit_code != 0:
            raise Failure(f"{what}: exit {self.exit_code}: {show(self.reply)}")
        return self.reply["text"]

    def failure(self, what: str) -> dict[str, Any]:
        """Checks the report of a failed run: code, class, cause, and message, on stdout and on stderr."""
        expect(self.exit_code, 1, f"{what}: exit code")
        error = self.reply["error"]
        expect(self.errors[0], f"error: {error['message']} [{error['code']}]", f"{what}: first line for people")
        data = error["data"]
        return {
            "code": error["code"],
            "class": data["error_class"],
            "cause": data["terminal_cause_kind"],
            "resumable": data["resumable"],
            "message": error["message"],
        }


def configure(place: Place, bases: Bases, **keys: Any) -> None:
    """Writes a config in which every provider uses its stand-in; `keys` are further sections."""
    document = {
        "providers": {name: {"base_url": getattr(bases, name)} for name in ("anthropic", "openai", "gemini")},
        "self_hosted": {
            "servers": {"desk": {"base_url": bases.self_hosted, "bearer_token_env": "DESK_TOKEN"}},
            "models": {SELF_HOSTED.model: {"server": "desk", "remote_model": "remote-model"}},
        },
        **keys,
    }
    done = rkat(place, "config", "set", "--json", json.dumps(document))
    if done.returncode != 0:
        raise Failure(f"rkat config set: {done.stderr}")


def rkat(place: Place, *arguments: str, seconds: float = RUN_SECONDS) -> subprocess.CompletedProcess[str]:
    """Runs `rkat` until it exits."""
    command = [os.environ["RKAT"], "--state-root", str(place.state), "--realm", "test", *arguments]
    environment = {"HOME": str(place.home), "PATH": os.environ["PATH"], **KEYS}
    return subprocess.run(
        command,
        env=environment,
        cwd=place.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def run(place: Place, model: Format | str, prompt: str, *arguments: str, seconds: float = RUN_SECONDS) -> Run:
    """Makes one run and parses its output."""
    name = model if isinstance(model, str) else model.model
    done = rkat(place, "run", "--json", "--verbose", "--model", name, *arguments, prompt, seconds=seconds)
    place.log.write_text(done.stderr)
    for secret in KEYS.values():
        if secret in done.stdout + done.stderr:
            raise Failure(f"the output contains a key: {done.stdout}{done.stderr}")
    lines = done.stderr.splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    try:
        reply = json.loads(done.stdout)
    except ValueError:
        raise Failure(f"exit {done.returncode}, stdout is not JSON: {done.stdout!r}\n{done.stderr}") from None
    return Run(done.returncode, reply, events, [line for line in lines if not line.startswith("{")])
