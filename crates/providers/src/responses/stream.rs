//! Decoder for a response, event by event.
//!
//! Items are identified by their index in the output; servers that omit the index are supported through item ids.

use std::collections::BTreeSet;

use meerkat_core::{
    AssistantBlock, DeltaSink, ModelErrorKind, ModelResponse, Provider, ResponseStatus, StopReason, Usage,
};
use serde_json::Value;

use super::errors;
use super::fast_path::{Piece, Place};
use super::item::{Item, Section};
use crate::fields::{list, object, present, text, typed};
use crate::history;
use crate::sse::Event;
use crate::wire::{Decode, Failure};

/// End marker of other formats; some servers send it here too.
const DONE: &str = "[DONE]";

/// Decodes one response.
pub(super) struct Decoder {
    provider: Provider,
    items: Vec<Item>,
    end: Option<End>,
}

/// End of a response.
struct End {
    stop_reason: Option<StopReason>,
    usage: Usage,
}

impl Decode for Decoder {
    fn event(&mut self, event: &Event<'_>, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        let data = event.data.trim();
        if self.end.is_some() || data.is_empty() || data == DONE {
            return Ok(());
        }
        if self.extend(data, deltas).is_some() {
            return Ok(());
        }
        let value: Value =
            serde_json::from_str(data).map_err(|error| format!("an event is not JSON: {error}"))?;
        if !value.is_object() {
            return Err("an event is not an object".into());
        }
        let name = text(&value, "type")?.unwrap_or(event.name);
        self.take(name, &value, deltas).map_err(|failure| failure.within(&format!("`{name}`")))
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, Failure> {
        let end = self.end.ok_or_else(Failure::cut_off)?;
        let refusals: Vec<_> = self.items.iter().filter_map(Item::refusal).collect();
        let blocks = blocks(self.items, history::tag(self.provider))?;
        let has_calls = blocks.iter().any(|block| matches!(block, AssistantBlock::ToolUse { .. }));
        let is_usable = has_calls || blocks.iter().any(|block| matches!(block, AssistantBlock::Text { .. }));
        let is_filtered = !refusals.is_empty() || end.stop_reason == Some(StopReason::ContentFilter);
        if is_filtered && !is_usable {
            let refusal = refusals.join("\n");
            let message =
                if refusal.is_empty() { "the content filter blocked the response" } else { refusal.as_str() };
            return Err(Failure::new(ModelErrorKind::ContentFilter, message));
        }
        let stop_reason = match end.stop_reason {
            _ if is_filtered => StopReason::ContentFilter,
            Some(reason) => reason,
            None if has_calls => StopReason::ToolUse,
            None => StopReason::EndTurn,
        };
        Ok(ModelResponse { blocks, stop_reason, extent: ResponseStatus::Complete, usage: end.usage })
    }
}

impl Decoder {
    /// Creates a decoder for a provider's response.
    pub(super) fn new(provider: Provider) -> Self {
        Self { provider, items: Vec::new(), end: None }
    }

    fn take(&mut self, name: &str, value: &Value, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        let kind = name.strip_prefix("response.").unwrap_or(name);
        match kind {
            "output_item.added" => self.begin(value)?,
            "output_item.done" => self.complete(value, deltas)?,
            "content_part.added" | "content_part.done" => self.part(value, "content_index", deltas)?,
            "reasoning_summary_part.added" | "reasoning_summary_part.done" => {
                self.part(value, "summary_index", deltas)?;
            }
            "output_text.delta"
            | "refusal.delta"
            | "reasoning_summary_text.delta"
            | "reasoning_text.delta" => {
                let place = place(kind, value)?;
                self.target_item(value)?.append(place, required_text(value, "delta")?, deltas)?;
            }
            "output_text.done" | "refusal.done" | "reasoning_summary_text.done" | "reasoning_text.done" => {
                let key = if kind == "refusal.done" { "refusal" } else { "text" };
                let place = place(kind, value)?;
                self.target_item(value)?.set_text(place, required_text(value, key)?, deltas)?;
            }
            "output_text.annotation.added" => {
                let index = number(value, "content_index")?.unwrap_or_default();
                let annotation = object(value, "annotation")?.unwrap_or(&Value::Null);
                self.target_item(value)?.annotate(index, annotation);
            }
            "function_call_arguments.delta" => {
                self.target_item(value)?.append_arguments(required_text(value, "delta")?)?
            }
            "function_call_arguments.done" => {
                self.target_item(value)?.set_arguments(required_text(value, "arguments")?)?;
            }
            "completed" | "incomplete" | "failed" => self.end(kind, value, deltas)?,
            "error" => return Err(errors::in_stream(value)),
            // Self-hosted servers send a bare error, under any name or none.
            _ if present(value, "error").is_some() => return Err(errors::in_stream(value)),
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, value: &Value) -> Result<(), Failure> {
        let (index, item) = (number(value, "output_index")?, item_of(value)?);
        if self.find(index, &ids(item)?).is_some() {
            return Err("an item was added twice".into());
        }
        self.items.push(Item::begin(index, item)?);
        Ok(())
    }

    fn complete(&mut self, value: &Value, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        let (index, value) = (number(value, "output_index")?, item_of(value)?);
        let place = match self.find(index, &ids(value)?) {
            Some(place) => place,
            None => {
                self.items.push(Item::begin(index, value)?);
                self.items.len() - 1
            }
        };
        self.items[place].complete(value, deltas)
    }

    fn part(&mut self, value: &Value, index: &str, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        let index = number(value, index)?.unwrap_or_default();
        let item = self.target_item(value)?;
        let part = object(value, "part")?.ok_or("`part` is missing")?;
        match Section::from_part(part)? {
            Some((section, text)) => {
                item.set_text((section, index), text, deltas)?;
                item.set_annotations(index, part)
            }
            None => Ok(()),
        }
    }

    /// Returns the item that an event refers to.
    fn target_item(&mut self, value: &Value) -> Result<&mut Item, Failure> {
        let item = self.item(number(value, "output_index")?, text(value, "item_id")?);
        Ok(item.ok_or("the item was never added")?)
    }

    fn item(&mut self, index: Option<u64>, id: Option<&str>) -> Option<&mut Item> {
        let place = match (index, id) {
            (None, None) => self.items.len().checked_sub(1),
            _ => self.find(index, &[id]),
        };
        place.and_then(|place| self.items.get_mut(place))
    }

    /// Handles an event that extends an item. Returns `None`, without any effect, for any other event.
    fn extend(&mut self, data: &str, deltas: DeltaSink<'_>) -> Option<()> {
        let (place, piece) = Piece::read(data)?;
        let item = self.item(piece.output_index, piece.item_id.0.as_deref())?;
        match place {
            Place::Text(section, index) => item.append((section, index), &piece.delta, deltas).ok(),
            Place::Arguments => item.append_arguments(&piece.delta).ok(),
        }
    }

    fn find(&self, index: Option<u64>, ids: &[Option<&str>]) -> Option<usize> {
        self.items.iter().rposition(|item| item.is_target(index, ids))
    }

    fn end(&mut self, kind: &str, value: &Value, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        let response = object(value, "response")?.ok_or("`response` is missing")?;
        let status = text(response, "status")?.unwrap_or(kind);
        if kind == "failed" || status == "failed" {
            return Err(errors::in_stream(response));
        }
        if self.items.is_empty() {
            for (index, item) in (0..).zip(list(response, "output")?) {
                let mut item_with_content = Item::begin(Some(index), item)?;
                item_with_content.complete(item, deltas)?;
                self.items.push(item_with_content);
            }
        }
        let details = object(response, "incomplete_details")?.unwrap_or(&Value::Null);
        let reason = text(details, "reason")?;
        let cut = kind == "incomplete" || status == "incomplete";
        let stop_reason = match reason {
            Some("max_output_tokens") => Some(StopReason::MaxTokens),
            Some("content_filter") => Some(StopReason::ContentFilter),
            None if cut => Some(StopReason::MaxTokens),
            _ => None,
        };
        self.end = Some(End { stop_reason, usage: usage(response)? });
        Ok(())
    }
}

/// Returns the position that the text of an event belongs to.
fn place(kind: &str, value: &Value) -> Result<(Section, u64), Failure> {
    let (section, key) = match kind.split_once('.').map_or(kind, |(head, _)| head) {
        "output_text" => (Section::Output, "content_index"),
        "refusal" => (Section::Refusal, "content_index"),
        "reasoning_summary_text" => (Section::Summary, "summary_index"),
        _ => (Section::Reasoning, "content_index"),
    };
    Ok((section, number(value, key)?.unwrap_or_default()))
}

fn number(value: &Value, key: &str) -> Result<Option<u64>, Failure> {
    typed(value, key, "a whole number", Value::as_u64)
}

fn required_text<'a>(value: &'a Value, key: &str) -> Result<&'a str, Failure> {
    text(value, key)?.ok_or_else(|| format!("`{key}` is missing").into())
}

fn item_of(value: &Value) -> Result<&Value, Failure> {
    Ok(object(value, "item")?.ok_or("`item` is missing")?)
}

fn ids(item: &Value) -> Result<[Option<&str>; 2], Failure> {
    Ok([text(item, "id")?, text(item, "call_id")?])
}

fn usage(response: &Value) -> Result<Usage, Failure> {
    let usage = object(response, "usage")?.unwrap_or(&Value::Null);
    let detail = |key: &str| {
        let details = object(usage, "input_tokens_details")?.unwrap_or(&Value::Null);
        number(details, key)
    };
    Ok(Usage {
        input_tokens: number(usage, "input_tokens")?.unwrap_or_default(),
        output_tokens: number(usage, "output_tokens")?.unwrap_or_default(),
        cache_read_tokens: detail("cached_tokens")?,
        cache_creation_tokens: detail("cache_write_tokens")?,
    })
}

/// Converts the items into blocks, in order.
fn blocks(items: Vec<Item>, tag: &str) -> Result<Vec<AssistantBlock>, Failure> {
    let mut blocks = Vec::with_capacity(items.len());
    let mut calls = BTreeSet::new();
    for item in items {
        let Some(block) = item.into_block(tag)? else { continue };
        if let AssistantBlock::ToolUse { id, .. } = &block
            && !calls.insert(id.clone())
        {
            return Err(format!("two function calls have the id `{id}`").into());
        }
        blocks.push(block);
    }
    Ok(blocks)
}
