//! Sessions: creating, running, reading, interrupting, and archiving them.

mod active;
mod driver;
mod events;
mod in_flight;
mod listing;
mod media;
mod options;
mod prepare;
mod record;
mod run_skills;
mod service;
mod spans;
mod start;
mod stop_signals;
mod streams;

pub(crate) use active::ActiveRuns;
pub(crate) use events::Emitter;
pub(crate) use options::validate_tools;
pub(crate) use record::{SessionSettings, message};

pub use events::EventSink;
pub use listing::UnreadableSession;
pub use options::{HookOverlay, NewSessionOptions, RunControl, RunResult, ToolOverlay, TurnOptions};
pub use service::{HistoryPage, SessionService, SessionView};
