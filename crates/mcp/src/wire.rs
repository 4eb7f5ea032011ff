//! Messages on a stream: tracking of pending requests, and decoding of lines from a server.
//!
//! Results are passed on undecoded and decoded piece by piece where they are used, so that an invalid piece does not
//! affect the rest. Only the responses that open a connection are decoded immediately.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, CustomResult, ErrorCode, ErrorData, JsonRpcMessage, NumberOrString, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::TxJsonRpcMessage;
use serde_json::Value;
use tokio::time::Instant;

use crate::lock;

/// Maximum size of a message.
pub(crate) const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// Time limit for the response to a request that only the modern era supports.
pub(crate) const PROBE_DEADLINE: Duration = Duration::from_secs(5);

/// Decoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Typed, for a response that opens a connection.
    Typed,
    /// Raw, for any other response.
    Raw,
}

/// Requests awaiting a response.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    open: Mutex<HashMap<RequestId, Reading>>,
    probe: Mutex<Option<(RequestId, Instant)>>,
    patient: bool,
}

impl Pending {
    /// Creates one without a deadline for `server/discover`.
    pub(crate) fn without_deadline() -> Self {
        Self { patient: true, ..Self::default() }
    }

    /// Records a message that is about to be sent.
    pub(crate) fn sent(&self, message: &TxJsonRpcMessage<RoleClient>) {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                let method = request.request.method();
                let reading = match method {
                    "initialize" | "server/discover" | "subscriptions/listen" => Reading::Typed,
                    _ => Reading::Raw,
                };
                lock(&self.open).insert(request.id.clone(), reading);
                if method == "server/discover" && !self.patient {
                    *lock(&self.probe) = Some((request.id.clone(), Instant::now() + PROBE_DEADLINE));
                }
            }
            ClientJsonRpcMessage::Notification(notification) => {
                // A cancelled request may never get a response, so it is no longer pending.
                let json = serde_json::to_value(&notification.notification).unwrap_or_default();
                if json["method"] == "notifications/cancelled"
                    && let Some(id) = read_id(&json["params"]["requestId"])
                {
                    lock(&self.open).remove(&id);
                }
            }
            _ => {}
        }
    }

    /// Returns the deadline for detecting a server of the modern era.
    pub(crate) fn probe_deadline(&self) -> Option<Instant> {
        lock(&self.probe).as_ref().map(|(_, deadline)| *deadline)
    }

    /// Responds to the probe in place of the server, as a legacy server would.
    pub(crate) fn give_up_probe(&self) -> Option<ServerJsonRpcMessage> {
        let (id, _) = lock(&self.probe).take()?;
        lock(&self.open).remove(&id);
        let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer to server/discover", None);
        Some(ServerJsonRpcMessage::error(error, Some(id)))
    }

    /// Decodes a message; `None` if it is not a message, or a response to no pending request.
    pub(crate) fn read(&self, bytes: &[u8]) -> Option<ServerJsonRpcMessage> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let message: Value = serde_json::from_slice(bytes.trim_ascii()).ok()?;
        if message.get("jsonrpc")? != "2.0" {
            return None;
        }
        if message.get("method").is_some() {
            return serde_json::from_value(message).ok();
        }
        let id = self.known_id(message.get("id")?)?;
        let reading = lock(&self.open).remove(&id)?;
        if lock(&self.probe).as_ref().is_some_and(|(probe, _)| *probe == id) {
            *lock(&self.probe) = None;
        }
        Some(answer(message, id, reading))
    }

    /// Fails the request to which an overlong message responds, given its start; `None` if the request is unknown.
    pub(crate) fn too_long(&self, head: &[u8]) -> Option<ServerJsonRpcMessage> {
        let text = String::from_utf8_lossy(head);
        let mut open = lock(&self.open);
        let named = id_in(&text).filter(|id| open.contains_key(id));
        let only = || (open.len() == 1).then(|| open.keys().next().cloned()).flatten();
        let id = named.or_else(only)?;
        open.remove(&id);
        Some(ServerJsonRpcMessage::error(too_long_error(), Some(id)))
    }

    /// Returns the id of a pending request. Some servers return a numeric id as a string.
    fn known_id(&self, id: &Value) -> Option<RequestId> {
        let id = read_id(id)?;
        let open = lock(&self.open);
        if open.contains_key(&id) {
            return Some(id);
        }
        match &id {
            NumberOrString::String(text) => {
                text.parse().ok().map(NumberOrString::Number).filter(|id| open.contains_key(id))
            }
            NumberOrString::Number(_) => None,
        }
    }
}

/// Returns the error for a request with an overlong response.
pub(crate) fn too_long_error() -> ErrorData {
    let megabytes = MAX_MESSAGE / (1024 * 1024);
    let text = format!("the server's response exceeds {megabytes} MiB and was not read; request less data");
    ErrorData::internal_error(text, None)
}

fn answer(mut message: Value, id: RequestId, reading: Reading) -> ServerJsonRpcMessage {
    if let Some(error) = message.get_mut("error").map(Value::take).filter(|error| !error.is_null()) {
        let text = error["message"].as_str().unwrap_or("the server gave no reason").to_owned();
        let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(-32603);
        let data = error.get("data").cloned();
        return ServerJsonRpcMessage::error(ErrorData::new(ErrorCode(code), text, data), Some(id));
    }
    let result = message.get_mut("result").map(Value::take).unwrap_or_default();
    let result = match reading {
        Reading::Typed => serde_json::from_value(result.clone())
            .unwrap_or_else(|_| ServerResult::CustomResult(CustomResult::new(result))),
        Reading::Raw => ServerResult::CustomResult(CustomResult::new(result)),
    };
    JsonRpcMessage::response(result, id)
}

fn read_id(id: &Value) -> Option<RequestId> {
    match id {
        Value::Number(number) => number.as_i64().map(NumberOrString::Number),
        Value::String(text) => Some(NumberOrString::String(text.as_str().into())),
        _ => None,
    }
}

/// Finds the `"id"` of a response, which servers write at its start.
fn id_in(head: &str) -> Option<RequestId> {
    let result = head.find("\"result\"").unwrap_or(head.len());
    let after = head[..result].split_once("\"id\"")?.1.trim_start().strip_prefix(':')?.trim_start();
    match after.strip_prefix('"') {
        Some(text) => Some(NumberOrString::String(text.split_once('"')?.0.into())),
        None => {
            let digits = after.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok().map(NumberOrString::Number)
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{
        ClientJsonRpcMessage, ClientRequest, CustomRequest, DiscoverRequest, DiscoverRequestParams,
        NumberOrString,
    };
    use serde_json::{Value, json};

    use super::Pending;

    fn pending_with(ids: &[i64]) -> Pending {
        let pending = Pending::default();
        for id in ids {
            let request = ClientRequest::CustomRequest(CustomRequest::new("tools/list", None));
            pending.sent(&ClientJsonRpcMessage::request(request, NumberOrString::Number(*id)));
        }
        pending
    }

    fn read(pending: &Pending, line: &str) -> Option<Value> {
        pending.read(line.as_bytes()).map(|message| serde_json::to_value(message).unwrap())
    }

    #[test]
    fn lines_that_are_not_messages_are_skipped() {
        let pending = pending_with(&[1]);
        let lines =
            ["Listening on stdio", "{\"level\":\"info\",\"id\":1}", "{", "[]", "\"jsonrpc\"", "7", ""];
        for line in lines {
            assert_eq!(read(&pending, line), None, "{line}");
        }
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":1}]}}"#;
        let expected = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [{ "name": 1 }] } });
        assert_eq!(read(&pending, answer), Some(expected));
        assert_eq!(read(&pending, answer), None, "a response is returned once");
    }

    #[test]
    fn string_ids_and_byte_order_marks_are_accepted() {
        let line = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"2\",\"error\":{\"message\":\"no\"}}\r";
        let expected = json!({ "jsonrpc": "2.0", "id": 2, "error": { "code": -32603, "message": "no" } });
        assert_eq!(read(&pending_with(&[2]), line), Some(expected));
    }

    #[test]
    fn overlong_message_fails_its_request() {
        let failed = |open: &[i64], head: &[u8]| {
            pending_with(open)
                .too_long(head)
                .map(|message| serde_json::to_value(message).unwrap()["id"].clone())
        };
        let head = br#"{"jsonrpc":"2.0","id":2,"result":{"content":"xxxxx"#;
        assert_eq!(failed(&[1, 2], head), Some(json!(2)));
        assert_eq!(failed(&[7], b"{\"result\":{\"id\":2"), Some(json!(7)));
        assert_eq!(failed(&[1, 2], b"{\"result\":{\"id\":2"), None);
    }

    #[tokio::test]
    async fn abandoned_probe_is_answered_once() {
        let pending = Pending::default();
        assert!(pending.probe_deadline().is_none());
        let request = ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}));
        pending.sent(&ClientJsonRpcMessage::request(request, NumberOrString::Number(0)));
        assert!(pending.probe_deadline().is_some());
        let message = serde_json::to_value(pending.give_up_probe().unwrap()).unwrap();
        let error = json!({ "code": -32601, "message": "no answer to server/discover" });
        assert_eq!(message, json!({ "jsonrpc": "2.0", "id": 0, "error": error }));
        assert!(pending.give_up_probe().is_none());
        assert_eq!(read(&pending, r#"{"jsonrpc":"2.0","id":0,"result":{}}"#), None, "too late");
    }
}
