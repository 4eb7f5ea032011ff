//! `skills.toml`: the keys of `skills` in files of the project and the user, beside the realm's config.
//!
//! They are read anew each time, so an edit counts from the next run on. A file that cannot be understood is told
//! among the problems of the catalog and left out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use meerkat_skills::{Effect, Found, Problem, Provenance, Source, SourceId, SourceStatus, Transport};

use crate::config::SkillsConfig;

/// The files, the first of which counts.
pub(super) struct SkillFiles(pub(super) Vec<PathBuf>);

impl SkillFiles {
    /// Lays the files over the config: what the config leaves at its default, the first file that says something
    /// else decides; repositories are those of all, by name.
    pub(super) fn over(&self, config: &SkillsConfig) -> (SkillsConfig, Vec<Problem>) {
        let (mut merged, mut notes) = (config.clone(), Vec::new());
        for path in &self.0 {
            match read(path) {
                Ok(None) => {}
                Ok(Some(file)) => merge(&mut merged, file),
                Err(reason) => notes.push(Problem {
                    effect: Effect::Skipped,
                    path: path.clone(),
                    line: None,
                    reason,
                    fix: "mend it, or take it away".to_owned(),
                }),
            }
        }
        if let Some(reason) = merged.fault() {
            let path = self.0.first().cloned().unwrap_or_default();
            let fix = "mend the files of skills; until then only the config counts".to_owned();
            notes.push(Problem { effect: Effect::Skipped, path, line: None, reason, fix });
            merged = config.clone();
        }
        (merged, notes)
    }
}

fn read(path: &Path) -> Result<Option<SkillsConfig>, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => toml::from_str(&text).map(Some).map_err(|error| error.to_string().trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

fn merge(merged: &mut SkillsConfig, file: SkillsConfig) {
    let usual = SkillsConfig::default();
    merged.enabled &= file.enabled;
    for (value, own, usual) in [
        (&mut merged.max_injection_bytes, file.max_injection_bytes, usual.max_injection_bytes),
        (&mut merged.inventory_threshold, file.inventory_threshold, usual.inventory_threshold),
        (&mut merged.inventory_budget, file.inventory_budget, usual.inventory_budget),
    ] {
        if *value == usual {
            *value = own;
        }
    }
    for repository in file.repositories {
        if merged.repositories.iter().all(|known| known.name() != repository.name()) {
            merged.repositories.push(repository);
        }
    }
    merged.identity.remaps.extend(file.identity.remaps);
}

/// A source of nothing but problems.
pub(super) struct Notes {
    provenance: Arc<Provenance>,
    found: Arc<Found>,
}

impl Notes {
    pub(super) fn new(problems: Vec<Problem>) -> Arc<Self> {
        let provenance = Provenance {
            source_uuid: SourceId::of_place("skills.toml"),
            display_name: "files".to_owned(),
            transport_kind: Transport::Filesystem,
            fingerprint: "filesystem:.rkat/skills.toml".to_owned(),
            status: SourceStatus::Active,
        };
        Self::of(provenance, problems)
    }

    /// What is wrong with one place.
    pub(super) fn of(provenance: Provenance, problems: Vec<Problem>) -> Arc<Self> {
        let found = Arc::new(Found { problems, ..Found::default() });
        Arc::new(Self { provenance: Arc::new(provenance), found })
    }

    pub(super) fn problems(&self) -> &[Problem] {
        &self.found.problems
    }
}

impl Source for Notes {
    fn provenance(&self) -> &Arc<Provenance> {
        &self.provenance
    }

    fn look(&self) -> Arc<Found> {
        Arc::clone(&self.found)
    }
}
