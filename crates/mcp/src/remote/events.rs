//! Server-sent events, decoded incrementally from a response.

use std::io;

use reqwest::Response;
use sse_stream::Sse;

use crate::wire::MAX_MESSAGE;

/// Incremental decoder of events.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    buffer: Vec<u8>,
    event: Sse,
}

impl Decoder {
    /// Appends a chunk.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns `true` if more data is buffered than a message may have.
    pub(super) fn overflows(&self) -> bool {
        self.buffer.len() + self.event.data.as_ref().map_or(0, String::len) > MAX_MESSAGE
    }

    /// Returns the next complete event.
    pub(super) fn next(&mut self) -> Option<Sse> {
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

    fn line(&mut self, line: &str) -> Option<Sse> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return (event.data.is_some() || event.id.is_some() || event.retry.is_some()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.event = Some(value.to_owned()).filter(|name| !name.is_empty()),
            "data" => match &mut self.event.data {
                Some(data) => data.extend(["\n", value]),
                data => *data = Some(value.to_owned()),
            },
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
    pub(super) async fn next(&mut self) -> io::Result<Option<Sse>> {
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
    use sse_stream::Sse;

    use super::Decoder;

    #[test]
    fn events_do_not_depend_on_chunk_boundaries() {
        let text = ": hello\r\nevent: endpoint\r\ndata: /messages?id=1\r\n\r\nid: 7\ndata: a\ndata:b\n\nevent: x\n\n\
                    retry: 50\n\n";
        let (first, second) = (Sse::default().event("endpoint"), Sse::default().id("7"));
        let last = Sse { retry: Some(50), ..Sse::default() };
        let expected = [first.data("/messages?id=1"), second.data("a\nb"), last];
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
