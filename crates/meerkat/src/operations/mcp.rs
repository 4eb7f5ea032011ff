//! `meerkat_mcp_add`, `meerkat_mcp_remove`, and `meerkat_mcp_reload`: changes to a session's MCP servers.

use meerkat_contracts::{
    McpAddRequest, McpOperation, McpReloadRequest, McpRemoveRequest, McpReply, McpStatus,
};
use meerkat_core::SessionId;
use meerkat_mcp::config::ServerConfig;

use super::{Call, Impact, Operation};
use crate::Error;
use crate::records::RecordError;
use crate::tools::{Persistence, SessionServerChange};

/// `meerkat_mcp_add`.
pub struct McpAdd;
/// `meerkat_mcp_remove`.
pub struct McpRemove;
/// `meerkat_mcp_reload`.
pub struct McpReload;

impl Operation for McpAdd {
    const NAME: &'static str = "meerkat_mcp_add";
    const TITLE: &'static str = "Add an MCP server";
    const DOC: &'static str = "Add an MCP server to a session: a command (command, args, env) or a URL (url, headers). \
        It connects before the next step; tool_config_changed events report the outcome. Affects only this session \
        unless persisted also writes it to the project's .rkat/mcp.toml. This process must have run the session.";
    const IMPACT: Impact = Impact::Creates;
    const CHECKS_BOUNDS: bool = true;
    type Input = McpAddRequest;
    type Output = McpReply;

    async fn call(call: Call, input: McpAddRequest) -> Result<McpReply, Error> {
        let entry = serde_json::to_value(&input.server_config).map_err(RecordError::Encode)?;
        let server = ServerConfig::from_json(&entry)
            .map_err(|error| Error::arguments(error.within("server_config").to_string()))?;
        let (persistence, name) = (persistence(input.persisted), server.name.clone());
        let change = SessionServerChange::Add { server: Box::new(server), persistence };
        let session = stage(&call, input.session_id, change).await?;
        Ok(reply(session, McpOperation::Add, Some(name), persistence))
    }
}

impl Operation for McpRemove {
    const NAME: &'static str = "meerkat_mcp_remove";
    const TITLE: &'static str = "Remove an MCP server";
    const DOC: &'static str = "Remove an MCP server from a session before its next step; calls in progress may finish. \
        Other sessions keep it unless persisted also removes it from the project's .rkat/mcp.toml. This process must \
        have run the session.";
    const IMPACT: Impact = Impact::Destructive;
    type Input = McpRemoveRequest;
    type Output = McpReply;

    async fn call(call: Call, input: McpRemoveRequest) -> Result<McpReply, Error> {
        let name = input.server_name;
        let persistence = persistence(input.persisted);
        let change = SessionServerChange::Remove { name: name.clone(), persistence };
        let session = stage(&call, input.session_id, change).await?;
        Ok(reply(session, McpOperation::Remove, Some(name), persistence))
    }
}

impl Operation for McpReload {
    const NAME: &'static str = "meerkat_mcp_reload";
    const TITLE: &'static str = "Reconnect MCP servers";
    const DOC: &'static str = "Reconnect one of a session's MCP servers, or all of them, before its next step: after a \
        login, or when a server hangs. This process must have run the session.";
    const IMPACT: Impact = Impact::Idempotent;
    type Input = McpReloadRequest;
    type Output = McpReply;

    async fn call(call: Call, input: McpReloadRequest) -> Result<McpReply, Error> {
        let name = input.server_name;
        let change = SessionServerChange::Reload { name: name.clone() };
        let session = stage(&call, input.session_id, change).await?;
        Ok(reply(session, McpOperation::Reload, name, Persistence::Session))
    }
}

fn persistence(persisted: Option<bool>) -> Persistence {
    if persisted.unwrap_or_default() { Persistence::File } else { Persistence::Session }
}

async fn stage(call: &Call, session: SessionId, change: SessionServerChange) -> Result<SessionId, Error> {
    if call.runtime.sessions().read(session).await?.is_archived {
        return Err(meerkat_store::Error::Archived(session).into());
    }
    call.runtime.servers().change(call.runtime.config_access(), session, change)?;
    Ok(session)
}

fn reply(
    session_id: SessionId,
    operation: McpOperation,
    server_name: Option<String>,
    persistence: Persistence,
) -> McpReply {
    let persisted = persistence == Persistence::File;
    McpReply { session_id, operation, server_name, status: McpStatus::Staged, persisted }
}
