//! Skills from an HTTP server, with a cache for when the server is unavailable.
//!
//! `GET url` lists the skills, and `GET url/skills/NAME` returns the SKILL.md of one. The caller provides the HTTP
//! client.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use meerkat_core::BoxFuture;
use serde_json::Value;

use super::{Directory, Ignored, Limits, ScanCache, ScanResult, Source, redacted_url};
use crate::{Document, Error, FetchError, MAX_SKILL_BYTES, Provenance, Scope, SkillName, lock, path};

/// Maximum number of skills per server.
const MAX_SKILLS: usize = 2_000;
/// Maximum size of a list of skills, in bytes.
const MAX_CATALOG: usize = 4 * 1024 * 1024;

/// HTTP client.
pub trait Fetch: Send + Sync {
    /// Fetches the body of a URL, which must not be longer than `limit` bytes.
    fn get<'a>(
        &'a self,
        url: &'a str,
        headers: &'a [(String, String)],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<u8>, FetchError>>;
}

/// Options for a server.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpOptions {
    /// URL of the list.
    pub url: String,
    /// Headers of every request; they may contain secrets and are never shown.
    pub headers: Vec<(String, String)>,
    /// Timeout of a request.
    pub timeout: Duration,
    /// Directory for cached skills.
    pub cache: PathBuf,
}

/// An HTTP server of skills.
pub struct Http {
    provenance: Arc<Provenance>,
    options: HttpOptions,
    fetch: Arc<dyn Fetch>,
    dir: Directory,
    scans: Mutex<ScanCache>,
}

impl Http {
    /// Creates a source from a server. Skills fetched by an earlier process are served at once.
    #[must_use]
    pub fn new(provenance: Provenance, scope: Scope, options: HttpOptions, fetch: Arc<dyn Fetch>) -> Self {
        let dir = Directory::new(provenance.clone(), scope, options.cache.join("skills"), Limits::default());
        Self { provenance: Arc::new(provenance), options, fetch, dir, scans: Mutex::default() }
    }

    /// Fetches every skill. A failure is recorded as a problem, and the cached skills stay in use.
    ///
    /// # Errors
    /// Returns an error if the list cannot be fetched. A single skill that cannot be fetched keeps its cached text.
    pub async fn update(&self) -> Result<(), Error> {
        let outcome = self.update_cache().await;
        let reason = match &outcome {
            Ok(failed) if failed.is_empty() => None,
            Ok(failed) => Some(format!("these skills could not be fetched: {}", failed.join(", "))),
            Err(error) => Some(error.to_string()),
        };
        *lock(&self.scans) = ScanCache::after_update(&self.options.url, reason);
        outcome.map(|_| ())
    }

    async fn update_cache(&self) -> Result<Vec<String>, Error> {
        let names = self.names().await?;
        let cache = &self.options.cache;
        fs::create_dir_all(cache).map_err(Error::file("create", cache))?;
        let fresh = tempfile::Builder::new().prefix("fetch-").tempdir_in(cache);
        let fresh = fresh.map_err(Error::file("create a directory in", cache))?;
        let mut failed = Vec::new();
        for name in names {
            let dir = SkillName::nearest(&name);
            let document = match self.document(&name).await {
                Ok(document) => document,
                Err(_) => {
                    failed.push(name);
                    let cached = cache.join("skills").join(dir.as_str()).join("SKILL.md");
                    let Ok(cached) = fs::read(cached) else { continue };
                    cached
                }
            };
            let place = fresh.path().join(dir.as_str());
            fs::create_dir_all(&place).map_err(Error::file("create", &place))?;
            let file = place.join("SKILL.md");
            fs::write(&file, document).map_err(Error::file("write", &file))?;
        }
        let path = fresh.keep();
        crate::files::put_dir(&path, &cache.join("skills"))?;
        Ok(failed)
    }

    async fn names(&self) -> Result<BTreeSet<String>, Error> {
        let url = self.options.url.trim_end_matches('/').to_owned();
        let bytes = self.get(&url, MAX_CATALOG).await?;
        let refuse = |why: String| Error::BadCatalog { url: redacted_url(&url), why };
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| refuse(error.to_string()))?;
        let list = value.get("skills").unwrap_or(&value).as_array();
        let list = list.ok_or_else(|| refuse("it has no list `skills`".to_owned()))?;
        let name = |item: &Value| {
            let name = item.as_str().or_else(|| item.get("name").and_then(Value::as_str));
            let name = name.or_else(|| item.get("skill_name").and_then(Value::as_str))?;
            let usable = !name.trim().is_empty() && path::unusable_name(name).is_none();
            usable.then(|| name.to_owned())
        };
        if list.len() > MAX_SKILLS {
            return Err(refuse(format!("it has more than {MAX_SKILLS} skills")));
        }
        Ok(list.iter().filter_map(name).collect())
    }

    async fn document(&self, name: &str) -> Result<Vec<u8>, Error> {
        let url = format!("{}/skills/{}", self.options.url.trim_end_matches('/'), path::encoded(name));
        let bytes = self.get(&url, usize::try_from(MAX_SKILL_BYTES).unwrap_or(usize::MAX)).await?;
        let text = String::from_utf8_lossy(&bytes);
        let cached = PathBuf::from(redacted_url(&url));
        Document::read(&text).map_err(|source| Error::Broken { path: cached, source })?;
        Ok(bytes)
    }

    async fn get(&self, url: &str, limit: usize) -> Result<Vec<u8>, Error> {
        let seconds = self.options.timeout.as_secs();
        let response = self.fetch.get(url, &self.options.headers, limit);
        let response = tokio::time::timeout(self.options.timeout, response).await;
        let response = response.unwrap_or(Err(FetchError::TooSlow(seconds)));
        let response = response
            .and_then(|bytes| if bytes.len() > limit { Err(FetchError::TooLong(limit)) } else { Ok(bytes) });
        response.map_err(|source| Error::Fetch { url: redacted_url(url), source })
    }
}

impl Source for Http {
    fn provenance(&self) -> &Arc<Provenance> {
        &self.provenance
    }

    fn scan(&self) -> Arc<ScanResult> {
        let found = self.dir.scan();
        lock(&self.scans).add_problem(found)
    }

    fn ignored(&self) -> Vec<Ignored> {
        self.dir.ignored()
    }
}
