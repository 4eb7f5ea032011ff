//! The messages of the iii protocol as text: how one is read and how one is written.
//!
//! Payloads are passed through as they came: what a worker wrote is never parsed and printed again, except
//! where the caller's id has to be put into it.

mod inbound;
mod object;
mod observe;

pub(crate) use inbound::{
    Action, Formats, Inbound, Invoke, NotUnderstood, Outcome, RegisterFunction, RegisterTrigger, Trace,
    decode, holds_telemetry,
};
pub(crate) use object::{CALLER, Object, with_caller};
pub(crate) use observe::{Observe, Source};
