//! Server-sent events, decoded incrementally from a response.

use std::io;

use reqwest::Response;

use crate::wire::MAX_MESSAGE;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: String,
    /// Id to resume from if the stream breaks.
    pub(super) id: Option<String>,
    /// Delay before resuming, in milliseconds.
    pub(super) retry: Option<u64>,
}

/// Incremental decoder of events.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    buffer: Vec<u8>,
    event: Event,
    has_data: bool,
}

impl Decoder {
    /// Appends a chunk.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns `true` if more data is buffered than a message may have.
    pub(super) fn overflows(&self) -> bool {
        self.buffer.len() + self.event.data.len() > MAX_MESSAGE
    }

    /// Returns the next complete event.
    pub(super) fn next(&mut self) -> Option<Event> {
        let mut start = 0;
        let mut event = None;
        while let Some(end) = self.buffer[start..].iter().position(|byte| *byte == b'\n') {
            let line = self.buffer[start..start + end].to_vec();
            start += end + 1;
            let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
            event = self.line(&line);
            if event.is_some() {
                break;
            }
        }
        self.buffer.drain(..start);
        event
    }

    fn line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let has_data = std::mem::take(&mut self.has_data);
            return (has_data || event.id.is_some() || event.retry.is_some()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            "id" => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry = value.parse().ok(),
            _ => {}
        }
        None
    }
}

/// Events of a response.
#[derive(Debug)]
pub(super) struct Events {
    response: Response,
    decoder: Decoder,
}

impl Events {
    pub(super) fn new(response: Response) -> Self {
        Self { response, decoder: Decoder::default() }
    }

    /// Returns `true` if the server sent an overlong event.
    pub(super) fn overflows(&self) -> bool {
        self.decoder.overflows()
    }

    /// Returns the next event; `None` at the end. Dropping the future loses no data.
    pub(super) async fn next(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some(event) = self.decoder.next() {
                return Ok(Some(event));
            }
            if self.decoder.overflows() {
                return Err(io::Error::other("the server sent an event that is too long"));
            }
            match self.response.chunk().await.map_err(io::Error::other)? {
                Some(bytes) => self.decoder.push(&bytes),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Decoder, Event};

    #[test]
    fn events_do_not_depend_on_chunk_boundaries() {
        let text = ": hello\r\nevent: endpoint\r\ndata: /messages?id=1\r\n\r\nid: 7\ndata: a\ndata:b\n\nevent: x\n\n\
                    retry: 50\n\n";
        let event = |name: &str, data: &str, id: Option<&str>, retry| Event {
            name: name.to_owned(),
            data: data.to_owned(),
            id: id.map(str::to_owned),
            retry,
        };
        let expected = [
            event("endpoint", "/messages?id=1", None, None),
            event("", "a\nb", Some("7"), None),
            event("", "", None, Some(50)),
        ];
        for size in 1..text.len() {
            let mut decoder = Decoder::default();
            let mut events = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                decoder.push(piece);
                events.extend(std::iter::from_fn(|| decoder.next()));
            }
            assert_eq!(events, expected, "in pieces of {size}");
        }
    }
}
