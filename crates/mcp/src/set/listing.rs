//! Tools and status of a group of servers.

use std::sync::Arc;

use meerkat_core::Tool;

use crate::resource_tools;
use crate::server::{McpTool, ServerState, ServerView, SharedServer};

/// Lists the tools of servers.
pub(super) fn tools(servers: &[Arc<SharedServer>]) -> Vec<Arc<dyn Tool>> {
    let of_server = |shared: &Arc<SharedServer>| -> Vec<Arc<dyn Tool>> {
        let tool = |entry| Arc::new(McpTool::new(Arc::clone(shared), entry)) as Arc<dyn Tool>;
        shared.tools().iter().map(tool).collect()
    };
    servers.iter().flat_map(of_server).chain(resource_tools::tools(servers)).collect()
}

/// Returns the status of servers.
pub(super) fn views(servers: &[Arc<SharedServer>]) -> Vec<ServerView> {
    servers.iter().map(|shared| shared.view()).collect()
}

/// Returns the names of servers that are still connecting.
pub(super) fn pending(servers: &[Arc<SharedServer>]) -> Vec<String> {
    let pending = servers.iter().filter(|shared| shared.state() == ServerState::Pending);
    pending.map(|shared| shared.config.name.clone()).collect()
}

/// Returns the notice for the model while servers are connecting.
pub(super) fn pending_notice(servers: &[Arc<SharedServer>]) -> Option<String> {
    let pending = pending(servers);
    (!pending.is_empty()).then(|| {
        format!(
            "[MCP_PENDING] Servers connecting: {}. Their tools appear when they are ready.",
            pending.join(", ")
        )
    })
}
