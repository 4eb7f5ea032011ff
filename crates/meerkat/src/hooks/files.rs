//! Hooks from files: the user's `~/.rkat/config.toml`, then that of the project, which is looked for from its folder
//! upward. They come before those of the realm's config.
//!
//! Nothing of a project's file is used before the user has trusted the file as it is. A file that makes no sense keeps
//! runs from starting: the guardrails in it would be missing otherwise.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use meerkat_core::{HookEntry, HookSet};
use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use crate::servers::{Notify, ServerFiles, ServerFilesError};

/// Where hooks may be besides the realm's config.
#[derive(Default)]
pub struct HookFiles {
    user: Option<PathBuf>,
    project: Option<PathBuf>,
    trust: ServerFiles,
    notify: Option<Notify>,
    told: Mutex<BTreeSet<String>>,
}

/// What the files say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedHooks {
    /// The hooks, the user's first.
    pub entries: Vec<HookEntry>,
    /// What somebody should know of the files.
    pub notices: Vec<String>,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HookFilesError {
    /// One could not be read.
    #[error("{} cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// One makes no sense.
    #[error("{}:{line}: {field}{message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The field with a colon, if it is one.
        field: String,
        /// What is wrong.
        message: String,
    },
    /// It is not known what is trusted.
    #[error(transparent)]
    Trust(#[from] ServerFilesError),
}

impl HookFiles {
    /// Says where the files are: in `.rkat` of the user's folder, and of the project's or the next above it.
    #[must_use]
    pub fn of(project: Option<&Path>, home: Option<&Path>) -> Self {
        let file = |root: &Path| root.join(".rkat/config.toml");
        Self {
            user: home.map(file),
            project: project.map(Path::to_owned),
            trust: ServerFiles::of(project, home),
            ..Self::default()
        }
    }

    /// Has what somebody should know told, each thing once.
    #[must_use]
    pub fn telling(mut self, notify: Notify) -> Self {
        self.notify = Some(notify);
        self
    }

    /// Returns the project's file, if there is one.
    #[must_use]
    pub fn project_file(&self) -> Option<PathBuf> {
        let folder = std::path::absolute(self.project.as_deref()?).ok()?;
        let same = |one: &Path, other: &Path| match (one.canonicalize(), other.canonicalize()) {
            (Ok(one), Ok(other)) => one == other,
            _ => one == other,
        };
        let is_users = |path: &Path| self.user.as_deref().is_some_and(|user| same(user, path));
        let mut found = folder.ancestors().map(|folder| folder.join(".rkat/config.toml"));
        found.find(|path| path.is_file() && !is_users(path))
    }

    /// Trusts the project's file as it is, and returns its path; `None` if there is none.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or when there is no place to keep trust.
    pub fn trust_project(&self) -> Result<Option<String>, HookFilesError> {
        let Some(path) = self.project_file() else { return Ok(None) };
        let text = read(&path)?.unwrap_or_default();
        Ok(Some(self.trust.trust_file(&path, &text)?))
    }

    /// Trusts the project's file no longer, and returns its path if it was trusted.
    ///
    /// # Errors
    /// Fails when the book of what is trusted cannot be read or written.
    pub fn distrust_project(&self) -> Result<Option<String>, HookFilesError> {
        let Some(path) = self.project_file() else { return Ok(None) };
        Ok(self.trust.distrust_file(&path)?)
    }

    /// Reads the files.
    ///
    /// # Errors
    /// Fails when one that may be used cannot be read or makes no sense.
    pub fn load(&self) -> Result<LoadedHooks, HookFilesError> {
        let mut loaded = LoadedHooks::default();
        if let Some(path) = &self.user
            && let Some(text) = read(path)?
        {
            loaded.add(path, &text)?;
        }
        if let Some(path) = self.project_file()
            && let Some(text) = read(&path)?
        {
            if self.trust.trusts_file(&path, &text)? {
                loaded.add(&path, &text)?;
            } else {
                loaded.notices.push(format!(
                    "notice: {} is not trusted, so its hooks are not used; look at it, then `rkat trust`",
                    path.display()
                ));
            }
        }
        Ok(loaded)
    }

    /// The same, and tells what is to be told.
    pub(crate) fn entries(&self) -> Result<Vec<HookEntry>, HookFilesError> {
        let loaded = self.load()?;
        if let Some(notify) = &self.notify {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            for notice in loaded.notices {
                if told.insert(notice.clone()) {
                    notify(&notice);
                }
            }
        }
        Ok(loaded.entries)
    }
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
    fn add(&mut self, path: &Path, text: &str) -> Result<(), HookFilesError> {
        let fault = |span: Option<Range<usize>>, field: String, message: &str| HookFilesError::Content {
            path: path.to_owned(),
            line: line_of(text, span.map_or(0, |span| span.start)),
            field,
            message: message.trim().to_owned(),
        };
        let broken = |error: &toml::de::Error| fault(error.span(), String::new(), error.message());
        let table = DeTable::parse(text).map_err(|error| broken(&error))?;
        let reader = toml::Deserializer::parse(text).map_err(|error| broken(&error))?;
        let document: Document = serde_path_to_error::deserialize(reader).map_err(|error| {
            let field = format!("`{}`: ", error.path());
            fault(error.inner().span(), field, error.inner().message())
        })?;
        let hooks = table.get_ref().get("hooks").and_then(|hooks| hooks.get_ref().as_table());
        let unread = table.get_ref().keys().filter(|key| key.get_ref() != "hooks").map(|key| ("", key));
        let inner = hooks.into_iter().flat_map(|hooks| hooks.keys()).filter(|key| key.get_ref() != "entries");
        for (section, key) in unread.chain(inner.map(|key| ("hooks.", key))) {
            self.notices.push(format!(
                "warning: {}:{}: `{section}{}` is not read from here, only `hooks.entries` is; `rkat config` changes the realm's",
                path.display(),
                line_of(text, key.span().start),
                key.get_ref()
            ));
        }
        for (index, entry) in document.hooks.entries.iter().enumerate() {
            let place = hooks.and_then(|hooks| place_of(hooks, index));
            let field = || format!("`hooks.entries[{index}]`: ");
            HookSet::new(std::slice::from_ref(entry), Vec::new(), &[])
                .map_err(|error| fault(place, field(), &error.to_string()))?;
        }
        self.entries.extend(document.hooks.entries);
        Ok(())
    }
}

fn place_of(hooks: &DeTable<'_>, index: usize) -> Option<Range<usize>> {
    let DeValue::Array(entries) = hooks.get("entries")?.get_ref() else { return None };
    entries.get(index).map(toml::Spanned::span)
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests;
