//! Installs skills into a directory of skills, and removes them.
//!
//! A skill is copied to a temporary directory and then moved into place, so it is installed atomically. A lock file
//! records the origin and the digest of each skill, so that later changes are detected. Nothing in a skill is ever run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use meerkat_core::excerpt;
use serde::{Deserialize, Serialize};

use crate::files::{open_lock, put_dir, read_bounded, refuse_link, write_atomic};
use crate::source::{check_url, clone_into};
use crate::{
    Digest, Directory, Error, GitOptions, Limits, Provenance, Scope, Skill, SkillLocation, SkillName,
    Source as _, SourceId, Transport,
};

/// Name of the lock file in a directory of skills.
const LOCK: &str = "skills.lock.json";
/// Maximum size of the lock file, in bytes.
const MAX_LOCK_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum number of files in an installed skill.
const MAX_FILES: usize = 5_000;
/// Maximum size of an installed skill, in bytes.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Origin of a skill to install.
pub enum Origin {
    /// A directory.
    Directory(PathBuf),
    /// A git repository.
    Git(GitOptions),
}

/// Handling of an existing skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// Keep it and fail.
    Refuse,
    /// Replace or delete it.
    Replace,
}

/// An installed skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// The name.
    pub name: String,
    /// The origin.
    pub origin: String,
    /// Its commit, if it came from a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Digest of all of its files.
    pub digest: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Lock {
    version: u32,
    skills: BTreeMap<String, Installed>,
}

/// Installs a skill into a directory of skills. `name` picks one if the origin has several.
///
/// # Errors
/// Returns an error if the skill does not exist, or one of that name is already installed.
pub async fn install(
    origin: &Origin,
    name: Option<&str>,
    root: &Path,
    overwrite: Overwrite,
) -> Result<Installed, Error> {
    match origin {
        Origin::Directory(dir) => {
            let path = dir.canonicalize().map_err(Error::file("read", dir))?.display().to_string();
            let source = From { dir, bounds: None, origin: path, commit: None };
            place(source, name, root, overwrite)
        }
        Origin::Git(options) => {
            check_url(&options.url)?;
            fs::create_dir_all(root).map_err(Error::file("create", root))?;
            let fetched = tempfile::Builder::new().prefix(".fetch-").tempdir_in(root);
            let fetched = fetched.map_err(Error::file("create a directory in", root))?;
            let commit = clone_into(fetched.path(), options).await?;
            let inner = options.skills_root.clone().unwrap_or_default();
            let origin = crate::source::redacted_url(&options.url);
            let dir = &fetched.path().join(inner);
            let bounds = Some(fetched.path());
            place(From { dir, bounds, origin, commit: Some(commit) }, name, root, overwrite)
        }
    }
}

/// Source to install a skill from.
struct From<'a> {
    dir: &'a Path,
    /// Directory that symlinks must not leave.
    bounds: Option<&'a Path>,
    origin: String,
    commit: Option<String>,
}

fn place(
    source: From<'_>,
    name: Option<&str>,
    root: &Path,
    overwrite: Overwrite,
) -> Result<Installed, Error> {
    let skill = pick(&source, name)?;
    let From { origin, commit, .. } = source;
    let SkillLocation::Directory { dir: from, .. } = &skill.place else {
        return Err(Error::NothingToInstall(origin));
    };
    fs::create_dir_all(root).map_err(Error::file("create", root))?;
    let _guard = guard(root)?;
    // Read the lock file before writing anything, so that an invalid one is reported first.
    let mut lock = read_lock(root)?;
    let slug = SkillName::nearest(&skill.name);
    let target = root.join(slug.as_str());
    if overwrite == Overwrite::Refuse && target.symlink_metadata().is_ok() {
        return Err(Error::Exists(target));
    }
    let fresh = tempfile::Builder::new().prefix(".install-").tempdir_in(root);
    let fresh = fresh.map_err(Error::file("create a directory in", root))?;
    let copied = fresh.path().join("skill");
    Copy::default().dir(from, &copied)?;
    let digest = tree_digest(&copied)?.to_string();
    put_dir(&copied, &target)?;
    let installed = Installed { name: slug.to_string(), origin, commit, digest };
    lock.skills.insert(slug.to_string(), installed.clone());
    write_lock(root, &lock)?;
    Ok(installed)
}

/// Finds the skill to install.
fn pick(&From { dir, bounds, ref origin, .. }: &From<'_>, name: Option<&str>) -> Result<Arc<Skill>, Error> {
    let id = SourceId::from_location(origin);
    let provenance = Provenance::new(id, "install", Transport::Filesystem, String::new());
    let source = Directory::new(provenance, Scope::User, dir.to_owned(), Limits::default());
    let source = bounds.map(Path::to_owned).into_iter().fold(source, Directory::within);
    let found = source.scan();
    let base = dir.canonicalize().map_err(Error::file("read", dir))?;
    let is_root =
        |skill: &&Arc<Skill>| matches!(&skill.place, SkillLocation::Directory { dir, .. } if *dir == base);
    let find_named = |name: &str| {
        let lower = name.to_lowercase();
        found
            .skills
            .iter()
            .find(|skill| skill.name.to_lowercase() == lower || skill.key.skill_name.as_str() == lower)
    };
    let picked = match (name, found.skills.as_slice()) {
        (Some(name), _) => find_named(name).ok_or_else(|| Error::NoSuchName(name.to_owned()))?,
        (None, []) => return Err(broken(&found.problems, origin)),
        (None, [only]) => only,
        (None, several) => match several.iter().find(is_root) {
            Some(root) => root,
            None => {
                let names = several.iter().take(20).map(|skill| skill.name.clone()).collect();
                return Err(Error::Ambiguous { origin: origin.clone(), names });
            }
        },
    };
    Ok(Arc::clone(picked))
}

/// Returns the error for an origin without skills, with the first problem as the reason.
fn broken(problems: &[crate::Problem], origin: &str) -> Error {
    problems.first().map_or_else(
        || Error::NothingToInstall(origin.to_owned()),
        |problem| Error::NothingToInstall(format!("{origin} ({problem})")),
    )
}

/// Removes an installed skill.
///
/// # Errors
/// Returns an error if the skill does not exist. Unless `overwrite` is [`Overwrite::Replace`], also returns one if the
/// skill was not installed by this crate, or was changed since.
pub fn remove(root: &Path, name: &str, overwrite: Overwrite) -> Result<Installed, Error> {
    let slug = parse_name(name)?;
    let _guard = guard(root)?;
    let mut lock = read_lock(root)?;
    let dir = root.join(slug.as_str());
    let Some(installed) = lock.skills.remove(slug.as_str()) else {
        return remove_own(dir, &slug, overwrite);
    };
    if dir.symlink_metadata().is_ok() {
        let unchanged = tree_digest(&dir).is_ok_and(|digest| digest.to_string() == installed.digest);
        if !unchanged && overwrite == Overwrite::Refuse {
            return Err(Error::Changed(dir));
        }
        crate::files::remove(&dir)?;
    }
    write_lock(root, &lock)?;
    Ok(installed)
}

/// Removes a skill that was not installed, if `overwrite` allows it.
fn remove_own(dir: PathBuf, slug: &SkillName, overwrite: Overwrite) -> Result<Installed, Error> {
    if !dir.join("SKILL.md").is_file() {
        return Err(Error::NoSuchName(slug.to_string()));
    }
    if overwrite == Overwrite::Refuse {
        return Err(Error::NotInstalled(dir));
    }
    let digest = tree_digest(&dir)?.to_string();
    crate::files::remove(&dir)?;
    Ok(Installed { name: slug.to_string(), origin: dir.display().to_string(), commit: None, digest })
}

/// Creates a new skill from a template, and returns its file.
///
/// # Errors
/// Returns an error if the format forbids the name, or the skill already exists.
pub fn create(root: &Path, name: &str, description: &str) -> Result<PathBuf, Error> {
    let slug = parse_name(name)?;
    let dir = root.join(slug.as_str());
    fs::create_dir_all(root).map_err(Error::file("create", root))?;
    fs::create_dir(&dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Taken(dir.clone()),
        _ => Error::File { doing: "create", path: dir.clone(), source: error },
    })?;
    let title: Vec<String> = slug.as_str().split('-').map(capitalized).collect();
    let title = title.join(" ");
    // Every JSON string is also a valid YAML string.
    let description = serde_json::Value::from(description);
    let text = format!(
        "---\nname: {slug}\ndescription: {description}\n---\n# {title}\n\nWrite the steps here, in order. \
         Put long references, scripts and\ntemplates into files next to this one, and name them where they are needed.\n"
    );
    let file = dir.join("SKILL.md");
    write_atomic(&file, text.as_bytes())?;
    Ok(file)
}

fn parse_name(name: &str) -> Result<SkillName, Error> {
    name.parse().map_err(|_| Error::BadName {
        name: excerpt(name),
        why: "may contain only lowercase letters, digits, and hyphens",
    })
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Prevents other processes from writing the lock file until the returned file is closed.
fn guard(root: &Path) -> Result<File, Error> {
    let path = root.join(".skills.lock");
    refuse_link(&path)?;
    let file = open_lock(&path).map_err(Error::file("create", &path))?;
    file.lock().map_err(Error::file("lock", &path))?;
    Ok(file)
}

fn read_lock(root: &Path) -> Result<Lock, Error> {
    let path = root.join(LOCK);
    refuse_link(&path)?;
    let text = match read_bounded(&path, MAX_LOCK_BYTES) {
        Ok(text) => text,
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Lock { version: 1, ..Lock::default() });
        }
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&text).map_err(|error| Error::BadLock { path, why: error.to_string() })
}

fn write_lock(root: &Path, lock: &Lock) -> Result<(), Error> {
    let path = root.join(LOCK);
    let text = serde_json::to_vec_pretty(lock);
    let text = text.map_err(|error| Error::BadLock { path: path.clone(), why: error.to_string() })?;
    write_atomic(&path, &text)
}

/// Copies a skill without symlinks and `.git` directories.
#[derive(Default)]
struct Copy {
    files: usize,
    bytes: u64,
}

impl Copy {
    fn dir(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        fs::create_dir_all(to).map_err(Error::file("create", to))?;
        for entry in fs::read_dir(from).map_err(Error::file("read", from))? {
            let entry = entry.map_err(Error::file("read", from))?;
            let metadata = entry.metadata().map_err(Error::file("read", entry.path()))?;
            let (path, target) = (entry.path(), to.join(entry.file_name()));
            if metadata.is_dir() && entry.file_name() != ".git" {
                self.dir(&path, &target)?;
            } else if metadata.is_file() {
                self.files += 1;
                self.bytes += metadata.len();
                if self.files > MAX_FILES || self.bytes > MAX_BYTES {
                    return Err(Error::TooLarge { path, size: self.bytes, limit: MAX_BYTES });
                }
                fs::copy(&path, &target).map_err(Error::file("copy", &path))?;
            }
        }
        Ok(())
    }
}

/// Computes a digest of all files below a directory, from their paths and contents.
fn tree_digest(dir: &Path) -> Result<Digest, Error> {
    let mut lines = Vec::new();
    digest_into(dir, dir, &mut lines)?;
    lines.sort_unstable();
    Ok(Digest::compute(lines.concat().as_bytes()))
}

fn digest_into(base: &Path, dir: &Path, lines: &mut Vec<String>) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::file("read", dir))? {
        let path = entry.map_err(Error::file("read", dir))?.path();
        let metadata = path.symlink_metadata().map_err(Error::file("read", &path))?;
        if metadata.is_dir() {
            digest_into(base, &path, lines)?;
        } else if metadata.is_file() {
            let bytes = fs::read(&path).map_err(Error::file("read", &path))?;
            let relative = path.strip_prefix(base).unwrap_or(&path);
            lines.push(format!("{}\0{}\n", relative.display(), Digest::compute(&bytes)));
        }
    }
    Ok(())
}
