//! Implementations of [`meerkat_core::Model`], one directory per wire format.
//!
//! A directory owns its wire format: request bodies and response parsing, as pure functions separate from the HTTP
//! client. The core decides what a run does with a response. Nothing here retries, logs, or reads the environment:
//! everything a model needs is passed to it.

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
mod fast_path;
#[cfg(any(feature = "chat", feature = "gemini", feature = "responses"))]
mod fields;
#[cfg(feature = "fuzzing")]
#[path = "../tests/fuzzing/mod.rs"]
pub mod fuzzing;
#[cfg(feature = "gemini")]
mod gemini;
#[cfg(feature = "http")]
mod history;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod image_types;
#[cfg(any(feature = "gemini", feature = "responses"))]
mod images;
mod offline;
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
pub use anthropic::anthropic;
pub use catalog::{
    BetaHeader, Catalog, CatalogEntry, ModelEntry, ModelTier, PriceTable, ProfileEntry, ProviderGroup,
    ThinkingMode, image_models, params_schema,
};
#[cfg(feature = "chat")]
pub use chat::chat;
pub use endpoint::{Endpoint, Secret, base_url_error, redacted_url};
#[cfg(feature = "gemini")]
pub use gemini::gemini;
#[cfg(feature = "gemini")]
pub use images::gemini_images;
#[cfg(feature = "responses")]
pub use images::openai_images;
pub use offline::{OFFLINE_MODEL_ID, OfflineModel};
#[cfg(feature = "responses")]
pub use responses::responses;
#[cfg(feature = "http")]
pub use schema::schema_warnings;
