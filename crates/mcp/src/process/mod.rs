//! Servers that are programs: started in a process group of their own, watched, and ended with everything they
//! started.
//!
//! A program that can start itself again gives the path of its executable as [`Launcher::supervisor`] and calls
//! [`supervise`] first thing in `main`. Then a small process stands between it and each server: it outlives a
//! host that is killed without warning, adopts what the server leaves behind, and ends all of it. Without a
//! supervisor a server still has its group, which is ended when the connection is dropped.

mod child;
mod lines;
mod ring;
mod spawn;

pub(crate) use child::StdioChild;
pub(crate) use ring::{ProcessLog, StrayOutput};
pub use spawn::{Launcher, SpawnError};
