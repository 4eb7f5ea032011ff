//! Legacy HTTP transport: an event stream from the server, and a second URL to send messages to, which the stream names
//! in its first event.

use std::io;
use std::sync::Arc;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use url::Url;

use super::events::Events;
use super::{Headers, HttpClient, RemoteError};
use crate::config::Endpoint;
use crate::wire::Pending;

/// A connection over server-sent events. It ends with its stream; reconnecting opens a new one.
#[derive(Debug)]
pub(crate) struct LegacySse {
    client: reqwest::Client,
    headers: HeaderMap,
    events: Option<Events>,
    address: Url,
    pending: Arc<Pending>,
}

/// Error of opening an event stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SseError {
    /// The server cannot be reached.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The request failed.
    #[error("cannot open the event stream")]
    Request(#[source] reqwest::Error),
    /// Unexpected HTTP status.
    #[error("the server responded with HTTP {0} instead of an event stream")]
    Status(u16),
    /// The stream ended too early.
    #[error("the event stream ended before it named the URL to send messages to")]
    NoEndpoint,
    /// URL for messages with a different origin.
    #[error("the server's message URL `{0}` has a different origin")]
    ForeignEndpoint(String),
}

impl LegacySse {
    /// Opens the stream and waits for the URL to send messages to.
    pub(crate) async fn connect(endpoint: &Endpoint) -> Result<Self, SseError> {
        let HttpClient(client) = super::http_client()?;
        let headers: Headers = super::headers(&endpoint.headers)?;
        let headers: HeaderMap = headers.into_iter().collect();
        let request = client.get(&endpoint.url).headers(headers.clone()).header(ACCEPT, "text/event-stream");
        let response = request.send().await.map_err(SseError::Request)?;
        if !response.status().is_success() {
            return Err(SseError::Status(response.status().as_u16()));
        }
        let base = response.url().clone();
        let mut events = Events::new(response);
        let address = loop {
            match events.next().await {
                Ok(Some(event)) if event.event.as_deref() == Some("endpoint") => {
                    break same_origin(&base, event.data.as_deref().unwrap_or_default())?;
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Err(SseError::NoEndpoint),
            }
        };
        Ok(Self { client, headers, events: Some(events), address, pending: Arc::default() })
    }
}

fn same_origin(base: &Url, named: &str) -> Result<Url, SseError> {
    let foreign = || SseError::ForeignEndpoint(named.to_owned());
    let address = base.join(named.trim()).map_err(|_| foreign())?;
    if address.origin() == base.origin() { Ok(address) } else { Err(foreign()) }
}

impl Transport<RoleClient> for LegacySse {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.pending.sent(&item);
        let request = self
            .client
            .post(self.address.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json");
        async move {
            let response = request.body(serde_json::to_vec(&item)?).send().await.map_err(io::Error::other)?;
            let status = response.status();
            match status.is_success() {
                true => Ok(()),
                false => Err(io::Error::other(format!("the server responded with HTTP {}", status.as_u16()))),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let events = self.events.as_mut()?;
        loop {
            let event = events.next().await.ok().flatten()?;
            if matches!(event.event.as_deref(), None | Some("message"))
                && let Some(message) = event.data.and_then(|data| self.pending.read(data.as_bytes()))
            {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.events = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::same_origin;
    use url::Url;

    #[test]
    fn messages_are_sent_to_the_same_origin_only() {
        let base = Url::parse("https://a.example:8443/sse").unwrap();
        let joined =
            |named: &str| same_origin(&base, named).map(String::from).map_err(|error| error.to_string());
        assert_eq!(joined("/messages?s=1"), Ok("https://a.example:8443/messages?s=1".to_owned()));
        assert_eq!(joined("post"), Ok("https://a.example:8443/post".to_owned()));
        for foreign in ["https://a.example/x", "http://a.example:8443/x", "//evil.example/x", "file:///etc"] {
            assert_eq!(
                joined(foreign),
                Err(format!("the server's message URL `{foreign}` has a different origin"))
            );
        }
    }
}
