//! Taking secrets out of texts: one value knows those of a process, and every edge where text leaves asks it.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use crate::secret_args::secret_args;

/// Shorter values are found in too many innocent places to be taken out of texts.
const SHORTEST: usize = 8;
/// How many secrets are known at most; whoever has more than that made them up.
const MOST: usize = 4096;

/// The shortest line of a secret that is a secret by itself.
const SHORTEST_LINE: usize = 16;
/// The shortest part of a secret that is masked where a text was cut.
const SHORTEST_PART: usize = 4;

/// Which ends of a text are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// None: the text is complete.
    None,
    /// Its start.
    Start,
    /// Its end.
    End,
}

/// Knows the secrets of a process. All clones know the same.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Vec<String>>>);

impl Redactor {
    /// What stands for a secret.
    pub const MASK: &'static str = "***";

    /// Learns a secret. Of `Bearer x` it is the `x`; short values are not learned.
    pub fn learn(&self, secret: &str) {
        let secret = without_scheme(secret.trim());
        if secret.len() < SHORTEST {
            return;
        }
        self.keep(secret.to_owned());
        // Of a key in a file, a tool may show some lines.
        let lines = secret.lines().map(str::trim).filter(|_| secret.contains('\n'));
        let is_own = |line: &&str| line.len() >= SHORTEST_LINE && !line.starts_with("-----");
        lines.filter(is_own).for_each(|line| self.keep(line.to_owned()));
        // A secret with quotes or line ends looks different inside JSON.
        let quoted = Value::from(secret).to_string();
        let quoted = quoted[1..quoted.len() - 1].to_owned();
        if quoted != secret {
            self.keep(quoted);
        }
    }

    /// Learns a value if its name speaks of a secret, and the secrets of an address whatever its name is.
    pub fn learn_named(&self, name: &str, value: &str) {
        if value.contains("://") {
            self.learn_url(value);
        } else if speaks_of_secret(name) && !is_plain(value) {
            self.learn(value);
        }
    }

    /// Learns who asks, as an address says it, and the secrets of its query.
    pub fn learn_url(&self, url: &str) {
        let Some((_, rest)) = url.split_once("://") else { return };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let host = place.split('/').next().unwrap_or_default();
        if let Some((user, _)) = host.rsplit_once('@') {
            let (name, password) = user.split_once(':').unwrap_or(("", user));
            self.learn_encoded(password);
            // A name alone is no secret, unless it is what is asked with.
            if password.is_empty() {
                self.learn_encoded(name);
            }
        }
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            if speaks_of_secret(name) {
                self.learn_encoded(value);
            }
        }
    }

    /// Learns the secrets among the arguments of a command: values of options, variables, and headers that hold one,
    /// and those of addresses.
    pub fn learn_args(&self, command: &str, args: &[String]) {
        let words = args.iter().flat_map(|arg| arg.split_whitespace());
        words.filter(|word| word.contains("://")).for_each(|word| self.learn_url(word));
        for secret in secret_args(command, args) {
            let value = &args[secret.index][secret.range];
            if !is_plain(value) && !value.contains("://") {
                self.learn(value);
            }
        }
    }

    /// Learns every text of a value whose name speaks of a secret.
    pub fn learn_value(&self, value: &Value) {
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    match value {
                        Value::String(text) => self.learn_named(name, text),
                        other => self.learn_value(other),
                    }
                }
            }
            Value::Array(list) => list.iter().for_each(|value| self.learn_value(value)),
            _ => {}
        }
    }

    fn learn_encoded(&self, text: &str) {
        self.learn(text);
        let decoded = percent_decoded(text);
        if decoded != text {
            self.learn(&decoded);
        }
    }

    fn keep(&self, secret: String) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST && !known.contains(&secret) {
            // The longest first: one secret may be part of another.
            let place = known.partition_point(|other| other.len() >= secret.len());
            known.insert(place, secret);
        }
    }

    /// Takes the secrets out of a text.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().fold(Cow::Borrowed(text), |text, secret| match text.contains(secret.as_str()) {
            true => Cow::Owned(text.replace(secret.as_str(), Self::MASK)),
            false => text,
        })
    }

    /// Takes the secrets out of a text that was cut, and the part of a secret that is left at the cut.
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

    /// Takes the secrets out of bytes, as far as these are text.
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

    /// Takes the secrets out of every text of a value.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.redact_text(text),
            Value::Array(list) => list.iter_mut().for_each(|value| self.redact_value(value)),
            Value::Object(object) => object.values_mut().for_each(|value| self.redact_value(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Takes the secrets out of a text where it stands.
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

/// Returns how much of a secret is left where a text was cut.
fn part_at(text: &str, secret: &str, cut: Cut) -> Option<usize> {
    let boundaries = secret.char_indices().map(|(at, _)| at).filter(|at| *at > 0);
    let length = match cut {
        Cut::None => None,
        Cut::Start => boundaries.map(|at| &secret[at..]).find(|part| text.starts_with(part)).map(str::len),
        Cut::End => boundaries.map(|at| &secret[..at]).rfind(|part| text.ends_with(part)).map(str::len),
    };
    length.filter(|length| *length >= SHORTEST_PART)
}

/// Says whether a name speaks of a secret: that of a variable, a header, an option, a key.
#[must_use]
pub fn speaks_of_secret(name: &str) -> bool {
    const ANYWHERE: [&str; 6] = ["apikey", "credential", "passw", "privatekey", "secret", "token"];
    const FIRST: [&str; 6] = ["auth", "bearer", "cookie", "key", "pass", "pwd"];
    const LAST: [&str; 3] = ["key", "pass", "pwd"];
    const INNOCENT: [&str; 4] = ["bypass", "compass", "hotkey", "monkey"];
    let name = name.to_ascii_lowercase();
    let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    parts.any(|part| match part.strip_prefix("author") {
        Some(rest) => rest.starts_with("iz"),
        None => {
            part == "pat"
                || ANYWHERE.iter().any(|word| part.contains(word))
                || FIRST.iter().any(|word| part.starts_with(word))
                || LAST.iter().any(|word| part.ends_with(word)) && !INNOCENT.contains(&part)
        }
    })
}

/// Paths and numbers are no secrets, whatever they are called.
fn is_plain(value: &str) -> bool {
    value.starts_with(['/', '~', '.']) || value.bytes().all(|byte| byte.is_ascii_digit())
}

fn without_scheme(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, rest))
            if ["basic", "bearer", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) =>
        {
            rest.trim()
        }
        _ => value,
    }
}

/// Reads a percent-encoded text.
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

    use super::{Cut, Redactor, speaks_of_secret};

    fn knowing(secrets: &[&str]) -> Redactor {
        let redactor = Redactor::default();
        secrets.iter().for_each(|secret| redactor.learn(secret));
        redactor
    }

    #[test]
    fn what_was_learned_is_taken_out_and_nothing_else() {
        let redactor = knowing(&["swordfish-1", "Bearer swordfish-1-longer", "short", "two\n\"lines\""]);
        let text = "a swordfish-1-longer, a swordfish-1, a short one, two\\n\\\"lines\\\"";
        assert_eq!(redactor.redact(text), "a ***, a ***, a short one, ***");
        assert!(matches!(redactor.redact("nothing"), std::borrow::Cow::Borrowed("nothing")));
        let mut value = json!({ "a": ["swordfish-1", 1], "swordfish-1": "b" });
        redactor.redact_value(&mut value);
        assert_eq!(value, json!({ "a": ["***", 1], "swordfish-1": "b" }));
        assert_eq!(format!("{redactor:?}"), "Redactor { secrets: 4 }");
    }

    #[test]
    fn a_value_is_a_secret_by_its_name_and_its_look() {
        let secret = [
            "GITHUB_TOKEN",
            "X-Api-Key",
            "--api-key",
            "clientSecret",
            "DB_PASSWORD",
            "Authorization",
            "GH_PAT",
            "PGPASSWORD",
            "MYSQL_PWD",
            "SSHPASS",
            "REDISCLI_AUTH",
            "BORG_PASSPHRASE",
            "dbPass",
            "SIGNINGKEY",
        ];
        let plain = ["GIT_AUTHOR_NAME", "PATH", "HOME", "LANG", "--keep", "X-Tenant", "pattern", "--bypass"];
        assert_eq!(secret.map(speaks_of_secret), [true; 14]);
        assert_eq!(plain.map(speaks_of_secret), [false; 8]);
        let redactor = Redactor::default();
        redactor.learn_named("SSH_AUTH_SOCK", "/tmp/agent.1234");
        redactor.learn_named("TOKEN_LIMIT", "1000000000");
        redactor.learn_named("TENANT", "acme-corporation");
        redactor.learn_named("DATABASE", "postgres://me:pass%20word1@db/x?ssl-key=certificate");
        redactor.learn_named("MY_TOKEN", "tok-12345678");
        let text =
            "/tmp/agent.1234 1000000000 acme-corporation pass%20word1 pass word1 certificate tok-12345678";
        assert_eq!(redactor.redact(text), "/tmp/agent.1234 1000000000 acme-corporation *** *** *** ***");
    }

    #[test]
    fn arguments_that_follow_a_word_for_a_secret_are_learned() {
        let redactor = Redactor::default();
        let args =
            ["--token", "first-secret", "--key=second-secret", "--root", "not-a-secret", "KEY=third-secret"];
        redactor.learn_args("npx", &args.map(str::to_owned));
        redactor.learn_args("curl", &["-u", "me:fourth-secret", "db://x:fifth-secret@y"].map(str::to_owned));
        let text = "first-secret second-secret third-secret fourth-secret fifth-secret not-a-secret";
        assert_eq!(redactor.redact(text), "*** *** *** *** *** not-a-secret");
    }

    #[test]
    fn part_of_a_secret_at_a_cut_is_masked() {
        let redactor = knowing(&["swordfish-1", "sworn-secret-é"]);
        let cut = |text, cut| redactor.redact_cut(text, cut).into_owned();
        assert_eq!(cut("fish-1, swordfish-1, sword", Cut::Start), "***, ***, sword");
        assert_eq!(cut("fish-1, swordfish-1, sword", Cut::End), "fish-1, ***, ***");
        assert_eq!(cut("fish-1, swordfish-1, sword", Cut::None), "fish-1, ***, sword");
        assert_eq!(cut("t-é is secret", Cut::Start), "*** is secret");
        assert_eq!(cut("-1 is short", Cut::Start), "-1 is short");
        assert_eq!(cut("sworn-secret-", Cut::End), "***");
    }

    #[test]
    fn bytes_are_redacted_around_what_is_not_text() {
        let redactor = knowing(&["swordfish-1"]);
        let data = b"fish-1\xff\0swordfish-1\xfefish-1";
        assert_eq!(redactor.redact_bytes(data, Cut::None), b"fish-1\xff\0***\xfefish-1");
        assert_eq!(redactor.redact_bytes(data, Cut::Start), b"***\xff\0***\xfefish-1");
    }

    #[test]
    fn lines_of_a_key_are_secrets() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nshort\n-----END KEY-----";
        let redactor = knowing(&[key]);
        assert_eq!(redactor.redact("a MIIEvQIBADANBgkqhkiG short"), "a *** short");
        assert_eq!(redactor.redact("-----BEGIN KEY-----"), "-----BEGIN KEY-----");
        assert_eq!(redactor.redact(key), "***");
    }
}
