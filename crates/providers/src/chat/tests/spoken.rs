//! Tool calls written as text.

use std::sync::Arc;

use meerkat_core::{ModelRequest, OutputSchema, Provider, StopReason};
use serde_json::json;

use super::{blocks, call, complete_stream, delta, reasoning, replay, request, text, tool, wire};
use crate::reader::Reader;
use crate::wire::Wire as _;

const CALL: &str = r#"{"name": "f", "arguments": {"x": 1}}"#;

/// Decodes content that arrives at once, in two pieces split anywhere, and character by character.
fn content(content: &str) -> (meerkat_core::ModelResponse, String) {
    let chunks = |pieces: &[&str]| -> Vec<_> {
        pieces.iter().map(|piece| delta(json!({ "content": piece }))).collect()
    };
    let read = |pieces: &[&str]| {
        let (answer, text, _) = replay(&[complete_stream(&chunks(pieces), "stop").as_bytes()]).unwrap();
        (answer, text)
    };
    let expected = read(&[content]);
    let cuts: Vec<_> = (0..=content.len()).filter(|cut| content.is_char_boundary(*cut)).collect();
    for cut in &cuts {
        assert_eq!(read(&[&content[..*cut], &content[*cut..]]), expected, "cut at {cut}");
    }
    let letters: Vec<_> = cuts.windows(2).map(|cut| &content[cut[0]..cut[1]]).collect();
    assert_eq!(read(&letters), expected);
    expected
}

#[test]
fn tagged_calls_are_parsed() {
    let expected = call("call_0", "f", json!({ "x": 1 }));
    let second = call("call_1", "g", json!({}));
    let cases = [
        (format!("<tool_call>{CALL}</tool_call>"), vec![expected.clone()], ""),
        (format!("\n<tool_call>\n{CALL}\n"), vec![expected.clone()], "\n"),
        (format!("<tool_call>```json\n{CALL}\n```</tool_call>"), vec![expected.clone()], ""),
        (
            format!(
                "Sure. <tool_call>{CALL}</tool_call>\n<tool_call>{{\"name\":\"g\",\"parameters\":{{}}}}</tool_call>"
            ),
            vec![text("Sure. "), expected.clone(), second],
            "Sure. ",
        ),
        (format!("<tool_call>{CALL}</tool_call> Done."), vec![text("Done."), expected], "Done."),
    ];
    for (written, blocks, remaining) in cases {
        let (answer, shown_text) = content(&written);
        assert_eq!((answer.blocks, answer.stop_reason), (blocks, StopReason::ToolUse), "{written}");
        assert_eq!(shown_text, remaining, "{written}");
    }
}

#[test]
fn text_with_only_a_call_is_a_call() {
    for written in [
        CALL.to_owned(),
        format!(" {CALL}\n"),
        format!("```json\n{CALL}\n```"),
        format!("```\n{CALL}\n```\n"),
    ] {
        let (answer, shown_text) = content(&written);
        assert_eq!(answer.blocks, [call("call_0", "f", json!({ "x": 1 }))], "{written}");
        assert_eq!(shown_text, "", "{written}");
    }
}

#[test]
fn text_resembling_a_call_stays_text() {
    let texts = [
        r#"{"name": "Bob", "age": 3}"#.to_owned(),
        r#"{"name": "Bob", "arguments": {}, "age": 3}"#.to_owned(),
        r#"{"name": "Bob", "arguments": {}, "parameters": {}}"#.to_owned(),
        r#"{"name": "Bob", "arguments": "none"}"#.to_owned(),
        r#"{"name": "Bob Dylan", "arguments": {}}"#.to_owned(),
        r#"{"name": "", "arguments": {}}"#.to_owned(),
        r#"{"name": "f", "arguments": {"#.to_owned(),
        format!("{CALL} is a call"),
        format!("A call: {CALL}"),
        format!("[{CALL}]"),
        "```json\n[1]\n```".to_owned(),
        format!("<tool_call>{CALL}</tool_call><tool_call>oops</tool_call>"),
        "the <tool_call> tag".to_owned(),
        "a <tool_c".to_owned(),
        "`".to_owned(),
    ];
    for written in texts {
        let (answer, shown_text) = content(&written);
        assert_eq!(answer.blocks, [text(&written)], "{written}");
        assert_eq!((answer.stop_reason, shown_text), (StopReason::EndTurn, written));
    }
}

#[test]
fn text_stays_text_if_server_parses_calls() {
    let read = delta(json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "g" } }] }));
    let stream = complete_stream(&[delta(json!({ "content": CALL })), read], "tool_calls");
    assert_eq!(blocks(&stream), [text(CALL), call("a", "g", json!({}))]);
}

#[test]
fn call_may_follow_reasoning() {
    let stream =
        complete_stream(&[delta(json!({ "content": format!("<think>hm</think>\n{CALL}") }))], "stop");
    assert_eq!(blocks(&stream), [reasoning("hm", "content"), call("call_0", "f", json!({ "x": 1 }))]);
}

#[test]
fn text_stays_text_if_calls_are_impossible() {
    let decode = |request: &meerkat_core::ModelRequest| {
        let decoder = wire(Provider::SelfHosted).decoder_for(request);
        let stream = complete_stream(&[delta(json!({ "content": CALL }))], "stop");
        let mut reader = Reader::new(Provider::SelfHosted, decoder);
        reader.feed(stream.as_bytes(), &|_| {}).unwrap();
        reader.finish().unwrap().blocks
    };
    let plain = request(vec![]);
    let with_tools = ModelRequest { tools: Arc::from([tool("f", "", json!({}))]), ..request(vec![]) };
    let schema = OutputSchema::parse(json!({ "type": "object" })).unwrap();
    let structured = ModelRequest { output_schema: Some(Arc::new(schema)), ..with_tools.clone() };
    assert_eq!(decode(&plain), [text(CALL)]);
    assert_eq!(decode(&structured), [text(CALL)]);
    assert_eq!(decode(&with_tools), [call("call_0", "f", json!({ "x": 1 }))]);
}
