//! Lines of bounded length. An overlong line is skipped to its end and reported with its start.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Number of bytes retained of an overlong line, to find the request it responds to.
const HEAD: usize = 4096;

/// A line without its line ending.
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

    /// Returns the next line; `None` at the end. Dropping the future loses no data.
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
                let taken = HEAD.saturating_sub(self.line.len()).min(part.len());
                self.line.extend_from_slice(&part[..taken]);
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
    async fn overlong_line_is_skipped() {
        let long = vec![b'x'; HEAD * 2];
        let text = [b"one\n".as_slice(), &long, b"\n\nlast".as_slice()].concat();
        let mut lines = Lines::new(text.as_slice(), HEAD + 1);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(line);
        }
        assert_eq!(
            read,
            [
                Line::Whole(b"one".to_vec()),
                Line::TooLong { head: vec![b'x'; HEAD] },
                Line::Whole(Vec::new()),
                Line::Whole(b"last".to_vec()),
            ]
        );
    }
}
