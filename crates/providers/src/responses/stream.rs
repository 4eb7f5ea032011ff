//! Reading an answer, event by event.
//!
//! Items are known by their place in the output; servers that leave places out are understood by item id.

use std::collections::BTreeSet;

use meerkat_core::{
    Answer, AssistantBlock, DeltaSink, Extent, ModelError, ModelErrorKind, Provider, StopReason, Usage,
};
use serde_json::Value;

use super::errors;
use super::item::{Contradiction, Item, Section, list, number, object, text};
use super::quick::{Piece, Place};
use crate::history;
use crate::sse::Event;
use crate::wire::{Decode, error};

/// What other formats end with; some servers send it here too.
const DONE: &str = "[DONE]";

/// Reads one answer.
pub(super) struct Decoder {
    provider: Provider,
    items: Vec<Item>,
    end: Option<End>,
}

/// How an answer ended.
struct End {
    stop_reason: Option<StopReason>,
    usage: Usage,
}

/// Why an event ends the reading.
enum Stop {
    Odd(Contradiction),
    Failed(ModelError),
}

impl From<Contradiction> for Stop {
    fn from(odd: Contradiction) -> Self {
        Self::Odd(odd)
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: &Event<'_>, deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        let data = event.data.trim();
        if self.end.is_some() || data.is_empty() || data == DONE {
            return Ok(());
        }
        if self.extend(data, deltas).is_some() {
            return Ok(());
        }
        let value: Value = serde_json::from_str(data)
            .map_err(|odd| self.malformed(&format!("an event is not JSON: {odd}")))?;
        if !value.is_object() {
            return Err(self.malformed("an event is not an object"));
        }
        let name = match text(&value, "type") {
            Ok(name) => name.unwrap_or(event.name),
            Err(Contradiction(odd)) => return Err(self.malformed(&odd)),
        };
        self.take(name, &value, deltas).map_err(|stop| match stop {
            Stop::Odd(Contradiction(odd)) => self.malformed(&format!("`{name}`: {odd}")),
            Stop::Failed(failure) => failure,
        })
    }

    fn finish(self: Box<Self>) -> Result<Answer, ModelError> {
        let Some(end) = self.end else {
            return Err(error(
                self.provider,
                ModelErrorKind::StreamCut,
                "the stream ended before the answer did",
            ));
        };
        let refusals: Vec<_> = self.items.iter().filter_map(Item::refusal).collect();
        let blocks = blocks(self.items, history::tag(self.provider))
            .map_err(|Contradiction(odd)| error(self.provider, ModelErrorKind::Malformed, odd))?;
        let calls = blocks.iter().any(|block| matches!(block, AssistantBlock::ToolUse { .. }));
        let usable = calls || blocks.iter().any(|block| matches!(block, AssistantBlock::Text { .. }));
        let filtered = !refusals.is_empty() || end.stop_reason == Some(StopReason::ContentFilter);
        if filtered && !usable {
            let said = refusals.join("\n");
            let message = if said.is_empty() { "the filter stopped the answer" } else { said.as_str() };
            return Err(error(self.provider, ModelErrorKind::ContentFilter, message));
        }
        let stop_reason = match end.stop_reason {
            _ if filtered => StopReason::ContentFilter,
            Some(reason) => reason,
            None if calls => StopReason::ToolUse,
            None => StopReason::EndTurn,
        };
        Ok(Answer { blocks, stop_reason, extent: Extent::Whole, usage: end.usage })
    }
}

impl Decoder {
    /// Begins to read an answer of a provider.
    pub(super) fn new(provider: Provider) -> Self {
        Self { provider, items: Vec::new(), end: None }
    }

    fn malformed(&self, message: &str) -> ModelError {
        error(self.provider, ModelErrorKind::Malformed, message)
    }

    fn take(&mut self, name: &str, value: &Value, deltas: DeltaSink<'_>) -> Result<(), Stop> {
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
                self.meant(value)?.append(place, needed(value, "delta")?, deltas)?;
            }
            "output_text.done" | "refusal.done" | "reasoning_summary_text.done" | "reasoning_text.done" => {
                let key = if kind == "refusal.done" { "refusal" } else { "text" };
                let place = place(kind, value)?;
                self.meant(value)?.settle(place, needed(value, key)?, deltas)?;
            }
            "output_text.annotation.added" => {
                let index = number(value, "content_index")?.unwrap_or_default();
                let annotation = object(value, "annotation")?.unwrap_or(&Value::Null);
                self.meant(value)?.annotate(index, annotation);
            }
            "function_call_arguments.delta" => self.meant(value)?.argue(needed(value, "delta")?)?,
            "function_call_arguments.done" => {
                self.meant(value)?.settle_arguments(needed(value, "arguments")?)?;
            }
            "completed" | "incomplete" | "failed" => self.end(kind, value, deltas)?,
            "error" => return Err(Stop::Failed(errors::in_stream(self.provider, value))),
            // Servers of the user's own send a bare error, under any name or none.
            _ if value.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(Stop::Failed(errors::in_stream(self.provider, value)));
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, value: &Value) -> Result<(), Contradiction> {
        let (index, item) = (number(value, "output_index")?, item_of(value)?);
        if self.find(index, &ids(item)?).is_some() {
            return Err(Contradiction("an item was added twice".to_owned()));
        }
        self.items.push(Item::begin(index, item)?);
        Ok(())
    }

    fn complete(&mut self, value: &Value, deltas: DeltaSink<'_>) -> Result<(), Contradiction> {
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

    fn part(&mut self, value: &Value, index: &str, deltas: DeltaSink<'_>) -> Result<(), Contradiction> {
        let index = number(value, index)?.unwrap_or_default();
        let item = self.meant(value)?;
        let part = object(value, "part")?.ok_or_else(|| Contradiction("`part` is missing".to_owned()))?;
        match Section::of(part)? {
            Some((section, text)) => {
                item.settle((section, index), text, deltas)?;
                item.settle_annotations(index, part)
            }
            None => Ok(()),
        }
    }

    /// Returns the item that an event means.
    fn meant(&mut self, value: &Value) -> Result<&mut Item, Contradiction> {
        let item = self.item(number(value, "output_index")?, text(value, "item_id")?);
        item.ok_or_else(|| Contradiction("the item was never added".to_owned()))
    }

    fn item(&mut self, index: Option<u64>, id: Option<&str>) -> Option<&mut Item> {
        let place = match (index, id) {
            (None, None) => self.items.len().checked_sub(1),
            _ => self.find(index, &[id]),
        };
        place.and_then(|place| self.items.get_mut(place))
    }

    /// Takes an event that adds to an item; `None`, and nothing done, for any other.
    fn extend(&mut self, data: &str, deltas: DeltaSink<'_>) -> Option<()> {
        let (place, piece) = Piece::read(data)?;
        let item = self.item(piece.output_index, piece.item_id.0.as_deref())?;
        match place {
            Place::Text(section, index) => item.append((section, index), piece.delta.as_str(), deltas).ok(),
            Place::Arguments => item.argue(piece.delta.as_str()).ok(),
        }
    }

    fn find(&self, index: Option<u64>, ids: &[Option<&str>]) -> Option<usize> {
        self.items.iter().rposition(|item| item.is_meant(index, ids))
    }

    fn end(&mut self, kind: &str, value: &Value, deltas: DeltaSink<'_>) -> Result<(), Stop> {
        let response = object(value, "response")?;
        let response = response.ok_or_else(|| Contradiction("`response` is missing".to_owned()))?;
        let status = text(response, "status")?.unwrap_or(kind);
        if kind == "failed" || status == "failed" {
            return Err(Stop::Failed(errors::in_stream(self.provider, response)));
        }
        if self.items.is_empty() {
            for (index, item) in (0..).zip(list(response, "output")?) {
                let mut whole = Item::begin(Some(index), item)?;
                whole.complete(item, deltas)?;
                self.items.push(whole);
            }
        }
        let reason = match object(response, "incomplete_details")? {
            Some(details) => text(details, "reason")?,
            None => None,
        };
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

/// Returns where the text of an event belongs.
fn place(kind: &str, value: &Value) -> Result<(Section, u64), Contradiction> {
    let (section, key) = match kind.split_once('.').map_or(kind, |(head, _)| head) {
        "output_text" => (Section::Output, "content_index"),
        "refusal" => (Section::Refusal, "content_index"),
        "reasoning_summary_text" => (Section::Summary, "summary_index"),
        _ => (Section::Reasoning, "content_index"),
    };
    Ok((section, number(value, key)?.unwrap_or_default()))
}

fn needed<'a>(value: &'a Value, key: &str) -> Result<&'a str, Contradiction> {
    text(value, key)?.ok_or_else(|| Contradiction(format!("`{key}` is missing")))
}

fn item_of(value: &Value) -> Result<&Value, Contradiction> {
    object(value, "item")?.ok_or_else(|| Contradiction("`item` is missing".to_owned()))
}

fn ids(item: &Value) -> Result<[Option<&str>; 2], Contradiction> {
    Ok([text(item, "id")?, text(item, "call_id")?])
}

fn usage(response: &Value) -> Result<Usage, Contradiction> {
    let Some(usage) = object(response, "usage")? else {
        return Ok(Usage::default());
    };
    let mut counted = Usage {
        input_tokens: number(usage, "input_tokens")?.unwrap_or_default(),
        output_tokens: number(usage, "output_tokens")?.unwrap_or_default(),
        ..Usage::default()
    };
    if let Some(details) = object(usage, "input_tokens_details")? {
        counted.cache_read_tokens = number(details, "cached_tokens")?;
        counted.cache_creation_tokens = number(details, "cache_write_tokens")?;
    }
    Ok(counted)
}

/// Makes the blocks of the items, in order.
fn blocks(items: Vec<Item>, tag: &str) -> Result<Vec<AssistantBlock>, Contradiction> {
    let mut blocks = Vec::with_capacity(items.len());
    let mut calls = BTreeSet::new();
    for item in items {
        let Some(block) = item.into_block(tag)? else { continue };
        if let AssistantBlock::ToolUse { id, .. } = &block
            && !calls.insert(id.clone())
        {
            return Err(Contradiction(format!("two function calls are called `{id}`")));
        }
        blocks.push(block);
    }
    Ok(blocks)
}
