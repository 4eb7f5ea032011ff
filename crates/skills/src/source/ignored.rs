//! Finds the SKILL.md files in a directory of skills that are not loaded, although they have no errors.
//!
//! A scan never visits their directories, so they need a separate search. It runs on request, not when skills are
//! loaded.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::directory::Limits;
use super::visit::{FILES, is_foreign};
use super::{Nested, ScanResult};
use crate::problem::Effect;

/// Reason why a SKILL.md is not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IgnoreReason {
    /// Deeper than a scan goes.
    TooDeep,
    /// In a hidden directory.
    Hidden,
    /// In a directory of installed packages or caches.
    Vendored,
    /// Inside another skill.
    Nested,
    /// Named neither `SKILL.md` nor `skill.md`.
    Misnamed,
    /// Beyond the maximum number of directories that a scan visits.
    OverLimit,
}

impl IgnoreReason {
    /// Returns the description of the files that follows "they are".
    fn clause(self, limits: Limits) -> String {
        match self {
            Self::TooDeep => format!("more than {} directories deep", limits.depth),
            Self::Hidden => "in a hidden directory".to_owned(),
            Self::Vendored => "in `node_modules` or `__pycache__`".to_owned(),
            Self::Nested => "inside another skill".to_owned(),
            Self::Misnamed => "not named `SKILL.md`".to_owned(),
            Self::OverLimit => format!("beyond the first {} directories", limits.dirs),
        }
    }

    const fn fix(self) -> &'static str {
        match self {
            Self::TooDeep | Self::OverLimit => {
                "move a skill up, or pass its parent directory with --skill-dir"
            }
            Self::Hidden | Self::Vendored => {
                "move a skill out of it, or pass that directory with --skill-dir"
            }
            Self::Nested => "move a skill out if it does not belong to the other one",
            Self::Misnamed => "rename the file to `SKILL.md`",
        }
    }
}

/// The files in one directory of skills that are not loaded for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ignored {
    /// The directory of skills.
    pub root: PathBuf,
    /// Reason why the files are not loaded.
    pub reason: IgnoreReason,
    /// The files, by path.
    pub files: Vec<PathBuf>,
    /// Whether the list is complete. The search visits at most as many directories as a scan.
    pub complete: bool,
    /// Suggested fix.
    pub fix: &'static str,
    #[serde(skip)]
    clause: String,
}

impl Ignored {
    /// Returns a one-line description of the problem without the fix.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = self.files.len();
        let at_least = if self.complete { "" } else { "at least " };
        let (skills, they) = if count == 1 { ("skill is", "it is") } else { ("skills are", "they are") };
        let example = match &self.files[..] {
            [] => String::new(),
            [only] => format!(": {}", only.display()),
            [first, ..] => format!(", such as {}", first.display()),
        };
        let (root, clause) = (self.root.display(), &self.clause);
        format!("{root}: {at_least}{count} {skills} not loaded because {they} {clause}{example}")
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.summary(), self.fix)
    }
}

/// Result of the latest scan of a directory of skills.
pub(super) struct Scanned<'a> {
    /// The directory of skills, as configured.
    pub(super) root: &'a Path,
    pub(super) limits: Limits,
    /// Its canonical path.
    pub(super) base: PathBuf,
    pub(super) found: &'a ScanResult,
    /// The skill files that were read, loaded or not.
    pub(super) files: HashSet<PathBuf>,
    /// The directories whose content was listed.
    pub(super) listed: HashSet<PathBuf>,
}

/// Searches a directory of skills for the files that a scan ignores.
pub(super) fn ignored(scanned: &Scanned<'_>) -> Vec<Ignored> {
    let skills = scanned.files.iter().filter_map(|file| Some(file.parent()?.to_owned())).collect();
    let mut search = Search { scanned, skills, seen: HashSet::new(), found: BTreeMap::new() };
    let complete = search.run();
    let group = |(reason, mut files): (IgnoreReason, Vec<PathBuf>)| {
        files.sort_unstable();
        let (fix, clause) = (reason.fix(), reason.clause(scanned.limits));
        Ignored { root: scanned.root.to_owned(), reason, files, complete, fix, clause }
    };
    search.found.into_iter().map(group).collect()
}

struct Search<'a> {
    scanned: &'a Scanned<'a>,
    /// The directories of skills.
    skills: HashSet<PathBuf>,
    seen: HashSet<PathBuf>,
    found: BTreeMap<IgnoreReason, Vec<PathBuf>>,
}

impl Search<'_> {
    /// Searches everything that was scanned, and returns `true` if the search is complete.
    fn run(&mut self) -> bool {
        let starts = self.scanned.found.watched.iter().filter_map(|path| path.canonicalize().ok());
        let mut open: Vec<(PathBuf, Option<IgnoreReason>)> = starts.map(|path| (path, None)).collect();
        // The target of a symlink was scanned on its own, so search it before the directories that contain it.
        open.sort_by_key(|(path, _)| path.components().count());
        while let Some((dir, why)) = open.pop() {
            if self.seen.len() >= self.scanned.limits.dirs {
                return false;
            }
            if self.seen.insert(dir.clone()) {
                open.extend(self.enter(&dir, why));
            }
        }
        true
    }

    /// Records the ignored files of a directory, and returns its subdirectories with the reason why they are ignored.
    fn enter(&mut self, dir: &Path, why: Option<IgnoreReason>) -> Vec<(PathBuf, Option<IgnoreReason>)> {
        // The scan already reported unreadable directories.
        let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
        let (mut below, mut linked) = (Vec::new(), false);
        for entry in entries.flatten() {
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
            if kind.is_dir() && name != ".git" {
                below.push((entry.path(), why.or_else(|| foreign(&name))));
            } else if is_skill_file(&name) {
                linked |= kind.is_symlink();
                if kind.is_file() {
                    self.note(dir, entry.path(), why);
                }
            }
        }
        let is_skill = linked || self.skills.contains(dir);
        let separate = self.scanned.limits.nested == Nested::Separate || dir == self.scanned.base;
        if is_skill && !separate && why.is_none() {
            below.iter_mut().for_each(|(_, why)| *why = Some(IgnoreReason::Nested));
        }
        below
    }

    fn note(&mut self, dir: &Path, file: PathBuf, why: Option<IgnoreReason>) {
        if self.skills.contains(dir) {
            return;
        }
        let cut = || self.scanned.found.problems.iter().any(|problem| problem.effect == Effect::Cut);
        let reason = match why {
            Some(why) => why,
            None if self.scanned.listed.contains(dir) => IgnoreReason::Misnamed,
            None if cut() => IgnoreReason::OverLimit,
            None => IgnoreReason::TooDeep,
        };
        self.found.entry(reason).or_default().push(file);
    }
}

fn is_skill_file(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.eq_ignore_ascii_case(FILES[0]))
}

fn foreign(name: &OsStr) -> Option<IgnoreReason> {
    let name = name.to_string_lossy();
    let reason = if name.starts_with('.') { IgnoreReason::Hidden } else { IgnoreReason::Vendored };
    is_foreign(&name).then_some(reason)
}
