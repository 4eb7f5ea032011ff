//! The MCP server of one realm, over whatever transport.

use std::sync::Arc;
use std::time::Duration;

use rmcp::service::serve_directly;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::http::{self, Access, Limits};
use crate::layer::{Layer, Notices};
use crate::product::{Host, Log, Product};
use crate::stdio::{FAREWELL, LAST_COMMITS, Stdio};

/// How long the last lines may take to be written.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Serves the operations of one realm, to any number of clients.
#[derive(Clone)]
pub struct Server {
    layer: Layer<Product>,
}

impl Server {
    /// Makes a server; `log` takes what `verbose` runs tell.
    pub fn new(host: Host, log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let log: Log = Arc::new(log);
        let notices = Notices::default();
        Self { layer: Layer::new(Product::new(host, log, notices.clone()), notices) }
    }

    /// Returns the layer that serves.
    #[must_use]
    pub fn layer(&self) -> &Layer<Product> {
        &self.layer
    }

    /// Interrupts every run and waits until all have committed their end, for a moment.
    pub async fn shutdown(&self) {
        self.layer.service().host().shutdown(LAST_COMMITS).await;
    }

    /// Serves one client over stdio until it closes its side, then ends every run cleanly.
    pub async fn serve(&self, mut stdio: Stdio) {
        let (closed, in_flight, written) = (stdio.closed(), stdio.in_flight(), stdio.written());
        let ending = async {
            closed.cancelled().await;
            let _ = tokio::time::timeout(FAREWELL, in_flight.wait()).await;
            // Runs that nobody waits for, such as those of tasks, end cleanly too.
            self.shutdown().await;
            // The answers of what was just ended still go out, if anybody reads them.
            let _ = tokio::time::timeout(LAST_WORDS, in_flight.wait()).await;
        };
        let running = serve_directly(self.layer.connect(), stdio, None);
        tokio::select! {
            // It fails only if the service itself panicked, and then there is nobody left to tell.
            _ = running.waiting() => self.shutdown().await,
            () = ending => {}
        }
        let _ = tokio::time::timeout(LAST_WORDS, written).await;
    }

    /// Serves clients over HTTP until `closing` is cancelled, then ends every run cleanly.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        access: Access,
        limits: Limits,
        closing: CancellationToken,
    ) {
        http::serve(self.layer.clone(), listener, access, limits, closing, self.shutdown()).await;
    }
}
