//! Access to the realm's runtime, and notifications of changes in its sessions.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use meerkat::operations::{AnyOperation, Archive, Impact, Operation as _};
use meerkat::{AgentEvent, Error, EventEnvelope, Runtime, SessionId};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::host::LazyRuntime;
use super::tools::Outcome;
use super::uri::{publish_all, publish_update};
use crate::protocol::{ChangeNotification, Notifier};

/// Number of sessions after which the set of known sessions is cleared; a redundant notification does no harm.
const MAX_SEEN: usize = 100_000;

/// Access to the runtime. Once it is open, clients are notified of changes in its sessions.
pub(super) struct RuntimeAccess {
    host: LazyRuntime,
    notices: Notifier,
    forwarding: OnceLock<()>,
}

impl RuntimeAccess {
    pub(super) fn new(host: LazyRuntime, notices: Notifier) -> Self {
        Self { host, notices, forwarding: OnceLock::new() }
    }

    pub(super) fn host(&self) -> &LazyRuntime {
        &self.host
    }

    pub(super) fn notices(&self) -> &Notifier {
        &self.notices
    }

    /// Returns the runtime, opening it if necessary.
    pub(super) async fn runtime(&self) -> Result<Runtime, Error> {
        let runtime = self.host.runtime().await?.clone();
        self.forwarding.get_or_init(|| {
            tokio::spawn(forward_events(runtime.subscribe(), self.notices.clone()));
            // From here on, the realm's config applies to skills.
            let skills = runtime.clone();
            tokio::spawn(async move { skills.refresh_skills().await });
        });
        Ok(runtime)
    }

    /// Checks that runs can start. A realm that does not exist yet is created by the first run.
    pub(super) async fn check_ready(&self) -> Result<(), Error> {
        if self.host.is_creatable().await? {
            return Ok(());
        }
        let health = self.runtime().await?.health().await;
        if health.is_draining { Err(Error::ShuttingDown) } else { health.store }
    }

    /// Notifies the watchers of a session of the change, and all clients if the session was archived.
    pub(super) fn publish_outcome(&self, operation: &AnyOperation, outcome: &Outcome) {
        let session = match outcome {
            Ok(reply) => reply.session,
            Err(error) => error.session().filter(|_| operation.impact == Impact::RunsAgent),
        };
        if let Some(session) = session {
            publish_update(&self.notices, &session.to_string());
        }
        if operation.name == Archive::NAME && outcome.is_ok() {
            self.notices.publish(&ChangeNotification::Resources);
        }
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
            | AgentEvent::InteractionCallbackPending { .. }
            | AgentEvent::ToolApprovalRequested { .. },
        )) => SessionUpdate::Changed(session_of(event).to_owned()),
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
            SessionUpdate::Changed(session) => publish_update(&notices, &session),
            SessionUpdate::Anything => {
                notices.publish(&ChangeNotification::Resources);
                publish_all(&notices);
            }
            SessionUpdate::End => return,
        }
    }
}

/// Returns the session of an event.
pub(super) fn session_of(event: &EventEnvelope) -> &str {
    event.source_id.strip_prefix("session:").unwrap_or(&event.source_id)
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
