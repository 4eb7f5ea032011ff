//! Events: numbered per session, retained for a while, and sent to all listeners.
//!
//! A run never waits for a listener. Events exist in this process only, and are dropped after a while.

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
