//! Sessions: creating, running, reading, interrupting, and archiving them.

mod driver;
mod events;
mod flight;
mod found;
mod listing;
mod live;
mod media;
mod options;
mod record;
mod service;
mod spans;
mod start;
mod stops;
mod streams;
mod teach;

pub(crate) use events::Emitter;
pub(crate) use live::LiveRuns;
pub(crate) use options::validate_tools;
pub(crate) use record::{SessionSettings, message};

pub use events::EventSink;
pub use listing::UnreadableSession;
pub use options::{HookWishes, NewSessionOptions, RunControl, RunResult, ToolOverlay, TurnOptions};
pub use service::{HistoryPage, SessionService, SessionView};
