//! Which files of servers the user has trusted: programs named by a project's file never start before that.
//!
//! Trust is bound to the path of a file and to what is in it, so any change has to be trusted again. The book is
//! a text that the host keeps outside of every project.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The files the user has trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustBook {
    /// The digest of each file, by its path.
    files: BTreeMap<String, String>,
}

/// A book that cannot be read. It trusts nothing, and must not be overwritten unseen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the book of trusted files cannot be read; delete it to begin anew")]
pub struct TrustError;

impl TrustBook {
    /// Reads a book; an empty text is an empty book.
    ///
    /// # Errors
    ///
    /// Fails when the text is not a book.
    pub fn parse(text: &str) -> Result<Self, TrustError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let book: Value = serde_json::from_str(text).map_err(|_| TrustError)?;
        let files = book.get("files").and_then(Value::as_object).ok_or(TrustError)?;
        let entry = |(path, digest): (&String, &Value)| {
            digest.as_str().map(|digest| (path.clone(), digest.to_owned())).ok_or(TrustError)
        };
        Ok(Self { files: files.iter().map(entry).collect::<Result<_, _>>()? })
    }

    /// Writes the book.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("{:#}\n", serde_json::json!({ "files": self.files }))
    }

    /// Says whether the user has trusted this file as it is. The path must be absolute and free of links.
    #[must_use]
    pub fn trusts(&self, path: &str, content: &str) -> bool {
        self.files.get(path).is_some_and(|known| *known == digest(content))
    }

    /// Lists the paths that are trusted with this content.
    pub fn trusted<'a>(&'a self, content: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let wanted = digest(content);
        self.files.iter().filter(move |(_, known)| **known == wanted).map(|(path, _)| path.as_str())
    }

    /// Trusts a file as it is.
    pub fn trust(&mut self, path: &str, content: &str) {
        self.files.insert(path.to_owned(), digest(content));
    }

    /// Trusts a file no longer, and says whether it was trusted.
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
    use super::{TrustBook, TrustError};

    #[test]
    fn trust_is_for_one_file_as_it_is() {
        let mut book = TrustBook::parse("").unwrap();
        book.trust("/a/.rkat/mcp.toml", "one");
        let mut book = TrustBook::parse(&book.to_text()).unwrap();
        let trusted = [
            book.trusts("/a/.rkat/mcp.toml", "one"),
            book.trusts("/a/.rkat/mcp.toml", "two"),
            book.trusts("/b/.rkat/mcp.toml", "one"),
        ];
        assert_eq!(trusted, [true, false, false]);
        assert_eq!((book.forget("/a/.rkat/mcp.toml"), book.forget("/a/.rkat/mcp.toml")), (true, false));
        assert!(!book.trusts("/a/.rkat/mcp.toml", "one"));
    }

    #[test]
    fn a_book_that_cannot_be_read_trusts_nothing() {
        for text in ["{", "[]", "{\"files\":{\"/a\":1}}"] {
            assert_eq!(TrustBook::parse(text), Err(TrustError), "{text}");
        }
    }
}
