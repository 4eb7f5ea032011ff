//! Applies a patch to the workspace.
//!
//! All changes are computed and written to temporary files first. Only then are files moved into place, one after the
//! other; if one of these last steps fails, the earlier ones are rolled back.

use std::collections::BTreeSet;

use serde::Serialize;

use super::edit::edit;
use super::parse::{FileChange, PatchError};
use crate::Error;
use crate::files::{Existing, Root, Staged, WorkspacePath};

/// Maximum size of a file to change.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// The files that a patch changed.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct PatchSummary {
    status: &'static str,
    added_files: Vec<String>,
    modified_files: Vec<String>,
    deleted_files: Vec<String>,
}

/// A change to one file.
enum Step {
    Write { place: WorkspacePath, data: Vec<u8>, mode: Option<u32>, before: Option<Before> },
    Remove { place: WorkspacePath, before: Before },
}

/// The previous state of a file.
struct Before {
    data: Vec<u8>,
    mode: u32,
}

/// Applies a patch, or changes nothing.
pub(super) fn apply(root: &Root, changes: Vec<FileChange>) -> Result<PatchSummary, Error> {
    let mut applied = PatchSummary { status: "success", ..PatchSummary::default() };
    let mut plan = Plan { root, named: BTreeSet::new(), steps: Vec::new() };
    for change in changes {
        match change {
            FileChange::Add { path, lines } => applied.added_files.push(plan.add(&path, &lines)?),
            FileChange::Delete { path } => applied.deleted_files.push(plan.delete(&path)?),
            FileChange::Update { path, move_to, hunks } => {
                applied.modified_files.push(plan.update(&path, move_to.as_deref(), &hunks)?);
            }
        }
    }
    carry_out(root, plan.steps)?;
    Ok(applied)
}

struct Plan<'a> {
    root: &'a Root,
    named: BTreeSet<WorkspacePath>,
    steps: Vec<Step>,
}

impl Plan<'_> {
    fn name(&mut self, path: &str) -> Result<WorkspacePath, Error> {
        let place = self.root.parse_write_path(path)?;
        if self.named.insert(place.clone()) {
            Ok(place)
        } else {
            Err(PatchError::Twice(place.display_path()).into())
        }
    }

    /// Parses a path that must not exist yet.
    fn name_new(&mut self, path: &str) -> Result<WorkspacePath, Error> {
        let place = self.name(path)?;
        match self.root.permissions(&place)? {
            None => Ok(place),
            Some(_) => Err(PatchError::Exists(place.display_path()).into()),
        }
    }

    fn before(&self, place: &WorkspacePath) -> Result<Before, Error> {
        let Some(mode) = self.root.permissions(place)? else {
            return Err(PatchError::Missing(place.display_path()).into());
        };
        Ok(Before { data: self.root.read(place, MAX_FILE, "is larger than 16 MB")?, mode })
    }

    fn add(&mut self, path: &str, lines: &[String]) -> Result<String, Error> {
        let place = self.name_new(path)?;
        let mut text = lines.join("\n");
        if !lines.is_empty() {
            text.push('\n');
        }
        let path_text = place.display_path();
        self.steps.push(Step::Write { place, data: text.into_bytes(), mode: None, before: None });
        Ok(path_text)
    }

    fn delete(&mut self, path: &str) -> Result<String, Error> {
        let place = self.name(path)?;
        let (before, path_text) = (self.before(&place)?, place.display_path());
        self.steps.push(Step::Remove { place, before });
        Ok(path_text)
    }

    fn update(
        &mut self,
        path: &str,
        move_to: Option<&str>,
        hunks: &[super::parse::Hunk],
    ) -> Result<String, Error> {
        let place = self.name(path)?;
        let before = self.before(&place)?;
        let text =
            std::str::from_utf8(&before.data).map_err(|_| PatchError::NotText(place.display_path()))?;
        let data = edit(&place.display_path(), text, hunks)?.into_bytes();
        let Some(target) = move_to else {
            let path_text = place.display_path();
            self.steps.push(Step::Write { place, data, mode: Some(before.mode), before: Some(before) });
            return Ok(path_text);
        };
        let target = self.name_new(target)?;
        let path_text = target.display_path();
        self.steps.push(Step::Write { place: target, data, mode: Some(before.mode), before: None });
        self.steps.push(Step::Remove { place, before });
        Ok(path_text)
    }
}

/// Completed steps, which are rolled back on drop unless committed.
struct Rollback<'a> {
    root: &'a Root,
    dirs: Vec<WorkspacePath>,
    steps: Vec<Step>,
    committed: bool,
}

fn carry_out(root: &Root, steps: Vec<Step>) -> Result<(), Error> {
    let mut done = Rollback { root, dirs: Vec::new(), steps: Vec::new(), committed: false };
    let mut staged = Vec::new();
    for step in &steps {
        staged.push(match step {
            Step::Remove { .. } => None,
            Step::Write { place, data, mode, .. } => {
                done.dirs.extend(root.make_parents(place)?);
                Some(root.stage(place, data, *mode)?)
            }
        });
    }
    for (step, staged) in steps.into_iter().zip(staged) {
        done.carry_out(step, staged)?;
    }
    done.committed = true;
    Ok(())
}

impl Rollback<'_> {
    fn carry_out(&mut self, step: Step, staged: Option<Staged>) -> Result<(), Error> {
        match (&step, staged) {
            (Step::Write { before, .. }, Some(staged)) => {
                staged.put(if before.is_some() { Existing::Replaced } else { Existing::Refused })?;
            }
            (Step::Remove { place, .. }, _) => self.root.remove(place)?,
            (Step::Write { .. }, None) => {}
        }
        self.steps.push(step);
        Ok(())
    }
}

impl Drop for Rollback<'_> {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        let restore = |place: &WorkspacePath, before: &Before| {
            let staged = self.root.stage(place, &before.data, Some(before.mode));
            let _ = staged.and_then(|staged| staged.put(Existing::Replaced));
        };
        for step in self.steps.iter().rev() {
            match step {
                Step::Write { place, before: None, .. } => {
                    let _ = self.root.remove(place);
                }
                Step::Write { place, before: Some(before), .. } | Step::Remove { place, before } => {
                    restore(place, before);
                }
            }
        }
        for dir in self.dirs.iter().rev() {
            self.root.remove_dir(dir);
        }
    }
}
