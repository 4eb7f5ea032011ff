//! Calls that outlive their request: the client gets a task immediately and polls for its result.
//!
//! The service chooses the task ids, so that it can restore the state of a task unknown to this process.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use meerkat::{contain, excerpt};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, DetailedTask, InputRequest, InputRequests, JsonObject, Task, TaskPayload, TaskStatus,
};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Time for which the result of a task is retained.
const RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of retained tasks; beyond it, the oldest finished ones are removed.
const MAX_TASKS: usize = 10_000;
/// Suggested polling interval for clients.
const POLL_MS: u64 = 500;

/// Tasks of one process.
#[derive(Clone, Default)]
pub struct Tasks(Arc<Mutex<HashMap<String, Entry>>>);

/// Reason why a task ended without a result.
#[derive(Debug)]
pub enum TaskError {
    /// The client cancelled the task.
    Cancelled,
    /// The request failed.
    Failed(ErrorData),
}

/// Handle for the work of a task.
#[derive(Clone)]
pub struct TaskWork {
    id: String,
    tasks: Tasks,
    cancelled: CancellationToken,
}

struct Entry {
    task: Task,
    cancelled: CancellationToken,
    /// Requests for input that the work is waiting for.
    questions: BTreeMap<String, (InputRequest, oneshot::Sender<Value>)>,
    used_keys: HashSet<String>,
    end: Option<(TaskPayload, Instant)>,
}

impl Tasks {
    /// Starts work under an id, which must be unguessable and unique. The task is available immediately. When the
    /// client cancels it, `cancelled` is cancelled.
    pub fn start<F>(&self, id: String, cancelled: CancellationToken, work: impl FnOnce(TaskWork) -> F) -> Task
    where
        F: Future<Output = Result<CallToolResult, TaskError>> + Send + 'static,
    {
        let now = Timestamp::now().to_string();
        let ttl = u64::try_from(RETENTION.as_millis()).unwrap_or(u64::MAX);
        let task = Task::new(id.clone(), TaskStatus::Working, now.clone(), now)
            .with_ttl_ms(ttl)
            .with_poll_interval_ms(POLL_MS);
        let entry = Entry {
            task: task.clone(),
            cancelled: cancelled.clone(),
            questions: BTreeMap::new(),
            used_keys: HashSet::new(),
            end: None,
        };
        let mut entries = self.entries();
        sweep(&mut entries);
        entries.insert(id.clone(), entry);
        drop(entries);
        let running = work(TaskWork { id: id.clone(), tasks: self.clone(), cancelled });
        let tasks = self.clone();
        tokio::spawn(async move {
            // A panic in the work must not leave the task in `working` forever.
            let ended = contain(running).await.unwrap_or_else(|reason| {
                let message = format!("the task crashed: {reason}");
                Err(TaskError::Failed(ErrorData::internal_error(message, None)))
            });
            tasks.end(&id, ended);
        });
        task
    }

    /// Returns the state of a task, if this process knows it.
    pub(super) fn get(&self, id: &str) -> Option<DetailedTask> {
        let mut entries = self.entries();
        sweep(&mut entries);
        entries.get(id).map(Entry::detailed)
    }

    /// Forwards answers to the work waiting for them; unexpected answers are ignored.
    pub(super) fn update(&self, id: &str, answers: impl IntoIterator<Item = (String, Value)>) -> bool {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(id) else { return false };
        for (key, answer) in answers {
            if let Some((_, waiting)) = entry.questions.remove(&key) {
                // The work may no longer be waiting for this answer.
                let _ = waiting.send(answer);
            }
        }
        entry.touch();
        true
    }

    /// Requests that the work stop.
    pub(super) fn cancel(&self, id: &str) -> bool {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(id) else { return false };
        entry.cancelled.cancel();
        entry.questions.clear();
        entry.touch();
        true
    }

    fn end(&self, id: &str, ended: Result<CallToolResult, TaskError>) {
        let payload = match ended {
            Ok(result) => TaskPayload::Completed { result: object(serde_json::to_value(result)) },
            Err(TaskError::Cancelled) => TaskPayload::Cancelled,
            Err(TaskError::Failed(error)) => {
                TaskPayload::Failed { error: object(serde_json::to_value(error)) }
            }
        };
        if let Some(entry) = self.entries().get_mut(id) {
            entry.questions.clear();
            entry.task.status_message = None;
            entry.end = Some((payload, Instant::now()));
            entry.touch();
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskWork {
    /// Returns the token that is cancelled when the client cancels the task.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Sets the status message of the task.
    pub fn set_status(&self, message: String) {
        if let Some(entry) = self.tasks.entries().get_mut(&self.id).filter(|entry| entry.end.is_none()) {
            entry.task.status_message = Some(message);
            entry.touch();
        }
    }

    /// Asks the client for input under a unique key and waits for the answer.
    ///
    /// # Errors
    /// Returns an error if the task is cancelled or the key was used before.
    pub async fn ask(&self, key: &str, request: InputRequest) -> Result<Value, TaskError> {
        let (waiting, answer) = oneshot::channel();
        if let Some(entry) = self.tasks.entries().get_mut(&self.id) {
            if !entry.used_keys.insert(key.to_owned()) {
                let message = format!("the key `{}` was already used in this task", excerpt(key));
                return Err(TaskError::Failed(ErrorData::internal_error(message, None)));
            }
            entry.questions.insert(key.to_owned(), (request, waiting));
            entry.touch();
        }
        // Withdraws the question if this future is dropped.
        let _question = Question { tasks: &self.tasks, id: &self.id, key };
        answer.await.map_err(|_| TaskError::Cancelled)
    }
}

/// A question of a task, which is withdrawn on drop.
struct Question<'a> {
    tasks: &'a Tasks,
    id: &'a str,
    key: &'a str,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.tasks.entries().get_mut(self.id)
            && entry.questions.remove(self.key).is_some()
        {
            entry.touch();
        }
    }
}

impl Entry {
    fn detailed(&self) -> DetailedTask {
        let payload = match &self.end {
            Some((payload, _)) => payload.clone(),
            None if self.questions.is_empty() => TaskPayload::Working,
            None => {
                let requests =
                    self.questions.iter().map(|(key, (request, _))| (key.clone(), request.clone()));
                TaskPayload::InputRequired { input_requests: requests.collect::<InputRequests>() }
            }
        };
        DetailedTask::new(self.task.clone(), payload)
    }

    fn touch(&mut self) {
        self.task.last_updated_at = Timestamp::now().to_string();
    }
}

/// Removes expired tasks and, if there are too many, the oldest finished ones.
fn sweep(entries: &mut HashMap<String, Entry>) {
    entries.retain(|_, entry| entry.end.as_ref().is_none_or(|(_, at)| at.elapsed() < RETENTION));
    while entries.len() >= MAX_TASKS {
        let ended = entries.iter().filter_map(|(id, entry)| entry.end.as_ref().map(|(_, at)| (*at, id)));
        let Some(oldest) = ended.min_by_key(|(at, _)| *at).map(|(_, id)| id.clone()) else { return };
        entries.remove(&oldest);
    }
}

fn object(value: Result<Value, serde_json::Error>) -> JsonObject {
    match value {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_in_the_work_fails_the_task() {
        let tasks = Tasks::default();
        let work = |_| async { std::panic::panic_any("boom") };
        tasks.start("a".to_owned(), CancellationToken::new(), work);
        let error = loop {
            match tasks.get("a").unwrap().payload {
                TaskPayload::Failed { error } => break error,
                _ => tokio::task::yield_now().await,
            }
        };
        assert_eq!(error["message"], "the task crashed: panicked: boom");
    }
}
