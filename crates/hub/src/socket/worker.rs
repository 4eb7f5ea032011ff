//! The connection of a worker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::SinkExt as _;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::Socket;
use super::pump::{Ears, Pump};
use crate::access::Access;
use crate::core::{Arrival, Grant, Peer};
use crate::hub::{Link, Shared};
use crate::wire::{Inbound, Object, decode};

/// Serves a worker until it is gone.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    access: &Access,
    mut socket: Socket,
    mut request: Value,
    address: SocketAddr,
) {
    request["ip_address"] = address.ip().to_string().into();
    let grant = match granted(shared, access, &request).await {
        Ok(grant) => grant,
        Err(text) => {
            shared.note(&format!("{address} was not let in: {text}"));
            let error = Object::new().text("code", "AUTH_ERROR").text("message", &text).end();
            let refusal = Object::message("error").raw("error", &error).end();
            // The other side may be gone.
            let _ = socket.send(Message::text(refusal)).await;
            let _ = socket.close(None).await;
            return;
        }
    };
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let arrival = Arrival { address: Some(address.ip()), at, grant: grant.clone() };
    let Link { peer, waiting, ended } = shared.connect(arrival);
    tracing::debug!(%address, "a worker came");
    let _guest = Guest { shared: Arc::clone(shared), peer };
    let voice = Voice { shared: Arc::clone(shared), peer, grant };
    let mut pump = Pump::new(socket, waiting, voice, shared.limits.messages_per_second);
    let end = tokio::select! {
        end = std::future::poll_fn(|context| pump.poll(context)) => end,
        () = ended.cancelled() => Ok(()),
    };
    tracing::debug!(%address, "a worker went");
    if let Err(Error::Capacity(_)) = end {
        shared.note(&format!("{address} sent a message that is too long, and was dropped"));
        let reason = "message too long".into();
        let frame = CloseFrame { code: CloseCode::Size, reason };
        // The other side may be gone.
        let _ = pump.socket.close(Some(frame)).await;
    }
}

/// Tells the core when the connection ends, however that comes about.
struct Guest {
    shared: Arc<Shared>,
    peer: Peer,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.shared.disconnect(self.peer);
    }
}

/// Asks the auth function what the connection may do; `None` is everything.
async fn granted(shared: &Shared, access: &Access, request: &Value) -> Result<Option<Arc<Grant>>, String> {
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

/// A worker that says something to the core.
struct Voice {
    shared: Arc<Shared>,
    peer: Peer,
    grant: Option<Arc<Grant>>,
}

impl Ears for Voice {
    fn hear(&mut self, messages: &[Utf8Bytes]) {
        match &self.grant {
            None => self.shared.hear(self.peer, messages.iter().map(Utf8Bytes::as_str)),
            Some(grant) => messages.iter().for_each(|text| self.take(grant, text)),
        }
    }

    fn garbled(&mut self) {
        self.shared.note("a binary message that is not text was passed over");
    }
}

impl Voice {
    /// Gives a message to the core, unless somebody is to be asked first.
    fn take(&self, grant: &Grant, text: &str) {
        let peer = self.peer;
        let Some((function, question)) = asked(grant, text) else {
            return self.shared.hear(peer, [text]);
        };
        let (shared, text) = (Arc::clone(&self.shared), text.to_owned());
        tokio::spawn(async move {
            match shared.call(&function, &question, super::HANDSHAKE).await {
                Ok(_) => shared.hear(peer, [text.as_str()]),
                Err(error) => shared.note(&format!("`{function}` refused a registration: {error}")),
            }
        });
    }
}

/// The function that is to be asked about a message, and what it is asked.
fn asked(grant: &Grant, text: &str) -> Option<(String, Value)> {
    let hook = match decode(text).ok()? {
        Inbound::RegisterFunction(_) => grant.hooks.function.clone(),
        Inbound::RegisterTrigger(_) => grant.hooks.trigger.clone(),
        Inbound::RegisterTriggerType { .. } => grant.hooks.trigger_type.clone(),
        _ => None,
    }?;
    let mut question: Value = serde_json::from_str(text).ok()?;
    question["context"] = grant.context.clone();
    Some((hook, question))
}
