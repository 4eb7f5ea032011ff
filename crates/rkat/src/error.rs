//! What went wrong, for the person at the terminal and for the exit code.

use std::process::ExitCode;

use meerkat::ErrorKind;
use meerkat_contracts::{ErrorBody, error_row};
use serde_json::json;

use crate::out;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The runtime says so.
    Meerkat(meerkat::Error),
    /// The command line or its input is wrong.
    Usage(String),
    /// Nothing could be served.
    Listen(meerkat_mcp_server::http::ListenError),
    /// There is no such session.
    NoSession(String),
    /// A file or stream could not be read or written.
    Io(String, std::io::Error),
}

/// How an error is printed.
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
    fn body(&self) -> ErrorBody {
        let of = |kind: ErrorKind, message: String| ErrorBody {
            code: kind.code().to_owned(),
            message,
            data: None,
        };
        match self {
            Self::Meerkat(error) => error.body(),
            Self::Usage(message) => of(ErrorKind::InvalidParams, message.clone()),
            Self::Listen(error) => of(ErrorKind::InvalidParams, error.to_string()),
            Self::NoSession(message) => of(ErrorKind::SessionNotFound, message.clone()),
            Self::Io(what, error) => of(io_kind(error), format!("{what}: {error}")),
        }
    }

    fn exit(&self) -> u8 {
        match self {
            Self::Meerkat(meerkat::Error::Failed { failure, .. })
                if failure.cause == meerkat::TerminalCause::TurnLimitReached =>
            {
                2
            }
            Self::Meerkat(error) => error_row(error.kind()).exit,
            Self::Usage(_) => 2,
            Self::Listen(_) => 1,
            Self::NoSession(_) => error_row(ErrorKind::SessionNotFound).exit,
            Self::Io(_, error) => error_row(io_kind(error)).exit,
        }
    }

    /// Prints the error and returns the exit code.
    pub(crate) fn report(&self, format: ErrorFormat) -> ExitCode {
        let body = self.body();
        out::say(&format!("error: {} [{}]", body.message, body.code));
        let resumable = body.data.as_ref().filter(|data| data["resumable"] == true);
        if let Some(id) = resumable.and_then(|data| data["session_id"].as_str()) {
            out::say(&format!("hint: rkat run --resume={id} \"…\" continues the session"));
        }
        if format == ErrorFormat::Json {
            out::line(&json!({ "error": body }).to_string());
        }
        ExitCode::from(self.exit())
    }
}

/// A file that was named wrongly is a wrong command line; anything else is not the caller's fault.
fn io_kind(error: &std::io::Error) -> ErrorKind {
    use std::io::ErrorKind as Io;
    match error.kind() {
        Io::NotFound | Io::IsADirectory | Io::NotADirectory | Io::PermissionDenied | Io::InvalidData => {
            ErrorKind::InvalidParams
        }
        _ => ErrorKind::Internal,
    }
}
