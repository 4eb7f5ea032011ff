//! Identifiers. Each is a newtype that validates on construction, so that a value of the type is always
//! well formed. Nothing here makes up a new id: the owner of the thing does, and passes it in.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// An identifier that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is not a UUID.
    #[error("`{0}` is not a {1}; expected a UUID such as `01936f8a-7b2c-7000-8000-000000000001`")]
    NotUuid(String, &'static str),
    /// The text is not a realm id.
    #[error("`{0}` is not a realm id: {1}")]
    Realm(String, &'static str),
    /// The text is not a blob id.
    #[error("`{0}` is not a blob id; expected `sha256:` and 64 hexadecimal digits")]
    Blob(String),
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(#[schemars(with = "String")] Uuid);

        impl $name {
            /// Wraps a UUID made by the owner of the id.
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Returns the UUID.
            #[must_use]
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Uuid::try_parse(text)
                    .map(Self)
                    .map_err(|_| IdError::NotUuid(text.chars().take(80).collect(), $what))
            }
        }
    };
}

uuid_id!(
    /// Names a session for its whole life.
    SessionId,
    "session id"
);
uuid_id!(
    /// Names one run: one request to a session.
    RunId,
    "run id"
);
uuid_id!(
    /// Names one event on a stream.
    EventId,
    "event id"
);

/// Names a realm, the unit of sharing.
///
/// One to 64 characters, the first a letter or digit, the rest letters, digits, `_` or `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct RealmId(String);

impl RealmId {
    /// Reads an id that a user chose. UUID-shaped ids are refused: they are easily taken for session ids.
    ///
    /// # Errors
    /// Says which rule the text breaks.
    pub fn explicit(text: &str) -> Result<Self, IdError> {
        if Uuid::try_parse(text).is_ok() {
            return Err(IdError::Realm(text.to_owned(), "it looks like a session id; choose a name"));
        }
        text.parse()
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RealmId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let refuse = |why| Err(IdError::Realm(text.chars().take(80).collect(), why));
        if text.is_empty() || text.len() > 64 {
            return refuse("it must have 1 to 64 characters");
        }
        if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return refuse("it must start with a letter or a digit");
        }
        if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
            return refuse("only letters, digits, `_` and `-` are allowed");
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for RealmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RealmId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Names a blob by its content: `sha256:` and the digest in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct BlobId(String);

impl BlobId {
    /// Makes the id of a digest.
    #[must_use]
    pub fn from_digest(digest: &[u8; 32]) -> Self {
        use fmt::Write as _;
        let mut text = String::with_capacity(71);
        text.push_str("sha256:");
        for byte in digest {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BlobId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let hex = text.strip_prefix("sha256:").unwrap_or_default();
        let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if hex.len() == 64 && hex.bytes().all(lower_hex) {
            return Ok(Self(text.to_owned()));
        }
        Err(IdError::Blob(text.chars().take(80).collect()))
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for BlobId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realm_ids_follow_the_rules() {
        for good in ["team-alpha", "a", "0x", "realm-01936f8a-7b2c-7000-8000-000000000001", &"r".repeat(64)] {
            assert_eq!(good.parse::<RealmId>().map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "-a", "_a", "a b", "a:b", "a/../b", "é", &"r".repeat(65)] {
            assert!(bad.parse::<RealmId>().is_err(), "{bad}");
        }
        let uuid = "01936f8a-7b2c-7000-8000-000000000001";
        assert!(uuid.parse::<RealmId>().is_ok());
        assert!(RealmId::explicit(uuid).is_err());
    }

    #[test]
    fn blob_ids_are_lower_case_digests() {
        let id = BlobId::from_digest(&[0xab; 32]);
        assert_eq!(id.as_str(), format!("sha256:{}", "ab".repeat(32)));
        assert_eq!(id.as_str().parse(), Ok(id));
        assert!("sha256:ab".parse::<BlobId>().is_err());
        assert!(format!("sha256:{}", "AB".repeat(32)).parse::<BlobId>().is_err());
    }

    #[test]
    fn a_bad_session_id_says_what_it_should_be() {
        let error = "nope".parse::<SessionId>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`nope` is not a session id; expected a UUID such as `01936f8a-7b2c-7000-8000-000000000001`"
        );
    }
}
