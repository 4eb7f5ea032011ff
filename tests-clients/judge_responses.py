"""OpenAI Responses, and the rules that it shares with Chat Completions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from openai.types.responses import response_create_params

import judge_rules as rules
from judge_types import judge_types

# Prefixes of OpenAI's own models; other servers accept more and return less.
OPENAI_MODEL = re.compile(r"(gpt-|chatgpt-|codex-|o\d)")

LEAST_OUTPUT = 16
LONGEST_ID = 64
ENCRYPTED = "reasoning.encrypted_content"

# Prefixes of the ids that OpenAI assigns to items; it rejects others.
ID_STARTS = {"message": "msg", "reasoning": "rs", "function_call": "fc", "web_search_call": "ws"}


def headers(headers: Mapping[str, str]) -> list[str]:
    """Returns the problems of the headers."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return [] if scheme == "Bearer" and key.strip() else ["headers.authorization: no bearer token"]


def judge(body: dict[str, Any], _headers: Mapping[str, str]) -> list[str]:
    """Returns the problems of the body."""
    if findings := judge_types(response_create_params.ResponseCreateParamsStreaming, body):
        return findings
    is_openai = bool(OPENAI_MODEL.match(str(body.get("model"))))
    said = body.get("input", "")
    if isinstance(said, str):
        findings = rules.text(said, "body.input")
    else:
        findings = conversation(said) + (marks(said) if is_openai else [])
    findings += function_tools(body.get("tools") or [], "body.tools")
    findings += sampling(body)
    wanted = (body.get("text") or {}).get("format") or {}
    if wanted.get("type") == "json_schema":
        findings += output_format(wanted, "body.text.format")
    limit = body.get("max_output_tokens")
    if limit is not None and limit < LEAST_OUTPUT:
        findings.append(f"body.max_output_tokens: {limit}, at least {LEAST_OUTPUT} is needed")
    is_lost = body.get("reasoning") and body.get("store") is False and ENCRYPTED not in (body.get("include") or [])
    if is_openai and is_lost:
        findings.append(f"body.include: without {ENCRYPTED!r} and without storage, reasoning is lost")
    return findings


def conversation(items: list[dict[str, Any]]) -> list[str]:
    findings = [] if items else ["body.input: empty"]
    open_calls: dict[str, str] = {}
    known: list[str] = []
    for at, item in enumerate(items):
        place = f"body.input[{at}]"
        following = items[at + 1] if at + 1 < len(items) else {}
        match kind_of(item):
            case "function_call":
                findings += call_findings(item, place)
                if item["call_id"] in known:
                    findings.append(f"{place}.call_id: {item['call_id']!r} is used twice")
                known.append(item["call_id"])
                open_calls[item["call_id"]] = place
            case "function_call_output":
                if open_calls.pop(item["call_id"], None) is None:
                    findings.append(f"{place}: output of {item['call_id']!r}, which is not an open call")
                findings += parts(item["output"], f"{place}.output")
            case "message":
                findings += still_open(open_calls, place) + parts(item["content"], f"{place}.content")
                open_calls.clear()
            case "reasoning":
                if not following or following.get("role") == "user" or kind_of(following) == "function_call_output":
                    findings.append(f"{place}: reasoning that leads to nothing")
    return findings + still_open(open_calls, "body.input: at the end")


def still_open(calls: dict[str, str], place: str) -> list[str]:
    return [f"{place}: call {call!r} at {where} is not answered" for call, where in calls.items()]


def call_findings(item: dict[str, Any], place: str) -> list[str]:
    findings = rules.name(item["name"], f"{place}.name") + arguments(item["arguments"], f"{place}.arguments")
    return findings + rules.identifier(item["call_id"], f"{place}.call_id", LONGEST_ID)


def marks(items: list[dict[str, Any]]) -> list[str]:
    """Checks that OpenAI's own items are returned unchanged; other servers are less strict."""
    findings = []
    for at, item in enumerate(items):
        place, own, start = f"body.input[{at}]", item.get("id"), ID_STARTS.get(kind_of(item), "")
        if own is not None and (not own.startswith(start) or len(own) > LONGEST_ID):
            findings.append(f"{place}.id: {own!r} does not start with {start!r} or is longer than {LONGEST_ID}")
        if kind_of(item) == "reasoning" and not item.get("encrypted_content"):
            findings.append(f"{place}: reasoning without its encrypted content")
    return findings + rules.unique([item["id"] for item in items if item.get("id")], "body.input: ids")


def kind_of(item: dict[str, Any]) -> str:
    return item.get("type") or "message"


def parts(content: Any, place: str) -> list[str]:
    """Checks the parts of a message or of a tool result."""
    if isinstance(content, str):
        return rules.text(content, place)
    findings = [] if content else [f"{place}: empty"]
    for at, part in enumerate(content):
        if part["type"] in ("input_text", "output_text"):
            findings += rules.text(part["text"], f"{place}[{at}].text")
        if part["type"] == "input_image" and part.get("image_url"):
            findings += rules.data_url(part["image_url"], f"{place}[{at}].image_url")
    return findings


def arguments(text: str, place: str) -> list[str]:
    """Checks the arguments of a call, which are an object in a string."""
    try:
        is_object = isinstance(json.loads(text), dict)
    except ValueError:
        is_object = False
    return [] if is_object else [f"{place}: not the JSON text of an object"]


def function_tools(tools: list[dict[str, Any]], place: str) -> list[str]:
    """Checks custom tools; in Chat Completions they are one level deeper."""
    findings, names = [], []
    for at, tool in enumerate(tools):
        if tool["type"] != "function":
            continue
        here = f"{place}[{at}].function" if "function" in tool else f"{place}[{at}]"
        function = tool.get("function", tool)
        names.append(function["name"])
        findings += rules.name(function["name"], f"{here}.name")
        schema = function.get("parameters")
        if schema is not None:
            findings += rules.tool_schema(schema, f"{here}.parameters")
            findings += rules.strict_schema(schema, f"{here}.parameters") if function.get("strict") else []
    return findings + rules.unique(names, place)


def sampling(body: dict[str, Any]) -> list[str]:
    temperature = body.get("temperature")
    if temperature is not None and not 0 <= temperature <= 2:
        return [f"body.temperature: {temperature} is out of range"]
    return []


def output_format(wanted: dict[str, Any], place: str) -> list[str]:
    """Checks the schema of a structured output."""
    findings = rules.name(wanted["name"], f"{place}.name")
    schema = wanted.get("schema", {})
    if broken := rules.schema(schema, f"{place}.schema"):
        return findings + broken
    return findings + (rules.strict_schema(schema, f"{place}.schema") if wanted.get("strict") else [])
