//! A place for the user to be sent back to after a login: one answer on this machine, then it is gone.
//!
//! Browsers open connections that they do not use, and ask for more than they were sent to; each is served by itself.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

const PATH: &str = "/callback";
/// How many connections are served at a time, and how long each may take.
const MAX_VISITS: usize = 64;
const VISIT: Duration = Duration::from_secs(30);
const MAX_HEAD: usize = 64 * 1024;
const PAGE: &str = "<!doctype html><title>Meerkat</title><p>You can close this page and go back.</p>";

/// Waits for the answer to a login on a port of this machine.
#[derive(Debug)]
pub struct LoginListener {
    listener: TcpListener,
    address: String,
}

impl LoginListener {
    /// Takes a free port that only this machine can reach.
    ///
    /// # Errors
    ///
    /// Fails when there is none.
    pub async fn bind() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = format!("http://{}{PATH}", listener.local_addr()?);
        Ok(Self { listener, address })
    }

    /// Where the user is to be sent: [`LoginOptions::redirect_uri`](crate::LoginOptions::redirect_uri).
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the address the user was sent to, for [`Login::finish`](crate::Login::finish). Requests for
    /// anything else are turned away.
    ///
    /// # Errors
    ///
    /// Fails when the port is lost.
    pub async fn answer(&self) -> io::Result<String> {
        let mut visits = JoinSet::new();
        loop {
            tokio::select! {
                visitor = self.listener.accept(), if visits.len() < MAX_VISITS => {
                    let (stream, _) = visitor?;
                    visits.spawn(timeout(VISIT, serve(stream)));
                }
                // A browser that breaks off, or a stranger, is no reason to stop waiting.
                Some(Ok(Ok(Ok(Some(query))))) = visits.join_next() => {
                    return Ok(format!("{}?{query}", self.address));
                }
            }
        }
    }
}

async fn serve(stream: TcpStream) -> io::Result<Option<String>> {
    let mut stream = BufReader::new(stream);
    let Some(head) = read_head(&mut stream).await? else { return Ok(None) };
    let line = head.lines().next().unwrap_or_default();
    let target = line.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    let query = target.and_then(|target| target.strip_prefix(PATH)?.strip_prefix('?')).map(str::to_owned);
    let (status, page) = if query.is_some() { ("200 OK", PAGE) } else { ("404 Not Found", "") };
    let length = page.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {length}\r\nconnection: close\r\n"
    );
    stream.write_all(format!("{head}\r\n{page}").as_bytes()).await?;
    stream.shutdown().await?;
    Ok(query)
}

/// Reads a request to the end of its head: what is left unread would cost the browser its answer.
async fn read_head(stream: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let available = stream.fill_buf().await?;
        if available.is_empty() || head.len() > MAX_HEAD {
            return Ok(None);
        }
        let end = available.iter().position(|byte| *byte == b'\n').map_or(available.len(), |end| end + 1);
        head.extend_from_slice(&available[..end]);
        stream.consume(end);
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::LoginListener;

    async fn get(address: &str, target: &str) -> String {
        let host = address.trim_start_matches("http://").trim_end_matches("/callback");
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn only_the_answer_to_the_login_ends_the_wait() {
        let listener = LoginListener::bind().await.unwrap();
        let address = listener.address().to_owned();
        let visits =
            async { [get(&address, "/favicon.ico").await, get(&address, "/callback?code=1&state=2").await] };
        let (answer, statuses) = tokio::join!(listener.answer(), visits);
        assert_eq!(answer.unwrap(), format!("{}?code=1&state=2", listener.address()));
        assert_eq!(statuses, ["HTTP/1.1 404 Not Found", "HTTP/1.1 200 OK"]);
    }

    #[tokio::test]
    async fn a_connection_that_says_nothing_keeps_no_other_waiting() {
        let listener = LoginListener::bind().await.unwrap();
        let address = listener.address().to_owned();
        let host = address.trim_start_matches("http://").trim_end_matches("/callback");
        let unused = TcpStream::connect(host).await.unwrap();
        let mut half = TcpStream::connect(host).await.unwrap();
        half.write_all(b"GET /call").await.unwrap();
        let (answer, status) = tokio::join!(listener.answer(), get(&address, "/callback?code=1"));
        assert_eq!((answer.unwrap(), status), (format!("{address}?code=1"), "HTTP/1.1 200 OK".to_owned()));
        drop((unused, half));
    }
}
