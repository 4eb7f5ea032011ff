//! Secret redaction: one value holds the secrets of a process, and every exit point for text uses it.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use crate::secret_args::{is_scheme, secret_args};
use crate::secret_name::is_secret_name;

/// Minimum length of a secret: shorter values occur in too many unrelated places.
const MIN_SECRET_LEN: usize = 8;
/// Maximum number of secrets; more than that are probably not real.
const MAX_SECRETS: usize = 4096;

/// Minimum length of a line of a secret to be a secret by itself.
const MIN_LINE_LEN: usize = 16;
/// Minimum length of a partial secret that is masked where a text was cut.
const MIN_PART_LEN: usize = 4;

/// Ends of a text that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// None: the text is complete.
    None,
    /// The start.
    Start,
    /// The end.
    End,
}

/// The set of a process's secrets. Clones share it.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Vec<String>>>);

impl Redactor {
    /// Replacement for a secret.
    pub const MASK: &'static str = "***";

    /// Adds a secret. In `Bearer x`, it is the `x`; short values are ignored.
    pub fn add(&self, secret: &str) {
        let secret = without_scheme(secret.trim());
        if secret.len() < MIN_SECRET_LEN {
            return;
        }
        self.insert(secret.to_owned());
        // A tool may show individual lines of a key file.
        let lines = secret.lines().map(str::trim).filter(|_| secret.contains('\n'));
        let is_secret_line = |line: &&str| line.len() >= MIN_LINE_LEN && !line.starts_with("-----");
        lines.filter(is_secret_line).for_each(|line| self.insert(line.to_owned()));
        // A secret with quotes or newlines looks different inside JSON.
        let quoted = Value::from(secret).to_string();
        let quoted = quoted[1..quoted.len() - 1].to_owned();
        if quoted != secret {
            self.insert(quoted);
        }
    }

    /// Adds a value if its name implies a secret, and the secrets in a URL regardless of its name.
    pub fn add_named(&self, name: &str, value: &str) {
        if value.contains("://") {
            self.add_url(value);
        } else if is_secret_name(name) && !is_plain(value) {
            self.add(value);
        }
    }

    /// Adds the credentials of a URL, and the secrets in its query.
    pub fn add_url(&self, url: &str) {
        let Some((_, rest)) = url.split_once("://") else { return };
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let host = authority.split('/').next().unwrap_or_default();
        if let Some((user, _)) = host.rsplit_once('@') {
            let (name, password) = user.split_once(':').unwrap_or(("", user));
            self.add_encoded(password);
            // A user name alone is not a secret, unless it is the only credential.
            if password.is_empty() {
                self.add_encoded(name);
            }
        }
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            if is_secret_name(name) {
                self.add_encoded(value);
            }
        }
    }

    /// Adds the secrets in the arguments of a command: values of secret options, variables, and headers, and those in
    /// URLs.
    pub fn add_args(&self, command: &str, args: &[String]) {
        let words = args.iter().flat_map(|arg| arg.split_whitespace());
        words.filter(|word| word.contains("://")).for_each(|word| self.add_url(word));
        for secret in secret_args(command, args) {
            let value = &args[secret.index][secret.range];
            if !is_plain(value) && !value.contains("://") {
                self.add(value);
            }
        }
    }

    /// Adds every string in a value whose name implies a secret.
    pub fn add_value(&self, value: &Value) {
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    match value {
                        Value::String(text) => self.add_named(name, text),
                        other => self.add_value(other),
                    }
                }
            }
            Value::Array(list) => list.iter().for_each(|value| self.add_value(value)),
            _ => {}
        }
    }

    fn add_encoded(&self, text: &str) {
        self.add(text);
        let decoded = percent_decoded(text);
        if decoded != text {
            self.add(&decoded);
        }
    }

    fn insert(&self, secret: String) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_SECRETS && !known.contains(&secret) {
            // Longest first: one secret may be part of another.
            let index = known.partition_point(|other| other.len() >= secret.len());
            known.insert(index, secret);
        }
    }

    /// Replaces the secrets in a text.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().fold(Cow::Borrowed(text), |text, secret| match text.contains(secret.as_str()) {
            true => Cow::Owned(text.replace(secret.as_str(), Self::MASK)),
            false => text,
        })
    }

    /// Replaces the secrets in a text that was cut, and the partial secret at the cut.
    #[must_use]
    pub fn redact_cut<'a>(&self, text: &'a str, cut: Cut) -> Cow<'a, str> {
        let text = self.redact(text);
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let part = known.iter().filter_map(|secret| part_at(&text, secret, cut)).max();
        match part {
            None => text,
            Some(length) if cut == Cut::Start => Cow::Owned(format!("{}{}", Self::MASK, &text[length..])),
            Some(length) => Cow::Owned(format!("{}{}", &text[..text.len() - length], Self::MASK)),
        }
    }

    /// Replaces the secrets in bytes, where these are text.
    #[must_use]
    pub fn redact_bytes(&self, data: &[u8], cut: Cut) -> Vec<u8> {
        let mut clean = Vec::with_capacity(data.len());
        let mut cut = Some(cut).filter(|cut| *cut == Cut::Start);
        for chunk in data.utf8_chunks() {
            let text = self.redact_cut(chunk.valid(), cut.take().unwrap_or(Cut::None));
            clean.extend_from_slice(text.as_bytes());
            clean.extend_from_slice(chunk.invalid());
        }
        clean
    }

    /// Replaces the secrets in every string of a value.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.redact_text(text),
            Value::Array(list) => list.iter_mut().for_each(|value| self.redact_value(value)),
            Value::Object(object) => object.values_mut().for_each(|value| self.redact_value(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Replaces the secrets in a text in place.
    pub fn redact_text(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.redact(text) {
            *text = clean;
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.read().unwrap_or_else(PoisonError::into_inner).len();
        f.debug_struct("Redactor").field("secrets", &count).finish()
    }
}

/// Returns the length of the partial secret at the cut of a text.
fn part_at(text: &str, secret: &str, cut: Cut) -> Option<usize> {
    let boundaries = secret.char_indices().map(|(at, _)| at).filter(|at| *at > 0);
    let length = match cut {
        Cut::None => None,
        Cut::Start => boundaries.map(|at| &secret[at..]).find(|part| text.starts_with(part)).map(str::len),
        Cut::End => boundaries.map(|at| &secret[..at]).rfind(|part| text.ends_with(part)).map(str::len),
    };
    length.filter(|length| *length >= MIN_PART_LEN)
}

/// Returns `true` for paths and numbers, which are not secrets, whatever their name.
fn is_plain(value: &str) -> bool {
    value.starts_with(['/', '~', '.']) || value.bytes().all(|byte| byte.is_ascii_digit())
}

fn without_scheme(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, rest)) if is_scheme(scheme) => rest.trim(),
        _ => value,
    }
}

/// Decodes a percent-encoded text.
#[must_use]
pub fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Cut, Redactor};

    fn with_secrets(secrets: &[&str]) -> Redactor {
        let redactor = Redactor::default();
        secrets.iter().for_each(|secret| redactor.add(secret));
        redactor
    }

    #[test]
    fn only_known_secrets_are_redacted() {
        let redactor = with_secrets(&["swordfish-1", "Bearer swordfish-1-longer", "short", "two\n\"lines\""]);
        let text = "a swordfish-1-longer, a swordfish-1, a short one, two\\n\\\"lines\\\"";
        assert_eq!(redactor.redact(text), "a ***, a ***, a short one, ***");
        assert!(matches!(redactor.redact("nothing"), std::borrow::Cow::Borrowed("nothing")));
        let mut value = json!({ "a": ["swordfish-1", 1], "swordfish-1": "b" });
        redactor.redact_value(&mut value);
        assert_eq!(value, json!({ "a": ["***", 1], "swordfish-1": "b" }));
        assert_eq!(format!("{redactor:?}"), "Redactor { secrets: 4 }");
    }

    #[test]
    fn values_are_added_by_name_and_form() {
        let redactor = Redactor::default();
        redactor.add_named("SSH_AUTH_SOCK", "/tmp/agent.1234");
        redactor.add_named("TOKEN_LIMIT", "1000000000");
        redactor.add_named("TENANT", "acme-corporation");
        redactor.add_named("DATABASE", "postgres://me:pass%20word1@db/x?ssl-key=certificate");
        redactor.add_named("MY_TOKEN", "tok-12345678");
        let text =
            "/tmp/agent.1234 1000000000 acme-corporation pass%20word1 pass word1 certificate tok-12345678";
        assert_eq!(redactor.redact(text), "/tmp/agent.1234 1000000000 acme-corporation *** *** *** ***");
    }

    #[test]
    fn values_of_secret_arguments_are_added() {
        let redactor = Redactor::default();
        let args =
            ["--token", "first-secret", "--key=second-secret", "--root", "not-a-secret", "KEY=third-secret"];
        redactor.add_args("npx", &args.map(str::to_owned));
        redactor.add_args("curl", &["-u", "me:fourth-secret", "db://x:fifth-secret@y"].map(str::to_owned));
        let text = "first-secret second-secret third-secret fourth-secret fifth-secret not-a-secret";
        assert_eq!(redactor.redact(text), "*** *** *** *** *** not-a-secret");
    }

    #[test]
    fn partial_secret_at_cut_is_masked() {
        let redactor = with_secrets(&["swordfish-1", "sworn-secret-é"]);
        let cut = |text, cut| redactor.redact_cut(text, cut).into_owned();
        assert_eq!(cut("fish-1, swordfish-1, sword", Cut::Start), "***, ***, sword");
        assert_eq!(cut("fish-1, swordfish-1, sword", Cut::End), "fish-1, ***, ***");
        assert_eq!(cut("fish-1, swordfish-1, sword", Cut::None), "fish-1, ***, sword");
        assert_eq!(cut("t-é is secret", Cut::Start), "*** is secret");
        assert_eq!(cut("-1 is short", Cut::Start), "-1 is short");
        assert_eq!(cut("sworn-secret-", Cut::End), "***");
    }

    #[test]
    fn bytes_are_redacted_around_non_text() {
        let redactor = with_secrets(&["swordfish-1"]);
        let data = b"fish-1\xff\0swordfish-1\xfefish-1";
        assert_eq!(redactor.redact_bytes(data, Cut::None), b"fish-1\xff\0***\xfefish-1");
        assert_eq!(redactor.redact_bytes(data, Cut::Start), b"***\xff\0***\xfefish-1");
    }

    #[test]
    fn lines_of_a_key_are_secrets() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nshort\n-----END KEY-----";
        let redactor = with_secrets(&[key]);
        assert_eq!(redactor.redact("a MIIEvQIBADANBgkqhkiG short"), "a *** short");
        assert_eq!(redactor.redact("-----BEGIN KEY-----"), "-----BEGIN KEY-----");
        assert_eq!(redactor.redact(key), "***");
    }
}
