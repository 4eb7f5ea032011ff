//! Server configuration: entries of an MCP config file, as values.
//!
//! Files are passed in as text with a label; this module does not access the disk, the environment, or the home
//! directory. An invalid entry becomes a [`ConfigProblem`] that names the file, line, and field; all other entries
//! work.

mod edit;
mod expand;
mod load;
mod read;
mod show;

use std::collections::BTreeMap;
use std::time::Duration;

use meerkat_core::excerpt;
use serde_json::Value;

pub use edit::{add_server, remove_server};
pub use load::{LoadedServers, ServerFile, SourcedServer, load_servers};

/// Default time limit for a server to start, connect, and list its tools.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Default time limit for a call without a response or progress.
pub const TOOL_TIMEOUT: Duration = Duration::from_secs(300);

/// Configuration of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Name, unique among the servers in use.
    pub name: String,
    /// Transport of the server.
    pub transport: TransportConfig,
    /// Time limit until the server's tools are known.
    pub connect_timeout: Duration,
    /// Time limit for a call without a response or progress.
    pub tool_timeout: Duration,
    /// Whether a run must not start without the server.
    pub required: bool,
    /// Whether the server is in use.
    pub enabled: bool,
    /// Protocol era of the server.
    pub era: EraChoice,
    /// Tools to expose; empty for all.
    pub allow: Vec<String>,
    /// Tools never to expose.
    pub deny: Vec<String>,
}

/// Transport of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportConfig {
    /// A command to start, which communicates over its standard streams.
    Stdio {
        /// The command.
        command: String,
        /// Arguments of the command.
        args: Vec<String>,
        /// Environment variables in addition to the few that every server gets.
        env: BTreeMap<String, String>,
    },
    /// A URL, used with streamable HTTP, or with the legacy SSE transport if the server supports only that.
    Url(Endpoint),
    /// Streamable HTTP.
    Http(Endpoint),
    /// HTTP with server-sent events, as in the first protocol revision.
    Sse(Endpoint),
}

/// Endpoint of a remote server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The URL.
    pub url: String,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, String>,
}

/// Protocol era to use with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EraChoice {
    /// Detect the era.
    #[default]
    Auto,
    /// The era with a handshake.
    Legacy,
    /// The era without a handshake.
    Modern,
}

/// File that an entry is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The project's file.
    Project,
    /// The user's file.
    User,
}

/// An invalid part of an MCP config file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {}{message}", .field.as_ref().map(|field| format!("`{field}`: ")).unwrap_or_default())]
pub struct ConfigProblem {
    /// Label of the file.
    pub file: String,
    /// Line number, starting at 1.
    pub line: usize,
    /// Name of the server, if known.
    pub server: Option<String>,
    /// The invalid field.
    pub field: Option<String>,
    /// Description of the problem and how to fix it.
    pub message: String,
}

/// An invalid field of an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {message}")]
pub struct FieldError {
    /// The field.
    pub field: String,
    /// Description of the problem and how to fix it.
    pub message: String,
}

impl FieldError {
    pub(crate) fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: excerpt(field), message: message.into() }
    }

    /// Returns the error with its field named as part of another.
    #[must_use]
    pub fn within(self, parent: &str) -> Self {
        Self { field: format!("{parent}.{}", self.field), ..self }
    }
}

impl TransportConfig {
    /// Returns the endpoint of a remote server.
    pub(crate) const fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::Stdio { .. } => None,
            Self::Url(endpoint) | Self::Http(endpoint) | Self::Sse(endpoint) => Some(endpoint),
        }
    }
}

impl EraChoice {
    const ALL: [Self; 3] = [Self::Auto, Self::Legacy, Self::Modern];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

impl ServerConfig {
    /// Parses an entry from an object with the same fields as in a file.
    ///
    /// # Errors
    ///
    /// Returns an error for the first missing, unknown, or invalid field.
    pub fn from_json(entry: &Value) -> Result<Self, FieldError> {
        match entry {
            Value::Object(fields) => read::read_server(fields),
            _ => Err(FieldError::new("server_config", "must be an object with the fields of a server")),
        }
    }

    /// Validates an entry that was built in code, like one in a file.
    ///
    /// # Errors
    ///
    /// Returns an error that names the invalid field.
    pub fn checked(self) -> Result<Self, FieldError> {
        read::check_name(&self.name)?;
        if let Some(endpoint) = self.transport.endpoint().filter(|endpoint| !endpoint.url.contains("${")) {
            read::check_url(&endpoint.url)?;
        }
        Ok(self)
    }

    /// Returns the field that sends a variable to a remote server: `url` or a header.
    #[must_use]
    pub fn endpoint_variable(&self) -> Option<String> {
        expand::endpoint_variable(self)
    }

    /// Replaces every `${NAME}` with the value from the lookup.
    ///
    /// # Errors
    ///
    /// Returns an error that names the field and the variable that is not set, or the field with an unclosed `${`.
    pub fn expanded(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, FieldError> {
        expand::expand_server(self, lookup)
    }

    /// Returns `true` if a tool of this server may be exposed.
    #[must_use]
    pub fn offers(&self, tool: &str) -> bool {
        let contains = |list: &[String]| list.iter().any(|name| name == tool);
        (self.allow.is_empty() || contains(&self.allow)) && !contains(&self.deny)
    }
}

#[cfg(test)]
mod tests;
