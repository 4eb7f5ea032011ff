//! The HTTP client for model providers, hooks, and skill repositories.
//!
//! Redirects are not followed: they would send headers to another server. Nothing is retried or logged. A build without
//! the feature `client` has an [`Http`] whose requests fail.

#[cfg(not(feature = "client"))]
mod absent;
#[cfg(feature = "client")]
mod client;
mod error;

#[cfg(not(feature = "client"))]
pub use absent::Http;
#[cfg(feature = "client")]
pub use client::{Http, root_cause};
pub use error::FetchError;
