//! Events: numbered per session, retained for a while, and sent to all listeners.
//!
//! A run never waits for a listener. Events exist in this process only, and are dropped after a while.

mod bus;
mod channel;
mod emitter;
mod error;
mod progress;
mod queue;
mod size;
mod stream;
mod streams;
#[cfg(test)]
mod tests;

pub(crate) use bus::{EventBus, PriorEvents, RunChannel};
pub(crate) use channel::ReadLimit;
pub(crate) use emitter::Emitter;
pub(crate) use stream::ReadOutcome;

pub use emitter::EventSink;
pub use error::StreamError;
pub use progress::describe_progress;
pub use queue::{EventQueue, Events};
