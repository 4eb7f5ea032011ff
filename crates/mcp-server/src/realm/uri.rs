//! URIs of sessions, and notifications for the clients that watch them.

use crate::protocol::Notifier;

/// Start of every URI of a session.
pub(super) const SCHEME: &str = "meerkat://session/";
/// Number of messages in a session document, and the default page size of a history.
pub(super) const MESSAGES: u64 = 50;

/// Resource named by a URI.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    Session(String),
    History { session: String, offset: u64, limit: u64 },
}

/// Notifies the watchers of a session, or of any page of its history, of a change.
pub(super) fn publish_update(notices: &Notifier, session: &str) {
    notices.publish_updates(|uri| {
        parse(uri).is_some_and(|named| match named {
            Named::Session(id) | Named::History { session: id, .. } => id == session,
        })
    });
}

/// Notifies the watchers of all sessions of a possible change.
pub(super) fn publish_all(notices: &Notifier) {
    notices.publish_updates(|uri| uri.starts_with(SCHEME));
}

/// Returns the resource that a URI names.
pub(super) fn parse(uri: &str) -> Option<Named> {
    let rest = uri.strip_prefix(SCHEME)?;
    let Some((session, path)) = rest.split_once('/') else {
        return (!rest.contains('?')).then(|| Named::Session(rest.to_owned()));
    };
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if path != "history" {
        return None;
    }
    let (mut offset, mut limit) = (0, MESSAGES);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=')? {
            ("offset", number) => offset = number.parse().ok()?,
            ("limit", number) => limit = number.parse().ok()?,
            _ => return None,
        }
    }
    Some(Named::History { session: session.to_owned(), offset, limit })
}

#[cfg(test)]
mod tests {
    use super::{MESSAGES, Named, parse};

    fn history(offset: u64, limit: u64) -> Option<Named> {
        Some(Named::History { session: "x".to_owned(), offset, limit })
    }

    #[test]
    fn uris_identify_sessions_and_pages() {
        assert_eq!(parse("meerkat://session/x"), Some(Named::Session("x".to_owned())));
        assert_eq!(parse("meerkat://session/x/history"), history(0, MESSAGES));
        assert_eq!(parse("meerkat://session/x/history?offset=7"), history(7, MESSAGES));
        assert_eq!(parse("meerkat://session/x/history?limit=3&offset=7"), history(7, 3));
    }

    #[test]
    fn other_uris_are_not_parsed() {
        for uri in [
            "meerkat://sessions/x",
            "file:///etc/passwd",
            "meerkat://session/x/blobs",
            "meerkat://session/x?offset=1",
            "meerkat://session/x/history?offset=-1",
            "meerkat://session/x/history?page=1",
            "meerkat://session/x/history?offset",
        ] {
            assert_eq!(parse(uri), None, "{uri}");
        }
    }
}
