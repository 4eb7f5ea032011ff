//! Errors of records that cannot be decoded: adds the file, and checks whether it is damaged.

use meerkat_store::{ArchivedFilter, SessionQuery, Store, Transaction};

use crate::{Error, Runtime};

/// Adds the file to the error of a record that cannot be decoded, or replaces it with the damage that a quick check of
/// the file finds.
pub(crate) async fn explain_result<T>(store: &dyn Store, result: Result<T, Error>) -> Result<T, Error> {
    match result {
        Ok(value) => Ok(value),
        Err(error) => Err(explain(store, error).await),
    }
}

/// Explains the error itself, like [`explain_result`].
pub(crate) async fn explain(store: &dyn Store, error: Error) -> Error {
    let Error::Record { what, source, .. } = error else { return error };
    match store.examine().await {
        Ok(file) => Error::Record { what, source, file },
        Err(damage) => damage.into(),
    }
}

impl Runtime {
    /// Decodes all stored sessions and the config, and returns the number of sessions.
    ///
    /// # Errors
    /// Returns an error for the first record that cannot be decoded, with its session.
    pub async fn check_records(&self) -> Result<usize, Error> {
        self.config().get().await?;
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

    /// Checks that a run could be stored, by writing to the store and rolling back. Blocks on the file system.
    ///
    /// # Errors
    /// Returns an error if the disk is full or the files are not writable.
    pub async fn check_writable(&self) -> Result<(), Error> {
        self.store().commit(Transaction::default()).await?;
        #[cfg(feature = "session-store")]
        if let Some(paths) = self.realm().paths() {
            meerkat_store::try_write(&paths.database)?;
        }
        Ok(())
    }

    fn in_session(&self, id: meerkat_core::SessionId, error: Error) -> Error {
        Error::InSession { id, reference: self.reference(id), source: Box::new(error) }
    }
}
