//! A server of the iii protocol.
//!
//! Workers in any language connect over WebSocket with the published iii SDKs, offer functions and trigger
//! types, and call each other's. What this process offers is on the hub beside them. Decisions are in one
//! place without sockets; around it, one task for each connection reads and writes.
//!
//! Of a function id, the newest registration has the calls, and the one before it is back when that goes.
//! What this process offers cannot be taken, nor can a connection under access rules take what another one has. Functions behind a URL are listed but not called: whoever could
//! register one could reach what only this machine reaches.

mod access;
mod callbacks;
mod channels;
mod client;
mod core;
mod error;
mod guarded;
mod hub;
mod limits;
mod local;
mod queue;
mod run;
mod socket;
mod state;
mod wire;

pub use access::{Access, Expose, Rbac, bind};
pub use client::{Client, ClientOptions};
pub use error::{CallError, HubError};
pub use guarded::Guarded;
pub use hub::{Hub, HubOptions};
pub use limits::Limits;
pub use local::{BoxFuture, FunctionInfo, Handler, Invocation, LocalFunction, LocalTriggerType, TriggerHost};

/// Where a hub listens unless told otherwise, and where SDKs look for one.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:49134";
