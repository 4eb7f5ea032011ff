"""The judge itself: one valid request for each format, and the finding when one thing is changed.

Run by `cargo xtask test`, or by hand: `.clients/venv/bin/python tests-clients/test_judge.py [PART OF A NAME]`
"""

from __future__ import annotations

import copy
import json
from typing import Any

import judge
from support import Failure, Place, expect, main, test

# Removes a value instead of setting one.
GONE = object()

PIXEL = "iVBORw0KGgo="
ARGUMENTS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
OUTPUT = {
    "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False,
}  # fmt: skip

ANTHROPIC = {
    "path": "/v1/messages",
    "headers": {"Content-Type": "application/json", "X-Api-Key": "k", "Anthropic-Version": "2026-10-21"},
    "body": {
        "model": "claude-opus-5-5", "max_tokens": 4096, "stream": True,
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "output_config": {"format": {"type": "json_schema", "schema": OUTPUT}},
        "tools": [{"name": "read", "description": "reads", "input_schema": ARGUMENTS}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}},
                {"type": "tool_use", "id": "b", "name": "read", "input": {"path": "y"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "1"}]},
                {"type": "tool_result", "tool_use_id": "b", "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                ]},
            ]},
        ],
    },
}  # fmt: skip

RESPONSES = {
    "path": "/v1/responses",
    "headers": {"content-type": "application/json", "authorization": "Bearer k"},
    "body": {
        "model": "gpt-5.5", "stream": True, "store": False, "max_output_tokens": 100, "instructions": "be brief",
        "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "output", "schema": OUTPUT, "strict": True}},
        "tools": [
            {"type": "function", "name": "read", "description": "reads", "parameters": ARGUMENTS, "strict": False},
            {"type": "web_search"},
        ],
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
            {"type": "function_call", "call_id": "a", "name": "read", "arguments": '{"path":"x"}'},
            {"type": "function_call", "call_id": "b", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "1"},
            {"type": "function_call_output", "call_id": "b", "output": [
                {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"},
            ]},
        ],
    },
}  # fmt: skip

CHAT = {
    "path": "/v1/chat/completions",
    "headers": {"content-type": "application/json", "authorization": "Bearer k"},
    "body": {
        "model": "gpt-5.5", "stream": True, "stream_options": {"include_usage": True}, "max_completion_tokens": 100,
        "response_format": {"type": "json_schema", "json_schema": {"name": "o", "schema": OUTPUT, "strict": True}},
        "tools": [{"type": "function", "function": {"name": "read", "parameters": ARGUMENTS}}],
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [
                {"type": "text", "text": "go"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            ]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"path":"x"}'}},
                {"id": "b", "type": "function", "function": {"name": "read", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
        ],
    },
}  # fmt: skip

GEMINI = {
    "path": "/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse",
    "headers": {"content-type": "application/json", "x-goog-api-key": "k"},
    "body": {
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "generationConfig": {
            "maxOutputTokens": 100, "temperature": 0.5, "thinkingConfig": {"thinkingLevel": "HIGH"},
            "responseMimeType": "application/json", "responseJsonSchema": OUTPUT,
        },
        "toolConfig": {"includeServerSideToolInvocations": True},
        "tools": [
            {"functionDeclarations": [{"name": "read", "description": "r", "parametersJsonSchema": ARGUMENTS}]},
            {"googleSearch": {}},
        ],
        "contents": [
            {"role": "user", "parts": [{"text": "go"}, {"inlineData": {"mimeType": "image/png", "data": PIXEL}}]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": True},
                {"functionCall": {"name": "read", "args": {"path": "x"}, "id": "1"}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "read", "args": {}, "id": "2"}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "read", "response": {"result": "1"}, "id": "1"}},
                {"functionResponse": {"name": "read", "response": {"result": "2"}, "id": "2"}},
            ]},
        ],
    },
}  # fmt: skip

LONG = "n" * 65
TEXT_BLOCK = {"type": "text", "text": "and"}
SAID = {"role": "user", "content": "more"}
CALL_AGAIN = {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"}
SPOKE = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "well"}]}
UNION = {"type": "object", "anyOf": [{"type": "object"}]}
OPEN_LIST = {"type": "object", "properties": {"a": {"type": "array"}}}

# Path of the change, new value, and expected finding. `+` stands for a new element of a list.
BAD: list[tuple[str, dict[str, Any], list[tuple[str, Any, str]]]] = [
    ("anthropic", ANTHROPIC, [
        ("headers.X-Api-Key", GONE, "headers.x-api-key: missing"),
        ("headers.Anthropic-Version", "2022-01-01", "headers.anthropic-version: '2022-01-01' is unknown"),
        ("headers.anthropic-beta", "of-my-own", "headers.anthropic-beta: 'of-my-own' is unknown"),
        ("headers.Content-Type", "text/plain", "headers.content-type: 'text/plain', not application/json"),
        ("path", "/v1/messages?key=k", "url: the key is in the parameter `key`"),
        ("body.stream", GONE, "body.stream: required, and missing"),
        ("body.temperature", 0.5, "body.temperature: unknown field"),
        ("body.max_tokens", "4096", "body.max_tokens: input should be a valid integer"),
        ("body.context_management", {}, "body.context_management: unknown field"),
        ("body.betas", ["x"], "body.betas: unknown field"),
        ("body.tool_choice", {"type": "tool", "name": "no"}, "body.tool_choice.name: no tool is named 'no'"),
        ("body.tool_choice", {"type": "any"}, "body.tool_choice: a call cannot be forced with thinking on"),
        ("body.thinking.budget_tokens", 100, "body.thinking.budget_tokens: 100 is not from 1024 to below max_tokens"),
        ("body.messages.0.content.0.text", " ", "body.messages[0].content[0].text: the text is blank"),
        ("body.messages.0.content.0.extra", 1, "body.messages[0].content[0].extra: unknown field"),
        ("body.messages.0.content.0.type", "txt", "body.messages[0].content[0].type: 'txt' is not a known"),
        ("body.messages.0.role", "assistant", "body.messages[0].role: the user must speak first"),
        ("body.messages.+", SAID, "body.messages[3].role: two messages of the user in a row"),
        ("body.messages.2", GONE, "body.messages[1]: calls that are never answered"),
        ("body.messages.1.content.0.signature", "", "body.messages[1].content[0]: thinking without its signature"),
        ("body.messages.1.content.0", GONE, "body.messages[1]: thinking is on, and the active turn started without"),
        ("body.messages.1.content.0", TEXT_BLOCK, "thinking is on, and the active turn started without"),
        ("body.messages.1.content.+", {"type": "thinking", "thinking": "", "signature": "s"},
         "body.messages[1].content[3]: thinking must come first"),
        ("body.messages.1.content.1.id", "b", "more than one is named 'b'"),
        ("body.messages.1.content.1.id", "a.b", "body.messages[1].content[1].id: 'a.b' does not match"),
        ("body.messages.1.content.1.name", "a b", "content[1].name: 'a b' does not match ^[a-zA-Z0-9_-]{1,128}$"),
        ("body.tools.0.name", LONG, "does not match ^[a-zA-Z0-9_-]{1,64}$"),
        ("body.messages.2.content.0", GONE, "body.messages[2]: call 'a' is not answered right after it"),
        ("body.messages.2.content.0.tool_use_id", "z", "body.messages[2]: result 'z' answers no call"),
        ("body.messages.2.content.0", TEXT_BLOCK, "body.messages[2]: results must come before anything else"),
        ("body.messages.2.content.1.content.0.source.data", "%", "source.data: not base64"),
        ("body.messages.2.content.1.content.0.source.media_type", "image/bmp", "source.media_type: input should be"),
        ("body.tools.0.name", "a b", "body.tools[0].name: 'a b' does not match"),
        ("body.tools.0.input_schema", UNION, "body.tools[0].input_schema.anyOf: rejected at the top"),
        ("body.tools.0.input_schema.properties.path", {"$ref": "#/$defs/x"}, "'#/$defs/x' does not resolve"),
        ("body.tools.0.input_schema.properties.path", {"type": "text"}, "not JSON Schema 2020-12"),
        ("body.tools.0.input_schema.properties.a b", {}, "input_schema.properties: 'a b' does not match"),
        ("body.output_config.format.schema.additionalProperties", GONE, "schema.additionalProperties: must be false"),
        ("body.output_config.format.schema.properties.ok.minimum", 1, "ok.minimum: the provider does not support"),
    ]),
    ("responses", RESPONSES, [
        ("headers.authorization", GONE, "headers.authorization: no bearer token"),
        ("headers.authorization", "k", "headers.authorization: no bearer token"),
        ("body.stream", False, "body.stream: input should be True"),
        ("body.messages", [], "body.messages: unknown field"),
        ("body.max_output_tokens", 5, "body.max_output_tokens: 5, at least 16 is needed"),
        ("body.include", [], "body.include: without 'reasoning.encrypted_content'"),
        ("body.temperature", 3.0, "body.temperature: 3.0 is out of range"),
        ("body.input", " ", "body.input: the text is blank"),
        ("body.input.0.content.0.type", "text", "body.input[0].content[0].type: 'text' is not a known value"),
        ("body.input.0.content.0.text", "", "body.input[0].content[0].text: the text is blank"),
        ("body.input.1.encrypted_content", GONE, "body.input[1]: reasoning without its encrypted content"),
        ("body.input.1.id", "x", "body.input[1].id: 'x' does not start with 'rs'"),
        ("body.input.1.summary", GONE, "body.input[1].summary: required, and missing"),
        ("body.input.2.arguments", "{", "body.input[2].arguments: not the JSON text of an object"),
        ("body.input.2.call_id", LONG, "body.input[2].call_id: longer than 64"),
        ("body.input.2.call_id", "", "body.input[2].call_id: empty"),
        ("body.input.2.call_id", "b", "body.input[3].call_id: 'b' is used twice"),
        ("body.input.4", SPOKE, "body.input[4]: call 'a' at body.input[2] is not answered"),
        ("body.input.4", GONE, "body.input: at the end: call 'a' at body.input[2] is not answered"),
        ("body.input.4.call_id", "z", "body.input[4]: output of 'z', which is not an open call"),
        ("body.input.5.output.0.image_url", "data:x", "output[0].image_url: not a data URL"),
        ("body.input.+", {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "e"},
         "body.input[6]: reasoning that leads to nothing"),
        ("body.input.+", CALL_AGAIN, "body.input[6].call_id: 'a' is used twice"),
        ("body.tools.0.strict", GONE, "body.tools[0].strict: required, and missing"),
        ("body.tools.0.name", LONG, "body.tools[0].name"),
        ("body.tools.0.parameters", UNION, "body.tools[0].parameters.anyOf: rejected at the top"),
        ("body.tools.0.parameters", OPEN_LIST, "parameters.properties.a.items: missing, and the type is array"),
        ("body.tools.0.strict", True, "body.tools[0].parameters.additionalProperties: must be false"),
        ("body.text.format.schema.required", [], "schema.required: 'ok' is missing, and strict requires all"),
        ("body.text.format.schema.oneOf", [OUTPUT], "schema.oneOf: not supported with strict"),
        ("body.text.format.name", "a b", "body.text.format.name: 'a b' does not match"),
    ]),
    ("chat", CHAT, [
        ("headers.authorization", "Basic k", "headers.authorization: no bearer token"),
        ("body.stream", GONE, "body.stream: required, and missing"),
        ("body.stream_options", GONE, "body.stream_options: without include_usage"),
        ("body.max_tokens", 5, "body.max_tokens: rejected together with max_completion_tokens"),
        ("body.thinking", {}, "body.thinking: unknown field"),
        ("body.messages.1.content.0.text", " ", "body.messages[1].content[0].text: the text is blank"),
        ("body.messages.1.content.0", {"type": "input_text", "text": "x"}, "'input_text' is not a known value"),
        ("body.messages.1.content.1.image_url.url", "data:image/png;base64,%", "image_url.url: not base64"),
        ("body.messages.1.role", "person", "body.messages[1].role: 'person' is not a known value"),
        ("body.messages.2.reasoning_content", "hm", "body.messages[2].reasoning_content: unknown field"),
        ("body.messages.2.tool_calls", GONE, "body.messages[2].content: missing, without calls"),
        ("body.messages.2.tool_calls", [], "body.messages[2].tool_calls: empty"),
        ("body.messages.2.tool_calls.0.function.arguments", "[]", "arguments: not the JSON text of an object"),
        ("body.messages.2.tool_calls.0.function.name", "a.b", "function.name: 'a.b' does not match"),
        ("body.messages.2.tool_calls.0.id", "b", "body.messages: ids of calls: more than one is named 'b'"),
        ("body.messages.3", SAID, "body.messages[3]: call 'a' is not answered before it"),
        ("body.messages.4", GONE, "body.messages: call 'b' is never answered"),
        ("body.messages.4.tool_call_id", "a", "body.messages[4]: result 'a' answers no open call"),
        ("body.messages.1", {"role": "system", "content": "x"}, "body.messages[1].role: instructions must come first"),
        ("body.messages.2", SAID, "body.messages[2].role: two messages of the user in a row"),
        ("body.tools", [], "body.tools: empty"),
        ("body.tools.0.function.name", "", "body.tools[0].function.name: '' does not match"),
        ("body.tools.0.function.parameters", {"type": "string"}, "parameters.type: 'string', not 'object'"),
        ("body.tools.0.function.strict", True, "parameters.additionalProperties: must be false"),
        ("body.response_format.json_schema.schema.not", {}, "schema.not: not supported with strict"),
    ]),
    ("gemini", GEMINI, [
        ("headers.x-goog-api-key", GONE, "headers.x-goog-api-key: missing"),
        ("path", "/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse&key=k",
         "url: the key is in the parameter `key`"),
        ("path", "/v1/models/gemini-3-pro-preview:streamGenerateContent", "url: no `alt=sse`"),
        ("path", "/v2/models/gemini-3-pro-preview:streamGenerateContent?alt=sse", "path: no provider has"),
        ("body.model", "x", "body.model: unknown field"),
        ("body.messages", [], "body.messages: unknown field"),
        ("body.contents.0.parts.0.text", "", "body.contents[0].parts[0].text: the text is blank"),
        ("body.contents.0.parts.0", {}, "body.contents[0].parts[0]: holds nothing, not exactly one kind"),
        ("body.contents.0.parts.0.inlineDat", {}, "body.contents[0].parts[0].inlineDat: unknown field"),
        ("body.contents.0.parts.1.inlineData.data", "%", "body.contents[0].parts[1].inlineData.data: data should be"),
        ("body.contents.0.parts.1.inlineData.mimeType", "", "inlineData.mimeType: missing"),
        ("body.contents.0.parts.1.inlineData.mimeType", "image/gif", "inlineData.mimeType: image/gif is not supported"),
        ("body.contents.0.role", "model", "body.contents[0].role: the user must speak first"),
        ("body.contents.0.role", "system", "body.contents[0].role: 'system' is neither user nor model"),
        ("body.contents.1.parts.1.thoughtSignature", GONE, "body.contents[1]: the first call has no thoughtSignature"),
        ("body.contents.1.parts.1.functionCall.name", "a b", "functionCall.name: 'a b' does not match"),
        ("body.contents.2.parts.0", GONE, "body.contents[2]: call 'read' is not answered right after it"),
        ("body.contents.2.parts.0.functionResponse.id", "9", "body.contents[2]: response 'read' answers no call"),
        ("body.contents.2.parts.0.functionResponse.name", "write", "response 'write' answers no call"),
        ("body.contents.+", {"role": "model", "parts": [{"text": "x"}]}, "the user must speak last"),
        ("body.contents.+", {"role": "user", "parts": [{"text": "x"}]}, "two turns of the user in a row"),
        ("body.contents.+", {"role": "model", "parts": []}, "body.contents[3].parts: empty"),
        ("body.generationConfig.temperature", 3.0, "body.generationConfig.temperature: 3.0 is out of range"),
        ("body.generationConfig.maxTokens", 3, "body.generationConfig.maxTokens: unknown field"),
        ("body.generationConfig.thinkingConfig.thinkingBudget", 3, "thinkingConfig: a budget and a level together"),
        ("body.generationConfig.thinkingConfig.thinking_budget", 3, "thinkingConfig: a budget and a level together"),
        ("body.generationConfig.thinkingConfig.thinkingLevel", "LOUD", "LOUD is not a valid ThinkingLevel"),
        ("body.generationConfig.responseMimeType", GONE, "responseMimeType: a schema needs application/json"),
        ("body.generationConfig.responseJsonSchema.not", {}, "responseJsonSchema.not: the provider does not support"),
        ("body.generationConfig.routingConfig", {}, "body: the SDK does not send this"),
        ("body.toolConfig", GONE, "body.toolConfig: custom tools alongside the provider's need"),
        ("body.tools.0.functionDeclarations.0.name", "9a", "'9a' does not start with a letter or `_`"),
        ("body.tools.0.functionDeclarations.0.parametersJsonSchema", {"type": "object", "properties": {}},
         "properties: an object without properties is rejected"),
        ("body.tools.0.functionDeclarations.0.parametersJsonSchema.properties.path.pattern", "x",
         "path.pattern: the provider does not support this keyword"),
        ("body.tools.0.functionDeclarations.0.parametersJsonSchema.required", ["z"], "'z' is not a property"),
    ]),
]  # fmt: skip


def findings(request: dict[str, Any]) -> list[str]:
    body = json.loads(json.dumps(request["body"]))
    return judge.judge(judge.Request("POST", request["path"], request["headers"], body))


def changed(request: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """Returns the request with another value at one path."""
    request = copy.deepcopy(request)
    *way, last = place.split(".") if not place.startswith("headers.") else place.split(".", 1)
    inside: Any = request
    for step in way:
        inside = inside[int(step)] if isinstance(inside, list) else inside[step]
    if isinstance(inside, list) and last == "+":
        inside.append(value)
    elif isinstance(inside, list):
        inside[int(last) : int(last) + 1] = [] if value is GONE else [value]
    elif value is GONE:
        del inside[last]
    else:
        inside[last] = value
    return request


def expect_finding(request: dict[str, Any], text: str) -> None:
    found = findings(request)
    if not any(text in finding for finding in found):
        raise Failure(f"expected a finding with {text!r}, got {found}")


def declare(called: str, request: dict[str, Any], cases: list[tuple[str, Any, str]]) -> None:
    @test(f"{called}: a valid request has no findings")
    def _(_place: Place) -> None:
        expect(findings(request), [], "findings")

    for at, value, text in cases:
        what = "without" if value is GONE else f"with {json.dumps(value)[:60]} at"

        @test(f"{called}: rejects {what} {at}: {text}")
        def _(_place: Place, wrong: Any = changed(request, at, value), text: str = text) -> None:
            expect_finding(wrong, text)


for _name, _request, _cases in BAD:
    declare(_name, _request, _cases)


@test("anthropic: sampling parameters are accepted by the older version of the API, alone and without thinking")
def _(_place: Place) -> None:
    old = changed(ANTHROPIC, "headers.Anthropic-Version", "2023-06-01")
    with_temperature = changed(old, "body.temperature", 0.5)
    expect(findings(changed(with_temperature, "body.thinking", GONE)), [], "findings")
    expect_finding(with_temperature, "body.temperature: rejected with thinking on")
    both = changed(changed(with_temperature, "body.thinking", GONE), "body.top_p", 0.5)
    expect_finding(both, "body.top_p: rejected together with temperature")


@test("anthropic: a beta feature needs the header that names it")
def _(_place: Place) -> None:
    asked = changed(ANTHROPIC, "body.context_management", {"edits": [{"type": "compact_20260112"}]})
    expect_finding(asked, "body.context_management: unknown field")
    expect(findings(changed(asked, "headers.anthropic-beta", "compact-2026-01-12")), [], "findings")


@test("anthropic: the new version rejects citations in user messages")
def _(_place: Place) -> None:
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": None,
             "start_char_index": 0, "end_char_index": 1}  # fmt: skip
    expect_finding(
        changed(ANTHROPIC, "body.messages.0.content.0.citations", [cited]),
        "body.messages[0].content[0].citations: rejected in user messages since 2026-10-21",
    )


@test("chat: a self-hosted server accepts its model's reasoning")
def _(_place: Place) -> None:
    own = changed(CHAT, "body.model", "local")
    expect(findings(changed(own, "body.messages.2.reasoning_content", "hm")), [], "findings")


if __name__ == "__main__":
    main()
