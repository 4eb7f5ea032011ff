//! Server-sent events, read as they arrive.
//!
//! Bytes may be cut anywhere, inside a character or between a carriage return and its line feed; what comes
//! out is the same.

use std::mem;

/// The longest line, and the longest event, that is read.
pub(crate) const MAX_EVENT: usize = 8 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its name; empty when the server gives none.
    pub(crate) name: String,
    /// Its data, lines joined.
    pub(crate) data: String,
}

/// A stream that is not server-sent events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    /// A line or an event has no end.
    #[error("an event of the stream is longer than {MAX_EVENT} bytes")]
    TooLong,
    /// A line is not text.
    #[error("a line of the stream is not UTF-8")]
    NotText,
}

/// Takes bytes and gives events.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    after_return: bool,
}

impl Parser {
    /// Reads more bytes; appends the events that are complete with them.
    pub(crate) fn feed(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), SseError> {
        let mut rest = bytes;
        if mem::take(&mut self.after_return) {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.extend(&rest[..end])?;
            self.end_line(events)?;
            let returned = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if returned {
                self.after_return = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
        }
        self.extend(rest)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.len() + bytes.len() > MAX_EVENT {
            return Err(SseError::TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), SseError> {
        let bytes = mem::take(&mut self.line);
        let line = std::str::from_utf8(&bytes).map_err(|_| SseError::NotText)?;
        let line = line.strip_prefix('\u{feff}').unwrap_or(line);
        if line.is_empty() {
            let event = mem::take(&mut self.event);
            if mem::take(&mut self.has_data) {
                events.push(event);
            }
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.event.data.len() + value.len() >= MAX_EVENT {
                    return Err(SseError::TooLong);
                }
                if mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<Event> {
        let (mut parser, mut events) = (Parser::default(), Vec::new());
        for chunk in chunks {
            parser.feed(chunk, &mut events).unwrap();
        }
        events
    }

    const STREAM: &str =
        ": hello\r\nevent: one\r\ndata: {\"é\":1}\r\n\r\nid: 7\ndata:a\ndata: b\n\n\r\rdata\r\rdata: lost";

    #[test]
    fn a_stream_cut_anywhere_is_the_same_stream() {
        let event = |name: &str, data: &str| Event { name: name.to_owned(), data: data.to_owned() };
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
    fn what_is_no_stream_is_refused() {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(b"data: \xff\n", &mut Vec::new()), Err(SseError::NotText));
        let mut parser = Parser::default();
        let endless = vec![b'x'; MAX_EVENT + 1];
        assert_eq!(parser.feed(&endless, &mut Vec::new()), Err(SseError::TooLong));
        let mut parser = Parser::default();
        let line = format!("data: {}\n", "x".repeat(1 << 20));
        let fed = (0..9).try_for_each(|_| parser.feed(line.as_bytes(), &mut Vec::new()));
        assert_eq!(fed, Err(SseError::TooLong), "many lines of one event are no shorter");
    }
}
