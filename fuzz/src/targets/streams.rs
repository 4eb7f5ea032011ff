//! Common parts of the stream reader targets.
//!
//! A response must not depend on how its bytes were split, nor on which of the two paths through a reader an event
//! takes: the fast path for common events, or the general one.

use std::sync::{Arc, Mutex, PoisonError};

use meerkat_core::{
    AssistantBlock, Content, Delta, Message, ModelError, ModelRequest, ModelResponse, Timestamp, ToolOutput,
};
use meerkat_providers::fuzzing::{AnswerReader, Format, events};
use serde_json::{Value, json};

use super::kind_of;
use crate::engine::Verdict;
use crate::random::Random;

/// Result of reading a stream.
type Outcome = (Result<ModelResponse, ModelError>, Vec<Delta>);

/// Writes events with their names.
pub(super) fn named_events(events: &[Value]) -> Vec<u8> {
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    events.iter().map(event).collect::<String>().into_bytes()
}

/// Writes events without names.
pub(super) fn unnamed_events(events: &[Value]) -> Vec<u8> {
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>().into_bytes()
}

/// Splits an input: into single bytes, and at random positions, with occasional empty pieces.
pub(super) fn cuts<'a>(input: &'a [u8], random: &mut Random) -> [Vec<&'a [u8]>; 2] {
    let mut pieces = Vec::new();
    let mut rest = input;
    let longest = [3, 20, 200, 4000][random.below(4)];
    while !rest.is_empty() {
        let (piece, next) = rest.split_at(random.below(longest.min(rest.len()) + 1));
        pieces.push(piece);
        rest = next;
    }
    [input.chunks(1).collect(), pieces]
}

/// Runs a reader on an input.
pub(super) fn run(format: Format, input: &[u8], random: &mut Random) -> Verdict {
    let unsplit = read(format, [input]);
    for pieces in cuts(input, random) {
        let cut = read(format, pieces);
        if cut != unsplit {
            return Err(format!("split, the stream differs: {cut:?} instead of {unsplit:?}"));
        }
    }
    if let Some(slow) = slowly(format, input) {
        let slow = read(format, [slow.as_slice()]);
        if without_ids(slow.clone()) != without_ids(unsplit.clone()) {
            return Err(format!("on the general path, the stream differs: {slow:?} instead of {unsplit:?}"));
        }
    }
    match unsplit.0 {
        Ok(answer) => {
            let shape_text = shape(&answer);
            follow(answer)?;
            Ok(shape_text)
        }
        Err(error) if error.provider != format.provider() => Err(format!("{error:?} names another provider")),
        Err(error) if error.message.trim().is_empty() => Err(format!("{error:?} has no message")),
        Err(error) => Ok(format!("{:?} {}", error.kind, kind_of(&error.message))),
    }
}

fn read<'a>(format: Format, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let deltas = Mutex::new(Vec::new());
    let sink = |delta| deltas.lock().unwrap_or_else(PoisonError::into_inner).push(delta);
    let mut reader = AnswerReader::new(format);
    let fed = pieces.into_iter().try_for_each(|piece| reader.feed(piece, &sink));
    let answer = fed.and_then(|()| reader.finish());
    (answer, deltas.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Rewrites the stream so that no event takes the fast path; `None` if that would change its meaning.
fn slowly(format: Format, input: &[u8]) -> Option<Vec<u8>> {
    let read = events([input]);
    if read.error.is_some() {
        return None;
    }
    let mut out = String::new();
    for (name, data) in &read.events {
        let data = match serde_json::from_str(data) {
            // An event in any other form may already contain duplicate fields.
            Ok(event @ Value::Object(_)) => {
                let written = event.to_string();
                (written == *data).then(|| twice(format, &event))??
            }
            // Invalid events take the general path anyway, and events that are not objects are never common.
            _ => data.clone(),
        };
        if !name.is_empty() {
            out.push_str(&format!("event: {name}\n"));
        }
        data.split('\n').for_each(|line| out.push_str(&format!("data: {line}\n")));
        out.push('\n');
    }
    Some(out.into_bytes())
}

/// Adds a meaningless field twice, which only the general path accepts.
fn twice(format: Format, event: &Value) -> Option<String> {
    let (place, key) = match format {
        Format::Anthropic if event["delta"].is_object() => ("/delta", "thinking"),
        Format::Anthropic => return Some(event.to_string()),
        Format::Responses => ("", "summary_index"),
        Format::Chat => ("", "usage"),
        Format::Gemini => ("", "promptFeedback"),
    };
    let object = event.pointer(place)?.as_object()?;
    if object.contains_key(key) {
        return None;
    }
    if object.is_empty() {
        return Some(event.to_string());
    }
    let text = Value::Object(object.clone()).to_string();
    let with_duplicates = format!("{{\"{key}\":null,\"{key}\":null,{}", &text[1..]);
    if place.is_empty() {
        return Some(with_duplicates);
    }
    let fields = event.as_object()?.iter().map(|(name, value)| {
        let value = if name == "delta" { with_duplicates.clone() } else { value.to_string() };
        format!("{}:{value}", Value::from(name.as_str()))
    });
    Some(format!("{{{}}}", fields.collect::<Vec<_>>().join(",")))
}

/// Removes the ids of calls, which may be derived from the bytes of the stream.
fn without_ids(mut outcome: Outcome) -> Outcome {
    if let Ok(answer) = &mut outcome.0 {
        for block in &mut answer.blocks {
            if let AssistantBlock::ToolUse { id, .. } = block {
                id.clear();
            }
        }
    }
    // The position at which a reader stopped may differ.
    if let Err(error) = &mut outcome.0 {
        error.message = kind_of(&error.message);
    }
    outcome
}

/// Describes the content of a response.
pub(super) fn shape(answer: &ModelResponse) -> String {
    let kind = |block: &AssistantBlock| match block {
        AssistantBlock::Text { meta, .. } => {
            if meta.is_some() {
                "T"
            } else {
                "t"
            }
        }
        AssistantBlock::Reasoning { meta, .. } => {
            if meta.is_some() {
                "R"
            } else {
                "r"
            }
        }
        AssistantBlock::ToolUse { args, .. } => {
            if args.is_object() {
                "c"
            } else {
                "x"
            }
        }
        AssistantBlock::ServerToolContent { .. } => "s",
        AssistantBlock::Image(_) => "i",
    };
    let kinds: String = answer.blocks.iter().take(8).map(kind).collect();
    format!("{kinds} {:?}", answer.stop_reason)
}

/// Appends a response to a conversation, which every format must be able to send, and which must be storable.
pub(super) fn follow(answer: ModelResponse) -> Result<(), String> {
    // A run rejects it.
    if answer.exceeds_max_depth() {
        return Ok(());
    }
    let now = Timestamp::UNIX_EPOCH;
    let user = |text: &str| Message::User { content: Content::text(text), created_at: now };
    let answered =
        Message::Assistant { blocks: answer.blocks, stop_reason: answer.stop_reason, created_at: now };
    let stored = serde_json::to_vec(&answered).map_err(|error| format!("cannot store it: {error}"))?;
    let restored: Message =
        serde_json::from_slice(&stored).map_err(|error| format!("cannot read it from the store: {error}"))?;
    let calls = answered.tool_calls();
    if restored.tool_calls().len() != calls.len() {
        return Err("storing it lost a call".to_owned());
    }
    let results = calls.iter().map(|call| ToolOutput::text("done").into_result(call.id.clone())).collect();
    let mut messages = vec![user("a question"), answered];
    if !calls.is_empty() {
        messages.push(Message::ToolResults { results, created_at: now });
    }
    messages.push(user("another"));
    bodies(messages.into_iter().map(Arc::new).collect())
}

/// Builds the request of every format.
pub(super) fn bodies(messages: Vec<Arc<Message>>) -> Result<(), String> {
    let request = ModelRequest {
        system: "Be brief.".to_owned(),
        messages,
        tools: Arc::default(),
        max_tokens: 1000,
        temperature: None,
        output_schema: None,
        provider_params: Some(Arc::new(json!({}))),
    };
    for format in Format::ALL {
        let body = format.body(&request);
        if !body.is_object() {
            return Err(format!("{format:?} builds a request that is not an object"));
        }
    }
    Ok(())
}
