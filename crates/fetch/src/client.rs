//! The client, and requests whose response is a document.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::FetchError;

/// Time limit for connecting.
const CONNECT: Duration = Duration::from_secs(15);

/// An HTTP client that is created on first use and then shared.
#[derive(Debug, Clone, Default)]
pub struct Http {
    client: Arc<OnceLock<Result<reqwest::Client, String>>>,
}

impl Http {
    /// Returns the client.
    ///
    /// # Errors
    /// Returns the reason if the client cannot be created.
    pub fn client(&self) -> Result<&reqwest::Client, String> {
        let build = || {
            // Another component may have installed a provider already; either is fine.
            let _ = rustls::crypto::ring::default_provider().install_default();
            reqwest::Client::builder()
                .connect_timeout(CONNECT)
                .tcp_nodelay(true)
                .redirect(reqwest::redirect::Policy::none())
                .build()
                .map_err(|error| error.to_string())
        };
        self.client.get_or_init(build).as_ref().map_err(Clone::clone)
    }

    /// Fetches a document of at most `limit` bytes.
    ///
    /// # Errors
    /// Returns an error if the document cannot be fetched.
    pub async fn fetch(
        &self,
        url: &str,
        headers: &[(String, String)],
        limit: usize,
    ) -> Result<Vec<u8>, FetchError> {
        let call = self.client().map_err(FetchError::Unreachable)?.get(url);
        exchange(call, headers, limit).await
    }

    /// Sends a JSON document and returns the response, of at most `limit` bytes.
    ///
    /// # Errors
    /// Returns an error if there is no successful response.
    pub async fn send(
        &self,
        (method, url): (&str, &str),
        headers: &[(String, String)],
        body: &[u8],
        limit: usize,
    ) -> Result<Vec<u8>, FetchError> {
        let method = reqwest::Method::from_bytes(method.as_bytes())
            .map_err(|_| FetchError::Unreachable(format!("`{method}` is not an HTTP method")))?;
        let call = self.client().map_err(FetchError::Unreachable)?.request(method, url);
        let call = call.header("content-type", "application/json").body(body.to_vec());
        exchange(call, headers, limit).await
    }
}

async fn exchange(
    mut call: reqwest::RequestBuilder,
    headers: &[(String, String)],
    limit: usize,
) -> Result<Vec<u8>, FetchError> {
    let broken = |failure: reqwest::Error| FetchError::Unreachable(root_cause(&failure));
    for (name, value) in headers {
        call = call.header(name, value);
    }
    let mut response = call.send().await.map_err(broken)?;
    if !response.status().is_success() {
        return Err(FetchError::Status(response.status().as_u16()));
    }
    let mut document = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        document.extend_from_slice(&chunk);
        if document.len() > limit {
            return Err(FetchError::TooLong(limit));
        }
    }
    Ok(document)
}

/// Returns the innermost cause; the outer ones repeat the URL, which may contain secrets.
#[must_use]
pub fn root_cause(failure: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = failure;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::{FetchError, Http};

    /// Fetches from a local server that responds once; returns the request's head, too.
    async fn fetch(response: &str) -> (String, Result<Vec<u8>, FetchError>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/skills", listener.local_addr().unwrap());
        let serve = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                assert_ne!(socket.read_buf(&mut head).await.unwrap(), 0);
            }
            socket.write_all(response.as_bytes()).await.unwrap();
            String::from_utf8(head).unwrap().to_lowercase()
        };
        let headers = [("x-token".to_owned(), "t".to_owned())];
        let http = Http::default();
        tokio::join!(serve, http.fetch(&url, &headers, 4))
    }

    #[tokio::test]
    async fn document_within_limit_is_fetched() {
        let (head, document) = fetch("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabcd").await;
        assert!(head.starts_with("get /skills http/1.1") && head.contains("x-token: t\r\n"), "{head}");
        assert_eq!(document, Ok(b"abcd".to_vec()));
    }

    #[tokio::test]
    async fn other_responses_are_errors() {
        let cases = [
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabcde", FetchError::TooLong(4)),
            ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", FetchError::Status(404)),
            ("HTTP/1.1 307 Moved\r\nlocation: /a\r\ncontent-length: 0\r\n\r\n", FetchError::Status(307)),
        ];
        for (response, error) in cases {
            assert_eq!(fetch(response).await.1, Err(error), "{response}");
        }
    }
}
