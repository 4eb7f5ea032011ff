//! Hooks: programs, addresses and functions of the owner's that are asked or told at eight points of a run.
//!
//! Here is everything about them that can be decided without calling one: which are called where and in which
//! order, what they are told, what their answer means, and what a failure means.

mod entry;
mod judge;
mod set;
mod wire;

#[cfg(test)]
mod tests;

pub use entry::{FailurePolicy, HookCapability, HookEntry, HookMode, HookRuntime, SecretMap};
pub use judge::{Denial, DenialKind, HookFault, Judgement, judge};
pub use set::{HookPoints, HookSet, HookSetError};
pub use wire::{
    HookDecision, HookError, HookInvocation, HookRequest, HookResponse, HookReturn, HookToolCall,
    HookToolResult,
};

use crate::BoxFuture;

/// A hook in the process itself.
pub trait Hook: Send + Sync {
    /// Calls it. Dropping the future must stop the work.
    fn call<'a>(&'a self, invocation: &'a HookInvocation) -> BoxFuture<'a, Result<HookReturn, HookFault>>;
}
