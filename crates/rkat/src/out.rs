//! Writing results to stdout and everything else to stderr. A reader that went away (`rkat … | head`) is no
//! fault of ours.

use std::io::{ErrorKind, Write as _};
use std::sync::LazyLock;

use meerkat::Redactor;

/// What no text that is written here may show.
static SECRETS: LazyLock<Redactor> = LazyLock::new(Redactor::default);

/// Returns who knows the secrets of this program, and learns more.
pub(crate) fn secrets() -> Redactor {
    SECRETS.clone()
}

/// Writes text; ends the program quietly when nobody reads it any more.
pub(crate) fn print(text: &str) {
    bytes(SECRETS.redact(text).as_bytes());
}

/// Writes bytes, in the sense of [`print`].
pub(crate) fn bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        if error.kind() != ErrorKind::BrokenPipe {
            say(&format!("error: the result cannot be written: {error}"));
        }
        std::process::exit(i32::from(error.kind() != ErrorKind::BrokenPipe));
    }
}

/// Writes a line, in the sense of [`print`].
pub(crate) fn line(text: &str) {
    print(&format!("{text}\n"));
}

/// Writes a line to stderr, whether or not somebody reads it.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{}\n", SECRETS.redact(text)).as_bytes());
}

/// Writes a question to stderr; the answer is typed behind it.
pub(crate) fn ask(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes a piece of a running answer; the run goes on whether or not somebody reads it.
pub(crate) fn stream(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(SECRETS.redact(text).as_bytes()).and_then(|()| stdout.flush());
}
