//! The wire formats apart from any network, for the programs that fuzz and measure them.
//!
//! Nothing here does anything of its own: each function is what a call to a provider goes through.

use std::sync::Arc;

use meerkat_core::{
    Answer, DeltaSink, Message, ModelError, ModelInfo, ModelProfile, ModelRequest, Provider, ToolDef,
};
use serde_json::Value;

use crate::anthropic::{AnthropicOptions, Messages};
use crate::chat::Chat;
use crate::gemini::{Gemini, GeminiOptions};
use crate::reader::{self, Reader, Refused};
use crate::responses::Responses;
use crate::schema::{self, Dialect};
use crate::sse::{Parser, SseError};
use crate::wire::Wire;
use crate::{history, offline};

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI's Chat Completions, as servers of the user's own speak it.
    Chat,
    /// Gemini's `streamGenerateContent`.
    Gemini,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Responses, Self::Chat, Self::Gemini];

    /// Returns whose name errors carry.
    #[must_use]
    pub const fn provider(self) -> Provider {
        match self {
            Self::Anthropic => Provider::Anthropic,
            Self::Responses => Provider::OpenAi,
            Self::Chat => Provider::SelfHosted,
            Self::Gemini => Provider::Gemini,
        }
    }

    /// Makes the body of a request to a model that can do everything.
    #[must_use]
    pub fn body(self, request: &ModelRequest) -> Value {
        let profile = ModelProfile {
            supports_temperature: true,
            supports_thinking: true,
            supports_reasoning: true,
            supports_web_search: true,
            vision: true,
            image_tool_results: true,
            inline_video: true,
        };
        let info = ModelInfo { profile, ..ModelInfo::new("model", self.provider()) };
        self.wire().body(&info, request).json
    }

    /// Reads the error that came instead of an answer.
    #[must_use]
    pub fn refusal(self, status: u16, body: &str) -> ModelError {
        let wire = self.wire();
        let refused = Refused { provider: self.provider(), status, wait: None, text: body };
        reader::refusal(&refused, &|status, body| (wire.refusal(status, body), wire.retry_after(body)))
    }

    /// Makes a history fit for the format.
    #[must_use]
    pub fn history(self, messages: &[Arc<Message>]) -> Vec<Message> {
        history::normalise(messages, history::tag(self.provider()))
    }

    /// Makes tools fit for the format; with those that were left out, and why.
    #[must_use]
    pub fn tools(self, tools: &[ToolDef]) -> (Vec<ToolDef>, Vec<(String, String)>) {
        schema::sanitise(tools, self.dialect())
    }

    /// Makes the schema of an output fit for the format.
    #[must_use]
    pub fn output_schema(self, schema: &Value) -> Value {
        schema::output(schema, self.dialect(), true)
    }

    const fn dialect(self) -> Dialect {
        match self {
            Self::Anthropic => Dialect::Anthropic,
            Self::Responses | Self::Chat => Dialect::OpenAi,
            Self::Gemini => Dialect::Gemini,
        }
    }

    fn wire(self) -> Box<dyn Wire> {
        match self {
            Self::Anthropic => Box::new(Messages { version: AnthropicOptions::default().version }),
            Self::Responses => Box::new(Responses { provider: self.provider() }),
            Self::Chat => Box::new(Chat { provider: self.provider(), remote_model: "model".to_owned() }),
            Self::Gemini => Box::new(Gemini { version: GeminiOptions::default().version }),
        }
    }
}

/// An answer on its way.
pub struct AnswerReader(Reader);

impl AnswerReader {
    /// Begins to read an answer.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self(Reader::new(format.provider(), format.wire().decoder()))
    }

    /// Takes more of the stream.
    ///
    /// # Errors
    /// Says what in the stream contradicts the format, or what the provider reports in it.
    pub fn feed(&mut self, bytes: &[u8], deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        self.0.feed(bytes, deltas)
    }

    /// Returns the answer.
    ///
    /// # Errors
    /// Fails when the stream ended before the answer did, or when there is nothing usable in it.
    pub fn finish(self) -> Result<Answer, ModelError> {
        self.0.finish()
    }
}

/// The events of a stream, each with its name and its data, and why the reading ended early, if it did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Events {
    /// The events.
    pub events: Vec<(String, String)>,
    /// What is wrong with what follows them.
    pub fault: Option<String>,
}

/// Splits a stream into its events.
pub fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Events {
    let mut parser = Parser::default();
    let mut events = Vec::new();
    let fed: Result<(), SseError> = pieces.into_iter().try_for_each(|piece| {
        parser.feed(piece, |event| {
            events.push((event.name.to_owned(), event.data.to_owned()));
            Ok(())
        })
    });
    Events { events, fault: fed.err().map(|fault| fault.to_string()) }
}

/// Reads the commands of a prompt as the offline model does; shows what it understood.
#[must_use]
pub fn commands(prompt: &str) -> String {
    offline::commands(prompt)
}
