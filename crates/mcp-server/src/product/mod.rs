//! The operations of one realm as an MCP service: tools for what can be done, resources for what is there.

mod call;
mod host;
mod resources;
mod stream;
mod telling;
mod tools;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use meerkat::ops::find;
use meerkat::{AgentEvent, Error, EventEnvelope, Runtime};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, DetailedTask, GetPromptRequestParams,
    GetPromptResponse, Prompt, Reference, Tool,
};
use tokio::sync::broadcast;

use crate::layer::{About, Notice, Notices, Prompts, Request, Service, Tools};
pub use host::Host;
pub use tools::{UnknownTool, handle_tools_call, handle_tools_call_with, tools_list};

/// What a client is told about this server.
const INSTRUCTIONS: &str = "Durable agent sessions. meerkat_run starts one and returns a session_id; meerkat_resume \
continues it, also after a restart; meerkat_sessions lists them. Each session is a resource, meerkat://session/{id}.";

/// After so many sessions, those that were seen are forgotten: a notice too many does no harm.
const SEEN_AT_MOST: usize = 100_000;

/// Takes lines for the server's log.
pub(crate) type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Serves the operations of one realm.
pub struct Product {
    host: Host,
    log: Log,
    notices: Notices,
    telling: OnceLock<()>,
}

impl Product {
    /// Makes the service; `log` takes what `verbose` runs tell, `notices` what changes.
    pub(crate) fn new(host: Host, log: Log, notices: Notices) -> Self {
        Self { host, log, notices, telling: OnceLock::new() }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the runtime, opening it if need be.
    async fn runtime(&self) -> Result<Runtime, Error> {
        let runtime = self.host.runtime().await?.clone();
        self.telling.get_or_init(|| {
            tokio::spawn(tell(runtime.watch(), self.notices.clone()));
        });
        Ok(runtime)
    }
}

/// Tells clients of sessions that appear and of runs that end, as the runtime's events say it.
async fn tell(mut events: broadcast::Receiver<Arc<EventEnvelope>>, notices: Notices) {
    let mut seen = HashSet::new();
    loop {
        match events.recv().await {
            Ok(event) => match &event.payload {
                AgentEvent::RunStarted { session_id, .. } => {
                    if seen.len() >= SEEN_AT_MOST {
                        seen.clear();
                    }
                    if seen.insert(*session_id) {
                        notices.publish(&Notice::Resources);
                    }
                }
                AgentEvent::RunCompleted { .. }
                | AgentEvent::RunFailed { .. }
                | AgentEvent::ExtractionSucceeded { .. }
                | AgentEvent::ExtractionFailed { .. }
                | AgentEvent::InteractionCallbackPending { .. } => {
                    resources::publish_update(&notices, call::session_of(&event));
                }
                _ => {}
            },
            Err(broadcast::error::RecvError::Lagged(_)) => notices.publish(&Notice::Resources),
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

impl Service for Product {
    fn about(&self) -> About {
        About {
            name: "rkat-mcp",
            title: "Meerkat",
            version: env!("CARGO_PKG_VERSION"),
            instructions: INSTRUCTIONS,
        }
    }
}

impl Tools for Product {
    fn tools(&self) -> Cow<'_, [Tool]> {
        Cow::Borrowed(tools::tools())
    }

    async fn call(
        &self,
        call: CallToolRequestParams,
        request: Request,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(operation) = find(&call.name) else {
            return Err(ErrorData::invalid_params(format!("unknown tool `{}`", call.name), None));
        };
        Ok(Box::pin(self.operate(operation, call, request)).await)
    }

    async fn forgotten_task(&self, id: &str) -> Option<DetailedTask> {
        self.task_of_session(id).await
    }
}

impl Prompts for Product {
    fn prompts(&self) -> Cow<'_, [Prompt]> {
        Cow::Borrowed(&[])
    }

    async fn prompt(&self, get: GetPromptRequestParams, _: Request) -> Result<GetPromptResponse, ErrorData> {
        Err(ErrorData::invalid_params(format!("unknown prompt `{}`", get.name), None))
    }

    async fn complete(&self, complete: CompleteRequestParams) -> Result<Vec<String>, ErrorData> {
        match complete.r#ref {
            Reference::Prompt(prompt) => {
                Err(ErrorData::invalid_params(format!("unknown prompt `{}`", prompt.name), None))
            }
            Reference::Resource(template) => {
                self.session_ids(&template.uri, &complete.argument.name, &complete.argument.value).await
            }
            _ => Ok(Vec::new()),
        }
    }
}
