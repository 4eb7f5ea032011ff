//! The wire formats without network access, for fuzzing and benchmarks.
//!
//! Nothing here adds behavior: each function is one that a call to a provider goes through.

use std::sync::Arc;

use meerkat_core::{
    DeltaSink, Message, ModelError, ModelInfo, ModelProfile, ModelRequest, ModelResponse, Provider, ToolDef,
};
use serde_json::Value;

use crate::anthropic::{Messages, VERSION_2023};
use crate::chat::Chat;
use crate::gemini::{Gemini, VERSION};
use crate::reader::{self, Reader};
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
    /// OpenAI's Chat Completions, as implemented by self-hosted servers.
    Chat,
    /// Gemini's `streamGenerateContent`.
    Gemini,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Responses, Self::Chat, Self::Gemini];

    /// Returns the provider that errors name.
    #[must_use]
    pub const fn provider(self) -> Provider {
        match self {
            Self::Anthropic => Provider::Anthropic,
            Self::Responses => Provider::OpenAi,
            Self::Chat => Provider::SelfHosted,
            Self::Gemini => Provider::Gemini,
        }
    }

    /// Builds the body of a request to a model with all capabilities.
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

    /// Parses an error received instead of a response.
    #[must_use]
    pub fn refusal(self, status: u16, body: &str) -> ModelError {
        reader::refusal(&*self.wire(), status, None, body)
    }

    /// Converts a history for the format.
    #[must_use]
    pub fn history(self, messages: &[Arc<Message>]) -> Vec<Message> {
        history::normalize(messages, history::tag(self.provider()))
    }

    /// Converts tools for the format; also returns the tools that were omitted, and why.
    #[must_use]
    pub fn tools(self, tools: &[ToolDef]) -> (Vec<ToolDef>, Vec<(String, String)>) {
        schema::sanitize(tools, self.dialect())
    }

    /// Converts an output schema for the format.
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
            Self::Anthropic => Box::new(Messages { version: VERSION_2023.to_owned() }),
            Self::Responses => Box::new(Responses { provider: self.provider() }),
            Self::Chat => Box::new(Chat { provider: self.provider(), remote_model: "model".to_owned() }),
            Self::Gemini => Box::new(Gemini { version: VERSION.to_owned() }),
        }
    }
}

/// A response being received.
pub struct AnswerReader(Reader);

impl AnswerReader {
    /// Creates a reader for a response.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self(Reader::new(format.provider(), format.wire().decoder()))
    }

    /// Processes more of the stream.
    ///
    /// # Errors
    /// Returns an error if the stream violates the format, or if the provider reports an error in it.
    pub fn feed(&mut self, bytes: &[u8], deltas: DeltaSink<'_>) -> Result<(), ModelError> {
        self.0.feed(bytes, deltas)
    }

    /// Returns the complete response.
    ///
    /// # Errors
    /// Returns an error if the stream ended before the response did, or if the response has no usable content.
    pub fn finish(self) -> Result<ModelResponse, ModelError> {
        self.0.finish()
    }
}

/// Events of a stream, each with its name and its data, and the error that ended parsing early, if any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Events {
    /// The events.
    pub events: Vec<(String, String)>,
    /// Error in the data that follows them.
    pub error: Option<String>,
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
    Events { events, error: fed.err().map(|error| error.to_string()) }
}

/// Parses the commands of a prompt as the offline model does; returns them as debug text.
#[must_use]
pub fn commands(prompt: &str) -> String {
    offline::commands(prompt)
}
