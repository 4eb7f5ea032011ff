"""Provider responses: for each format, a function from a request's body to the text of an event stream."""

from __future__ import annotations

import itertools
import json
from typing import Any

ANSWER = '{"answer": "done"}'
SIGNATURE = "c2lnbmF0dXJl"

# No two calls of one run have the same id, whichever case they are in.
_numbers = itertools.count(1)


def events(items: list[dict[str, Any]], *, named: bool) -> str:
    """Returns events with or without names, each with its data on one line."""
    lines = (f"event: {item['type']}\n" if named else "" for item in items)
    return "".join(f"{line}data: {json.dumps(item)}\n\n" for line, item in zip(lines, items, strict=True))


def called(tools: list[str], answered: bool) -> list[tuple[str, str]]:
    """Returns the calls to make: the first tool twice, unless the last message contains results."""
    return [] if answered or not tools else [(tools[0], f"{next(_numbers)}") for _ in range(2)]


def anthropic(body: dict[str, Any]) -> str:
    tools = body.get("tools") or []
    last = body["messages"][-1]["content"]
    answered = isinstance(last, list) and any(block["type"] == "tool_result" for block in last)
    calls = called([tool["name"] for tool in tools if "input_schema" in tool], answered)
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if (body.get("thinking") or {}).get("type", "disabled") != "disabled":
        blocks.append((
            {"type": "thinking", "thinking": "", "signature": ""},
            [{"type": "thinking_delta", "thinking": "let me see"}, {"type": "signature_delta", "signature": SIGNATURE}],
        ))  # fmt: skip
        blocks.append(({"type": "redacted_thinking", "data": SIGNATURE}, []))
    citations = []
    if any(str(tool.get("type", "")).startswith("web_search") for tool in tools) and not answered:
        blocks += anthropic_search(f"srvtoolu_{next(_numbers)}")
        citations = [{"type": "citations_delta", "citation": {
            "type": "web_search_result_location", "cited_text": "a page", "encrypted_index": SIGNATURE,
            "title": "A page", "url": "https://example.com",
        }}]  # fmt: skip
    text = {"type": "text_delta", "text": "I shall look." if calls else ANSWER}
    blocks.append(({"type": "text", "text": ""}, [*citations, text]))
    for name, number in calls:
        piece = {"type": "input_json_delta", "partial_json": '{"path": "x"}'}
        blocks.append(({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}, [piece]))
    return events(anthropic_events(body, blocks, "tool_use" if calls else "end_turn"), named=True)


def anthropic_search(call: str) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    caller = {"type": "direct"}
    page = {"type": "web_search_result", "url": "https://example.com", "title": "A page",
            "encrypted_content": SIGNATURE, "page_age": None}  # fmt: skip
    result = {"type": "web_search_tool_result", "tool_use_id": call, "caller": caller, "content": [page]}
    asked = {"type": "server_tool_use", "id": call, "name": "web_search", "input": {}, "caller": caller}
    return [(asked, [{"type": "input_json_delta", "partial_json": '{"query": "a page"}'}]), (result, [])]


def anthropic_events(body: dict[str, Any], blocks: list[Any], stop: str) -> list[dict[str, Any]]:
    message = {
        "id": f"msg_{next(_numbers)}", "type": "message", "role": "assistant", "model": body["model"], "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 1},
    }  # fmt: skip
    items: list[dict[str, Any]] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    for at, (block, deltas) in enumerate(blocks):
        items.append({"type": "content_block_start", "index": at, "content_block": block})
        items += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        items.append({"type": "content_block_stop", "index": at})
    delta = {"stop_reason": stop, "stop_sequence": None}
    return [*items, {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]


def responses(body: dict[str, Any]) -> str:
    tools = body.get("tools") or []
    answered = body["input"][-1:] and body["input"][-1].get("type") == "function_call_output"
    calls = called([tool["name"] for tool in tools if tool["type"] == "function"], bool(answered))
    output: list[dict[str, Any]] = []
    if body.get("reasoning"):
        summary = [{"type": "summary_text", "text": "let me see"}]
        output.append({"type": "reasoning", "id": f"rs_{next(_numbers)}", "summary": summary,
                       "encrypted_content": SIGNATURE})  # fmt: skip
    cited = []
    if any(tool["type"] == "web_search" for tool in tools) and not answered:
        action = {"type": "search", "query": "a page", "queries": ["a page"]}
        search = {"type": "web_search_call", "id": f"ws_{next(_numbers)}", "status": "completed", "action": action}
        output.append(search)
        cited = [{"type": "url_citation", "start_index": 0, "end_index": 1, "title": "A", "url": "https://example.com"}]
    text = {"type": "output_text", "text": "I shall look." if calls else ANSWER, "annotations": cited, "logprobs": []}
    output.append({"type": "message", "id": f"msg_{next(_numbers)}", "role": "assistant", "status": "completed",
                   "content": [text]})  # fmt: skip
    output += [
        {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name,
         "arguments": '{"path": "x"}', "status": "completed"}
        for name, number in calls
    ]  # fmt: skip
    return events(responses_events(body, output), named=True)


def responses_events(body: dict[str, Any], output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    response = {
        "id": f"resp_{next(_numbers)}", "object": "response", "created_at": 1, "model": body["model"], "output": [],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "in_progress",
    }  # fmt: skip
    items: list[dict[str, Any]] = [{"type": "response.created", "response": response}]
    for at, item in enumerate(output):
        items.append({"type": "response.output_item.added", "output_index": at, "item": emptied(item)})
        for kind, piece in pieces(item):
            items.append({"type": kind, "output_index": at, "item_id": item["id"], **piece})
        items.append({"type": "response.output_item.done", "output_index": at, "item": item})
    usage = {
        "input_tokens": 5, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 14,
    }  # fmt: skip
    whole = {**response, "status": "completed", "output": output, "usage": usage}
    items.append({"type": "response.completed", "response": whole})
    return [{**item, "sequence_number": at} for at, item in enumerate(items)]


def emptied(item: dict[str, Any]) -> dict[str, Any]:
    """Returns an item in its initial state."""
    begun = {"content": [], "arguments": "", "summary": [], "status": "in_progress", "encrypted_content": None}
    return {key: begun.get(key, value) for key, value in item.items()}


def pieces(item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the events between the start and the end of an item."""
    if item["type"] == "function_call":
        return [("response.function_call_arguments.delta", {"delta": item["arguments"]}),
                ("response.function_call_arguments.done", {"arguments": item["arguments"]})]  # fmt: skip
    if item["type"] == "reasoning":
        part = item["summary"][0]
        return [("response.reasoning_summary_part.added", {"summary_index": 0, "part": {**part, "text": ""}}),
                ("response.reasoning_summary_text.delta", {"summary_index": 0, "delta": part["text"]}),
                ("response.reasoning_summary_text.done", {"summary_index": 0, "text": part["text"]}),
                ("response.reasoning_summary_part.done", {"summary_index": 0, "part": part})]  # fmt: skip
    if item["type"] == "message":
        part = item["content"][0]
        begun = {"content_index": 0, "part": {**part, "text": "", "annotations": []}}
        return [("response.content_part.added", begun),
                ("response.output_text.delta", {"content_index": 0, "delta": part["text"], "logprobs": []}),
                ("response.output_text.done", {"content_index": 0, "text": part["text"], "logprobs": []}),
                ("response.content_part.done", {"content_index": 0, "part": part})]  # fmt: skip
    return []


def chat(body: dict[str, Any]) -> str:
    tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    roles = [message["role"] for message in body["messages"]]
    asked = len(roles) - 1 - roles[::-1].index("assistant") if "assistant" in roles else len(roles)
    # Images of results follow them in a user message.
    calls = called(tools, "tool" in roles[asked:])
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if body["model"] == "local" and body.get("reasoning_effort"):
        deltas.append({"reasoning_content": "let me see"})
    deltas.append({"content": "I shall look." if calls else ANSWER})
    for at, (name, number) in enumerate(calls):
        call = {"index": at, "id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [call]})
        deltas.append({"tool_calls": [{"index": at, "function": {"arguments": '{"path": "x"}'}}]})
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    chunks = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}
    chunks += [{**chunk, "choices": [end]}, {**chunk, "choices": [], "usage": usage}]
    return events(chunks, named=False) + "data: [DONE]\n\n"


def gemini(body: dict[str, Any]) -> str:
    tools = body.get("tools") or []
    names = [function["name"] for tool in tools for function in tool.get("functionDeclarations") or []]
    answered = any("functionResponse" in part for content in body["contents"][-1:] for part in content["parts"])
    calls = called(names, answered)
    parts: list[dict[str, Any]] = []
    if (body.get("generationConfig") or {}).get("thinkingConfig"):
        parts.append({"text": "let me see", "thought": True})
    if any("googleSearch" in tool for tool in tools) and names and not answered:
        number = str(next(_numbers))
        asked = {"id": number, "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["a page"]}}
        found = {"id": number, "toolType": "GOOGLE_SEARCH_WEB", "response": {"search_suggestions": "none"}}
        parts.append({"toolCall": asked, "thoughtSignature": SIGNATURE})
        parts.append({"toolResponse": found, "thoughtSignature": SIGNATURE})
    parts.append({"text": "I shall look." if calls else ANSWER})
    for at, (name, number) in enumerate(calls):
        call = {"functionCall": {"id": f"fc{number}", "name": name, "args": {"path": "x"}}}
        parts.append({**call, "thoughtSignature": SIGNATURE} if at == 0 else call)
    chunk = {"modelVersion": "gemini", "responseId": "r"}
    chunks = [{**chunk, "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    chunks[-1]["usageMetadata"] = {"promptTokenCount": 5, "candidatesTokenCount": 9, "totalTokenCount": 14}
    return events(chunks, named=False)


ANSWERS = {"anthropic": anthropic, "responses": responses, "chat": chat, "gemini": gemini}
