//! A directory of skills. Repeated scans do not read unchanged files.
//!
//! The walk is bounded and has a fixed order: level by level, directories by name, symlinks last. Each target of
//! symlinks is visited once, so cyclic symlinks end. In a directory from a third party, symlinks must not lead out of
//! the project or repository that contains it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::ignored::{Ignored, Scanned, ignored};
use super::stamp::{Base, Stamp, Way, way};
use super::visit::{Below, Entry, Visit, skill_dir, visit};
use super::{ScanResult, Source};
use crate::parallel;
use crate::problem::{Effect, Problem};
use crate::{Provenance, Scope, Trust, lock};

/// Limits of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum depth of a skill below the root.
    pub depth: usize,
    /// Maximum number of visited directories.
    pub dirs: usize,
    /// Handling of a SKILL.md below another skill.
    pub nested: Nested,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 6, dirs: 40_000, nested: Nested::Supporting }
    }
}

/// Handling of a SKILL.md below another skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nested {
    /// Part of the skill above. Only a skill at the root may have separate skills below it.
    Supporting,
    /// A separate skill.
    Separate,
}

/// Location and identity of a directory of skills.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) provenance: Arc<Provenance>,
    pub(super) scope: Scope,
    pub(super) path: PathBuf,
    pub(super) limits: Limits,
    pub(super) trust: Trust,
    /// Directories of skills that are trusted regardless of `trust`.
    pub(super) trusted: HashSet<PathBuf>,
    /// Directory that symlinks must not leave; if `None`, they may lead anywhere.
    pub(super) bounds: Option<PathBuf>,
}

/// A directory of skills.
pub struct Directory {
    root: Root,
    memo: Mutex<Memo>,
}

/// State of the last walk.
#[derive(Default)]
struct Memo {
    base: Option<PathBuf>,
    listed: Vec<(PathBuf, Option<Stamp>)>,
    entries: Vec<Entry>,
    /// Every visited file and directory, by its path from the base, with its stamp.
    probes: Arc<[(Way, Option<Stamp>)]>,
    found: Option<Arc<ScanResult>>,
}

impl Directory {
    /// Creates a source from a directory, which need not exist yet.
    #[must_use]
    pub fn new(provenance: Provenance, scope: Scope, path: PathBuf, limits: Limits) -> Self {
        let root = Root {
            provenance: Arc::new(provenance),
            scope,
            path,
            limits,
            trust: Trust::Trusted,
            trusted: HashSet::new(),
            bounds: None,
        };
        Self { root, memo: Mutex::default() }
    }

    /// Sets the trust in its skills, which are trusted by default. The skills in the directories `trusted` are always
    /// trusted.
    #[must_use]
    pub fn with_trust(mut self, trust: Trust, trusted: impl IntoIterator<Item = PathBuf>) -> Self {
        self.root.trust = trust;
        self.root.trusted = trusted.into_iter().collect();
        self
    }

    /// Ignores symlinks that lead out of `bounds`, the directory with all content of the same origin.
    #[must_use]
    pub fn within(mut self, bounds: PathBuf) -> Self {
        self.root.bounds = Some(bounds);
        self
    }

    /// Returns the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root.path
    }
}

impl Source for Directory {
    fn provenance(&self) -> &Arc<Provenance> {
        &self.root.provenance
    }

    fn scan(&self) -> Arc<ScanResult> {
        // A walk that panicked left the memo of the previous one, which is still valid.
        let mut memo = lock(&self.memo);
        if let Some(found) = memo.found.as_ref().filter(|_| memo.is_current(&self.root)) {
            return Arc::clone(found);
        }
        let known = memo
            .entries
            .drain(..)
            .filter_map(|entry| Some((entry.file.parent()?.to_owned(), entry)))
            .collect();
        let (next, found) = Walk::new(&self.root, known).run();
        let found = Arc::new(found);
        *memo = Memo { found: Some(Arc::clone(&found)), ..next };
        found
    }

    fn ignored(&self) -> Vec<Ignored> {
        let found = self.scan();
        let memo = lock(&self.memo);
        let Some(base) = memo.base.clone() else { return Vec::new() };
        let files = memo.entries.iter().map(|entry| entry.file.clone()).collect();
        let listed = memo.listed.iter().map(|(path, _)| path.clone()).collect();
        drop(memo);
        let (root, limits) = (self.root.path.as_path(), self.root.limits);
        ignored(&Scanned { root, limits, base, found: &found, files, listed })
    }
}

impl Memo {
    /// Returns `true` if nothing has changed, by comparing only times and sizes. Each path is checked once, relative to
    /// the base, so that the path to the base is resolved only once.
    fn is_current(&self, root: &Root) -> bool {
        let (Some(_), Ok(base)) = (&self.base, Base::open(&root.path)) else {
            return self.base == root.path.canonicalize().ok();
        };
        parallel::all(&self.probes, move |(way, stamp)| base.stamp(way) == *stamp)
    }

    /// Records the paths to check before the next walk.
    fn probe(&mut self) {
        let Some(base) = &self.base else { return };
        let listed = self.listed.iter().map(|(path, stamp)| (path, *stamp));
        let entries = self.entries.iter().map(|entry| (&entry.file, entry.stamp));
        let probes = listed.chain(entries);
        self.probes = probes.filter_map(|(path, stamp)| Some((way(base, path)?, stamp))).collect();
    }
}

/// A walk in progress.
struct Walk<'a> {
    root: &'a Root,
    /// Entries of the previous walk, by directory.
    known: HashMap<PathBuf, Entry>,
    memo: Memo,
    problems: Vec<Problem>,
    watched: Vec<PathBuf>,
    links: Vec<(PathBuf, usize)>,
    seen: usize,
    /// Canonical path of the directory that symlinks must not leave.
    bounds: Option<PathBuf>,
}

impl<'a> Walk<'a> {
    fn new(root: &'a Root, known: HashMap<PathBuf, Entry>) -> Self {
        let base = root.path.canonicalize();
        let missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        let problems = match &base {
            Err(error) if !missing(error) => vec![Problem::unreadable(&root.path, error)],
            _ => Vec::new(),
        };
        let memo = Memo { base: base.ok(), ..Memo::default() };
        let watched = vec![root.path.clone()];
        let bounds = root.bounds.as_ref().and_then(|bounds| bounds.canonicalize().ok());
        Self { root, known, memo, problems, watched, links: Vec::new(), seen: 0, bounds }
    }

    fn run(mut self) -> (Memo, ScanResult) {
        let base = self.memo.base.clone().filter(|base| self.is_within(base));
        if self.memo.base.is_some() && base.is_none() {
            self.problems.push(not_followed(&self.root.path, OUTSIDE));
            // Watching it would watch its target.
            self.watched.clear();
        }
        let mut level: Vec<(PathBuf, usize)> = base.into_iter().map(|base| (base, 0)).collect();
        while !level.is_empty() {
            level = self.level(level);
            if level.is_empty() {
                level = self.follow();
            }
        }
        let skills = self.memo.entries.iter().filter_map(|entry| entry.outcome.clone().ok()).collect();
        let skipped = self.memo.entries.iter().filter_map(|entry| entry.outcome.clone().err());
        let problems = self.problems.into_iter().chain(skipped).collect();
        self.memo.probe();
        (self.memo, ScanResult { skills, problems, watched: self.watched })
    }

    /// Visits the directories of one level, and returns those below.
    fn level(&mut self, mut dirs: Vec<(PathBuf, usize)>) -> Vec<(PathBuf, usize)> {
        let remaining = self.root.limits.dirs.saturating_sub(self.seen);
        if dirs.len() > remaining {
            dirs.truncate(remaining);
            let reason = format!("has more than {} directories; the rest is skipped", self.root.limits.dirs);
            let fix = "use a directory that contains only skills";
            self.problems.push(Problem::new(Effect::Cut, &self.root.path, reason, fix));
        }
        self.seen += dirs.len();
        let visits = parallel::map(&dirs, |(dir, depth)| {
            let separate = *depth == 0 || self.root.limits.nested == Nested::Separate;
            let below = if separate { Below::Matters } else { Below::BelongsToSkill };
            let known = if self.known.is_empty() { None } else { self.known.get(dir) };
            visit(self.root, dir, below, known)
        });
        let mut next = Vec::new();
        for ((dir, depth), visit) in dirs.into_iter().zip(visits) {
            next.extend(self.note(dir, depth, visit));
        }
        next
    }

    /// Records the result for one directory, and returns the directories in it.
    fn note(&mut self, dir: PathBuf, depth: usize, visit: Visit) -> Vec<(PathBuf, usize)> {
        self.memo.entries.extend(visit.entry);
        self.problems.extend(visit.problem);
        if let Some(stamp) = visit.listed {
            self.memo.listed.push((dir, stamp));
        }
        if depth >= self.root.limits.depth {
            return Vec::new();
        }
        self.links.extend(visit.links.into_iter().map(|link| (link, depth + 1)));
        visit.dirs.into_iter().map(|dir| (dir, depth + 1)).collect()
    }

    /// Resolves the symlinks seen so far, and returns the new directories among their targets.
    fn follow(&mut self) -> Vec<(PathBuf, usize)> {
        let links = std::mem::take(&mut self.links);
        if links.is_empty() {
            return Vec::new();
        }
        let dir_of = |entry: &Entry| entry.file.parent().map(Path::to_owned);
        let mut visited: HashSet<PathBuf> = self.memo.entries.iter().filter_map(dir_of).collect();
        visited.extend(self.memo.listed.iter().map(|(path, _)| path.clone()));
        let mut targets = Vec::new();
        for (link, depth) in links {
            let Some(target) = skill_dir(&link) else { continue };
            if !visited.insert(target.clone()) {
                continue;
            }
            if let Some(why) = self.refusal(&target) {
                self.problems.push(not_followed(&link, why));
                continue;
            }
            self.watched.push(target.clone());
            targets.push((target, depth));
        }
        targets
    }

    fn is_within(&self, target: &Path) -> bool {
        self.root.bounds.is_none() || self.bounds.as_ref().is_some_and(|bounds| target.starts_with(bounds))
    }

    /// Returns the reason why a symlink is not followed, if any.
    fn refusal(&self, target: &Path) -> Option<&'static str> {
        let above = || self.memo.base.as_ref().is_some_and(|base| base.starts_with(target));
        match self.root.bounds {
            None => None,
            Some(_) if !self.is_within(target) => Some(OUTSIDE),
            // Otherwise everything next to the directory would be searched for skills, and watched.
            Some(_) => above().then_some("is a symlink to a directory above it"),
        }
    }
}

const OUTSIDE: &str = "is a symlink that leads out of its project or repository";

fn not_followed(link: &Path, why: &str) -> Problem {
    let fix = "copy the target there, or pass its directory with --skill-dir";
    Problem::new(Effect::Skipped, link, why.to_owned(), fix)
}
