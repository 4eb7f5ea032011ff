//! Reaching a provider: one HTTP call, streamed, with every failure sorted.
//!
//! Nothing is retried here, nothing is logged, and the key leaves only in the provider's own header.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use meerkat_core::{
    Answer, BoxFuture, Delta, DeltaSink, Model, ModelError, ModelErrorKind, ModelInfo, ModelRequest,
};
use reqwest::header::HeaderMap;
use serde_json::Value;

pub(crate) use crate::endpoint::Endpoint;
use crate::reader::{self, Reader};
use crate::wire::{Wire, error};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(15);
/// How much of an error's body is read.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// An HTTP client that is made when it is first needed and then shared.
#[derive(Clone, Default)]
pub struct Http {
    client: Arc<OnceLock<Result<reqwest::Client, String>>>,
}

impl Http {
    /// Makes one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn get(&self) -> Result<&reqwest::Client, String> {
        let build = || {
            // Another part of the program may have chosen already; either choice will do.
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
}

/// A model behind a wire format.
pub(crate) struct WireModel<W> {
    pub(crate) wire: W,
    pub(crate) info: ModelInfo,
    pub(crate) endpoint: Endpoint,
    pub(crate) http: Http,
}

impl<W: Wire> Model for WireModel<W> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn ask<'a>(
        &'a self,
        request: &'a ModelRequest,
        deltas: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Answer, ModelError>> {
        Box::pin(async move {
            let body = self.wire.body(&self.info, request);
            for (tool, reason) in body.left_out {
                deltas(Delta::ToolLeftOut { tool, reason });
            }
            let response = self.send(&body.json).await?;
            if !response.status().is_success() {
                return Err(self.refused(response).await);
            }
            self.read(response, deltas).await
        })
    }
}

impl<W: Wire> WireModel<W> {
    async fn send(&self, body: &Value) -> Result<reqwest::Response, ModelError> {
        let url = format!("{}{}", self.endpoint.base_url, self.wire.path(&self.info));
        let client = self
            .http
            .get()
            .map_err(|reason| error(self.wire.provider(), ModelErrorKind::Connection, reason))?;
        let mut call = client.post(url).header("content-type", "application/json");
        let headers = self.wire.headers(self.endpoint.key.expose());
        for (name, value) in headers.into_iter().chain(self.wire.headers_for(body)) {
            call = call.header(name, value);
        }
        let body = serde_json::to_vec(body).unwrap_or_default();
        call.body(body).send().await.map_err(|failure| self.broken(&failure))
    }

    async fn read(
        &self,
        mut response: reqwest::Response,
        deltas: DeltaSink<'_>,
    ) -> Result<Answer, ModelError> {
        let mut reader = Reader::new(&self.wire);
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => reader.feed(&chunk, deltas)?,
                Ok(None) => return reader.finish(),
                Err(failure) => {
                    let kind = if failure.is_timeout() {
                        ModelErrorKind::NetworkTimeout
                    } else {
                        ModelErrorKind::StreamCut
                    };
                    return Err(self.error(kind, format!("the answer broke off: {}", root(&failure))));
                }
            }
        }
    }

    async fn refused(&self, mut response: reqwest::Response) -> ModelError {
        let status = response.status().as_u16();
        let wait = retry_after(response.headers());
        let mut text = Vec::new();
        while text.len() < MAX_ERROR_BODY {
            match response.chunk().await {
                Ok(Some(chunk)) => text.extend_from_slice(&chunk),
                Ok(None) | Err(_) => break,
            }
        }
        reader::refusal(&self.wire, status, wait, &String::from_utf8_lossy(&text))
    }

    fn broken(&self, failure: &reqwest::Error) -> ModelError {
        let kind = if failure.is_timeout() {
            ModelErrorKind::NetworkTimeout
        } else if failure.is_builder() {
            ModelErrorKind::BadRequest
        } else {
            ModelErrorKind::Connection
        };
        self.error(kind, format!("{} cannot be reached: {}", self.endpoint.base_url, root(failure)))
    }

    fn error(&self, kind: ModelErrorKind, message: String) -> ModelError {
        error(self.wire.provider(), kind, message)
    }
}

/// Returns the innermost cause; the outer ones repeat the URL, which may hold what is not ours to show.
fn root(failure: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = failure;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Reads how long the provider asks us to wait, in any of the ways providers say it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let millis = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).map(|ms| ms / 1000.0);
    let seconds = millis.or_else(|| text("retry-after").and_then(|text| text.parse::<f64>().ok()))?;
    (seconds.is_finite() && (0.0..86_400.0).contains(&seconds)).then(|| Duration::from_secs_f64(seconds))
}
