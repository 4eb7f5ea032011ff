//! Hooks: the owner's commands, URLs, and functions, called at eight points of a run.
//!
//! This module has everything that can be decided without calling a hook: which hooks are called where and in which
//! order, their input, and the effect of their output or failure.

mod entry;
mod evaluate;
mod set;
mod wire;

#[cfg(test)]
mod tests;

pub use entry::{FailurePolicy, HookCapability, HookEntry, HookMode, HookRuntime, SecretMap};
pub use evaluate::{Denial, DenialKind, HookFailure, HookVerdict, evaluate_hook};
pub use set::{HookPoints, HookSet, HookSetError};
pub use wire::{
    HookDecision, HookError, HookInvocation, HookOutput, HookRequest, HookResponse, HookToolCall,
    HookToolResult,
};

use crate::BoxFuture;

/// A hook in the current process.
pub trait Hook: Send + Sync {
    /// Calls the hook. Dropping the future must stop the work.
    fn call<'a>(&'a self, invocation: &'a HookInvocation) -> BoxFuture<'a, Result<HookOutput, HookFailure>>;
}
