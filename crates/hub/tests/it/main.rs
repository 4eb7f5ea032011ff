//! The hub's integration tests: real sockets, one binary, one module per subject.

#[cfg(test)]
mod access;
#[cfg(test)]
mod channels;
#[cfg(test)]
mod durable;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod handlers;
#[cfg(test)]
mod many;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod store;
#[cfg(test)]
mod support;
