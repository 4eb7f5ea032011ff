//! Calls: from a caller to the owner of the function and back.
//!
//! A call is identified by its callee and its invocation id, so no other worker can answer it. It ends once: with an
//! answer, with the disconnect of the callee, or when its time limit expires.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::observed::{FinishedCall, ObservedCall};
use super::observers::Activation;
use super::{Core, Effect, Grant, Peer};
use crate::error::CallError;
use crate::queue::QueuedCall;
use crate::wire::{Action, CALLER, Invoke, Object, Outcome, Trace, with_caller};

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

#[derive(Debug)]
pub(super) struct Call {
    pub(super) caller: Caller,
    function_id: String,
    trace: Trace,
    deadline: Duration,
    /// Data for the call's observers.
    seen: Option<Box<ObservedCall>>,
    /// The observer that made the call.
    activation: Option<Activation>,
}

/// A function of this process to run.
#[derive(Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) id: Uuid,
    pub(crate) function_id: String,
    pub(crate) data: String,
    pub(crate) caller: Option<Uuid>,
    /// The calling connection, if access rules apply to it.
    pub(crate) guarded: Option<(Peer, Arc<Grant>)>,
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

impl Core {
    pub(super) fn invoke(&mut self, from: Peer, invoke: Invoke<'_>) {
        let caller = match (&invoke.action, &invoke.id) {
            (Action::Void, _) | (_, None) => Caller::NoReply,
            (_, Some((_, text))) => Caller::Worker(from, text.clone().into_owned()),
        };
        let id = invoke.id.as_ref().map(|(id, _)| *id).filter(|_| caller != Caller::NoReply);
        let mut request = Request {
            caller,
            from,
            id,
            function_id: &invoke.function_id,
            data: Cow::Borrowed(invoke.data),
            trace: invoke.trace,
            metadata: invoke.metadata.map(RawValue::get),
            depth: invoke.depth,
            activation: None,
        };
        if let Err(error) = self.check(&request) {
            return self.fail(&request.caller, request.function_id, &request.trace, &error);
        }
        let grant = self.grant(from);
        match grant.as_deref().and_then(|grant| grant.hooks.middleware.as_deref()) {
            Some(middleware) if !Grant::is_infrastructure(request.function_id) => {
                let action = match &invoke.action {
                    Action::Call => "null".to_owned(),
                    Action::Void => r#"{"type":"void"}"#.to_owned(),
                    Action::Enqueue { queue } => {
                        Object::new().text("type", "enqueue").text("queue", queue).end()
                    }
                };
                let context = grant.as_ref().map_or(Value::Null, |grant| grant.context.clone()).to_string();
                let data = Object::new()
                    .text("function_id", request.function_id)
                    .raw("payload", &request.data)
                    .raw("action", &action)
                    .raw("context", &context)
                    .end();
                request.data = Cow::Owned(data);
                request.function_id = middleware;
                self.dispatch(request);
            }
            _ => match invoke.action {
                Action::Enqueue { queue } => self.enqueue(request, queue),
                Action::Call | Action::Void => self.dispatch(request),
            },
        }
    }

    /// Calls a function on behalf of this process.
    pub(crate) fn call(&mut self, caller: Caller, function_id: &str, data: String) {
        let (trace, from, data) = (Trace::default(), Peer::HUB, Cow::Owned(data));
        let (id, metadata, activation) = (None, None, None);
        let request = Request { caller, from, id, function_id, data, trace, metadata, depth: 0, activation };
        self.dispatch(request);
    }

    /// Drops a call whose caller in this process has stopped waiting.
    pub(crate) fn abandon(&mut self, call: u64) {
        for waiting in self.calls.values_mut().filter(|waiting| waiting.caller == Caller::Local(call)) {
            waiting.caller = Caller::NoReply;
        }
    }

    /// Returns an error if the caller may not make the call.
    fn check(&self, request: &Request<'_>) -> Result<(), CallError> {
        let Some(worker) = self.workers.get(&request.from) else { return Ok(()) };
        if let Some(grant) = &worker.grant {
            let found = self.functions.get(request.function_id).and_then(super::Function::owner);
            let metadata = found.and_then(|(_, spec)| spec.metadata.as_ref());
            if !grant.may_call(request.function_id, metadata) {
                return Err(CallError::forbidden(request.function_id));
            }
        }
        if worker.waiting >= self.limits.calls {
            return Err(CallError::too_many(self.limits.calls));
        }
        Ok(())
    }

    pub(super) fn dispatch(&mut self, request: Request<'_>) {
        if self.answer_builtin(
            &request.caller,
            request.from,
            request.function_id,
            &request.data,
            &request.trace,
        ) {
            return;
        }
        let found = self.functions.get(request.function_id).and_then(super::Function::owner);
        match found.map(|(peer, spec)| (peer, spec.remote)) {
            None => {
                let error = CallError::not_found(request.function_id);
                self.fail(&request.caller, request.function_id, &request.trace, &error);
            }
            Some((_, true)) => {
                let error = CallError::not_invokable(request.function_id);
                self.fail(&request.caller, request.function_id, &request.trace, &error);
            }
            Some((Peer::HUB, _)) => self.run_here(request),
            Some((peer, _)) => self.forward(peer, request),
        }
    }

    fn run_here(&mut self, request: Request<'_>) {
        let id = (self.ids)();
        let caller = self.workers.get(&request.from).map(|worker| worker.id);
        let function_id = request.function_id.to_owned();
        let guarded = self.grant(request.from).map(|grant| (request.from, grant));
        let run = Run { id, function_id, data: request.data.clone().into_owned(), caller, guarded };
        self.begin((Peer::HUB, id), request);
        self.effects.push(Effect::Run(run));
    }

    fn forward(&mut self, peer: Peer, request: Request<'_>) {
        // The id of the caller is passed through, unless the callee runs another call under it.
        let id = match request.id.filter(|id| !self.calls.contains_key(&(peer, *id))) {
            Some(id) => id,
            None => (self.ids)(),
        };
        let caller = self.workers.get(&request.from).map(|worker| worker.id);
        let Some(callee) = self.workers.get(&peer) else { return };
        let own_name = callee.grant.as_ref().and_then(|grant| grant.prefix.as_deref());
        let name = own_name.and_then(|prefix| request.function_id.strip_prefix(prefix));
        let data = match caller {
            Some(caller) => with_caller(&request.data, caller),
            None => Cow::Borrowed(&*request.data),
        };
        let depth = (request.depth > 0).then(|| request.depth.to_string());
        let message = Object::message("invokefunction")
            .id("invocation_id", id)
            .text("function_id", name.unwrap_or(request.function_id))
            .raw("data", &data)
            .maybe_text("traceparent", request.trace.parent.as_deref())
            .maybe_text("baggage", baggage(&request.trace, request.function_id).as_deref())
            .maybe_raw("metadata", request.metadata)
            .maybe_raw("observe_depth", depth.as_deref())
            .maybe_raw("activation", request.activation.as_ref().map(Activation::json).as_deref())
            .end();
        if message.len() > callee.longest {
            let error = CallError::too_large(message.len(), callee.longest);
            return self.fail(&request.caller, request.function_id, &request.trace, &error);
        }
        self.begin((peer, id), request);
        self.send(peer, message);
    }

    fn begin(&mut self, key: CallKey, request: Request<'_>) {
        let seen = self.is_observed(request.function_id).then(|| {
            Box::new(ObservedCall {
                input: request.data.clone().into_owned(),
                metadata: request.metadata.map(str::to_owned),
                caller: self.workers.get(&request.from).map(|worker| worker.id),
                at: self.now,
                depth: request.depth,
            })
        });
        self.keep_call(key, request, seen);
    }

    fn keep_call(&mut self, key: CallKey, request: Request<'_>, seen: Option<Box<ObservedCall>>) {
        if let Caller::Worker(peer, _) = &request.caller
            && let Some(worker) = self.workers.get_mut(peer)
        {
            worker.waiting += 1;
        }
        if let Some(worker) = self.workers.get_mut(&key.0) {
            worker.running += 1;
        }
        if let Some(activation) = &request.activation {
            self.activation_started(activation);
        }
        let call = Call {
            seen,
            activation: request.activation,
            caller: request.caller,
            function_id: request.function_id.to_owned(),
            trace: request.trace,
            deadline: self.now + self.limits.call_time,
        };
        self.calls.insert(key, call);
    }

    /// Removes the call from the tables.
    fn end(&mut self, key: CallKey) -> Option<Call> {
        let call = self.calls.remove(&key)?;
        if let Caller::Worker(peer, _) = &call.caller
            && let Some(worker) = self.workers.get_mut(peer)
        {
            worker.waiting = worker.waiting.saturating_sub(1);
        }
        if let Some(worker) = self.workers.get_mut(&key.0) {
            worker.running = worker.running.saturating_sub(1);
        }
        if let Some(activation) = &call.activation {
            self.activation_finished(activation);
        }
        Some(call)
    }

    /// Notifies the observers of a call of its outcome.
    fn report_outcome(&mut self, key: CallKey, call: Call, outcome: Result<&str, &str>) {
        let Call { function_id, trace, seen, .. } = call;
        if let Some(seen) = seen {
            let (function_id, trace, id) = (function_id.as_str(), &trace, key.1);
            let (began, took) = (self.born + seen.at, self.now.saturating_sub(seen.at));
            self.notify_observers(&FinishedCall {
                function_id,
                id,
                seen: *seen,
                trace,
                began,
                took,
                outcome,
            });
        }
    }

    /// Ends a call with an error of the hub.
    fn fail_call(&mut self, key: CallKey, call: Call, error: &CallError) {
        self.fail(&call.caller, &call.function_id, &call.trace, error);
        self.report_outcome(key, call, Err(&error.json()));
    }

    /// Handles a worker's answer. An answer to a call that the worker did not receive has no effect.
    pub(super) fn outcome(&mut self, peer: Peer, outcome: &Outcome<'_>) {
        let key = (peer, outcome.id);
        let Some(call) = self.end(key) else { return };
        match outcome.error {
            Some(error) => {
                self.answer_error(&call.caller, &call.function_id, &call.trace, error.get());
                self.report_outcome(key, call, Err(error.get()));
            }
            None => {
                let result = outcome.result.map(RawValue::get);
                self.succeed(&call.caller, &call.function_id, &call.trace, result);
                self.report_outcome(key, call, Ok(result.unwrap_or("null")));
            }
        }
    }

    /// Handles the result of a function of this process.
    pub(crate) fn finish(&mut self, id: Uuid, outcome: Result<Option<String>, CallError>) {
        let key = (Peer::HUB, id);
        let Some(call) = self.end(key) else { return };
        match outcome {
            Ok(result) => {
                self.succeed(&call.caller, &call.function_id, &call.trace, result.as_deref());
                self.report_outcome(key, call, Ok(result.as_deref().unwrap_or("null")));
            }
            Err(error) => self.fail_call(key, call, &error),
        }
    }

    /// Ends calls that exceeded their time limit with an error.
    pub(crate) fn expire(&mut self) {
        let late = self.calls.iter().filter(|(_, call)| call.deadline <= self.now);
        let keys: Vec<CallKey> = late.map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(call) = self.end(key) {
                self.fail_call(key, call, &CallError::timeout(self.limits.call_time));
            }
        }
        self.expire_observers();
    }

    /// Stops the calls that a connection was running; answers to calls that it made are dropped.
    pub(super) fn stop_calls(&mut self, peer: Peer) {
        let running: Vec<CallKey> = self.calls.keys().filter(|key| key.0 == peer).copied().collect();
        for key in running {
            if let Some(call) = self.end(key) {
                self.fail_call(key, call, &CallError::stopped());
            }
        }
        for call in self.calls.values_mut() {
            if matches!(&call.caller, Caller::Worker(caller, _) if *caller == peer) {
                call.caller = Caller::NoReply;
            }
        }
    }

    /// Adds a call to a queue. The caller gets its receipt when the call is stored.
    fn enqueue(&mut self, request: Request<'_>, queue: String) {
        // The call will run on behalf of the hub.
        if !self.may_use(request.from, request.function_id) {
            let error = CallError::forbidden(request.function_id);
            return self.fail(&request.caller, request.function_id, &request.trace, &error);
        }
        self.reserve_unknown(request.function_id);
        let id = (self.ids)();
        let function_id = request.function_id.to_owned();
        let mut data: Value = serde_json::from_str(&request.data).unwrap_or_default();
        if let (Some(claimed), Some(worker)) = (data.get_mut(CALLER), self.workers.get(&request.from)) {
            // The caller is not inserted when the call runs, so the field must not name another worker.
            *claimed = worker.id.to_string().into();
        }
        let effect = if self.owner_of(QUEUE_PROVIDER).is_some() {
            let handed = Object::new()
                .text("queue", &queue)
                .text("function_id", &function_id)
                .raw("data", &data.to_string())
                .id("messageReceiptId", id)
                .maybe_text("traceparent", request.trace.parent.as_deref())
                .maybe_text("baggage", request.trace.baggage.as_deref());
            Effect::HandOver { id, data: handed.end() }
        } else {
            Effect::Enqueue(QueuedCall { id, queue, function_id, data, attempts: 0 })
        };
        self.keep_call((Peer::HUB, id), request, None);
        self.effects.push(effect);
    }
}

/// The function of a worker that provides queues.
pub(crate) const QUEUE_PROVIDER: &str = "engine::queue::enqueue";

/// Returns the baggage for the callee; that of a traced call also names the function.
fn baggage(trace: &Trace, function_id: &str) -> Option<String> {
    match (&trace.baggage, &trace.parent) {
        (Some(baggage), _) if !baggage.is_empty() => Some(format!("iii.function.id={function_id},{baggage}")),
        (None, None) => None,
        _ => Some(format!("iii.function.id={function_id}")),
    }
}
