//! `skills.toml`: the `skills` keys in files of the project and the user, in addition to the realm's config.
//!
//! The files are read each time, so an edit takes effect at the next run. An invalid file is skipped and reported as a
//! problem of the catalog.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use meerkat_skills::{Effect, Problem, Provenance, ScanResult, Source, SourceId, Transport};

use crate::config::SkillsConfig;

/// The files, in order of precedence.
pub(super) struct SkillFiles(pub(super) Vec<PathBuf>);

impl SkillFiles {
    /// Merges the files into the config. A key that the config leaves at its default takes its value from the first
    /// file that changes it; repositories are merged by name.
    pub(super) fn over(&self, config: &SkillsConfig) -> (SkillsConfig, Vec<Problem>) {
        let (mut merged, mut problems) = (config.clone(), Vec::new());
        for path in &self.0 {
            match read(path) {
                Ok(None) => {}
                Ok(Some(file)) => merge(&mut merged, file),
                Err(reason) => {
                    problems.push(Problem::new(Effect::Skipped, path, reason, "fix or remove it"));
                }
            }
        }
        if let Some(reason) = merged.find_error() {
            let path = self.0.first().cloned().unwrap_or_default();
            let fix = "fix the `skills.toml` files; until then, only the config applies";
            problems.push(Problem::new(Effect::Skipped, path, reason, fix));
            merged = config.clone();
        }
        (merged, problems)
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
    let defaults = SkillsConfig::default();
    merged.enabled &= file.enabled;
    for (value, file_value, default) in [
        (&mut merged.max_injection_bytes, file.max_injection_bytes, defaults.max_injection_bytes),
        (&mut merged.inventory_threshold, file.inventory_threshold, defaults.inventory_threshold),
        (&mut merged.inventory_budget, file.inventory_budget, defaults.inventory_budget),
    ] {
        if *value == default {
            *value = file_value;
        }
    }
    for repository in file.repositories {
        if merged.repositories.iter().all(|known| known.name() != repository.name()) {
            merged.repositories.push(repository);
        }
    }
    merged.identity.remaps.extend(file.identity.remaps);
}

/// A source that contains only problems.
pub(super) struct ProblemSource {
    provenance: Arc<Provenance>,
    scan: Arc<ScanResult>,
}

impl ProblemSource {
    pub(super) fn new(problems: Vec<Problem>) -> Arc<Self> {
        let id = SourceId::from_location("skills.toml");
        let fingerprint = "filesystem:.rkat/skills.toml".to_owned();
        let provenance = Provenance::new(id, "files", Transport::Filesystem, fingerprint);
        Self::with_provenance(Arc::new(provenance), problems)
    }

    /// Creates a source for the problems of one repository.
    pub(super) fn with_provenance(provenance: Arc<Provenance>, problems: Vec<Problem>) -> Arc<Self> {
        let scan = Arc::new(ScanResult { problems, ..ScanResult::default() });
        Arc::new(Self { provenance, scan })
    }

    pub(super) fn problems(&self) -> &[Problem] {
        &self.scan.problems
    }
}

impl Source for ProblemSource {
    fn provenance(&self) -> &Arc<Provenance> {
        &self.provenance
    }

    fn scan(&self) -> Arc<ScanResult> {
        Arc::clone(&self.scan)
    }
}
