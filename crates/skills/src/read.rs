//! Parses a skill, and reads its text and bundled files.
//!
//! A path is checked before it is used, and again after its symlinks are resolved, so an opened file is always in the
//! skill's own directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use meerkat_core::excerpt;
use serde::Serialize;

use crate::files::read_bounded;
use crate::source::is_foreign;
use crate::{
    Digest, Document, Error, MAX_SKILL_BYTES, ParseError, Provenance, Scope, Skill, SkillKey, SkillLocation,
    SkillName, Trust, path,
};

/// Maximum size of a bundled file, in bytes.
pub const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Maximum number of listed files per skill.
pub const MAX_FILES: usize = 512;
/// Maximum total size of the listed files of a skill, in bytes.
pub const MAX_FILES_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum depth of bundled files below the skill's directory.
const MAX_DEPTH: usize = 8;
/// Maximum number of visited files and directories. A directory with more is probably a skill by mistake.
const MAX_SEEN: usize = 10_000;

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BundledFile {
    /// Its path relative to the skill's directory, with slashes.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
}

/// Files of a skill, SKILL.md first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Bundle {
    /// The files.
    pub files: Vec<BundledFile>,
    /// Number of files omitted because of the limits.
    pub left_out: usize,
}

/// Text of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillText {
    /// The entire SKILL.md.
    pub text: String,
    /// Byte offset of the body.
    body: usize,
}

impl SkillText {
    /// Returns the body, which follows the frontmatter.
    #[must_use]
    pub fn body(&self) -> &str {
        self.text[self.body..].trim_start_matches(['\r', '\n'])
    }
}

impl Skill {
    /// Parses a trusted skill.
    pub(crate) fn parse(
        source: &Arc<Provenance>,
        scope: Scope,
        bytes: &[u8],
        place: SkillLocation,
    ) -> Result<Self, ParseError> {
        let text = String::from_utf8_lossy(bytes);
        let document = Document::read(&text)?;
        Ok(Self {
            key: SkillKey { source_uuid: source.source_uuid, skill_name: SkillName::nearest(&document.name) },
            title: None,
            description: document.description,
            scope,
            source: Arc::clone(source),
            digest: Digest::compute(bytes),
            size: bytes.len() as u64,
            traits: document.traits,
            name: document.name,
            trust: Trust::Trusted,
            place,
        })
    }

    /// Reads its SKILL.md.
    ///
    /// # Errors
    /// Returns an error if the file is missing, too large, or no longer valid.
    pub fn read(&self) -> Result<SkillText, Error> {
        let (text, path) = match &self.place {
            SkillLocation::Text(text) => (text.to_string(), PathBuf::from(self.base())),
            SkillLocation::Directory { dir, file } => {
                let path = inside(dir, Path::new(file))?;
                let bytes = read_bounded(&path, MAX_SKILL_BYTES)?;
                (String::from_utf8_lossy(&bytes).into_owned(), path)
            }
        };
        let document = Document::read(&text).map_err(|source| Error::Broken { path, source })?;
        let body = text.len() - document.body.len();
        Ok(SkillText { text, body })
    }

    /// Lists its files.
    ///
    /// # Errors
    /// Returns an error if its directory cannot be read.
    pub fn bundle(&self) -> Result<Bundle, Error> {
        let SkillLocation::Directory { dir, file } = &self.place else {
            let only = BundledFile { path: "SKILL.md".to_owned(), size: self.size };
            return Ok(Bundle { files: vec![only], left_out: 0 });
        };
        let mut listing = Listing::default();
        listing.collect(dir, "", 0).map_err(Error::file("list", dir))?;
        let mut files = listing.files;
        if !files.iter().any(|listed| listed.path == *file) {
            // The listing hit its limit before it reached SKILL.md, which always exists.
            files.push(BundledFile { path: (*file).to_owned(), size: self.size });
        }
        files.sort_by(|a, b| (a.path != *file, &a.path).cmp(&(b.path != *file, &b.path)));
        let mut bytes = 0;
        let fits = files.iter().take(MAX_FILES).take_while(|file| {
            bytes += file.size;
            bytes <= MAX_FILES_BYTES
        });
        let count = fits.count();
        let left_out = files.len() - count;
        files.truncate(count);
        Ok(Bundle { files, left_out })
    }

    /// Reads one of its files.
    ///
    /// # Errors
    /// Returns an error if the path leads out of its directory, or the file is missing or too large.
    pub fn read_file(&self, wanted: &str) -> Result<Vec<u8>, Error> {
        let refuse = |why| Error::BadPath { path: excerpt(wanted), why };
        let relative = path::relative(wanted).map_err(refuse)?;
        match &self.place {
            SkillLocation::Text(text) if relative == Path::new("SKILL.md") => Ok(text.as_bytes().to_vec()),
            SkillLocation::Text(_) => Err(Error::NoSuchFile(wanted.to_owned())),
            SkillLocation::Directory { dir, file } => {
                let limit = if relative == Path::new(file) { MAX_SKILL_BYTES } else { MAX_FILE_BYTES };
                read_bounded(&inside(dir, &relative)?, limit)
            }
        }
    }

    /// Returns the relative path of the bundled file at a file system path, if it is one.
    pub(crate) fn file_at(&self, path: &Path) -> Option<String> {
        let SkillLocation::Directory { dir, file } = &self.place else { return None };
        let relative = path.strip_prefix(dir).ok()?;
        let bundled = is_listed(relative) && relative != Path::new(file);
        let parts: Option<Vec<_>> = relative.iter().map(|part| part.to_str()).collect();
        parts.filter(|_| bundled).map(|parts| parts.join("/"))
    }
}

/// Resolves a path and checks that it is still inside the directory.
pub(crate) fn inside(dir: &Path, relative: &Path) -> Result<PathBuf, Error> {
    let display = || relative.display().to_string();
    let path = dir.join(relative);
    let resolved = path.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::NoSuchFile(display()),
        _ => Error::File { doing: "read", path: path.clone(), source: error },
    })?;
    if !resolved.starts_with(dir) {
        return Err(Error::BadPath {
            path: display(),
            why: "it is a symlink that leads out of the skill's directory",
        });
    }
    // A symlink with an allowed name may point to a hidden file.
    let hidden = resolved.strip_prefix(dir).is_ok_and(|resolved| !is_listed(resolved));
    if hidden || !is_listed(relative) || !resolved.is_file() {
        return Err(Error::NoSuchFile(display()));
    }
    Ok(resolved)
}

/// Returns `true` if a path below a skill's directory is part of the skill, including all of its parents. Entries that
/// are not listed cannot be read either.
fn is_listed(relative: &Path) -> bool {
    relative.iter().all(|part| part.to_str().is_some_and(|name| !is_foreign(name)))
}

/// A listing of the files below a directory.
#[derive(Default)]
struct Listing {
    files: Vec<BundledFile>,
    /// Number of visited entries, listed or not.
    seen: usize,
}

impl Listing {
    /// Lists the files below a directory. Symlinks are not followed; hidden files are not part of a skill.
    fn collect(&mut self, dir: &Path, prefix: &str, depth: usize) -> std::io::Result<()> {
        for entry in fs::read_dir(dir)?.flatten() {
            self.seen += 1;
            if self.seen > MAX_SEEN {
                break;
            }
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !is_foreign(name)) else { continue };
            // Omit files that callers could not request.
            if path::relative(name).is_err() {
                continue;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_file() {
                self.files.push(BundledFile { path: format!("{prefix}{name}"), size: metadata.len() });
            } else if metadata.is_dir() && depth < MAX_DEPTH {
                // An unreadable directory hides only its own files.
                let _ = self.collect(&entry.path(), &format!("{prefix}{name}/"), depth + 1);
            }
        }
        Ok(())
    }
}
