//! Reads and changes the tasks of a session, one change at a time.

use std::sync::Arc;

use meerkat_core::{Clock, SessionId, Timestamp};
use tokio::sync::Mutex;

use super::{Task, TaskError};
use crate::Error;
use crate::storage::ToolStorage;

/// Maximum number of tasks in a session, and maximum size of one.
const MAX_TASKS: usize = 10_000;
const MAX_BYTES: usize = 64 * 1024;

/// The tasks of sessions.
pub(crate) struct TaskStore {
    shelf: Arc<dyn ToolStorage>,
    clock: Arc<dyn Clock>,
    /// Calls of one step run concurrently; a read-modify-write must not miss another one.
    writing: Mutex<()>,
}

impl TaskStore {
    pub(crate) fn new(shelf: Arc<dyn ToolStorage>, clock: Arc<dyn Clock>) -> Self {
        Self { shelf, clock, writing: Mutex::new(()) }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) async fn all(&self, session: SessionId) -> Result<Vec<Task>, Error> {
        let stored = self.shelf.tasks(session).await?;
        let read = |bytes: &Vec<u8>| serde_json::from_slice(bytes).map_err(TaskError::Stored);
        Ok(stored.iter().map(read).collect::<Result<_, _>>()?)
    }

    pub(super) async fn get(&self, session: SessionId, id: &str) -> Result<Task, Error> {
        let found = self.all(session).await?.into_iter().find(|task| task.id == id);
        Ok(found.ok_or_else(|| TaskError::NotFound(id.to_owned()))?)
    }

    pub(super) async fn add(&self, session: SessionId, task: Task) -> Result<Task, Error> {
        if self.shelf.add_task(session, task.id.clone(), encode(&task)?, MAX_TASKS).await? {
            Ok(task)
        } else {
            Err(TaskError::TooMany(MAX_TASKS).into())
        }
    }

    pub(super) async fn change(
        &self,
        session: SessionId,
        id: &str,
        change: impl FnOnce(&mut Task) + Send,
    ) -> Result<Task, Error> {
        let _writing = self.writing.lock().await;
        let mut task = self.get(session, id).await?;
        change(&mut task);
        task.updated_at = self.now();
        task.updated_by_session = session;
        self.shelf.put_task(session, task.id.clone(), encode(&task)?).await?;
        Ok(task)
    }
}

fn encode(task: &Task) -> Result<Vec<u8>, Error> {
    let bytes = serde_json::to_vec(task).map_err(Error::Encode)?;
    if bytes.len() > MAX_BYTES {
        return Err(TaskError::TooLong(MAX_BYTES).into());
    }
    Ok(bytes)
}
