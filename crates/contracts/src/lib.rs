//! The public shapes: what every surface takes and gives, and the one table of errors.
//!
//! Wire words that are not ours live here and nowhere else: the contract says `turn` for a run or a step.

mod config;
mod error;
mod image;
mod session;
mod version;

pub use config::{
    CapabilityEntry, CapabilityReport, ConfigAction, ConfigEnvelope, ConfigRequest, ResolvedPaths,
};
pub use error::{ErrorBody, ErrorRow, error_row};
pub use image::{
    ImageEncoding, ImageEnd, ImageInput, ImageIntent, ImageProvider, ImageRef, ImageReply, ImageTarget,
    ImageTerminal, ImageView,
};
pub use session::{
    ArchiveReply, Billing, BuiltinConfig, CompletedReply, HistoryReply, HistoryRequest, InterruptReply,
    PendingCall, PendingReply, ReadReply, ResumeRequest, RunReply, RunRequest, SessionEntry, SessionRequest,
    SessionState, SessionsReply, SessionsRequest, TextBlock, ToolHandler, ToolOverlayInput, ToolResultInput,
};
pub use version::{CONTRACT_VERSION, ContractVersion};
