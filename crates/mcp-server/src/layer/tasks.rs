//! Calls that outlive their request: the client gets a task at once and asks for its result later.
//!
//! The service names its tasks, so that it can say what became of one that this process does not know.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, DetailedTask, InputRequest, InputRequests, JsonObject, Task, TaskPayload, TaskStatus,
};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// How long the result of a task is kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How many tasks are kept at most; beyond that, the oldest finished ones go.
const MOST: usize = 10_000;
/// How often a client should ask.
const POLL_MS: u64 = 500;

/// The tasks of one process.
#[derive(Clone, Default)]
pub struct Tasks(Arc<Mutex<HashMap<String, Entry>>>);

/// How a task ended without a result.
#[derive(Debug)]
pub enum TaskEnd {
    /// It stopped because the client wanted it to.
    Cancelled,
    /// The request itself failed.
    Failed(ErrorData),
}

/// A task from the inside: what its work may do.
#[derive(Clone)]
pub struct TaskWork {
    id: String,
    tasks: Tasks,
    cancelled: CancellationToken,
}

struct Entry {
    task: Task,
    cancelled: CancellationToken,
    /// What the work waits for.
    asked: BTreeMap<String, (InputRequest, oneshot::Sender<Value>)>,
    used_keys: HashSet<String>,
    end: Option<(TaskPayload, Instant)>,
}

impl Tasks {
    /// Starts work under an id that nobody can guess and that no other task has. It can be asked for from now on.
    pub fn start<F>(&self, id: String, work: impl FnOnce(TaskWork) -> F) -> Task
    where
        F: Future<Output = Result<CallToolResult, TaskEnd>> + Send + 'static,
    {
        let now = Timestamp::now().to_string();
        let ttl = u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX);
        let task = Task::new(id.clone(), TaskStatus::Working, now.clone(), now)
            .with_ttl_ms(ttl)
            .with_poll_interval_ms(POLL_MS);
        let cancelled = CancellationToken::new();
        let entry = Entry {
            task: task.clone(),
            cancelled: cancelled.clone(),
            asked: BTreeMap::new(),
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
            // A panic of the work must not leave the task working for ever.
            let ended = tokio::spawn(running).await.unwrap_or_else(|error| {
                Err(TaskEnd::Failed(ErrorData::internal_error(format!("the work broke off: {error}"), None)))
            });
            tasks.end(&id, ended);
        });
        task
    }

    /// Says how a task is, if this process knows it.
    pub(super) fn get(&self, id: &str) -> Option<DetailedTask> {
        let mut entries = self.entries();
        sweep(&mut entries);
        entries.get(id).map(Entry::detailed)
    }

    /// Passes answers on to the work that waits for them; what it does not wait for is ignored.
    pub(super) fn update(&self, id: &str, answers: impl IntoIterator<Item = (String, Value)>) -> bool {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(id) else { return false };
        for (key, answer) in answers {
            if let Some((_, waiting)) = entry.asked.remove(&key) {
                // Work that waits no more has moved on.
                let _ = waiting.send(answer);
            }
        }
        entry.touch();
        true
    }

    /// Asks the work to stop.
    pub(super) fn cancel(&self, id: &str) -> bool {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(id) else { return false };
        entry.cancelled.cancel();
        entry.asked.clear();
        entry.touch();
        true
    }

    fn end(&self, id: &str, ended: Result<CallToolResult, TaskEnd>) {
        let payload = match ended {
            Ok(result) => TaskPayload::Completed { result: object(serde_json::to_value(result)) },
            Err(TaskEnd::Cancelled) => TaskPayload::Cancelled,
            Err(TaskEnd::Failed(error)) => TaskPayload::Failed { error: object(serde_json::to_value(error)) },
        };
        if let Some(entry) = self.entries().get_mut(id) {
            entry.asked.clear();
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
    /// Is cancelled when the client wants the task to stop.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Says what the task is doing, in a few words.
    pub fn say(&self, words: String) {
        if let Some(entry) = self.tasks.entries().get_mut(&self.id).filter(|entry| entry.end.is_none()) {
            entry.task.status_message = Some(words);
            entry.touch();
        }
    }

    /// Asks the client something under a key of its own and waits for the answer.
    ///
    /// # Errors
    /// Fails when the task is cancelled, or when the key was used before.
    pub async fn ask(&self, key: &str, request: InputRequest) -> Result<Value, TaskEnd> {
        let (waiting, answer) = oneshot::channel();
        if let Some(entry) = self.tasks.entries().get_mut(&self.id) {
            if !entry.used_keys.insert(key.to_owned()) {
                let message = format!("the key `{key}` was used before in this task");
                return Err(TaskEnd::Failed(ErrorData::internal_error(message, None)));
            }
            entry.asked.insert(key.to_owned(), (request, waiting));
            entry.touch();
        }
        // Whoever waits no longer asks no longer.
        let _asked = Asking { tasks: &self.tasks, id: &self.id, key };
        answer.await.map_err(|_| TaskEnd::Cancelled)
    }
}

/// A question of a task, which is taken back when nobody waits for its answer.
struct Asking<'a> {
    tasks: &'a Tasks,
    id: &'a str,
    key: &'a str,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.tasks.entries().get_mut(self.id)
            && entry.asked.remove(self.key).is_some()
        {
            entry.touch();
        }
    }
}

impl Entry {
    fn detailed(&self) -> DetailedTask {
        let payload = match &self.end {
            Some((payload, _)) => payload.clone(),
            None if self.asked.is_empty() => TaskPayload::Working,
            None => {
                let asked = self.asked.iter().map(|(key, (request, _))| (key.clone(), request.clone()));
                TaskPayload::InputRequired { input_requests: asked.collect::<InputRequests>() }
            }
        };
        DetailedTask::new(self.task.clone(), payload)
    }

    fn touch(&mut self) {
        self.task.last_updated_at = Timestamp::now().to_string();
    }
}

/// Forgets what ended long ago, and more of what ended when there is too much.
fn sweep(entries: &mut HashMap<String, Entry>) {
    entries.retain(|_, entry| entry.end.as_ref().is_none_or(|(_, at)| at.elapsed() < KEPT));
    while entries.len() >= MOST {
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
