//! Servers that run as child processes: started in a separate process group, supervised, and stopped with all their
//! child processes.
//!
//! An application that can start itself again sets the path of its executable as [`Launcher::supervisor`] and calls
//! [`supervise`](crate::supervise) first in `main`. Then a small supervisor process runs between it and each server: it
//! outlives a host that is killed, adopts the server's orphaned processes, and stops them all. Without a supervisor, a
//! server still has a process group, which is killed when the connection is dropped.

mod child;
mod lines;
mod log;
mod spawn;

pub(crate) use child::StdioChild;
pub(crate) use log::{ProcessLog, StrayOutput};
pub use spawn::{Launcher, SpawnError};
