//! Encoding and decoding of iii protocol messages.
//!
//! Payloads are passed through unchanged: a worker's JSON is never reserialized, unless the caller's id has to be
//! inserted.

mod inbound;
mod object;
mod observe;

pub(crate) use inbound::{
    Action, DecodeError, Inbound, Invoke, Outcome, RegisterFunction, RegisterTrigger, RegisterTriggerType,
    Trace, decode, holds_telemetry,
};
pub(crate) use object::{CALLER, Object, with_caller};
pub(crate) use observe::{Observe, Source};
