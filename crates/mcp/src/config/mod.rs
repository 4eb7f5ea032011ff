//! What a user says about servers: the entries of a server file, as values.
//!
//! A file is given as text and a label; nothing here touches the disk, the environment or the home directory.
//! One entry that makes no sense costs only itself: it becomes a [`ConfigProblem`] that names file, line and
//! field, and every other entry works.

mod edit;
mod expand;
mod load;
mod read;
mod show;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

pub use edit::{add_server, remove_server};
pub use load::{LoadedServers, ServerFile, SourcedServer, load_servers};

/// How long a server may take to start, shake hands and list its tools.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call may stay silent.
pub const TOOL_TIMEOUT: Duration = Duration::from_secs(300);

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its name, unique among the servers in use.
    pub name: String,
    /// How it is reached.
    pub transport: TransportConfig,
    /// How long it may take until its tools are known.
    pub connect_timeout: Duration,
    /// How long a call may go without an answer or a sign of progress.
    pub tool_timeout: Duration,
    /// Whether a run must not start without it.
    pub required: bool,
    /// Whether it is in use.
    pub enabled: bool,
    /// Which generation of the protocol it speaks.
    pub era: EraChoice,
    /// The tools to offer; empty for all.
    pub allow: Vec<String>,
    /// The tools never to offer.
    pub deny: Vec<String>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportConfig {
    /// A program of ours to start, spoken to over its standard streams.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// What its environment has besides the few variables every server gets.
        env: BTreeMap<String, String>,
    },
    /// An address, spoken to over streamable HTTP, or the transport before it if it knows only that.
    Url(Endpoint),
    /// Streamable HTTP.
    Http(Endpoint),
    /// HTTP with server-sent events, as the first revision had it.
    Sse(Endpoint),
}

/// Where a remote server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub url: String,
    /// The headers of every request.
    pub headers: BTreeMap<String, String>,
}

/// Which generation of the protocol to speak with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EraChoice {
    /// Ask the server.
    #[default]
    Auto,
    /// The one with a handshake.
    Legacy,
    /// The one without.
    Modern,
}

/// Which file an entry is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The project's.
    Project,
    /// The user's.
    User,
}

/// Something in a file of servers that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {}{message}", .field.as_ref().map(|field| format!("`{field}`: ")).unwrap_or_default())]
pub struct ConfigProblem {
    /// The file, as its label says.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The server's name, when it has one.
    pub server: Option<String>,
    /// The field at fault.
    pub field: Option<String>,
    /// What is wrong and what to do.
    pub message: String,
}

/// A field of an entry that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {message}")]
pub struct FieldError {
    /// The field.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl FieldError {
    pub(crate) fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), message: message.into() }
    }
}

impl ServerConfig {
    /// Reads an entry given as an object, with the same fields as in a file.
    ///
    /// # Errors
    ///
    /// Names the first field that is missing, unknown or does not fit.
    pub fn from_json(entry: &Value) -> Result<Self, FieldError> {
        match entry {
            Value::Object(fields) => read::read_server(fields),
            _ => Err(FieldError::new("server_config", "must be an object with the fields of a server")),
        }
    }

    /// Checks an entry that was put together, as one in a file is checked.
    ///
    /// # Errors
    ///
    /// Names the field that does not fit.
    pub fn checked(self) -> Result<Self, FieldError> {
        read::check_name(&self.name)?;
        match &self.transport {
            TransportConfig::Url(endpoint)
            | TransportConfig::Http(endpoint)
            | TransportConfig::Sse(endpoint)
                if !endpoint.url.contains("${") =>
            {
                read::check_url(&endpoint.url)?;
            }
            _ => {}
        }
        Ok(self)
    }

    /// Returns the field that sends a variable to a remote server: `url`, or a header.
    #[must_use]
    pub fn endpoint_variable(&self) -> Option<String> {
        expand::endpoint_variable(self)
    }

    /// Replaces every `${NAME}` with what the lookup knows.
    ///
    /// # Errors
    ///
    /// Names the field and the variable that is not set, or the field whose `${` has no end.
    pub fn expanded(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, FieldError> {
        expand::expand_server(self, lookup)
    }

    /// Says whether a tool of this server may be offered.
    #[must_use]
    pub fn offers(&self, tool: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == tool);
        (self.allow.is_empty() || named(&self.allow)) && !named(&self.deny)
    }
}

#[cfg(test)]
mod tests;
