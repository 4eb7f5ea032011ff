//! Tools and status of a group of servers.

use std::sync::Arc;

use meerkat_core::Tool;

use crate::resource_tools;
use crate::server::{McpTool, ServerView, SharedServer};

/// Maximum number of servers that a notice names.
const MAX_NAMED: usize = 20;

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
    let pending = servers.iter().filter(|shared| shared.is_pending());
    pending.map(|shared| shared.config.name.clone()).collect()
}

/// Returns the notice for the model while servers are connecting.
pub(super) fn pending_notice(servers: &[Arc<SharedServer>]) -> Option<String> {
    let mut pending = pending(servers);
    if pending.is_empty() {
        return None;
    }
    let others = pending.split_off(MAX_NAMED.min(pending.len())).len();
    if others > 0 {
        pending.push(format!("and {others} more"));
    }
    let names = pending.join(", ");
    Some(format!("[MCP_PENDING] Servers connecting: {names}. Their tools appear when they are ready."))
}
