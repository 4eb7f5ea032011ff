//! Server side of MCP, independent of the content served.
//!
//! A [`Service`] provides tools, resources, and prompts. The [`Protocol`] turns it into an MCP server and handles the
//! rest of the protocol: both eras on one connection, pagination, cache hints, subscriptions in both dialects, log
//! levels, progress, tasks, and sealed request state. The product and the conformance suite's server share it.

pub(crate) mod batch;
mod connection;
mod in_flight;
mod invalid;
mod lists;
mod notifier;
mod progress;
mod request;
mod service;
mod state;
mod subscriptions;
mod tasks;

pub use connection::Connection;
pub(crate) use in_flight::InFlight;
pub(crate) use invalid::{IdScanner, InvalidMessage, not_json};
pub use lists::Page;
pub(crate) use lists::unknown_cursor;
pub use notifier::{ChangeNotification, Notifier};
pub use progress::{Progress, Ticker};
pub use request::{Era, Request};
pub use service::{Extensions, Prompts, Resources, ServerInfo, Service, Tools};
pub use tasks::{TaskError, TaskWork, Tasks};

use std::sync::Arc;

use state::Seal;

/// An MCP server built from a service. Every client gets its own [`Connection`].
pub struct Protocol<S>(Arc<Shared<S>>);

pub(crate) struct Shared<S> {
    service: S,
    notices: Notifier,
    tasks: Tasks,
    seal: Seal,
}

impl<S> Clone for Protocol<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Service> Protocol<S> {
    /// Creates a server; changes that the service publishes to `notices` reach every interested client.
    pub fn new(service: S, notices: Notifier) -> Self {
        Self(Arc::new(Shared { service, notices, tasks: Tasks::default(), seal: Seal::new() }))
    }

    /// Returns the service.
    #[must_use]
    pub fn service(&self) -> &S {
        &self.0.service
    }

    /// Creates the handler of one client: a process on stdio, or a session or stateless request over HTTP.
    #[must_use]
    pub fn connect(&self) -> Connection<S> {
        Connection::new(Arc::clone(&self.0))
    }
}
