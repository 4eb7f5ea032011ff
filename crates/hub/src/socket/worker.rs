//! The connection of a worker.
//!
//! One task reads and writes, each as far as it can, so that a worker that does not read for a while can
//! still be heard. What waits is written in one go.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{Sink as _, SinkExt as _, Stream as _};
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval, sleep_until};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

use super::Socket;
use crate::access::Access;
use crate::core::{Arrival, Grant};
use crate::hub::{Link, Shared};
use crate::wire::{Inbound, Object, decode, holds_telemetry};

/// How often a silent worker is asked for a sign of life, and when it counts as dead without one.
const PING: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(60);
/// How many messages are read before others get their turn.
const TURN: usize = 64;

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
    let link = shared.connect(Arrival { address: Some(address.ip()), at, grant: grant.clone() });
    tracing::debug!(%address, "a worker came");
    let _guest = Guest { shared: Arc::clone(shared), peer: link.peer };
    let ended = link.ended.clone();
    let mut pump = Pump::new(Arc::clone(shared), socket, link, grant);
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
    peer: crate::core::Peer,
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

struct Pump {
    shared: Arc<Shared>,
    socket: Socket,
    link: Link,
    grant: Option<Arc<Grant>>,
    unflushed: bool,
    heard: Instant,
    ping: Interval,
    pace: Pace,
}

impl Pump {
    fn new(shared: Arc<Shared>, socket: Socket, link: Link, grant: Option<Arc<Grant>>) -> Self {
        let mut ping = interval(PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let pace = Pace::new(shared.limits.messages_per_second);
        Self { shared, socket, link, grant, unflushed: false, heard: Instant::now(), ping, pace }
    }

    /// Returns when the connection is over.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let Poll::Ready(end) = self.read(context) {
            return Poll::Ready(end);
        }
        while self.ping.poll_tick(context).is_ready() {
            if self.heard.elapsed() > SILENCE {
                return Poll::Ready(Ok(()));
            }
            Pin::new(&mut self.socket).start_send(Message::Ping(Bytes::new()))?;
            self.unflushed = true;
        }
        self.write(context)
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        for _ in 0..TURN {
            if self.pace.poll(context).is_pending() {
                return Poll::Pending;
            }
            match Pin::new(&mut self.socket).poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(Some(Ok(message))) => {
                    self.pace.count();
                    self.heard = Instant::now();
                    if self.hear(&message).is_break() {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn hear(&mut self, message: &Message) -> std::ops::ControlFlow<()> {
        match message {
            Message::Text(text) => self.take(text),
            Message::Binary(bytes) if holds_telemetry(bytes) => {}
            Message::Binary(bytes) => match str::from_utf8(bytes) {
                Ok(text) => self.take(text),
                Err(_) => self.shared.note("a binary message that is not text was passed over"),
            },
            // The answer to a ping is queued by the library.
            Message::Ping(_) => self.unflushed = true,
            Message::Pong(_) | Message::Frame(_) => {}
            Message::Close(_) => return std::ops::ControlFlow::Break(()),
        }
        std::ops::ControlFlow::Continue(())
    }

    /// Gives a message to the core, unless somebody is to be asked first.
    fn take(&self, text: &str) {
        let peer = self.link.peer;
        match self.grant.as_deref().and_then(|grant| asked(grant, text)) {
            None => self.shared.act(|core| core.receive(peer, text)),
            Some((function, question)) => {
                let (shared, text) = (Arc::clone(&self.shared), text.to_owned());
                tokio::spawn(async move {
                    match shared.call(&function, &question, super::HANDSHAKE).await {
                        Ok(_) => shared.act(|core| core.receive(peer, &text)),
                        Err(error) => shared.note(&format!("`{function}` refused a registration: {error}")),
                    }
                });
            }
        }
    }

    fn write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            match Pin::new(&mut self.socket).poll_ready(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
            }
            match self.link.messages.poll_recv(context) {
                Poll::Ready(Some(text)) => {
                    self.link.queued.fetch_sub(text.len(), Ordering::Relaxed);
                    Pin::new(&mut self.socket).start_send(Message::text(text))?;
                    self.unflushed = true;
                }
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
        }
        if self.unflushed {
            match Pin::new(&mut self.socket).poll_flush(context) {
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
        }
        Poll::Pending
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

/// Keeps a worker from saying more in a second than it may; what it says later is read later.
struct Pace {
    per_second: u32,
    said: u32,
    since: Instant,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    fn new(per_second: u32) -> Self {
        Self { per_second: per_second.max(1), said: 0, since: Instant::now(), wait: None }
    }

    fn count(&mut self) {
        self.said += 1;
        if self.said < self.per_second {
            return;
        }
        let next = self.since + Duration::from_secs(1);
        (self.said, self.since) = (0, next.max(Instant::now()));
        self.wait = (next > Instant::now()).then(|| Box::pin(sleep_until(next)));
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.wait {
            None => Poll::Ready(()),
            Some(wait) => {
                std::task::ready!(wait.as_mut().poll(context));
                self.wait = None;
                Poll::Ready(())
            }
        }
    }
}
