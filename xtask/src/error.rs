//! The error type of this program: the failed step, and the cause.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// The cause of a failed command.
#[derive(Debug)]
pub(crate) enum Error {
    /// The command line is invalid.
    Usage(String),
    /// A program could not be started.
    Start { command: String, source: io::Error },
    /// A program ended with a failure.
    Failed { command: String, status: ExitStatus },
    /// A file could not be read or written.
    File { path: PathBuf, source: io::Error },
    /// The reference pages differ from the code.
    Reference { differences: Vec<String> },
    /// The wording breaks the rules of `xtask/words.txt`.
    Words(Vec<String>),
    /// Crates or modules use each other in a way that is not documented.
    Layers(Vec<String>),
    /// An example printed something else.
    Example { name: &'static str, printed: String },
    /// Tests failed; they have been reported.
    Tests,
}

impl Error {
    /// Adds the file to an I/O error, for use with `map_err`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File { path: path.to_owned(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(problem) => f.write_str(problem),
            Self::Start { command, source } => {
                write!(f, "cannot start `{command}`: {source}; is the program installed and on PATH?")
            }
            Self::Failed { command, status } => write!(f, "`{command}` failed ({status})"),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Reference { differences } => {
                write!(f, "the reference pages are out of date; run `cargo xtask docs`")?;
                differences.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Self::Words(findings) => {
                write!(f, "phrases from xtask/words.txt")?;
                findings.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Self::Layers(findings) => {
                write!(f, "the layers are broken")?;
                findings.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Self::Example { name, printed } => write!(f, "the example `{name}` printed\n{printed}"),
            Self::Tests => f.write_str("tests failed"),
        }
    }
}
