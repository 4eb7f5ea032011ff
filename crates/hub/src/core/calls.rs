//! Calls that have not been answered.
//!
//! A call is identified by its callee and its invocation id, so no other worker can answer it. It ends once: with an
//! answer, with the disconnect of the callee, or when its time limit expires.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use super::observed::{Activation, ObservedCall};
use super::{Effect, Peer};
use crate::error::CallError;
use crate::wire::{Object, Outcome, Trace};

/// The callee of a call, and the call's id there.
pub(super) type CallKey = (Peer, Uuid);

/// The receiver of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A worker, with the id verbatim.
    Worker(Peer, String),
    /// A caller in this process.
    Local(u64),
    /// No receiver: the answer is dropped.
    NoReply,
}

/// A call that has not been routed yet.
pub(super) struct Request<'a> {
    pub(super) caller: Caller,
    /// The connection that made the call.
    pub(super) from: Peer,
    pub(super) id: Option<Uuid>,
    pub(super) function_id: &'a str,
    pub(super) data: Cow<'a, str>,
    pub(super) trace: Trace,
    pub(super) metadata: Option<&'a str>,
    /// Number of observers that led to the call.
    pub(super) depth: u32,
    /// The observer that makes the call.
    pub(super) activation: Option<Activation>,
}

/// A call that has been routed.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) caller: Caller,
    pub(super) function_id: String,
    pub(super) trace: Trace,
    pub(super) deadline: Duration,
    /// Data for the call's observers.
    pub(super) seen: Option<Box<ObservedCall>>,
    /// The observer that made the call.
    pub(super) activation: Option<Activation>,
}

/// The calls that have not been answered.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: HashMap<CallKey, Call>,
}

impl Calls {
    pub(super) fn add(&mut self, key: CallKey, call: Call) {
        self.calls.insert(key, call);
    }

    pub(super) fn remove(&mut self, key: CallKey) -> Option<Call> {
        self.calls.remove(&key)
    }

    pub(super) fn contains(&self, key: CallKey) -> bool {
        self.calls.contains_key(&key)
    }

    /// Returns the calls that a connection received.
    pub(super) fn of(&self, callee: Peer) -> Vec<CallKey> {
        self.calls.keys().filter(|key| key.0 == callee).copied().collect()
    }

    /// Returns the calls that exceeded their time limit.
    pub(super) fn late(&self, now: Duration) -> Vec<CallKey> {
        self.calls.iter().filter(|(_, call)| call.deadline <= now).map(|(key, _)| *key).collect()
    }

    /// Drops the answers for some callers.
    pub(super) fn abandon(&mut self, is_gone: impl Fn(&Caller) -> bool) {
        for call in self.calls.values_mut().filter(|call| is_gone(&call.caller)) {
            call.caller = Caller::NoReply;
        }
    }
}

impl Caller {
    /// Returns the worker that gets the answer.
    pub(super) fn peer(&self) -> Option<Peer> {
        match self {
            Self::Worker(peer, _) => Some(*peer),
            Self::Local(_) | Self::NoReply => None,
        }
    }

    /// Returns the answer for the caller, which accepts messages of up to `longest` bytes.
    pub(super) fn answer(
        &self,
        function_id: &str,
        trace: &Trace,
        outcome: Outcome<'_>,
        longest: usize,
    ) -> Option<Effect> {
        match self {
            Self::NoReply => None,
            Self::Local(call) => {
                let outcome = outcome.map(|result| result.unwrap_or("null").to_owned());
                Some(Effect::Answer { call: *call, outcome: outcome.map_err(CallError::decode) })
            }
            Self::Worker(peer, id) => {
                let answer = Object::message("invocationresult")
                    .text("invocation_id", id)
                    .text("function_id", function_id)
                    .maybe_text("traceparent", trace.parent.as_deref())
                    .maybe_text("baggage", trace.baggage.as_deref());
                let message = match outcome {
                    Ok(result) => answer.maybe_raw("result", result).end(),
                    // An error is forwarded as the callee wrote it.
                    Err(error) => answer.raw("error", error).end(),
                };
                if outcome.is_ok() && message.len() > longest {
                    let error = CallError::too_large(message.len(), longest).json();
                    return self.answer(function_id, trace, Err(&error), longest);
                }
                Some(Effect::Send(*peer, message))
            }
        }
    }
}
