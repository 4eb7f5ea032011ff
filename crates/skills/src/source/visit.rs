//! Visits a single directory: reads its skill, and lists its subdirectories.

use std::fs::{self, Metadata};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::Root;
use super::stamp::Stamp;
use crate::files::open;
use crate::problem::{Effect, Problem};
use crate::{MAX_SKILL_BYTES, Skill, SkillLocation, Trust};

/// A SKILL.md and the result of parsing it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) file: PathBuf,
    pub(super) stamp: Option<Stamp>,
    pub(super) outcome: Result<Arc<Skill>, Problem>,
}

/// Result of visiting a directory.
#[derive(Debug, Default)]
pub(super) struct Visit {
    pub(super) entry: Option<Entry>,
    /// Its stamp when its content was listed, if it was.
    pub(super) listed: Option<Option<Stamp>>,
    pub(super) dirs: Vec<PathBuf>,
    pub(super) links: Vec<PathBuf>,
    pub(super) problem: Option<Problem>,
}

/// The usual name of the file, and a variant that some tools write.
pub(super) const FILES: [&str; 2] = ["SKILL.md", "skill.md"];

/// Handling of the directories below a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    Matters,
    BelongsToSkill,
}

/// Visits a directory. `known` is the entry of the previous visit.
pub(super) fn visit(root: &Root, dir: &Path, below: Below, known: Option<&Entry>) -> Visit {
    let file = File::at(dir, FILES[0]);
    if file.leads_to_skill(dir) {
        return Visit { listed: Some(Stamp::at(dir)), links: vec![file.path], ..Visit::default() };
    }
    let entry = skill_at(root, dir, file, known);
    if entry.is_some() && below == Below::BelongsToSkill {
        return Visit { entry, ..Visit::default() };
    }
    let (mut visit, other) = list(dir);
    if visit.problem.is_some() && entry.is_none() && fs::symlink_metadata(dir).is_err() {
        // It was removed after its parent was listed.
        return Visit::default();
    }
    visit.entry = entry.or_else(|| other.and_then(|name| skill_at(root, dir, File::at(dir, name), known)));
    if visit.entry.is_some() && below == Below::BelongsToSkill {
        visit.dirs.clear();
        visit.links.clear();
    }
    visit
}

/// A file that may make its directory a skill.
struct File {
    name: &'static str,
    path: PathBuf,
    lstat: io::Result<Metadata>,
}

impl File {
    fn at(dir: &Path, name: &'static str) -> Self {
        let path = dir.join(name);
        let lstat = fs::symlink_metadata(&path);
        Self { name, path, lstat }
    }

    /// Returns `true` if it is a symlink to the SKILL.md of another directory, which is then the skill to load.
    fn leads_to_skill(&self, dir: &Path) -> bool {
        let is_link = self.lstat.as_ref().is_ok_and(Metadata::is_symlink);
        is_link && skill_dir(&self.path).is_some_and(|target| !target.starts_with(dir))
    }
}

/// Resolves a symlink to a directory, or to the SKILL.md of a directory.
pub(super) fn skill_dir(link: &Path) -> Option<PathBuf> {
    let target = link.canonicalize().ok()?;
    let metadata = fs::metadata(&target).ok()?;
    if metadata.is_dir() {
        return Some(target);
    }
    let is_skill = FILES.iter().any(|name| target.file_name().is_some_and(|file| file == *name));
    target.parent().filter(|_| is_skill && metadata.is_file()).map(Path::to_owned)
}

/// Lists the directories and symlinks in a directory, and returns the name `skill.md` if that file exists.
fn list(dir: &Path) -> (Visit, Option<&'static str>) {
    let stamp = Stamp::at(dir);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            let problem = Some(Problem::unreadable(dir, &error));
            return (Visit { problem, listed: Some(stamp), ..Visit::default() }, None);
        }
    };
    let mut other = None;
    let mut visit = Visit { listed: Some(stamp), ..Visit::default() };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Ok(kind) = entry.file_type() else { continue };
        other = other.or((name == FILES[1]).then_some(FILES[1]));
        let relevant = !is_foreign(&name.to_string_lossy());
        if relevant && kind.is_dir() {
            visit.dirs.push(entry.path());
        } else if relevant && kind.is_symlink() {
            visit.links.push(entry.path());
        }
    }
    visit.dirs.sort_unstable();
    visit.links.sort_unstable();
    (visit, other)
}

/// Returns `true` for hidden directories and those of package managers, which may contain third-party skills.
pub(crate) fn is_foreign(name: &str) -> bool {
    name.starts_with('.') || matches!(name, "node_modules" | "__pycache__")
}

/// Reads the skill of a directory, or returns the problem with it. A directory without the file is not a skill.
fn skill_at(root: &Root, dir: &Path, file: File, known: Option<&Entry>) -> Option<Entry> {
    let File { name, path, lstat } = file;
    let lstat = match lstat {
        Ok(lstat) => lstat,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return None;
        }
        Err(error) => {
            let outcome = Err(Problem::unreadable(path.clone(), &error));
            return Some(Entry { file: path, stamp: None, outcome });
        }
    };
    let stamp = if lstat.is_symlink() { Stamp::at(&path) } else { Some(Stamp::from_metadata(&lstat)) };
    if let Some(known) = known.filter(|known| known.file == path && known.stamp == stamp && stamp.is_some()) {
        return Some(known.clone());
    }
    let outcome = read(root, dir, name, &path, &lstat);
    Some(Entry { file: path, stamp, outcome })
}

fn read(
    root: &Root,
    dir: &Path,
    file: &'static str,
    path: &Path,
    lstat: &Metadata,
) -> Result<Arc<Skill>, Problem> {
    let skipped = |reason: String, fix: &str| Problem::new(Effect::Skipped, path, reason, fix);
    let unreadable = |error: io::Error| Problem::unreadable(path, &error);
    if lstat.is_symlink() && !path.canonicalize().map_err(unreadable)?.starts_with(dir) {
        let reason = "is a symlink that leads out of its directory".to_owned();
        return Err(skipped(reason, "symlink the entire directory instead, or copy the file"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(lstat.len().min(64 * 1024)).unwrap_or_default() + 1);
    // A pipe must not be opened at all, because its other end may not be open.
    let is_file =
        lstat.is_file() || (lstat.is_symlink() && fs::metadata(path).map_err(unreadable)?.is_file());
    if !is_file {
        return Err(skipped("is not a file".to_owned(), "put a text file there"));
    }
    let opened = open(path).map_err(unreadable)?;
    opened.take(MAX_SKILL_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_SKILL_BYTES {
        return Err(skipped("is larger than 1 MiB".to_owned(), "move details into files next to it"));
    }
    let place = SkillLocation::Directory { dir: dir.to_owned(), file };
    let trust = if root.trusted.contains(dir) { Trust::Trusted } else { root.trust };
    match Skill::parse(&root.provenance, root.scope, &bytes, place) {
        Ok(skill) => Ok(Arc::new(Skill { trust, ..skill })),
        Err(error) => Err(Problem { line: Some(error.line), ..skipped(error.reason, error.fix) }),
    }
}
