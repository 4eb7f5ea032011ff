//! Operations of one realm as an MCP service: tools for actions, resources for data.

mod approvals;
mod call;
mod host;
mod registry;
mod reporter;
mod resources;
mod skills;
mod stream;
mod tasks;
mod tools;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use meerkat::operations::find;
use meerkat::skills::view::SKILL_TOOL;
use meerkat::{AgentEvent, Error, EventEnvelope, Runtime, SessionId, excerpt};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, DetailedTask, GetPromptRequestParams,
    GetPromptResponse, Prompt, Reference, Tool,
};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OnceCell, broadcast};

use crate::log::Log;
use crate::protocol::{ChangeNotification, Notifier, Prompts, Request, ServerInfo, Service, Tools};
use crate::skills::SkillViews;
pub use host::LazyRuntime;
pub use tools::{UnknownTool, handle_tools_call, handle_tools_call_with, tools_list};

/// Instructions sent to clients.
const INSTRUCTIONS: &str = "Durable agent sessions. meerkat_run starts one and returns a session_id; meerkat_resume \
continues it, even after a restart; meerkat_sessions lists them. Each session is a resource, meerkat://session/{id}.";

/// Number of sessions after which the set of known sessions is cleared; a redundant notification does no harm.
const MAX_SEEN: usize = 100_000;

/// MCP service for the operations of one realm.
pub struct RealmService {
    host: LazyRuntime,
    log: Log,
    notices: Notifier,
    skills: Option<SkillViews>,
    forwarding: OnceLock<()>,
    registry: OnceCell<registry::RegistryViews>,
}

impl RealmService {
    /// Creates the service; `log` receives the events of `verbose` runs, `notices` the changes.
    pub(crate) fn new(host: LazyRuntime, log: Log, notices: Notifier, skills: Option<SkillViews>) -> Self {
        Self { host, log, notices, skills, forwarding: OnceLock::new(), registry: OnceCell::new() }
    }

    pub(crate) fn host(&self) -> &LazyRuntime {
        &self.host
    }

    /// Returns the runtime, opening it if necessary.
    async fn runtime(&self) -> Result<Runtime, Error> {
        let runtime = self.host.runtime().await?.clone();
        self.forwarding.get_or_init(|| {
            tokio::spawn(forward_events(runtime.subscribe(), self.notices.clone()));
            // From here on, the realm's config applies to skills.
            let skills = runtime.clone();
            tokio::spawn(async move { skills.refresh_skills().await });
        });
        Ok(runtime)
    }
}

/// Effect of an event on the session resources.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SessionUpdate {
    /// No effect.
    None,
    /// A session was created, or an existing one is running again.
    Begun(SessionId),
    /// The content of a session changed.
    Changed(String),
    /// Events were missed, so any session may have been created or changed.
    Anything,
    /// There are no more events.
    End,
}

/// Classifies an event, or the failure to receive one.
fn news(event: Result<&EventEnvelope, RecvError>) -> SessionUpdate {
    match event.map(|event| (event, &event.payload)) {
        Ok((_, AgentEvent::RunStarted { session_id, .. })) => SessionUpdate::Begun(*session_id),
        Ok((
            event,
            AgentEvent::RunCompleted { .. }
            | AgentEvent::RunFailed { .. }
            | AgentEvent::ExtractionSucceeded { .. }
            | AgentEvent::ExtractionFailed { .. }
            | AgentEvent::InteractionCallbackPending { .. },
        )) => SessionUpdate::Changed(call::session_of(event).to_owned()),
        Ok(_) => SessionUpdate::None,
        Err(RecvError::Lagged(_)) => SessionUpdate::Anything,
        Err(RecvError::Closed) => SessionUpdate::End,
    }
}

/// Notifies clients of new sessions and finished runs, based on the runtime's events.
async fn forward_events(mut events: broadcast::Receiver<Arc<EventEnvelope>>, notices: Notifier) {
    let mut seen = HashSet::new();
    loop {
        let event = events.recv().await;
        match news(event.as_deref().map_err(Clone::clone)) {
            SessionUpdate::None => {}
            SessionUpdate::Begun(session) => {
                if seen.len() >= MAX_SEEN {
                    seen.clear();
                }
                if seen.insert(session) {
                    notices.publish(&ChangeNotification::Resources);
                }
            }
            SessionUpdate::Changed(session) => resources::publish_update(&notices, &session),
            SessionUpdate::Anything => {
                notices.publish(&ChangeNotification::Resources);
                resources::publish_all(&notices);
            }
            SessionUpdate::End => return,
        }
    }
}

impl Service for RealmService {
    fn about(&self) -> ServerInfo {
        ServerInfo {
            name: "rkat-mcp",
            title: "Meerkat",
            version: env!("CARGO_PKG_VERSION"),
            instructions: INSTRUCTIONS,
        }
    }

    async fn refresh(&self) {
        self.refresh_registered().await;
        if let Some(skills) = &self.skills {
            skills.snapshot().await;
        }
    }
}

impl Tools for RealmService {
    fn tools(&self) -> Cow<'_, [Tool]> {
        self.with_skill_tool()
    }

    async fn call(
        &self,
        call: CallToolRequestParams,
        request: Request,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(skills) = self.skills.as_ref().filter(|_| call.name == SKILL_TOOL) {
            return Ok(skills.call(call.arguments).await.into());
        }
        let Some(operation) = find(&call.name) else {
            return Err(ErrorData::invalid_params(format!("unknown tool `{}`", excerpt(&call.name)), None));
        };
        Box::pin(self.operate(operation, call, request)).await
    }

    async fn restore_task(&self, id: &str) -> Option<DetailedTask> {
        self.task_of_session(id).await
    }

    async fn cancel_unknown_task(&self, id: &str) -> bool {
        self.stop_task_of_session(id).await
    }
}

impl Prompts for RealmService {
    fn prompts(&self) -> Cow<'_, [Prompt]> {
        let skills = self.skills.as_ref().map(SkillViews::prompts).unwrap_or_default();
        Cow::Owned(skills.into_iter().chain(self.registered_prompts()).collect())
    }

    async fn prompt(&self, get: GetPromptRequestParams, _: Request) -> Result<GetPromptResponse, ErrorData> {
        if let Some(rendered) = self.registered_prompt(&get).await {
            return Ok(rendered?.into());
        }
        if let Some(skills) = &self.skills {
            return Ok(skills.prompt(get).await?.into());
        }
        Err(ErrorData::invalid_params(format!("unknown prompt `{}`", excerpt(&get.name)), None))
    }

    async fn complete(&self, complete: CompleteRequestParams) -> Result<Vec<String>, ErrorData> {
        self.refresh_registered().await;
        if let Some(skills) = &self.skills
            && let Some(known) = skills.complete(&complete).await
        {
            return Ok(known);
        }
        match complete.r#ref {
            Reference::Prompt(prompt) if self.is_registered_prompt(&prompt.name) => Ok(Vec::new()),
            Reference::Prompt(prompt) => {
                Err(ErrorData::invalid_params(format!("unknown prompt `{}`", excerpt(&prompt.name)), None))
            }
            Reference::Resource(template) => {
                let (name, prefix) = (&complete.argument.name, &complete.argument.value);
                if let Some(known) = self.complete_registered(&template.uri, name, prefix).await {
                    return Ok(known);
                }
                self.session_ids(&template.uri, &complete.argument.name, &complete.argument.value).await
            }
            _ => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SessionUpdate, news};
    use serde_json::json;
    use tokio::sync::broadcast::error::RecvError;

    #[test]
    fn lagging_receiver_marks_everything_changed() {
        let session = "01936f8a-7b2c-7000-8000-000000000001";
        let update_for = |payload: serde_json::Value| {
            let event = json!({
                "event_id": session, "source": { "type": "session", "session_id": session },
                "source_id": format!("session:{session}"), "seq": 1, "timestamp_ms": 0, "payload": payload,
            });
            news(Ok(&serde_json::from_value(event).unwrap()))
        };
        let failed =
            json!({ "type": "run_failed", "session_id": session, "error_class": "llm", "error": "no" });
        assert_eq!(update_for(failed), SessionUpdate::Changed(session.to_owned()));
        let started = json!({ "type": "run_started", "session_id": session, "prompt": "hi" });
        assert_eq!(update_for(started), SessionUpdate::Begun(session.parse().unwrap()));
        assert_eq!(update_for(json!({ "type": "text_delta", "delta": "x" })), SessionUpdate::None);
        assert_eq!(
            (news(Err(RecvError::Lagged(1))), news(Err(RecvError::Closed))),
            (SessionUpdate::Anything, SessionUpdate::End)
        );
    }
}
