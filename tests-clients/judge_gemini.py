"""Gemini's streamGenerateContent, as the Developer API accepts it on v1beta and v1."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Optional

from google import genai
from google.genai import models as converters
from google.genai import types
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

import judge_rules as rules
from judge_types import judge_types

# A part has exactly one of these.
KINDS = (
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
    "toolCall", "toolResponse",
)  # fmt: skip

# The content of these is not defined by the provider.
FREE = ("args", "response", "parametersJsonSchema", "responseJsonSchema")

IMAGES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")

# Starting with this generation, a call must have a signature.
SIGNED_SINCE = 3


class Body(BaseModel):
    """The body; the SDK has types for its parts and assembles them manually."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    contents: list[types.Content]
    system_instruction: Optional[types.Content] = None
    tools: Optional[list[types.Tool]] = None
    tool_config: Optional[types.ToolConfig] = None
    safety_settings: Optional[list[types.SafetySetting]] = None
    generation_config: Optional[types.GenerationConfig] = None
    cached_content: Optional[str] = None
    service_tier: Optional[types.ServiceTier] = None


def headers(headers: Mapping[str, str]) -> list[str]:
    """Returns the problems of the headers."""
    return [] if headers.get("x-goog-api-key") else ["headers.x-goog-api-key: missing"]


def judge(body: dict[str, Any], _headers: Mapping[str, str]) -> list[str]:
    """Returns the problems of the body, with the model from the path under `model`."""
    model = body.pop("model")
    if findings := judge_types(Body, body) or converted(body):
        return findings
    body = spelled(body)
    findings = conversation(body["contents"], model) + tools(body)
    findings += generation(body.get("generationConfig") or {})
    for at, part in enumerate((body.get("systemInstruction") or {}).get("parts") or []):
        findings += rules.text(part.get("text", ""), f"body.systemInstruction.parts[{at}]")
    return findings


def spelled(value: Any) -> Any:
    """Returns the body with consistent key names: both `inlineData` and `inline_data` are accepted."""
    if isinstance(value, list):
        return [spelled(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {to_camel(key): one if to_camel(key) in FREE else spelled(one) for key, one in value.items()}


def converted(body: dict[str, Any]) -> list[str]:
    """Returns an error if the SDK refuses to send it to this API; its types are shared with another API."""
    if not isinstance(body.get("contents"), list):
        return []
    config = {**(body.get("generationConfig") or {})}
    config |= {key: body[key] for key in ("systemInstruction", "tools", "toolConfig", "safetySettings") if key in body}
    try:
        for content in body["contents"]:
            converters._Content_to_mldev(types.Content.model_validate(content))
        whole = types.GenerateContentConfig.model_validate(config)
        converters._GenerateContentConfig_to_mldev(client()._api_client, whole, {})
    except ValueError as problem:
        return [f"body: the SDK does not send this: {str(problem).splitlines()[0]}"]
    return []


@cache
def client() -> genai.Client:
    return genai.Client(api_key="none", vertexai=False)


def conversation(contents: list[dict[str, Any]], model: str) -> list[str]:
    if not contents:
        return ["body.contents: empty"]
    findings = []
    for at, end in ((0, "first"), (len(contents) - 1, "last")):
        if contents[at].get("role") != "user":
            findings.append(f"body.contents[{at}].role: the user must speak {end}")
    for at, content in enumerate(contents):
        place, role = f"body.contents[{at}]", content.get("role")
        before = contents[at - 1] if at else {"parts": []}
        if role not in ("user", "model"):
            findings.append(f"{place}.role: {role!r} is neither user nor model")
        if at and role == before.get("role"):
            findings.append(f"{place}.role: two turns of the {role} in a row")
        if not content.get("parts"):
            findings.append(f"{place}.parts: empty")
        for number, part in enumerate(content.get("parts") or []):
            findings += part_findings(part, role, f"{place}.parts[{number}]")
        findings += answers(of_kind(before, "functionCall"), of_kind(content, "functionResponse"), place)
        findings += server_findings(content, place)
        calls = [part for part in content.get("parts") or [] if "functionCall" in part]
        if calls and generation_of(model) >= SIGNED_SINCE and not calls[0].get("thoughtSignature"):
            findings.append(f"{place}: the first call has no thoughtSignature")
    return findings


def part_findings(part: dict[str, Any], role: str | None, place: str) -> list[str]:
    kinds = [kind for kind in KINDS if kind in part]
    if len(kinds) != 1:
        return [f"{place}: holds {kinds or 'nothing'}, not exactly one kind"]
    kind = kinds[0]
    findings = []
    if kind == "functionCall" and role != "model" or kind == "functionResponse" and role != "user":
        findings.append(f"{place}.{kind}: in a turn of the {role}")
    if kind == "text":
        findings += rules.text(part["text"], f"{place}.text")
    if kind == "inlineData":
        data = part["inlineData"].get("data", "").replace("-", "+").replace("_", "/")
        findings += rules.encoded(data, f"{place}.inlineData.data")
        if "/" not in part["inlineData"].get("mimeType", ""):
            findings.append(f"{place}.inlineData.mimeType: missing")
        kind_of_picture = part["inlineData"].get("mimeType", "")
        if kind_of_picture.startswith("image/") and kind_of_picture not in IMAGES:
            findings.append(f"{place}.inlineData.mimeType: {kind_of_picture} is not supported")
    if kind in ("functionCall", "functionResponse"):
        findings += function_name(part[kind].get("name", ""), f"{place}.{kind}.name")
    return findings


def function_name(name: str, place: str) -> list[str]:
    findings = rules.name(name, place)
    if name[:1] in "0123456789-" and not findings:
        findings.append(f"{place}: {name!r} does not start with a letter or `_`")
    return findings


def answers(calls: list[dict[str, Any]], responses: list[dict[str, Any]], place: str) -> list[str]:
    """Calls are answered right after, each once: by id if they have one, else by name and order."""
    wanted = [(call.get("id"), call.get("name")) for call in calls]
    given = [(response.get("id"), response.get("name")) for response in responses]
    findings = [f"{place}: call {name!r} is not answered right after it" for _, name in missing(wanted, given)]
    return findings + [f"{place}: response {name!r} answers no call" for _, name in missing(given, wanted)]


def missing(wanted: list[Any], given: list[Any]) -> list[Any]:
    left = list(given)
    return [one for one in wanted if one not in left or left.remove(one)]


def server_findings(content: dict[str, Any], place: str) -> list[str]:
    calls = {call.get("id") for call in of_kind(content, "toolCall")}
    given = {response.get("id") for response in of_kind(content, "toolResponse")}
    return [f"{place}: server response {one!r} has no call" for one in sorted(given - calls, key=str)]


def of_kind(content: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part[kind] for part in content.get("parts") or [] if kind in part]


def generation_of(model: str) -> int:
    found = re.match(r"gemini-(\d+)", model)
    return int(found[1]) if found else 0


def tools(body: dict[str, Any]) -> list[str]:
    findings, names = [], []
    given = body.get("tools") or []
    for at, tool in enumerate(given):
        for number, function in enumerate(tool.get("functionDeclarations") or []):
            place = f"body.tools[{at}].functionDeclarations[{number}]"
            names.append(function["name"])
            findings += function_name(function["name"], f"{place}.name") + declaration(function, place)
    findings += rules.unique(names, "body.tools")
    is_mixed = names and any("functionDeclarations" not in tool for tool in given)
    if is_mixed and not (body.get("toolConfig") or {}).get("includeServerSideToolInvocations"):
        findings.append("body.toolConfig: custom tools alongside the provider's need includeServerSideToolInvocations")
    return findings


def declaration(function: dict[str, Any], place: str) -> list[str]:
    schema = function.get("parametersJsonSchema")
    if schema is None:
        return []
    place = f"{place}.parametersJsonSchema"
    findings = rules.tool_schema(schema, place) or rules.keywords(schema, place, known=rules.GEMINI_KNOWN)
    for at, node in rules.nodes(schema, place):
        if node.get("type") == "object" and node.get("properties") == {} and not node.get("additionalProperties"):
            findings.append(f"{at}.properties: an object without properties is rejected")
        absent = sorted(set(node.get("required") or []) - set(node.get("properties") or {}))
        findings += [f"{at}.required: {called!r} is not a property" for called in absent]
    return findings + rules.property_names(schema, place)


def generation(config: dict[str, Any]) -> list[str]:
    place = "body.generationConfig"
    findings = []
    if not 0 <= config.get("temperature", 0) <= 2:
        findings.append(f"{place}.temperature: {config['temperature']} is out of range")
    if config.get("maxOutputTokens", 1) < 1:
        findings.append(f"{place}.maxOutputTokens: must be positive")
    thinking = config.get("thinkingConfig") or {}
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        findings.append(f"{place}.thinkingConfig: a budget and a level together")
    schema = config.get("responseJsonSchema")
    if (schema is not None or "responseSchema" in config) and config.get("responseMimeType") != "application/json":
        findings.append(f"{place}.responseMimeType: a schema needs application/json")
    if schema is not None:
        where = f"{place}.responseJsonSchema"
        findings += rules.schema(schema, where) or rules.keywords(schema, where, known=rules.GEMINI_KNOWN)
    return findings
