//! The MCP server of one realm, over whatever transport.

use std::sync::Arc;

use meerkat::Skills;
use rmcp::service::serve_directly;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::http::{self, Access, Limits};
use crate::layer::{Layer, Notices, Service};
use crate::lifetime::{LAST_COMMITS, LAST_WORDS};
use crate::product::{Host, Log, Product};
use crate::skills::SkillViews;
use crate::stdio::Stdio;

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
        Self { layer: Layer::new(Product::new(host, log, notices.clone(), None), notices) }
    }

    /// Makes a server that serves skills too, and follows their changes once somebody has asked for them. The host's
    /// runtimes should have the same skills.
    pub fn with_skills(host: Host, skills: &Skills, log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let log: Log = Arc::new(log);
        let notices = Notices::default();
        let views = SkillViews::new(skills.catalogue().clone(), notices.clone(), Arc::clone(&log));
        let product = Product::new(host, log, notices.clone(), Some(views));
        Self { layer: Layer::new(product, notices) }
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
    pub async fn serve(&self, stdio: Stdio) {
        let ahead = self.look_ahead();
        over_stdio(&self.layer, stdio, async || self.shutdown().await).await;
        ahead.abort();
    }

    /// Opens a realm as soon as it is there: its config and what is registered in it have a say in what there is.
    fn look_ahead(&self) -> JoinHandle<()> {
        let layer = self.layer.clone();
        tokio::spawn(async move { layer.service().look_ahead().await })
    }

    /// Serves clients over HTTP until `closing` is cancelled, then ends every run cleanly.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        access: Access,
        limits: Limits,
        closing: CancellationToken,
    ) {
        let ahead = self.look_ahead();
        http::serve(self.layer.clone(), listener, access, limits, closing, self.shutdown()).await;
        ahead.abort();
    }
}

/// Serves one client over stdio until it closes its side. `shutdown` ends what would go on without anybody.
pub(crate) async fn over_stdio<S: Service>(layer: &Layer<S>, mut stdio: Stdio, shutdown: impl AsyncFn()) {
    let (end, in_flight, written) = (stdio.end(), stdio.in_flight(), stdio.written());
    let ending = async {
        end.over().await;
        let _ = tokio::time::timeout_at(end.deadline(), in_flight.wait()).await;
        // Runs that nobody waits for, such as those of tasks, end cleanly too.
        shutdown().await;
        // The answers of what was just ended still go out, if anybody reads them.
        let _ = tokio::time::timeout(LAST_WORDS, in_flight.wait()).await;
    };
    let running = serve_directly(layer.connect(), stdio, None);
    tokio::select! {
        // It fails only if the service itself panicked, and then there is nobody left to tell.
        _ = running.waiting() => shutdown().await,
        () = ending => {}
    }
    let _ = tokio::time::timeout(LAST_WORDS, written).await;
}
