//! The public contract: requests, replies, and the table of errors shared by every surface.
//!
//! Wire names that differ from the code's own terms are confined to this crate: the contract uses `turn` for a run or
//! a step.

/// Pattern of a text that must not be blank.
const NOT_BLANK: &str = r"\S";

mod blob;
mod config;
mod error;
mod event;
mod help;
mod image;
mod mcp;
mod run_options;
mod session;
mod version;

pub use blob::{BlobReply, BlobRequest};
pub use config::{
    CapabilityEntry, CapabilityReport, ConfigAction, ConfigEnvelope, ConfigRequest, ResolvedPaths,
};
pub use error::{ErrorBody, ErrorRow, error_row};
pub use event::{
    StreamCloseReply, StreamCloseRequest, StreamOpenReply, StreamOpenRequest, StreamReadReply,
    StreamReadRequest, StreamStatus,
};
pub use help::{HelpMode, HelpRequest};
pub use image::{
    ImageEncoding, ImageEnd, ImageInput, ImageIntent, ImageProvider, ImageRef, ImageReply, ImageTarget,
    ImageTerminal, ImageView,
};
pub use mcp::{
    McpAddRequest, McpOperation, McpReloadRequest, McpRemoveRequest, McpReply, McpServerInput, McpStatus,
};
pub use run_options::{
    HookOverrides, MAX_INSTRUCTION_CHARS, MAX_LABEL_CHARS, MAX_OUTPUT_RETRIES, RUN_OPTIONS, ResumeRequest,
    RunRequest, SkillKey, SkillRef, SkillRefKind, SkillsAction, SkillsRequest,
};
pub use session::{
    ApprovalInput, ArchiveReply, Billing, BuiltinConfig, CompletedReply, HistoryReply, HistoryRequest,
    InterruptReply, PendingApproval, PendingCall, PendingReply, ReadReply, RunReply, SessionEntry,
    SessionRequest, SessionState, SessionsReply, SessionsRequest, TextBlock, ToolHandler, ToolOverlayInput,
    ToolResultInput,
};
pub use version::{CONTRACT_VERSION, ContractVersion};
