//! The conventional directories of skills, and their precedence.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Directory, Limits, Source};
use crate::{Provenance, Scope, SourceId, Transport, Trust};

/// Locations of the conventional directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots {
    /// Explicitly requested directories; they come first, in this order.
    pub extra: Vec<PathBuf>,
    /// The current directory, if it is inside the project but not its root; see [`Roots::in_directory`].
    pub directory: Option<PathBuf>,
    /// The project's directory.
    pub project: Option<PathBuf>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// Whether the user has trusted the project.
    pub trust: Trust,
    /// Canonical paths of individual skills in the project that the user has trusted.
    pub trusted: Vec<PathBuf>,
}

impl Roots {
    /// Adds the current directory, if it is inside the project but neither its root nor the user's home directory.
    /// Trust in the project includes it.
    #[must_use]
    pub fn in_directory(mut self, current: Option<PathBuf>) -> Self {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let home = self.home.as_deref().map(real);
        let project = self.project.as_deref().map(real);
        let is_inside = |current: &PathBuf| {
            let current = real(current);
            project.is_some_and(|project| current != project && current.starts_with(project))
                && Some(current) != home
        };
        self.directory = current.filter(is_inside);
        self
    }

    fn base(&self, base: Base) -> Option<&PathBuf> {
        match base {
            Base::Directory => self.directory.as_ref(),
            Base::Project => self.project.as_ref(),
            // If the home directory is also the project, every skill would appear twice.
            Base::Home => self.home.as_ref().filter(|_| self.project != self.home),
        }
    }
}

/// Parent of a conventional directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    Directory,
    Project,
    Home,
}

impl Base {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Directory => "./",
            Self::Project => "",
            Self::Home => "~/",
        }
    }
}

/// The conventional directories in order of precedence: base, path, display name, number of the source id. Those of
/// the `skill` tool's contract come first. Trust does not change the order.
const CONVENTIONS: [(Base, &str, &str, u128); 12] = [
    (Base::Directory, ".agent/skills", "directory-agent", 10),
    (Base::Project, ".agent/skills", "project-agent", 4),
    (Base::Home, ".agent/skills", "user-agent", 6),
    (Base::Directory, ".claude/skills", "directory-claude", 11),
    (Base::Project, ".claude/skills", "project-claude", 8),
    (Base::Home, ".claude/skills", "user-claude", 9),
    (Base::Directory, ".agents/skills", "directory-agents", 12),
    (Base::Project, ".agents/skills", "project-agents", 5),
    (Base::Home, ".agents/skills", "user-agents", 7),
    (Base::Directory, ".rkat/skills", "directory", 13),
    (Base::Project, ".rkat/skills", "project", 2),
    (Base::Home, ".rkat/skills", "user", 3),
];

/// Creates sources for the conventional directories, in order of precedence.
#[must_use]
pub fn standard_roots(roots: &Roots, limits: Limits) -> Vec<Arc<dyn Source>> {
    let extra = roots.extra.iter().map(|path| extra_root(path, roots, limits));
    let conventional = CONVENTIONS.iter().filter_map(|(base, dir, display, number)| {
        let path = roots.base(*base)?.join(dir);
        let fingerprint = format!("filesystem:{}{dir}", base.prefix());
        let id = SourceId::fixed(*number);
        let provenance = Provenance::new(id, display, Transport::Filesystem, fingerprint);
        let trusted = roots.trusted.iter().cloned();
        if *base == Base::Home {
            let source = Directory::new(provenance, Scope::User, path, limits);
            return Some(source.with_trust(Trust::Trusted, trusted));
        }
        let source =
            Directory::new(provenance, Scope::Project, path, limits).with_trust(roots.trust, trusted);
        // The user controls the directories in their home, but a project may come from a third party.
        Some(match &roots.project {
            Some(project) => source.within(project.clone()),
            None => source,
        })
    });
    extra.chain(conventional).map(|dir| Arc::new(dir) as Arc<dyn Source>).collect()
}

/// Creates a source for an explicitly requested directory, which is therefore trusted. Inside the project, it has the
/// project's scope.
fn extra_root(path: &Path, roots: &Roots, limits: Limits) -> Directory {
    let place = path.display().to_string();
    let id = SourceId::from_location(&place);
    let in_project = roots.project.as_ref().is_some_and(|project| path.starts_with(project));
    let scope = if in_project { Scope::Project } else { Scope::User };
    let name = path.file_name().map_or(place, |name| name.to_string_lossy().into_owned());
    let fingerprint = format!("filesystem:{}", path.display());
    let provenance = Provenance::new(id, &name, Transport::Filesystem, fingerprint);
    Directory::new(provenance, scope, path.to_owned(), limits)
}
