//! `task_update`.

use std::sync::Arc;

use meerkat_core::{SessionId, ToolImpact, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Priority, Status, Task, TaskBook};
use crate::Error;
use crate::builtin::{Builtin, json};

pub(crate) struct TaskUpdate(pub(crate) Arc<TaskBook>);

/// What to change; what is left out stays.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// The task's id.
    id: String,
    /// Another subject.
    subject: Option<String>,
    /// Another description.
    description: Option<String>,
    /// How far it is.
    status: Option<Status>,
    /// How much it matters.
    priority: Option<Priority>,
    /// Other labels, in place of all it has.
    labels: Option<Vec<String>>,
    /// Who does it.
    owner: Option<String>,
    /// Merged into what it has; a key that is null is taken out.
    metadata: Option<Map<String, Value>>,
    /// The ids of more tasks that wait for it.
    add_blocks: Option<Vec<String>>,
    /// The ids of tasks that no longer wait for it.
    remove_blocks: Option<Vec<String>>,
    /// The ids of more tasks that it waits for.
    add_blocked_by: Option<Vec<String>>,
    /// The ids of tasks that it no longer waits for.
    remove_blocked_by: Option<Vec<String>>,
}

impl Builtin for TaskUpdate {
    const NAME: &'static str = "task_update";
    const DESCRIPTION: &'static str = "Change a task of this session.";
    const IMPACT: ToolImpact = ToolImpact::Additive;
    type Arguments = Arguments;

    async fn run(&self, arguments: Arguments, session: SessionId) -> Result<ToolOutput, Error> {
        let id = arguments.id.clone();
        json(&self.0.change(session, &id, |task| arguments.change(task)).await?)
    }
}

impl Arguments {
    fn change(self, task: &mut Task) {
        replace(&mut task.subject, self.subject);
        replace(&mut task.description, self.description);
        replace(&mut task.status, self.status);
        replace(&mut task.priority, self.priority);
        replace(&mut task.labels, self.labels);
        task.owner = self.owner.or(task.owner.take());
        for (key, value) in self.metadata.unwrap_or_default() {
            if value.is_null() {
                task.metadata.remove(&key);
            } else {
                task.metadata.insert(key, value);
            }
        }
        relate(&mut task.blocks, self.add_blocks, self.remove_blocks);
        relate(&mut task.blocked_by, self.add_blocked_by, self.remove_blocked_by);
    }
}

fn replace<T>(field: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *field = new;
    }
}

fn relate(ids: &mut Vec<String>, added: Option<Vec<String>>, removed: Option<Vec<String>>) {
    for id in added.unwrap_or_default() {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let removed = removed.unwrap_or_default();
    ids.retain(|id| !removed.contains(id));
}
