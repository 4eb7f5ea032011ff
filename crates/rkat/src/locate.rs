//! Session references as users write them: an id, an id prefix, `last`, or `@N`. `~N` is also accepted, although shells
//! expand it.

use meerkat::{RealmId, Runtime, SessionId, SessionQuery};

use crate::error::CliError;

/// A session as written on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Locator {
    /// Realm, if one is named.
    pub(crate) realm: Option<String>,
    text: String,
}

/// Maximum number of sessions searched for an id prefix.
const MAX_SEARCHED: u64 = 100_000;

/// Length of an id.
const ID_LENGTH: usize = 36;
/// Length of the shortest id prefix that is unlikely to be a prompt.
const UNAMBIGUOUS_LENGTH: usize = 8;

/// Returns `true` if a word after `--resume` is a session and not a prompt.
pub(crate) fn is_reference(word: &str) -> bool {
    names_session(word, 1)
}

/// Returns `true` if a word is unambiguously a session and must not be sent to a model as a prompt.
pub(crate) fn is_clearly_reference(word: &str) -> bool {
    names_session(word, UNAMBIGUOUS_LENGTH)
}

fn names_session(word: &str, min_length: usize) -> bool {
    let id = match word.split_once(':') {
        Some((realm, id)) if RealmId::explicit(realm).is_ok() => id,
        Some(_) => return false,
        None => word,
    };
    steps_back(id).is_some() || (id.len() >= min_length && begins_id(id))
}

/// Returns the number of sessions before the last one that a word refers to.
fn steps_back(word: &str) -> Option<u64> {
    if word == "last" {
        return Some(0);
    }
    let digits = word.strip_prefix(['@', '~'])?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Returns `true` if a word can be an id prefix. Ids start with a timestamp, so every one contains a digit.
fn begins_id(word: &str) -> bool {
    let fits = |(index, byte): (usize, u8)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    word.len() <= ID_LENGTH
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().enumerate().all(fits)
}

impl Locator {
    pub(crate) fn parse(text: &str) -> Self {
        match text.split_once(':') {
            Some((realm, id)) => Self { realm: Some(realm.to_owned()), text: id.to_owned() },
            None => Self { realm: None, text: text.to_owned() },
        }
    }

    /// Finds the session.
    pub(crate) async fn find(&self, runtime: &Runtime) -> Result<SessionId, CliError> {
        if let Ok(id) = self.text.parse() {
            return Ok(id);
        }
        match steps_back(&self.text) {
            Some(back) => self.nth_last(runtime, back).await,
            None => self.by_prefix(runtime).await,
        }
    }

    async fn nth_last(&self, runtime: &Runtime, back: u64) -> Result<SessionId, CliError> {
        let query = SessionQuery { offset: back, limit: Some(1), ..SessionQuery::default() };
        let found = runtime.sessions().ids(query).await?;
        let (realm, text) = (runtime.realm().id(), &self.text);
        found.first().copied().ok_or_else(|| unknown(&format!("realm `{realm}` has no session `{text}`")))
    }

    async fn by_prefix(&self, runtime: &Runtime) -> Result<SessionId, CliError> {
        let archived = meerkat::ArchivedFilter::Included;
        let query = SessionQuery { archived, limit: Some(MAX_SEARCHED), ..SessionQuery::default() };
        let (text, prefix) = (&self.text, self.text.to_lowercase());
        let fits = |id: &SessionId| !text.is_empty() && id.to_string().starts_with(&prefix);
        let found: Vec<_> = runtime.sessions().ids(query).await?.into_iter().filter(fits).collect();
        match found.as_slice() {
            [id] => Ok(*id),
            [] => Err(unknown(&format!("no session id starts with `{text}`"))),
            several => {
                let ids: Vec<_> = several.iter().take(5).map(ToString::to_string).collect();
                let (count, ids) = (several.len(), ids.join(", "));
                Err(CliError::Usage(format!("{count} session ids start with `{text}`: {ids}")))
            }
        }
    }
}

fn unknown(what: &str) -> CliError {
    CliError::NoSession(format!("{what}; run `rkat session list` to see all sessions"))
}

#[cfg(test)]
mod tests {
    use super::{is_clearly_reference, is_reference};

    #[test]
    fn sessions_are_told_apart_from_prompts() {
        let clear = [
            "01a1ee8a-7b2c-7000-8000-000000000001",
            "team:01a1ee8a-7b2c-7000-8000-000000000001",
            "01A1EE8A-7b",
            "01a1ee8a",
            "last",
            "team:last",
            "@2",
            "~1",
        ];
        for word in clear {
            assert!(is_reference(word) && is_clearly_reference(word), "{word}");
        }
        for word in ["0", "01a", "42"] {
            assert!(is_reference(word) && !is_clearly_reference(word), "{word}");
        }
        let prompts =
            ["go on", "add", "face", "2026-11-18", "@home", "~/notes", "", "fix: 42", "x:", "@", "last one"];
        for word in prompts {
            assert!(!is_reference(word) && !is_clearly_reference(word), "{word}");
        }
    }
}
