//! A server of the iii protocol.
//!
//! Workers in any language connect over WebSocket with the published iii SDKs, register functions and trigger
//! types, and call each other's functions. Functions of this process are registered on the same hub. Decisions are made
//! in one place without sockets; around it, one task per connection reads and writes.
//!
//! If a function id is registered several times, the newest registration receives the calls; when it is removed, the
//! previous one becomes active again. Ids of this process cannot be taken over, and a connection under access rules
//! cannot take over ids of other connections. Functions behind a URL are listed but not called: otherwise, anyone who
//! can register one could reach services that only this machine can reach.

mod access;
mod callbacks;
mod channels;
mod client;
mod core;
mod delivery;
mod error;
mod guarded;
mod hub;
mod limits;
mod local;
mod outbox;
mod queue;
mod run;
mod socket;
mod state;
mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use crate::core::{Expose, Rbac};
pub use access::{Access, bind};
pub use client::{Client, ClientOptions};
pub use error::{CallError, HubError};
pub use guarded::Guarded;
pub use hub::{Hub, HubOptions};
pub use limits::Limits;
pub use local::{BoxFuture, FunctionInfo, Handler, Invocation, LocalFunction, LocalTriggerType, TriggerHost};
pub use state::{StateError, StateReply, StateStore};

/// Default listening address of a hub, which SDKs also connect to by default.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:49134";

/// Locks a mutex. Its value is valid even if a thread panicked while holding the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
