//! Trust in MCP config files: commands in a project's file never start before the user trusts it.
//!
//! Trust is bound to the path and the content of a file, so any change must be trusted again. The host stores the trust
//! file outside of all projects.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Files that the user has trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustStore {
    /// Digest of each file, by path.
    files: BTreeMap<String, String>,
}

/// Error of a trust file that cannot be read. It must not be overwritten silently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the trust file; delete it to start over")]
pub struct TrustError;

impl TrustStore {
    /// Parses a trust file. An empty text has no entries.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a valid trust file.
    pub fn parse(text: &str) -> Result<Self, TrustError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let store: Value = serde_json::from_str(text).map_err(|_| TrustError)?;
        let files = store.get("files").and_then(Value::as_object).ok_or(TrustError)?;
        let entry = |(path, digest): (&String, &Value)| {
            digest.as_str().map(|digest| (path.clone(), digest.to_owned())).ok_or(TrustError)
        };
        Ok(Self { files: files.iter().map(entry).collect::<Result<_, _>>()? })
    }

    /// Serializes the trust file.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("{:#}\n", serde_json::json!({ "files": self.files }))
    }

    /// Returns `true` if the user has trusted this file with this content. The path must be absolute and without
    /// symlinks.
    #[must_use]
    pub fn trusts(&self, path: &str, content: &str) -> bool {
        self.files.get(path).is_some_and(|known| *known == digest(content))
    }

    /// Returns the paths that are trusted with this content.
    pub fn trusted<'a>(&'a self, content: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let wanted = digest(content);
        self.files.iter().filter(move |(_, known)| **known == wanted).map(|(path, _)| path.as_str())
    }

    /// Trusts a file with its current content.
    pub fn trust(&mut self, path: &str, content: &str) {
        self.files.insert(path.to_owned(), digest(content));
    }

    /// Revokes trust in a file, and returns `true` if it was trusted.
    pub fn forget(&mut self, path: &str) -> bool {
        self.files.remove(path).is_some()
    }
}

fn digest(content: &str) -> String {
    let hex: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::{TrustError, TrustStore};

    #[test]
    fn trust_covers_one_path_and_content() {
        let mut store = TrustStore::parse("").unwrap();
        store.trust("/a/.rkat/mcp.toml", "one");
        let mut store = TrustStore::parse(&store.to_text()).unwrap();
        let trusted = [
            store.trusts("/a/.rkat/mcp.toml", "one"),
            store.trusts("/a/.rkat/mcp.toml", "two"),
            store.trusts("/b/.rkat/mcp.toml", "one"),
        ];
        assert_eq!(trusted, [true, false, false]);
        assert_eq!((store.forget("/a/.rkat/mcp.toml"), store.forget("/a/.rkat/mcp.toml")), (true, false));
        assert!(!store.trusts("/a/.rkat/mcp.toml", "one"));
    }

    #[test]
    fn invalid_trust_file_is_an_error() {
        for text in ["{", "[]", "{\"files\":{\"/a\":1}}"] {
            assert_eq!(TrustStore::parse(text), Err(TrustError), "{text}");
        }
    }
}
