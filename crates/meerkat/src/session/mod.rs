//! Sessions: created, run, read, interrupted, archived.

mod driver;
mod events;
mod flight;
mod live;
mod media;
mod record;
mod service;
mod start;
mod stops;
mod streams;

pub(crate) use live::LiveRuns;
pub(crate) use record::message;

pub use events::EventSink;
pub use service::{HistoryPage, SessionService, SessionView};
pub use start::{NewSessionOptions, RunControl, RunResult, ToolOverlay, TurnOptions};
