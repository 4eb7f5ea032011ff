//! Skills extension: every skill with its frontmatter and files, and each file with its digest.

use meerkat::skills::view;
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, ExtensionCapabilities, JsonObject};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{SkillViews, blocking};
use crate::protocol::{Era, unknown_cursor};

/// Name of the extension.
const EXTENSION: &str = "io.modelcontextprotocol/skills";
/// Number of skills per page: each is read with all of its files.
const SKILLS_PAGE_SIZE: usize = 50;
/// Number of directory entries per page.
const ENTRIES_PAGE_SIZE: usize = 500;
/// Milliseconds for which a result may be cached: files change without notice.
const TTL_MS: u64 = 0;

#[derive(Default, Deserialize)]
struct Paged {
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    uri: String,
    cursor: Option<String>,
}

impl SkillViews {
    /// Declares the extension.
    pub(crate) fn extensions() -> ExtensionCapabilities {
        let mut settings = JsonObject::new();
        settings.insert("directoryRead".to_owned(), json!(true));
        ExtensionCapabilities::from([(EXTENSION.to_owned(), settings)])
    }

    /// Handles a method of the extension. Returns `None` for other methods.
    pub(crate) async fn handle_method(
        &self,
        method: &str,
        params: Option<Value>,
        era: Era,
    ) -> Option<Result<Value, ErrorData>> {
        let answer = match method {
            "skills/list" => self.list(params).await,
            "skills/get" => self.get(params).await,
            "resources/directory/read" => self.directory(params).await,
            _ => return None,
        };
        Some(answer.map(|answer| with_cache_hints(answer, era)))
    }

    async fn list(&self, params: Option<Value>) -> Result<Value, ErrorData> {
        let Paged { cursor } = params.map_or(Ok(Paged::default()), decode)?;
        let (snapshot, start) = (self.snapshot().await, start(cursor.as_deref())?);
        if start > snapshot.active().count() {
            return Err(unknown_cursor());
        }
        let page = blocking(move || Ok(view::manifests(&snapshot, start, SKILLS_PAGE_SIZE))).await;
        let (skills, next) = page.map_err(|error| invalid(&error))?;
        Ok(with_next_cursor(json!({ "skills": skills }), next))
    }

    async fn get(&self, params: Option<Value>) -> Result<Value, ErrorData> {
        let Named { uri, .. } = decode(params.unwrap_or_default())?;
        let snapshot = self.snapshot().await;
        let skill = blocking(move || view::manifest(&snapshot, &uri)).await;
        Ok(json!({ "skill": skill.map_err(|error| invalid(&error))? }))
    }

    async fn directory(&self, params: Option<Value>) -> Result<Value, ErrorData> {
        let Named { uri, cursor } = decode(params.unwrap_or_default())?;
        let (snapshot, start) = (self.snapshot().await, start(cursor.as_deref())?);
        let entries = blocking(move || view::directory(&snapshot, &uri)).await;
        let mut entries = entries.map_err(|error| invalid(&error))?;
        if start > entries.len() {
            return Err(unknown_cursor());
        }
        let mut entries = entries.split_off(start);
        let next = (entries.len() > ENTRIES_PAGE_SIZE).then_some(start + ENTRIES_PAGE_SIZE);
        entries.truncate(ENTRIES_PAGE_SIZE);
        Ok(with_next_cursor(json!({ "resources": entries }), next))
    }
}

fn start(cursor: Option<&str>) -> Result<usize, ErrorData> {
    cursor
        .filter(|cursor| !cursor.is_empty())
        .map_or(Ok(0), |cursor| cursor.parse().map_err(|_| unknown_cursor()))
}

fn with_next_cursor(mut answer: Value, next: Option<usize>) -> Value {
    if let Some(next) = next {
        answer["nextCursor"] = json!(next.to_string());
    }
    answer
}

/// Adds the result type and cache hints that newer revisions have.
fn with_cache_hints(mut answer: Value, era: Era) -> Value {
    if era == Era::Modern {
        answer["resultType"] = json!("complete");
        answer["ttlMs"] = json!(TTL_MS);
        answer["cacheScope"] = json!("private");
    }
    answer
}

fn decode<T: serde::de::DeserializeOwned>(params: Value) -> Result<T, ErrorData> {
    serde_json::from_value(params)
        .map_err(|error| ErrorData::invalid_params(format!("invalid params: {error}"), None))
}

fn invalid(error: &meerkat::skills::Error) -> ErrorData {
    ErrorData::new(ErrorCode::INVALID_PARAMS, error.to_string(), None)
}
