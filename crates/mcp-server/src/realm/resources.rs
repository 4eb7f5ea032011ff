//! Sessions and their transcripts as resources.

use std::borrow::Cow;
use std::sync::LazyLock;

use meerkat::operations::{Call, find};
use meerkat::{
    ArchivedFilter, Error, ErrorKind, RunControl, SessionQuery, SessionView, UnreadableSession, excerpt,
};
use rmcp::ErrorData;
use rmcp::model::{
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};
use serde_json::{Value, json};

use super::{RealmService, registry};
use crate::protocol::{Notifier, Page, Request, Resources};
use crate::skills::{SkillViews, templates};

const SCHEME: &str = "meerkat://session/";
const JSON: &str = "application/json";
/// Number of sessions per page of the list.
const PAGE_SIZE: u64 = 50;
/// Number of messages in a session document, and the default page size of a history.
const MESSAGES: u64 = 50;
/// Maximum number of sessions searched to complete an id.
const CANDIDATES: u64 = 1000;

static TEMPLATES: LazyLock<Vec<ResourceTemplate>> = LazyLock::new(|| {
    vec![
        ResourceTemplate::new(format!("{SCHEME}{{id}}"), "session")
            .with_title("A session")
            .with_description("A session's state and the first page of its history.")
            .with_mime_type(JSON),
        ResourceTemplate::new(format!("{SCHEME}{{id}}/history{{?offset,limit}}"), "history")
            .with_title("A page of a session's history")
            .with_description("Committed messages of a session, oldest first, starting at `offset`.")
            .with_mime_type(JSON),
    ]
});

/// Resource named by a URI.
#[derive(Debug, PartialEq, Eq)]
enum Named {
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

impl Resources for RealmService {
    async fn resources(&self, after: Option<String>) -> Result<Page<Resource>, ErrorData> {
        // Skills come first, then registered skills; the last page of those continues with sessions.
        let mut items = Vec::new();
        let after = match self.skill_page(after.as_deref()).await.transpose()? {
            Some(page) if page.next.is_some() => return Ok(page),
            Some(page) => {
                items = page.items;
                None
            }
            None => after,
        };
        let after = match self.registered_page(after.as_deref()).await.transpose()? {
            Some(page) => {
                items.extend(page.items);
                if page.next.is_some() {
                    return Ok(Page { items, next: page.next });
                }
                None
            }
            None => after,
        };
        let offset = after.map_or(Ok(0), |after| after.parse().map_err(|_| unknown_cursor()))?;
        if self.host.is_fresh() {
            return Ok(Page { items, next: None });
        }
        let mut entries = self.sessions(offset, PAGE_SIZE + 1).await.map_err(|error| failed(&error))?;
        let more = entries.len() as u64 > PAGE_SIZE;
        entries.truncate(usize::try_from(PAGE_SIZE).unwrap_or(usize::MAX));
        let next = more.then(|| (offset + PAGE_SIZE).to_string());
        items.extend(entries.iter().flatten().map(resource));
        Ok(Page { items, next })
    }

    fn templates(&self) -> Cow<'_, [ResourceTemplate]> {
        match self.skills {
            None => Cow::Owned(TEMPLATES.iter().chain(registry::templates()).cloned().collect()),
            Some(_) => Cow::Owned(
                TEMPLATES.iter().chain(templates()).chain(registry::templates()).cloned().collect(),
            ),
        }
    }

    async fn read(
        &self,
        read: ReadResourceRequestParams,
        _: Request,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = read.uri;
        if let Some(skills) = self.skills.as_ref().filter(|_| SkillViews::owns(&uri)) {
            self.refresh_registered().await;
            return Ok(skills.read(uri).await?.into());
        }
        if registry::owns(&uri) {
            return Ok(self.read_registered(uri).await?.into());
        }
        let Some(named) = parse(&uri).filter(|_| !self.host.is_fresh()) else { return Err(not_found(&uri)) };
        let document = self.document(named).await.map_err(|error| match error.kind() {
            ErrorKind::SessionNotFound | ErrorKind::InvalidParams => not_found(&uri),
            _ => failed(&error),
        })?;
        let contents = ResourceContents::text(document.to_string(), uri).with_mime_type(JSON);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

impl RealmService {
    async fn sessions(
        &self,
        offset: u64,
        limit: u64,
    ) -> Result<Vec<Result<SessionView, UnreadableSession>>, Error> {
        self.runtime().await?.sessions().list_each(live_sessions(offset, limit)).await
    }

    async fn document(&self, named: Named) -> Result<Value, Error> {
        match named {
            Named::Session(session) => {
                let state = self.ask("meerkat_read", json!({ "session_id": session })).await?;
                let history = json!({ "session_id": session, "offset": 0, "limit": MESSAGES });
                let history = self.ask("meerkat_history", history).await?;
                Ok(json!({ "session": state, "history": history }))
            }
            Named::History { session, offset, limit } => {
                let page = json!({ "session_id": session, "offset": offset, "limit": limit });
                self.ask("meerkat_history", page).await
            }
        }
    }

    pub(super) async fn ask(&self, operation: &str, arguments: Value) -> Result<Value, Error> {
        let found = find(operation).ok_or_else(|| Error::Internal(format!("no operation `{operation}`")))?;
        let call = Call { runtime: self.runtime().await?, control: RunControl::default() };
        Ok(found.call(call, arguments).await?.json)
    }

    /// Completes the session id in a template.
    pub(super) async fn session_ids(
        &self,
        template: &str,
        argument: &str,
        value: &str,
    ) -> Result<Vec<String>, ErrorData> {
        if !TEMPLATES.iter().any(|known| known.uri_template == template) {
            return Err(ErrorData::invalid_params(format!("unknown template `{}`", excerpt(template)), None));
        }
        if argument != "id" || self.host.is_fresh() {
            return Ok(Vec::new());
        }
        let runtime = self.runtime().await.map_err(|error| failed(&error))?;
        let ids = runtime.sessions().ids(live_sessions(0, CANDIDATES)).await;
        let ids = ids.map_err(|error| failed(&error))?.into_iter().map(|id| id.to_string());
        Ok(ids.filter(|id| id.starts_with(value)).collect())
    }
}

fn live_sessions(offset: u64, limit: u64) -> SessionQuery {
    SessionQuery { archived: ArchivedFilter::Hidden, offset, limit: Some(limit), ..SessionQuery::default() }
}

fn resource(view: &SessionView) -> Resource {
    let labels: Vec<_> = view.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut description =
        format!("{} messages, {}, changed {}", view.message_count, view.model, view.updated_at);
    if !labels.is_empty() {
        description = format!("{description}; {}", labels.join(", "));
    }
    Resource::new(format!("{SCHEME}{}", view.id), view.id.to_string())
        .with_title(format!("Session {}", view.id))
        .with_description(description)
        .with_mime_type(JSON)
}

fn parse(uri: &str) -> Option<Named> {
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

pub(super) fn unknown_cursor() -> ErrorData {
    ErrorData::invalid_params("the cursor is unknown; start again without one", None)
}

pub(super) fn not_found(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("unknown resource `{}`", excerpt(uri)), Some(json!({ "uri": uri })))
}

/// Builds the error of a failed request. Only the codes of JSON-RPC itself are used, because MCP assigns other meanings
/// to some of the codes that error kinds have elsewhere.
pub(super) fn failed(error: &Error) -> ErrorData {
    let body = serde_json::to_value(error.body()).unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidParams => ErrorData::invalid_params(error.to_string(), Some(body)),
        _ => ErrorData::internal_error(error.to_string(), Some(body)),
    }
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
