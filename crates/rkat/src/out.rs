//! Writing results to stdout and everything else to stderr. A reader that went away (`rkat … | head`) is no
//! fault of ours.
//!
//! Every text passes here. Secrets are masked, and control characters that came from servers, skills, sessions or models
//! are escaped if a terminal would interpret them. What goes to a file or pipe keeps its bytes.

use std::borrow::Cow;
use std::io::{ErrorKind, Write as _};
use std::sync::LazyLock;
use std::sync::mpsc::{SyncSender, sync_channel};

use meerkat::{Redactor, escape_text};

use crate::env;

/// What no text that is written here may show.
static SECRETS: LazyLock<Redactor> = LazyLock::new(Redactor::default);

/// How many lines wait for a slow reader of stderr; what comes on top is lost.
const WAITING: usize = 4096;

/// The queue of the thread that writes lines to stderr for code that must not wait.
static QUEUE: LazyLock<SyncSender<String>> = LazyLock::new(|| {
    let (queue, lines) = sync_channel::<String>(WAITING);
    std::thread::spawn(move || lines.iter().for_each(|line| say(&line)));
    queue
});

/// Where a text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    Terminal,
    /// A file, a pipe or a device.
    Other,
}

impl Destination {
    fn stdout() -> Self {
        if env::stdout_is_terminal() { Self::Terminal } else { Self::Other }
    }

    fn stderr() -> Self {
        if env::stderr_is_terminal() { Self::Terminal } else { Self::Other }
    }

    /// Returns what may be written there.
    fn printable(self, text: &str) -> Cow<'_, str> {
        let text = SECRETS.redact(text);
        match self {
            Self::Terminal => Cow::Owned(escape_text(&text).into_owned()),
            Self::Other => text,
        }
    }
}

/// Returns who knows the secrets of this program, and learns more.
pub(crate) fn secrets() -> Redactor {
    SECRETS.clone()
}

/// Writes text; ends the program quietly when nobody reads it any more.
pub(crate) fn print(text: &str) {
    write(Destination::stdout().printable(text).as_bytes());
}

/// Writes the bytes of a document, in the sense of [`print`]. A terminal gets them as escaped text.
pub(crate) fn bytes(bytes: &[u8]) {
    match Destination::stdout() {
        Destination::Terminal => write(escape_text(&String::from_utf8_lossy(bytes)).as_bytes()),
        Destination::Other => write(bytes),
    }
}

fn write(bytes: &[u8]) {
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
    write_error(&format!("{}\n", Destination::stderr().printable(text)));
}

/// Has a line written to stderr and does not wait for it, for programs that serve until they are ended.
pub(crate) fn queue(text: &str) {
    let _ = QUEUE.try_send(text.to_owned());
}

/// Writes a line to stderr that is less important than the others; dimmed where colors are on.
pub(crate) fn note(text: &str) {
    if env::stderr_has_colours() {
        write_error(&format!("\u{1b}[2m{}\u{1b}[0m\n", Destination::stderr().printable(text)));
    } else {
        say(text);
    }
}

/// Writes the line with the realm's token to stderr, for the user to give to clients. Nothing else shows the token.
pub(crate) fn say_token(text: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

/// Writes a question to stderr; the answer is typed behind it.
pub(crate) fn ask(text: &str) {
    write_error(&Destination::stderr().printable(text));
}

fn write_error(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes a piece of a running answer; the run goes on whether or not somebody reads it.
pub(crate) fn stream(text: &str) {
    let text = Destination::stdout().printable(text);
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use super::Destination;

    #[test]
    fn only_a_terminal_gets_escapes() {
        let hostile = "\u{1b}[2Jhi\n";
        assert_eq!(Destination::Terminal.printable(hostile), "\\u001b[2Jhi\n");
        assert_eq!(Destination::Other.printable(hostile), hostile);
    }
}
