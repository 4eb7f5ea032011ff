//! What some servers offer together: names that are never shared, and which of them are still to come.

use std::collections::HashSet;
use std::sync::Arc;

use meerkat_core::Tool;

use crate::extras;
use crate::names::hashed_name;
use crate::server::{McpTool, ServerState, ServerView, Shared, ToolName};

/// Lists their tools, each under a name of its own.
pub(super) fn tools(servers: &[Arc<Shared>]) -> Vec<Arc<dyn Tool>> {
    let mut taken = HashSet::new();
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    for shared in servers {
        for entry in shared.tools().iter() {
            let mut exposed = entry.exposed.clone();
            if !taken.insert(exposed.clone()) {
                exposed = hashed_name(&shared.config.name, &entry.listed.name);
                if !taken.insert(exposed.clone()) {
                    continue;
                }
            }
            tools.push(Arc::new(McpTool::new(Arc::clone(shared), entry, exposed)));
        }
    }
    tools.extend(extras::tools(servers));
    tools
}

/// Shows them, with their tools under the same names.
pub(super) fn views(servers: &[Arc<Shared>]) -> Vec<ServerView> {
    let mut taken = HashSet::new();
    let mut views = Vec::new();
    for shared in servers {
        let mut view = shared.view();
        for ToolName { tool, exposed } in &mut view.tools {
            if !taken.insert(exposed.clone()) {
                let other = std::mem::replace(exposed, hashed_name(&view.name, tool));
                view.warnings
                    .push(format!("`{tool}` is `{exposed}`, because `{other}` is another server's tool"));
                taken.insert(exposed.clone());
            }
        }
        views.push(view);
    }
    views
}

/// Names those that are still connecting.
pub(super) fn pending(servers: &[Arc<Shared>]) -> Vec<String> {
    let pending = servers.iter().filter(|shared| shared.state() == ServerState::Pending);
    pending.map(|shared| shared.config.name.clone()).collect()
}

/// What the model is told while some are connecting.
pub(super) fn pending_notice(servers: &[Arc<Shared>]) -> Option<String> {
    let pending = pending(servers);
    (!pending.is_empty()).then(|| {
        format!(
            "[MCP_PENDING] Servers connecting: {}. Their tools appear when they are ready.",
            pending.join(", ")
        )
    })
}
