//! Hooks from files: the user's `~/.rkat/config.toml`, then those of the enclosing projects, the outermost first, and
//! of the project. They come before those of the realm's config.
//!
//! A project's file is ignored until the user trusts its current content. An invalid file prevents runs from starting,
//! because its guardrails would otherwise be missing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use meerkat_core::{HookEntry, HookSet, at_path, plain_error};
use serde::Deserialize;
use toml::de::{DeString, DeTable, DeValue};

use crate::project::{is_same_path, resolve_symlinks};
use crate::tools::{NoticeSink, ServerFiles, ServerFilesError};

/// Locations of hooks outside of the realm's config.
#[derive(Default)]
pub struct HookFiles {
    user: Option<PathBuf>,
    project: Option<PathBuf>,
    home: Option<PathBuf>,
    trust: ServerFiles,
    notify: Option<NoticeSink>,
    notified: Mutex<BTreeSet<String>>,
    /// The files that were read last, with their text.
    parsed: Mutex<BTreeMap<PathBuf, (String, Arc<LoadedHooks>)>>,
}

/// Content of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedHooks {
    /// The hooks, the user's first.
    pub entries: Vec<HookEntry>,
    /// Notices for the user about the files.
    pub notices: Vec<String>,
}

/// Error loading the files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookFilesError {
    /// A file could not be read.
    #[error("{} cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is invalid.
    #[error("{}:{line}: {field}{message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The field followed by a colon, or empty.
        field: String,
        /// Description of the error.
        message: String,
    },
    /// The trust store cannot be used.
    #[error(transparent)]
    Trust(#[from] ServerFilesError),
}

impl HookFiles {
    /// Creates the list of files: `.rkat/config.toml` of the user's directory, of the project's root, and of every
    /// directory above that root.
    #[must_use]
    pub fn for_dirs(project: Option<&Path>, home: Option<&Path>) -> Self {
        Self {
            user: home.map(file_in),
            project: project.map(|project| {
                resolve_symlinks(&std::path::absolute(project).unwrap_or_else(|_| project.to_owned()))
            }),
            trust: ServerFiles::for_dirs(project, home),
            ..Self::default()
        }
    }

    /// Limits the search for enclosing projects to directories below this one. Needed if the user's directory is not
    /// the home directory, whose file does not belong to a project.
    #[must_use]
    pub fn below(mut self, home: Option<&Path>) -> Self {
        self.home = home.map(resolve_symlinks);
        self
    }

    /// Sets the sink for notices; each notice is sent once.
    #[must_use]
    pub fn with_notices(mut self, notify: NoticeSink) -> Self {
        self.notify = Some(notify);
        self
    }

    /// Returns the project's file, if it exists.
    #[must_use]
    pub fn project_file(&self) -> Option<PathBuf> {
        self.project_file_in(self.project.as_deref()?)
    }

    /// Returns the file of a directory, if it exists and is not the user's.
    fn project_file_in(&self, dir: &Path) -> Option<PathBuf> {
        let path = std::path::absolute(file_in(dir)).ok()?;
        let is_users = self.user.as_deref().is_some_and(|user| is_same_path(user, &path));
        (path.is_file() && !is_users).then_some(path)
    }

    /// Returns the files of the enclosing projects, the outermost first.
    fn enclosing_files(&self) -> Vec<PathBuf> {
        let is_above_home = |dir: &&Path| self.home.as_ref().is_some_and(|home| home.starts_with(dir));
        let dirs = self.project.iter().flat_map(|project| project.ancestors().skip(1));
        let mut files: Vec<_> =
            dirs.filter(|dir| !is_above_home(dir)).filter_map(|dir| self.project_file_in(dir)).collect();
        files.reverse();
        files
    }

    /// Trusts the current content of the project's file; returns its path, or `None` if there is no file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or the trust store has no location.
    pub fn trust_project(&self) -> Result<Option<String>, HookFilesError> {
        let Some(path) = self.project_file() else { return Ok(None) };
        let text = read(&path)?.unwrap_or_default();
        Ok(Some(self.trust.trust_file(&path, &text)?))
    }

    /// Revokes trust in the project's file, and returns its path if it was trusted.
    ///
    /// # Errors
    /// Returns an error if the trust store cannot be read or written.
    pub fn distrust_project(&self) -> Result<Option<String>, HookFilesError> {
        let Some(path) = self.project_file() else { return Ok(None) };
        Ok(self.trust.distrust_file(&path)?)
    }

    /// Reads the files.
    ///
    /// # Errors
    /// Returns an error if a file that may be used cannot be read or is invalid.
    pub fn load(&self) -> Result<LoadedHooks, HookFilesError> {
        let mut loaded = LoadedHooks::default();
        if let Some(path) = &self.user
            && let Some(text) = read(path)?
        {
            let hooks = self.parse(path, text)?;
            loaded.add(&hooks);
        }
        for path in self.enclosing_files() {
            // `rkat trust` trusts the files of one project, so each file is trusted in its own project.
            let dir = path.ancestors().nth(2).unwrap_or(&path);
            self.load_project(&mut loaded, &path, &format!(" in {}", dir.display()))?;
        }
        if let Some(path) = self.project_file() {
            self.load_project(&mut loaded, &path, "")?;
        }
        Ok(loaded)
    }

    /// Reads a project's file, and adds its hooks if it is trusted. Otherwise adds a notice that ends with `location`,
    /// where the file can be trusted.
    fn load_project(
        &self,
        loaded: &mut LoadedHooks,
        path: &Path,
        location: &str,
    ) -> Result<(), HookFilesError> {
        let Some(text) = read(path)? else { return Ok(()) };
        if self.trust.trusts_file(path, &text)? {
            let hooks = self.parse(path, text)?;
            loaded.add(&hooks);
            return Ok(());
        }
        loaded.notices.push(format!(
            "notice: ignoring hooks in {}: not trusted; review it, then run `rkat trust`{location}",
            path.display()
        ));
        Ok(())
    }

    /// Parses a file, unless its text is the same as last time.
    fn parse(&self, path: &Path, text: String) -> Result<Arc<LoadedHooks>, HookFilesError> {
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, hooks)) = parsed.get(path).filter(|(known, _)| *known == text) {
            return Ok(Arc::clone(hooks));
        }
        let hooks = Arc::new(LoadedHooks::parse(path, &text)?);
        parsed.insert(path.to_owned(), (text, Arc::clone(&hooks)));
        Ok(hooks)
    }

    /// Reads the files, and sends each new notice to the sink.
    pub(crate) fn entries(&self) -> Result<Vec<HookEntry>, HookFilesError> {
        let loaded = self.load()?;
        if let Some(notify) = &self.notify {
            let mut notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
            for notice in loaded.notices {
                if notified.insert(notice.clone()) {
                    notify(&notice);
                }
            }
        }
        Ok(loaded.entries)
    }
}

fn file_in(dir: &Path) -> PathBuf {
    dir.join(".rkat/config.toml")
}

fn read(path: &Path) -> Result<Option<String>, HookFilesError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(HookFilesError::Io { path: path.to_owned(), source }),
    }
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    hooks: Section,
}

#[derive(Default, Deserialize)]
struct Section {
    #[serde(default)]
    entries: Vec<HookEntry>,
}

impl LoadedHooks {
    fn add(&mut self, other: &Self) {
        self.entries.extend_from_slice(&other.entries);
        self.notices.extend_from_slice(&other.notices);
    }

    fn parse(path: &Path, text: &str) -> Result<Self, HookFilesError> {
        let content_error =
            |span: Option<Range<usize>>, field: String, message: &str| HookFilesError::Content {
                path: path.to_owned(),
                line: line_of(text, span.map_or(0, |span| span.start)),
                field,
                message: message.trim().to_owned(),
            };
        let syntax_error =
            |error: &toml::de::Error| content_error(error.span(), String::new(), error.message());
        let table = DeTable::parse(text).map_err(|error| syntax_error(&error))?;
        let reader = toml::Deserializer::parse(text).map_err(|error| syntax_error(&error))?;
        let document: Document = serde_path_to_error::deserialize(reader).map_err(|error| {
            let message = at_path(&error.path().to_string(), &plain_error(error.inner().message()));
            content_error(error.inner().span(), String::new(), &message)
        })?;
        let hooks = table.get_ref().get("hooks").and_then(|hooks| hooks.get_ref().as_table());
        let ignored = table.get_ref().keys().filter(|key| key.get_ref() != "hooks").map(|key| ("", key));
        let inner = hooks.into_iter().flat_map(|hooks| hooks.keys()).filter(|key| key.get_ref() != "entries");
        let notice = |(section, key): (&str, &toml::Spanned<DeString<'_>>)| {
            format!(
                "warning: {}:{}: ignoring `{section}{}`: only `hooks.entries` is read from this file; use `rkat \
                 config` instead",
                path.display(),
                line_of(text, key.span().start),
                key.get_ref()
            )
        };
        let notices = ignored.chain(inner.map(|key| ("hooks.", key))).map(notice).collect();
        for (index, entry) in document.hooks.entries.iter().enumerate() {
            let span = hooks.and_then(|hooks| entry_span(hooks, index));
            let field = || format!("`hooks.entries[{index}]`: ");
            HookSet::new(std::slice::from_ref(entry), Vec::new(), &[])
                .map_err(|error| content_error(span, field(), &error.to_string()))?;
        }
        Ok(Self { entries: document.hooks.entries, notices })
    }
}

fn entry_span(hooks: &DeTable<'_>, index: usize) -> Option<Range<usize>> {
    let DeValue::Array(entries) = hooks.get("entries")?.get_ref() else { return None };
    entries.get(index).map(toml::Spanned::span)
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests;
