//! The connection of a worker.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::SinkExt as _;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::Socket;
use super::pump::{MessageHandler, Pump};
use crate::access::Access;
use crate::core::{Grant, NewConnection, Peer};
use crate::error::CallError;
use crate::hub::{Link, Shared};
use crate::local::BoxFuture;
use crate::wire::{Inbound, Object, decode};

/// Maximum number of bytes buffered while a verdict is pending; then reading stops.
const BACKLOG: usize = 256 * 1024;

/// Serves a worker until it disconnects.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    access: &Access,
    mut socket: Socket,
    mut request: Value,
    address: SocketAddr,
) {
    request["ip_address"] = address.ip().to_string().into();
    let grant = match authorize(shared, access, &request).await {
        Ok(grant) => grant,
        Err(text) => {
            shared.note(&format!("rejected {address}: {text}"));
            let error = CallError::new("AUTH_ERROR", text).json();
            let refusal = Object::message("error").raw("error", &error).end();
            // The other side may have disconnected.
            let _ = socket.send(Message::text(refusal)).await;
            let _ = socket.close(None).await;
            return;
        }
    };
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let arrival = NewConnection { address: Some(address.ip()), at, grant: grant.clone() };
    let Link { peer, waiting, ended } = shared.connect(arrival);
    tracing::debug!(%address, "worker connected");
    let voice = WorkerHandler::new(Arc::clone(shared), peer, grant);
    let mut pump = Pump::new(socket, waiting, voice, shared.limits.messages_per_second);
    let end = tokio::select! {
        end = std::future::poll_fn(|context| pump.poll(context)) => end,
        () = ended.cancelled() => Ok(()),
    };
    tracing::debug!(%address, "worker disconnected");
    if let Err(Error::Capacity(_)) = end {
        shared.note(&format!("dropped {address}: message too long"));
        let reason = "message too long".into();
        let frame = CloseFrame { code: CloseCode::Size, reason };
        // The other side may have disconnected.
        let _ = pump.socket.close(Some(frame)).await;
    }
}

/// Calls the auth function for the rights of the connection; `None` means no restrictions.
async fn authorize(shared: &Shared, access: &Access, request: &Value) -> Result<Option<Arc<Grant>>, String> {
    let Some(rbac) = &access.rbac else { return Ok(None) };
    let answer = match &rbac.auth_function_id {
        Some(function) => {
            let answer = shared.call(function, request, super::HANDSHAKE).await;
            answer.map_err(|error| error.message)?
        }
        None => json!({}),
    };
    Ok(Some(Arc::new(rbac.grant(&answer))))
}

/// Passes a worker's messages to the core.
///
/// If a hook must approve a registration, the worker's later messages wait for the verdict, so that the core receives
/// all messages in order. Answers to calls do not wait: the hook itself may need one.
struct WorkerHandler {
    shared: Arc<Shared>,
    peer: Peer,
    grant: Option<Arc<Grant>>,
    verdict: Option<Verdict>,
    backlog: VecDeque<Utf8Bytes>,
    backlog_bytes: usize,
}

/// A registration that waits for a hook's verdict.
struct Verdict {
    function: String,
    text: Utf8Bytes,
    answer: BoxFuture<Result<Value, CallError>>,
}

/// Notifies the core when the connection ends, for whatever reason.
impl Drop for WorkerHandler {
    fn drop(&mut self) {
        self.shared.disconnect(self.peer);
    }
}

impl MessageHandler for WorkerHandler {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(verdict) = &mut self.verdict {
            let Poll::Ready(answer) = verdict.answer.as_mut().poll(context) else { break };
            self.conclude(answer);
        }
        if self.backlog_bytes > BACKLOG { Poll::Pending } else { Poll::Ready(()) }
    }

    fn on_messages(&mut self, messages: &[Utf8Bytes]) {
        if self.grant.is_none() {
            return self.shared.handle_messages(self.peer, messages.iter().map(Utf8Bytes::as_str));
        }
        for text in messages {
            if self.verdict.is_some() && !is_answer(text) {
                self.backlog_bytes += text.len();
                self.backlog.push_back(text.clone());
            } else {
                self.take(text.clone());
            }
        }
    }

    fn on_binary(&mut self) {
        self.shared.note("ignored a binary message");
    }
}

impl WorkerHandler {
    fn new(shared: Arc<Shared>, peer: Peer, grant: Option<Arc<Grant>>) -> Self {
        Self { shared, peer, grant, verdict: None, backlog: VecDeque::new(), backlog_bytes: 0 }
    }

    /// Passes a message to the core, unless a hook must be called first.
    fn take(&mut self, text: Utf8Bytes) {
        let Some((function, question)) =
            self.grant.as_deref().and_then(|grant| registration_hook(grant, &text))
        else {
            return self.shared.handle_messages(self.peer, [text.as_str()]);
        };
        let (shared, hook) = (Arc::clone(&self.shared), function.clone());
        let answer = Box::pin(async move { shared.call(&hook, &question, super::HANDSHAKE).await });
        self.verdict = Some(Verdict { function, text, answer });
    }

    /// Completes a verdict; buffered messages are processed up to the next registration.
    fn conclude(&mut self, answer: Result<Value, CallError>) {
        let Some(Verdict { function, text, .. }) = self.verdict.take() else { return };
        match answer {
            Ok(_) => self.shared.handle_messages(self.peer, [text.as_str()]),
            Err(error) => self.shared.note(&format!("`{function}` rejected a registration: {error}")),
        }
        while self.verdict.is_none()
            && let Some(text) = self.backlog.pop_front()
        {
            self.backlog_bytes -= text.len();
            self.take(text);
        }
    }
}

/// Returns `true` if a message is an answer, which does not depend on earlier messages of its worker.
fn is_answer(text: &str) -> bool {
    matches!(
        decode(text),
        Ok(Inbound::InvocationResult(..) | Inbound::TriggerRegistrationResult(..) | Inbound::Ping)
    )
}

/// Returns the hook to call for a message, and its input.
fn registration_hook(grant: &Grant, text: &str) -> Option<(String, Value)> {
    let hook = match decode(text).ok()? {
        Inbound::RegisterFunction(_) => grant.rules.on_function_registration_function_id.clone(),
        Inbound::RegisterTrigger(_) => grant.rules.on_trigger_registration_function_id.clone(),
        Inbound::RegisterTriggerType(_) => grant.rules.on_trigger_type_registration_function_id.clone(),
        _ => None,
    }?;
    let mut question: Value = serde_json::from_str(text).ok()?;
    question["context"] = grant.context.clone();
    Some((hook, question))
}
