//! Errors, with their messages and exit codes.

use std::path::Path;
use std::process::ExitCode;

use meerkat::ErrorKind;
use meerkat_contracts::{ErrorBody, error_row};
use serde_json::json;

use crate::out;
use crate::render::state_root_option;

/// Error of a command.
#[derive(Debug)]
pub(crate) enum CliError {
    /// An error of the runtime.
    Meerkat(meerkat::Error),
    /// Invalid command line or input.
    Usage(String),
    /// The server could not listen.
    Listen(meerkat_mcp_server::http::ListenError),
    /// Unknown session.
    NoSession(String),
    /// An error of a skill.
    Skill(meerkat_skills::Error),
    /// A file or stream could not be read or written.
    Io(String, std::io::Error),
}

/// Operations that error messages mention, with their names on the command line.
const COMMANDS: [(&str, &str); 1] = [("meerkat_models_catalog", "`rkat models`")];

/// Output format of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    Text,
    Json,
}

impl<E: Into<meerkat::Error>> From<E> for CliError {
    fn from(error: E) -> Self {
        Self::Meerkat(error.into())
    }
}

impl CliError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Meerkat(error) => error.kind(),
            Self::Usage(_) | Self::Listen(_) => ErrorKind::InvalidParams,
            Self::NoSession(_) => ErrorKind::SessionNotFound,
            Self::Skill(error) => error.kind(),
            Self::Io(_, error) => io_kind(error),
        }
    }

    pub(crate) fn body(&self) -> ErrorBody {
        let mut body = self.plain_body();
        for (operation, command) in COMMANDS {
            body.message = body.message.replace(operation, command);
        }
        body
    }

    fn plain_body(&self) -> ErrorBody {
        let message = match self {
            Self::Meerkat(error) => return error.body(),
            Self::Usage(message) | Self::NoSession(message) => message.clone(),
            Self::Listen(error) => error.to_string(),
            Self::Skill(error) => error.to_string(),
            Self::Io(what, error) => format!("{what}: {error}"),
        };
        ErrorBody { code: self.kind().code().to_owned(), message, data: None }
    }

    fn exit(&self) -> u8 {
        match self {
            Self::Meerkat(meerkat::Error::Failed { failure, .. })
                if failure.cause == meerkat::TerminalCause::TurnLimitReached =>
            {
                2
            }
            _ => error_row(self.kind()).exit,
        }
    }

    /// Prints the error and returns the exit code. A suggested command can be run unchanged, even for realms in a
    /// separate state root.
    pub(crate) fn report(&self, format: ErrorFormat, state_root: Option<&Path>) -> ExitCode {
        let body = self.body();
        out::stderr_line(&format!("error: {} [{}]", body.message, body.code));
        let resumable = body.data.as_ref().filter(|data| data["resumable"] == true);
        if let Some(session) = resumable.and_then(|data| data["session_ref"].as_str()) {
            let root = state_root_option(state_root);
            out::stderr_line(&format!("hint: rkat run {root}--resume={session} \"…\" continues the session"));
        }
        if format == ErrorFormat::Json {
            out::line(&json!({ "error": body }).to_string());
        }
        ExitCode::from(self.exit())
    }
}

/// Maps an I/O error: a wrong path is an invalid command line, anything else an internal error.
fn io_kind(error: &std::io::Error) -> ErrorKind {
    use std::io::ErrorKind as Io;
    match error.kind() {
        Io::NotFound | Io::IsADirectory | Io::NotADirectory | Io::PermissionDenied | Io::InvalidData => {
            ErrorKind::InvalidParams
        }
        _ => ErrorKind::Internal,
    }
}
