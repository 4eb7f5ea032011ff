//! The built-in tools of a run: selection and storage.

use std::sync::Arc;

use meerkat_core::{BlobId, BoxFuture, Cut, Redactor, SessionId};
use meerkat_store::{Blob, Change, Guard, Store, Transaction};
use meerkat_tools::{StorageError, StoredBlob, ToolSelection, ToolStorage, Toolbox};

use super::{Contribution, Images, RunExtension, RunView, images};

/// The built-in tools of a runtime.
pub(crate) struct Builtins {
    pub(crate) toolbox: Toolbox,
    pub(crate) images: Arc<Images>,
}

impl RunExtension for Builtins {
    /// Returns the built-in tools enabled by the session or else the config.
    fn contribute<'a>(&'a self, run: &'a RunView<'a>) -> BoxFuture<'a, Contribution> {
        let RunView { session, settings, config, model, .. } = *run;
        if run.overlay.allows_none() || !settings.builtins.unwrap_or(config.tools.builtins_enabled) {
            return Box::pin(async { Contribution::default() });
        }
        let shell = settings.shell.unwrap_or(config.tools.shell_enabled);
        let selection = ToolSelection {
            images: model.profile.image_tool_results,
            files: settings.files.unwrap_or_default(),
            shell: shell.then(|| config.shell.options(settings.shell_timeout_secs)),
            secrets: config.tools.secrets.clone(),
        };
        let tools = self.toolbox.source(session, selection);
        let sources = std::iter::once(tools).chain(images::source(&self.images, config)).collect();
        Box::pin(async { Contribution { sources, ..Contribution::default() } })
    }

    fn forget(&self, session: SessionId) {
        self.toolbox.forget(session);
    }

    fn stop(&self) {
        self.toolbox.close();
    }
}

/// The realm's store, as storage for tools.
pub(crate) struct RealmToolStorage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) redactor: Redactor,
}

fn failed(error: meerkat_store::Error) -> StorageError {
    StorageError(Box::new(error))
}

impl RealmToolStorage {
    async fn change(&self, change: Change) -> Result<(), StorageError> {
        let transaction = Transaction { guards: Vec::new(), changes: vec![change] };
        self.store.commit(transaction).await.map(drop).map_err(failed)
    }
}

impl ToolStorage for RealmToolStorage {
    fn blob(&self, id: BlobId) -> BoxFuture<'_, Result<Option<StoredBlob>, StorageError>> {
        Box::pin(async move {
            let blob = self.store.blob(id).await.map_err(failed)?;
            Ok(blob.map(|blob| StoredBlob { media_type: blob.media_type, data: blob.data }))
        })
    }

    fn put_blob(&self, blob: StoredBlob) -> BoxFuture<'_, Result<BlobId, StorageError>> {
        Box::pin(async move {
            let blob = Blob::new(&blob.media_type, self.redactor.redact_bytes(&blob.data, Cut::None));
            let id = blob.id.clone();
            self.change(Change::PutBlob(blob)).await.map(|()| id)
        })
    }

    fn tasks(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<Vec<u8>>, StorageError>> {
        Box::pin(async move { self.store.tasks(session).await.map_err(failed) })
    }

    fn add_task(
        &self,
        session: SessionId,
        id: String,
        task: Vec<u8>,
        limit: usize,
    ) -> BoxFuture<'_, Result<bool, StorageError>> {
        Box::pin(async move {
            let guards = vec![Guard::TasksBelow { session, limit }];
            let changes = vec![Change::PutTask { session, id, task }];
            match self.store.commit(Transaction { guards, changes }).await {
                Ok(_) => Ok(true),
                Err(meerkat_store::Error::TooManyTasks { .. }) => Ok(false),
                Err(error) => Err(failed(error)),
            }
        })
    }

    fn put_task(
        &self,
        session: SessionId,
        id: String,
        task: Vec<u8>,
    ) -> BoxFuture<'_, Result<(), StorageError>> {
        Box::pin(async move { self.change(Change::PutTask { session, id, task }).await })
    }
}
