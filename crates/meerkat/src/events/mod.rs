//! Events: numbered for each session, kept for a while, and handed to whoever listens.
//!
//! A run never waits for a listener. Events belong to this process: they are told and, after a while, gone.

mod channel;
mod hub;
mod progress;
mod stream;
mod streams;
#[cfg(test)]
mod tests;
mod weight;

pub(crate) use channel::Room;
pub(crate) use hub::{EventHub, Past, RunChannel};
pub(crate) use stream::{Reading, StreamId};

pub use progress::progress;
