//! Which servers of the files are wanted now, given which were before.

use std::time::SystemTime;

use meerkat_mcp::config::{LoadedServers, Scope, ServerConfig, ServerFile, SourcedServer, load_servers};

use meerkat_mcp::RequiredError;

use super::files::{ProjectTrust, ServerFiles, ServerFilesError};

/// What the files said when they were last looked at.
#[derive(Default)]
pub(super) struct Seen {
    stamps: Option<Stamps>,
    /// The entries in use, as they are written.
    entries: Vec<SourcedServer>,
    /// The first entry that no run may start without and that cannot be used, and why.
    unusable: Option<(String, String)>,
}

type Stamps = [Option<(SystemTime, u64)>; 3];
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;
type Tell<'a> = &'a dyn Fn(&str);

impl Seen {
    pub(super) fn is_current(&self, stamps: &Stamps) -> bool {
        self.stamps.as_ref() == Some(stamps)
    }

    /// Looks at the files and returns the servers to have; `None` when they cannot be read, so that nothing
    /// that runs is lost.
    pub(super) fn look(
        &mut self,
        files: &ServerFiles,
        stamps: Stamps,
        lookup: Lookup<'_>,
        tell: Tell<'_>,
    ) -> Option<Vec<ServerConfig>> {
        self.stamps = Some(stamps);
        match self.entries(files, tell) {
            Ok(entries) => self.entries = entries,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                tell(&format!("warning: {error}{}", cause.unwrap_or_default()));
                return None;
            }
        }
        let mut usable = Vec::with_capacity(self.entries.len());
        self.unusable = None;
        for entry in &self.entries {
            match entry.expanded(lookup) {
                Ok(server) => usable.push(server),
                Err(problem) => {
                    tell(&format!("warning: {problem}"));
                    if entry.config.required && entry.config.enabled && self.unusable.is_none() {
                        self.unusable = Some((entry.config.name.clone(), problem.to_string()));
                    }
                }
            }
        }
        Some(usable)
    }

    /// Says where the entry of a server is.
    pub(super) fn place(&self, name: &str) -> Option<String> {
        let entry = self.entries.iter().find(|entry| entry.config.name == name)?;
        Some(format!("{}:{}", entry.file, entry.line))
    }

    /// Names a server that no run may start without and whose entry cannot be used.
    pub(super) fn unusable(&self) -> Option<RequiredError> {
        let (server, reason) = self.unusable.clone()?;
        Some(RequiredError { server, reason })
    }

    fn entries(&self, files: &ServerFiles, tell: Tell<'_>) -> Result<Vec<SourcedServer>, ServerFilesError> {
        let mut entries = match files.read(Scope::Project)? {
            Some(file) => self.project_entries(files, file, tell)?,
            None => Vec::new(),
        };
        if let Some(file) = files.read(Scope::User)? {
            let users = self.readable(Scope::User, file, tell);
            let is_new =
                |user: &SourcedServer| !entries.iter().any(|entry| entry.config.name == user.config.name);
            let more: Vec<_> = users.into_iter().filter(is_new).collect();
            entries.extend(more);
        }
        Ok(entries)
    }

    /// Of a file that is not trusted, what was trusted before and is still there stays.
    fn project_entries(
        &self,
        files: &ServerFiles,
        file: ServerFile,
        tell: Tell<'_>,
    ) -> Result<Vec<SourcedServer>, ServerFilesError> {
        if files.trust_of(&file.text)? == ProjectTrust::Trusted {
            return Ok(self.readable(Scope::Project, file, tell));
        }
        tell(&format!(
            "notice: {} is not trusted, so its MCP servers are not started; look at it, then `rkat trust`",
            file.label
        ));
        let before = |entry: &SourcedServer| {
            self.entries.iter().any(|old| old.scope == Scope::Project && old.config == entry.config)
        };
        Ok(load_servers(&[file]).servers.into_iter().filter(before).collect())
    }

    /// Reads a file; one that does not parse, because it is being written, changes nothing.
    fn readable(&self, scope: Scope, file: ServerFile, tell: Tell<'_>) -> Vec<SourcedServer> {
        let LoadedServers { servers, problems, .. } = load_servers(&[file]);
        for problem in &problems {
            tell(&format!("warning: {problem}"));
        }
        if problems.iter().any(|problem| problem.server.is_none() && problem.field.is_none()) {
            return self.entries.iter().filter(|entry| entry.scope == scope).cloned().collect();
        }
        servers
    }
}
