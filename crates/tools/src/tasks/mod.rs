//! The tasks that an agent writes down for itself: durable, and each session's own.

mod book;
mod create;
mod get;
mod list;
mod update;

pub(crate) use book::TaskBook;
pub(crate) use create::TaskCreate;
pub(crate) use get::TaskGet;
pub(crate) use list::TaskList;
pub(crate) use update::TaskUpdate;

use meerkat_core::{SessionId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Completed,
}

/// How much a task matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Priority {
    /// Little.
    Low,
    /// As usual.
    #[default]
    Medium,
    /// Much.
    High,
}

/// Why a task cannot be had or made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    /// There is none of that id.
    #[error("there is no task `{0}`; task_list shows those there are")]
    NotFound(String),
    /// There are too many.
    #[error("a session has at most {0} tasks")]
    TooMany(usize),
    /// It is too long.
    #[error("a task has at most {0} bytes")]
    TooLong(usize),
    /// A stored one cannot be read.
    #[error("a stored task cannot be read")]
    Stored(#[source] serde_json::Error),
}
