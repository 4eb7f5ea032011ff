//! HTTP requests other than model calls.

use crate::http::Http;

/// Reason a document could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchError {
    /// The server is unreachable, or the connection was lost.
    Unreachable(String),
    /// The server returned an error status.
    Status(u16),
    /// The document exceeds the size limit.
    TooLong,
}

impl Http {
    /// Fetches a document of at most `limit` bytes. Redirects are not followed: they would send headers to another
    /// server.
    ///
    /// # Errors
    /// Returns an error if the document cannot be fetched.
    pub async fn fetch(
        &self,
        url: &str,
        headers: &[(String, String)],
        limit: usize,
    ) -> Result<Vec<u8>, FetchError> {
        let call = self.get().map_err(FetchError::Unreachable)?.get(url);
        Self::exchange(call, headers, limit).await
    }

    /// Sends a JSON document and returns the response, of at most `limit` bytes. Redirects are not followed.
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
        let call = self.get().map_err(FetchError::Unreachable)?.request(method, url);
        let call = call.header("content-type", "application/json").body(body.to_vec());
        Self::exchange(call, headers, limit).await
    }

    async fn exchange(
        mut call: reqwest::RequestBuilder,
        headers: &[(String, String)],
        limit: usize,
    ) -> Result<Vec<u8>, FetchError> {
        let broken = |failure: reqwest::Error| FetchError::Unreachable(crate::http::root(&failure));
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
                return Err(FetchError::TooLong);
            }
        }
        Ok(document)
    }
}
