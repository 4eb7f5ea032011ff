//! Log of a server.

use std::sync::Arc;

/// Receiver of the server's log lines.
pub(crate) type Log = Arc<dyn Fn(&str) + Send + Sync>;
