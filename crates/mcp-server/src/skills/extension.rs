//! The skills extension: every skill with its head and its files, each file with its digest.

use meerkat::skill::view;
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, ExtensionCapabilities, JsonObject};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{SkillViews, blocking, unknown_cursor};
use crate::layer::Era;

/// The extension's name.
const EXTENSION: &str = "io.modelcontextprotocol/skills";
/// How many skills one page has: each is read with all of its files.
const SKILLS: usize = 50;
/// How many entries of a directory one page has.
const ENTRIES: usize = 500;
/// How long an answer may be kept, in milliseconds: files change without a word of the server's.
const FRESH: u64 = 0;

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

    /// Answers a method of the extension; `None` if it is another one.
    pub(crate) async fn extended(
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
        Some(answer.map(|answer| dated(answer, era)))
    }

    async fn list(&self, params: Option<Value>) -> Result<Value, ErrorData> {
        let Paged { cursor } = params.map_or(Ok(Paged::default()), decode)?;
        let (snapshot, start) = (self.snapshot().await, start(cursor.as_deref())?);
        if start > snapshot.active().count() {
            return Err(unknown_cursor());
        }
        let page = blocking(move || Ok(view::manifests(&snapshot, start, SKILLS))).await;
        let (skills, next) = page.map_err(|error| invalid(&error))?;
        Ok(paged(json!({ "skills": skills }), next))
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
        let next = (entries.len() > ENTRIES).then_some(start + ENTRIES);
        entries.truncate(ENTRIES);
        Ok(paged(json!({ "resources": entries }), next))
    }
}

fn start(cursor: Option<&str>) -> Result<usize, ErrorData> {
    cursor
        .filter(|cursor| !cursor.is_empty())
        .map_or(Ok(0), |cursor| cursor.parse().map_err(|_| unknown_cursor()))
}

fn paged(mut answer: Value, next: Option<usize>) -> Value {
    if let Some(next) = next {
        answer["nextCursor"] = json!(next.to_string());
    }
    answer
}

/// Results of newer revisions say that they are whole and how long they may be kept.
fn dated(mut answer: Value, era: Era) -> Value {
    if era == Era::Modern {
        answer["resultType"] = json!("complete");
        answer["ttlMs"] = json!(FRESH);
        answer["cacheScope"] = json!("private");
    }
    answer
}

fn decode<T: serde::de::DeserializeOwned>(params: Value) -> Result<T, ErrorData> {
    serde_json::from_value(params)
        .map_err(|error| ErrorData::invalid_params(format!("the params do not fit: {error}"), None))
}

fn invalid(error: &meerkat::skill::Error) -> ErrorData {
    ErrorData::new(ErrorCode::INVALID_PARAMS, error.to_string(), None)
}
