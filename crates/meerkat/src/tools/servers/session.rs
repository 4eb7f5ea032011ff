//! Changes to the servers of one session, requested by callers.

use meerkat_core::SessionId;
use meerkat_mcp::ServerChange;
use meerkat_mcp::config::{FieldError, Scope, ServerConfig, TransportConfig};

use super::super::ToolsError;
use super::{McpServers, ProjectTrust};
use crate::config::ConfigAccess;
use crate::request_error::RequestError;

/// A requested change to a session's servers.
#[derive(Debug, Clone)]
pub(crate) enum SessionServerChange {
    /// Adds a server to the session, and to the project's file if persisted.
    Add { server: Box<ServerConfig>, persistence: Persistence },
    /// Removes a server.
    Remove { name: String, persistence: Persistence },
    /// Reconnects one server, or all of them.
    Reload { name: Option<String> },
}

/// Whether a change is written to the project's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    File,
    Session,
}

impl McpServers {
    /// Stages a change, which takes effect before the session's next step.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if this process has not run the session or the change is invalid.
    pub(crate) fn change(
        &self,
        access: ConfigAccess,
        session: SessionId,
        change: SessionServerChange,
    ) -> Result<(), ToolsError> {
        let live = self.sessions().get(session).cloned().ok_or(ToolsError::SessionNotLoaded(session))?;
        let servers = &live.servers;
        let check_known = |name: &String| {
            let names = servers.names();
            let unknown =
                || ToolsError::UnknownServer { name: name.clone(), known: names.iter().cloned().collect() };
            if names.contains(name) { Ok(()) } else { Err(unknown()) }
        };
        match change {
            SessionServerChange::Add { persistence: Persistence::File, .. }
            | SessionServerChange::Remove { persistence: Persistence::File, .. }
                if access == ConfigAccess::Anonymous =>
            {
                let what = "changing the project's `.rkat/mcp.toml`".to_owned();
                return Err(RequestError::TokenNeeded { what, instead: "omit `persisted`" }.into());
            }
            SessionServerChange::Add { server, persistence } => {
                let expanded = self.validate(access, &server)?;
                match self.persist(&server, persistence)? {
                    // The file adds it for every session.
                    ProjectTrust::Trusted => servers.stage_shared(server.name.clone()),
                    _ => servers.stage(ServerChange::Add(Box::new(expanded))),
                }
            }
            SessionServerChange::Remove { name, persistence } => {
                check_known(&name)?;
                if persistence == Persistence::File && !self.options.files.remove(Scope::Project, &name)? {
                    let file = self.options.files.label(Scope::Project)?;
                    return Err(ToolsError::NotInFile { name, file });
                }
                servers.stage(ServerChange::Remove(name));
            }
            SessionServerChange::Reload { name } => {
                name.as_ref().map_or(Ok(()), check_known)?;
                servers.stage(ServerChange::Reload(name));
            }
        }
        Ok(())
    }

    /// Validates an entry from a caller and expands its variables.
    fn validate(&self, access: ConfigAccess, server: &ServerConfig) -> Result<ServerConfig, ToolsError> {
        let is_command = matches!(server.transport, TransportConfig::Stdio { .. });
        if is_command && access == ConfigAccess::Anonymous {
            let what = format!("starting the command of the MCP server `{}`", server.name);
            return Err(
                RequestError::TokenNeeded { what, instead: "add the server with `rkat mcp add`" }.into()
            );
        }
        // A client can name any URL, so a variable would send the owner's key there.
        if let Some(field) = server.endpoint_variable().filter(|_| access != ConfigAccess::Owner) {
            let message = format!(
                "`server_config.{field}`: cannot use an environment variable here; write the value, or add the server \
                 with `rkat mcp add`"
            );
            return Err(RequestError::Arguments(message).into());
        }
        let lookup = |name: &str| self.options.variables.as_ref().and_then(|variables| variables(name));
        let invalid = |error: FieldError| RequestError::Arguments(error.within("server_config").to_string());
        Ok(server.expanded(&lookup).map_err(invalid)?)
    }

    /// Writes an entry to the project's file if it is to be persisted; returns the trust in that file.
    fn persist(&self, server: &ServerConfig, persistence: Persistence) -> Result<ProjectTrust, ToolsError> {
        match persistence {
            Persistence::Session => Ok(ProjectTrust::NoFile),
            Persistence::File => Ok(self.options.files.add(Scope::Project, server)?),
        }
    }
}
