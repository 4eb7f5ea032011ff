//! Incremental parser for server-sent events.
//!
//! Input may be split anywhere, inside a character or between a carriage return and its line feed; the result is
//! the same. A line that lies within one piece of the stream is parsed without copying.

use std::io::BufRead as _;
use std::mem;

/// Maximum length of a line and of an event.
pub(crate) const MAX_EVENT: usize = 8 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    /// Event name; empty if the server sends none.
    pub(crate) name: &'a str,
    /// Event data, with its lines joined.
    pub(crate) data: &'a str,
}

/// A stream that is not server-sent events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    /// A line or an event exceeds the limit.
    #[error("an event of the stream is longer than {MAX_EVENT} bytes")]
    TooLong,
    /// A line is not text.
    #[error("a line of the stream is not UTF-8")]
    NotText,
}

/// Converts bytes into events.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// The start of a line whose end has not arrived.
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    after_return: bool,
}

impl Parser {
    /// Parses more bytes; passes each complete event to `take`, in order. An error ends parsing.
    pub(crate) fn feed<E: From<SseError>>(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if bytes.is_empty() {
            return Ok(());
        }
        let after_return = mem::take(&mut self.after_return);
        let bytes = if after_return { bytes.strip_prefix(b"\n").unwrap_or(bytes) } else { bytes };
        let mut lines = Lines::new(bytes);
        while let Some(line) = lines.next() {
            if self.line.is_empty() {
                self.end_line(line, &mut take)?;
            } else {
                self.extend(line)?;
                let mut line = mem::take(&mut self.line);
                self.end_line(&line, &mut take)?;
                line.clear();
                self.line = line;
            }
        }
        self.after_return = lines.ends_with_return();
        self.extend(lines.rest())?;
        Ok(())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.len() + bytes.len() > MAX_EVENT {
            return Err(SseError::TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line<E: From<SseError>>(
        &mut self,
        bytes: &[u8],
        take: &mut impl FnMut(&Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if bytes.len() > MAX_EVENT {
            return Err(SseError::TooLong.into());
        }
        let line = std::str::from_utf8(bytes).map_err(|_| SseError::NotText)?;
        let line = line.strip_prefix('\u{feff}').unwrap_or(line);
        if !line.is_empty() {
            return Ok(self.field(line)?);
        }
        let result = if mem::take(&mut self.has_data) {
            take(&Event { name: &self.name, data: &self.data })
        } else {
            Ok(())
        };
        self.name.clear();
        self.data.clear();
        result
    }

    fn field(&mut self, line: &str) -> Result<(), SseError> {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if self.data.len() + value.len() >= MAX_EVENT {
                    return Err(SseError::TooLong);
                }
                if mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Complete lines of a byte slice, each ended by a line feed, a carriage return, or both.
struct Lines<'a> {
    bytes: &'a [u8],
    start: usize,
    /// Positions of the next line feed and carriage return, each searched for only after the last one was passed.
    feed: Option<usize>,
    carriage: Option<usize>,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, start: 0, feed: find(b'\n', bytes, 0), carriage: find(b'\r', bytes, 0) }
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = match (self.feed, self.carriage) {
            (Some(feed), Some(carriage)) => feed.min(carriage),
            (feed, carriage) => feed.or(carriage)?,
        };
        let line = &self.bytes[self.start..end];
        self.start = end + 1;
        if self.carriage == Some(end) {
            self.start += usize::from(self.bytes.get(self.start) == Some(&b'\n'));
            self.carriage = find(b'\r', self.bytes, self.start);
        }
        if self.feed.is_some_and(|feed| feed < self.start) {
            self.feed = find(b'\n', self.bytes, self.start);
        }
        Some(line)
    }

    /// Returns the incomplete last line.
    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.start..]
    }

    /// Returns `true` if the last line ends with a carriage return whose line feed may still follow.
    fn ends_with_return(&self) -> bool {
        self.start == self.bytes.len() && self.bytes.ends_with(b"\r")
    }
}

/// Returns the position of the next occurrence of a byte.
fn find(byte: u8, bytes: &[u8], from: usize) -> Option<usize> {
    let mut rest = &bytes[from..];
    // `skip_until` is the standard library's fast search; reading from memory cannot fail.
    let passed = rest.skip_until(byte).unwrap_or_default();
    let at = from + passed.checked_sub(1)?;
    (bytes[at] == byte).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Events = Vec<(String, String)>;

    fn read(chunks: &[&[u8]]) -> (Events, Result<(), SseError>) {
        let (mut parser, mut events) = (Parser::default(), Vec::new());
        let fed = chunks.iter().try_for_each(|chunk| {
            parser.feed(chunk, |event| {
                events.push((event.name.to_owned(), event.data.to_owned()));
                Ok(())
            })
        });
        (events, fed)
    }

    fn parse(chunks: &[&[u8]]) -> Events {
        let (events, fed) = read(chunks);
        assert_eq!(fed, Ok(()));
        events
    }

    const STREAM: &str =
        ": hello\r\nevent: one\r\ndata: {\"é\":1}\r\n\r\nid: 7\ndata:a\ndata: b\n\n\r\rdata\r\rdata: lost";

    #[test]
    fn split_streams_parse_the_same() {
        let event = |name: &str, data: &str| (name.to_owned(), data.to_owned());
        let expected = vec![event("one", "{\"é\":1}"), event("", "a\nb"), event("", "")];
        assert_eq!(parse(&[STREAM.as_bytes()]), expected);
        for cut in 0..=STREAM.len() {
            let (head, tail) = STREAM.as_bytes().split_at(cut);
            assert_eq!(parse(&[head, tail]), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = STREAM.as_bytes().chunks(1).collect();
        assert_eq!(parse(&single), expected);
    }

    #[test]
    fn invalid_streams_are_rejected() {
        assert_eq!(read(&[b"data: \xff\n"]), (vec![], Err(SseError::NotText)));
        let mut endless = vec![b'x'; MAX_EVENT + 1];
        assert_eq!(read(&[&endless]), (vec![], Err(SseError::TooLong)));
        endless.push(b'\n');
        assert_eq!(read(&[&endless]), (vec![], Err(SseError::TooLong)));
    }

    #[test]
    fn oversized_event_is_rejected() {
        let line = format!("data: {}\n", "x".repeat(MAX_EVENT / 2 - 1));
        let line = line.as_bytes();
        assert_eq!(read(&[line, line]), (vec![], Ok(())));
        assert_eq!(read(&[line, line, line]), (vec![], Err(SseError::TooLong)));
    }

    #[test]
    fn events_before_invalid_line_are_emitted() {
        let stream: &[u8] = b"data: a\n\ndata: \xff\n\ndata: b\n\n";
        let expected = (vec![(String::new(), "a".to_owned())], Err(SseError::NotText));
        assert_eq!(read(&[stream]), expected);
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&single), expected);
    }

    #[test]
    fn empty_chunk_changes_nothing() {
        assert_eq!(parse(&[b"data: a\r", b"", b"\ndata: b\r\n\r\n"]), [(String::new(), "a\nb".to_owned())]);
    }
}
