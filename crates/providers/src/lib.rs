//! The models that stand behind [`meerkat_core::Model`], one directory each.
//!
//! A directory owns one wire format: how a request looks, how an answer is read, pure and apart from how the
//! provider is reached. What a run makes of the answer is the core's business. Nothing here retries, nothing
//! here logs, and nothing here reads the environment: what a model needs is given to it.

mod alias;
#[cfg(feature = "anthropic")]
mod anthropic;
mod catalog;
#[cfg(feature = "chat")]
mod chat;
#[cfg(feature = "http")]
mod client;
mod endpoint;
#[cfg(feature = "http")]
mod fetch;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "gemini")]
mod gemini;
#[cfg(feature = "http")]
mod history;
#[cfg(feature = "http")]
mod http;
#[cfg(any(feature = "gemini", feature = "responses"))]
mod images;
mod offline;
#[cfg(feature = "http")]
mod pictures;
#[cfg(feature = "http")]
mod quick;
#[cfg(feature = "http")]
mod reader;
#[cfg(feature = "responses")]
mod responses;
#[cfg(feature = "http")]
mod schema;
#[cfg(any(feature = "chat", feature = "gemini"))]
mod shape;
#[cfg(feature = "http")]
mod sse;
#[cfg(feature = "http")]
mod wire;

pub use alias::aliased;
#[cfg(feature = "anthropic")]
pub use anthropic::{AnthropicOptions, anthropic, anthropic_with};
pub use catalog::{
    BetaHeader, Catalogue, CatalogueEntry, ModelEntry, ModelTier, PriceTable, ProfileEntry, ProviderGroup,
    ThinkingMode, image_models, params_schema,
};
#[cfg(feature = "chat")]
pub use chat::chat;
#[cfg(feature = "http")]
pub use client::Http;
pub use endpoint::{Endpoint, Secret, base_url_fault, shown_url};
#[cfg(feature = "http")]
pub use fetch::NotFetched;
#[cfg(feature = "gemini")]
pub use gemini::{GeminiOptions, gemini, gemini_with};
#[cfg(feature = "gemini")]
pub use images::gemini_images;
#[cfg(feature = "responses")]
pub use images::openai_images;
pub use offline::{OFFLINE_MODEL_ID, OfflineModel};
#[cfg(feature = "responses")]
pub use responses::responses;
#[cfg(feature = "http")]
pub use schema::schema_warnings;
