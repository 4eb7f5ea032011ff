//! Decoding of valid streams.

use meerkat_core::{
    AssistantBlock, Delta, ModelErrorKind as Kind, ModelResponse, ResponseStatus, StopReason, Usage,
};
use serde_json::{Value, json};

use super::{call, read, sse, text};

/// Creates a chunk with these parts.
fn parts(parts: Value) -> Value {
    let mut chunk =
        json!({ "candidates": [{ "content": { "role": "model" }, "index": 0 }], "responseId": "r1" });
    chunk["candidates"][0]["content"]["parts"] = parts;
    chunk
}

/// Creates a last chunk.
fn end(reason: &str) -> Value {
    json!({ "candidates": [{ "content": { "role": "model" }, "finishReason": reason, "index": 0 }] })
}

fn meta(signature: &str) -> Option<Value> {
    Some(json!({ "provider": "gemini", "thoughtSignature": signature }))
}

fn server(id: Option<&str>, name: &str, content: Value, meta: Option<Value>) -> AssistantBlock {
    AssistantBlock::ServerToolContent { id: id.map(str::to_owned), name: name.to_owned(), content, meta }
}

/// Every kind of part, and every field that is used.
pub(super) fn everything() -> Vec<Value> {
    let searched = json!({ "toolType": "GOOGLE_SEARCH_WEB", "id": "s1", "args": { "queries": ["x"] } });
    vec![
        parts(json!([{ "text": "let ", "thought": true }, { "text": "me see", "thought": true }])),
        parts(json!([{ "toolCall": searched, "thoughtSignature": "dG9vbA==" }])),
        parts(json!([{ "toolResponse": { "toolType": "GOOGLE_SEARCH_WEB", "id": "s1", "response": {} } }])),
        parts(json!([{ "executableCode": { "language": "PYTHON", "code": "print(1)" } }])),
        parts(json!([{ "codeExecutionResult": { "outcome": "OUTCOME_OK", "output": "1\n" } }])),
        json!({
            "candidates": [{ "content": { "parts": [{ "text": "It is " }] }, "safetyRatings": [{}] }],
            "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 1 },
        }),
        parts(json!([{ "text": "warm, é" }])),
        parts(json!([{ "text": "", "thoughtSignature": "dGV4dA==" }])),
        parts(json!([
            { "functionCall": { "name": "get_weather", "args": { "city": "Paris" } }, "thoughtSignature": "c2ln" },
            { "functionCall": { "name": "get_time" } },
            { "functionCall": { "name": "get_time", "args": {}, "id": "own" } },
        ])),
        json!({ "candidates": [{ "groundingMetadata": { "webSearchQueries": ["x"] } }] }),
        json!({
            "candidates": [
                { "content": { "parts": [{ "text": "another answer" }] }, "index": 1 },
                { "finishReason": "STOP", "groundingMetadata": { "groundingChunks": [] }, "someNews": true },
            ],
            "usageMetadata": {
                "promptTokenCount": 12, "candidatesTokenCount": 5, "thoughtsTokenCount": 3,
                "cachedContentTokenCount": 8, "toolUsePromptTokenCount": 4, "totalTokenCount": 24,
            },
            "modelVersion": "gemini-3-flash-preview",
        }),
    ]
}

fn everything_read() -> (ModelResponse, Vec<Delta>) {
    let own = || Some(json!({ "provider": "gemini" }));
    let own_id = json!({ "provider": "gemini", "id": "own" });
    let call_part = &everything()[1]["candidates"][0]["content"]["parts"][0]["toolCall"].clone();
    let response = json!({ "toolType": "GOOGLE_SEARCH_WEB", "id": "s1", "response": {} });
    let grounding = json!({ "webSearchQueries": ["x"], "groundingChunks": [] });
    let code = json!({ "executableCode": { "language": "PYTHON", "code": "print(1)" } });
    let output = json!({ "codeExecutionResult": { "outcome": "OUTCOME_OK", "output": "1\n" } });
    let blocks = vec![
        AssistantBlock::Reasoning { text: "let me see".to_owned(), meta: None },
        server(Some("s1"), "google_search", json!({ "toolCall": call_part }), meta("dG9vbA==")),
        server(Some("s1"), "google_search", json!({ "toolResponse": response }), own()),
        server(None, "code_execution", code, own()),
        server(None, "code_execution", output, own()),
        text("It is warm, é", meta("dGV4dA==")),
        call("r1_0", "get_weather", json!({ "city": "Paris" }), meta("c2ln")),
        call("r1_1", "get_time", json!({}), None),
        call("own", "get_time", json!({}), Some(own_id)),
        server(None, "google_search", grounding, None),
    ];
    let usage =
        Usage { input_tokens: 16, output_tokens: 8, cache_creation_tokens: None, cache_read_tokens: Some(8) };
    let deltas = vec![
        Delta::Reasoning("let ".to_owned()),
        Delta::Reasoning("me see".to_owned()),
        Delta::Text("It is ".to_owned()),
        Delta::Text("warm, é".to_owned()),
    ];
    (
        ModelResponse { blocks, stop_reason: StopReason::ToolUse, extent: ResponseStatus::Complete, usage },
        deltas,
    )
}

#[test]
fn split_stream_decodes_the_same() {
    let stream = sse(&everything());
    let (expected, deltas) = everything_read();
    let expected = (Ok(expected), deltas);
    assert_eq!(read(&[stream.as_bytes()]), expected);
    for cut in 0..=stream.len() {
        let (head, tail) = stream.as_bytes().split_at(cut);
        assert_eq!(read(&[head, tail]), expected, "cut at {cut}");
    }
    let single: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
    assert_eq!(read(&single), expected);
}

#[test]
fn list_of_chunks_in_one_event_is_decoded() {
    let stream = format!("data: {}\n\n", Value::Array(everything()));
    let (answer, deltas) = read(&[stream.as_bytes()]);
    assert_eq!((answer.unwrap(), deltas), everything_read());
}

#[test]
fn signature_ends_its_block() {
    let stream = sse(&[
        parts(json!([{ "text": "a", "thoughtSignature": "MQ==" }, { "text": "b" }])),
        parts(json!([{ "text": "c", "thoughtSignature": "Mg==" }])),
        parts(
            json!([{ "text": "t", "thought": true }, { "text": "", "thought": true, "thoughtSignature": "Mw==" }]),
        ),
        parts(json!([{ "text": "", "thoughtSignature": "NA==" }, { "text": "" }, { "text": "d" }])),
        end("STOP"),
    ]);
    let expected = vec![
        text("a", meta("MQ==")),
        text("bc", meta("Mg==")),
        AssistantBlock::Reasoning { text: "t".to_owned(), meta: meta("Mw==") },
        text("d", None),
    ];
    assert_eq!(read(&[stream.as_bytes()]).0.unwrap().blocks, expected);
}

#[test]
fn calls_without_ids_get_response_based_ids() {
    let ids = |prompt: u64| -> Vec<String> {
        let calls = json!([{ "functionCall": { "name": "f" } }, { "functionCall": { "name": "f" } }]);
        let stream = sse(&[json!({
            "candidates": [{ "content": { "parts": calls }, "finishReason": "FUNCTION_CALL" }],
            "usageMetadata": { "promptTokenCount": prompt },
        })]);
        let answer = read(&[stream.as_bytes()]).0.unwrap();
        assert_eq!(answer.stop_reason, StopReason::ToolUse);
        let id = |block: &AssistantBlock| match block {
            AssistantBlock::ToolUse { id, .. } => id.clone(),
            other => panic!("{other:?}"),
        };
        answer.blocks.iter().map(id).collect()
    };
    assert_eq!(ids(1), ids(1));
    let mut all = [ids(1), ids(2)].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4);
}

#[test]
fn arguments_as_text_are_parsed_or_stored() {
    let cases = [
        (json!("{\"a\":1}"), json!({ "a": 1 })),
        (json!(" "), json!({})),
        (json!("{bad"), json!("{bad")),
        (json!("[1]"), json!("[1]")),
        (json!(null), json!({})),
    ];
    for (sent, expected) in cases {
        let calls = json!([{ "functionCall": { "name": "f", "args": sent } }]);
        let stream = sse(&[parts(calls), end("STOP")]);
        let blocks = read(&[stream.as_bytes()]).0.unwrap().blocks;
        assert_eq!(blocks, [call("r1_0", "f", expected, None)]);
    }
}

#[test]
fn generated_media_is_stored() {
    let part = json!({ "inlineData": { "mimeType": "image/png", "data": "aGk=" } });
    let stream = sse(&[parts(json!([part, { "someNewPart": {} }])), end("STOP")]);
    let blocks = read(&[stream.as_bytes()]).0.unwrap().blocks;
    assert_eq!(blocks, [server(None, "media", part, Some(json!({ "provider": "gemini" })))]);
}

#[test]
fn finish_reasons_are_mapped() {
    let text = || Some(json!([{ "text": "hm" }]));
    let calls = || Some(json!([{ "functionCall": { "name": "f" } }]));
    let cases = [
        (text(), "STOP", Ok(StopReason::EndTurn)),
        (calls(), "STOP", Ok(StopReason::ToolUse)),
        (None, "STOP", Ok(StopReason::EndTurn)),
        (text(), "MAX_TOKENS", Ok(StopReason::MaxTokens)),
        (None, "MAX_TOKENS", Ok(StopReason::MaxTokens)),
        (text(), "SAFETY", Ok(StopReason::ContentFilter)),
        (None, "SAFETY", Err(Kind::ContentFilter)),
        (None, "RECITATION", Err(Kind::ContentFilter)),
        (None, "PROHIBITED_CONTENT", Err(Kind::ContentFilter)),
        (text(), "MALFORMED_FUNCTION_CALL", Err(Kind::Malformed)),
        (None, "UNEXPECTED_TOOL_CALL", Err(Kind::Malformed)),
        (calls(), "MALFORMED_FUNCTION_CALL", Ok(StopReason::ToolUse)),
        (None, "OTHER", Err(Kind::Incomplete)),
        (text(), "OTHER", Ok(StopReason::EndTurn)),
        (text(), "SOMETHING_NEW", Ok(StopReason::EndTurn)),
        (calls(), "SOMETHING_NEW", Ok(StopReason::ToolUse)),
    ];
    for (content, reason, expected) in cases {
        let mut chunks: Vec<_> = content.clone().map(parts).into_iter().collect();
        chunks.push(end(reason));
        let answer = read(&[sse(&chunks).as_bytes()]).0;
        let actual = answer.map(|answer| answer.stop_reason).map_err(|error| error.kind);
        assert_eq!(actual, expected, "{content:?} {reason}");
    }
}

#[test]
fn blocked_prompt_is_a_filter_error() {
    let blocked = json!({
        "promptFeedback": { "blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "no" },
        "usageMetadata": { "promptTokenCount": 4 },
    });
    let error = read(&[sse(&[blocked]).as_bytes()]).0.unwrap_err();
    assert_eq!(error.kind, Kind::ContentFilter);
    assert_eq!(error.message, "the prompt was blocked (PROHIBITED_CONTENT): no");
    let harmless = json!({ "promptFeedback": { "safetyRatings": [] } });
    let stream = sse(&[harmless, parts(json!([{ "text": "ok" }])), end("STOP")]);
    assert_eq!(read(&[stream.as_bytes()]).0.unwrap().stop_reason, StopReason::EndTurn);
}

#[test]
fn same_shape_chunks_keep_kind_and_counts() {
    let say = |text: &str, is_thought: bool, at: u64| {
        let part =
            if is_thought { json!({ "text": text, "thought": true }) } else { json!({ "text": text }) };
        let mut chunk = parts(json!([part]));
        chunk["usageMetadata"] =
            json!({ "promptTokenCount": 9, "candidatesTokenCount": at, "totalTokenCount": at + 9 });
        chunk
    };
    let chunks = [
        say("Hm", true, 1),
        say(", well", true, 2),
        say("One", false, 3),
        say(" two", false, 4),
        // Reasoning that contains escapes, between texts of a known shape.
        say("\nbut \"why\"?", true, 5),
        say(" three", false, 6),
        say("\n\n", false, 7),
        say(" four", false, 8),
        end("STOP"),
    ];
    let (answer, deltas) = read(&[sse(&chunks).as_bytes()]);
    let reasoning = |text: &str| AssistantBlock::Reasoning { text: text.to_owned(), meta: None };
    assert_eq!(
        answer.unwrap(),
        ModelResponse {
            blocks: vec![
                reasoning("Hm, well"),
                text("One two", None),
                reasoning("\nbut \"why\"?"),
                text(" three\n\n four", None),
            ],
            stop_reason: StopReason::EndTurn,
            extent: ResponseStatus::Complete,
            usage: Usage { input_tokens: 9, output_tokens: 8, ..Usage::default() },
        }
    );
    assert_eq!(deltas[5], Delta::Text(" three".to_owned()));
}

#[test]
fn counts_of_other_metadata_are_ignored() {
    let chunk = |metadata: &str, count: u64| {
        let mut chunk = parts(json!([{ "text": "a" }]));
        chunk[metadata] = json!({ "promptTokenCount": count });
        chunk
    };
    let foreign = [chunk("otherMetadata", 7), chunk("otherMetadata", 8), end("STOP")];
    assert_eq!(read(&[sse(&foreign).as_bytes()]).0.unwrap().usage.input_tokens, 0);
    let with_both = |own: u64, other: u64| {
        let mut chunk = chunk("usageMetadata", own);
        chunk["otherMetadata"] = json!({ "promptTokenCount": other });
        chunk
    };
    let mixed = [with_both(5, 5), with_both(6, 9), end("STOP")];
    assert_eq!(read(&[sse(&mixed).as_bytes()]).0.unwrap().usage.input_tokens, 6);
}
