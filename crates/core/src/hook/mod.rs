//! Hooks: the owner's commands, URLs, and functions, called at eight points of a run.
//!
//! This module has everything that can be decided without calling a hook: which hooks are called where and in which
//! order, their input, and the effect of their output or failure.

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

/// A hook in the current process.
pub trait Hook: Send + Sync {
    /// Calls the hook. Dropping the future must stop the work.
    fn call<'a>(&'a self, invocation: &'a HookInvocation) -> BoxFuture<'a, Result<HookReturn, HookFault>>;
}
