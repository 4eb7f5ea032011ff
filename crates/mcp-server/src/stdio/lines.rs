//! Reading and writing of lines on dedicated threads: both may block forever.

use std::io::{BufRead, Read as _, Write};

use tokio::sync::mpsc;

use crate::protocol::IdScanner;

/// Maximum length of a line in bytes.
pub(super) const MAX_LINE: usize = 32 * 1024 * 1024;

/// Result of reading a line.
pub(super) enum Line {
    Text(Vec<u8>),
    /// Line over the limit, with the ids found in it.
    TooLong(IdScanner),
}

/// Reads lines until the end, including a last line without a newline.
pub(super) fn read(mut input: impl BufRead, lines: &mpsc::Sender<Line>) {
    loop {
        let mut text = Vec::new();
        let read = input.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut text);
        match read {
            Ok(0) | Err(_) => return,
            Ok(length) if length > MAX_LINE && text.last() != Some(&b'\n') => {
                let mut ids = IdScanner::scan(&text);
                drop(text);
                // The rest of the line is scanned even if its end is missing.
                let skipped = skip(&mut input, &mut ids);
                if lines.blocking_send(Line::TooLong(ids)).is_err() || skipped.is_err() {
                    return;
                }
            }
            Ok(_) => {
                if lines.blocking_send(Line::Text(text)).is_err() {
                    return;
                }
            }
        }
    }
}

/// Skips the rest of a line, and looks for ids in it.
fn skip(input: &mut impl BufRead, ids: &mut IdScanner) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        match buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                ids.push(&buffer[..end]);
                input.consume(end + 1);
                return Ok(());
            }
            None => {
                let length = buffer.len();
                ids.push(buffer);
                input.consume(length);
            }
        }
    }
}

/// Writes and flushes each line.
pub(super) fn write(mut output: impl Write, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut line) = lines.blocking_recv() {
        line.push(b'\n');
        if output.write_all(&line).and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}
