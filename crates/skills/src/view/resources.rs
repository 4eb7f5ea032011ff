//! Skills as resources: `skill://NAME/SKILL.md`, the files next to it, and the replies of the MCP skills extension.

use std::collections::BTreeSet;
use std::sync::Arc;

use meerkat_core::excerpt;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Digest, Document, Error, Skill, Snapshot, path};

/// A resource in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// The URI.
    pub uri: String,
    /// The name.
    pub name: String,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its media type.
    pub mime_type: &'static str,
    /// Its size in bytes.
    pub size: u64,
}

/// Content of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceText {
    /// Text.
    Text {
        /// Its media type.
        mime_type: &'static str,
        /// The text.
        text: String,
    },
    /// Anything else.
    Bytes {
        /// Its media type.
        mime_type: &'static str,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// A file in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ManifestFile {
    /// The URI.
    pub uri: String,
    /// Its digest, `sha256:` and 64 digits.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
}

/// A skill as listed by the extension.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkillManifest {
    /// URI of its SKILL.md.
    pub uri: String,
    /// Its frontmatter, as written.
    pub frontmatter: Map<String, Value>,
    /// The files.
    pub resources: Vec<ManifestFile>,
    /// Metadata: `rkat/left_out` is the number of files that are too large or too many to be included.
    #[serde(rename = "_meta", skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

/// A directory entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryEntry {
    /// The URI.
    pub uri: String,
    /// The name.
    pub name: String,
    /// Its media type; `inode/directory` for a directory.
    pub mime_type: &'static str,
    /// Its size in bytes, if it is a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

const SCHEME: &str = "skill://";
/// Metadata key for the number of files of a skill that its manifest omits.
const LEFT_OUT: &str = "rkat/left_out";
const DIR: &str = "inode/directory";
/// Number of files after which a page of manifests ends.
const PAGE_FILES: usize = 1024;
/// Number of bytes after which a page of manifests ends, because every file is read for its digest.
const PAGE_BYTES: u64 = 32 * 1024 * 1024;

/// Returns the URI of a skill's file.
#[must_use]
pub fn uri(skill: &Skill, file: &str) -> String {
    let file: Vec<_> = file.split('/').map(path::encoded).collect();
    format!("{SCHEME}{}/{}", path::encoded(&skill.name), file.join("/"))
}

/// Lists the SKILL.md of every skill. Its other files are available through its manifest or its directory.
#[must_use]
pub fn resources(snapshot: &Snapshot) -> Vec<Resource> {
    let resource = |skill: &Arc<Skill>| Resource {
        uri: uri(skill, "SKILL.md"),
        name: skill.display_name().to_owned(),
        description: Some(skill.description.clone()),
        mime_type: "text/markdown",
        size: skill.size,
    };
    snapshot.active().map(resource).collect()
}

/// Reads a resource.
///
/// # Errors
/// Returns an error if the URI does not name a skill's file, or leads out of the skill's directory.
pub fn read_resource(snapshot: &Snapshot, uri: &str) -> Result<ResourceText, Error> {
    let (skill, file) = parts(snapshot, uri)?;
    let bytes = skill.read_file(&actual(skill, &file)?)?;
    let mime_type = mime_type(&file);
    Ok(match String::from_utf8(bytes) {
        Ok(text) if is_text(mime_type, &text) => ResourceText::Text { mime_type, text },
        Ok(text) => ResourceText::Bytes { mime_type, bytes: text.into_bytes() },
        Err(error) => ResourceText::Bytes { mime_type, bytes: error.into_bytes() },
    })
}

/// Splits a URI into the skill and the path of the file.
fn parts<'a>(snapshot: &'a Snapshot, uri: &str) -> Result<(&'a Arc<Skill>, String), Error> {
    let bad = || Error::BadUri(excerpt(uri));
    let mut segments = uri.strip_prefix(SCHEME).ok_or_else(bad)?.split('/');
    let name = segments.next().and_then(path::decoded).ok_or_else(bad)?;
    let file: Option<Vec<_>> = segments.map(path::segment).collect();
    let file = file.ok_or_else(bad)?.join("/");
    Ok((snapshot.by_name(&name)?, file))
}

/// Returns the actual file name. `SKILL.md` refers to the skill's text even if that file has another name.
fn actual(skill: &Skill, file: &str) -> Result<String, Error> {
    match &skill.place {
        crate::SkillLocation::Directory { file: actual, .. } if file == "SKILL.md" => {
            Ok((*actual).to_owned())
        }
        _ if file.is_empty() => Err(Error::NoSuchFile(file.to_owned())),
        _ => Ok(file.to_owned()),
    }
}

/// Returns the manifest of a skill. It reads all of the skill's files.
///
/// # Errors
/// Returns an error if the URI is not that of a SKILL.md, or a file cannot be read.
pub fn manifest(snapshot: &Snapshot, uri: &str) -> Result<SkillManifest, Error> {
    let (skill, file) = parts(snapshot, uri)?;
    if file != "SKILL.md" {
        return Err(Error::BadUri(excerpt(uri)));
    }
    describe(skill)
}

/// Returns the manifests of up to `count` skills from index `start`, or fewer if they have many or large files, and
/// the index to continue from if there are more. Skills that cannot be read are skipped.
#[must_use]
pub fn manifests(snapshot: &Snapshot, start: usize, count: usize) -> (Vec<SkillManifest>, Option<usize>) {
    let (mut page, mut seen, mut files, mut bytes) = (Vec::new(), start, 0, 0);
    for skill in snapshot.active().skip(start).take(count) {
        if files >= PAGE_FILES || bytes >= PAGE_BYTES {
            break;
        }
        seen += 1;
        let Ok(manifest) = describe(skill) else { continue };
        files += manifest.resources.len();
        bytes += manifest.resources.iter().map(|file| file.size).sum::<u64>();
        page.push(manifest);
    }
    (page, snapshot.active().nth(seen).map(|_| seen))
}

fn describe(skill: &Arc<Skill>) -> Result<SkillManifest, Error> {
    let text = skill.read()?.text;
    let document = Document::read(&text);
    let document = document.map_err(|source| Error::Broken { path: skill.base().into(), source })?;
    let described = |file: crate::BundledFile| {
        let bytes = skill.read_file(&file.path)?;
        let name = if is_skill_file(skill, &file.path) { "SKILL.md" } else { &file.path };
        Ok(ManifestFile { uri: uri(skill, name), digest: Digest::compute(&bytes), size: bytes.len() as u64 })
    };
    let bundle = skill.bundle()?;
    let listed = bundle.files.len();
    let files = bundle.files.into_iter().map(described);
    // Clients could not verify a file that is too large to read, so the manifest omits it.
    let large = |file: &Result<ManifestFile, Error>| matches!(file, Err(Error::TooLarge { .. }));
    let resources = files.filter(|file| !large(file)).collect::<Result<Vec<_>, Error>>()?;
    let left_out = bundle.left_out + listed - resources.len();
    let meta = (left_out > 0).then(|| (LEFT_OUT.to_owned(), Value::from(left_out))).into_iter().collect();
    Ok(SkillManifest { uri: uri(skill, "SKILL.md"), frontmatter: document.fields, resources, meta })
}

fn is_skill_file(skill: &Skill, path: &str) -> bool {
    match &skill.place {
        crate::SkillLocation::Directory { file, .. } => path == *file,
        crate::SkillLocation::Text(_) => path == "SKILL.md",
    }
}

/// Lists a directory of a skill, or all skills for `skill://`.
///
/// # Errors
/// Returns an error if the directory does not exist.
pub fn directory(snapshot: &Snapshot, uri_of: &str) -> Result<Vec<DirectoryEntry>, Error> {
    let wanted = uri_of.trim_end_matches('/');
    if wanted == SCHEME.trim_end_matches('/') {
        let entry = |skill: &Arc<Skill>| {
            let uri = format!("{SCHEME}{}", path::encoded(&skill.name));
            DirectoryEntry { uri, name: skill.name.clone(), mime_type: DIR, size: None }
        };
        return Ok(snapshot.active().map(entry).collect());
    }
    let (skill, dir) = parts(snapshot, wanted)?;
    let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
    let mut entries = Vec::new();
    let mut dirs = BTreeSet::new();
    for file in skill.bundle()?.files {
        let Some(rest) = file.path.strip_prefix(&prefix) else { continue };
        if let Some((name, _)) = rest.split_once('/') {
            dirs.insert(name.to_owned());
            continue;
        }
        let name = if is_skill_file(skill, &file.path) { "SKILL.md" } else { rest };
        let uri = uri(skill, &format!("{prefix}{name}"));
        let (name, mime_type) = (name.to_owned(), mime_type(rest));
        entries.push(DirectoryEntry { uri, name, mime_type, size: Some(file.size) });
    }
    for name in dirs {
        let uri = uri(skill, &format!("{prefix}{name}"));
        entries.push(DirectoryEntry { uri, name, mime_type: DIR, size: None });
    }
    if entries.is_empty() { Err(Error::NoSuchFile(dir)) } else { Ok(entries) }
}

fn is_text(mime_type: &str, text: &str) -> bool {
    !mime_type.starts_with("image/") && mime_type != "application/pdf" && !text.contains('\0')
}

/// Guesses the media type of a file from its name.
fn mime_type(file: &str) -> &'static str {
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        "md" | "markdown" => "text/markdown",
        "txt" | "rst" | "log" => "text/plain",
        "json" => "application/json",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "xml" => "application/xml",
        "js" | "mjs" | "cjs" => "text/javascript",
        "ts" | "tsx" => "text/x-typescript",
        "py" => "text/x-python",
        "sh" | "bash" => "text/x-shellscript",
        "rs" => "text/x-rust",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}
