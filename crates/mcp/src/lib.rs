//! MCP client: tools of MCP servers for runs.
//!
//! Servers connect in the background, and their tools appear when they are ready; a slow, broken, or exited server does
//! not affect the others. Commands that were started are stopped together with all their child processes.
//!
//! The crate does not read the environment, the home directory, or files: configuration, variables, and credentials are
//! passed in as values and ports.

mod auth;
mod client_features;
pub mod config;
mod connect;
mod decode;
mod era;
mod login_listener;
mod names;
mod options;
mod process;
mod remote;
mod resource_tools;
mod search;
mod server;
mod set;
mod trust;
mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use auth::{
    Login, LoginError, LoginOptions, LoginState, RegisteredClient, TokenLock, TokenStore, token_key,
};
pub use client_features::{ClientFeature, ClientFeatures};
pub use era::{Era, HandshakeMemory};
pub use login_listener::LoginListener;
pub use meerkat_process::supervise;
pub use options::{NoticeSink, ServerSetOptions};
pub use process::{Launcher, SpawnError};
pub use search::{LoadedTools, SearchableTools};
pub use server::{ServerState, ServerView, ToolName};
pub use set::{RequiredError, ServerChange, ServerSet, SessionServers};
pub use trust::{TrustError, TrustStore};

/// Locks a mutex. Its value is valid even if a thread panicked while holding the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Formats an error with all its causes on one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    without_urls(&text)
}

/// Removes the URLs that the HTTP client appends to its errors: their queries may contain secrets.
fn without_urls(text: &str) -> String {
    const START: &str = " for url (";
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(START) {
        cleaned.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    cleaned + rest
}

#[cfg(test)]
mod tests {
    use super::causes;

    #[test]
    fn errors_omit_urls() {
        let inner = std::io::Error::other("refused for url (https://x.example/?key=secret): os error 111");
        assert_eq!(causes(&inner), "refused: os error 111");
        assert_eq!(causes(&std::io::Error::other("refused for url (https://x/?key=sec")), "refused");
    }
}
