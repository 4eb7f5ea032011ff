//! Types and decision logic of Meerkat, with no I/O: no runtime, no clock, no files, no environment.
//!
//! The center is [`run`]: a pure state machine that returns what to do next (call the model, run these tools, commit
//! this, finish) and takes the results as input. Everything else is shared vocabulary: content and messages, tools,
//! events, budgets, errors, and the ports to the outside world.

mod approval;
mod budget;
mod call;
mod clock;
mod compact;
mod content;
mod decode;
mod describe;
mod error;
mod event;
mod fit;
mod hook;
mod id;
mod image;
mod message;
mod model;
mod money;
mod printable;
mod redact;
mod retry;
pub mod run;
mod schema;
mod secret_args;
mod secret_name;
mod tool;
mod trace;
mod transcript;
mod usage;

pub use approval::{Approval, ApprovalPolicy, ApprovalRequest, Decision, ToolImpact};
pub use budget::{BudgetLimits, BudgetType};
pub use call::{ToolCall, ToolDef, ToolResult};
pub use clock::Clock;
pub use compact::{CompactionPolicy, FindPinned, PinnedText, estimate_tokens};
pub use content::{Content, ContentBlock, MediaSource};
pub use decode::{at_path, decode, plain_error};
pub use describe::{input_schema, output_schema};
pub use error::ErrorKind;
pub use event::{
    AgentEvent, ErrorClass, ErrorReport, EventEnvelope, EventSource, HookPoint, HookReason, JobStatus,
    SchemaWarning, TerminalCause, ToolConfigChange, ToolConfigOperation,
};
pub use fit::fit_to_window;
pub use hook::{
    Denial, DenialKind, FailurePolicy, Hook, HookCapability, HookDecision, HookEntry, HookError, HookFailure,
    HookInvocation, HookMode, HookOutput, HookPoints, HookRequest, HookResponse, HookRuntime, HookSet,
    HookSetError, HookToolCall, HookToolResult, HookVerdict, SecretMap, evaluate_hook,
};
pub use id::{BlobId, EventId, IdError, RealmId, RunId, SessionId, StreamId, UUID_PATTERN};
pub use image::{Image, ImageFormat, ImageModel, ImageQuality, ImageRequest, ImageResponse, ImageSize};
pub use jiff::Timestamp;
pub use message::{AssistantBlock, AssistantImage, BlobRef, Message, NoticeKind, StopReason};
pub use model::{
    Delta, DeltaSink, Model, ModelError, ModelErrorKind, ModelInfo, ModelProfile, ModelRequest,
    ModelResponse, Provider, ResponseStatus,
};
pub use money::{Price, Usd};
pub use printable::{escape_line, escape_text, excerpt, excerpt_message};
pub use redact::{Cut, Redactor, percent_decoded};
pub use retry::{Retry, RetryDecision, RetryFailure, RetryKind, RetryPlan, RetryPolicy};
pub use schema::{OutputSchema, SchemaCompat, SchemaError};
pub use secret_args::{SecretArg, secret_args};
pub use secret_name::is_secret_name;
pub use tool::{
    CompletedCall, FinishedJob, Invocation, Tool, ToolFailure, ToolOutput, ToolRoute, ToolSource,
};
pub use trace::TraceContext;
pub use transcript::{Compaction, Transcript};
pub use usage::Usage;

/// A boxed future, for ports that are used as trait objects.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
