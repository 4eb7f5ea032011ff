"""Validates a request to a model provider as the provider would, before it costs anything.

`judge(request)` returns findings, each a line with a path and the problem there; an empty list means that the request
is valid. The providers' own SDKs check shapes (see `judge_types`); rules that types cannot express are in one module
for each provider: matching calls and results, order of roles, supported schema keywords, required headers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import judge_anthropic
import judge_chat
import judge_gemini
import judge_responses

GEMINI_PATH = re.compile(r"/(v1|v1beta)/models/[A-Za-z0-9._-]+:streamGenerateContent")

# URL parameters that have carried keys; URLs are logged, unlike headers.
KEY_PARAMETERS = {"key", "api_key", "access_token"}


@dataclass(frozen=True)
class Request:
    """A request as received: the path with its query, the headers in any case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    lowered: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lowered", {name.lower(): value for name, value in self.headers.items()})


@dataclass(frozen=True)
class Format:
    """One wire format."""

    name: str
    is_path: Callable[[str], object]
    judge: Callable[[dict[str, Any], Mapping[str, str]], list[str]]
    headers: Callable[[Mapping[str, str]], list[str]]


FORMATS = [
    Format("anthropic", "/v1/messages".__eq__, judge_anthropic.judge, judge_anthropic.headers),
    Format("responses", "/v1/responses".__eq__, judge_responses.judge, judge_responses.headers),
    Format("chat", "/v1/chat/completions".__eq__, judge_chat.judge, judge_responses.headers),
    Format("gemini", GEMINI_PATH.fullmatch, judge_gemini.judge, judge_gemini.headers),
]


def format_of(path: str) -> Format | None:
    """Returns the format that a path belongs to."""
    bare = urlsplit(path).path
    return next((known for known in FORMATS if known.is_path(bare)), None)


def judge(request: Request) -> list[str]:
    """Returns all problems of a request."""
    known = format_of(request.path)
    if known is None:
        return [f"path: no provider has {request.path!r}"]
    findings = [] if request.method == "POST" else [f"method: {request.method}, not POST"]
    findings += url_findings(known, request.path)
    content_type = request.lowered.get("content-type", "")
    if content_type.split(";")[0].strip() != "application/json":
        findings.append(f"headers.content-type: {content_type!r}, not application/json")
    findings += known.headers(request.lowered)
    if not isinstance(request.body, dict):
        return [*findings, "body: not an object"]
    body = dict(request.body)
    if known.name == "gemini":
        # For Gemini, the model is in the path, and some rules depend on it.
        body = {"model": urlsplit(request.path).path.rsplit("/", 1)[-1].split(":")[0], **body}
        findings += ["body.model: unknown field"] if "model" in request.body else []
    return findings + known.judge(body, request.lowered)


def url_findings(known: Format, path: str) -> list[str]:
    query = parse_qs(urlsplit(path).query, keep_blank_values=True)
    findings = [f"url: the key is in the parameter `{name}`" for name in query if name in KEY_PARAMETERS]
    if known.name == "gemini" and query.get("alt") != ["sse"]:
        findings.append("url: no `alt=sse`, so the answer is not streamed as events")
    return findings
