//! Answers on their way back to a worker or a caller in this process.

use super::{Caller, Core, Effect};
use crate::error::CallError;
use crate::wire::{Object, Trace};

impl Core {
    pub(super) fn succeed(
        &mut self,
        caller: &Caller,
        function_id: &str,
        trace: &Trace,
        result: Option<&str>,
    ) {
        match caller {
            Caller::NoReply => {}
            Caller::Local(call) => {
                let outcome = Ok(result.unwrap_or("null").to_owned());
                self.effects.push(Effect::Answer { call: *call, outcome });
            }
            Caller::Worker(peer, id) => {
                let message = answer(id, function_id, trace).maybe_raw("result", result).end();
                let longest = self.workers.get(peer).map_or(usize::MAX, |worker| worker.longest);
                if message.len() > longest {
                    let error = CallError::too_large(message.len(), longest);
                    return self.fail(caller, function_id, trace, &error);
                }
                self.send(*peer, message);
            }
        }
    }

    pub(super) fn fail(&mut self, caller: &Caller, function_id: &str, trace: &Trace, error: &CallError) {
        match caller {
            Caller::NoReply => {}
            Caller::Local(call) => {
                self.effects.push(Effect::Answer { call: *call, outcome: Err(error.clone()) });
            }
            Caller::Worker(..) => {
                self.answer_error(caller, function_id, trace, &error.json());
            }
        }
    }

    /// Forwards an error as the callee wrote it.
    pub(super) fn answer_error(&mut self, caller: &Caller, function_id: &str, trace: &Trace, error: &str) {
        match caller {
            Caller::NoReply => {}
            Caller::Local(call) => {
                let outcome = Err(CallError::decode(error));
                self.effects.push(Effect::Answer { call: *call, outcome });
            }
            Caller::Worker(peer, id) => {
                let message = answer(id, function_id, trace).raw("error", error).end();
                self.send(*peer, message);
            }
        }
    }
}

fn answer(id: &str, function_id: &str, trace: &Trace) -> Object {
    Object::message("invocationresult")
        .text("invocation_id", id)
        .text("function_id", function_id)
        .maybe_text("traceparent", trace.parent.as_deref())
        .maybe_text("baggage", trace.baggage.as_deref())
}
