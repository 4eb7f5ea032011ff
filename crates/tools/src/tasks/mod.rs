//! The tasks that an agent records for itself: durable, and separate for each session.

mod create;
mod read;
mod store;
mod update;

pub(crate) use create::TaskCreate;
pub(crate) use read::{TaskGet, TaskList};
pub(crate) use store::TaskStore;
pub(crate) use update::TaskUpdate;

use meerkat_core::{SessionId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ToolError;

/// A task. Fields may be added with a default; none may change its meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) subject: String,
    pub(crate) description: String,
    pub(crate) status: Status,
    pub(crate) priority: Priority,
    pub(crate) labels: Vec<String>,
    pub(crate) blocks: Vec<String>,
    pub(crate) blocked_by: Vec<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) created_by_session: SessionId,
    pub(crate) updated_by_session: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    #[serde(default)]
    pub(crate) metadata: Map<String, Value>,
}

/// Progress of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// Not started.
    Pending,
    /// Started.
    InProgress,
    /// Done.
    Completed,
}

/// Importance of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Priority {
    /// Low.
    Low,
    /// Normal.
    #[default]
    Medium,
    /// High.
    High,
}

/// Reason a task cannot be read or created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    /// No task has the id.
    #[error("no task `{0}`; see task_list")]
    NotFound(String),
    /// The session has too many tasks.
    #[error("a session has at most {0} tasks")]
    TooMany(usize),
    /// The task is too long.
    #[error("a task has at most {0} bytes")]
    TooLong(usize),
    /// A stored task cannot be decoded.
    #[error("cannot read a stored task")]
    Stored(#[source] serde_json::Error),
}

impl ToolError for TaskError {}
