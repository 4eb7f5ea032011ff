//! The runtime: one realm, its models and tools, and its services.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use meerkat_contracts::{CapabilityReport, ImageInput, ImageReply};
use meerkat_core::{BlobId, Content, EventEnvelope, Provider, Redactor, SessionId, Timestamp};
use meerkat_providers::OFFLINE_MODEL_ID;
use meerkat_store::{ArchivedFilter, Blob, Realm, SessionQuery, Store, Transaction};
use tokio::sync::broadcast;

use crate::Error;
use crate::capabilities::Capabilities;
use crate::config::{ConfigAccess, ConfigService};
use crate::conversation::{Prompt, Session};
use crate::models::Models;
use crate::sessions::{Planner, SessionService};
use crate::tools::{Images, ToolsError};

/// Runs agents in one realm.
///
/// Cloning it is cheap; all clones are the same runtime.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), meerkat::Error> {
/// let runtime = meerkat::Runtime::builder().build()?;
/// let session = runtime.session();
/// assert_eq!(session.prompt("say hello").await?.text, "hello");
/// assert_eq!(session.prompt("say again").await?.text, "again");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Runtime {
    parts: Arc<RuntimeParts>,
}

/// State of a runtime, for health checks.
#[derive(Debug)]
pub struct Health {
    /// An error if no run can be stored: the files of the realm were deleted or replaced, the disk is full, or they are
    /// not writable.
    pub store: Result<(), Error>,
    /// Whether the runtime is shutting down, so that runs are interrupted.
    pub is_draining: bool,
}

impl Health {
    /// Returns `true` if a run could start now.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.store.is_ok() && !self.is_draining
    }
}

/// The services of a runtime.
pub(crate) struct RuntimeParts {
    pub(crate) realm: Realm,
    pub(crate) sessions: SessionService,
    pub(crate) config: ConfigService,
    pub(crate) models: Arc<Models>,
    pub(crate) images: Arc<Images>,
    pub(crate) capabilities: Capabilities,
    #[cfg(feature = "mcp")]
    pub(crate) servers: Arc<crate::tools::McpServers>,
    #[cfg(feature = "skills")]
    pub(crate) skills: Arc<crate::tools::SkillsExtension>,
    #[cfg(feature = "registry")]
    pub(crate) registry: Arc<crate::tools::RuntimeRegistry>,
}

impl Runtime {
    pub(crate) fn from_parts(parts: RuntimeParts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    #[cfg(all(test, feature = "skills"))]
    pub(crate) fn skills_extension(&self) -> &dyn crate::tools::RunExtension {
        &self.parts.skills
    }

    #[cfg(all(test, feature = "skills", feature = "registry"))]
    pub(crate) fn runtime_registry(&self) -> &crate::tools::RuntimeRegistry {
        &self.parts.registry
    }

    fn planner(&self) -> &Planner {
        self.parts.sessions.planner()
    }

    /// Returns a prompt of a new session.
    pub fn ask(&self, prompt: impl Into<Content>) -> Prompt {
        self.session().prompt(prompt)
    }

    /// Returns a session that its first prompt creates.
    #[must_use]
    pub fn session(&self) -> Session {
        Session::new(self.sessions(), None)
    }

    /// Returns a stored session. Its first prompt fails if it does not exist.
    #[must_use]
    pub fn resume(&self, id: SessionId) -> Session {
        Session::new(self.sessions(), Some(id))
    }

    /// Returns the realm.
    #[must_use]
    pub fn realm(&self) -> &Realm {
        &self.parts.realm
    }

    /// Returns the session service.
    #[must_use]
    pub fn sessions(&self) -> SessionService {
        self.parts.sessions.clone()
    }

    /// Returns the realm's config.
    #[must_use]
    pub fn config(&self) -> ConfigService {
        self.parts.config.clone()
    }

    /// Returns the access level of the caller of operations.
    #[must_use]
    pub fn config_access(&self) -> ConfigAccess {
        self.planner().access
    }

    /// Returns the name of this process, if set.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.planner().instance.as_deref()
    }

    /// Subscribes to the events of all sessions that this process runs, from now on. A receiver that lags behind by
    /// thousands of events loses the oldest ones and gets the number of lost events.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<EventEnvelope>> {
        self.planner().events.subscribe()
    }

    /// Reads a blob: an image, or text that was too long for a reply.
    ///
    /// # Errors
    /// Returns an error if no blob has this id.
    pub async fn blob(&self, id: &BlobId) -> Result<Blob, Error> {
        let blob = self.planner().store.blob(id.clone()).await?;
        blob.ok_or_else(|| ToolsError::BlobNotFound(id.clone()).into())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.planner().clock.now()
    }

    /// Returns `true` if the offline model would serve such a request.
    pub(crate) async fn is_offline(
        &self,
        model: Option<&str>,
        provider: Option<Provider>,
    ) -> Result<bool, Error> {
        let config = self.parts.config.get().await?.config;
        let resolved = self.parts.models.resolve(model, provider, &config);
        Ok(resolved.is_ok_and(|resolved| resolved.model.info().id == OFFLINE_MODEL_ID))
    }

    /// Returns the model of sessions that name none.
    ///
    /// # Errors
    /// Returns an error if the config cannot be read, or the model cannot be used, for example without its key.
    pub async fn default_model(&self) -> Result<String, Error> {
        let config = self.parts.config.get().await?.config;
        Ok(self.parts.models.resolve(None, None, &config)?.model.info().id.clone())
    }

    #[cfg(feature = "mcp")]
    pub(crate) fn servers(&self) -> &crate::McpServers {
        &self.parts.servers
    }

    /// Returns the realm's registry.
    ///
    /// # Errors
    /// Returns an error if the config cannot be read or disables the registry.
    #[cfg(feature = "registry")]
    pub async fn registry(&self) -> Result<crate::RealmRegistry, Error> {
        Ok(self.parts.registry.open().await?)
    }

    /// Creates the realm's hub, which hosts the registry. While the config disables the registry, its functions fail.
    /// `log` receives rejected requests.
    ///
    /// # Errors
    /// Returns an error if the config cannot be read.
    #[cfg(feature = "registry")]
    pub async fn host_hub(
        &self,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<crate::HostedHub, Error> {
        Ok(self.parts.registry.host_hub(log).await?)
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.planner().redactor
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.planner().store
    }

    /// Returns a session's id together with its realm's.
    #[must_use]
    pub fn reference(&self, session: SessionId) -> String {
        self.parts.sessions.reference(session)
    }

    /// Generates an image and stores it as a blob of the realm.
    ///
    /// # Errors
    /// Returns `INVALID_PARAMS` if the request is invalid, and `PROVIDER_ERROR` if no provider is available or the
    /// provider fails.
    pub async fn generate_image(&self, input: ImageInput) -> Result<ImageReply, Error> {
        let config = self.parts.config.get().await?.config;
        Ok(self.parts.images.generate(&config, input, None).await?.reply)
    }

    /// Returns the agents' skills.
    #[cfg(feature = "skills")]
    #[must_use]
    pub fn skills(&self) -> &crate::Skills {
        self.parts.skills.skills()
    }

    /// Refreshes the skills from the realm's config. Runs and operations do this automatically; call it before reading
    /// the catalog directly.
    ///
    /// # Errors
    /// Returns an error if the config cannot be read.
    pub async fn refresh_skills(&self) -> Result<(), Error> {
        let current = self.parts.config.get().await?;
        for extension in &self.planner().extensions {
            extension.refresh(&current).await;
        }
        Ok(())
    }

    /// Returns the capabilities of this build under the realm's config.
    ///
    /// # Errors
    /// Returns an error if the config cannot be read.
    pub async fn capabilities(&self) -> Result<CapabilityReport, Error> {
        let config = self.parts.config.get().await?.config;
        Ok(self.parts.capabilities.report(&config, self.parts.realm.backend()))
    }

    /// Interrupts every run, and waits until all runs are committed, background hooks have finished, and the MCP
    /// servers have exited, or until the timeout. Servers that are still running then are stopped by their supervisors.
    /// Event streams are closed.
    pub async fn shutdown(&self, timeout: Duration) {
        self.parts.sessions.close(timeout).await;
    }

    /// Decodes all stored sessions, and returns the number of sessions.
    ///
    /// # Errors
    /// Returns an error for the first record that cannot be decoded, with its session.
    pub async fn check_records(&self) -> Result<usize, Error> {
        let query = SessionQuery { archived: ArchivedFilter::Included, ..SessionQuery::default() };
        let rows = self.store().sessions(query).await?;
        let sessions = self.sessions();
        for row in &rows {
            let checked = match sessions.history(row.id, 0, None).await {
                Ok(_) => sessions.pending_calls(row.id).await.map(drop),
                Err(error) => Err(error),
            };
            checked.map_err(|error| self.in_session(row.id, error))?;
        }
        Ok(rows.len())
    }

    /// Returns whether runs can start. This writes to the disk like [`Self::check_writable`].
    pub async fn health(&self) -> Health {
        Health { store: self.check_writable().await, is_draining: self.planner().active.is_closing() }
    }

    /// Checks that a run could be stored, by writing to the store and rolling back.
    ///
    /// # Errors
    /// Returns an error if the disk is full, or the files are not writable or were deleted or replaced.
    pub async fn check_writable(&self) -> Result<(), Error> {
        self.store().commit(Transaction::default()).await?;
        #[cfg(feature = "session-store")]
        if let Some(paths) = self.realm().paths() {
            let database = paths.database.clone();
            let tried = tokio::task::spawn_blocking(move || meerkat_store::try_write(&database)).await;
            tried.map_err(|error| Error::Internal(error.to_string()))??;
        }
        Ok(())
    }

    fn in_session(&self, id: meerkat_core::SessionId, error: Error) -> Error {
        Error::InSession { id, reference: self.reference(id), source: Box::new(error) }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("realm", self.realm().id()).finish_non_exhaustive()
    }
}
