//! The server side of MCP, apart from what is served.
//!
//! A [`Service`] says what there is: tools, resources, prompts. The [`Layer`] makes an MCP server of it and owns
//! everything the protocol asks for besides: both eras on one connection, paging, cache hints, subscriptions in
//! both dialects, log levels, progress, tasks and sealed request state. The product and the server that the
//! conformance suite is run against stand on the same layer.

pub(crate) mod batch;
mod connection;
mod in_flight;
mod lists;
mod notices;
mod progress;
mod request;
mod service;
mod state;
mod subscriptions;
mod tasks;

pub use connection::Connection;
pub(crate) use in_flight::InFlight;
pub use lists::Page;
pub use notices::{Notice, Notices};
pub use progress::{Progress, Ticker};
pub use request::{Era, Request};
pub use service::{About, Extensions, Prompts, Resources, Service, Tools};
pub use tasks::{TaskEnd, TaskWork, Tasks};

use std::sync::Arc;

use state::Seal;

/// Makes an MCP server of a service. Every client gets a [`Connection`] of its own.
pub struct Layer<S>(Arc<Shared<S>>);

pub(crate) struct Shared<S> {
    service: S,
    notices: Notices,
    tasks: Tasks,
    seal: Seal,
}

impl<S> Clone for Layer<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Service> Layer<S> {
    /// Makes a layer; changes that the service tells to `notices` reach every client that wants them.
    pub fn new(service: S, notices: Notices) -> Self {
        Self(Arc::new(Shared { service, notices, tasks: Tasks::default(), seal: Seal::new() }))
    }

    /// Returns what is served.
    #[must_use]
    pub fn service(&self) -> &S {
        &self.0.service
    }

    /// Makes the handler of one client: one process on stdio, one session or one stateless request on HTTP.
    #[must_use]
    pub fn connect(&self) -> Connection<S> {
        Connection::new(Arc::clone(&self.0))
    }
}
