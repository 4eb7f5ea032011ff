//! Requests over an open connection, with time limits, cancellation, and requests of the server in between.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientRequest, CustomRequest, RequestId, ServerResult,
    SubscriptionFilter,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::{Map, Value, json};

use crate::client_features::{ClientFeature, Handler};
use crate::decode::{self, ListedTool};

/// Maximum number of pages of a list.
const MAX_PAGES: usize = 100;
/// Maximum number of entries of a list.
const MAX_ENTRIES: usize = 2048;
const TOO_LONG: &str = "is too long; the rest was skipped";
/// Maximum number of times that a server may request input during a call.
const MAX_ROUNDS: usize = 8;
/// Maximum duration of a call, as a multiple of its silence limit; also applies to calls that report progress.
const CEILING: u32 = 12;

/// An open connection.
#[derive(Clone)]
pub(crate) struct Link {
    peer: Peer<RoleClient>,
    handler: Arc<Handler>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Link").field("server", &self.handler.server).finish_non_exhaustive()
    }
}

/// Error of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("no response or progress from the server for {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("{message} ({code})")]
    Refused { code: i32, message: String },
    #[error("the connection to the server ended")]
    Closed,
    #[error("the server requires a login")]
    NeedsLogin { challenge: String },
    #[error("cannot reach the server: {0}")]
    Unreachable(String),
    #[error("{0}")]
    Protocol(&'static str),
}

/// Guard that sends a cancellation to the server when a request is abandoned.
struct CancelOnDrop {
    peer: Peer<RoleClient>,
    request: Option<RequestId>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let params = CancelledNotificationParam::new(Some(request), Some("no longer needed".to_owned()));
            let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
        });
    }
}

impl Link {
    pub(crate) fn new(peer: Peer<RoleClient>, handler: Arc<Handler>) -> Self {
        Self { peer, handler }
    }

    /// Returns the instructions of the server, truncated.
    pub(crate) fn instructions(&self) -> Option<String> {
        let info = self.peer.peer_info()?;
        info.instructions.as_ref().map(|text| text.chars().take(4000).collect())
    }

    pub(crate) fn has_resources(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    pub(crate) fn has_prompts(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| info.capabilities.prompts.is_some())
    }

    fn has_tools(&self) -> bool {
        self.peer.peer_info().is_none_or(|info| info.capabilities.tools.is_some())
    }

    /// Sends a request, and waits at most `silence` for a response or progress.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: Map<String, Value>,
        silence: Duration,
    ) -> Result<Value, CallError> {
        let options = PeerRequestOptions::with_timeout(silence)
            .reset_timeout_on_progress()
            .with_max_total_timeout(silence * CEILING);
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(Value::Object(params))));
        let handle = self.peer.send_request_with_option(request, options).await.map_err(call_error)?;
        let mut guard = CancelOnDrop { peer: self.peer.clone(), request: Some(handle.id.clone()) };
        let answer = handle.await_response().await;
        guard.request = None;
        match answer.map_err(call_error)? {
            ServerResult::CustomResult(result) => Ok(result.0),
            other => serde_json::to_value(other).map_err(|_| CallError::Protocol("cannot read the response")),
        }
    }

    /// Sends a request that may require input of the client first.
    pub(crate) async fn converse(
        &self,
        method: &str,
        mut params: Map<String, Value>,
        silence: Duration,
    ) -> Result<Value, CallError> {
        for _ in 0..MAX_ROUNDS {
            let result = self.request(method, params.clone(), silence).await?;
            match result.get("resultType").and_then(Value::as_str) {
                Some("input_required") => {}
                Some("task") => {
                    return Err(CallError::Protocol("the server returned a task, which was not requested"));
                }
                _ => return Ok(result),
            }
            let answers = self.answers(&result).await?;
            params.remove("requestState");
            params.insert("inputResponses".to_owned(), json!(answers));
            if let Some(state) = result.get("requestState") {
                params.insert("requestState".to_owned(), state.clone());
            }
        }
        Err(CallError::Protocol("the server requested input too many times"))
    }

    async fn answers(&self, result: &Value) -> Result<BTreeMap<String, Value>, CallError> {
        let mut answers = BTreeMap::new();
        for (key, request) in result.get("inputRequests").and_then(Value::as_object).into_iter().flatten() {
            let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
            let (question, declined) = match request.get("method").and_then(Value::as_str) {
                Some("elicitation/create") => {
                    (ClientFeature::Elicitation, Some(json!({ "action": "decline" })))
                }
                Some("roots/list") => (ClientFeature::Roots, Some(json!({ "roots": [] }))),
                Some("sampling/createMessage") => (ClientFeature::Sampling, None),
                _ => return Err(CallError::Protocol("the server sent an unknown input request")),
            };
            let unsupported = CallError::Protocol("the server requested sampling, which was declined");
            let answer = self.handler.ask(question, params).await.or(declined).ok_or(unsupported)?;
            answers.insert(key.clone(), answer);
        }
        Ok(answers)
    }

    /// Lists all tools, with problems of the list.
    pub(crate) async fn list_tools(
        &self,
        silence: Duration,
    ) -> Result<(Vec<ListedTool>, Vec<String>), CallError> {
        let (mut tools, mut problems) = (Vec::<ListedTool>::new(), Vec::new());
        if !self.has_tools() {
            return Ok((tools, problems));
        }
        let cut = self
            .pages("tools/list", silence, |result| {
                let page = decode::tool_page(result);
                problems.extend(page.problems);
                for tool in page.tools {
                    if tools.iter().any(|known| known.name == tool.name) {
                        problems.push(format!("`{}` is listed twice; using the first", tool.name));
                    } else {
                        tools.push(tool);
                    }
                }
                tools.len()
            })
            .await?;
        tools.truncate(MAX_ENTRIES);
        problems.extend(cut.map(|cut| format!("the tool list {cut}")));
        Ok((tools, problems))
    }

    /// Lists all entries of a kind, with the reason if the list is incomplete.
    pub(crate) async fn list(
        &self,
        method: &str,
        key: &str,
        silence: Duration,
    ) -> Result<(Vec<Value>, Option<&'static str>), CallError> {
        let mut entries = Vec::new();
        let cut = self
            .pages(method, silence, |result| {
                entries.extend(result.get(key).and_then(Value::as_array).into_iter().flatten().cloned());
                entries.len()
            })
            .await?;
        entries.truncate(MAX_ENTRIES);
        Ok((entries, cut))
    }

    /// Reads a list page by page. `take` consumes a page and returns the number of entries so far. Returns the reason
    /// if the list was not read completely.
    async fn pages(
        &self,
        method: &str,
        silence: Duration,
        mut take: impl FnMut(&Value) -> usize,
    ) -> Result<Option<&'static str>, CallError> {
        let mut cursor: Option<String> = None;
        let mut seen = HashSet::new();
        for _ in 0..MAX_PAGES {
            let params = cursor.iter().map(|cursor| ("cursor".to_owned(), json!(cursor))).collect();
            let result = self.request(method, params, silence).await?;
            let count = take(&result);
            let Some(next) = decode::cursor(&result) else {
                return Ok((count > MAX_ENTRIES).then_some(TOO_LONG));
            };
            if !seen.insert(next.clone()) {
                return Ok(Some("repeats itself; the rest was skipped"));
            }
            if count >= MAX_ENTRIES {
                break;
            }
            cursor = Some(next);
        }
        Ok(Some(TOO_LONG))
    }

    /// Notifies the handler of changes that a server of the modern era sends only to subscribers.
    pub(crate) async fn listen(&self) {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let Ok(mut subscription) = self.peer.listen(filter).await else { return };
        while let Ok(Some(_)) = subscription.next().await {
            self.handler.tools_changed.notify_one();
        }
    }
}

fn call_error(error: ServiceError) -> CallError {
    match error {
        ServiceError::McpError(error) => {
            CallError::Refused { code: error.code.0, message: error.message.into_owned() }
        }
        ServiceError::Timeout { timeout } => CallError::Timeout(timeout),
        ServiceError::TransportClosed | ServiceError::Cancelled { .. } => CallError::Closed,
        ServiceError::TransportSend(error) => match crate::auth::challenge(error.error.as_ref()) {
            Some(challenge) => CallError::NeedsLogin { challenge },
            None => CallError::Unreachable(crate::causes(error.error.as_ref())),
        },
        other => CallError::Unreachable(crate::causes(&other)),
    }
}
