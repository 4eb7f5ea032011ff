//! MCP server of one realm, over any transport.

use std::net::SocketAddr;
use std::sync::Arc;

use meerkat::Skills;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::http::{self, Access, Limits, Listen, ListenError, Token};
use crate::lifetime::COMMIT_TIMEOUT;
use crate::log::Log;
use crate::protocol::{Notifier, Protocol, Service as _};
use crate::realm::{LazyRuntime, RealmService};
use crate::signals::shutdown_signal;
use crate::skills::SkillViews;
use crate::stdio::{self, Stdio};

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
        stdio::serve(&self.layer, stdio, async || self.shutdown().await).await;
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

    /// Serves clients over HTTP until the process receives a shutdown signal. Calls `announce` with the bound address.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, if the server would be open to other machines, or if the system
    /// allows too few open files.
    pub async fn listen(&self, listen: Listen, announce: impl FnOnce(SocketAddr)) -> Result<(), ListenError> {
        http::raise_file_limit();
        let limits = Limits::default();
        let few_files = http::check_file_limit(limits.connections)?;
        let token = listen.token.secret().map(Token::new).transpose()?;
        let bound = TcpListener::bind(&listen.address).await;
        let bound = bound.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
        let (listener, address) =
            bound.map_err(|source| ListenError::Bind { address: listen.address.clone(), source })?;
        let access = Access::new(address, token)?.with_hosts(listen.hosts).with_origins(listen.origins);
        let terminated = shutdown_signal();
        announce(address);
        few_files.iter().for_each(|warning| self.layer.service().log(warning));
        let closing = CancellationToken::new();
        let serving = self.serve_http(listener, access, limits, closing.clone());
        tokio::pin!(serving);
        tokio::select! {
            () = &mut serving => return Ok(()),
            () = terminated => closing.cancel(),
        }
        serving.await;
        Ok(())
    }
}
