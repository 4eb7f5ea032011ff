"""Anthropic Messages, in the API versions 2023-06-01 and 2026-10-21."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from anthropic.types import AnthropicBetaParam
from anthropic.types import message_create_params as stable
from anthropic.types.beta import message_create_params as beta

import judge_rules as rules
from judge_types import judge_types, literals

OLD, NEW = "2023-06-01", "2026-10-21"

# The SDK's newer types have no sampling parameters; the older version of the API still accepts them.
SAMPLING = {"temperature": (0, 1), "top_p": (0, 1), "top_k": (0, None)}

# Values that the SDK takes as arguments and sends as headers.
NOT_IN_BODY = ("betas", "user_profile_id", "workspace_id")

MOST_CACHE_MARKS = 4
LEAST_BUDGET = 1024

# A call may have the name of a tool that is no longer available, or never was.
CALL = {"id": re.compile(r"[a-zA-Z0-9_-]+"), "name": re.compile(r"[a-zA-Z0-9_-]{1,128}")}
THINKING = ("thinking", "redacted_thinking")
ASSISTANT_ONLY = (*THINKING, "tool_use", "server_tool_use")
USER_ONLY = ("tool_result", "image")


def headers(headers: Mapping[str, str]) -> list[str]:
    """Returns the problems of the headers."""
    version = headers.get("anthropic-version")
    findings = [] if version in (OLD, NEW) else [f"headers.anthropic-version: {version!r} is unknown"]
    asked = [name.strip() for name in headers.get("anthropic-beta", "").split(",") if name.strip()]
    known = literals(AnthropicBetaParam)
    findings += [f"headers.anthropic-beta: {name!r} is unknown" for name in asked if name not in known]
    return findings if headers.get("x-api-key") else [*findings, "headers.x-api-key: missing"]


def judge(body: dict[str, Any], headers: Mapping[str, str]) -> list[str]:
    """Returns the problems of the body."""
    version = headers.get("anthropic-version", NEW)
    typed = dict(body)
    sampling = {key: typed.pop(key) for key in SAMPLING if key in typed} if version == OLD else {}
    kind = beta if headers.get("anthropic-beta") else stable
    findings = judge_types(kind.MessageCreateParamsStreaming, typed)
    findings += [f"body.{key}: belongs in a header" for key in NOT_IN_BODY if key in body]
    if findings:
        return findings
    findings += conversation(body["messages"], version)
    findings += [f for at, tool in enumerate(body.get("tools") or []) for f in tool_findings(tool, f"body.tools[{at}]")]
    findings += rules.unique([tool["name"] for tool in body.get("tools") or [] if "name" in tool], "body.tools")
    findings += settings(body) + sampling_findings(sampling, body)
    if isinstance(system := body.get("system"), list):
        for at, block in enumerate(system):
            findings += rules.text(block["text"], f"body.system[{at}]")
    marks = cache_marks(body)
    return findings if marks <= MOST_CACHE_MARKS else [*findings, f"body: {marks} cache marks, 4 are allowed"]


def conversation(messages: list[dict[str, Any]], version: str) -> list[str]:
    if not messages:
        return ["body.messages: empty"]
    findings: list[str] = []
    used: list[str] = []
    if messages[0]["role"] != "user":
        findings.append("body.messages[0].role: the user must speak first")
    if messages[-1]["role"] == "assistant" and not is_server_side(blocks(messages[-1])[-1:]):
        findings.append(f"body.messages[{len(messages) - 1}].role: the user must speak last")
    for at, message in enumerate(messages):
        place = f"body.messages[{at}]"
        before = messages[at - 1] if at else {"role": None, "content": []}
        if message["role"] == before["role"]:
            findings.append(f"{place}.role: two messages of the {message['role']} in a row")
        findings += message_findings(message, place, version)
        findings += results_findings(blocks(before), blocks(message), place)
        used += [block["id"] for block in blocks(message) if block["type"] == "tool_use"]
        if at == len(messages) - 1 and any(block["type"] == "tool_use" for block in blocks(message)):
            findings.append(f"{place}: calls that are never answered")
        if at < len(messages) - 1:
            findings += server_findings(blocks(message), place)
    return findings + rules.unique(used, "body.messages: ids of calls")


def message_findings(message: dict[str, Any], place: str, version: str) -> list[str]:
    own = blocks(message)
    findings = [] if own else [f"{place}.content: empty"]
    for at, block in enumerate(own):
        kind, here = block["type"], f"{place}.content[{at}]"
        if kind in ASSISTANT_ONLY and message["role"] != "assistant":
            findings.append(f"{here}: {kind} outside an assistant message")
        if kind in USER_ONLY and message["role"] != "user":
            findings.append(f"{here}: {kind} outside a user message")
        if kind in THINKING:
            findings += thinking_findings(own, at, here)
        findings += block_findings(block, here)
        if version == NEW and kind == "text" and message["role"] == "user" and block.get("citations"):
            findings.append(f"{here}.citations: rejected in user messages since {NEW}")
        if version == NEW and kind == "document" and message["role"] == "assistant":
            findings.append(f"{here}: documents are rejected in assistant messages since {NEW}")
    return findings


def block_findings(block: dict[str, Any], place: str) -> list[str]:
    match block["type"]:
        case "text":
            return rules.text(block["text"], f"{place}.text")
        case "image" if block["source"]["type"] == "base64":
            return rules.encoded(block["source"]["data"], f"{place}.source.data")
        case "tool_use":
            return [
                f"{place}.{key}: {block[key]!r} does not match ^{pattern.pattern}$"
                for key, pattern in CALL.items()
                if not pattern.fullmatch(block[key])
            ]
        case "tool_result" if isinstance(block.get("content"), list):
            parts = block["content"]
            findings = [f for at, part in enumerate(parts) for f in block_findings(part, f"{place}.content[{at}]")]
            if block.get("is_error") and any(part["type"] != "text" for part in parts):
                findings.append(f"{place}.content: a failure may hold only text")
            return findings
        case _:
            return []


def thinking_findings(own: list[dict[str, Any]], at: int, place: str) -> list[str]:
    """Thinking comes first, or after calls of the provider's own tools, and is followed by other content."""
    block = own[at]
    findings = []
    if not block.get("signature" if block["type"] == "thinking" else "data"):
        findings.append(f"{place}: thinking without its signature")
    if at and own[at - 1]["type"] in ("text", "tool_use"):
        findings.append(f"{place}: thinking must come first")
    if at == len(own) - 1:
        findings.append(f"{place}: thinking may not be the last block")
    return findings


def results_findings(before: list[dict[str, Any]], own: list[dict[str, Any]], place: str) -> list[str]:
    """Each call of the previous message has one result here, before other content; nothing else is a result."""
    calls = [block["id"] for block in before if block["type"] == "tool_use"]
    answers = [block["tool_use_id"] for block in own if block["type"] == "tool_result"]
    findings = [f"{place}: call {call!r} is not answered right after it" for call in calls if call not in answers]
    orphans = [answer for answer in answers if answer not in calls]
    findings += [f"{place}: result {orphan!r} answers no call of the previous message" for orphan in orphans]
    findings += rules.unique(answers, f"{place}: results")
    if any(block["type"] != "tool_result" for block in own[: len(answers)]):
        findings.append(f"{place}: results must come before anything else")
    return findings


def server_findings(own: list[dict[str, Any]], place: str) -> list[str]:
    """Calls of the provider's own tools have their results in the same message."""
    calls = {block["id"] for block in own if block["type"] == "server_tool_use"}
    answers = {block["tool_use_id"] for block in own if block["type"].endswith("_tool_result")}
    findings = [f"{place}: server call {call!r} has no result" for call in sorted(calls - answers)]
    return findings + [f"{place}: server result {one!r} has no call" for one in sorted(answers - calls)]


def is_server_side(own: list[dict[str, Any]]) -> bool:
    return any(block["type"] == "server_tool_use" or block["type"].endswith("_tool_result") for block in own)


def tool_findings(tool: dict[str, Any], place: str) -> list[str]:
    findings = rules.name(tool["name"], f"{place}.name") if "name" in tool else []
    if "input_schema" in tool:
        findings += rules.tool_schema(tool["input_schema"], f"{place}.input_schema")
        findings += rules.property_names(tool["input_schema"], f"{place}.input_schema")
    return findings


def settings(body: dict[str, Any]) -> list[str]:
    findings = [] if body["max_tokens"] > 0 else ["body.max_tokens: must be positive"]
    choice, thinking = body.get("tool_choice") or {}, body.get("thinking") or {}
    if choice and not body.get("tools"):
        findings.append("body.tool_choice: no tools")
    if choice.get("type") == "tool" and choice["name"] not in [tool.get("name") for tool in body.get("tools") or []]:
        findings.append(f"body.tool_choice.name: no tool is named {choice['name']!r}")
    if thinking.get("type") == "enabled":
        budget = thinking["budget_tokens"]
        if not LEAST_BUDGET <= budget < body["max_tokens"]:
            findings.append(f"body.thinking.budget_tokens: {budget} is not from {LEAST_BUDGET} to below max_tokens")
        if choice.get("type") in ("any", "tool"):
            findings.append("body.tool_choice: a call cannot be forced with thinking on")
        findings += began_without_thinking(body["messages"])
    schema = ((body.get("output_config") or {}).get("format") or {}).get("schema")
    if schema is not None:
        place = "body.output_config.format.schema"
        findings += rules.schema(schema, place) or [
            *rules.closed(schema, place),
            *rules.keywords(schema, place, refused=rules.ANTHROPIC_REFUSED),
        ]
    return findings


def began_without_thinking(messages: list[dict[str, Any]]) -> list[str]:
    """With a budget, the active turn must have started with thinking."""
    for at in reversed(range(len(messages))):
        own = blocks(messages[at])
        if messages[at]["role"] == "user" and not any(block["type"] == "tool_result" for block in own):
            break
    following = [message for message in messages[at + 1 :] if message["role"] == "assistant"]
    if following and blocks(following[0])[0]["type"] not in THINKING:
        return [f"body.messages[{at + 1}]: thinking is on, and the active turn started without"]
    return []


def sampling_findings(sampling: dict[str, Any], body: dict[str, Any]) -> list[str]:
    findings = []
    for key, value in sampling.items():
        low, high = SAMPLING[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            findings.append(f"body.{key}: not a number")
        elif value < low or high is not None and value > high:
            findings.append(f"body.{key}: {value} is out of range")
    if "temperature" in sampling and "top_p" in sampling:
        findings.append("body.top_p: rejected together with temperature")
    if sampling and (body.get("thinking") or {}).get("type", "disabled") != "disabled":
        findings += [f"body.{key}: rejected with thinking on" for key in sampling]
    return findings


def cache_marks(value: Any) -> int:
    """Counts the blocks marked as cache breakpoints, ignoring data."""
    if isinstance(value, list):
        return sum(cache_marks(one) for one in value)
    if not isinstance(value, dict):
        return 0
    own = 1 if value.get("cache_control") else 0
    return own + sum(cache_marks(one) for key, one in value.items() if key not in ("input", "input_schema", "schema"))


def blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
