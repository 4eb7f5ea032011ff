//! The servers that the config files currently ask for, given the previous state of the files.

use std::time::SystemTime;

use meerkat_mcp::config::{LoadedServers, Scope, ServerConfig, ServerFile, SourcedServer, load_servers};

use meerkat_mcp::RequiredError;

use super::files::{ProjectTrust, ServerFiles, ServerFilesError};

/// State of the files at the last check.
#[derive(Default)]
pub(super) struct FileState {
    stamps: Option<Stamps>,
    /// The entries in use, before expansion.
    entries: Vec<SourcedServer>,
    /// The first required entry that cannot be used, and the reason.
    unusable: Option<(String, String)>,
}

type Stamps = [Option<(SystemTime, u64)>; 3];
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;
type Report<'a> = &'a dyn Fn(&str);

impl FileState {
    pub(super) fn is_current(&self, stamps: &Stamps) -> bool {
        self.stamps.as_ref() == Some(stamps)
    }

    /// Reads the files and returns the desired servers, or `None` if the files cannot be read, so that running servers
    /// are kept.
    pub(super) fn reload(
        &mut self,
        files: &ServerFiles,
        stamps: Stamps,
        lookup: Lookup<'_>,
        report: Report<'_>,
    ) -> Option<Vec<ServerConfig>> {
        self.stamps = Some(stamps);
        match self.entries(files, report) {
            Ok(entries) => self.entries = entries,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                report(&format!("warning: {error}{}", cause.unwrap_or_default()));
                return None;
            }
        }
        let mut usable = Vec::with_capacity(self.entries.len());
        self.unusable = None;
        for entry in &self.entries {
            match entry.expanded(lookup) {
                Ok(server) => usable.push(server),
                Err(problem) => {
                    report(&format!("warning: {problem}"));
                    if entry.config.required && entry.config.enabled && self.unusable.is_none() {
                        self.unusable = Some((entry.config.name.clone(), problem.to_string()));
                    }
                }
            }
        }
        Some(usable)
    }

    /// Returns the location of a server's entry, as `file:line`.
    pub(super) fn entry_location(&self, name: &str) -> Option<String> {
        let entry = self.entries.iter().find(|entry| entry.config.name == name)?;
        Some(format!("{}:{}", entry.file, entry.line))
    }

    /// Returns the error for a required server whose entry cannot be used.
    pub(super) fn unusable(&self) -> Option<RequiredError> {
        let (server, reason) = self.unusable.clone()?;
        Some(RequiredError { server, reason })
    }

    fn entries(
        &self,
        files: &ServerFiles,
        report: Report<'_>,
    ) -> Result<Vec<SourcedServer>, ServerFilesError> {
        let mut entries = match files.read(Scope::Project)? {
            Some(file) => self.project_entries(files, file, report)?,
            None => Vec::new(),
        };
        if let Some(file) = files.read(Scope::User)? {
            let user_entries = self.readable(Scope::User, file, report);
            let is_new =
                |user: &SourcedServer| !entries.iter().any(|entry| entry.config.name == user.config.name);
            let more: Vec<_> = user_entries.into_iter().filter(is_new).collect();
            entries.extend(more);
        }
        Ok(entries)
    }

    /// Reads the project's entries. For an untrusted file, keeps only previously trusted entries that are unchanged.
    fn project_entries(
        &self,
        files: &ServerFiles,
        file: ServerFile,
        report: Report<'_>,
    ) -> Result<Vec<SourcedServer>, ServerFilesError> {
        if files.trust_of(&file.text)? == ProjectTrust::Trusted {
            return Ok(self.readable(Scope::Project, file, report));
        }
        report(&format!(
            "notice: ignoring MCP servers in {}: not trusted; review it, then run `rkat trust`",
            file.label
        ));
        let was_trusted = |entry: &SourcedServer| {
            self.entries.iter().any(|old| old.scope == Scope::Project && old.config == entry.config)
        };
        Ok(load_servers(&[file]).servers.into_iter().filter(was_trusted).collect())
    }

    /// Reads a file. If it does not parse, perhaps because it is being written, the previous entries are kept.
    fn readable(&self, scope: Scope, file: ServerFile, report: Report<'_>) -> Vec<SourcedServer> {
        let LoadedServers { servers, problems, .. } = load_servers(&[file]);
        for problem in &problems {
            report(&format!("warning: {problem}"));
        }
        if problems.iter().any(|problem| problem.server.is_none() && problem.field.is_none()) {
            return self.entries.iter().filter(|entry| entry.scope == scope).cloned().collect();
        }
        servers
    }
}
