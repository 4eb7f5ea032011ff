//! An HTTP server with scripted responses.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

/// A local server. Each request gets the next response; after the last one, no connection is accepted.
pub struct Server {
    address: String,
    seen: Arc<Mutex<Vec<RecordedCall>>>,
}

/// A recorded request.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedCall {
    /// The request line and the headers.
    pub head: String,
    /// The body, if it is JSON; otherwise null.
    pub body: Value,
}

impl Server {
    /// Starts a server with these responses: a status such as `200 OK`, and a body.
    #[must_use]
    pub fn new(answers: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = format!("http://{}", listener.local_addr().expect("the port is known"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answers: Vec<_> = answers.into_iter().collect();
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for (status, body) in answers {
                let Ok((stream, _)) = listener.accept() else { return };
                serve(stream, status, &body, &log);
            }
        });
        Self { address, seen }
    }

    /// Returns its base URL.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the requests received so far.
    #[must_use]
    pub fn seen(&self) -> Vec<RecordedCall> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads, records, and answers one request.
fn serve(mut stream: TcpStream, status: &str, answer: &str, log: &Mutex<Vec<RecordedCall>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket can be shared"));
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a request has a head");
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length is a number");
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a request has its body");
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    log.lock().unwrap_or_else(PoisonError::into_inner).push(RecordedCall { head, body });
    let length = answer.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    // A client that disconnected needs no response.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(answer.as_bytes()));
}
