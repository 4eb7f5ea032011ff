//! MCP server of one realm, over any transport.

use std::sync::Arc;

use meerkat::Skills;
use rmcp::service::serve_directly;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::http::{self, Access, Limits};
use crate::lifetime::{COMMIT_TIMEOUT, REPLY_TIMEOUT};
use crate::protocol::{Notifier, Protocol, Service};
use crate::realm::{LazyRuntime, Log, RealmService};
use crate::skills::SkillViews;
use crate::stdio::Stdio;

/// MCP server for the operations of one realm, with any number of clients.
#[derive(Clone)]
pub struct Server {
    layer: Protocol<RealmService>,
}

impl Server {
    /// Creates a server; `log` receives the events of `verbose` runs.
    pub fn new(host: LazyRuntime, log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let log: Log = Arc::new(log);
        let notices = Notifier::default();
        Self { layer: Protocol::new(RealmService::new(host, log, notices.clone(), None), notices) }
    }

    /// Creates a server that also serves skills and watches them once a client has requested them. The host's runtimes
    /// should have the same skills.
    pub fn with_skills(
        host: LazyRuntime,
        skills: &Skills,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let log: Log = Arc::new(log);
        let notices = Notifier::default();
        let views = SkillViews::new(skills.catalog().clone(), notices.clone(), Arc::clone(&log));
        let product = RealmService::new(host, log, notices.clone(), Some(views));
        Self { layer: Protocol::new(product, notices) }
    }

    /// Returns the protocol layer.
    #[must_use]
    pub fn layer(&self) -> &Protocol<RealmService> {
        &self.layer
    }

    /// Interrupts every run and waits briefly for all of them to commit their final state.
    pub async fn shutdown(&self) {
        self.layer.service().host().shutdown(COMMIT_TIMEOUT).await;
    }

    /// Serves one client over stdio until it closes its side, then stops every run cleanly.
    pub async fn serve(&self, stdio: Stdio) {
        let opener = self.spawn_realm_opener();
        over_stdio(&self.layer, stdio, async || self.shutdown().await).await;
        opener.abort();
    }

    /// Spawns a task that opens the realm once it exists: its config and registry affect what is served.
    fn spawn_realm_opener(&self) -> JoinHandle<()> {
        let layer = self.layer.clone();
        tokio::spawn(async move { layer.service().open_when_created().await })
    }

    /// Serves clients over HTTP until `closing` is cancelled, then stops every run cleanly.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        access: Access,
        limits: Limits,
        closing: CancellationToken,
    ) {
        let opener = self.spawn_realm_opener();
        http::serve(self.layer.clone(), listener, access, limits, closing, self.shutdown()).await;
        opener.abort();
    }
}

/// Serves one client over stdio until it closes its side. `shutdown` stops work that would otherwise continue.
pub(crate) async fn over_stdio<S: Service>(layer: &Protocol<S>, mut stdio: Stdio, shutdown: impl AsyncFn()) {
    let (end, in_flight, written) = (stdio.end(), stdio.in_flight(), stdio.written());
    let ending = async {
        end.wait_closed().await;
        let _ = tokio::time::timeout_at(end.deadline(), in_flight.wait()).await;
        // Runs without a waiting request, such as those of tasks, must also stop cleanly.
        shutdown().await;
        // Responses of the stopped runs are still sent if the client reads them.
        let _ = tokio::time::timeout(REPLY_TIMEOUT, in_flight.wait()).await;
    };
    let running = serve_directly(layer.connect(), stdio, None);
    tokio::select! {
        // This fails only if the service panicked; no client is left to report it to.
        _ = running.waiting() => shutdown().await,
        () = ending => {}
    }
    let _ = tokio::time::timeout(REPLY_TIMEOUT, written).await;
}
