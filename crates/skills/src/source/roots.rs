//! The folders where people put skills, and which of them comes first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Folder, Limits, Source};
use crate::{Provenance, Scope, SourceId, SourceStatus, Transport, Trust};

/// Where the conventional folders are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots {
    /// Folders that were asked for; they come first, in this order.
    pub extra: Vec<PathBuf>,
    /// The project's folder.
    pub project: Option<PathBuf>,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// Whether the user has trusted the project.
    pub trust: Trust,
    /// The folders of single skills in the project that the user has trusted, without links.
    pub trusted: Vec<PathBuf>,
}

/// The conventional folders in the order in which they count: scope, folder, name for people, number of the id.
const CONVENTIONS: [(Scope, &str, &str, u128); 8] = [
    (Scope::Project, ".agent/skills", "project-agent", 4),
    (Scope::Project, ".agents/skills", "project-agents", 5),
    (Scope::User, ".agent/skills", "user-agent", 6),
    (Scope::User, ".agents/skills", "user-agents", 7),
    (Scope::Project, ".claude/skills", "project-claude", 8),
    (Scope::User, ".claude/skills", "user-claude", 9),
    (Scope::Project, ".rkat/skills", "project", 2),
    (Scope::User, ".rkat/skills", "user", 3),
];

/// Makes sources of the conventional folders; the first that has a skill wins.
#[must_use]
pub fn standard_roots(roots: &Roots, limits: Limits) -> Vec<Arc<dyn Source>> {
    let extra = roots.extra.iter().map(|path| asked_for(path, roots, limits));
    let conventional = CONVENTIONS.iter().filter_map(|(scope, folder, display, number)| {
        let base = if *scope == Scope::Project { &roots.project } else { &roots.home };
        // A home that is also the project would give every skill twice.
        let twice = *scope == Scope::User && roots.project == roots.home;
        let base = base.as_ref().filter(|_| !twice)?;
        let tilde = if *scope == Scope::User { "~/" } else { "" };
        let fingerprint = format!("filesystem:{tilde}{folder}");
        let provenance = provenance(SourceId::fixed(*number), display, fingerprint);
        let trust = if *scope == Scope::Project { roots.trust } else { Trust::Trusted };
        let source = Folder::new(provenance, *scope, base.join(folder), limits);
        let source = source.with_trust(trust, roots.trusted.iter().cloned());
        // What is in the user's own folders, the user has put there; a project came from somewhere.
        Some(if *scope == Scope::Project { source.within(base.clone()) } else { source })
    });
    extra.chain(conventional).map(|folder| Arc::new(folder) as Arc<dyn Source>).collect()
}

/// Makes a source of a folder that was asked for. Below the project it is the project's; who asks for it trusts it.
fn asked_for(path: &Path, roots: &Roots, limits: Limits) -> Folder {
    let place = path.display().to_string();
    let id = SourceId::of_place(&place);
    let ours = roots.project.as_ref().is_some_and(|project| path.starts_with(project));
    let scope = if ours { Scope::Project } else { Scope::User };
    let name = path.file_name().map_or(place, |name| name.to_string_lossy().into_owned());
    let fingerprint = format!("filesystem:{}", path.display());
    Folder::new(provenance(id, &name, fingerprint), scope, path.to_owned(), limits)
}

fn provenance(source_uuid: SourceId, display: &str, fingerprint: String) -> Provenance {
    Provenance {
        source_uuid,
        display_name: display.to_owned(),
        transport_kind: Transport::Filesystem,
        fingerprint,
        status: SourceStatus::Active,
    }
}
