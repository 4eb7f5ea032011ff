//! Lines of bounded length. A line that is too long is skipped to its end and reported with its beginning.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// How much of a line that is too long is kept, to find out what it answers.
const HEAD: usize = 4096;

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    TooLong { head: Vec<u8> },
}

#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    limit: usize,
    line: Vec<u8>,
    too_long: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R, limit: usize) -> Self {
        Self { reader, limit, line: Vec::new(), too_long: false }
    }

    /// Returns the next line; `None` at the end. What was read stays here when the future is dropped.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                return Ok((!self.line.is_empty()).then(|| self.take()));
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            if self.too_long || self.line.len() + part.len() > self.limit {
                self.too_long = true;
                let room = HEAD.saturating_sub(self.line.len()).min(part.len());
                self.line.extend_from_slice(&part[..room]);
                self.line.truncate(HEAD);
            } else {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(self.take()));
            }
        }
    }

    fn take(&mut self) -> Line {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.too_long) { Line::TooLong { head: line } } else { Line::Whole(line) }
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAD, Line, Lines};

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_the_next_is_read() {
        let long = vec![b'x'; HEAD * 2];
        let text = [b"one\n".as_slice(), &long, b"\n\nlast".as_slice()].concat();
        let mut lines = Lines::new(text.as_slice(), HEAD + 1);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(line);
        }
        assert_eq!(
            found,
            [
                Line::Whole(b"one".to_vec()),
                Line::TooLong { head: vec![b'x'; HEAD] },
                Line::Whole(Vec::new()),
                Line::Whole(b"last".to_vec()),
            ]
        );
    }
}
