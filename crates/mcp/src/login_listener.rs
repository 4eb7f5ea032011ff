//! Local listener for the redirect after a login: it waits for one redirect, then closes.
//!
//! Browsers open connections that they do not use, and request more than the redirect; each connection is served
//! separately.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

const PATH: &str = "/callback";
/// Maximum number of concurrent connections.
const MAX_VISITS: usize = 64;
/// Time limit for each connection.
const VISIT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_HEAD: usize = 64 * 1024;
const PAGE: &str = "<!doctype html><title>Meerkat</title><p>You can close this page and go back.</p>";
const STRAY_PAGE: &str = "<!doctype html><title>Meerkat</title><p>This request does not belong to the login in progress. \
                          Go back to the page where you logged in.</p>";

/// Listener for the redirect after a login, on a local port.
#[derive(Debug)]
pub struct LoginListener {
    listener: TcpListener,
    address: String,
}

impl LoginListener {
    /// Binds a free port on the loopback interface.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is available.
    pub async fn bind() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = format!("http://{}{PATH}", listener.local_addr()?);
        Ok(Self { listener, address })
    }

    /// Returns the redirect URL for [`LoginOptions::redirect_uri`](crate::LoginOptions::redirect_uri).
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits for the redirect that carries `state`, and returns its URL for
    /// [`Login::finish`](crate::Login::finish). Every other request gets an error page and changes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the listener fails.
    pub async fn wait_for_redirect(&self, state: &str) -> io::Result<String> {
        let state: Arc<str> = state.into();
        let mut visits = JoinSet::new();
        loop {
            tokio::select! {
                visitor = self.listener.accept(), if visits.len() < MAX_VISITS => {
                    let (stream, _) = visitor?;
                    visits.spawn(timeout(VISIT_TIMEOUT, serve(stream, Arc::clone(&state))));
                }
                Some(visit) = visits.join_next() => {
                    // An aborted or unrelated connection does not end the wait.
                    if let Ok(Ok(Ok(Some(query)))) = visit {
                        return Ok(format!("{}?{query}", self.address));
                    }
                }
            }
        }
    }
}

async fn serve(stream: TcpStream, state: Arc<str>) -> io::Result<Option<String>> {
    let mut stream = BufReader::new(stream);
    let Some(head) = read_head(&mut stream).await? else { return Ok(None) };
    let line = head.lines().next().unwrap_or_default();
    let target = line.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    let query = target.and_then(|target| target.strip_prefix(PATH)?.strip_prefix('?'));
    let accepted = query.filter(|query| carries(query, &state)).map(str::to_owned);
    let (status, page) = match (query, &accepted) {
        (_, Some(_)) => ("200 OK", PAGE),
        (Some(_), None) => ("400 Bad Request", STRAY_PAGE),
        (None, None) => ("404 Not Found", ""),
    };
    let length = page.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {length}\r\nconnection: close\r\n"
    );
    stream.write_all(format!("{head}\r\n{page}").as_bytes()).await?;
    stream.shutdown().await?;
    Ok(accepted)
}

/// Returns `true` if a query is the outcome of the login that sent `state`.
fn carries(query: &str, state: &str) -> bool {
    let pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
    let value = |wanted: &str| pairs.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_ref());
    value("state") == Some(state) && (value("code").is_some() || value("error").is_some())
}

/// Reads the full head of a request: unread data would reset the connection before the browser reads the response.
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
    async fn stray_visits_do_not_end_the_wait() {
        let listener = LoginListener::bind().await.unwrap();
        let address = listener.address().to_owned();
        let visits = async {
            let targets = [
                "/favicon.ico",
                "/callback",
                "/callback?",
                "/callback?code=1",
                "/callback?code=1&state=other",
                "/callback?state=mine",
                "/callback?code=1&state=mine%20",
                "/callback?code=1&state=mine",
            ];
            let mut statuses = Vec::new();
            for target in targets {
                statuses.push(get(&address, target).await);
            }
            statuses
        };
        let (redirect, statuses) = tokio::join!(listener.wait_for_redirect("mine"), visits);
        assert_eq!(redirect.unwrap(), format!("{}?code=1&state=mine", listener.address()));
        let (missing, stray) = ("HTTP/1.1 404 Not Found", "HTTP/1.1 400 Bad Request");
        assert_eq!(statuses, [missing, missing, stray, stray, stray, stray, stray, "HTTP/1.1 200 OK"]);
    }

    #[tokio::test]
    async fn denied_login_ends_the_wait() {
        let listener = LoginListener::bind().await.unwrap();
        let address = listener.address().to_owned();
        let target = "/callback?error=access_denied&state=mine";
        let (redirect, _) = tokio::join!(listener.wait_for_redirect("mine"), get(&address, target));
        assert_eq!(redirect.unwrap(), format!("{address}?error=access_denied&state=mine"));
    }

    #[tokio::test]
    async fn silent_connection_does_not_block_others() {
        let listener = LoginListener::bind().await.unwrap();
        let address = listener.address().to_owned();
        let host = address.trim_start_matches("http://").trim_end_matches("/callback");
        let unused = TcpStream::connect(host).await.unwrap();
        let mut half = TcpStream::connect(host).await.unwrap();
        half.write_all(b"GET /call").await.unwrap();
        let (answer, status) =
            tokio::join!(listener.wait_for_redirect("s"), get(&address, "/callback?code=1&state=s"));
        assert_eq!(
            (answer.unwrap(), status),
            (format!("{address}?code=1&state=s"), "HTTP/1.1 200 OK".to_owned())
        );
        drop((unused, half));
    }
}
