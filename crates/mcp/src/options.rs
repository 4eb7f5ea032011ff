//! Options for running servers.

use std::sync::Arc;

use meerkat_core::Redactor;

use crate::auth::TokenStore;
use crate::client_features::ClientFeatures;
use crate::era::HandshakeMemory;
use crate::process::Launcher;

/// Sink for notices to the user, one line at a time.
pub type NoticeSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Options for running servers.
#[derive(Clone, Default)]
pub struct ServerSetOptions {
    /// Launcher for commands.
    pub launcher: Launcher,
    /// Handler for requests of servers.
    pub host: Option<Arc<dyn ClientFeatures>>,
    /// Storage of the user's tokens.
    pub tokens: Option<Arc<dyn TokenStore>>,
    /// Storage for the commands that never respond to `server/discover`.
    pub handshakes: Option<Arc<dyn HandshakeMemory>>,
    /// Sink for notices about slow servers.
    pub notify: Option<NoticeSink>,
    /// Redactor that learns the secrets passed to servers, and removes them from output and errors.
    pub redactor: Redactor,
}
