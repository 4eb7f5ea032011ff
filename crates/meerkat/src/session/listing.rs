//! Session lists. A session whose record cannot be read does not hide the others.

use meerkat_core::SessionId;
use meerkat_store::{ArchivedFilter, Backend, SessionQuery, SessionRow};

use super::{SessionService, SessionView};
use crate::Error;
use crate::unreadable::explain;

/// A session whose record cannot be read.
#[derive(Debug)]
pub struct UnreadableSession {
    /// Session id.
    pub id: SessionId,
    /// The reason, including the file that contains the record.
    pub error: Box<Error>,
}

impl SessionService {
    /// Lists the readable sessions, most recently changed first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn list(&self, query: SessionQuery) -> Result<Vec<SessionView>, Error> {
        Ok(self.list_each(query).await?.into_iter().flatten().collect())
    }

    /// Lists sessions, most recently changed first, with an error for each that cannot be read. These are also logged.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn list_each(
        &self,
        query: SessionQuery,
    ) -> Result<Vec<Result<SessionView, UnreadableSession>>, Error> {
        let rows = self.rows(query).await?;
        let mut entries = Vec::with_capacity(rows.len());
        for row in &rows {
            entries.push(match self.view(row).await {
                Err(error @ Error::Record { .. }) => Err(self.unreadable(row.id, error).await),
                view => Ok(view?),
            });
        }
        Ok(entries)
    }

    /// Lists session ids, most recently changed first, including sessions that cannot be read.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn ids(&self, query: SessionQuery) -> Result<Vec<SessionId>, Error> {
        Ok(self.rows(query).await?.into_iter().map(|row| row.id).collect())
    }

    async fn rows(&self, mut query: SessionQuery) -> Result<Vec<SessionRow>, Error> {
        if self.shared.realm.backend() == Backend::Memory {
            query.archived = ArchivedFilter::Hidden;
        }
        Ok(self.shared.store.sessions(query).await?)
    }

    async fn unreadable(&self, id: SessionId, error: Error) -> UnreadableSession {
        let error = explain(&*self.shared.store, error).await;
        tracing::warn!(session = %id, error = error.body().message, "skipping unreadable session");
        UnreadableSession { id, error: Box::new(error) }
    }
}
