"""OpenAI Chat Completions, as OpenAI and self-hosted servers accept it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from openai.types.chat import completion_create_params

import judge_rules as rules
from judge_responses import OPENAI_MODEL, arguments, function_tools, output_format, sampling
from judge_types import judge_types

# Fields in which servers other than OpenAI's expect the assistant's reasoning back.
REASONING_FIELDS = ("reasoning", "reasoning_content")


def judge(body: dict[str, Any], _headers: Mapping[str, str]) -> list[str]:
    """Returns the problems of the body."""
    typed = body if OPENAI_MODEL.match(str(body.get("model"))) else without_reasoning(body)
    if findings := judge_types(completion_create_params.CompletionCreateParamsStreaming, typed):
        return findings
    findings = conversation(body["messages"])
    if body.get("tools") == []:
        findings.append("body.tools: empty")
    findings += function_tools(body.get("tools") or [], "body.tools") + sampling(body)
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        findings += output_format(wanted["json_schema"], "body.response_format.json_schema")
    if "max_tokens" in body and "max_completion_tokens" in body:
        findings.append("body.max_tokens: rejected together with max_completion_tokens")
    if not (body.get("stream_options") or {}).get("include_usage"):
        findings.append("body.stream_options: without include_usage, the cost is unknown")
    return findings


def without_reasoning(body: dict[str, Any]) -> dict[str, Any]:
    body = copy.deepcopy(body)
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else []:
        for key in REASONING_FIELDS:
            if isinstance(message, dict) and message.get("role") == "assistant" and isinstance(message.get(key), str):
                del message[key]
    return body


def conversation(messages: list[dict[str, Any]]) -> list[str]:
    findings = [] if messages else ["body.messages: empty"]
    open_calls: list[str] = []
    used: list[str] = []
    for at, message in enumerate(messages):
        place, role = f"body.messages[{at}]", message["role"]
        if role == "tool":
            if message["tool_call_id"] in open_calls:
                open_calls.remove(message["tool_call_id"])
            else:
                findings.append(f"{place}: result {message['tool_call_id']!r} answers no open call")
        else:
            findings += [f"{place}: call {call!r} is not answered before it" for call in open_calls]
            open_calls = [call["id"] for call in message.get("tool_calls") or []]
            used += open_calls
        if at and role == messages[at - 1]["role"] and role in ("user", "assistant"):
            findings.append(f"{place}.role: two messages of the {role} in a row")
        if role == "system" and at:
            findings.append(f"{place}.role: instructions must come first")
        findings += message_findings(message, place)
    findings += [f"body.messages: call {call!r} is never answered" for call in open_calls]
    return findings + rules.unique(used, "body.messages: ids of calls")


def message_findings(message: dict[str, Any], place: str) -> list[str]:
    findings = []
    calls = message.get("tool_calls")
    if calls == []:
        findings.append(f"{place}.tool_calls: empty")
    for at, call in enumerate(calls or []):
        here = f"{place}.tool_calls[{at}].function"
        findings += rules.name(call["function"]["name"], f"{here}.name")
        findings += arguments(call["function"]["arguments"], f"{here}.arguments")
        findings += rules.identifier(call["id"], f"{place}.tool_calls[{at}].id")
    content = message.get("content")
    if content is None:
        return findings if calls else [*findings, f"{place}.content: missing, without calls"]
    if isinstance(content, str):
        return findings + rules.text(content, f"{place}.content")
    findings += [] if content else [f"{place}.content: empty"]
    for at, part in enumerate(content):
        here = f"{place}.content[{at}]"
        if part["type"] == "text":
            findings += rules.text(part["text"], f"{here}.text")
        if part["type"] == "image_url":
            findings += rules.data_url(part["image_url"]["url"], f"{here}.image_url.url")
    return findings
