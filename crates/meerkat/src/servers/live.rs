//! Changes to the servers of one session, as callers ask for them.

use meerkat_core::SessionId;
use meerkat_mcp::Change;
use meerkat_mcp::config::{Scope, ServerConfig, TransportConfig};

use super::{McpServers, ProjectTrust};
use crate::{ConfigAccess, Error};

/// What a caller wants changed.
#[derive(Debug, Clone)]
pub(crate) enum LiveChange {
    /// A server comes, for this session; also into the project's file if it is to last.
    Add { server: Box<ServerConfig>, lasting: Lasting },
    /// A server goes.
    Remove { name: String, lasting: Lasting },
    /// A server is connected anew, or all are.
    Reload { name: Option<String> },
}

/// Whether a change is written to the project's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    File,
    Session,
}

impl McpServers {
    /// Notes a change, which takes effect before the session's next step.
    ///
    /// # Errors
    /// Fails when this process has not run the session, or when the change makes no sense; nothing is changed
    /// then.
    pub(crate) fn change(
        &self,
        access: ConfigAccess,
        session: SessionId,
        change: LiveChange,
    ) -> Result<(), Error> {
        let live = self.sessions().get(session).cloned().ok_or(Error::NotLive(session))?;
        let servers = &live.servers;
        let known = |name: &String| {
            let names = servers.names();
            let unknown =
                || Error::UnknownServer { name: name.clone(), known: names.iter().cloned().collect() };
            if names.contains(name) { Ok(()) } else { Err(unknown()) }
        };
        match change {
            LiveChange::Add { lasting: Lasting::File, .. }
            | LiveChange::Remove { lasting: Lasting::File, .. }
                if access == ConfigAccess::Anonymous =>
            {
                let what = "changing the project's `.rkat/mcp.toml`".to_owned();
                return Err(Error::TokenNeeded { what, instead: "omit `persisted`" });
            }
            LiveChange::Add { server, lasting } => {
                let ready = self.checked(access, &server)?;
                match self.keep(&server, lasting)? {
                    // It comes with the file, for every session.
                    ProjectTrust::Trusted => servers.stage_shared(server.name.clone()),
                    _ => servers.stage(Change::Add(Box::new(ready))),
                }
            }
            LiveChange::Remove { name, lasting } => {
                known(&name)?;
                if lasting == Lasting::File && !self.options.files.remove(Scope::Project, &name)? {
                    let file = self.options.files.label(Scope::Project)?;
                    return Err(Error::NotInFile { name, file });
                }
                servers.stage(Change::Remove(name));
            }
            LiveChange::Reload { name } => {
                name.as_ref().map_or(Ok(()), known)?;
                servers.stage(Change::Reload(name));
            }
        }
        Ok(())
    }

    /// Checks an entry that came from a caller, and replaces its variables.
    fn checked(&self, access: ConfigAccess, server: &ServerConfig) -> Result<ServerConfig, Error> {
        let is_command = matches!(server.transport, TransportConfig::Stdio { .. });
        if is_command && access == ConfigAccess::Anonymous {
            let what = format!("starting the command of the MCP server `{}`", server.name);
            return Err(Error::TokenNeeded { what, instead: "add the server with `rkat mcp add`" });
        }
        // A client names any URL, so a variable would carry the owner's key there.
        if let Some(field) = server.endpoint_variable().filter(|_| access != ConfigAccess::Owner) {
            return Err(Error::Arguments(format!(
                "server_config.`{field}`: cannot use an environment variable here; write the value, or add the server \
                 with `rkat mcp add`"
            )));
        }
        let lookup = |name: &str| self.options.variables.as_ref().and_then(|variables| variables(name));
        server.expanded(&lookup).map_err(|error| Error::Arguments(format!("server_config.{error}")))
    }

    /// Writes an entry to the project's file if it is to last, and says whether it starts from there.
    fn keep(&self, server: &ServerConfig, lasting: Lasting) -> Result<ProjectTrust, Error> {
        match lasting {
            Lasting::Session => Ok(ProjectTrust::NoFile),
            Lasting::File => Ok(self.options.files.add(Scope::Project, server)?),
        }
    }
}
