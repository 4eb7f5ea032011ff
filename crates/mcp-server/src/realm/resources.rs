//! Sessions and their transcripts as resources.

use std::sync::{Arc, LazyLock};

use meerkat::operations::{Call, find};
use meerkat::{ArchivedFilter, Error, ErrorKind, RunControl, SessionQuery, SessionView, excerpt};
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

use super::access::RuntimeAccess;
use super::errors::{failed, not_found};
use super::uri::{MESSAGES, Named, SCHEME, parse};
use crate::protocol::{Page, unknown_cursor};

const JSON: &str = "application/json";
/// Number of sessions per page of the list.
const PAGE_SIZE: u64 = 50;
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

/// Returns the URI templates of sessions.
pub(super) fn templates() -> &'static [ResourceTemplate] {
    &TEMPLATES
}

/// The realm's sessions as resources.
pub(super) struct SessionResources {
    access: Arc<RuntimeAccess>,
}

impl SessionResources {
    pub(super) fn new(access: Arc<RuntimeAccess>) -> Self {
        Self { access }
    }

    /// Returns one page of sessions: the first one, or the one after the cursor.
    pub(super) async fn page(&self, after: Option<&str>) -> Result<Page<Resource>, ErrorData> {
        let offset = after.map_or(Ok(0), |after| after.parse().map_err(|_| unknown_cursor()))?;
        if self.access.host().is_fresh() {
            return Ok(Page { items: Vec::new(), next: None });
        }
        let runtime = self.access.runtime().await.map_err(|error| failed(&error))?;
        let entries = runtime.sessions().list_each(live_sessions(offset, PAGE_SIZE + 1)).await;
        let mut entries = entries.map_err(|error| failed(&error))?;
        let more = entries.len() as u64 > PAGE_SIZE;
        entries.truncate(usize::try_from(PAGE_SIZE).unwrap_or(usize::MAX));
        let next = more.then(|| (offset + PAGE_SIZE).to_string());
        Ok(Page { items: entries.iter().flatten().map(resource).collect(), next })
    }

    /// Reads a session, or a page of its history.
    pub(super) async fn read(&self, uri: String) -> Result<ReadResourceResult, ErrorData> {
        let named = parse(&uri).filter(|_| !self.access.host().is_fresh());
        let Some(named) = named else { return Err(not_found(&uri)) };
        let document = self.document(named).await.map_err(|error| match error.kind() {
            ErrorKind::SessionNotFound | ErrorKind::InvalidParams => not_found(&uri),
            _ => failed(&error),
        })?;
        let contents = ResourceContents::text(document.to_string(), uri).with_mime_type(JSON);
        Ok(ReadResourceResult::new(vec![contents]))
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

    async fn ask(&self, operation: &str, arguments: Value) -> Result<Value, Error> {
        let found = find(operation).ok_or_else(|| Error::Internal(format!("no operation `{operation}`")))?;
        let call = Call { runtime: self.access.runtime().await?, control: RunControl::default() };
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
        if argument != "id" || self.access.host().is_fresh() {
            return Ok(Vec::new());
        }
        let runtime = self.access.runtime().await.map_err(|error| failed(&error))?;
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
