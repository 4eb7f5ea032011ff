//! Decoder for the event stream of a response.

use meerkat_core::{DeltaSink, ModelErrorKind, ModelResponse, ResponseStatus, StopReason, Usage};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::blocks::Part;
use super::{errors, fast_path};
use crate::sse::Event;
use crate::wire::{Decode, Failure};

/// Stop reason of a response that continues when it is sent back.
const PAUSED: &str = "pause_turn";

/// An event. Unused fields are not parsed, so they may have any type.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StreamEvent {
    MessageStart {
        message: Started,
    },
    ContentBlockStart {
        index: u64,
        content_block: Map<String, Value>,
    },
    ContentBlockDelta {
        index: u64,
        delta: Map<String, Value>,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Ending,
        #[serde(default)]
        usage: TokenCounts,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Started {
    #[serde(default)]
    usage: TokenCounts,
}

#[derive(Debug, Deserialize)]
struct Ending {
    stop_reason: Option<String>,
    stop_details: Option<Value>,
}

/// Token counts so far; absent fields are unchanged.
#[derive(Debug, Default, Deserialize)]
struct TokenCounts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

/// A block of the response, open until its end is announced.
#[derive(Debug)]
struct Block {
    index: u64,
    part: Part,
    is_open: bool,
}

/// Progress of the stream.
#[derive(Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Before,
    Inside,
    Ended,
}

/// Usable content of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentKind {
    Calls,
    Text,
    Nothing,
}

impl ContentKind {
    fn from_blocks(blocks: &[Block]) -> Self {
        if blocks.iter().any(|block| matches!(block.part, Part::Call { .. })) {
            Self::Calls
        } else if blocks.iter().any(|block| block.part.has_text()) {
            Self::Text
        } else {
            Self::Nothing
        }
    }
}

/// Decodes one response.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    stage: Stage,
    blocks: Vec<Block>,
    usage: Usage,
    stop_reason: Option<String>,
    /// Reason for a refusal, in the provider's words.
    explanation: Option<String>,
}

impl Decode for Decoder {
    fn event(&mut self, event: &Event<'_>, deltas: DeltaSink<'_>) -> Result<(), Failure> {
        if self.stage == Stage::Ended {
            return Ok(());
        }
        if self.stage == Stage::Inside && self.extend(event.data, deltas).is_some() {
            return Ok(());
        }
        let read = serde_json::from_str(event.data);
        let event = read.map_err(|reason| format!("invalid event: {reason}"))?;
        match event {
            StreamEvent::Other => Ok(()),
            StreamEvent::Error { error } => Err(errors::in_stream(&error)),
            StreamEvent::MessageStart { message } => self.start(&message.usage),
            _ if self.stage == Stage::Before => {
                Err("the response does not start with `message_start`".into())
            }
            StreamEvent::ContentBlockStart { index, content_block } => {
                self.open(index, content_block, deltas)
            }
            StreamEvent::ContentBlockDelta { index, delta } => {
                self.block(index)?.part.extend(&delta)?.into_iter().for_each(deltas);
                Ok(())
            }
            StreamEvent::ContentBlockStop { index } => {
                self.block(index)?.is_open = false;
                Ok(())
            }
            StreamEvent::MessageDelta { delta, usage } => {
                self.end(delta, &usage);
                Ok(())
            }
            StreamEvent::MessageStop => self.stop(),
        }
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, Failure> {
        if self.stage != Stage::Ended {
            return Err(Failure::cut_off());
        }
        let Self { blocks, usage, stop_reason, explanation, .. } = *self;
        let content_kind = ContentKind::from_blocks(&blocks);
        let extent = if stop_reason.as_deref() == Some(PAUSED) {
            ResponseStatus::Paused
        } else {
            ResponseStatus::Complete
        };
        let stop_reason = map_stop_reason(stop_reason.as_deref(), content_kind, explanation)?;
        let blocks = blocks.into_iter().filter_map(|block| block.part.finish()).collect();
        Ok(ModelResponse { blocks, stop_reason, extent, usage })
    }
}

impl Decoder {
    /// Handles an event that extends an open block. Returns `None`, without any effect, for any other event.
    fn extend(&mut self, data: &str, deltas: DeltaSink<'_>) -> Option<()> {
        let (index, piece) = fast_path::read(data)?;
        let block = self.blocks.iter_mut().rev().find(|block| block.index == index && block.is_open)?;
        block.part.grow(&piece)?.into_iter().for_each(deltas);
        Some(())
    }

    fn start(&mut self, usage: &TokenCounts) -> Result<(), Failure> {
        if self.stage != Stage::Before {
            return Err("`message_start` was sent twice".into());
        }
        self.stage = Stage::Inside;
        self.count(usage);
        Ok(())
    }

    fn open(
        &mut self,
        index: u64,
        content: Map<String, Value>,
        deltas: DeltaSink<'_>,
    ) -> Result<(), Failure> {
        if self.blocks.iter().any(|block| block.index == index) {
            return Err(format!("block {index} was started twice").into());
        }
        let (part, delta) = Part::begin(content)?;
        delta.into_iter().for_each(deltas);
        self.blocks.push(Block { index, part, is_open: true });
        Ok(())
    }

    fn block(&mut self, index: u64) -> Result<&mut Block, Failure> {
        let open = self.blocks.iter_mut().rev().find(|block| block.index == index && block.is_open);
        open.ok_or_else(|| format!("block {index} is not open").into())
    }

    fn end(&mut self, ending: Ending, usage: &TokenCounts) {
        self.count(usage);
        if ending.stop_reason.is_some() {
            self.stop_reason = ending.stop_reason;
        }
        let explanation = ending.stop_details.as_ref().and_then(|details| details.get("explanation"));
        if let Some(text) = explanation.and_then(Value::as_str) {
            self.explanation = Some(text.to_owned());
        }
    }

    fn stop(&mut self) -> Result<(), Failure> {
        if let Some(block) = self.blocks.iter().find(|block| block.is_open) {
            return Err(format!("block {} was not closed", block.index).into());
        }
        if self.stop_reason.is_none() {
            return Err("the response ended without a stop reason".into());
        }
        self.stage = Stage::Ended;
        Ok(())
    }

    fn count(&mut self, counted: &TokenCounts) {
        self.usage.input_tokens = counted.input_tokens.unwrap_or(self.usage.input_tokens);
        self.usage.output_tokens = counted.output_tokens.unwrap_or(self.usage.output_tokens);
        self.usage.cache_creation_tokens =
            counted.cache_creation_input_tokens.or(self.usage.cache_creation_tokens);
        self.usage.cache_read_tokens = counted.cache_read_input_tokens.or(self.usage.cache_read_tokens);
    }
}

/// Maps the stop reason of a response. A response that was cut off before it had any content is an error.
fn map_stop_reason(
    reason: Option<&str>,
    content_kind: ContentKind,
    explanation: Option<String>,
) -> Result<StopReason, Failure> {
    Ok(match reason.unwrap_or_default() {
        "refusal" if content_kind != ContentKind::Nothing => StopReason::ContentFilter,
        "refusal" => {
            let reason = explanation.unwrap_or_else(|| "the model refused to answer".to_owned());
            return Err(Failure::new(ModelErrorKind::ContentFilter, reason));
        }
        "model_context_window_exceeded" if content_kind == ContentKind::Nothing => {
            let reason = "the conversation left no room for an answer";
            return Err(Failure::new(ModelErrorKind::ContextOverflow, reason));
        }
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        _ if content_kind == ContentKind::Calls => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    })
}
