//! Routing of calls: from a caller to the owner of the function and back.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::builtin::is_answered_here;
use super::calls::{Call, CallKey, Request};
use super::observed::{Activation, FinishedCall, ObservedCall};
use super::observers::TargetCall;
use super::{Caller, Core, Effect, Grant, Peer, Run};
use crate::error::CallError;
use crate::queue::QueuedCall;
use crate::wire::{Action, CALLER, Invoke, Object, Outcome, Trace, with_caller};

/// The function of a worker that provides queues.
pub(crate) const QUEUE_PROVIDER: &str = "engine::queue::enqueue";
/// Maximum number of observers that may lead to a call; a longer chain is treated as a cycle and not reported.
const MAX_DEPTH: u32 = 16;

impl Core {
    pub(super) fn invoke(&mut self, from: Peer, invoke: Invoke<'_>) {
        let caller = match (&invoke.action, &invoke.id) {
            (Action::Void, _) | (_, None) => Caller::NoReply,
            (_, Some((_, text))) => Caller::Worker(from, text.clone().into_owned()),
        };
        let id = invoke.id.as_ref().map(|(id, _)| *id).filter(|_| caller != Caller::NoReply);
        let request = Request {
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
            return self.fail(&request, &error);
        }
        let grant = self.workers.grant(from);
        let middleware = grant.and_then(|grant| Some((grant, grant.rules.middleware_function_id.clone()?)));
        match middleware.filter(|_| !Grant::is_infrastructure(request.function_id)) {
            Some((grant, middleware)) => {
                let action = match &invoke.action {
                    Action::Call => "null".to_owned(),
                    Action::Void => r#"{"type":"void"}"#.to_owned(),
                    Action::Enqueue { queue } => {
                        Object::new().text("type", "enqueue").text("queue", queue).end()
                    }
                };
                let data = Object::new()
                    .text("function_id", request.function_id)
                    .raw("payload", &request.data)
                    .raw("action", &action)
                    .raw("context", &grant.context.to_string())
                    .end();
                self.dispatch(Request { data: Cow::Owned(data), function_id: &middleware, ..request });
            }
            None => match invoke.action {
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
        self.calls.abandon(|caller| *caller == Caller::Local(call));
    }

    /// Returns an error if the caller may not make the call.
    fn check(&self, request: &Request<'_>) -> Result<(), CallError> {
        if let Some(grant) = self.workers.grant(request.from) {
            let metadata =
                self.functions.get(request.function_id).and_then(|(_, spec)| spec.metadata.as_ref());
            if !grant.may_call(request.function_id, metadata) {
                return Err(CallError::forbidden(request.function_id));
            }
        }
        if self.workers.get(request.from).is_some_and(|worker| worker.waiting >= self.limits.calls) {
            return Err(CallError::too_many(self.limits.calls));
        }
        Ok(())
    }

    fn dispatch(&mut self, request: Request<'_>) {
        let function_id = request.function_id;
        match self.functions.get(function_id).map(|(peer, spec)| (peer, spec.remote)) {
            None => self.fail(&request, &CallError::not_found(function_id)),
            Some((_, true)) => self.fail(&request, &CallError::not_invokable(function_id)),
            Some((Peer::HUB, _)) if !is_answered_here(function_id) => self.run_here(request),
            Some((Peer::HUB, _)) => {
                let input = serde_json::from_str(&request.data).unwrap_or_default();
                match self.answer_builtin(request.from, function_id, &input) {
                    Ok(value) => {
                        let result = (!value.is_null()).then(|| value.to_string());
                        self.answer(&request.caller, function_id, &request.trace, Ok(result.as_deref()));
                    }
                    Err(error) => self.fail(&request, &error),
                }
            }
            Some((peer, _)) => self.forward(peer, request),
        }
    }

    fn run_here(&mut self, request: Request<'_>) {
        let id = self.effects.new_id();
        let run = Run {
            id,
            function_id: request.function_id.to_owned(),
            data: request.data.clone().into_owned(),
            caller: self.workers.get(request.from).map(|worker| worker.id),
            guarded: self.workers.grant(request.from).map(|grant| (request.from, grant.clone())),
        };
        self.start((Peer::HUB, id), request);
        self.emit([Effect::Run(run)]);
    }

    fn forward(&mut self, peer: Peer, request: Request<'_>) {
        // The id of the caller is passed through, unless the callee runs another call under it.
        let id = request.id.filter(|id| !self.calls.contains((peer, *id)));
        let id = id.unwrap_or_else(|| self.effects.new_id());
        let Some(callee) = self.workers.get(peer) else { return };
        let prefix = self.workers.grant(peer).and_then(|grant| grant.prefix.as_deref());
        let own_name = prefix.and_then(|prefix| request.function_id.strip_prefix(prefix));
        let data = match self.workers.get(request.from).map(|worker| worker.id) {
            Some(caller) => with_caller(&request.data, caller),
            None => Cow::Borrowed(&*request.data),
        };
        let depth = (request.depth > 0).then(|| request.depth.to_string());
        let message = Object::message("invokefunction")
            .id("invocation_id", id)
            .text("function_id", own_name.unwrap_or(request.function_id))
            .raw("data", &data)
            .maybe_text("traceparent", request.trace.parent.as_deref())
            .maybe_text("baggage", baggage(&request.trace, request.function_id).as_deref())
            .maybe_raw("metadata", request.metadata)
            .maybe_raw("observe_depth", depth.as_deref())
            .maybe_raw("activation", request.activation.as_ref().map(Activation::json).as_deref())
            .end();
        if message.len() > callee.longest {
            let error = CallError::too_large(message.len(), callee.longest);
            return self.fail(&request, &error);
        }
        self.start((peer, id), request);
        self.send(peer, message);
    }

    /// Adds a call to a queue. The caller gets its receipt when the call is stored.
    fn enqueue(&mut self, request: Request<'_>, queue: String) {
        // The call will run on behalf of the hub.
        if !self.may_use(request.from, request.function_id) {
            return self.fail(&request, &CallError::forbidden(request.function_id));
        }
        if !self.is_registered(request.function_id) && !self.claims.is_held(request.function_id) {
            self.reserve(request.function_id);
        }
        let id = self.effects.new_id();
        let function_id = request.function_id.to_owned();
        let mut data: Value = serde_json::from_str(&request.data).unwrap_or_default();
        if let (Some(claimed), Some(worker)) =
            (data.get_mut(CALLER), self.workers.get(request.from).map(|worker| worker.id))
        {
            // The caller is not inserted when the call runs, so the field must not name another worker.
            *claimed = worker.to_string().into();
        }
        let effect = if self.is_registered(QUEUE_PROVIDER) {
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
        self.add_call((Peer::HUB, id), request, None);
        self.emit([effect]);
    }

    /// Adds a routed call, with the data for its observers.
    fn start(&mut self, key: CallKey, request: Request<'_>) {
        let seen = self.observers.is_observed(request.function_id).then(|| {
            Box::new(ObservedCall {
                input: request.data.clone().into_owned(),
                metadata: request.metadata.map(str::to_owned),
                caller: self.workers.get(request.from).map(|worker| worker.id),
                at: self.effects.now(),
                depth: request.depth,
            })
        });
        self.add_call(key, request, seen);
    }

    fn add_call(&mut self, key: CallKey, request: Request<'_>, seen: Option<Box<ObservedCall>>) {
        let Request { caller, function_id, trace, activation, .. } = request;
        self.workers.count_call(caller.peer(), key.0, 1);
        if let Some(activation) = &activation {
            self.observers.count_call(activation, 1);
        }
        let (function_id, deadline) = (function_id.to_owned(), self.effects.now() + self.limits.call_time);
        self.calls.add(key, Call { caller, function_id, trace, deadline, seen, activation });
    }

    /// Ends a call: answers the caller and notifies the observers. A call that has ended before is ignored.
    pub(super) fn end_call(&mut self, key: CallKey, outcome: Outcome<'_>) {
        let Some(call) = self.calls.remove(key) else { return };
        self.workers.count_call(call.caller.peer(), key.0, -1);
        if let Some(activation) = &call.activation {
            self.observers.count_call(activation, -1);
        }
        self.answer(&call.caller, &call.function_id, &call.trace, outcome);
        let Some(seen) = call.seen else { return };
        self.notify_observers(&FinishedCall {
            function_id: &call.function_id,
            id: key.1,
            trace: &call.trace,
            began: self.effects.since_1970(seen.at),
            took: self.effects.now().saturating_sub(seen.at),
            seen: *seen,
            outcome: outcome.map(|result| result.unwrap_or("null")),
        });
    }

    /// Handles the result of a function of this process.
    pub(crate) fn finish(&mut self, id: Uuid, outcome: Result<Option<String>, CallError>) {
        let outcome = outcome.map_err(|error| error.json());
        let outcome = outcome.as_ref().map(Option::as_deref).map_err(String::as_str);
        self.end_call((Peer::HUB, id), outcome);
    }

    /// Ends calls that exceeded their time limit with an error.
    pub(crate) fn expire(&mut self) {
        let error = CallError::timeout(self.limits.call_time).json();
        for key in self.calls.late(self.effects.now()) {
            self.end_call(key, Err(&error));
        }
        let expired = self.observers.expire(self.effects.now());
        self.emit(expired);
    }

    /// Stops the calls that a connection was running; answers to calls that it made are dropped.
    pub(super) fn stop_calls(&mut self, peer: Peer) {
        for key in self.calls.of(peer) {
            self.end_call(key, Err(&CallError::stopped().json()));
        }
        self.calls.abandon(|caller| caller.peer() == Some(peer));
    }

    fn fail(&mut self, request: &Request<'_>, error: &CallError) {
        self.answer(&request.caller, request.function_id, &request.trace, Err(&error.json()));
    }

    fn answer(&mut self, caller: &Caller, function_id: &str, trace: &Trace, outcome: Outcome<'_>) {
        let longest =
            caller.peer().and_then(|peer| self.workers.get(peer)).map_or(usize::MAX, |worker| worker.longest);
        self.emit(caller.answer(function_id, trace, outcome, longest));
    }

    /// Calls the targets of the observers of a finished call.
    fn notify_observers(&mut self, ended: &FinishedCall<'_>) {
        if ended.seen.depth >= MAX_DEPTH {
            return self.note(Peer::HUB, &format!("observers of `{}` call each other", ended.function_id));
        }
        let event = ended.event(&self.workers);
        for id in self.observers.matching(ended, &event) {
            let activation_id = self.effects.new_id();
            match self.observers.fire(&id, activation_id, ended, &event) {
                Some(Ok(call)) => self.call_target(&id, &call, ended.trace),
                Some(Err(text)) => self.note(Peer::HUB, &text),
                None => {}
            }
        }
    }

    fn call_target(&mut self, observer: &str, call: &TargetCall, trace: &Trace) {
        let TargetCall { owner, target, .. } = call;
        if !self.may_use(*owner, target) {
            // The function belongs to another worker now.
            return self.note(*owner, &format!("the observer `{observer}` may not call `{target}`"));
        }
        self.dispatch(Request {
            caller: Caller::NoReply,
            from: Peer::HUB,
            id: None,
            function_id: target,
            data: Cow::Borrowed(&call.data),
            trace: trace.clone(),
            metadata: call.metadata.as_deref(),
            depth: call.activation.depth,
            activation: Some(call.activation.clone()),
        });
        if call.is_last {
            let text = "it was called as often as it wanted to be";
            let disposed = self.observers.dispose(observer, "MAX_FIRES", text);
            self.emit(disposed);
        }
    }
}

/// Returns the baggage for the callee; that of a traced call also names the function.
fn baggage(trace: &Trace, function_id: &str) -> Option<String> {
    match (&trace.baggage, &trace.parent) {
        (Some(baggage), _) if !baggage.is_empty() => Some(format!("iii.function.id={function_id},{baggage}")),
        (None, None) => None,
        _ => Some(format!("iii.function.id={function_id}")),
    }
}
